//! Samples of one chunk as bytes, with what was left out beside them.
//!
//! ```text
//! left out: u32, each:  name: u32 and so many bytes of UTF-8, frames: u64      0 frames: all of it, unseen
//! samples                                                                      as `packed` has records: inputs, targets
//! ```
//!
//! What two processes pack of the same frames is the same, byte for byte.

use std::error::Error;

use super::samples::{Sample, Samples};
use crate::error::{Result, TrainError};
use crate::packed::{Packed, Packer, Rest, VERSION, add_text, add_u32, add_u64};

/// The format of [`SamplePacker::into_bytes`]. Programs read their own alone.
pub const SAMPLES_FORMAT: u32 = VERSION;

/// Most things that are left out of one chunk: videos and logs of a folder are fewer.
const MOST_LEFT_OUT: u32 = 1 << 20;

/// Something that gave no samples, or fewer than it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What it is called.
    pub name: String,
    /// Frames that are missing of it here; 0 where nobody knows how many there are.
    pub n_frames: u64,
}

/// What puts samples together as bytes that another process reads as [`PackedSamples`].
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::Tensor;
/// use spark_train::{PackedSamples, Sample, SamplePacker, Samples};
///
/// let x = Tensor::from_f32([1, 2], vec![1.0, 0.5])?;
/// let sample = Sample { inputs: vec![("x".into(), x)], targets: Vec::new() };
/// let mut packer = SamplePacker::default();
/// packer.push(&sample)?;
/// packer.leave_out("a.ts");
/// let samples = PackedSamples::from_bytes(&packer.into_bytes())?;
/// assert_eq!(samples.sample(0)?, sample);
/// assert_eq!(samples.left_out()[0].n_frames, 1);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, Default)]
pub struct SamplePacker {
    packer: Packer,
    left_out: Vec<LeftOut>,
}

impl SamplePacker {
    /// Adds a sample.
    ///
    /// # Errors
    ///
    /// [`TrainError::UnlikeSamples`] for one whose inputs and targets are not those of the first.
    pub fn push(&mut self, sample: &Sample) -> Result<()> {
        self.packer.push(&sample.groups())
    }

    /// Notes that a frame of `name` has no sample.
    pub fn leave_out(&mut self, name: &str) {
        self.note(name).n_frames += 1;
    }

    /// Notes that `name` was not read at all.
    pub fn leave_out_unseen(&mut self, name: &str) {
        self.note(name);
    }

    fn note(&mut self, name: &str) -> &mut LeftOut {
        let known = self.left_out.iter().position(|it| it.name == name);
        let place = known.unwrap_or(self.left_out.len());
        if known.is_none() {
            self.left_out.push(LeftOut {
                name: name.to_owned(),
                n_frames: 0,
            });
        }
        &mut self.left_out[place]
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.packer.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the samples.
    pub fn n_bytes(&self) -> u64 {
        self.packer.n_bytes() as u64
    }

    /// All of it as bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.packer.n_bytes() + 4096);
        add_u32(&mut bytes, self.left_out.len() as u32);
        for it in &self.left_out {
            add_text(&mut bytes, &it.name);
            add_u64(&mut bytes, it.n_frames);
        }
        self.packer.append_to(&mut bytes);
        bytes
    }
}

/// Samples that a [`SamplePacker`] put together; each is made when it is asked for.
#[derive(Debug)]
pub struct PackedSamples {
    packed: Packed,
    left_out: Vec<LeftOut>,
}

impl PackedSamples {
    /// Reads bytes that may be anybody's.
    ///
    /// # Errors
    ///
    /// [`TrainError::Packed`] for bytes that no [`SamplePacker`] gives.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = Rest(bytes);
        let mut left_out = Vec::new();
        let what = "number of what is left out";
        let n_left_out = rest.u32(what)?;
        if n_left_out > MOST_LEFT_OUT {
            return Err(TrainError::Packed { what });
        }
        for _ in 0..n_left_out {
            left_out.push(LeftOut {
                name: rest.text("name")?.to_owned(),
                n_frames: rest.u64("number of frames")?,
            });
        }
        let packed = Packed::read(rest)?;
        if packed.len() > 0 && packed.n_groups() != 2 {
            let what = "number of groups";
            return Err(TrainError::Packed { what });
        }
        Ok(Self { packed, left_out })
    }

    /// What was left out, in the order in which it was.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}

impl Samples for PackedSamples {
    fn len(&self) -> usize {
        self.packed.len()
    }

    fn sample(&self, index: usize) -> std::result::Result<Sample, Box<dyn Error + Send + Sync>> {
        if index >= self.len() {
            return Err(format!("there are {} samples", self.len()).into());
        }
        let sample = Sample::of_groups(self.packed.record(index)?);
        Ok(sample.ok_or(TrainError::Packed { what: "sample" })?)
    }
}
