//! What training gained, beside what is had without it.
//!
//! ```text
//! untouched   the network as it is run, without the adapter
//! bias        the same, and for each number its mean error on the training samples taken off
//! constant    for each number its mean target on the training samples
//! trained     with the adapter
//! ```
//!
//! A result that a bias or a constant has too is no result. All of them are judged on samples that were held back.

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::Graph;

use crate::error::{Result, TrainError};
use crate::loss::OutputHeads;
use crate::network::AdaptedNetwork;
use crate::step::Evaluation;
use crate::trainer::Sample;

/// Errors on samples that were held back: of all taught numbers, and of each head's.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Of all heads.
    pub all: Errors,
    /// By head, in their order.
    pub heads: Vec<(String, Errors)>,
}

/// Errors of some numbers: root of the mean square.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Of the network without adapter.
    pub untouched: f64,
    /// Of the same with mean errors taken off.
    pub bias: f64,
    /// Of the mean targets.
    pub constant: f64,
    /// Of the network with adapter.
    pub trained: f64,
}

impl Errors {
    /// The best that is had without training.
    pub fn best_without(&self) -> f64 {
        self.untouched.min(self.bias).min(self.constant)
    }

    /// The trained network's error for a best of 1.
    pub fn ratio(&self) -> f64 {
        self.trained / self.best_without()
    }
}

/// Judges a trained network on `held_back`, with the means of `training`.
///
/// `untouched` is the network without adapter and `options` what it is run with: the precision that the trained one will be run in.
///
/// # Errors
///
/// [`TrainError::Model`] if one of them cannot be run; [`TrainError::TooFewSamples`] without samples; [`TrainError::NoOutput`] and
/// [`TrainError::Head`] for heads that samples and outputs do not have.
pub fn compare(
    network: &AdaptedNetwork,
    untouched: &Graph,
    heads: &[OutputHeads],
    [training, held_back]: [&[Sample]; 2],
    options: &RunOptions,
) -> Result<Comparison> {
    for samples in [training, held_back] {
        if samples.is_empty() {
            return Err(TrainError::TooFewSamples { got: 0, want: 1 });
        }
    }
    let mut session = Model::from_graph(untouched.clone(), options)?.session();
    let mut without = |sample: &Sample| -> Result<Vec<f64>> {
        let inputs: Vec<_> = lent(&sample.inputs);
        taught_numbers(heads, &session.run(&inputs)?)
    };
    let targets = |sample: &Sample| taught_numbers(heads, &sample.targets);
    let n = targets(&training[0])?.len();
    let (mut constant, mut bias) = (vec![0.0; n], vec![0.0; n]);
    for sample in training {
        let (got, want) = (without(sample)?, targets(sample)?);
        let share = 1.0 / training.len() as f64;
        same_length(n, &[got.len(), want.len()], heads)?;
        for i in 0..n {
            constant[i] += want[i] * share;
            bias[i] += (got[i] - want[i]) * share;
        }
    }
    let shapes: Vec<_> = lent(&held_back[0].inputs)
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape().to_vec()))
        .collect();
    let mut evaluation = Evaluation::new(network, heads, &shapes, &RunOptions::new())?;
    let mut squares = vec![[0.0; 4]; n];
    for sample in held_back {
        let (got, want) = (without(sample)?, targets(sample)?);
        let mut taught = lent(&sample.targets);
        taught.retain(|(name, _)| heads.iter().any(|heads| heads.output == *name));
        let result = evaluation.run(network, &lent(&sample.inputs), &taught)?;
        let trained = taught_numbers(heads, &result.outputs)?;
        same_length(n, &[got.len(), want.len(), trained.len()], heads)?;
        for i in 0..n {
            let errors = [
                got[i] - want[i],
                got[i] - bias[i] - want[i],
                constant[i] - want[i],
                trained[i] - want[i],
            ];
            for (sum, error) in squares[i].iter_mut().zip(errors) {
                *sum += error * error;
            }
        }
    }
    let of_head = heads_of_numbers(heads, &held_back[0].targets)?;
    let names = heads.iter().flat_map(|of_output| &of_output.heads);
    let by_head = names.enumerate().map(|(position, head)| {
        let own = squares.iter().zip(&of_head);
        let own = own.filter(|&(_, &other)| other == position);
        let errors = errors(own.map(|(sums, _)| sums), held_back.len());
        (head.name.clone(), errors)
    });
    Ok(Comparison {
        all: errors(squares.iter(), held_back.len()),
        heads: by_head.collect(),
    })
}

/// From the sums of the squares of each number over `n_samples`.
fn errors<'s>(squares: impl Iterator<Item = &'s [f64; 4]>, n_samples: usize) -> Errors {
    let (mut sums, mut n) = ([0.0; 4], 0);
    for of_number in squares {
        n += n_samples;
        for (sum, square) in sums.iter_mut().zip(of_number) {
            *sum += square;
        }
    }
    let [untouched, bias, constant, trained] = sums.map(|sum| (sum / n as f64).sqrt());
    Errors {
        untouched,
        bias,
        constant,
        trained,
    }
}

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// The numbers of all heads, of one sample.
fn taught_numbers(heads: &[OutputHeads], outputs: &[(String, Tensor)]) -> Result<Vec<f64>> {
    let numbers = positioned_numbers(heads, outputs)?;
    Ok(numbers.into_iter().map(|(_, number)| number).collect())
}

/// For each of those numbers the position of its head.
fn heads_of_numbers(heads: &[OutputHeads], outputs: &[(String, Tensor)]) -> Result<Vec<usize>> {
    let numbers = positioned_numbers(heads, outputs)?;
    Ok(numbers.into_iter().map(|(head, _)| head).collect())
}

fn positioned_numbers(
    heads: &[OutputHeads],
    outputs: &[(String, Tensor)],
) -> Result<Vec<(usize, f64)>> {
    let mut numbers = Vec::new();
    let mut before = 0;
    for of_output in heads {
        let name = &of_output.output;
        let Some((_, tensor)) = outputs.iter().find(|(other, _)| other == name) else {
            return Err(TrainError::NoOutput {
                name: name.clone(),
                available: outputs.iter().map(|(name, _)| name.clone()).collect(),
            });
        };
        let row = tensor.shape().last().copied().unwrap_or(1).max(1);
        for values in tensor.to_f64().chunks(row) {
            for (position, head) in (before..).zip(&of_output.heads) {
                let range = head.range.clone();
                let part = values.get(range).ok_or_else(|| TrainError::Head {
                    head: head.name.clone(),
                    output: name.clone(),
                    reason: format!("it is at {:?} of {} numbers", head.range, values.len()),
                })?;
                numbers.extend(part.iter().map(|&number| (position, number)));
            }
        }
        before += of_output.heads.len();
    }
    Ok(numbers)
}

/// Refuses samples of other lengths than the first one's.
fn same_length(n: usize, others: &[usize], heads: &[OutputHeads]) -> Result<()> {
    match others.iter().find(|&&other| other != n) {
        None => Ok(()),
        Some(other) => Err(TrainError::Head {
            head: "all".to_owned(),
            output: heads.first().map_or(String::new(), |h| h.output.clone()),
            reason: format!("a sample has {other} numbers, another {n}"),
        }),
    }
}
