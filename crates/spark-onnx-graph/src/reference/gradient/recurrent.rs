//! Gradients of recurrent networks: back through time, step by step.
//!
//! ```text
//! forth   every step keeps its input and the state before it
//! back    dh += dy[t];  (dx, dh, dc) = a step's gradients, from the state that it began with
//! of a gate's sum s = W x + Wb + R h + Rb:   dW += ds x', dR += ds h', db += ds,  dx += W' ds,  dh += R' ds
//! ```
//!
//! Steps behind the end of a sequence hand nothing on.

use super::super::operator::{Working, times};
use super::super::recurrent::{Network, Places, or_zeros, product, sequence_lengths, sum};
use super::super::unary::on_float;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated, no_operand};
use super::unary::slope;
use crate::graph::{Cell, Recurrent};

impl Differentiate for Recurrent {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            // Lengths of sequences.
            4 => GradientKind::Zero,
            _ => GradientKind::Computed,
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let places = Places::new(self, at.shape(0)?);
        let network = Network::new(self, at.inputs)?;
        let lengths = sequence_lengths(at.inputs, places.steps, places.batch)?;
        let x = at.floats(0)?;
        let h0 = or_zeros(at.inputs, 5, places.n_states());
        let c0 = or_zeros(at.inputs, 6, places.n_states());
        let result = |index: usize| at.gradients.get(index).and_then(Option::as_deref);
        let mut to = Gradients::new(&network, &x, &places);
        for d in 0..places.n_directions {
            for (n, &length) in lengths.iter().enumerate() {
                let state = places.state(d, n);
                let mut h = h0[state.clone()].to_vec();
                let mut c = c0[state.clone()].to_vec();
                let mut taken = Vec::with_capacity(length);
                for step in 0..length {
                    let t = match places.is_backwards(self, d) {
                        true => length - 1 - step,
                        false => step,
                    };
                    taken.push((t, h.clone(), c.clone()));
                    network.step(d, &x[places.input(t, n)], &mut h, &mut c);
                }
                let last = |index| match result(index) {
                    Some(gradient) => gradient[state.clone()].to_vec(),
                    None => vec![0.0; state.len()],
                };
                let (mut dh, mut dc) = (last(1), last(2));
                for (t, h, c) in taken.iter().rev() {
                    if let Some(dy) = result(0) {
                        dh = sum(dh, &dy[places.result(*t, d, n)]);
                    }
                    let input = places.input(*t, n);
                    let step = Step {
                        d,
                        x: &x[input.clone()],
                        h,
                        c,
                    };
                    let before = step.back(&network, &dh, &dc, &mut to);
                    add(&mut to.x[input], &before.x);
                    (dh, dc) = (before.h, before.c);
                }
                add(&mut to.h0[state.clone()], &dh);
                add(&mut to.c0[state], &dc);
            }
        }
        match operand {
            0 => Ok(to.x),
            1 => Ok(to.w),
            2 => Ok(to.r),
            3 => Ok(to.b),
            5 => Ok(to.h0),
            6 => Ok(to.c0),
            7 => Ok(to.peepholes),
            _ => Err(no_operand(operand)),
        }
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        // Results that are left out have states too, and each step keeps two.
        let kept = working.shapes().first().map_or(0, |x| {
            x.iter().take(2).fold(1, |n: usize, &d| n.saturating_mul(d))
        });
        let states = times(kept, self.hidden.saturating_mul(2));
        working.computed_with(times(elements.saturating_add(states), 160))
    }
}

/// What has been summed up so far for every operand.
struct Gradients {
    x: Vec<f64>,
    w: Vec<f64>,
    r: Vec<f64>,
    b: Vec<f64>,
    peepholes: Vec<f64>,
    h0: Vec<f64>,
    c0: Vec<f64>,
}

impl Gradients {
    fn new(network: &Network<'_>, x: &[f64], places: &Places) -> Self {
        let rows = places.n_directions * network.n_gates * network.recurrent.hidden;
        Self {
            x: vec![0.0; x.len()],
            w: vec![0.0; network.w.len()],
            r: vec![0.0; network.r.len()],
            b: vec![0.0; 2 * rows],
            peepholes: vec![0.0; network.peepholes.len()],
            h0: vec![0.0; places.n_states()],
            c0: vec![0.0; places.n_states()],
        }
    }
}

/// One step, with the state that it began with.
struct Step<'a> {
    d: usize,
    x: &'a [f64],
    h: &'a [f64],
    c: &'a [f64],
}

/// Gradients by what a step reads.
struct Before {
    x: Vec<f64>,
    h: Vec<f64>,
    c: Vec<f64>,
}

impl Step<'_> {
    /// From the gradients by the state after the step to those by what it began with.
    fn back(&self, network: &Network<'_>, dh: &[f64], dc: &[f64], to: &mut Gradients) -> Before {
        let mut before = Before {
            x: vec![0.0; self.x.len()],
            h: vec![0.0; dh.len()],
            c: dc.to_vec(),
        };
        match network.recurrent.cell {
            Cell::Rnn => {
                let s = network.gate(self.d, 0, self.x, self.h);
                let ds = product(dh, &slopes(network, self.d, 0, &s));
                self.gate_back(network, 0, &ds, &mut before, to);
            }
            Cell::Gru {
                linear_before_reset,
            } => self.gru_back(network, linear_before_reset, dh, &mut before, to),
            Cell::Lstm => self.lstm_back(network, dh, &mut before, to),
        }
        before
    }

    fn gru_back(
        &self,
        network: &Network<'_>,
        linear_before_reset: bool,
        dh: &[f64],
        before: &mut Before,
        to: &mut Gradients,
    ) {
        let (d, h) = (self.d, self.h);
        let (sz, sr) = (network.gate(d, 0, self.x, h), network.gate(d, 1, self.x, h));
        let (z, r) = (activated(network, d, 0, &sz), activated(network, d, 0, &sr));
        // What the last gate makes of the state, and the state that it reads.
        let read = match linear_before_reset {
            true => h.to_vec(),
            false => product(&r, h),
        };
        let linear = network.state_sum(d, 2, &read);
        let recurrent = match linear_before_reset {
            true => product(&r, &linear),
            false => linear.clone(),
        };
        let sg = sum(network.input_sum(d, 2, self.x), &recurrent);
        let g = activated(network, d, 1, &sg);

        let rest: Vec<f64> = z.iter().map(|z| 1.0 - z).collect();
        let dsg = product(&product(dh, &rest), &slopes(network, d, 1, &sg));
        let difference: Vec<f64> = h.iter().zip(&g).map(|(h, g)| h - g).collect();
        let dsz = product(&product(dh, &difference), &slopes(network, d, 0, &sz));
        add(&mut before.h, &product(dh, &z));
        self.input_back(network, 2, &dsg, before, to);
        let dr = if linear_before_reset {
            let dlinear = product(&dsg, &r);
            state_back(network, (d, 2), &read, &dlinear, &mut before.h, to);
            product(&dsg, &linear)
        } else {
            let mut dread = vec![0.0; h.len()];
            state_back(network, (d, 2), &read, &dsg, &mut dread, to);
            add(&mut before.h, &product(&dread, &r));
            product(&dread, h)
        };
        let dsr = product(&dr, &slopes(network, d, 0, &sr));
        self.gate_back(network, 0, &dsz, before, to);
        self.gate_back(network, 1, &dsr, before, to);
    }

    fn lstm_back(
        &self,
        network: &Network<'_>,
        dh: &[f64],
        before: &mut Before,
        to: &mut Gradients,
    ) {
        let (d, c) = (self.d, self.c);
        let gate = |gate| network.gate(d, gate, self.x, self.h);
        let si = sum(gate(0), &network.peephole(d, 0, c));
        let sf = sum(gate(2), &network.peephole(d, 2, c));
        let sg = gate(3);
        let (i, f) = (activated(network, d, 0, &si), activated(network, d, 0, &sf));
        let g = activated(network, d, 1, &sg);
        let after = sum(product(&f, c), &product(&i, &g));
        let so = sum(gate(1), &network.peephole(d, 1, &after));
        let o = activated(network, d, 0, &so);
        let seen = activated(network, d, 2, &after);

        let dso = product(&product(dh, &seen), &slopes(network, d, 0, &so));
        let dseen = product(&product(dh, &o), &slopes(network, d, 2, &after));
        let mut dafter = sum(before.c.clone(), &dseen);
        self.gate_back(network, 1, &dso, before, to);
        peephole_back(network, (d, 1), &after, &dso, &mut dafter, to);
        let dsi = product(&product(&dafter, &g), &slopes(network, d, 0, &si));
        let dsf = product(&product(&dafter, c), &slopes(network, d, 0, &sf));
        let dsg = product(&product(&dafter, &i), &slopes(network, d, 1, &sg));
        before.c = product(&dafter, &f);
        for (gate, peephole, ds) in [(0, Some(0), &dsi), (2, Some(2), &dsf), (3, None, &dsg)] {
            self.gate_back(network, gate, ds, before, to);
            if let Some(which) = peephole {
                peephole_back(network, (d, which), c, ds, &mut before.c, to);
            }
        }
    }

    /// From the gradient by a gate's sum to those by all that it is of.
    fn gate_back(
        &self,
        network: &Network<'_>,
        gate: usize,
        ds: &[f64],
        before: &mut Before,
        to: &mut Gradients,
    ) {
        self.input_back(network, gate, ds, before, to);
        state_back(network, (self.d, gate), self.h, ds, &mut before.h, to);
    }

    /// Of `W x + Wb`.
    fn input_back(
        &self,
        network: &Network<'_>,
        gate: usize,
        ds: &[f64],
        before: &mut Before,
        to: &mut Gradients,
    ) {
        let first = network.first_row(self.d, gate);
        let bias = first + self.d * network.n_gates * network.recurrent.hidden;
        let weights = (&*network.w, &mut *to.w);
        product_back(weights, first, self.x, ds, &mut before.x);
        add(&mut to.b[bias..], ds);
    }
}

/// Of `R h + Rb` of a direction's gate, by the state `h` that it reads.
fn state_back(
    network: &Network<'_>,
    (d, gate): (usize, usize),
    h: &[f64],
    ds: &[f64],
    dh: &mut [f64],
    to: &mut Gradients,
) {
    let first = network.first_row(d, gate);
    let hidden = network.recurrent.hidden;
    let bias = first + (d + 1) * network.n_gates * hidden;
    product_back((&*network.r, &mut *to.r), first, h, ds, dh);
    add(&mut to.b[bias..], ds);
}

/// Of `M x`: by the rows of M from `first` on, as many as there are sums, and by x.
fn product_back(
    (m, dm): (&[f64], &mut [f64]),
    first: usize,
    x: &[f64],
    ds: &[f64],
    dx: &mut [f64],
) {
    for (unit, ds) in ds.iter().enumerate() {
        let row = (first + unit) * x.len();
        for (k, x) in x.iter().enumerate() {
            dm[row + k] += ds * x;
            dx[k] += ds * m[row + k];
        }
    }
}

/// Of `p * c`.
fn peephole_back(
    network: &Network<'_>,
    (d, which): (usize, usize),
    c: &[f64],
    ds: &[f64],
    dc: &mut [f64],
    to: &mut Gradients,
) {
    let first = (d * 3 + which) * network.recurrent.hidden;
    for (unit, ds) in ds.iter().enumerate() {
        to.peepholes[first + unit] += ds * c[unit];
        dc[unit] += ds * network.peepholes[first + unit];
    }
}

fn activated(network: &Network<'_>, d: usize, which: usize, values: &[f64]) -> Vec<f64> {
    let f = network.activation(d, which);
    values.iter().map(|&v| on_float(f, v)).collect()
}

/// Slopes of an activation.
fn slopes(network: &Network<'_>, d: usize, which: usize, values: &[f64]) -> Vec<f64> {
    let f = network.activation(d, which);
    values.iter().map(|&v| slope(f, v)).collect()
}

fn add(to: &mut [f64], what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}
