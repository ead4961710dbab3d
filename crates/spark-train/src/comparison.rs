//! What training gained, beside what is had without it.
//!
//! ```text
//! untouched   the network as it is run, without the adapter
//! bias        the same, and for each number its mean error on the training samples taken off
//! constant    for each number its mean target on the training samples
//! trained     with the adapter
//! ```
//!
//! By the root of the mean square over all taught numbers, and by each head's own loss, which is what training lowers: a logit that all classes
//! have more of, or a hypothesis that nobody believes, is an error of numbers and none of the head.
//!
//! A result that a bias or a constant has too is no result. All of them are judged on samples that were held back.

use spark_onnx::{Model, RunOptions, Session};
use spark_onnx_graph::graph::{Dim, Graph, bind};
use spark_onnx_graph::{DType, Tensor};

use crate::error::{Result, TrainError};
use crate::exact::in_f32;
use crate::loss::{Losses, OutputHeads, add_losses};
use crate::network::AdaptedNetwork;
use crate::step::Evaluation;
use crate::trainer::{Sample, Samples};

/// How far the four are from the targets of samples that were held back.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All taught numbers: root of the mean square.
    pub all: Errors,
    /// The loss: the weighted sum of the heads'.
    pub loss: Errors,
    /// By head, in their order.
    pub heads: Vec<HeadComparison>,
}

/// The same of one head.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadComparison {
    /// The head's name.
    pub name: String,
    /// Its numbers: root of the mean square.
    pub all: Errors,
    /// Its loss, unweighted.
    pub loss: Errors,
}

/// One measure of the four.
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

    fn of([untouched, bias, constant, trained]: [f64; 4]) -> Self {
        Self {
            untouched,
            bias,
            constant,
            trained,
        }
    }
}

/// Judges a trained network on `held_back`, with the means of `training`. Heads of weight 0 are judged too.
///
/// `untouched` is the network without adapter and `options` what it is run with: the precision that the trained one will be run in.
/// The trained one runs in f32, with weights rounded as its [`Deployment`](crate::Deployment) says.
///
/// # Errors
///
/// [`TrainError::Model`] if one of them cannot be run; [`TrainError::TooFewSamples`] without samples, [`TrainError::Sample`] for one that
/// cannot be read; [`TrainError::NoOutput`] and
/// [`TrainError::Head`] for heads that samples and outputs do not have.
pub fn compare(
    network: &AdaptedNetwork,
    untouched: &Graph,
    heads: &[OutputHeads],
    [training, held_back]: [&dyn Samples; 2],
    options: &RunOptions,
) -> Result<Comparison> {
    for samples in [training, held_back] {
        if samples.is_empty() {
            return Err(TrainError::TooFewSamples { got: 0, want: 1 });
        }
    }
    let read = |samples: &dyn Samples, index: usize| {
        let sample = samples.sample(index);
        sample.map_err(|source| TrainError::Sample { index, source })
    };
    let numbers = Numbers::of(heads, &read(training, 0)?.targets)?;
    let mut session = Model::from_graph(untouched.clone(), options)?.session();
    let mut without = |sample: &Sample| -> Result<Vec<Vec<f64>>> {
        numbers.read(&session.run(&lent(&sample.inputs))?)
    };
    let mut constant = numbers.zeros();
    let mut bias = numbers.zeros();
    let share = 1.0 / training.len() as f64;
    for index in 0..training.len() {
        let sample = read(training, index)?;
        let (got, want) = (without(&sample)?, numbers.read(&sample.targets)?);
        each(&mut constant, |at, sum| *sum += at.of(&want) * share);
        each(&mut bias, |at, sum| {
            *sum += (at.of(&got) - at.of(&want)) * share
        });
    }
    let exact = in_f32(options);
    let first = read(held_back, 0)?;
    let shapes: Vec<_> = lent(&first.inputs)
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape().to_vec()))
        .collect();
    let mut evaluation = Evaluation::new(network, heads, &shapes, &exact)?;
    let mut measure = Measure::new(heads, &numbers, &exact)?;
    let mut squares = vec![[0.0; 4]; numbers.places.len()];
    let mut losses = vec![[0.0; 4]; numbers.names.len() + 1];
    for index in 0..held_back.len() {
        let sample = read(held_back, index)?;
        let want = numbers.read(&sample.targets)?;
        let got = without(&sample)?;
        let mut taught = lent(&sample.targets);
        taught.retain(|(name, _)| heads.iter().any(|heads| heads.output == *name));
        let result = evaluation.run(network, &lent(&sample.inputs), &taught)?;
        let mut biased = got.clone();
        each(&mut biased, |at, value| *value -= at.of(&bias));
        let four = [
            got,
            biased,
            constant.clone(),
            numbers.read(&result.outputs)?,
        ];
        for (version, values) in four.iter().enumerate() {
            for (square, (_, at)) in squares.iter_mut().zip(&numbers.places) {
                let error = at.of(values) - at.of(&want);
                square[version] += error * error;
            }
            let parts = measure.run(&numbers, values, &want)?;
            for (loss, part) in losses.iter_mut().zip(parts) {
                loss[version] += part / held_back.len() as f64;
            }
        }
    }
    let n = held_back.len();
    let rooted = |head: Option<usize>| {
        let places = squares.iter().zip(&numbers.places);
        let own = places.filter(|(_, (of, _))| head.is_none_or(|head| head == *of));
        root_mean_square(own.map(|(sums, _)| sums), n)
    };
    let heads = numbers.names.iter().enumerate();
    let heads = heads.map(|(position, name)| HeadComparison {
        name: name.clone(),
        all: rooted(Some(position)),
        loss: Errors::of(losses[position]),
    });
    Ok(Comparison {
        all: rooted(None),
        loss: Errors::of(losses[numbers.names.len()]),
        heads: heads.collect(),
    })
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

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// Where a number is: the output, and its place there.
#[derive(Debug, Clone, Copy)]
struct At {
    output: usize,
    number: usize,
}

impl At {
    fn of(self, values: &[Vec<f64>]) -> f64 {
        values[self.output][self.number]
    }
}

/// Calls `change` for every number of every output.
fn each(values: &mut [Vec<f64>], mut change: impl FnMut(At, &mut f64)) {
    for (output, values) in values.iter_mut().enumerate() {
        for (number, value) in values.iter_mut().enumerate() {
            change(At { output, number }, value);
        }
    }
}

/// The outputs that are taught, and which of their numbers belong to which head.
struct Numbers {
    outputs: Vec<(String, Vec<usize>)>,
    names: Vec<String>,
    /// The head's position, and a number of it.
    places: Vec<(usize, At)>,
}

impl Numbers {
    fn of(heads: &[OutputHeads], targets: &[(String, Tensor)]) -> Result<Self> {
        let mut numbers = Self {
            outputs: Vec::new(),
            names: Vec::new(),
            places: Vec::new(),
        };
        for of_output in heads {
            let shape = output(&of_output.output, targets)?.shape().to_vec();
            let known = numbers.outputs.iter();
            let known = known
                .map(|(name, _)| name)
                .position(|name| *name == of_output.output);
            let output = known.unwrap_or(numbers.outputs.len());
            let row = shape.last().copied().unwrap_or(1).max(1);
            let rows = shape.iter().product::<usize>() / row;
            if known.is_none() {
                numbers.outputs.push((of_output.output.clone(), shape));
            }
            for head in &of_output.heads {
                if head.range.end > row || head.range.start > head.range.end {
                    return Err(TrainError::Head {
                        head: head.name.clone(),
                        output: of_output.output.clone(),
                        reason: format!("it is at {:?} of {row} numbers", head.range),
                    });
                }
                let position = numbers.names.len();
                let in_row = |start: usize| head.range.clone().map(move |number| start + number);
                let own = (0..rows).flat_map(|at| in_row(at * row));
                let places = own.map(|number| (position, At { output, number }));
                numbers.places.extend(places);
                numbers.names.push(head.name.clone());
            }
        }
        Ok(numbers)
    }

    fn zeros(&self) -> Vec<Vec<f64>> {
        let lengths = self.outputs.iter();
        lengths
            .map(|(_, shape)| vec![0.0; shape.iter().product()])
            .collect()
    }

    /// All numbers of the outputs, which are as long as the first sample's.
    fn read(&self, tensors: &[(String, Tensor)]) -> Result<Vec<Vec<f64>>> {
        let mut read = Vec::with_capacity(self.outputs.len());
        for (name, shape) in &self.outputs {
            let values = output(name, tensors)?.to_f64();
            let n: usize = shape.iter().product();
            if values.len() != n {
                return Err(TrainError::Head {
                    head: "all".to_owned(),
                    output: name.clone(),
                    reason: format!("a sample has {} numbers, another {n}", values.len()),
                });
            }
            read.push(values);
        }
        Ok(read)
    }
}

fn output<'t>(name: &str, tensors: &'t [(String, Tensor)]) -> Result<&'t Tensor> {
    let found = tensors.iter().find(|(other, _)| other == name);
    found
        .map(|(_, tensor)| tensor)
        .ok_or_else(|| TrainError::NoOutput {
            name: name.to_owned(),
            available: tensors.iter().map(|(name, _)| name.clone()).collect(),
        })
}

/// Losses of any numbers.
struct Measure {
    session: Session,
    losses: Losses,
}

impl Measure {
    fn new(heads: &[OutputHeads], numbers: &Numbers, options: &RunOptions) -> Result<Self> {
        let mut graph = Graph::default();
        for (name, shape) in &numbers.outputs {
            let dims = shape.iter().map(|&extent| Dim::Known(extent)).collect();
            let given = graph.add_input(name, DType::F32, dims);
            graph.outputs.push(given);
        }
        let bound = bind(&graph, &[])?;
        let losses = add_losses(&mut graph, &bound, heads)?;
        let session = Model::from_graph(graph, options)?.session();
        Ok(Self { session, losses })
    }

    /// The loss of each head, and behind them their weighted sum.
    fn run(
        &mut self,
        numbers: &Numbers,
        values: &[Vec<f64>],
        targets: &[Vec<f64>],
    ) -> Result<Vec<f64>> {
        let as_tensors = |values: &[Vec<f64>]| -> Result<Vec<(String, Tensor)>> {
            let outputs = numbers.outputs.iter().zip(values);
            let tensor = |((name, shape), values): (&(String, Vec<usize>), &Vec<f64>)| {
                let values = values.iter().map(|&value| value as f32).collect();
                Ok((name.clone(), Tensor::from_f32(shape.clone(), values)?))
            };
            outputs.map(tensor).collect()
        };
        let (values, targets) = (as_tensors(values)?, as_tensors(targets)?);
        let mut given = lent(&values);
        given.extend(self.losses.given(&lent(&targets))?);
        let mut results = self.session.run(&given)?;
        let losses = results.split_off(numbers.outputs.len());
        let (loss, parts) = self.losses.read(losses);
        let parts = parts.into_iter().map(|(_, part)| part);
        Ok(parts.chain([loss]).collect())
    }
}
