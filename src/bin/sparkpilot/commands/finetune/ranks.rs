//! A run that several processes share: who says and writes something, and whether all are of one mind.
//!
//! ```text
//! every rank   reads network and frames by itself ──lines──> all ranks: the same? ──no──> every one says what differs, and ends
//! rank 0       says what happens, has the folder; of a run that was begun it tells the others
//! ```

use std::error::Error;
use std::fmt::Arguments;

use sparkpilot::onnx::RunOptions;
use sparkpilot::shards::{Identity, Plan, Run as Lines};
use sparkpilot::train::{
    AdaptedNetwork, GradientExchange, Samples, Single, Sum, TrainError, Trainer, digest_of_all,
};

use super::data::{Material, described_heads};
use super::run::{Run, plain, usage};

/// The process among those of its run.
pub(crate) struct Ranks {
    exchange: Box<dyn GradientExchange>,
    sum: Sum,
    /// Lines of this process that must be the same in all, besides those of the run.
    own: Vec<(String, String)>,
    /// Threads that compute steps; all cores by default.
    threads: Option<usize>,
}

impl Ranks {
    /// A process by itself.
    pub(crate) fn single() -> Self {
        Self {
            exchange: Box::new(Single::new()),
            sum: Sum::InOrder,
            own: Vec::new(),
            threads: None,
        }
    }

    /// One of several, with what must be the same in all of them.
    #[allow(
        dead_code,
        reason = "of the program for several processes, which this file is a part of, too"
    )]
    pub(crate) fn new(
        exchange: Box<dyn GradientExchange>,
        sum: Sum,
        own: Vec<(String, String)>,
        threads: Option<usize>,
    ) -> Self {
        Self {
            exchange,
            sum,
            own,
            threads,
        }
    }

    /// How steps are run.
    pub(crate) fn options(&self) -> RunOptions {
        match self.threads {
            None => RunOptions::new(),
            Some(n) => RunOptions::new().with_threads(n),
        }
    }

    /// How many there are, and whether sums are fast; nothing for a process by itself.
    pub(crate) fn launched(&self) -> Option<(usize, bool)> {
        let n = self.exchange.size();
        (n > 1).then_some((n, self.sum == Sum::Fast))
    }

    pub(crate) fn voice(&self) -> Voice {
        Voice {
            is_first: self.exchange.rank() == 0,
        }
    }

    /// What rank 0 gives, on all ranks.
    pub(crate) fn share(&mut self, of_the_first: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
        self.exchange.share(of_the_first).map_err(plain)
    }

    /// Refuses parts of a step that these ranks cannot have as many of.
    pub(crate) fn check(&self, run: &Run) -> Result<(), Box<dyn Error>> {
        let (n_ranks, n_batches) = (self.exchange.size(), run.options.virtual_shards());
        match n_batches.is_multiple_of(n_ranks) {
            true => Ok(()),
            false => usage(&format!(
                "--virtual-shards: {}",
                TrainError::Ranks { n_ranks, n_batches }
            )),
        }
    }

    /// Refuses a run that is not the same on all ranks, before anything is written. A process by itself has nobody to ask.
    pub(crate) fn agree(
        &mut self,
        run: &Run,
        material: &Material,
        network: &AdaptedNetwork,
    ) -> Result<(), Box<dyn Error>> {
        if self.exchange.size() == 1 {
            return Ok(());
        }
        let mut lines = self.own.clone();
        lines.push((Sum::SETTING.to_owned(), format!("{:?}", self.sum)));
        let told = run.options.lines()?.into_iter();
        // What was read stands below, and not what a run that was begun had read.
        lines.extend(told.filter(|(name, _)| name != "frames" && name != "network"));
        let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
        add("network", network.fingerprint());
        add("adapter as it begins", network.fingerprint_of_variables()?);
        add("heads", described_heads(&material.heads));
        let frames: [(&str, &dyn Samples); 2] = [
            ("frames", &material.training()),
            ("frames held back", &material.held_back()),
        ];
        for (name, frames) in frames {
            add(name, digest_of_all(frames)?);
        }
        let own = serde_json::to_vec(&lines)?;
        let all = self.exchange.gather(&own).map_err(plain)?;
        let plan = Plan::new(run.options.virtual_shards() as u64, 1)?;
        let as_run = |lines: Vec<(String, String)>| {
            let identity = Identity::new("training on several ranks");
            let with = |all: Identity, (name, value)| all.with(name, value);
            let identity = lines.into_iter().fold(identity, with);
            Lines { identity, plan }
        };
        let (rank, own) = (self.exchange.rank(), as_run(lines));
        for (other, bytes) in all.iter().enumerate() {
            let there = serde_json::from_slice(bytes)?;
            let differences = own.differences(&as_run(there));
            if !differences.is_empty() {
                return Err(format!(
                    "rank {rank} is here, rank {other} there, and their runs are not the same ({differences})"
                )
                .into());
            }
        }
        Ok(())
    }

    /// Gives the trainer the way to the others.
    pub(crate) fn joined(self, trainer: Trainer<'_>) -> Result<Trainer<'_>, TrainError> {
        trainer.with_exchange(self.exchange, self.sum)
    }
}

/// Whether a process speaks and writes: rank 0 does.
#[derive(Clone, Copy)]
pub(crate) struct Voice {
    pub(crate) is_first: bool,
}

impl Voice {
    pub(crate) fn say(self, line: Arguments<'_>) {
        if self.is_first {
            println!("{line}");
        }
    }
}
