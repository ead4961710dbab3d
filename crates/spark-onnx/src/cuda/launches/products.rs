//! Convolutions, matrix products and attention, as `kernels/plan_products.cu` computes them.

use super::{Launch, Launching, THREADS, Work, check};
use crate::cuda::codes;
use crate::cuda::refused::Refused;
use crate::cuda::structures::{self, BATCH_AXES, Batched, Place, Strided};
use crate::cuda::walk::{self, count, product};
use crate::plan::{
    AttentionStep, ConvStep, LinearStep, MAX_RANK, Mask, MatMulStep, View, Weights, Window,
};

const HAS_BIAS: u32 = 1;
const HAS_RESIDUAL: u32 = 2;
const RESIDUAL_FIRST: u32 = 4;
/// Positions that a window may reach, so that the kernel counts them in 31 bits.
const MOST_REACH: usize = 1 << 30;
/// Keys at most: their scores lie in the shared memory that every block has.
const MOST_KEYS: usize = 12_000;

impl Launching<'_> {
    /// What stands behind a product whose result is `y`, with `channels` of them.
    pub(super) fn epilogue(
        &mut self,
        epilogue: &crate::plan::Epilogue,
        y: &View,
        channels: usize,
        strides: impl Fn(&View) -> Result<[i64; MAX_RANK], Refused>,
    ) -> Result<structures::Epilogue, Refused> {
        let function = codes::activation(epilogue.activation)?;
        let mut flags = 0;
        if epilogue.residual_first {
            flags |= RESIDUAL_FIRST;
        }
        let mut bias = Strided::NONE.place;
        if let Some(values) = &epilogue.bias {
            check(
                values.len() == channels,
                "a bias that is not one number a channel",
            )?;
            flags |= HAS_BIAS;
            bias = self.constants.add_f32(self.blocks, values)?.place();
        }
        let mut residual = Strided::NONE;
        if let Some(view) = &epilogue.residual {
            check(
                view.shape() == y.shape(),
                "a residual of another shape than the result",
            )?;
            flags |= HAS_RESIDUAL;
            residual = self.blocks.strided(view, strides(view)?)?;
        }
        Ok(structures::Epilogue {
            bias,
            residual,
            flags,
            code: function.code,
            a: function.a,
            b: function.b,
        })
    }

    /// The weights of step `index`, among the constants.
    pub(super) fn weights(&mut self, index: usize, weights: &Weights) -> Result<Place, Refused> {
        let extents = [
            weights.groups,
            weights.taps,
            weights.in_per_group,
            weights.out_per_group,
        ];
        let n = product(extents)? as usize;
        check(weights.len() == n, "weights that were given up")?;
        let held = self
            .constants
            .add_weights(self.blocks, index, weights, self.weights)?;
        Ok(held.place())
    }

    pub(super) fn conv(
        &mut self,
        index: usize,
        step: &ConvStep,
    ) -> Result<Option<Launch>, Refused> {
        let (x, y, w, window) = (&step.x, &step.y, &step.weights, &step.window);
        check(
            x.rank() == 4 && y.rank() == 4,
            "a picture of other than four axes",
        )?;
        let [n, channels, height, width] = [0, 1, 2, 3].map(|axis| y.axes[axis].extent);
        let is_whole = x.axes[0].extent == n
            && x.axes[1].extent == w.groups * w.in_per_group
            && channels == w.groups * w.out_per_group
            && w.taps == window.kernel[0] * window.kernel[1]
            && window.stride.iter().all(|&stride| stride > 0);
        check(is_whole, "channels, samples or taps that do not fit")?;
        for axis in 0..2 {
            check_reach(
                window,
                axis,
                x.axes[2 + axis].extent,
                y.axes[2 + axis].extent,
            )?;
        }
        if let Some(launch) = self.conv_in_tiles(index, step)? {
            return Ok(Some(launch));
        }
        if let Some(launch) = self.depthwise(index, step)? {
            return Ok(Some(launch));
        }
        let count = product([n, channels, height, width])?;
        let epilogue =
            self.epilogue(&step.epilogue, y, channels, |view| Ok(walk::strides(view)))?;
        let pair = |pair: [usize; 2]| pair.map(|value| value as u32);
        let conv = structures::Conv {
            x: self.blocks.view(x)?,
            y: self.blocks.view(y)?,
            epilogue,
            weights: self.weights(index, w)?,
            count,
            // Factors of `count`, of the weights' number, or checked above.
            channels: channels as u32,
            height: height as u32,
            width: width as u32,
            in_height: x.axes[2].extent as u32,
            in_width: x.axes[3].extent as u32,
            in_per_group: w.in_per_group as u32,
            out_per_group: w.out_per_group as u32,
            kernel: pair(window.kernel),
            stride: pair(window.stride),
            dilation: pair(window.dilation),
            pad: pair(window.pad),
            transposed: u32::from(step.transposed),
            unused: 0,
        };
        Ok(Launch::of_elements(count, Work::Conv(conv)))
    }

    pub(super) fn linear(
        &mut self,
        index: usize,
        step: &LinearStep,
    ) -> Result<Option<Launch>, Refused> {
        let (x, y, w) = (&step.x, &step.y, &step.weights);
        check(
            x.rank() == 2 && y.rank() == 2,
            "a matrix of other than two axes",
        )?;
        let [m, n, k] = [y.axes[0].extent, y.axes[1].extent, x.axes[1].extent];
        let is_whole = x.axes[0].extent == m
            && (w.groups, w.taps, w.in_per_group, w.out_per_group) == (1, 1, k, n);
        check(is_whole, "rows or weights that do not fit")?;
        if let Some(launch) = self.linear_in_tiles(index, step)? {
            return Ok(Some(launch));
        }
        let epilogue = self.epilogue(&step.epilogue, y, n, |view| Ok(walk::matrices(view)?.1))?;
        let mut strides = [0; MAX_RANK];
        strides[BATCH_AXES] = n as i64;
        strides[BATCH_AXES + 1] = 1;
        let b = Strided {
            place: self.weights(index, w)?,
            strides,
        };
        let work = self.product(x, b, y, [m, n, k], (1.0, epilogue))?;
        Ok(Launch::of_elements(work.count, Work::MatMul(work)))
    }

    pub(super) fn matmul(&mut self, step: &MatMulStep) -> Result<Option<Launch>, Refused> {
        let (a, b, y) = (&step.a, &step.b, &step.y);
        let rank = y.rank();
        check(
            a.rank() == rank && b.rank() == rank && rank >= 2,
            "matrices of different ranks",
        )?;
        let last = |view: &View, from_end: usize| view.axes[rank - from_end].extent;
        let [m, n, k] = [last(y, 2), last(y, 1), last(a, 1)];
        let mut batch = 0..rank - 2;
        let is_whole = last(a, 2) == m
            && last(b, 2) == k
            && last(b, 1) == n
            && batch.all(|axis| {
                let extent = y.axes[axis].extent;
                a.axes[axis].extent == extent && b.axes[axis].extent == extent
            });
        check(is_whole, "matrices that do not fit")?;
        let nothing = crate::plan::Epilogue::default();
        let epilogue = self.epilogue(&nothing, y, n, |view| Ok(walk::matrices(view)?.1))?;
        let b = self.blocks.strided(b, walk::matrices(b)?.1)?;
        let work = self.product(a, b, y, [m, n, k], (step.scale, epilogue))?;
        if let Some(launch) = self.matmul_in_tiles(&work)? {
            return Ok(Some(launch));
        }
        Ok(Launch::of_elements(work.count, Work::MatMul(work)))
    }

    /// A product whose extents have been found to fit.
    fn product(
        &self,
        a: &View,
        b: Strided,
        y: &View,
        [m, n, k]: [usize; 3],
        (scale, epilogue): (f32, structures::Epilogue),
    ) -> Result<structures::MatMul, Refused> {
        let (batch, y_strides) = walk::matrices(y)?;
        let count = product(y.shape())?;
        Ok(structures::MatMul {
            a: self.blocks.strided(a, walk::matrices(a)?.1)?,
            b,
            y: self.blocks.strided(y, y_strides)?,
            epilogue,
            batch,
            count,
            m: walk::count(m)?,
            n: walk::count(n)?,
            k: walk::count(k)?,
            scale,
            unused: 0,
        })
    }

    pub(super) fn attention(&mut self, step: &AttentionStep) -> Result<Option<Launch>, Refused> {
        let views = [
            Some(&step.q),
            Some(&step.k),
            Some(&step.v),
            Some(&step.y),
            step.mask.view(),
        ];
        let ranks = views.iter().flatten().map(|view| view.rank());
        check(ranks.min() >= Some(2), "a matrix of fewer than two axes")?;
        let [m, n, d, e] = step.extents();
        let batches = step.batches();
        let matrices = [[m, d], [n, d], [n, e], [m, e], [m, n]];
        for (view, matrix) in views.iter().zip(matrices) {
            let Some(view) = view else { continue };
            let (axes, last) = view.axes.split_at(view.rank() - 2);
            let is_whole = [last[0].extent, last[1].extent] == matrix
                && product(axes.iter().map(|axis| axis.extent))? as usize == batches;
            check(is_whole, "queries, keys and values that do not fit")?;
        }
        if n > MOST_KEYS {
            return Refused::because(format!("{n} keys, at most {MOST_KEYS}"));
        }
        let mask_kind = match step.mask {
            Mask::None => 0,
            Mask::Added(_) => 1,
            Mask::Seen { .. } => 2,
        };
        let hidden = match step.mask {
            Mask::Seen { hidden, .. } => hidden,
            _ => 0.0,
        };
        let batched = |view: Option<&View>| match view {
            None => Ok(Batched::NONE),
            Some(view) => {
                let (batch, strides) = walk::matrices(view)?;
                let view = self.blocks.strided(view, strides)?;
                Ok(Batched { view, batch })
            }
        };
        let [q, k, v, y, mask] = views.map(batched);
        let work = structures::Attention {
            q: q?,
            k: k?,
            v: v?,
            y: y?,
            mask: mask?,
            m: count(m)?,
            n: count(n)?,
            d: count(d)?,
            e: count(e)?,
            mask_kind,
            masked: u32::from(step.masked),
            scale: step.scale,
            hidden,
        };
        let rows = if e == 0 { 0 } else { product([batches, m])? };
        let launch = Launch::of_blocks(rows, Work::Attention(work));
        Ok(launch.map(|launch| Launch {
            shared_bytes: 4 * (n as u32).max(THREADS),
            ..launch
        }))
    }
}

/// Refuses windows that reach further than the kernel counts.
pub(super) fn check_reach(window: &Window, axis: usize, x: usize, y: usize) -> Result<(), Refused> {
    let [kernel, stride, dilation, pad] =
        [window.kernel, window.stride, window.dilation, window.pad].map(|pair| pair[axis]);
    let taps = kernel.checked_mul(dilation);
    let windows = y.checked_mul(stride);
    let reach = [
        taps,
        windows,
        Some(pad),
        Some(x),
        Some(stride),
        Some(dilation),
    ];
    let is_far = |reach: &Option<usize>| reach.is_none_or(|reach| reach > MOST_REACH / 4);
    match reach.iter().any(is_far) {
        true => Refused::because("a window that reaches over more than 2^28 positions"),
        false => Ok(()),
    }
}
