//! Resizing and sampling on grids.

use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_numeric, check_rank, check_rank_at_least, check_shape,
    constant_extents, one, op_error,
};
use crate::graph::{
    AffineGrid, AspectRatio, CoordinateTransform, GridPadding, GridSample, Interpolation,
    NearestRounding, Op, Resize, ValueId, resolve_resize,
};
use crate::tensor::Tensor;

impl Operator for Resize {
    const IMPORTS: &'static [Translator] = &[("Resize", resize), ("Upsample", upsample)];

    fn name(&self) -> &'static str {
        "Resize"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 4, 1)?;
        let x = operands.required(0, "x")?;
        match self.mode {
            Interpolation::Nearest => {}
            Interpolation::Linear | Interpolation::Cubic => check_numeric("x", &x)?,
        }
        let axes = resolve_resize(
            self,
            x.shape,
            operands.optional(1),
            operands.optional(2),
            operands.optional(3),
        )?;
        one(x.dtype, axes.iter().map(|a| a.output).collect::<Vec<_>>())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        match self.transform {
            CoordinateTransform::TfCropAndResize => &[1, 2, 3],
            _ => &[2, 3],
        }
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(resize_attributes(self))
    }
}

impl Operator for GridSample {
    const IMPORTS: &'static [Translator] = &[("GridSample", grid_sample)];

    fn name(&self) -> &'static str {
        "GridSample"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let grid = operands.required(1, "grid")?;
        check_float("x", &x)?;
        check_float("grid", &grid)?;
        check_rank_at_least("x", &x, 3)?;
        check_rank("grid", &grid, x.rank())?;
        let spatial = x.rank() - 2;
        if spatial > 3 {
            return Err(op_error!("{spatial} spatial axes, at most 3 are supported"));
        }
        if grid.shape[0] != x.shape[0] || grid.shape[spatial + 1] != spatial {
            return Err(op_error!(
                "`grid` of shape {:?} does not fit `x` of shape {:?}: wanted [{}, ..., {spatial}]",
                grid.shape,
                x.shape,
                x.shape[0]
            ));
        }
        if x.shape[2..].contains(&0) {
            return Err(op_error!(
                "`x` of shape {:?} has nothing to sample",
                x.shape
            ));
        }
        let mut shape = vec![x.shape[0], x.shape[1]];
        shape.extend_from_slice(&grid.shape[1..=spatial]);
        one(x.dtype, shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .text("mode", interpolation(self.mode))
            .text("padding_mode", grid_padding(self.padding))
            .flag("align_corners", self.align_corners))
    }
}

impl Operator for AffineGrid {
    const IMPORTS: &'static [Translator] = &[("AffineGrid", affine_grid)];

    fn name(&self) -> &'static str {
        "AffineGrid"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let theta = operands.required(0, "theta")?;
        check_float("theta", &theta)?;
        let size = constant_extents("size", &operands.required(1, "size")?)?;
        let [n, _, spatial @ ..] = &size[..] else {
            return Err(op_error!("size {size:?} has no spatial axes"));
        };
        if !matches!(spatial.len(), 2 | 3) {
            return Err(op_error!("size {size:?} has not two or three spatial axes"));
        }
        check_shape(
            "theta",
            theta.shape,
            &[*n, spatial.len(), spatial.len() + 1],
        )?;
        one(theta.dtype, [&[*n], spatial, &[spatial.len()]].concat())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().flag("align_corners", self.align_corners))
    }
}

const MODES: &[(&str, Interpolation)] = &[
    ("nearest", Interpolation::Nearest),
    ("linear", Interpolation::Linear),
    ("cubic", Interpolation::Cubic),
];

/// What Upsample and the first Resize do: `x_in = x_out / scale`, rounded down.
fn asymmetric(mode: Interpolation) -> Resize {
    Resize {
        mode,
        transform: CoordinateTransform::Asymmetric,
        rounding: NearestRounding::Floor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        axes: None,
        aspect: AspectRatio::Stretch,
    }
}

/// Scales are a parameter of Upsample before operator set 9 and an operand from then on.
fn upsample(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(7)?;
    let words = [
        ("nearest", Interpolation::Nearest),
        ("linear", Interpolation::Linear),
        ("bilinear", Interpolation::Linear),
    ];
    let op = asymmetric(call.choice("mode", Interpolation::Nearest, &words)?);
    let x = call.required(0)?;
    let scales = if call.opset() >= 9 {
        call.operands(2, 2)?;
        call.required(1)?
    } else {
        call.operands(1, 1)?;
        let Some(scales) = call.floats("scales")? else {
            return Err(call.error("attribute `scales` is missing"));
        };
        let tensor = Tensor::from_f32([scales.len()], scales.to_vec())?;
        call.new_constant("scales", tensor)?
    };
    call.finish(Op::Resize(op), vec![Some(x), None, Some(scales)])
}

fn resize(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() < 11 {
        call.operands(2, 2)?;
        let op = asymmetric(call.choice("mode", Interpolation::Nearest, MODES)?);
        let inputs = vec![call.input(0), None, call.input(1)];
        return call.finish(Op::Resize(op), inputs);
    }
    call.operands(1, 4)?;
    let op = resize_parameters(call)?;
    let mut inputs = vec![
        call.input(0),
        given(call, 1),
        given(call, 2),
        given(call, 3),
    ];
    if op.transform != CoordinateTransform::TfCropAndResize {
        inputs[1] = None;
    }
    if inputs[2].is_some() == inputs[3].is_some() {
        return Err(call.error("one of scales and sizes must be given"));
    }
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    call.finish(Op::Resize(op), inputs)
}

/// An operand that is there and not empty: operator set 11 has an empty constant in
/// place of one left out.
fn given(call: &Call<'_, '_>, index: usize) -> Option<ValueId> {
    call.input(index)
        .filter(|_| call.constant(index).is_none_or(|t| !t.is_empty()))
}

fn resize_parameters(call: &Call<'_, '_>) -> Result<Resize, ModelError> {
    Ok(Resize {
        mode: call.choice("mode", Interpolation::Nearest, MODES)?,
        transform: call.choice(
            "coordinate_transformation_mode",
            CoordinateTransform::HalfPixel,
            &[
                ("half_pixel", CoordinateTransform::HalfPixel),
                (
                    "half_pixel_symmetric",
                    CoordinateTransform::HalfPixelSymmetric,
                ),
                ("pytorch_half_pixel", CoordinateTransform::PytorchHalfPixel),
                ("align_corners", CoordinateTransform::AlignCorners),
                ("asymmetric", CoordinateTransform::Asymmetric),
                ("tf_crop_and_resize", CoordinateTransform::TfCropAndResize),
            ],
        )?,
        rounding: call.choice(
            "nearest_mode",
            NearestRounding::RoundPreferFloor,
            &[
                ("round_prefer_floor", NearestRounding::RoundPreferFloor),
                ("round_prefer_ceil", NearestRounding::RoundPreferCeil),
                ("floor", NearestRounding::Floor),
                ("ceil", NearestRounding::Ceil),
            ],
        )?,
        cubic_coeff: call.float_or("cubic_coeff_a", -0.75)?,
        exclude_outside: call.flag("exclude_outside", false)?,
        extrapolation: call.float_or("extrapolation_value", 0.0)?,
        antialias: call.flag("antialias", false)?,
        axes: call
            .ints("axes")?
            .filter(|a| !a.is_empty())
            .map(<[i64]>::to_vec),
        aspect: call.choice(
            "keep_aspect_ratio_policy",
            AspectRatio::Stretch,
            &[
                ("stretch", AspectRatio::Stretch),
                ("not_larger", AspectRatio::NotLarger),
                ("not_smaller", AspectRatio::NotSmaller),
            ],
        )?,
    })
}

fn affine_grid(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let align_corners = call.flag("align_corners", false)?;
    call.finish_as_is(Op::AffineGrid(AffineGrid { align_corners }))
}

/// Operator set 20 renamed the modes.
fn grid_sample(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let op = Op::GridSample(GridSample {
        mode: call.choice(
            "mode",
            Interpolation::Linear,
            &[
                ("linear", Interpolation::Linear),
                ("bilinear", Interpolation::Linear),
                ("nearest", Interpolation::Nearest),
                ("cubic", Interpolation::Cubic),
                ("bicubic", Interpolation::Cubic),
            ],
        )?,
        padding: call.choice(
            "padding_mode",
            GridPadding::Zeros,
            &[
                ("zeros", GridPadding::Zeros),
                ("border", GridPadding::Border),
                ("reflection", GridPadding::Reflection),
            ],
        )?,
        align_corners: call.flag("align_corners", false)?,
    });
    call.finish_as_is(op)
}

fn resize_attributes(parameters: &Resize) -> Attributes<'static> {
    Attributes::default()
        .text("mode", interpolation(parameters.mode))
        .text(
            "coordinate_transformation_mode",
            match parameters.transform {
                CoordinateTransform::HalfPixel => "half_pixel",
                CoordinateTransform::HalfPixelSymmetric => "half_pixel_symmetric",
                CoordinateTransform::PytorchHalfPixel => "pytorch_half_pixel",
                CoordinateTransform::AlignCorners => "align_corners",
                CoordinateTransform::Asymmetric => "asymmetric",
                CoordinateTransform::TfCropAndResize => "tf_crop_and_resize",
            },
        )
        .text(
            "nearest_mode",
            match parameters.rounding {
                NearestRounding::RoundPreferFloor => "round_prefer_floor",
                NearestRounding::RoundPreferCeil => "round_prefer_ceil",
                NearestRounding::Floor => "floor",
                NearestRounding::Ceil => "ceil",
            },
        )
        .float("cubic_coeff_a", parameters.cubic_coeff)
        .flag("exclude_outside", parameters.exclude_outside)
        .float("extrapolation_value", parameters.extrapolation)
        .flag("antialias", parameters.antialias)
        .ints("axes", parameters.axes.clone().unwrap_or_default())
        .text(
            "keep_aspect_ratio_policy",
            match parameters.aspect {
                AspectRatio::Stretch => "stretch",
                AspectRatio::NotLarger => "not_larger",
                AspectRatio::NotSmaller => "not_smaller",
            },
        )
}

fn interpolation(mode: Interpolation) -> &'static str {
    match mode {
        Interpolation::Nearest => "nearest",
        Interpolation::Linear => "linear",
        Interpolation::Cubic => "cubic",
    }
}

fn grid_padding(padding: GridPadding) -> &'static str {
    match padding {
        GridPadding::Zeros => "zeros",
        GridPadding::Border => "border",
        GridPadding::Reflection => "reflection",
    }
}
