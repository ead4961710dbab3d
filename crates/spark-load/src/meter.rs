//! A piece of work, done over and over, and timed.
//!
//! ```text
//! once, waited for                          pages, code
//! n times queued, then waited for           n doubled until that takes a fiftieth of a second
//!   ... for its share of the time           a rate each; those of the second half count
//! once more into cleared memory             results held against what is known
//! ```

use std::time::{Duration, Instant};

use spark_hal::doctor::load::{Phase, Rate, Results, Work};

use crate::error::LoadError;
use crate::watch::Watch;

/// What is waited for at once: long against a launch, short against a second.
const BATCH: Duration = Duration::from_millis(20);
const MOST_RUNS: u32 = 1 << 16;

/// Work on a device.
pub(crate) trait Piece {
    /// What it is.
    fn work(&self) -> Work;
    /// Bytes or operations of one run, in 10^9 or 10^12 as [`Work::unit`] says.
    fn amount(&self) -> f64;
    /// Queues one run.
    fn queue(&mut self) -> Result<(), LoadError>;
    /// Waits for all runs.
    fn wait(&mut self) -> Result<(), LoadError>;
    /// Clears what a run writes, runs once, and holds the results against what is known.
    fn check(&mut self) -> Result<Results, LoadError>;
}

/// How far a load is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is done now.
    pub work: String,
    /// Time that is over.
    pub done: Duration,
    /// All of it.
    pub of: Duration,
}

/// The clock of a load, and whoever is told of it and may end it.
pub(crate) struct Meter<'a> {
    begin: Instant,
    duration: Duration,
    goes_on: &'a mut dyn FnMut(&Progress) -> bool,
    is_stopped: bool,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(duration: Duration, goes_on: &'a mut dyn FnMut(&Progress) -> bool) -> Self {
        Self {
            begin: Instant::now(),
            duration,
            goes_on,
            is_stopped: false,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Tells how far it is; whether to go on.
    pub(crate) fn tell(&mut self, work: &str) -> bool {
        let progress = Progress {
            work: work.to_owned(),
            done: self.elapsed(),
            of: self.duration,
        };
        self.is_stopped = self.is_stopped || !(self.goes_on)(&progress);
        !self.is_stopped
    }

    /// An equal part of the time that is left, for one of `n` pieces to come.
    pub(crate) fn share(&self, n: usize) -> Duration {
        let left = self.duration.saturating_sub(self.elapsed());
        left / u32::try_from(n.max(1)).unwrap_or(u32::MAX)
    }

    /// Does it for this long, at least once.
    pub(crate) fn measure(
        &mut self,
        piece: &mut dyn Piece,
        share: Duration,
        watch: Option<&Watch>,
    ) -> Result<Phase, LoadError> {
        let work = piece.work();
        let name = work.to_string();
        piece.queue()?;
        piece.wait()?;
        let begin = Instant::now();
        let mut n_runs = 1_u32;
        let mut rates: Vec<(Duration, f64)> = Vec::new();
        let mut looks_at_half = None;
        loop {
            let began = begin.elapsed();
            let n_looks = watch.map_or(0, Watch::n_looks);
            for _ in 0..n_runs {
                piece.queue()?;
            }
            piece.wait()?;
            let ended = begin.elapsed();
            let took = (ended - began).as_secs_f64().max(1e-9);
            rates.push((began, piece.amount() * f64::from(n_runs) / took));
            if ended - began < BATCH && n_runs < MOST_RUNS {
                n_runs *= 2;
            }
            if looks_at_half.is_none() && ended >= share / 2 {
                // Those beside the batch in which the half is over count, which may be the only one.
                looks_at_half = Some(n_looks);
            }
            if !self.tell(&name) || ended >= share {
                break;
            }
        }
        let took = begin.elapsed();
        let samples = watch
            .zip(looks_at_half)
            .map(|(watch, n)| watch.since(n))
            .unwrap_or_default();
        let of_second_half = rates.iter().filter(|(began, _)| *began >= took / 2);
        let of_second_half: Vec<f64> = of_second_half.map(|(_, rate)| *rate).collect();
        let last = rates.last().map(|(_, rate)| *rate);
        let rate = Rate::of(&of_second_half).or_else(|| Rate::of(last.as_slice()));
        let zero = Rate {
            n: 0,
            min: 0.0,
            median: 0.0,
            max: 0.0,
        };
        Ok(Phase {
            work,
            took,
            rate: rate.unwrap_or(zero),
            results: piece.check()?,
            samples,
        })
    }
}

/// How long a piece takes that was run once before.
pub(crate) fn time_once(piece: &mut dyn Piece) -> Result<Duration, LoadError> {
    piece.queue()?;
    piece.wait()?;
    let begin = Instant::now();
    piece.queue()?;
    piece.wait()?;
    Ok(begin.elapsed())
}

/// A run that takes longer is of a device for which work is made smaller.
pub(crate) const LONGEST_RUN: Duration = Duration::from_millis(250);
