//! Convolutions tap by tap: what a tap of the window lies on, as a matrix.
//!
//! ```text
//! reaching     x padded or cut so that the windows begin at its first element and end at its last
//! under_tap    of that the elements that one tap lies on: [n, c, positions...]
//! spread       the way back: elements at the places of x that a tap takes them from
//! rows         as matrices, [groups, n * positions, channels]: where channels lie side by side, as they are
//! ```

use std::ops::Range;

use super::builder::{Builder, Built};
use crate::graph::{Concat, Pad, PadMode, ReduceKind, Slice, ValueId, WindowAxis};

/// Windows with more taps are not spelled out: each is some nodes.
pub(crate) const MOST_TAPS: usize = 1024;

/// Columns of a product that are fewer than kernels like, and taps from which on it costs more to have a product for each than to lay all side by side.
const FEW: usize = 16;

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
fn padded(b: &mut Builder, x: ValueId, pads: &[(i64, i64)]) -> Built {
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
    let channels = b.shape(x)[1];
    channels_under_tap(b, x, windows, tap, 0..channels)
}

/// The same of these channels alone.
pub(crate) fn channels_under_tap(
    b: &mut Builder,
    x: ValueId,
    windows: &[WindowAxis],
    tap: usize,
    channels: Range<usize>,
) -> Built {
    let places = places_of(tap, windows);
    let places = places.iter().zip(windows);
    let along = places.map(|(at, w)| {
        let start = (at * w.dilation) as i64;
        let length = w.output.saturating_sub(1) * w.stride + 1;
        (start, start + length as i64, w.stride as i64)
    });
    let channels = (channels.start as i64, channels.end as i64, 1);
    sliced(b, x, std::iter::once(channels).chain(along).collect())
}

/// Where a tap lies in its window, along each axis.
fn places_of(tap: usize, windows: &[WindowAxis]) -> Vec<usize> {
    let mut rest = tap;
    let mut places = vec![0; windows.len()];
    for (place, w) in places.iter_mut().zip(windows).rev() {
        *place = rest % w.kernel;
        rest /= w.kernel;
    }
    places
}

/// Elements by start, end and step along the axes behind the first.
fn sliced(b: &mut Builder, x: ValueId, along: Vec<(i64, i64, i64)>) -> Built {
    let shape = b.shape(x);
    let mut extents = along.iter().zip(&shape[1..]);
    if extents.all(|(&(start, end, step), &extent)| (start, end, step) == (0, extent as i64, 1)) {
        return Ok(x);
    }
    let axes = (1..shape.len() as i64).collect();
    let starts = along.iter().map(|of| of.0).collect();
    let ends = along.iter().map(|of| of.1).collect();
    let steps = along.iter().map(|of| of.2).collect();
    let mut operands = vec![x];
    for list in [starts, ends, axes, steps] {
        operands.push(b.list(list)?);
    }
    b.op(Slice, &operands)
}

/// Elements as far apart as the steps are, with zeros between them, at the places that a tap adds to; of a transposed convolution, whose `windows` lead from
/// `x` to what is larger.
pub(crate) fn spread_under_tap(
    b: &mut Builder,
    x: ValueId,
    windows: &[WindowAxis],
    tap: usize,
) -> Built {
    let x = spread(b, x, windows)?;
    let places = places_of(tap, windows);
    let widths = places.iter().zip(windows).map(|(place, w)| {
        let begin = shift(*place, w);
        (begin, w.output as i64 - (w.input * w.stride) as i64 - begin)
    });
    padded(b, x, &widths.collect::<Vec<_>>())
}

/// How far from its own place an element is added by the tap there.
fn shift(place: usize, w: &WindowAxis) -> i64 {
    (place * w.dilation) as i64 - w.pad_begin as i64
}

/// Elements as far apart as the steps are.
fn spread(b: &mut Builder, x: ValueId, windows: &[WindowAxis]) -> Built {
    if windows.iter().all(|w| w.stride == 1) {
        return Ok(x);
    }
    // [n, c, i, 1, ...] -> [n, c, i, stride, ...] -> [n, c, i * stride, ...]
    let whole = b.shape(x);
    let mut apart = whole[..2].to_vec();
    let mut together = whole[..2].to_vec();
    let mut gaps = Vec::new();
    for w in windows {
        apart.extend([w.input, 1]);
        together.push(w.input * w.stride);
        gaps.extend([(0, 0), (0, w.stride as i64 - 1)]);
    }
    let x = b.reshape(x, &apart)?;
    let x = padded(b, x, &gaps)?;
    b.reshape(x, &together)
}

/// The same of all taps, side by side: `[n, taps * c, positions...]`.
pub(crate) fn spread_under_taps(b: &mut Builder, x: ValueId, windows: &[WindowAxis]) -> Built {
    let x = spread(b, x, windows)?;
    // So far on either side that every tap's elements are a part of it.
    let most = |w: &WindowAxis| shift(w.kernel - 1, w).max(0);
    let pads = windows.iter().map(|w| {
        let end = w.output as i64 - (w.input * w.stride) as i64 - shift(0, w).min(0);
        (most(w), end.max(0))
    });
    let x = padded(b, x, &pads.collect::<Vec<_>>())?;
    let n_taps: usize = windows.iter().map(|w| w.kernel).product();
    let channels = b.shape(x)[1] as i64;
    let of_tap = |tap| {
        let places = places_of(tap, windows);
        let along = places.iter().zip(windows).map(|(place, w)| {
            let start = most(w) - shift(*place, w);
            (start, start + w.output as i64, 1)
        });
        let channels = (0, channels, 1);
        sliced(b, x, std::iter::once(channels).chain(along).collect())
    };
    let taps = (0..n_taps).map(of_tap).collect::<Result<Vec<_>, _>>()?;
    b.op(Concat { axis: 1 }, &taps)
}

/// What lies under all taps, side by side: `[n, taps * c, positions...]`, of what [`reaching`] gives.
pub(crate) fn under_taps(b: &mut Builder, x: ValueId, windows: &[WindowAxis]) -> Built {
    let n_taps: usize = windows.iter().map(|w| w.kernel).product();
    let taps = (0..n_taps).map(|tap| under_tap(b, x, windows, tap));
    let taps = taps.collect::<Result<Vec<_>, _>>()?;
    b.op(Concat { axis: 1 }, &taps)
}

/// How the products of a convolution with weights `[m, c, k...]` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Products {
    /// One for each tap.
    ByTap,
    /// One of what lies under all taps: places of `y` times taps times `c`.
    UnderTaps,
    /// One of all taps at every place of `x`, with `y` spread under them: places of `x` times taps times `m`.
    SpreadTaps,
}

impl Products {
    /// One product of all taps where one side has few channels beside the other, or both have few and there are many taps: that which copies less.
    pub(crate) fn of(windows: &[WindowAxis], c: usize, m: usize, groups: usize) -> Self {
        let n_taps: usize = windows.iter().map(|w| w.kernel).product();
        let (c, m) = (c / groups, m / groups);
        let narrow = c.min(m);
        let is_many_small = narrow <= FEW && n_taps > FEW;
        let is_narrow = is_many_small || narrow.saturating_mul(4) <= c.max(m);
        if groups > 1 || n_taps == 1 || !is_narrow {
            return Self::ByTap;
        }
        let places = |of: fn(&WindowAxis) -> usize| windows.iter().map(of).product::<usize>();
        let under = places(|w| w.output).saturating_mul(c);
        let spread = places(|w| w.input).saturating_mul(m);
        match under <= spread {
            true => Self::UnderTaps,
            false => Self::SpreadTaps,
        }
    }
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
