//! Answers in the order of their samples, as errors and losses.
//!
//! ```text
//! training    bias += (got - want) / n, constant += want / n
//! held back   error of got, got - bias, constant, trained: squares by number, losses by head / n
//! ```
//!
//! One answer is in memory at a time. Sums are made in f64 in the order of the samples, so that they have the same bits whoever asked the
//! networks.

use spark_onnx::RunOptions;

use super::answer::Answer;
use super::errors::{Comparison, Errors, HeadComparison};
use super::measure::Measure;
use super::numbers::{Numbers, each};
use crate::error::{Result, TrainError};
use crate::exact::in_f32;
use crate::loss::OutputHeads;

/// What judges answers, those of the samples that were trained on first.
#[derive(Debug)]
pub struct Judgement {
    heads: Vec<OutputHeads>,
    options: RunOptions,
    n_training: usize,
    n_held_back: usize,
    n_taken: usize,
    sums: Option<Sums>,
}

/// What the first answer tells the lengths of.
#[derive(Debug)]
struct Sums {
    numbers: Numbers,
    measure: Measure,
    constant: Vec<Vec<f64>>,
    bias: Vec<Vec<f64>>,
    squares: Vec<[f64; 4]>,
    losses: Vec<[f64; 4]>,
}

impl Judgement {
    /// Of so many answers of samples that were trained on, and so many of ones that were held back. `options` say on which threads losses are
    /// computed, in f32.
    ///
    /// # Errors
    ///
    /// [`TrainError::TooFewSamples`] if there are none of either.
    pub fn new(
        heads: &[OutputHeads],
        [n_training, n_held_back]: [usize; 2],
        options: &RunOptions,
    ) -> Result<Self> {
        if n_training == 0 || n_held_back == 0 {
            return Err(TrainError::TooFewSamples { got: 0, want: 1 });
        }
        Ok(Self {
            heads: heads.to_vec(),
            options: in_f32(options),
            n_training,
            n_held_back,
            n_taken: 0,
            sums: None,
        })
    }

    /// Takes the next answer; `which` of its networks without adapter is judged.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoOutput`] and [`TrainError::Head`] for heads that it does not have, [`TrainError::Model`] if their losses cannot be
    /// computed; [`TrainError::Answer`] for one that lacks a network, or is more than there should be.
    pub fn take(&mut self, answer: &Answer, which: usize) -> Result<()> {
        let index = self.n_taken;
        let lacks = |what| TrainError::Answer { index, what };
        let sums = match &mut self.sums {
            Some(sums) => sums,
            none => none.insert(Sums::new(&self.heads, answer, &self.options)?),
        };
        let numbers = &sums.numbers;
        let got = answer.untouched.get(which);
        let got = numbers.read(got.ok_or(lacks("network without adapter"))?)?;
        let want = numbers.read(&answer.targets)?;
        match (&answer.trained, index < self.n_training) {
            (_, true) => sums.learn(&got, &want, 1.0 / self.n_training as f64),
            _ if index >= self.n_training + self.n_held_back => return Err(lacks("place")),
            (None, false) => return Err(lacks("trained network")),
            (Some(trained), false) => {
                let trained = numbers.read(trained)?;
                sums.judge(got, trained, &want, self.n_held_back)?;
            }
        }
        self.n_taken += 1;
        Ok(())
    }

    /// What the answers come to.
    ///
    /// # Errors
    ///
    /// [`TrainError::TooFewSamples`] if some are missing.
    pub fn finish(self) -> Result<Comparison> {
        let want = self.n_training + self.n_held_back;
        match self.sums {
            Some(sums) if self.n_taken == want => Ok(sums.finish(self.n_held_back)),
            _ => Err(TrainError::TooFewSamples {
                got: self.n_taken,
                want,
            }),
        }
    }
}

impl Sums {
    fn new(heads: &[OutputHeads], first: &Answer, options: &RunOptions) -> Result<Self> {
        let numbers = Numbers::of(heads, &first.targets)?;
        Ok(Self {
            measure: Measure::new(heads, &numbers, options)?,
            constant: numbers.zeros(),
            bias: numbers.zeros(),
            squares: vec![[0.0; 4]; numbers.places.len()],
            losses: vec![[0.0; 4]; numbers.names.len() + 1],
            numbers,
        })
    }

    fn learn(&mut self, got: &[Vec<f64>], want: &[Vec<f64>], share: f64) {
        each(&mut self.constant, |at, sum| *sum += at.of(want) * share);
        each(&mut self.bias, |at, sum| {
            *sum += (at.of(got) - at.of(want)) * share
        });
    }

    fn judge(
        &mut self,
        got: Vec<Vec<f64>>,
        trained: Vec<Vec<f64>>,
        want: &[Vec<f64>],
        n_held_back: usize,
    ) -> Result<()> {
        let mut biased = got.clone();
        each(&mut biased, |at, value| *value -= at.of(&self.bias));
        let four = [got, biased, self.constant.clone(), trained];
        for (version, values) in four.iter().enumerate() {
            for (square, (_, at)) in self.squares.iter_mut().zip(&self.numbers.places) {
                let error = at.of(values) - at.of(want);
                square[version] += error * error;
            }
            let parts = self.measure.run(&self.numbers, values, want)?;
            for (loss, part) in self.losses.iter_mut().zip(parts) {
                loss[version] += part / n_held_back as f64;
            }
        }
        Ok(())
    }

    fn finish(self, n_held_back: usize) -> Comparison {
        let numbers = &self.numbers;
        let rooted = |head: Option<usize>| {
            let places = self.squares.iter().zip(&numbers.places);
            let own = places.filter(|(_, (of, _))| head.is_none_or(|head| head == *of));
            root_mean_square(own.map(|(sums, _)| sums), n_held_back)
        };
        let heads = numbers.names.iter().enumerate();
        let heads = heads.map(|(position, name)| HeadComparison {
            name: name.clone(),
            all: rooted(Some(position)),
            loss: Errors::of(self.losses[position]),
        });
        Comparison {
            all: rooted(None),
            loss: Errors::of(self.losses[numbers.names.len()]),
            heads: heads.collect(),
        }
    }
}

/// From the sums of the squares of each number over `n_samples`.
fn root_mean_square<'s>(squares: impl Iterator<Item = &'s [f64; 4]>, n_samples: usize) -> Errors {
    let (mut sums, mut n) = ([0.0; 4], 0);
    for of_number in squares {
        n += n_samples;
        for (sum, square) in sums.iter_mut().zip(of_number) {
            *sum += square;
        }
    }
    Errors::of(sums.map(|sum| (sum / n as f64).sqrt()))
}
