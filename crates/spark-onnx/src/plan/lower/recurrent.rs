//! RNN, GRU and LSTM: one step per direction, weights `[gates * hidden][in]`.

use std::sync::Arc;

use super::*;
use crate::graph::{Cell, Direction, Recurrent, Unary};

impl Lower for Recurrent {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.recurrent(node, self)
    }
}

impl Lowering<'_> {
    fn recurrent(&mut self, node: &Node, params: &Recurrent) -> Result<(), OpError> {
        if self.optional(node, 4).is_some() {
            return fail("sequence lengths are not supported");
        }
        let x_id = self.operand(node, 0)?;
        let mut x = self.view(x_id)?;
        if params.batch_first {
            x = x.permuted(&[1, 0, 2]);
        }
        let x = self.unit_stride(&node.name, x, 2);
        let (time, batch) = (x.axes[0].extent, x.axes[1].extent);
        let hidden = params.hidden;
        let directions: &[Direction] = match params.direction {
            Direction::Bidirectional => &[Direction::Forward, Direction::Reverse],
            Direction::Forward => &[Direction::Forward],
            Direction::Reverse => &[Direction::Reverse],
        };
        let n_dir = directions.len();
        // Y is [time, directions, batch, hidden]; H and C are [directions, batch, hidden].
        let all = self
            .result(node, 0)
            .map(|_| self.row_major_buffer(Storage::F32, &[time, n_dir, batch, hidden]));
        let last = self.row_major_buffer(Storage::F32, &[n_dir, batch, hidden]);
        let cells = (params.cell == Cell::Lstm)
            .then(|| self.row_major_buffer(Storage::F32, &[n_dir, batch, hidden]));
        let part = |v: &View, axis: usize, d: usize| {
            let mut v = v.sliced(axis, d, 1, 1);
            v.axes.remove(axis);
            v
        };
        for (d, &direction) in directions.iter().enumerate() {
            let gates = match params.cell {
                Cell::Rnn => 1,
                Cell::Gru { .. } => 3,
                Cell::Lstm => 4,
            };
            let width = gates * hidden;
            let bias = self.direction_constant(node, 3, d, n_dir)?;
            let bias = bias.unwrap_or_else(|| vec![0.0; 2 * width]);
            let initial = |lowering: &mut Self, index: usize| match lowering.optional(node, index) {
                None => Ok(None),
                Some(id) => {
                    let view = lowering.view(id)?;
                    let axis = usize::from(params.batch_first);
                    Ok(Some(part(&view, axis, d)))
                }
            };
            let (h0, c0) = (initial(self, 5)?, initial(self, 6)?);
            let step = RecurrentStep {
                x: x.clone(),
                w: self.direction_matrix(node, 1, d, n_dir, width)?,
                r: self.direction_matrix(node, 2, d, n_dir, width)?,
                w_bias: Arc::new(bias[..width].to_vec()),
                r_bias: Arc::new(bias[width..].to_vec()),
                peephole: self.direction_constant(node, 7, d, n_dir)?.map(Arc::new),
                h0,
                c0,
                y: all.as_ref().map(|v| part(v, 1, d)),
                h: part(&last, 0, d),
                c: cells.as_ref().map(|v| part(v, 0, d)),
                gates: self.row_major_buffer(Storage::F32, &[time * batch, width]),
                recurrent: self.row_major_buffer(Storage::F32, &[batch, width]),
                cell: params.cell,
                direction,
                activations: activations(params, d),
            };
            self.emit(&node.name, Step::Recurrent(Box::new(step)));
        }
        if let (Some(out), Some(view)) = (self.result(node, 0), all) {
            let view = match params.batch_first {
                true => view.permuted(&[2, 0, 1, 3]),
                false => view,
            };
            self.set(out, view);
        }
        for (index, view) in [(1, Some(last)), (2, cells)] {
            if let (Some(out), Some(view)) = (self.result(node, index), view) {
                let view = match params.batch_first {
                    true => view.permuted(&[1, 0, 2]),
                    false => view,
                };
                self.set(out, view);
            }
        }
        Ok(())
    }

    /// The part of constant operand `index` that belongs to direction `d`.
    fn direction_constant(
        &self,
        node: &Node,
        index: usize,
        d: usize,
        n_dir: usize,
    ) -> Result<Option<Vec<f32>>, OpError> {
        let Some(id) = self.optional(node, index) else {
            return Ok(None);
        };
        let values = self.recurrent_constant(id)?.to_f32();
        let n = values.len() / n_dir;
        Ok(Some(values[d * n..(d + 1) * n].to_vec()))
    }

    fn direction_matrix(
        &self,
        node: &Node,
        index: usize,
        d: usize,
        n_dir: usize,
        width: usize,
    ) -> Result<Weights, OpError> {
        let Some(id) = self.optional(node, index) else {
            return fail(format!("operand {index} is missing"));
        };
        let tensor = self.recurrent_constant(id)?;
        let n = tensor.len() / n_dir;
        let extents = [1, 1, n / width.max(1), width];
        let order = WeightOrder::OutputsFirst;
        Ok(Weights::new(Arc::clone(tensor), d * n, order, extents))
    }

    fn recurrent_constant(&self, id: ValueId) -> Result<&Arc<Tensor>, OpError> {
        match self.constant(id) {
            Some(tensor) => Ok(tensor),
            None => fail("recurrent weights that are not constant are not supported"),
        }
    }
}

/// The cell's activations for direction `d`, ONNX's defaults where none are given.
fn activations(params: &Recurrent, d: usize) -> [Unary; 3] {
    let defaults = match params.cell {
        Cell::Rnn => [Unary::Tanh, Unary::Tanh, Unary::Tanh],
        Cell::Gru { .. } | Cell::Lstm => [Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
    };
    let per_direction = match params.cell {
        Cell::Rnn => 1,
        Cell::Gru { .. } => 2,
        Cell::Lstm => 3,
    };
    std::array::from_fn(|i| {
        let given = params.activations.get(d * per_direction + i);
        match given {
            Some(&f) if i < per_direction => f,
            _ => defaults[i],
        }
    })
}
