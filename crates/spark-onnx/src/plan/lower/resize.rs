//! Resizing, one axis at a time, and sampling at grids and in regions.
//!
//! ```text
//! y[o] = sum over taps of weight(x_o - i) * x[i],  x_o = transform(o)
//! nearest 1 tap; linear 2; cubic 4; with antialias the kernel is stretched by 1 / scale
//! ```
//!
//! Interpolation is separable, so every axis is one Resample step.
//!
//! Source: ONNX operator specification, Resize-19. Nearest neighbours are those of
//! [`nearest_sources`].

use std::sync::Arc;

use super::*;
use crate::graph::{
    AffineGrid, AspectRatio, CoordinateTransform, GridPadding, GridSample, Interpolation, Resize,
    ResizeAxis, RoiAlign, nearest_sources,
};

/// Positions and weights of one axis, `taps` per result.
struct Table {
    taps: usize,
    index: Vec<u32>,
    weight: Option<Vec<f32>>,
}

impl Lower for Resize {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.resize(node, self)
    }

    fn works_on_images(&self) -> bool {
        true
    }

    fn table_bytes(&self, read: &[usize], written: &[usize]) -> usize {
        // Taps of every position of every axis; a filter is never wider than its axis.
        let long = written.iter().chain(read).copied();
        long.fold(0, usize::saturating_add).saturating_mul(256)
    }
}

impl Lower for GridSample {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.grid_sample(node, self.mode, self.padding, self.align_corners)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for RoiAlign {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let Some(out) = lowering.result(node, 0) else {
            return Ok(());
        };
        let [x, regions, samples] = [0, 1, 2].map(|index| lowering.operand(node, index));
        let [x, regions, samples] = [x?, regions?, samples?].map(|id| lowering.view(id));
        let y = lowering.image_buffer(Storage::F32, &lowering.ty(out).shape);
        let step = RoiAlignStep {
            x: x?,
            regions: regions?,
            samples: samples?,
            y: y.clone(),
            op: *self,
        };
        lowering.emit(&node.name, Step::RoiAlign(step));
        lowering.set(out, y);
        Ok(())
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for AffineGrid {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.affine_grid(node, self.align_corners, out))
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        // The places of one picture, each with a one behind it, as f32.
        let spatial = written.len().saturating_sub(2);
        let points = elements(written.get(1..=spatial).unwrap_or_default());
        points.saturating_mul(4 * (spatial + 1))
    }
}

impl Lowering<'_> {
    fn resize(&mut self, node: &Node, params: &Resize) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        if params.transform == CoordinateTransform::TfCropAndResize {
            return fail("crop and resize is not supported");
        }
        let x_id = self.operand(node, 0)?;
        let mut view = self.view(x_id)?;
        let shape = self.ty(out).shape.clone();
        let scales = self.resize_scales(node, params, &view.shape(), &shape)?;
        for axis in 0..shape.len() {
            let (n_in, n_out) = (view.axes[axis].extent, shape[axis]);
            if n_in == n_out && scales[axis] == 1.0 {
                continue;
            }
            let table = axis_table(params, n_in, n_out, scales[axis]);
            let mut extents = view.shape();
            extents[axis] = n_out;
            let y = self.dense_buffer(self.storage(&view), &extents, &view.memory_order());
            let step = ResampleStep {
                x: view,
                y: y.clone(),
                axis,
                taps: table.taps,
                index: Arc::new(table.index),
                weight: table.weight.map(Arc::new),
            };
            self.emit(&node.name, Step::Resample(step));
            view = y;
        }
        self.set(out, view);
        Ok(())
    }

    /// Scale of every axis: as given, or from the sizes under the aspect-ratio policy.
    fn resize_scales(
        &self,
        node: &Node,
        params: &Resize,
        input: &[usize],
        output: &[usize],
    ) -> Result<Vec<f64>, OpError> {
        let rank = input.len();
        let axes: Vec<usize> = match &params.axes {
            Some(axes) => axes
                .iter()
                .map(|&a| axis_index(a, rank))
                .collect::<Result<_, _>>()?,
            None => (0..rank).collect(),
        };
        let mut scales = vec![1.0; rank];
        let given = self
            .optional(node, 2)
            .filter(|&id| !self.ty(id).shape.contains(&0));
        if let Some(id) = given {
            let Some(tensor) = self.constant(id) else {
                return fail("scales that are not constant are not supported");
            };
            for (&axis, scale) in axes.iter().zip(tensor.to_f64()) {
                scales[axis] = scale;
            }
            return Ok(scales);
        }
        let ratio = |&a: &usize| output[a] as f64 / input[a] as f64;
        match (params.aspect, self.optional(node, 3)) {
            (AspectRatio::Stretch, _) | (_, None) => {
                axes.iter().for_each(|a| scales[*a] = ratio(a));
            }
            (aspect, Some(id)) => {
                let sizes = self.constant_i64(id, "sizes")?;
                let ratios = axes.iter().zip(&sizes);
                let ratios = ratios.map(|(&a, &s)| s as f64 / input[a] as f64);
                let common = match aspect {
                    AspectRatio::NotLarger => ratios.fold(f64::INFINITY, f64::min),
                    _ => ratios.fold(0.0, f64::max),
                };
                axes.iter().for_each(|&a| scales[a] = common);
            }
        }
        Ok(scales)
    }

    fn grid_sample(
        &mut self,
        node: &Node,
        mode: Interpolation,
        padding: GridPadding,
        align_corners: bool,
    ) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let (x, grid) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (x, grid) = (self.view(x)?, self.view(grid)?);
        if x.rank() != 4 {
            return fail("grid sampling of other than two spatial axes is not supported");
        }
        let y = self.image_buffer(Storage::F32, &self.ty(out).shape);
        let step = GridSampleStep {
            x,
            grid,
            y: y.clone(),
            mode,
            padding,
            align_corners,
        };
        self.emit(&node.name, Step::GridSample(step));
        self.set(out, y);
        Ok(())
    }

    /// `places theta'`: the product of a table of all places `(x, y, z?, 1)`, which is constant,
    /// with every sample's matrix.
    fn affine_grid(
        &mut self,
        node: &Node,
        align_corners: bool,
        out: ValueId,
    ) -> Result<View, OpError> {
        let theta = self.operand(node, 0)?;
        let theta = self.view(theta)?.permuted(&[0, 2, 1]);
        let shape = self.ty(out).shape.clone();
        let [n, spatial @ .., rank] = &shape[..] else {
            return fail("a grid has an axis for samples and one for coordinates");
        };
        let points = elements(spatial);
        let mut places = vec![1.0; points * (rank + 1)];
        for (point, place) in places.chunks_exact_mut(rank + 1).enumerate() {
            let mut rest = point;
            for (to, &extent) in place.iter_mut().zip(spatial.iter().rev()) {
                *to = place_on_axis(rest % extent, extent, align_corners);
                rest /= extent;
            }
        }
        let places = self.f32_constant(places, &[points, rank + 1]);
        let grid = self.dynamic(&node.name, places, theta, &[*n, points, *rank], 1.0);
        Ok(self.reshaped(&node.name, grid, &shape))
    }
}

/// Where element `at` of an axis lies between -1 and 1.
fn place_on_axis(at: usize, extent: usize, align_corners: bool) -> f32 {
    let (at, extent) = (at as f64, extent as f64);
    let place = match align_corners {
        true if extent == 1.0 => 0.0,
        true => at / (extent - 1.0) * 2.0 - 1.0,
        false => (at + 0.5) / extent * 2.0 - 1.0,
    };
    place as f32
}

/// Input coordinate of output position `o`.
fn source_coordinate(params: &Resize, o: usize, n_in: usize, n_out: usize, scale: f64) -> f64 {
    let o = o as f64;
    let half_pixel = (o + 0.5) / scale - 0.5;
    match params.transform {
        CoordinateTransform::HalfPixel | CoordinateTransform::TfCropAndResize => half_pixel,
        CoordinateTransform::PytorchHalfPixel => {
            if n_out > 1 {
                half_pixel
            } else {
                0.0
            }
        }
        CoordinateTransform::HalfPixelSymmetric => {
            // The exact result extent may be fractional; keep the picture's centre in place.
            let exact = n_in as f64 * scale;
            let adjustment = n_out as f64 / exact;
            let centre = n_in as f64 / 2.0;
            centre * (1.0 - adjustment) + half_pixel
        }
        CoordinateTransform::AlignCorners => {
            // Whole lengths, as onnxruntime and PyTorch align them.
            if n_out > 1 {
                o * (n_in as f64 - 1.0) / (n_out as f64 - 1.0)
            } else {
                0.0
            }
        }
        CoordinateTransform::Asymmetric => o / scale,
    }
}

fn axis_table(params: &Resize, n_in: usize, n_out: usize, scale: f64) -> Table {
    if params.mode == Interpolation::Nearest {
        let axis = ResizeAxis {
            input: n_in,
            output: n_out,
            scale,
            region: (0.0, 1.0),
        };
        // None lies outside where nothing is cropped.
        let sources = nearest_sources(params, &axis).into_iter().flatten();
        let index = sources.map(|source| source as u32).collect();
        return Table {
            taps: 1,
            index,
            weight: None,
        };
    }
    let at = |o| source_coordinate(params, o, n_in, n_out, scale);
    let stretch = if params.antialias {
        scale.min(1.0)
    } else {
        1.0
    };
    let reach = match params.mode {
        Interpolation::Cubic => 2.0,
        _ => 1.0,
    } / stretch;
    let taps = (2.0 * reach).ceil() as usize + usize::from(stretch < 1.0);
    let (mut index, mut weight) = (Vec::new(), Vec::new());
    for o in 0..n_out {
        let x = at(o);
        let first = if stretch < 1.0 {
            (x - reach).floor() + 1.0
        } else {
            x.floor() - (reach - 1.0)
        };
        let mut weights: Vec<f64> = (0..taps)
            .map(|t| {
                let position = first + t as f64;
                let outside = position < 0.0 || position > n_in as f64 - 1.0;
                if params.exclude_outside && outside {
                    return 0.0;
                }
                kernel(params, (position - x) * stretch)
            })
            .collect();
        if params.exclude_outside || params.antialias {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        for (t, w) in weights.into_iter().enumerate() {
            let position = (first + t as f64).clamp(0.0, n_in as f64 - 1.0);
            index.push(position as u32);
            weight.push(w as f32);
        }
    }
    Table {
        taps,
        index,
        weight: Some(weight),
    }
}

/// Weight of a sample at distance `d`.
fn kernel(params: &Resize, d: f64) -> f64 {
    let d = d.abs();
    if params.mode == Interpolation::Linear {
        return (1.0 - d).max(0.0);
    }
    let a = f64::from(params.cubic_coeff);
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
