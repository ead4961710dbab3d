//! Convolutions whose weights are computed, spelled out in products of matrices.
//!
//! ```text
//! y = conv(x, w)              for each tap:  what it lies on  *  its weights,  added up
//!     of few channels         what lies under all taps, side by side  *  the weights of all taps
//!                             or  x  *  the weights of all taps,  each moved to where its tap lies, added up
//! y = transposed conv(x, w)   for each tap:  x  *  its weights,  as far apart as the steps are, moved by the tap, added up
//!     of few inputs           x so for all taps, side by side  *  the weights of all taps
//! ```
//!
//! An engine packs constant weights once, for kernels that nothing here comes near. Weights that a run computes, as those of
//! training are and of networks that make filters for others, have nothing that could be packed: a product for each tap does as well.
//!
//! A bias that is computed is added behind. Deliberately absent: windows of so many taps that their nodes would be too many.

use crate::ModelError;
use crate::building::{
    Builder, Built, MOST_TAPS, Products, channels_under_tap, images, reaching, rows,
    spread_under_tap, spread_under_taps, under_tap, under_taps,
};
use crate::graph::{
    Conv, ConvTranspose, MatMul, Node, Op, OpError, StaticGraph, StaticValue, ValueId, WindowAxis,
    conv_transpose_windows, conv_windows,
};

/// Taps of a window up to which a convolution with computed weights is spelled out.
pub const MOST_COMPUTED_TAPS: usize = MOST_TAPS;

/// `graph` without convolutions whose weights or bias are no constants, but those of more than [`MOST_COMPUTED_TAPS`]; as it
/// is if it has none. Values, inputs and outputs keep their names.
///
/// # Errors
///
/// [`ModelError::Operator`] for shapes that overflow on the way.
pub fn spell_out_computed_weights(graph: StaticGraph) -> Result<StaticGraph, ModelError> {
    if !graph.nodes.iter().any(|node| is_computed(&graph, node)) {
        return with_bodies(graph);
    }
    let mut opened = graph.opened();
    let nodes = std::mem::take(&mut opened.nodes);
    let types = graph.values.iter().map(|value| value.ty.clone());
    let mut builder = Builder::new(opened, types.collect(), graph.budget_bytes());
    for node in nodes {
        if !is_computed(&graph, &node) {
            builder.graph_mut().nodes.push(node);
            continue;
        }
        let (name, op) = (node.name.clone(), node.op.name().to_owned());
        let refused = |OpError { reason }| ModelError::Operator {
            node: name,
            op,
            reason,
        };
        builder.name_after(format!("{}.tap", node.name));
        spelled_out(&mut builder, &node).map_err(refused)?;
    }
    let (built, types) = builder.into_parts();
    let values = built.values.into_iter().zip(types);
    let values = values.map(|(value, ty)| StaticValue {
        name: value.name,
        ty,
        constant: value.constant,
    });
    with_bodies(StaticGraph {
        values: values.collect(),
        nodes: built.nodes,
        ..graph
    })
}

/// The same of what nodes of control flow run.
fn with_bodies(mut graph: StaticGraph) -> Result<StaticGraph, ModelError> {
    for body in &mut graph.bodies {
        *body = std::sync::Arc::new(spell_out_computed_weights(StaticGraph::clone(body))?);
    }
    Ok(graph)
}

fn is_computed(graph: &StaticGraph, node: &Node) -> bool {
    let is_convolution = matches!(node.op, Op::Conv(_) | Op::ConvTranspose(_));
    let mut operands = node.inputs.iter().skip(1).flatten();
    let is_computed = operands.any(|id| graph.value(*id).constant.is_none());
    let weights = node.inputs.get(1).copied().flatten();
    let is_small = weights.is_some_and(|id| {
        let mut extents = graph.value(id).ty.shape.iter().skip(2);
        let n_taps = extents.try_fold(1_usize, |n, &extent| n.checked_mul(extent));
        n_taps.is_some_and(|n_taps| n_taps <= MOST_COMPUTED_TAPS)
    });
    is_convolution && is_computed && is_small
}

/// Adds the nodes that make the result of `node`.
fn spelled_out(b: &mut Builder, node: &Node) -> Result<(), OpError> {
    let operand = |i: usize| node.inputs.get(i).copied().flatten();
    let missing = || crate::graph::infer::op_error!("an operand is missing");
    let (x, w) = (
        operand(0).ok_or_else(missing)?,
        operand(1).ok_or_else(missing)?,
    );
    let result = node.outputs.first().copied().flatten();
    let result = result.ok_or_else(|| crate::graph::infer::op_error!("its result has no name"))?;
    let is_constant = b.constant_of(w).is_some();
    let sum = match &node.op {
        // Only the bias is computed.
        op if is_constant => b.op(op.clone(), &[x, w])?,
        Op::Conv(op) => convolved(b, op, x, w)?,
        Op::ConvTranspose(op) => spread(b, op, x, w)?,
        _ => return Err(missing()),
    };
    let sum = match operand(2) {
        None => sum,
        Some(bias) => {
            let mut of_channels = vec![1; b.ty(sum).shape.len()];
            of_channels[1] = b.ty(sum).shape[1];
            let bias = b.reshape(bias, &of_channels)?;
            b.add(sum, bias)?
        }
    };
    b.make(result, sum)
}

/// The weights of each tap, `[groups, outputs, inputs]` of `[groups * outputs, inputs, k...]`.
fn weights_of_taps(b: &mut Builder, w: ValueId, groups: usize) -> Result<Vec<ValueId>, OpError> {
    let shape = b.shape(w);
    let n_taps: usize = shape[2..].iter().product();
    let apart = [groups, shape[0] / groups, shape[1], n_taps];
    let w = b.reshape(w, &apart)?;
    let w = b.transpose(w, vec![3, 0, 1, 2])?;
    let of_tap = |tap| {
        let one = b.slice(w, 0, tap, tap + 1)?;
        b.reshape(one, &apart[..3])
    };
    (0..n_taps).map(of_tap).collect()
}

fn convolved(b: &mut Builder, op: &Conv, x: ValueId, w: ValueId) -> Built {
    let (x_shape, w_shape) = (b.shape(x), b.shape(w));
    let windows = conv_windows(op, &x_shape[2..], &w_shape[2..])?;
    if windows.iter().any(|w| w.input == 0 || w.output == 0) {
        return nothing(b, x, w_shape[0], &windows);
    }
    match Products::of(&windows, w_shape[1], w_shape[0], op.groups) {
        Products::SpreadTaps => return products_moved(b, x, w, &windows),
        Products::UnderTaps => {
            let x = reaching(b, x, &windows)?;
            let under = under_taps(b, x, &windows)?;
            let positions: Vec<usize> = windows.iter().map(|w| w.output).collect();
            // [m, c, taps] -> [taps * c, m]
            return of_all_taps(b, under, w, vec![2, 1, 0], &positions);
        }
        Products::ByTap => {}
    }
    let x = reaching(b, x, &windows)?;
    let taps = weights_of_taps(b, w, op.groups)?;
    let is_depthwise = w_shape[1] == 1 && w_shape[0] == op.groups;
    let mut terms = Vec::with_capacity(taps.len());
    for (tap, w) in taps.into_iter().enumerate() {
        let x = under_tap(b, x, &windows, tap)?;
        terms.push(match is_depthwise {
            true => of_each_channel(b, x, w)?,
            false => {
                let pixels = rows(b, x, op.groups)?;
                let w = b.transpose(w, vec![0, 2, 1])?;
                b.op(MatMul, &[pixels, w])?
            }
        });
    }
    let sum = b.sum(&terms)?;
    if is_depthwise {
        return Ok(sum);
    }
    let positions: Vec<usize> = windows.iter().map(|w| w.output).collect();
    images(b, sum, x_shape[0], &positions)
}

/// A convolution of few outputs: what moves under the taps is what the product of all of them gives.
fn products_moved(b: &mut Builder, x: ValueId, w: ValueId, windows: &[WindowAxis]) -> Built {
    let (x_shape, w_shape) = (b.shape(x), b.shape(w));
    let (m, c) = (w_shape[0], w_shape[1]);
    let n_taps: usize = w_shape[2..].iter().product();
    let w = b.reshape(w, &[m, c, n_taps])?;
    let w = b.transpose(w, vec![1, 2, 0])?;
    let w = b.reshape(w, &[1, c, n_taps * m])?;
    let pixels = rows(b, x, 1)?;
    let products = b.op(MatMul, &[pixels, w])?;
    let products = images(b, products, x_shape[0], &x_shape[2..])?;
    let products = reaching(b, products, windows)?;
    let mut terms = Vec::with_capacity(n_taps);
    for tap in 0..n_taps {
        let channels = tap * m..(tap + 1) * m;
        terms.push(channels_under_tap(b, products, windows, tap, channels)?);
    }
    b.sum(&terms)
}

/// What lies under all taps, side by side, as rows times weights `[a, b, k...]` in an order whose last are the columns, as images.
fn of_all_taps(
    b: &mut Builder,
    x: ValueId,
    w: ValueId,
    order: Vec<usize>,
    positions: &[usize],
) -> Built {
    let (n, shape) = (b.shape(x)[0], b.shape(w));
    let extents = [shape[0], shape[1], shape[2..].iter().product()];
    let [n_rows, columns] = [extents[order[0]] * extents[order[1]], extents[order[2]]];
    let w = b.reshape(w, &extents)?;
    let w = b.transpose(w, order)?;
    let w = b.reshape(w, &[1, n_rows, columns])?;
    let pixels = rows(b, x, 1)?;
    let product = b.op(MatMul, &[pixels, w])?;
    images(b, product, n, positions)
}

/// What comes of pictures that have no pixel, or of windows that have no place.
fn nothing(b: &mut Builder, x: ValueId, channels: usize, windows: &[WindowAxis]) -> Built {
    let mut shape = vec![b.shape(x)[0], channels];
    shape.extend(windows.iter().map(|w| w.output));
    let dtype = b.dtype(x);
    b.zeros(dtype, &shape)
}

/// Every channel of images times a number of its own.
fn of_each_channel(b: &mut Builder, x: ValueId, w: ValueId) -> Built {
    let mut of_channels = vec![1; b.shape(x).len()];
    of_channels[1] = b.shape(x)[1];
    let w = b.reshape(w, &of_channels)?;
    b.mul(x, w)
}

fn spread(b: &mut Builder, op: &ConvTranspose, x: ValueId, w: ValueId) -> Built {
    let (x_shape, w_shape) = (b.shape(x), b.shape(w));
    let windows = conv_transpose_windows(op, &x_shape[2..], &w_shape[2..])?;
    if windows.iter().any(|w| w.input == 0 || w.output == 0) {
        return nothing(b, x, w_shape[1] * op.conv.groups, &windows);
    }
    let spread: Vec<WindowAxis> = windows.iter().map(WindowAxis::reversed).collect();
    let (c, m) = (w_shape[1] * op.conv.groups, w_shape[0]);
    if m <= c && Products::of(&spread, c, m, op.conv.groups) != Products::ByTap {
        let apart = spread_under_taps(b, x, &windows)?;
        let positions: Vec<usize> = windows.iter().map(|w| w.output).collect();
        // [m, c, taps] -> [taps * m, c]
        return of_all_taps(b, apart, w, vec![2, 0, 1], &positions);
    }
    let pixels = rows(b, x, op.conv.groups)?;
    let taps = weights_of_taps(b, w, op.conv.groups)?;
    let is_depthwise = w_shape[1] == 1 && w_shape[0] == op.conv.groups;
    let mut terms = Vec::with_capacity(taps.len());
    for (tap, w) in taps.into_iter().enumerate() {
        let spread = match is_depthwise {
            true => of_each_channel(b, x, w)?,
            false => {
                let product = b.op(MatMul, &[pixels, w])?;
                images(b, product, x_shape[0], &x_shape[2..])?
            }
        };
        terms.push(spread_under_tap(b, spread, &windows, tap)?);
    }
    b.sum(&terms)
}

#[cfg(test)]
mod tests;
