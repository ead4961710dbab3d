//! How a run trains.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use spark_dora::optim::{LoraPlus, Schedule};

use crate::error::{Result, TrainError};

/// How the learning rate falls, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Not at all.
    Constant,
    /// In a straight line.
    Linear,
    /// Along half a cosine.
    Cosine,
}

/// Settings of a run. What changes the numbers is kept in checkpoints and held against them on resuming.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainerSettings {
    /// Samples that go through the network at once.
    pub batch: usize,
    /// Batches whose gradients make one step.
    pub accumulate: usize,
    /// How often the samples are gone through, each time in another order and by whole steps: what is left over is passed over.
    pub epochs: u64,
    /// Ends after so many steps, whatever the epochs say.
    pub max_steps: Option<u64>,
    /// Learning rates and weight decay.
    pub rates: LoraPlus,
    /// How the rates fall.
    pub decay: Decay,
    /// Steps over which the rates rise.
    pub warm_up: u64,
    /// Where the rates end, as a part of where they begin.
    pub floor: f64,
    /// Longest gradients, all as one vector; longer ones are scaled down.
    pub clip: Option<f64>,
    /// Computes results of the way forth a second time, rather than to keep them, as [`TrainingStep::recomputing`](crate::TrainingStep::recomputing) does.
    pub recompute: bool,
    /// Of the order of the samples.
    pub seed: u64,
    /// Epochs without a better loss that are borne.
    pub patience: Option<u64>,
    /// Steps in a row that may be skipped for numbers that are not finite.
    pub most_skipped: u32,
    /// Where checkpoints go; without, none are written.
    pub folder: Option<PathBuf>,
    /// Steps between checkpoints; one is written at the end besides.
    pub save_every: Option<u64>,
    /// Checkpoints that stay besides the best one.
    pub keep: usize,
}

impl Default for TrainerSettings {
    fn default() -> Self {
        Self {
            batch: 8,
            accumulate: 1,
            epochs: 10,
            max_steps: None,
            rates: LoraPlus::default(),
            decay: Decay::Cosine,
            warm_up: 0,
            floor: 0.0,
            clip: Some(1.0),
            recompute: false,
            seed: 0,
            patience: None,
            most_skipped: 10,
            folder: None,
            save_every: None,
            keep: 2,
        }
    }
}

impl TrainerSettings {
    pub(crate) fn check(&self) -> Result<()> {
        let rates = &self.rates;
        let numbers = [
            ("rate", rates.rate),
            ("ratio", rates.ratio),
            ("magnitude_ratio", rates.magnitude_ratio),
            ("whole_ratio", rates.whole_ratio),
            ("bias_ratio", rates.bias_ratio),
            ("weight_decay", rates.weight_decay),
            ("floor", self.floor),
            ("clip", self.clip.unwrap_or(1.0)),
        ];
        for (name, value) in numbers {
            let is_allowed = value.is_finite() && value >= 0.0 && (name != "clip" || value > 0.0);
            if !is_allowed {
                return Err(TrainError::Setting {
                    name,
                    value: value.to_string(),
                });
            }
        }
        let counts = [
            ("batch", self.batch as u64),
            ("accumulate", self.accumulate as u64),
            ("epochs", self.epochs),
            ("max_steps", self.max_steps.unwrap_or(1)),
            ("save_every", self.save_every.unwrap_or(1)),
            ("keep", self.keep as u64),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            None => Ok(()),
            Some((name, _)) => Err(TrainError::Setting {
                name,
                value: "0".to_owned(),
            }),
        }
    }

    /// Steps of one epoch of `n` samples; what is left over waits for another order.
    pub(crate) fn steps_per_epoch(&self, n: usize) -> Result<u64> {
        let of_step = self.batch.saturating_mul(self.accumulate);
        match n / of_step {
            0 => Err(TrainError::TooFewSamples {
                got: n,
                want: of_step,
            }),
            steps => Ok(steps as u64),
        }
    }

    pub(crate) fn schedule(&self, total: u64) -> Schedule {
        let schedule = match self.decay {
            Decay::Constant => Schedule::constant(),
            Decay::Linear => Schedule::linear(total),
            Decay::Cosine => Schedule::cosine(total),
        };
        schedule.warm_up(self.warm_up).floor(self.floor)
    }

    /// What the numbers of a run hang on, by name.
    pub(crate) fn of_numbers(&self) -> Vec<(String, String)> {
        let rates = &self.rates;
        let named = [
            ("batch", self.batch.to_string()),
            ("accumulate", self.accumulate.to_string()),
            ("rate", rates.rate.to_string()),
            ("ratio", rates.ratio.to_string()),
            ("magnitude_ratio", rates.magnitude_ratio.to_string()),
            ("whole_ratio", rates.whole_ratio.to_string()),
            ("bias_ratio", rates.bias_ratio.to_string()),
            ("weight_decay", rates.weight_decay.to_string()),
            ("decay", format!("{:?}", self.decay)),
            ("warm_up", self.warm_up.to_string()),
            ("floor", self.floor.to_string()),
            ("clip", format!("{:?}", self.clip)),
            ("seed", self.seed.to_string()),
            // Nodes that are fused in one of two passes alone are rounded otherwise there.
            ("recompute", self.recompute.to_string()),
        ];
        let named = named.into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
