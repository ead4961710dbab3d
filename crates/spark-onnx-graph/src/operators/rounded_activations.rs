//! What tensor cores of few bits are given: an operator of our own, of steps of training.

use super::operator::{Exported, Inferred, Operator};
use crate::file::import::call::Translator;
use crate::graph::RoundedActivations;
use crate::graph::infer::{Operands, check_float, one, op_error, resolve_axis};

impl Operator for RoundedActivations {
    const IMPORTS: &'static [Translator] = &[];

    fn name(&self) -> &'static str {
        "RoundedActivations"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        resolve_axis(self.axis, x.shape.len())?;
        if self.together == 0 {
            return Err(op_error!(
                "0 positions that share a scale, wanted 1 or more"
            ));
        }
        let least = self.format.least_scale();
        if let Some(scale) = self.scale
            && !(scale >= least && scale.is_finite())
        {
            return Err(op_error!(
                "a scale of {scale:e}, wanted a finite one from {least:e} on"
            ));
        }
        let len: usize = x.shape.iter().product();
        if let Some(wanted) = self.len
            && len != wanted
        {
            return Err(op_error!(
                "{len} elements, wanted the {wanted} of one run: several lie across each other here and would share scales, \
                 so that one is taken at a time"
            ));
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Err("rounded activations belong to training, of which there are no files".to_owned())
    }
}
