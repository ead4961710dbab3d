//! Multiplications and additions in registers, on all lanes of a device.

#![allow(unsafe_code, reason = "launches kernels")]

use spark_hal::doctor::load::{Results, Work};
use spark_mem::{Buffer, Device, Kernel, LaunchShape, Stream};

use crate::error::LoadError;
use crate::kernels::{self, ARITHMETIC, CHAINS, FACTOR, SUMMAND};
use crate::meter::{LONGEST_RUN, Piece, time_once};

const AGAINST: &str = "the same steps on the CPU, bit for bit";
/// Steps of a chain in one run, on a device that is fast enough: a launch is nothing beside them.
const ROUNDS: u32 = 1 << 14;
const FIRST_ROUNDS: u32 = 1 << 4;
/// Threads whose results the CPU repeats.
const N_CHECKED: usize = 16;

/// The work, ready to be queued.
pub(crate) struct Chains {
    stream: Stream,
    out: Buffer<f32>,
    kernel: Kernel<kernels::Arithmetic>,
    shape: LaunchShape,
    rounds: u32,
}

impl Chains {
    /// Of as many steps as do not take long.
    pub(crate) fn new(device: &Device, stream: &Stream) -> Result<Self, LoadError> {
        let shape = kernels::grid(device.info().n_multiprocessors);
        let mut chains = Self::of(device, stream, shape, FIRST_ROUNDS)?;
        while chains.rounds < ROUNDS {
            let took = time_once(&mut chains)?;
            if took.saturating_mul(4) > LONGEST_RUN {
                break;
            }
            chains.rounds *= 4;
        }
        chains.rounds = chains.rounds.min(ROUNDS);
        Ok(chains)
    }

    /// Of a grid and a number of steps.
    pub(crate) fn of(
        device: &Device,
        stream: &Stream,
        shape: LaunchShape,
        rounds: u32,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            stream: stream.clone(),
            out: device.buffer(device.private_kind(), kernels::n_threads(shape))?,
            kernel: device.kernel(&ARITHMETIC)?,
            shape,
            rounds,
        })
    }
}

impl Piece for Chains {
    fn work(&self) -> Work {
        Work::Arithmetic
    }

    fn amount(&self) -> f64 {
        2e-12 * kernels::n_threads(self.shape) as f64 * f64::from(CHAINS) * f64::from(self.rounds)
    }

    fn queue(&mut self) -> Result<(), LoadError> {
        let arguments = (self.out.view_mut(), FACTOR, SUMMAND, self.rounds);
        // SAFETY: the kernel has these parameters, and writes a value for each thread of `shape`, for which `out` was made.
        unsafe { self.kernel.launch(&self.stream, self.shape, arguments) }?;
        Ok(())
    }

    fn wait(&mut self) -> Result<(), LoadError> {
        Ok(self.stream.synchronize()?)
    }

    fn check(&mut self) -> Result<Results, LoadError> {
        self.stream.fill_bytes(self.out.view_mut(), 0xFF)?;
        self.queue()?;
        let out = self.out.read(&self.stream)?;
        let step = (out.len() / N_CHECKED).max(1);
        // One more: not always the same lane of a warp.
        let threads = (0..out.len()).step_by(step + 1);
        for thread in threads {
            let want = kernels::chains(thread as u32, FACTOR, SUMMAND, self.rounds);
            let got = out[thread];
            if got.to_bits() != want.to_bits() {
                let what = format!("thread {thread} has {got:e} and not {want:e}");
                return Ok(Results::Wrong {
                    against: AGAINST,
                    what,
                });
            }
        }
        Ok(Results::Right { against: AGAINST })
    }
}
