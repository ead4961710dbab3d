//! Elements through the formats of tensor cores and back, as [`RoundedActivations`] says: one after the other, in f32.

use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use super::round_float::rounded;
use crate::graph::infer::{op_error, resolve_axis};
use crate::graph::{RoundFloat, RoundedActivations, SmallFloat, TensorType};

impl Evaluate for RoundedActivations {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            let mut x = inputs.get(0)?.to_f32();
            if let Some(wrong) = x.iter().find(|x| !x.is_finite()) {
                return Err(op_error!("cannot round {wrong}, which is not finite"));
            }
            let axis = resolve_axis(self.axis, ty.shape.len())?;
            let channels = ty.shape[axis];
            let inner: usize = ty.shape[axis + 1..].iter().product();
            let row: usize = ty.shape[1..].iter().product();
            let part = match axis {
                0 => x.len(),
                _ => row.saturating_mul(self.together),
            };
            for part in x.chunks_mut(part.max(1)) {
                let scale = self
                    .scale
                    .unwrap_or_else(|| self.format.scale(largest(part.iter())));
                match self.format.block() {
                    None => part.iter_mut().for_each(|x| *x = eight_bits(*x, scale)),
                    Some(block) => {
                        for image in part.chunks_mut((channels * inner).max(1)) {
                            for block in image.chunks_mut((block * inner).max(1)) {
                                (0..inner).for_each(|at| four_bits(block, (at, inner), scale));
                            }
                        }
                    }
                }
            }
            from_floats(ty, x.into_iter().map(f64::from).collect())
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.written(), 4))
    }
}

fn largest<'a>(values: impl Iterator<Item = &'a f32>) -> f32 {
    values.fold(0.0, |most, x| most.max(x.abs()))
}

fn nearest(x: f32, format: SmallFloat) -> f32 {
    let saturate = true;
    rounded(f64::from(x), RoundFloat { format, saturate }) as f32
}

fn eight_bits(x: f32, scale: f32) -> f32 {
    nearest(x / scale, SmallFloat::E4M3FN) * scale
}

/// Every `step`-th element from `first` on: the channels of a block.
fn four_bits(values: &mut [f32], (first, step): (usize, usize), scale: f32) {
    let channels = values.iter().skip(first).step_by(step);
    let most = largest(channels);
    let own = match most == 0.0 {
        true => 1.0,
        false => {
            let wanted = (most / (6.0 * scale)).clamp(2f32.powi(-9), 448.0);
            nearest(wanted, SmallFloat::E4M3FN)
        }
    };
    let unit = own * scale;
    for x in values.iter_mut().skip(first).step_by(step) {
        *x = nearest(*x / unit, SmallFloat::E2M1) * unit;
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use crate::graph::{ActivationFormat, RoundedActivations};
    use crate::tensor::Tensor;

    fn of(format: ActivationFormat, axis: i64, together: usize) -> RoundedActivations {
        RoundedActivations {
            format,
            axis,
            together,
            scale: None,
            len: None,
        }
    }

    fn rounded(op: RoundedActivations, shape: &[usize], x: &[f32]) -> Vec<f32> {
        let x = Tensor::from_f32(shape, x.to_vec()).expect("fits");
        evaluate(&op.into(), &[Some(&x)], 1).expect("is computed")[0].to_f32()
    }

    /// By hand: with 448 as the largest magnitude the scale is 1, and with 2688 that of NVFP4 is.
    #[test]
    fn numbers_between_those_of_the_formats_move_to_the_nearest() {
        let eight = of(ActivationFormat::E4m3, -1, 1);
        let got = rounded(eight, &[1, 5], &[448.0, 1.0625, 1.1875, -0.0015, 433.0]);
        // The steps are 2^-3 about 1, 2^-9 about 0 and 32 below 448.
        assert_eq!(got, [448.0, 1.0, 1.25, -2f32.powi(-9), 448.0]);
    }

    #[test]
    fn blocks_are_of_sixteen_channels_and_scales_of_one_part() {
        let four = of(ActivationFormat::Nvfp4, 1, 1);
        // Two samples of 17 channels: the last is a block alone. Of 2688 the scale is 1, that of its block 448.
        let mut x = vec![0.0f32; 34];
        x[0] = 2688.0;
        x[1] = 1000.0;
        x[16] = 5.5;
        x[17] = 6.0;
        x[18] = 2.4;
        let got = rounded(four, &[2, 17], &x);
        assert_eq!(got[0], 2688.0);
        assert_eq!(got[1], 2.0 * 448.0, "1000 / 448 is nearer to 2 than to 3");
        // 5.5 / 6 rounds to 0.9375, of which 5.5 is 5.87 times.
        assert_eq!(got[16], 6.0 * 0.9375);
        // A part of its own: of 6 / 2688 as scale 448 is that of the block.
        assert_eq!((got[17], got[18]), (6.0, 2.0));
        // In one part the second sample's scale is that of the first.
        let both = rounded(of(ActivationFormat::Nvfp4, 1, 2), &[2, 17], &x);
        assert_eq!(both[..17], got[..17]);
        assert_eq!(both[17], 6.0);
    }

    #[test]
    fn a_scale_that_is_given_clips() {
        let given = |format, scale| RoundedActivations {
            scale: Some(scale),
            ..of(format, -1, 1)
        };
        let got = rounded(given(ActivationFormat::E4m3, 0.5), &[1, 2], &[1000.0, -1.0]);
        assert_eq!(got, [224.0, -1.0]);
        let got = rounded(
            given(ActivationFormat::Nvfp4, 0.5),
            &[1, 2],
            &[-9000.0, 100.0],
        );
        assert_eq!(got, [-1344.0, 112.0]);
    }

    #[test]
    fn what_cannot_be_rounded_is_refused() {
        let x = Tensor::from_f32([1, 2], vec![1.0, f32::INFINITY]).expect("fits");
        let error = evaluate(&of(ActivationFormat::E4m3, -1, 1).into(), &[Some(&x)], 1);
        assert!(error.unwrap_err().to_string().contains("not finite"));
        let x = Tensor::from_f32([1, 2], vec![1.0, 2.0]).expect("fits");
        for (axis, together, scale, word) in [
            (2, 1, None, "axis"),
            (1, 0, None, "share a scale"),
            (1, 1, Some(0.0), "wanted a finite one"),
            (1, 1, Some(f32::NAN), "wanted a finite one"),
        ] {
            let op = RoundedActivations {
                scale,
                ..of(ActivationFormat::Nvfp4, axis, together)
            };
            let error = evaluate(&op.into(), &[Some(&x)], 1)
                .unwrap_err()
                .to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
