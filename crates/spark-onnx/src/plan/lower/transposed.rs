//! Transposed convolutions; those in groups as ordinary ones, one for every phase of the stride.
//!
//! ```text
//! y[s q + r - pad] = sum over j of x[q - j] w[r + s j]        r: the phase, 0 .. s
//!                  = an ordinary convolution of step 1 by every s-th tap from r on, back to front, whose results lie s apart
//! ```
//!
//! Each phase has the kernels of ordinary convolutions, and writes its own rows and columns of the result; nothing is spread or
//! added up in memory. What stays one step that spreads its products: one group, whose step of its own says that its weights are
//! rounded in no precision of eight bits or fewer, dilated taps, results that begin beyond the last tap, a bias where
//! a phase has no tap, and strides of many phases.
//!
//! Source: the decomposition into sub-pixels of W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?",
//! arXiv 1609.07009.

use std::sync::Arc;

use super::conv::{Filters, pair};
use super::*;
use crate::graph::{ConvTranspose, Padding};

impl Lower for ConvTranspose {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.conv_transpose(node, self)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

/// Strides up to which a transposed convolution is said so, along each axis: beyond, its phases are too many steps.
const MOST_PHASES: usize = 8;

/// A phase along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Phase {
    /// Its first result, and how many there are.
    first: usize,
    count: usize,
    /// Its taps from back to front: the last one's place in the window, and how many; every `stride`-th.
    last_tap: usize,
    taps: usize,
    /// Border in front of the image, or what of the image is not read.
    pad: usize,
    dropped: usize,
}

/// The phases along one axis of a window without dilation, those without results left out; nothing if there are too many or one
/// begins beyond its last tap.
fn phases(kernel: usize, stride: usize, pad: usize, x: usize, y: usize) -> Option<Vec<Phase>> {
    if stride > MOST_PHASES {
        return None;
    }
    let mut phases = Vec::with_capacity(stride);
    for r in 0..stride {
        let begin = pad.saturating_sub(r).div_ceil(stride);
        let first = stride * begin + r - pad;
        if first >= y {
            continue;
        }
        let count = (y - first).div_ceil(stride);
        let taps = kernel.saturating_sub(r).div_ceil(stride);
        let reach = taps.saturating_sub(1);
        let (pad, dropped) = (reach.saturating_sub(begin), begin.saturating_sub(reach));
        if dropped >= x {
            return None;
        }
        phases.push(Phase {
            first,
            count,
            last_tap: r + stride * reach,
            taps,
            pad,
            dropped,
        });
    }
    Some(phases)
}

impl Lowering<'_> {
    fn conv_transpose(&mut self, node: &Node, params: &ConvTranspose) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        if self.ty(x_id).shape.len() == 5 {
            return self.conv_transpose_volume(node, params, out);
        }
        let x = self.image(&node.name, x_id)?;
        let filters = self.weights_and_bias(node)?;
        let [c, out_per_group, kh, kw] = filters.shape[..] else {
            return fail("weights need four axes");
        };
        let groups = params.conv.groups;
        let extents = [groups, kh * kw, c / groups, out_per_group];
        let y = self.image_result(out);
        let ones = Window {
            kernel: [kh, kw],
            stride: pair(&params.conv.strides)?,
            dilation: pair(&params.conv.dilations)?,
            pad: [0, 0],
        };
        let pad = transposed_pad(params, &ones, &x, &y)?;
        let step = ConvStep {
            x,
            y,
            weights: Weights::new(
                Arc::clone(&filters.constant),
                0,
                WeightOrder::InputsFirst,
                extents,
            ),
            window: Window { pad, ..ones },
            transposed: true,
            epilogue: Epilogue {
                bias: filters.bias.clone(),
                ..Epilogue::default()
            },
        };
        let steps = match self.phase_by_phase(&node.name, &step, &filters)? {
            Some(steps) => steps,
            None => vec![self.emit(&node.name, Step::Conv(step))],
        };
        // What comes behind can be computed with the result where one step makes all of it.
        if let [step] = steps[..] {
            let channel_axis = 1;
            self.producer.insert(out, Producer { step, channel_axis });
        }
        Ok(())
    }

    /// The same as ordinary convolutions, if it can be said so; the step, if it is one.
    fn phase_by_phase(
        &mut self,
        name: &str,
        step: &ConvStep,
        filters: &Filters,
    ) -> Result<Option<Vec<usize>>, OpError> {
        let window = &step.window;
        if step.weights.groups == 1 {
            return Ok(None);
        }
        let along = |i: usize| {
            let (x, y) = (step.x.axes[2 + i].extent, step.y.axes[2 + i].extent);
            phases(window.kernel[i], window.stride[i], window.pad[i], x, y)
        };
        let (1, 1, Some(rows), Some(columns)) =
            (window.dilation[0], window.dilation[1], along(0), along(1))
        else {
            return Ok(None);
        };
        let has_empty = rows.iter().chain(&columns).any(|phase| phase.taps == 0);
        if has_empty && filters.bias.is_some() {
            return Ok(None);
        }
        let mut steps = Vec::with_capacity(rows.len() * columns.len());
        for row in &rows {
            for column in &columns {
                let [sy, sx] = window.stride.map(|stride| stride as isize);
                let y = step.y.sliced(2, row.first, sy, row.count);
                let y = y.sliced(3, column.first, sx, column.count);
                if row.taps * column.taps == 0 {
                    steps.push(self.emit(name, Step::Fill(FillStep { y, value: 0.0 })));
                    continue;
                }
                let cut = |x: &View, axis: usize, phase: &Phase| {
                    let left = x.axes[axis].extent - phase.dropped;
                    x.sliced(axis, phase.dropped, 1, left)
                };
                let x = cut(&cut(&step.x, 2, row), 3, column);
                let weights = self.weights_of_phase(step, filters, [*row, *column])?;
                let of_phase = Window {
                    kernel: [row.taps, column.taps],
                    stride: [1, 1],
                    dilation: [1, 1],
                    pad: [row.pad, column.pad],
                };
                let bias = filters.bias.clone();
                steps.push(self.convolve(name, [x, y], of_phase, weights, bias));
            }
        }
        Ok(Some(steps))
    }

    /// The taps of a phase, back to front.
    fn weights_of_phase(
        &mut self,
        step: &ConvStep,
        filters: &Filters,
        [row, column]: [Phase; 2],
    ) -> Result<Weights, OpError> {
        let [kh, kw] = step.window.kernel;
        let [sy, sx] = step.window.stride;
        let whole = &step.weights;
        let extents = [
            whole.groups,
            row.taps * column.taps,
            whole.in_per_group,
            whole.out_per_group,
        ];
        if [kh, kw] == [1, 1] {
            let constant = Arc::clone(&filters.constant);
            return Ok(Weights::new(constant, 0, WeightOrder::InputsFirst, extents));
        }
        let mut values = Vec::with_capacity(extents.iter().product());
        for filter in filters.constant.to_f32().chunks_exact(kh * kw) {
            for y in (0..row.taps).map(|j| row.last_tap - j * sy) {
                let taps = (0..column.taps).map(|j| filter[y * kw + column.last_tap - j * sx]);
                values.extend(taps);
            }
        }
        let constant = Tensor::from_f32([values.len()], values).map_err(|error| OpError {
            reason: error.to_string(),
        })?;
        self.constant_bytes += constant.size_bytes();
        let constant = Arc::new(constant);
        Ok(Weights::new(constant, 0, WeightOrder::InputsFirst, extents))
    }
}

/// Rows and columns cut from the beginning of the full transposed result.
fn transposed_pad(
    params: &ConvTranspose,
    window: &Window,
    x: &View,
    y: &View,
) -> Result<[usize; 2], OpError> {
    let explicit = match &params.conv.padding {
        Padding::Explicit(pads) if pads.len() == 4 => [pads[0], pads[1]],
        Padding::Explicit(pads) if pads.len() == 2 => [0, pads[0]],
        _ => [0, 0],
    };
    let same = matches!(params.conv.padding, Padding::SameUpper | Padding::SameLower);
    if params.output_shape.is_none() && !same {
        return Ok(explicit);
    }
    let output_padding = match params.output_padding[..] {
        [] => [0, 0],
        [w] => [0, w],
        [h, w] => [h, w],
        _ => return fail("more than two spatial axes"),
    };
    Ok(std::array::from_fn(|i| {
        let reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
        let full =
            x.axes[2 + i].extent.saturating_sub(1) * window.stride[i] + reach + output_padding[i];
        let total = full.saturating_sub(y.axes[2 + i].extent);
        match params.conv.padding {
            Padding::SameUpper => total / 2,
            _ => total.div_ceil(2),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every result is of one phase, and its taps and pixels are those of the definition.
    #[test]
    fn phases_are_the_definition() {
        let mut n = 0;
        for (kernel, stride, pad, x) in all_cases(6, 4, 5, 4) {
            for y in 1..(x - 1) * stride + kernel + stride {
                let Some(phases) = phases(kernel, stride, pad, x, y) else {
                    continue;
                };
                n += 1;
                let mut made = vec![false; y];
                for phase in &phases {
                    for t in 0..phase.count {
                        let o = phase.first + t * stride;
                        assert!(!std::mem::replace(&mut made[o], true));
                        let mut want: Vec<(usize, usize)> = (0..x)
                            .filter_map(|i| Some((i, (o + pad).checked_sub(i * stride)?)))
                            .filter(|&(_, tap)| tap < kernel)
                            .collect();
                        let mut got: Vec<(usize, usize)> = (0..phase.taps)
                            .filter_map(|j| {
                                let i = (t + j + phase.dropped).checked_sub(phase.pad)?;
                                Some((i, phase.last_tap - j * stride))
                            })
                            .filter(|&(i, _)| i < x && i >= phase.dropped)
                            .collect();
                        want.sort_unstable();
                        got.sort_unstable();
                        assert_eq!(got, want, "{kernel}/{stride} pad {pad}: {o} of {y}");
                    }
                }
                assert!(made.iter().all(|&made| made));
            }
        }
        assert!(n > 1000, "{n} cases");
    }

    fn all_cases(
        kernel: usize,
        stride: usize,
        pad: usize,
        x: usize,
    ) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        (1..=kernel).flat_map(move |k| {
            (1..=stride)
                .flat_map(move |s| (0..=pad).flat_map(move |p| (1..=x).map(move |x| (k, s, p, x))))
        })
    }
}
