//! Recurrent networks: simple, GRU and LSTM cells.
//!
//! ```text
//! a gate's sum:  s = W x + Wb + R h + Rb        one row of W and R per unit
//!
//! RNN   h' = f(s)
//! GRU   z = f(s_z), r = f(s_r)                  gates stored in the order z, r, h
//!       g = tanh(W x + Wb + R (r * h) + Rb)     or  tanh(W x + Wb + r * (R h + Rb))
//!       h' = (1 - z) * g + z * h
//! LSTM  i = f(s_i + p_i c), e = f(s_f + p_f c)  gates stored in the order i, o, f, c;
//!       g = tanh(s_c), c' = e * c + i * g       peepholes p in the order i, o, f
//!       o = f(s_o + p_o c'), h' = o * tanh(c')
//! ```
//!
//! States are carried in f64 from step to step. A sequence shorter than the
//! longest keeps its last state, its results behind the end are zero; the reverse
//! direction starts at the end of each sequence.

use std::ops::Range;

use super::numbers::{from_floats, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, times};
use super::unary::on_float;
use crate::graph::infer::op_error;
use crate::graph::{Cell, Direction, OpError, Recurrent, TensorType, Unary};
use crate::tensor::Tensor;

/// The operands in f64 and the extents that index them.
pub(super) struct Network<'a> {
    pub(super) recurrent: &'a Recurrent,
    pub(super) width: usize,
    pub(super) n_gates: usize,
    pub(super) w: Vec<f64>,
    pub(super) r: Vec<f64>,
    b: Vec<f64>,
    pub(super) peepholes: Vec<f64>,
    activations: Vec<Unary>,
}

impl Network<'_> {
    /// Rows of `w` and `r` of one gate in one direction begin here.
    pub(super) fn first_row(&self, direction: usize, gate: usize) -> usize {
        (direction * self.n_gates + gate) * self.recurrent.hidden
    }

    /// `W x + Wb` of one gate.
    pub(super) fn input_sum(&self, direction: usize, gate: usize, x: &[f64]) -> Vec<f64> {
        let first = self.first_row(direction, gate);
        let bias = first + direction * self.n_gates * self.recurrent.hidden;
        self.rows(&self.w, first, self.width, bias, x)
    }

    /// `R h + Rb` of one gate.
    pub(super) fn state_sum(&self, direction: usize, gate: usize, h: &[f64]) -> Vec<f64> {
        let first = self.first_row(direction, gate);
        // The recurrent biases follow those of all gates of this direction.
        let bias = first + (direction + 1) * self.n_gates * self.recurrent.hidden;
        self.rows(&self.r, first, self.recurrent.hidden, bias, h)
    }

    fn rows(&self, matrix: &[f64], first: usize, width: usize, bias: usize, x: &[f64]) -> Vec<f64> {
        (0..self.recurrent.hidden)
            .map(|unit| {
                let row = &matrix[(first + unit) * width..][..width];
                let sum: f64 = row.iter().zip(x).map(|(w, x)| w * x).sum();
                sum + self.b[bias + unit]
            })
            .collect()
    }

    /// Both sums of one gate.
    pub(super) fn gate(&self, direction: usize, gate: usize, x: &[f64], h: &[f64]) -> Vec<f64> {
        sum(
            self.input_sum(direction, gate, x),
            &self.state_sum(direction, gate, h),
        )
    }

    /// `which * c` of one peephole.
    pub(super) fn peephole(&self, direction: usize, which: usize, c: &[f64]) -> Vec<f64> {
        let first = (direction * 3 + which) * self.recurrent.hidden;
        self.peepholes[first..]
            .iter()
            .zip(c)
            .map(|(p, c)| p * c)
            .collect()
    }

    /// Activation `which` of a direction.
    pub(super) fn activation(&self, direction: usize, which: usize) -> Unary {
        let per_direction = self.activations.len() / directions(self.recurrent);
        self.activations[direction * per_direction + which]
    }

    fn activate(&self, direction: usize, which: usize, values: Vec<f64>) -> Vec<f64> {
        let f = self.activation(direction, which);
        values.into_iter().map(|v| on_float(f, v)).collect()
    }

    /// Advances `h` and `c` by one element of the sequence.
    pub(super) fn step(&self, d: usize, x: &[f64], h: &mut Vec<f64>, c: &mut Vec<f64>) {
        match self.recurrent.cell {
            Cell::Rnn => *h = self.activate(d, 0, self.gate(d, 0, x, h)),
            Cell::Gru {
                linear_before_reset,
            } => {
                let z = self.activate(d, 0, self.gate(d, 0, x, h));
                let r = self.activate(d, 0, self.gate(d, 1, x, h));
                let recurrent = if linear_before_reset {
                    product(&r, &self.state_sum(d, 2, h))
                } else {
                    self.state_sum(d, 2, &product(&r, h))
                };
                let g = self.activate(d, 1, sum(self.input_sum(d, 2, x), &recurrent));
                for unit in 0..h.len() {
                    h[unit] = (1.0 - z[unit]) * g[unit] + z[unit] * h[unit];
                }
            }
            Cell::Lstm => {
                let i = sum(self.gate(d, 0, x, h), &self.peephole(d, 0, c));
                let f = sum(self.gate(d, 2, x, h), &self.peephole(d, 2, c));
                let i = self.activate(d, 0, i);
                let f = self.activate(d, 0, f);
                let g = self.activate(d, 1, self.gate(d, 3, x, h));
                *c = sum(product(&f, c), &product(&i, &g));
                let o = sum(self.gate(d, 1, x, h), &self.peephole(d, 1, c));
                let o = self.activate(d, 0, o);
                *h = product(&o, &self.activate(d, 2, c.clone()));
            }
        }
    }
}

pub(super) fn sum(mut a: Vec<f64>, b: &[f64]) -> Vec<f64> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

pub(super) fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

fn directions(recurrent: &Recurrent) -> usize {
    match recurrent.direction {
        Direction::Bidirectional => 2,
        Direction::Forward | Direction::Reverse => 1,
    }
}

/// ONNX's activations where the node names none.
fn default_activations(cell: Cell) -> &'static [Unary] {
    match cell {
        Cell::Rnn => &[Unary::Tanh],
        Cell::Gru { .. } => &[Unary::Sigmoid, Unary::Tanh],
        Cell::Lstm => &[Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
    }
}

impl Evaluate for Recurrent {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        recurrent(self, inputs, types)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(elements, 32))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

impl<'a> Network<'a> {
    /// The operands of one evaluation; those that are left out are zeros.
    pub(super) fn new(recurrent: &'a Recurrent, inputs: Inputs<'_>) -> Result<Self, OpError> {
        let n_directions = directions(recurrent);
        let n_gates = match recurrent.cell {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm => 4,
        };
        let hidden = recurrent.hidden;
        Ok(Network {
            recurrent,
            width: inputs.get(0)?.shape()[2],
            n_gates,
            w: inputs.get(1)?.to_f64(),
            r: inputs.get(2)?.to_f64(),
            b: or_zeros(inputs, 3, n_directions * 2 * n_gates * hidden),
            peepholes: or_zeros(inputs, 7, n_directions * 3 * hidden),
            activations: match recurrent.activations.is_empty() {
                true => default_activations(recurrent.cell).repeat(n_directions),
                false => recurrent.activations.clone(),
            },
        })
    }
}

/// The elements of an operand, or as many zeros.
pub(super) fn or_zeros(inputs: Inputs<'_>, operand: usize, n: usize) -> Vec<f64> {
    let given = inputs.optional(operand).map(Tensor::to_f64);
    given.unwrap_or_else(|| vec![0.0; n])
}

/// Where elements of sequences and states lie.
pub(super) struct Places {
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) n_directions: usize,
    hidden: usize,
    width: usize,
    is_batch_first: bool,
}

impl Places {
    /// Of a network over sequences of the shape `x`.
    pub(super) fn new(recurrent: &Recurrent, x: &[usize]) -> Self {
        let (steps, batch) = match recurrent.batch_first {
            true => (x[1], x[0]),
            false => (x[0], x[1]),
        };
        Self {
            steps,
            batch,
            n_directions: directions(recurrent),
            hidden: recurrent.hidden,
            width: x[2],
            is_batch_first: recurrent.batch_first,
        }
    }

    /// Whether a direction starts at the end.
    pub(super) fn is_backwards(&self, recurrent: &Recurrent, direction: usize) -> bool {
        direction == 1 || recurrent.direction == Direction::Reverse
    }

    /// Elements of the states of all directions.
    pub(super) fn n_states(&self) -> usize {
        self.n_directions * self.batch * self.hidden
    }

    /// Step `t` of sequence `n`.
    pub(super) fn input(&self, t: usize, n: usize) -> Range<usize> {
        let place = match self.is_batch_first {
            true => n * self.steps + t,
            false => t * self.batch + n,
        };
        place * self.width..(place + 1) * self.width
    }

    /// The state of a direction after the last step of sequence `n`, or before the first.
    pub(super) fn state(&self, direction: usize, n: usize) -> Range<usize> {
        let place = match self.is_batch_first {
            true => n * self.n_directions + direction,
            false => direction * self.batch + n,
        };
        place * self.hidden..(place + 1) * self.hidden
    }

    /// What a direction makes of step `t` of sequence `n`.
    pub(super) fn result(&self, t: usize, direction: usize, n: usize) -> Range<usize> {
        let place = match self.is_batch_first {
            true => (n * self.steps + t) * self.n_directions + direction,
            false => (t * self.n_directions + direction) * self.batch + n,
        };
        place * self.hidden..(place + 1) * self.hidden
    }
}

fn recurrent(
    recurrent: &Recurrent,
    inputs: Inputs<'_>,
    types: &[TensorType],
) -> Result<Vec<Tensor>, OpError> {
    let x = inputs.get(0)?;
    let places = Places::new(recurrent, x.shape());
    let network = Network::new(recurrent, inputs)?;
    let lengths = sequence_lengths(inputs, places.steps, places.batch)?;
    let mut last_h = or_zeros(inputs, 5, places.n_states());
    let mut last_c = or_zeros(inputs, 6, places.n_states());
    let x = x.to_f64();
    let mut y = vec![0.0; places.steps * places.n_states()];
    for d in 0..places.n_directions {
        for (n, &length) in lengths.iter().enumerate() {
            let state = places.state(d, n);
            let mut h = last_h[state.clone()].to_vec();
            let mut c = last_c[state.clone()].to_vec();
            for step in 0..length {
                let t = match places.is_backwards(recurrent, d) {
                    true => length - 1 - step,
                    false => step,
                };
                network.step(d, &x[places.input(t, n)], &mut h, &mut c);
                y[places.result(t, d, n)].copy_from_slice(&h);
            }
            last_h[state.clone()].copy_from_slice(&h);
            last_c[state].copy_from_slice(&c);
        }
    }
    [y, last_h, last_c]
        .into_iter()
        .zip(types)
        .map(|(values, ty)| from_floats(ty, values))
        .collect()
}

pub(super) fn sequence_lengths(
    inputs: Inputs<'_>,
    steps: usize,
    batch: usize,
) -> Result<Vec<usize>, OpError> {
    let Some(lengths) = inputs.optional(4).and_then(whole_numbers) else {
        return Ok(vec![steps; batch]);
    };
    lengths
        .into_iter()
        .map(|length| {
            usize::try_from(length)
                .ok()
                .filter(|&length| length <= steps)
                .ok_or_else(|| op_error!("sequence of {length} steps, there are {steps}"))
        })
        .collect()
}
