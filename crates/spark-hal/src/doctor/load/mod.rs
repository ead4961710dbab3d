//! What a machine did under load: rates of work whose results were checked, and what its GPU said meanwhile.
//!
//! ```text
//! spark-load runs it ──> Load ──> Facts::load ──> checks `load.*`: verdicts
//!                                          └───> Report::load: the figures themselves
//! ```
//!
//! Plain data: nothing is started here. Which rates are those of a healthy machine stands with the checks
//! (`doctor/checks/load`); a rate for which nobody has published one is shown and not judged.

mod render;

use std::time::Duration;

pub use crate::spread::Spread as Rate;

use crate::capability::ComputeCapability;
use crate::nvml::GpuSample;
use crate::precision::Precision;

/// A figure with this many digits behind the point; a large one as a power of ten, so that no text grows with it.
pub(crate) fn in_digits(value: f64, digits: usize) -> String {
    if value.abs() < LARGE {
        format!("{value:.digits$}")
    } else {
        format!("{value:.digits$e}")
    }
}

/// Above what anything here measures.
const LARGE: f64 = 1e9;

/// What was measured under load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// How long it was to take.
    pub asked: Duration,
    /// How long it took.
    pub took: Duration,
    /// Whether it was ended before it was over.
    pub is_partial: bool,
    /// The processors and their memory.
    pub host: HostLoad,
    /// The GPU, or why none was loaded.
    pub gpu: Result<GpuLoad, String>,
}

/// Rates of the processors.
#[derive(Debug, Clone, PartialEq)]
pub struct HostLoad {
    /// Threads that worked together.
    pub n_threads: usize,
    /// The instruction set that multiplied.
    pub instructions: String,
    /// What all threads read of memory, in 10^9 bytes a second.
    pub read_gb_per_s: Option<Rate>,
    /// What one thread copied in memory, in 10^9 bytes a second: each byte is counted once.
    pub copy_by_one_gb_per_s: Option<Rate>,
    /// Products of small matrices of f32 on all threads, in 10^9 operations a second.
    pub gflops: Option<Rate>,
}

/// What a GPU did.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuLoad {
    /// Its name, from the driver.
    pub name: String,
    /// Its compute capability.
    pub compute: Option<ComputeCapability>,
    /// How many multiprocessors it has.
    pub n_multiprocessors: u32,
    /// A look at it before anything was started.
    pub before: Option<GpuSample>,
    /// The pieces of work, in the order in which they were done.
    pub phases: Vec<Phase>,
    /// Why the rest was not done.
    pub failure: Option<String>,
}

/// One piece of work, done over and over.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// What was done.
    pub work: Work,
    /// How long.
    pub took: Duration,
    /// How fast, in the unit of [`Work::unit`]; of the second half, as clocks rise at the beginning.
    pub rate: Rate,
    /// What results were held against, and whether one was wrong.
    pub results: Results,
    /// Looks at the GPU in the second half.
    pub samples: Vec<GpuSample>,
}

/// What a GPU is made to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A kernel reads its memory, 16 bytes a thread and turn.
    Read,
    /// The driver copies within its memory; bytes read and bytes written are counted.
    Copy,
    /// Multiplications and additions of f32 in registers, on all lanes: memory plays no part.
    Arithmetic,
    /// A product of matrices on tensor cores, by the kernel of `spark-quant`, which nobody has tuned.
    Product {
        /// Format of both operands.
        precision: Precision,
        /// Rows of the left one; few as in a network that runs for one frame, or many.
        rows: usize,
        /// Columns of the right one.
        columns: usize,
        /// Values that are multiplied for a result.
        depth: usize,
    },
}

impl Work {
    /// What its rates count.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Read | Self::Copy => "GB/s",
            Self::Arithmetic | Self::Product { .. } => "TFLOPS",
        }
    }
}

/// What became of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Results {
    /// Held against this, and right.
    Right {
        /// What they were held against.
        against: &'static str,
    },
    /// One was not what it should be.
    Wrong {
        /// What they were held against.
        against: &'static str,
        /// Which one, what it was and what it should be.
        what: String,
    },
}

impl GpuLoad {
    /// The last phase with this work.
    #[must_use]
    pub fn phase(&self, work: Work) -> Option<&Phase> {
        self.phases.iter().rev().find(|phase| phase.work == work)
    }

    /// Every product that was measured.
    pub(crate) fn products(&self) -> impl Iterator<Item = (&Phase, Precision, [usize; 3])> {
        self.phases.iter().filter_map(|phase| match phase.work {
            Work::Product {
                precision,
                rows,
                columns,
                depth,
            } => Some((phase, precision, [rows, columns, depth])),
            _ => None,
        })
    }

    /// Whether FP4 was faster than every other format in all shapes that were measured in it and in another, and by
    /// how much at least; `None` where that was not measured. A tenth counts as faster.
    #[must_use]
    pub fn fp4_gain(&self) -> Option<f64> {
        let of_fp4 = self
            .products()
            .filter(|(_, precision, _)| *precision == Precision::Fp4);
        let mut least: Option<f64> = None;
        for (fp4, _, shape) in of_fp4 {
            let others = self.products().filter(|(_, precision, of_other)| {
                *precision != Precision::Fp4 && *of_other == shape
            });
            let best = others.map(|(other, ..)| other.rate.median);
            let best = best.max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
            let gain = fp4.rate.median / best;
            least = Some(least.map_or(gain, |least| least.min(gain)));
        }
        least
    }
}
