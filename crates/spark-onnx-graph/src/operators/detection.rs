//! Operators on boxes: which of them are kept, and what a picture has in each.
//!
//! How many rows the first gives hangs on the values of its operands, so that these must be constant.

use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_rank, check_same_dtype, check_shape, for_each_kept_box, one,
    op_error,
};
use crate::graph::{NonMaxSuppression, Op, PoolKind, RegionEdges, RoiAlign};
use crate::tensor::DType;

/// Samples of a cell along an axis that a file may ask for.
const MAX_SAMPLES: usize = 64;

impl Operator for NonMaxSuppression {
    const IMPORTS: &'static [Translator] = &[("NonMaxSuppression", non_max_suppression)];

    fn name(&self) -> &'static str {
        "NonMaxSuppression"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 5, 1)?;
        let mut n_kept = 0;
        for_each_kept_box(*self, operands, |_| n_kept += 1)?;
        one(DType::I64, [n_kept, 3])
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I64)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[0, 1, 2, 3, 4]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().flag("center_point_box", self.is_centred))
    }
}

fn non_max_suppression(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 5)?;
    let is_centred = call.flag("center_point_box", false)?;
    call.finish_as_is(Op::NonMaxSuppression(NonMaxSuppression { is_centred }))
}

impl Operator for RoiAlign {
    const IMPORTS: &'static [Translator] = &[("RoiAlign", roi_align)];

    fn name(&self) -> &'static str {
        "RoiAlign"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let x = operands.required(0, "x")?;
        let regions = operands.required(1, "rois")?;
        let samples = operands.required(2, "batch_indices")?;
        check_float("x", &x)?;
        check_same_dtype("rois", &regions, x.dtype)?;
        check_rank("x", &x, 4)?;
        check_rank("rois", &regions, 2)?;
        check_shape("rois", regions.shape, &[regions.shape[0], 4])?;
        check_shape("batch_indices", samples.shape, &regions.shape[..1])?;
        if samples.dtype != DType::I64 {
            return Err(op_error!(
                "`batch_indices` is {}, wanted i64",
                samples.dtype
            ));
        }
        if x.shape[2..].contains(&0) {
            return Err(op_error!(
                "`x` of shape {:?} has nothing to sample",
                x.shape
            ));
        }
        if self.cells.contains(&0) {
            return Err(op_error!("cells of {:?} rows and columns", self.cells));
        }
        if self.samples > MAX_SAMPLES {
            let n = self.samples;
            return Err(op_error!(
                "{n} samples of a cell, at most {MAX_SAMPLES} are supported"
            ));
        }
        let [rows, columns] = self.cells;
        one(x.dtype, [regions.shape[0], x.shape[1], rows, columns])
    }

    fn attributes(&self) -> Exported<'_> {
        let mode = match self.kind {
            PoolKind::Max => "max",
            PoolKind::Average => "avg",
        };
        let edges = match self.edges {
            RegionEdges::HalfPixel => "half_pixel",
            RegionEdges::OutputHalfPixel => "output_half_pixel",
        };
        let int = |n: usize| i64::try_from(n).map_err(|_| format!("{n} is no attribute"));
        Ok(Attributes::default()
            .text("mode", mode)
            .text("coordinate_transformation_mode", edges)
            .int("output_height", int(self.cells[0])?)
            .int("output_width", int(self.cells[1])?)
            .int("sampling_ratio", int(self.samples)?)
            .float("spatial_scale", self.scale))
    }
}

/// Operator set 16 moved regions by half an element, which the first form does not.
fn roi_align(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let edges = match call.opset() < 16 {
        true => RegionEdges::OutputHalfPixel,
        false => call.choice(
            "coordinate_transformation_mode",
            RegionEdges::HalfPixel,
            &[
                ("half_pixel", RegionEdges::HalfPixel),
                ("output_half_pixel", RegionEdges::OutputHalfPixel),
            ],
        )?,
    };
    let samples = call.int_or("sampling_ratio", 0)?;
    let samples = usize::try_from(samples)
        .map_err(|_| call.error(format!("attribute `sampling_ratio` is {samples}")))?;
    let op = RoiAlign {
        kind: call.choice(
            "mode",
            PoolKind::Average,
            &[("avg", PoolKind::Average), ("max", PoolKind::Max)],
        )?,
        edges,
        cells: [
            call.count("output_height", 1)?,
            call.count("output_width", 1)?,
        ],
        samples,
        scale: call.float_or("spatial_scale", 1.0)?,
    };
    call.finish_as_is(Op::RoiAlign(op))
}
