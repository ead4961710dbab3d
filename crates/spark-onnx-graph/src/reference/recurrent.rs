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

use super::numbers::{from_floats, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, times};
use super::unary::on_float;
use crate::graph::infer::op_error;
use crate::graph::{Cell, Direction, OpError, Recurrent, TensorType, Unary};
use crate::tensor::Tensor;

/// The operands in f64 and the extents that index them.
struct Network<'a> {
    recurrent: &'a Recurrent,
    width: usize,
    n_gates: usize,
    w: Vec<f64>,
    r: Vec<f64>,
    b: Vec<f64>,
    peepholes: Vec<f64>,
    activations: Vec<Unary>,
}

impl Network<'_> {
    /// Rows of `w` and `r` of one gate in one direction begin here.
    fn first_row(&self, direction: usize, gate: usize) -> usize {
        (direction * self.n_gates + gate) * self.recurrent.hidden
    }

    /// `W x + Wb` of one gate.
    fn input_sum(&self, direction: usize, gate: usize, x: &[f64]) -> Vec<f64> {
        let first = self.first_row(direction, gate);
        let bias = first + direction * self.n_gates * self.recurrent.hidden;
        self.rows(&self.w, first, self.width, bias, x)
    }

    /// `R h + Rb` of one gate.
    fn state_sum(&self, direction: usize, gate: usize, h: &[f64]) -> Vec<f64> {
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
    fn gate(&self, direction: usize, gate: usize, x: &[f64], h: &[f64]) -> Vec<f64> {
        sum(
            self.input_sum(direction, gate, x),
            &self.state_sum(direction, gate, h),
        )
    }

    /// `which * c` of one peephole.
    fn peephole(&self, direction: usize, which: usize, c: &[f64]) -> Vec<f64> {
        let first = (direction * 3 + which) * self.recurrent.hidden;
        self.peepholes[first..]
            .iter()
            .zip(c)
            .map(|(p, c)| p * c)
            .collect()
    }

    fn activate(&self, direction: usize, which: usize, values: Vec<f64>) -> Vec<f64> {
        let per_direction = self.activations.len() / directions(self.recurrent);
        let f = self.activations[direction * per_direction + which];
        values.into_iter().map(|v| on_float(f, v)).collect()
    }

    /// Advances `h` and `c` by one element of the sequence.
    fn step(&self, d: usize, x: &[f64], h: &mut Vec<f64>, c: &mut Vec<f64>) {
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

fn sum(mut a: Vec<f64>, b: &[f64]) -> Vec<f64> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
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

fn recurrent(
    recurrent: &Recurrent,
    inputs: Inputs<'_>,
    types: &[TensorType],
) -> Result<Vec<Tensor>, OpError> {
    let x = inputs.get(0)?;
    let (hidden, n_directions) = (recurrent.hidden, directions(recurrent));
    let (steps, batch) = match recurrent.batch_first {
        true => (x.shape()[1], x.shape()[0]),
        false => (x.shape()[0], x.shape()[1]),
    };
    let n_gates = match recurrent.cell {
        Cell::Rnn => 1,
        Cell::Gru { .. } => 3,
        Cell::Lstm => 4,
    };
    let or_zeros = |index: usize, n: usize| {
        inputs
            .optional(index)
            .map_or_else(|| vec![0.0; n], Tensor::to_f64)
    };
    let network = Network {
        recurrent,
        width: x.shape()[2],
        n_gates,
        w: inputs.get(1)?.to_f64(),
        r: inputs.get(2)?.to_f64(),
        b: or_zeros(3, n_directions * 2 * n_gates * hidden),
        peepholes: or_zeros(7, n_directions * 3 * hidden),
        activations: match recurrent.activations.is_empty() {
            true => default_activations(recurrent.cell).repeat(n_directions),
            false => recurrent.activations.clone(),
        },
    };
    let lengths = sequence_lengths(inputs, steps, batch)?;
    let (h0, c0) = (
        or_zeros(5, n_directions * batch * hidden),
        or_zeros(6, n_directions * batch * hidden),
    );
    let x = x.to_f64();
    // Where a batch element's step and a direction's state lie.
    let step_at = |t: usize, n: usize| {
        if recurrent.batch_first {
            n * steps + t
        } else {
            t * batch + n
        }
    };
    let state_at = |d: usize, n: usize| {
        (if recurrent.batch_first {
            n * n_directions + d
        } else {
            d * batch + n
        }) * hidden
    };
    let y_at = |t: usize, d: usize, n: usize| {
        let place = match recurrent.batch_first {
            true => (n * steps + t) * n_directions + d,
            false => (t * n_directions + d) * batch + n,
        };
        place * hidden
    };
    let mut y = vec![0.0; steps * n_directions * batch * hidden];
    let (mut last_h, mut last_c) = (h0.clone(), c0.clone());
    for d in 0..n_directions {
        let backwards = d == 1 || recurrent.direction == Direction::Reverse;
        for (n, &length) in lengths.iter().enumerate() {
            let state = state_at(d, n);
            let mut h = h0[state..][..hidden].to_vec();
            let mut c = c0[state..][..hidden].to_vec();
            for step in 0..length {
                let t = if backwards { length - 1 - step } else { step };
                let input = &x[step_at(t, n) * network.width..][..network.width];
                network.step(d, input, &mut h, &mut c);
                y[y_at(t, d, n)..][..hidden].copy_from_slice(&h);
            }
            last_h[state..][..hidden].copy_from_slice(&h);
            last_c[state..][..hidden].copy_from_slice(&c);
        }
    }
    [y, last_h, last_c]
        .into_iter()
        .zip(types)
        .map(|(values, ty)| from_floats(ty, values))
        .collect()
}

fn sequence_lengths(inputs: Inputs<'_>, steps: usize, batch: usize) -> Result<Vec<usize>, OpError> {
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
