//! Which numbers of which outputs are judged, and of which head they are.

use spark_onnx_graph::Tensor;

use crate::error::{Result, TrainError};
use crate::loss::OutputHeads;

/// Where a number is: the output, and its place there.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    output: usize,
    number: usize,
}

impl At {
    pub(super) fn of(self, values: &[Vec<f64>]) -> f64 {
        values[self.output][self.number]
    }
}

/// Calls `change` for every number of every output.
pub(super) fn each(values: &mut [Vec<f64>], mut change: impl FnMut(At, &mut f64)) {
    for (output, values) in values.iter_mut().enumerate() {
        for (number, value) in values.iter_mut().enumerate() {
            change(At { output, number }, value);
        }
    }
}

/// The outputs that are taught, and which of their numbers belong to which head.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) outputs: Vec<(String, Vec<usize>)>,
    pub(super) names: Vec<String>,
    /// The head's position, and a number of it.
    pub(super) places: Vec<(usize, At)>,
}

impl Numbers {
    pub(super) fn of(heads: &[OutputHeads], targets: &[(String, Tensor)]) -> Result<Self> {
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

    pub(super) fn zeros(&self) -> Vec<Vec<f64>> {
        let lengths = self.outputs.iter();
        lengths
            .map(|(_, shape)| vec![0.0; shape.iter().product()])
            .collect()
    }

    /// All numbers of the outputs, which are as long as the first sample's.
    pub(super) fn read(&self, tensors: &[(String, Tensor)]) -> Result<Vec<Vec<f64>>> {
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
