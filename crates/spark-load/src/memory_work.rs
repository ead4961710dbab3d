//! Reading and copying a device's memory.
//!
//! A kernel fills a piece with words that are known; another reads it, a sum a thread; the driver copies it within the device. The
//! copy is right if its words have the same sum, which the same kernel makes.

#![allow(unsafe_code, reason = "launches kernels")]

use spark_hal::doctor::load::{Results, Work};
use spark_mem::{Buffer, Device, Kernel, LaunchShape, Stream};

use crate::error::LoadError;
use crate::kernels::{self, FILL, SUM, Sum};
use crate::meter::{LONGEST_RUN, Piece, time_once};

const AGAINST: &str = "the sum of words that are known";
/// What is tried first.
const TRIAL_BYTES: usize = 1 << 20;

/// Memory of a device with words that are known, and what reads it.
pub(crate) struct Words {
    stream: Stream,
    words: Buffer<u32>,
    sums: Buffer<u32>,
    sum: Kernel<Sum>,
    shape: LaunchShape,
    n_words: u32,
}

impl Words {
    fn new(device: &Device, stream: &Stream, n_bytes: usize) -> Result<Self, LoadError> {
        // Whole groups of four words, which the kernels count in 32 bits.
        let n_words = u32::try_from(n_bytes / 16 * 4).unwrap_or(!3);
        let shape = kernels::grid(device.info().n_multiprocessors);
        let kind = device.private_kind();
        let mut words = device.buffer::<u32>(kind, n_words as usize)?;
        let sums = device.buffer::<u32>(kind, kernels::n_threads(shape))?;
        let fill = device.kernel(&FILL)?;
        // SAFETY: the kernel has these parameters, and writes the first `n_words` words, which there are.
        unsafe { fill.launch(stream, shape, (words.view_mut(), n_words)) }?;
        Ok(Self {
            stream: stream.clone(),
            words,
            sums,
            sum: device.kernel(&SUM)?,
            shape,
            n_words,
        })
    }

    fn queue_sum(&mut self) -> Result<(), LoadError> {
        let arguments = (self.sums.view_mut(), self.words.view(), self.n_words / 4);
        // SAFETY: the kernel has these parameters, reads `n_words / 4` groups of four words, which there are, and writes a sum
        // for each thread of `shape`, for which `sums` was made.
        unsafe { self.sum.launch(&self.stream, self.shape, arguments) }?;
        Ok(())
    }

    fn check_sum(&mut self) -> Result<Results, LoadError> {
        self.stream.fill_bytes(self.sums.view_mut(), 0xA5)?;
        self.queue_sum()?;
        let sums = self.sums.read(&self.stream)?;
        let got = sums.iter().fold(0, |sum: u32, one| sum.wrapping_add(*one));
        let want = kernels::sum_of_words(self.n_words);
        Ok(if got == want {
            Results::Right { against: AGAINST }
        } else {
            Results::Wrong {
                against: AGAINST,
                what: format!(
                    "the sum of {} words is {got:#010x} and not {want:#010x}",
                    self.n_words
                ),
            }
        })
    }
}

/// A kernel reads.
pub(crate) struct Reading(Words);

impl Reading {
    /// Of this many bytes, or of fewer where that takes long.
    pub(crate) fn new(device: &Device, stream: &Stream, n_bytes: usize) -> Result<Self, LoadError> {
        let n_bytes = bearable(n_bytes, |n_bytes| {
            Ok(Self(Words::new(device, stream, n_bytes)?))
        })?;
        Ok(Self(Words::new(device, stream, n_bytes)?))
    }
}

impl Piece for Reading {
    fn work(&self) -> Work {
        Work::Read
    }

    fn amount(&self) -> f64 {
        4e-9 * f64::from(self.0.n_words)
    }

    fn queue(&mut self) -> Result<(), LoadError> {
        self.0.queue_sum()
    }

    fn wait(&mut self) -> Result<(), LoadError> {
        Ok(self.0.stream.synchronize()?)
    }

    fn check(&mut self) -> Result<Results, LoadError> {
        self.0.check_sum()
    }
}

/// The driver copies.
pub(crate) struct Copying {
    from: Words,
    to: Words,
}

impl Copying {
    /// Of this many bytes, or of fewer where that takes long.
    pub(crate) fn new(device: &Device, stream: &Stream, n_bytes: usize) -> Result<Self, LoadError> {
        let make = |n_bytes| -> Result<Self, LoadError> {
            Ok(Self {
                from: Words::new(device, stream, n_bytes)?,
                to: Words::new(device, stream, n_bytes)?,
            })
        };
        let n_bytes = bearable(n_bytes, make)?;
        make(n_bytes)
    }
}

impl Piece for Copying {
    fn work(&self) -> Work {
        Work::Copy
    }

    /// Read and written.
    fn amount(&self) -> f64 {
        8e-9 * f64::from(self.from.n_words)
    }

    fn queue(&mut self) -> Result<(), LoadError> {
        let (from, to) = (self.from.words.view(), self.to.words.view_mut());
        Ok(self.from.stream.copy(from, to)?)
    }

    fn wait(&mut self) -> Result<(), LoadError> {
        Ok(self.from.stream.synchronize()?)
    }

    fn check(&mut self) -> Result<Results, LoadError> {
        self.from.stream.fill_bytes(self.to.words.view_mut(), 0)?;
        self.queue()?;
        self.to.check_sum()
    }
}

/// How many of `n_bytes` one run takes on without taking long, by a trial of few.
fn bearable<P: Piece>(
    n_bytes: usize,
    make: impl FnOnce(usize) -> Result<P, LoadError>,
) -> Result<usize, LoadError> {
    if n_bytes <= TRIAL_BYTES {
        return Ok(n_bytes);
    }
    let took = time_once(&mut make(TRIAL_BYTES)?)?;
    let mut n_bytes = n_bytes;
    while n_bytes > TRIAL_BYTES && took.mul_f64((n_bytes / TRIAL_BYTES) as f64) > LONGEST_RUN {
        n_bytes /= 2;
    }
    Ok(n_bytes)
}
