//! Samples on the disk: written one after the other, read by number.
//!
//! ```text
//! file     [sample 0][sample 1] ..       all of one size, without a name in its folder: it goes with the process
//! sample   the elements of every input and target, little-endian, in the order of the first sample
//! ```
//!
//! Pictures of an hour are more than memory holds; a step needs a handful of them. What was read lately the system keeps in memory that
//! nothing else wants.
//!
//! Deliberately absent: files that outlive the process, and checksums: nobody else can write to the file.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::samples::{Sample, Samples};
use crate::error::{Result, TrainError};
use crate::layout::{self, Layout};

/// What writes samples to a file of a folder.
#[derive(Debug)]
pub struct SampleWriter {
    folder: PathBuf,
    file: BufWriter<File>,
    layout: Option<Layout>,
    n: usize,
    /// Whether part of a sample may be in the file.
    has_failed: bool,
}

impl SampleWriter {
    /// A file without a name in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`TrainError::Io`] naming the folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let io = |source| TrainError::Io {
            path: folder.to_owned(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(io)?;
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(folder).map_err(io)?),
            folder: folder.to_owned(),
            layout: None,
            n: 0,
            has_failed: false,
        })
    }

    /// Writes the next sample.
    ///
    /// # Errors
    ///
    /// [`TrainError::UnlikeSamples`] for one whose inputs and targets are not those of the first; [`TrainError::Io`] naming the folder, and
    /// after one no other sample is taken.
    pub fn push(&mut self, sample: &Sample) -> Result<()> {
        if self.has_failed {
            return Err(self.io(io::Error::other("a sample before could not be written")));
        }
        let groups = sample.groups();
        Layout::hold_against(&mut self.layout, &groups, self.n)?;
        let written = layout::write(&groups, &mut self.file);
        self.has_failed = written.is_err();
        written.map_err(|source| self.io(source))?;
        self.n += 1;
        Ok(())
    }

    /// The samples that were written.
    ///
    /// # Errors
    ///
    /// [`TrainError::Io`] naming the folder.
    pub fn finish(self) -> Result<StoredSamples> {
        let folder = self.folder;
        let file = self.file.into_inner().map_err(|error| TrainError::Io {
            path: folder.clone(),
            source: error.into_error(),
        })?;
        Ok(StoredSamples {
            folder,
            file: Mutex::new(file),
            layout: self.layout.unwrap_or_default(),
            n: self.n,
        })
    }

    fn io(&self, source: io::Error) -> TrainError {
        TrainError::Io {
            path: self.folder.clone(),
            source,
        }
    }
}

/// Samples in a file that goes with them.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::Tensor;
/// use spark_train::{Sample, SampleWriter, Samples};
///
/// let mut writer = SampleWriter::new(&std::env::temp_dir())?;
/// for n in 0..3 {
///     let x = Tensor::from_f32([1, 2], vec![n as f32, 0.5])?;
///     writer.push(&Sample { inputs: vec![("x".into(), x)], targets: Vec::new() })?;
/// }
/// let samples = writer.finish()?;
/// assert_eq!(samples.len(), 3);
/// assert_eq!(samples.sample(2)?.inputs[0].1.to_f32(), [2.0, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct StoredSamples {
    folder: PathBuf,
    file: Mutex<File>,
    layout: Layout,
    n: usize,
}

impl StoredSamples {
    /// Bytes in the file.
    pub fn size_bytes(&self) -> u64 {
        self.n as u64 * self.layout.bytes() as u64
    }

    fn read(&self, index: usize) -> io::Result<Sample> {
        let mut bytes = vec![0; self.layout.bytes()];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(index as u64 * bytes.len() as u64))?;
            file.read_exact(&mut bytes)?;
        }
        let groups = self.layout.record(&bytes).map_err(io::Error::other)?;
        Sample::of_groups(groups).ok_or_else(|| io::Error::other("it is no sample"))
    }
}

impl Samples for StoredSamples {
    fn len(&self) -> usize {
        self.n
    }

    fn sample(&self, index: usize) -> std::result::Result<Sample, Box<dyn Error + Send + Sync>> {
        if index >= self.n {
            return Err(format!("there are {} samples", self.n).into());
        }
        let path = self.folder.clone();
        self.read(index)
            .map_err(|source| TrainError::Io { path, source }.into())
    }
}

/// Neighbouring samples of others.
#[derive(Clone)]
pub struct SampleRange<'s> {
    samples: &'s dyn Samples,
    range: Range<usize>,
}

impl std::fmt::Debug for SampleRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SampleRange").field(&self.range).finish()
    }
}

impl<'s> SampleRange<'s> {
    /// Those of `samples` with numbers in `range`, as far as there are any.
    pub fn new(samples: &'s dyn Samples, range: Range<usize>) -> Self {
        let end = range.end.min(samples.len());
        let range = range.start.min(end)..end;
        Self { samples, range }
    }
}

impl Samples for SampleRange<'_> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn sample(&self, index: usize) -> std::result::Result<Sample, Box<dyn Error + Send + Sync>> {
        if index >= self.len() {
            return Err(format!("there are {} samples", self.len()).into());
        }
        self.samples.sample(self.range.start + index)
    }
}
