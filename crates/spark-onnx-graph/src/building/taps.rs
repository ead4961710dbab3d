//! Convolutions tap by tap: what a tap of the window lies on, as a matrix.
//!
//! ```text
//! reaching     x padded or cut so that the windows begin at its first element and end at its last
//! under_tap    of that the elements that one tap lies on: [n, c, positions...]
//! rows         as matrices, [groups, n * positions, channels]: where channels lie side by side, as they are
//! ```

use super::builder::{Builder, Built};
use crate::graph::{Pad, PadMode, ReduceKind, Slice, ValueId, WindowAxis};

/// Windows with more taps are not spelled out: each is some nodes.
pub(crate) const MOST_TAPS: usize = 1024;

/// `x` padded or cut along its spatial axes, so that windows begin at its first element and the last one ends at its
/// last.
pub(crate) fn reaching(b: &mut Builder, x: ValueId, windows: &[WindowAxis]) -> Built {
    let pads = windows.iter().map(|w| {
        let reach = w.output.saturating_sub(1) * w.stride + w.extent();
        let begin = w.pad_begin as i64;
        (begin, reach as i64 - begin - w.input as i64)
    });
    padded(b, x, &pads.collect::<Vec<_>>())
}

/// `x` with zeros added along its spatial axes, or elements cut off where numbers are negative.
pub(crate) fn padded(b: &mut Builder, x: ValueId, pads: &[(i64, i64)]) -> Built {
    if pads.iter().all(|&pad| pad == (0, 0)) {
        return Ok(x);
    }
    let shape = b.shape(x);
    let spatial = || shape[2..].iter().zip(pads);
    // Nothing of it is left where more is cut off than there is.
    if spatial().any(|(&extent, &(begin, end))| {
        let extent = extent as i64;
        begin <= -extent || end <= -extent || begin.min(0) + end.min(0) <= -extent
    }) {
        let rest = spatial().map(|(&extent, &(begin, end))| extent as i64 + begin + end);
        let rest = rest.map(|extent| extent.max(0) as usize);
        let shape: Vec<usize> = shape[..2].iter().copied().chain(rest).collect();
        let dtype = b.dtype(x);
        return b.zeros(dtype, &shape);
    }
    let begins = [0, 0].into_iter().chain(pads.iter().map(|pad| pad.0));
    let ends = [0, 0].into_iter().chain(pads.iter().map(|pad| pad.1));
    let widths = b.list(begins.chain(ends).collect())?;
    let op = Pad {
        mode: PadMode::Constant,
    };
    b.op(op, &[x, widths])
}

/// The elements that a tap lies on, for each position of the window: as many as there are.
pub(crate) fn under_tap(b: &mut Builder, x: ValueId, windows: &[WindowAxis], tap: usize) -> Built {
    let mut rest = tap;
    let mut at = vec![0; windows.len()];
    for (at, w) in at.iter_mut().zip(windows).rev() {
        *at = rest % w.kernel;
        rest /= w.kernel;
    }
    let pairs = || at.iter().zip(windows);
    let starts: Vec<i64> = pairs().map(|(at, w)| (at * w.dilation) as i64).collect();
    let lengths = windows
        .iter()
        .map(|w| (w.output.saturating_sub(1) * w.stride + 1) as i64);
    let ends: Vec<i64> = starts
        .iter()
        .zip(lengths)
        .map(|(s, length)| s + length)
        .collect();
    let steps: Vec<i64> = windows.iter().map(|w| w.stride as i64).collect();
    let shape = b.shape(x);
    let is_whole = starts.iter().all(|&start| start == 0)
        && steps.iter().all(|&step| step == 1)
        && ends
            .iter()
            .zip(&shape[2..])
            .all(|(&end, &extent)| end == extent as i64);
    if is_whole {
        return Ok(x);
    }
    let axes = (2..shape.len() as i64).collect();
    let operands = [starts, ends, axes, steps];
    let mut lists = vec![x];
    for operand in operands {
        lists.push(b.list(operand)?);
    }
    b.op(Slice, &lists)
}

/// `[n, g * c, ...]` as `[g, n * ..., c]`.
pub(crate) fn rows(b: &mut Builder, x: ValueId, groups: usize) -> Built {
    let shape = b.shape(x);
    let positions: usize = shape[2..].iter().product();
    let x = b.reshape(x, &[shape[0], groups, shape[1] / groups, positions])?;
    let x = b.transpose(x, vec![1, 0, 3, 2])?;
    b.reshape(x, &[groups, shape[0] * positions, shape[1] / groups])
}

/// `[g, n * positions, c]` as `[n, g * c, positions...]`.
pub(crate) fn images(b: &mut Builder, x: ValueId, n: usize, positions: &[usize]) -> Built {
    let shape = b.shape(x);
    let apart = [shape[0], n, positions.iter().product(), shape[2]];
    let x = b.reshape(x, &apart)?;
    let x = b.transpose(x, vec![1, 0, 3, 2])?;
    let mut images = vec![n, shape[0] * shape[2]];
    images.extend(positions);
    b.reshape(x, &images)
}

/// The sum over samples and positions, a number for each channel.
pub(crate) fn sum_to_channels(b: &mut Builder, dy: ValueId) -> Built {
    let shape = b.shape(dy);
    let axes: Vec<usize> = (0..shape.len()).filter(|&axis| axis != 1).collect();
    let sums = b.reduce(ReduceKind::Sum, dy, &axes)?;
    b.reshape(sums, &[shape[1]])
}
