//! Convolutions, their transpose, and pooling.
//!
//! ```text
//! y = conv(x, w)     dx = transposed conv(dy, w), as long as x
//!                    dw = for each tap: dy times what the tap lies on, a product of matrices; one product of all taps where x or dy has few channels
//! average            as a convolution with equal weights, of each channel alone
//! maximum            the elements of each window gathered; the gradient goes to the position of the first largest
//! ```

use super::operator::{At, Backward};
use crate::building::{
    Builder, Built, MOST_TAPS, Products, reaching, rows, spread_under_taps, sum_to_channels,
    under_tap, under_taps,
};
use crate::graph::infer::op_error;
use crate::graph::{
    ArgReduce, Concat, Conv, ConvTranspose, Gather, GlobalPool, MatMul, OpError, Pad, PadMode,
    Padding, Pool, PoolKind, ScatterElements, ScatterReduction, ValueId, WindowAxis,
    conv_transpose_windows, conv_windows, pool_windows,
};
use crate::reference::pool_members;

impl Backward for Conv {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (x, w, dy) = (at.operand(0)?, at.operand(1)?, at.dy()?);
        let (x_shape, w_shape) = (at.shape(0)?, at.shape(1)?);
        let windows = conv_windows(self, &x_shape[2..], &w_shape[2..])?;
        let is_nothing = windows.iter().any(|w| w.input == 0 || w.output == 0);
        if is_nothing && operand < 2 {
            return zeros_like(at, operand);
        }
        match operand {
            0 => spread(at.builder, dy, w, &windows, self.groups),
            1 => of_weights(at.builder, x, dy, &windows, self.groups),
            _ => sum_to_channels(at.builder, dy),
        }
    }
}

impl Backward for ConvTranspose {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (x, w, dy) = (at.operand(0)?, at.operand(1)?, at.dy()?);
        let (x_shape, w_shape) = (at.shape(0)?, at.shape(1)?);
        let transposed = conv_transpose_windows(self, &x_shape[2..], &w_shape[2..])?;
        // As windows of the convolution whose gradient this operator is: from its result to its operand.
        let windows: Vec<WindowAxis> = transposed.iter().map(WindowAxis::reversed).collect();
        let is_nothing = windows.iter().any(|w| w.input == 0 || w.output == 0);
        if is_nothing && operand < 2 {
            return zeros_like(at, operand);
        }
        let (b, g) = (&mut *at.builder, self.conv.groups);
        match operand {
            0 => {
                let dy = reaching(b, dy, &windows)?;
                b.op(conv_of(&windows, g), &[dy, w])
            }
            1 => of_weights(b, dy, x, &windows, g),
            _ => sum_to_channels(b, dy),
        }
    }
}

/// Zeros of an operand's shape.
fn zeros_like(at: &mut At<'_>, operand: usize) -> Built {
    let shape = at.shape(operand)?;
    let x = at.operand(operand)?;
    let dtype = at.builder.dtype(x);
    at.builder.zeros(dtype, &shape)
}

/// The convolution with these windows, which is given what [`reaching`] gives.
fn conv_of(windows: &[WindowAxis], groups: usize) -> Conv {
    Conv {
        strides: windows.iter().map(|w| w.stride).collect(),
        dilations: windows.iter().map(|w| w.dilation).collect(),
        padding: Padding::Valid,
        groups,
    }
}

/// The gradient by the operand of a convolution: every element of `dy` spread over its window. What lies beyond the operand is
/// cut off, and what no window reaches is zero.
fn spread(
    b: &mut Builder,
    dy: ValueId,
    w: ValueId,
    windows: &[WindowAxis],
    groups: usize,
) -> Built {
    let reach = |w: &WindowAxis| (w.output - 1) * w.stride + w.extent();
    let begins = windows.iter().map(|w| w.pad_begin);
    let ends = windows
        .iter()
        .map(|w| reach(w).saturating_sub(w.pad_begin + w.input));
    let missing = windows
        .iter()
        .map(|w| (w.pad_begin + w.input).saturating_sub(reach(w)));
    let op = ConvTranspose {
        conv: Conv {
            padding: Padding::Explicit(begins.chain(ends).collect()),
            ..conv_of(windows, groups)
        },
        output_padding: missing.collect(),
        output_shape: None,
    };
    b.op(op, &[dy, w])
}

/// The gradient by a weight `[m, c / groups, k...]`, of `x` `[n, c, ...]` and `dy` `[n, m, ...]`: for each tap what it lies on,
/// times `dy`, summed over samples and positions.
fn of_weights(
    b: &mut Builder,
    x: ValueId,
    dy: ValueId,
    windows: &[WindowAxis],
    groups: usize,
) -> Built {
    let (c, m) = (b.ty(x).shape[1], b.ty(dy).shape[1]);
    let (c, m) = (c / groups, m / groups);
    let kernel: Vec<usize> = windows.iter().map(|w| w.kernel).collect();
    let n_taps: usize = kernel.iter().product();
    let mut shape = vec![groups * m, c];
    shape.extend(kernel);
    if n_taps > MOST_TAPS {
        return Err(op_error!(
            "by weights of more than {MOST_TAPS} taps it is not written in operators"
        ));
    }
    let products = Products::of(windows, c * groups, m * groups, groups);
    if products == Products::SpreadTaps {
        let spread: Vec<WindowAxis> = windows.iter().map(WindowAxis::reversed).collect();
        let of_dy = spread_under_taps(b, dy, &spread)?;
        let [of_dy, of_x] = [rows(b, of_dy, 1)?, rows(b, x, 1)?];
        let taps = product_over_rows(b, of_dy, of_x)?;
        let taps = b.reshape(taps, &[n_taps, m, c])?;
        let taps = b.transpose(taps, vec![1, 2, 0])?;
        return b.reshape(taps, &shape);
    }
    let x = reaching(b, x, windows)?;
    if products == Products::UnderTaps {
        let under = under_taps(b, x, windows)?;
        let [of_dy, of_x] = [rows(b, dy, 1)?, rows(b, under, 1)?];
        let taps = product_over_rows(b, of_dy, of_x)?;
        let taps = b.reshape(taps, &[m, n_taps, c])?;
        let taps = b.transpose(taps, vec![0, 2, 1])?;
        return b.reshape(taps, &shape);
    }
    // A product of one channel with one is a sum.
    let is_depthwise = c == 1 && m == 1;
    let of_dy = match is_depthwise {
        true => dy,
        false => rows(b, dy, groups)?,
    };
    let mut taps = Vec::with_capacity(n_taps);
    for tap in 0..n_taps {
        let x = under_tap(b, x, windows, tap)?;
        let of_tap = match is_depthwise {
            true => {
                let products = b.mul(of_dy, x)?;
                sum_to_channels(b, products)?
            }
            false => {
                let of_x = rows(b, x, groups)?;
                product_over_rows(b, of_dy, of_x)?
            }
        };
        taps.push(b.reshape(of_tap, &[groups * m, c, 1])?);
    }
    let taps = match &taps[..] {
        [one] => *one,
        taps => b.op(Concat { axis: 2 }, taps)?,
    };
    b.reshape(taps, &shape)
}

/// `[groups, m, c]` of `[groups, rows, m]` and `[groups, rows, c]`: the narrower one is transposed, which an engine may copy for
/// it.
fn product_over_rows(b: &mut Builder, dy: ValueId, x: ValueId) -> Built {
    let is_dy_narrower = b.shape(dy)[2] <= b.shape(x)[2];
    let (narrow, wide) = match is_dy_narrower {
        true => (dy, x),
        false => (x, dy),
    };
    let narrow = b.transpose(narrow, vec![0, 2, 1])?;
    let product = b.op(MatMul, &[narrow, wide])?;
    match is_dy_narrower {
        true => Ok(product),
        false => b.transpose(product, vec![0, 2, 1]),
    }
}

impl Backward for Pool {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let windows = pool_windows(self, &at.shape(0)?[2..])?;
        match self.kind {
            PoolKind::Average => average(at, &windows, self.count_include_pad),
            PoolKind::Max => maximum(at, &windows),
        }
    }
}

/// The gradient of each window divided by what its sum is divided by, and spread over the window.
fn average(at: &mut At<'_>, windows: &[WindowAxis], count_include_pad: bool) -> Built {
    let (x, dy) = (at.operand(0)?, at.dy()?);
    let b = &mut *at.builder;
    let (dtype, channels) = (b.dtype(x), b.ty(x).shape[1]);
    let outputs: Vec<usize> = windows.iter().map(|w| w.output).collect();
    take_members(b, windows)?;
    let members = pool_members(windows, count_include_pad).into_iter();
    let counts: Vec<f64> = members.map(|(_, count)| count).collect();
    let is_same = counts.iter().all(|&count| count == counts[0]);
    let dy = match counts.first() {
        Some(&count) if is_same => b.times(dy, 1.0 / count)?,
        _ => {
            let counts = b.floats(dtype, &outputs, counts)?;
            b.div(dy, counts)?
        }
    };
    let mut shape = vec![channels, 1];
    shape.extend(windows.iter().map(|w| w.kernel));
    let n: usize = shape.iter().product();
    let ones = b.floats(dtype, &shape, vec![1.0; n])?;
    spread(b, dy, ones, windows, channels)
}

/// Room for the elements of every window.
fn take_members(b: &mut Builder, windows: &[WindowAxis]) -> Result<(), OpError> {
    let extents = windows.iter().flat_map(|w| [w.output, w.kernel]);
    b.take(&extents.collect::<Vec<_>>())
}

/// ```text
/// x as [planes, elements + 1], the last the least of all -> [planes, windows, taps] -> position of the largest of each
/// ```
fn maximum(at: &mut At<'_>, windows: &[WindowAxis]) -> Built {
    let (x, dy, shape) = (at.operand(0)?, at.dy()?, at.shape(0)?);
    let b = &mut *at.builder;
    let plane: usize = windows.iter().map(|w| w.input).product();
    let planes: usize = shape[..2].iter().product();
    take_members(b, windows)?;
    let members = pool_members(windows, false);
    let n_taps = members.iter().map(|(inside, _)| inside.len()).max();
    let n_taps = n_taps.unwrap_or(0);
    if n_taps == 0 {
        return Err(op_error!("no window has an element"));
    }
    let mut table = vec![plane as i64; members.len() * n_taps];
    for (row, (inside, _)) in table.chunks_mut(n_taps).zip(&members) {
        row.iter_mut()
            .zip(inside)
            .for_each(|(to, &i)| *to = i as i64);
    }
    let first: Vec<i64> = (0..members.len()).map(|o| (o * n_taps) as i64).collect();
    let x = b.reshape(x, &[planes, plane])?;
    let widths = b.list(vec![0, 0, 0, 1])?;
    let least = b.number(f64::NEG_INFINITY, x)?;
    let pad = Pad {
        mode: PadMode::Constant,
    };
    let x = b.op(pad, &[x, widths, least])?;
    let positions = b.whole(&[members.len(), n_taps], table)?;
    let taps = b.op(Gather { axis: 1 }, &[x, positions])?;
    let largest = ArgReduce {
        max: true,
        axis: 2,
        keep_dims: false,
        select_last: false,
    };
    let largest = b.op(largest, &[taps])?;
    let first = b.whole(&[1, members.len()], first)?;
    let largest = b.add(largest, first)?;
    let positions = b.reshape(positions, &[members.len() * n_taps])?;
    let to = b.op(Gather { axis: 0 }, &[positions, largest])?;
    let dy = b.reshape(dy, &[planes, members.len()])?;
    let dx = scattered(b, &[planes, plane + 1], 1, to, dy)?;
    let dx = b.slice(dx, 1, 0, plane)?;
    b.reshape(dx, &shape)
}

/// Zeros of a shape, to which `updates` are added at indices along an axis.
pub(super) fn scattered(
    b: &mut Builder,
    shape: &[usize],
    axis: i64,
    indices: ValueId,
    updates: ValueId,
) -> Built {
    let dtype = b.dtype(updates);
    let zeros = b.zeros(dtype, shape)?;
    let op = ScatterElements {
        axis,
        reduction: ScatterReduction::Add,
    };
    b.op(op, &[zeros, indices, updates])
}

impl Backward for GlobalPool {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, dy, shape) = (at.operand(0)?, at.dy()?, at.shape(0)?);
        let b = &mut *at.builder;
        let plane: usize = shape[2..].iter().product();
        if self.kind == PoolKind::Average {
            let share = b.times(dy, 1.0 / plane as f64)?;
            return b.expand(share, &shape);
        }
        let planes = [shape[..2].iter().product(), plane];
        let x = b.reshape(x, &planes)?;
        let dy = b.reshape(dy, &[planes[0], 1])?;
        let to = first_largest(b, x)?;
        let dx = scattered(b, &planes, 1, to, dy)?;
        b.reshape(dx, &shape)
    }
}

/// The position of the first largest element of every row, `[rows, 1]`.
fn first_largest(b: &mut Builder, x: ValueId) -> Result<ValueId, OpError> {
    let op = ArgReduce {
        max: true,
        axis: 1,
        keep_dims: true,
        select_last: false,
    };
    b.op(op, &[x])
}
