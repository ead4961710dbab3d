//! Resizing and sampling on grids.

use super::Translator;
use super::call::{Call, Translated};
use crate::ModelError;
use crate::graph::{
    AspectRatio, CoordinateTransform, GridPadding, GridSample, Interpolation, NearestRounding, Op,
    Resize, ValueId,
};
use crate::tensor::Tensor;

pub(super) const OPERATORS: &[Translator] = &[
    ("Resize", resize),
    ("Upsample", upsample),
    ("GridSample", grid_sample),
];

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
