//! Operators that choose among boxes.
//!
//! How many rows they give hangs on the values of their operands, so that these must be constant.

use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{Operands, kept_boxes, one};
use crate::graph::{NonMaxSuppression, Op};
use crate::tensor::DType;

impl Operator for NonMaxSuppression {
    const IMPORTS: &'static [Translator] = &[("NonMaxSuppression", non_max_suppression)];

    fn name(&self) -> &'static str {
        "NonMaxSuppression"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 5, 1)?;
        one(DType::I64, [kept_boxes(*self, operands)?.len(), 3])
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
