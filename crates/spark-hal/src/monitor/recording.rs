//! What was seen while watching.

use super::export;
use super::sample::Sample;
use super::summary::Summary;

/// What a monitor saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Recording {
    /// Samples in the order they were taken.
    pub samples: Vec<Sample>,
    /// Older samples that the buffer had no room for.
    pub n_dropped: u64,
}

impl Recording {
    /// Statistics of one GPU.
    #[must_use]
    pub fn summary(&self, gpu: u32) -> Summary {
        Summary::of(self.samples.iter().filter(|sample| sample.gpu == gpu))
    }

    /// Comma-separated values with a header; an unknown value is an empty cell, and the
    /// last column tells what failed.
    #[must_use]
    pub fn to_csv(&self) -> String {
        export::csv(&self.samples)
    }

    /// One JSON object per line.
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        self.samples
            .iter()
            .map(|sample| sample.to_json() + "\n")
            .collect()
    }
}
