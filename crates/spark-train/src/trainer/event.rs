//! What a run of training tells while it goes on.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A step was made.
    Step {
        /// Its number, the first being 1.
        step: u64,
        /// Steps that the run has in all.
        total: u64,
        /// Its epoch, the first being 0.
        epoch: u64,
        /// The loss before it, the mean over the batch.
        loss: f64,
        /// By head, unweighted.
        parts: Vec<(String, f64)>,
        /// Learning rate of A.
        rate: f64,
        /// Length of the gradients, before they were bounded.
        norm: f64,
        /// Samples for each second, of this step.
        samples_per_second: f64,
        /// Which part of this step's time was spent waiting for its samples, 0 to 1.
        waiting: f64,
        /// Until the end, by the mean of the steps so far.
        remaining: Duration,
    },
    /// A step was not made, because its loss or its gradients were no finite numbers.
    Skipped {
        /// Its number.
        step: u64,
        /// The loss.
        loss: f64,
        /// Steps in a row that were not made, this one among them.
        in_a_row: u32,
    },
    /// A step's gradients were added in the fastest order, and also in that of the batches: the first steps of a run that does so.
    FastSum {
        /// Its number.
        step: u64,
        /// The length of the difference, as a part of that of the sum in order.
        deviation: f64,
    },
    /// An epoch has ended.
    Epoch {
        /// Its number, the first being 0.
        epoch: u64,
        /// Mean loss of its steps.
        training: f64,
        /// Mean loss of the samples held back, if there are any.
        validation: Option<f64>,
        /// Whether nothing before was as good.
        is_best: bool,
    },
    /// A checkpoint was written.
    Saved {
        /// After this step.
        step: u64,
        /// Its folder.
        folder: PathBuf,
    },
    /// A checkpoint was passed over on resuming, because it is damaged.
    Damaged {
        /// Its folder.
        folder: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// With the next step.
    On,
    /// No further: what was learnt is saved, and the run ends well.
    Stop,
}

/// Who is told, and may end the run.
pub trait Observer {
    /// Called for everything that happens, on the thread that trains.
    fn event(&mut self, event: &Event) -> Go;
}

impl<F: FnMut(&Event) -> Go> Observer for F {
    fn event(&mut self, event: &Event) -> Go {
        self(event)
    }
}
