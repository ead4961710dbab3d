//! Operators that move elements: the gradient moves them back, and adds up those of one element.
//!
//! Where what moves is known when the graph is bound and no operator moves it back, positions are worked out once, as the
//! reference does (`reference/gradient/movement.rs`), and the gradient is one ScatterElements.

use super::operator::{At, Backward};
use super::windows::scattered;
use crate::building::{Builder, Built};
use crate::graph::infer::op_error;
use crate::graph::{
    Concat, DepthToSpace, Expand, Flatten, Gather, GatherElements, GatherNd, Op, OpError, Pad,
    PadMode, ReduceKind, Reshape, ScatterElements, ScatterNd, ScatterReduction, Slice,
    SpaceToDepth, Split, Squeeze, Tile, Transpose, Trilu, Unsqueeze, ValueId, resolve_axis,
    resolve_pads, resolve_slice,
};
use crate::reference::evaluate;
use crate::tensor::Tensor;

/// Operators that only give elements another shape.
macro_rules! reshapes {
    ($($name:ident)*) => {$(
        impl Backward for $name {
            fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
                let (dy, shape) = (at.dy()?, at.shape(0)?);
                at.builder.reshape(dy, &shape)
            }
        }
    )*};
}
reshapes!(Reshape Flatten Squeeze Unsqueeze);

impl Backward for Transpose {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, rank) = (at.dy()?, at.result_shape()?.len());
        let perm = match &self.perm {
            Some(perm) => perm.clone(),
            None => (0..rank).rev().collect(),
        };
        let mut back = vec![0; rank];
        perm.iter()
            .enumerate()
            .for_each(|(to, &from)| back[from] = to);
        at.builder.transpose(dy, back)
    }
}

impl Backward for Expand {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, shape) = (at.dy()?, at.shape(0)?);
        at.builder.sum_to(dy, &shape)
    }
}

impl Backward for Tile {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, shape, tiled) = (at.dy()?, at.shape(0)?, at.result_shape()?);
        if tiled.contains(&0) {
            return at.builder.zeros(at.builder.dtype(dy), &shape);
        }
        let pairs = shape.iter().zip(&tiled);
        let apart: Vec<usize> = pairs.flat_map(|(&x, &y)| [y / x, x]).collect();
        let axes: Vec<usize> = (0..shape.len()).map(|axis| 2 * axis).collect();
        let b = &mut *at.builder;
        let dy = b.reshape(dy, &apart)?;
        let sums = b.reduce(ReduceKind::Sum, dy, &axes)?;
        b.reshape(sums, &shape)
    }
}

impl Backward for Concat {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (dy, rank) = (at.dy()?, at.result_shape()?.len());
        let axis = resolve_axis(self.axis, rank)?;
        let mut begin = 0;
        for before in 0..operand {
            begin += at.shape(before)?[axis];
        }
        let end = begin + at.shape(operand)?[axis];
        at.builder.slice(dy, axis, begin, end)
    }
}

impl Backward for Split {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, rank) = (at.operand(0)?, at.shape(0)?.len());
        let axis = resolve_axis(self.axis, rank)?;
        let mut parts = Vec::with_capacity(at.gradients.len());
        // A part that nobody names is as long as what the others leave.
        let lengths = at.part_lengths(axis)?;
        let given = at.gradients.iter().flatten().next();
        let dtype = at
            .builder
            .dtype(*given.ok_or_else(|| op_error!("no gradient"))?);
        for (gradient, length) in at.gradients.iter().zip(lengths) {
            let mut shape = at.builder.shape(x);
            shape[axis] = length;
            parts.push(match gradient {
                Some(gradient) => *gradient,
                None => at.builder.zeros(dtype, &shape)?,
            });
        }
        match &parts[..] {
            [one] => Ok(*one),
            parts => at.builder.op(Concat { axis: axis as i64 }, parts),
        }
    }
}

impl At<'_> {
    /// How long the results are along an axis.
    fn part_lengths(&self, axis: usize) -> Result<Vec<usize>, OpError> {
        let operands: Vec<_> = (0..self.node.inputs.len())
            .map(|i| self.optional(i).map(|id| self.builder.operand(id)))
            .collect();
        let types = crate::graph::infer(&self.node.op, &operands, self.node.outputs.len())?;
        Ok(types.iter().map(|ty| ty.shape[axis]).collect())
    }
}

/// What neighbours were taken of has zeros around them.
impl Backward for Slice {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, shape) = (at.dy()?, at.shape(0)?);
        let operand = |i| at.optional(i).map(|id| at.builder.operand(id));
        let missing = || op_error!("where it begins or ends is missing");
        let (starts, ends) = (
            operand(1).ok_or_else(missing)?,
            operand(2).ok_or_else(missing)?,
        );
        let slices = resolve_slice(&shape, starts, ends, operand(3), operand(4))?;
        if slices.iter().any(|axis| axis.step != 1) {
            return by_positions(at, 0);
        }
        let begins = slices.iter().map(|axis| axis.start as i64);
        let behind = slices.iter().zip(&shape);
        let behind = behind.map(|(axis, &extent)| (extent - axis.start - axis.len) as i64);
        let widths = at.builder.list(begins.chain(behind).collect())?;
        let mode = PadMode::Constant;
        at.builder.op(Pad { mode }, &[dy, widths])
    }
}

/// The gradient by an operand whose elements go where constants say.
fn by_positions(at: &mut At<'_>, operand: usize) -> Built {
    let (dy, shape) = (at.dy()?, at.shape(operand)?);
    let n: usize = shape.iter().product();
    at.builder.take(&shape)?;
    at.builder.take(&at.result_shape()?)?;
    let mut operands = Vec::with_capacity(at.node.inputs.len());
    for other in 0..at.node.inputs.len() {
        let Some(id) = at.optional(other) else {
            operands.push(None);
            continue;
        };
        let numbered = || Tensor::from_i64(shape.clone(), (1..=n as i64).collect());
        operands.push(Some(match at.builder.constant_of(id) {
            _ if other == operand => numbered().map_err(|error| op_error!("{error}"))?,
            Some(constant) if !constant.dtype().is_float() => Tensor::clone(&constant),
            // A number that fills borders comes from nowhere.
            Some(_) => Tensor::from_i64(Vec::new(), vec![0]).map_err(|e| op_error!("{e}"))?,
            None => return Err(op_error!("where elements go is no constant")),
        }));
    }
    let operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
    let moved = evaluate(&at.node.op, &operands, 1)?;
    let from = moved.first().and_then(|moved| moved.as_i64());
    let from = from.ok_or_else(|| op_error!("positions are no whole numbers"))?;
    let b = &mut *at.builder;
    let dtype = b.dtype(dy);
    let dy = b.reshape(dy, &[from.len()])?;
    // What comes from nowhere is added behind the last element.
    let to = from
        .iter()
        .map(|&from| if from == 0 { n as i64 } else { from - 1 });
    let to: Vec<i64> = to.collect();
    let is_all = !to.contains(&(n as i64));
    let length = if is_all { n } else { n + 1 };
    if to.is_empty() {
        return b.zeros(dtype, &shape);
    }
    let to = b.whole(&[to.len()], to)?;
    let dx = scattered(b, &[length], 0, to, dy)?;
    let dx = b.slice(dx, 0, 0, n)?;
    b.reshape(dx, &shape)
}

/// Constant borders are cut off, and what was cut off has zeros; the number in the borders has what is left.
impl Backward for Pad {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        if self.mode != PadMode::Constant {
            return by_positions(at, 0);
        }
        let (dy, x_shape) = (at.dy()?, at.shape(0)?);
        let widths = at.builder.operand(at.operand(1)?);
        let axes = at.optional(3).map(|axes| at.builder.operand(axes));
        let pads = resolve_pads(self.mode, &x_shape, widths, axes)?;
        let begins = pads.iter().map(|pad| -pad.begin);
        let ends = pads.iter().map(|pad| -pad.end);
        let back: Vec<i64> = begins.chain(ends).collect();
        let is_whole = back.iter().all(|&width| width == 0);
        let filler = at.optional(2);
        let b = &mut *at.builder;
        let inside = match is_whole {
            true => dy,
            false => {
                let back = b.list(back)?;
                b.op(Self { mode: self.mode }, &[dy, back])?
            }
        };
        if operand == 0 {
            return Ok(inside);
        }
        let filler = filler.ok_or_else(|| op_error!("no number for the borders"))?;
        let sum_of_all = sum(b, dy)?;
        let sum_inside = sum(b, inside)?;
        let rest = b.sub(sum_of_all, sum_inside)?;
        let shape = b.shape(filler);
        b.reshape(rest, &shape)
    }
}

/// The sum of all elements, with as many axes.
fn sum(b: &mut Builder, x: ValueId) -> Built {
    let axes: Vec<usize> = (0..b.ty(x).shape.len()).collect();
    b.reduce(ReduceKind::Sum, x, &axes)
}

impl Backward for SpaceToDepth {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let dy = at.dy()?;
        let back = DepthToSpace {
            block: self.block,
            crd: false,
        };
        at.builder.op(back, &[dy])
    }
}

impl Backward for DepthToSpace {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, shape) = (at.dy()?, at.shape(0)?);
        if !self.crd {
            return at.builder.op(SpaceToDepth { block: self.block }, &[dy]);
        }
        let (n, c, s) = (shape[0], shape[1] / (self.block * self.block), self.block);
        let b = &mut *at.builder;
        let dy = b.reshape(dy, &[n, c, shape[2], s, shape[3], s])?;
        let dy = b.transpose(dy, vec![0, 1, 3, 5, 2, 4])?;
        b.reshape(dy, &shape)
    }
}

impl Backward for Trilu {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (dy, diagonal) = (at.dy()?, at.optional(1));
        let op = Op::Trilu(*self);
        Ok(at.builder.ops(op, &[Some(dy), diagonal], 1)?[0])
    }
}

/// ```text
/// dy [before..., indices..., behind...] -> [indices..., before..., behind...]
/// added to zeros [axis, before..., behind...] at the indices -> [before..., axis, behind...]
/// ```
impl Backward for Gather {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (indices, dy, shape) = (at.operand(1)?, at.dy()?, at.shape(0)?);
        let axis = resolve_axis(self.axis, shape.len())?;
        let b = &mut *at.builder;
        let index_shape = b.shape(indices);
        let (n_index, rank) = (index_shape.len(), b.ty(dy).shape.len());
        let perm = (axis..axis + n_index)
            .chain(0..axis)
            .chain(axis + n_index..rank);
        let updates = b.transpose(dy, perm.collect())?;
        let mut apart = index_shape;
        apart.push(1);
        let indices = b.reshape(indices, &apart)?;
        let mut front = vec![shape[axis]];
        front.extend(
            shape
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != axis)
                .map(|(_, d)| d),
        );
        let sums = scattered_slices(b, &front, indices, updates)?;
        let back = (1..=axis).chain([0]).chain(axis + 1..shape.len());
        b.transpose(sums, back.collect())
    }
}

/// Zeros of a shape, to whose slices `updates` are added.
fn scattered_slices(b: &mut Builder, shape: &[usize], indices: ValueId, updates: ValueId) -> Built {
    let dtype = b.dtype(updates);
    let zeros = b.zeros(dtype, shape)?;
    let op = ScatterNd {
        reduction: ScatterReduction::Add,
    };
    b.op(op, &[zeros, indices, updates])
}

impl Backward for GatherElements {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (indices, dy, shape) = (at.operand(1)?, at.dy()?, at.shape(0)?);
        scattered(at.builder, &shape, self.axis, indices, dy)
    }
}

impl Backward for GatherNd {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        if self.batch_dims > 0 {
            return by_positions(at, 0);
        }
        let (indices, dy, shape) = (at.operand(1)?, at.dy()?, at.shape(0)?);
        scattered_slices(at.builder, &shape, indices, dy)
    }
}

impl Backward for ScatterElements {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let gather = Op::from(GatherElements { axis: self.axis });
        written(at, operand, self.reduction, gather)
    }
}

impl Backward for ScatterNd {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let gather = Op::from(GatherNd { batch_dims: 0 });
        written(at, operand, self.reduction, gather)
    }
}

/// Of updates that are added every one has the gradient of its place. Of those that replace, the last one of a place has
/// it: that is found by writing their numbers instead.
fn written(at: &mut At<'_>, operand: usize, reduction: ScatterReduction, gather: Op) -> Built {
    let (indices, updates, dy) = (at.operand(1)?, at.operand(2)?, at.dy()?);
    let (shape, update_shape) = (at.shape(0)?, at.shape(2)?);
    let op = at.node.op.clone();
    let b = &mut *at.builder;
    let dtype = b.dtype(updates);
    match (reduction, operand) {
        (ScatterReduction::Add, 0) => Ok(dy),
        (ScatterReduction::Add, _) => b.op(gather, &[dy, indices]),
        (ScatterReduction::None, 0) => {
            let zeros = b.zeros(dtype, &update_shape)?;
            b.op(op, &[dy, indices, zeros])
        }
        (ScatterReduction::None, _) => {
            b.take(&update_shape)?;
            let n: usize = update_shape.iter().product();
            let numbers = b.whole(&update_shape, (1..=n as i64).collect())?;
            let nobody = b.zeros(crate::tensor::DType::I64, &shape)?;
            let last = b.op(op, &[nobody, indices, numbers])?;
            let last = b.op(gather.clone(), &[last, indices])?;
            let is_last = b.binary(crate::graph::Binary::Equal, last, numbers)?;
            let gradient = b.op(gather, &[dy, indices])?;
            b.keep_where(is_last, gradient, 0.0)
        }
        _ => Err(op_error!(
            "of updates that are multiplied or compared it is not written in operators yet"
        )),
    }
}
