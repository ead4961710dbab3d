//! Random numbers.
//!
//! ```text
//! RandomUniform, RandomNormal   RandomLike of a tensor of that shape
//! Bernoulli      y = uniform numbers < x
//! Multinomial    w = running sums of softmax(x);  y = how many of a row of w are not above uniform * its last
//! ```
//!
//! Numbers of a seed are known before data flow, so that they are constants of a bound graph
//! ([`RandomLike`] says which). A graph that runs again and again within a network would draw the same each time,
//! which is refused (`graph::bind`).
//!
//! Source: ONNX operators RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike and Bernoulli, version 22,
//! and Multinomial, version 22. They name no generator, and without a seed want one made up. That is done from the
//! name of the result: a network gives the same results in every run, and two nodes differ.

use super::elementwise::stated_dtype;
use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::file::tensors::number_of;
use crate::graph::infer::{Operands, check_float, check_same_dtype, check_scalar, one, op_error};
use crate::graph::{
    Binary, Cast, Concat, ConstantOfShape, CountedDropout, CumSum, Distribution, Gather, Op,
    RandomLike, Reduce, ReduceKind, Shape, Softmax, Unsqueeze, ValueId, Variadic,
};
use crate::tensor::{DType, Tensor};

/// Operators of a file that are short for others.
pub(super) const SPELLED_OUT: &[Translator] = &[
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("RandomNormal", of_shape),
    ("RandomUniform", of_shape),
];

impl Operator for RandomLike {
    const IMPORTS: &'static [Translator] =
        &[("RandomNormalLike", like), ("RandomUniformLike", like)];

    fn name(&self) -> &'static str {
        match self.distribution {
            Distribution::Uniform { .. } => "RandomUniformLike",
            Distribution::Normal { .. } => "RandomNormalLike",
        }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        let dtype = self.dtype.unwrap_or(x.dtype);
        if !dtype.is_float() {
            return Err(op_error!("random numbers of {dtype}, wanted a float type"));
        }
        let (first, second, is_right) = match self.distribution {
            Distribution::Uniform { low, high } => (low, high, low <= high),
            Distribution::Normal { mean, scale } => (mean, scale, scale >= 0.0),
        };
        if !(is_right && first.is_finite() && second.is_finite()) {
            return Err(op_error!("{:?} is no distribution", self.distribution));
        }
        one(dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        self.dtype.or_else(|| operand(0))
    }

    fn attributes(&self) -> Exported<'_> {
        let seed = Attributes::default().float("seed", self.seed);
        let spread = match self.distribution {
            Distribution::Uniform { low, high } => seed.float("low", low).float("high", high),
            Distribution::Normal { mean, scale } => seed.float("mean", mean).float("scale", scale),
        };
        Ok(match self.dtype {
            Some(dtype) => spread.int("dtype", i64::from(number_of(dtype))),
            None => spread,
        })
    }
}

impl Operator for CountedDropout {
    const IMPORTS: &'static [Translator] = &[];

    fn name(&self) -> &'static str {
        "CountedDropout"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        let pass = operands.required(1, "pass")?;
        check_same_dtype("pass", &pass, DType::I64)?;
        check_scalar("pass", &pass)?;
        if !(0.0..1.0).contains(&self.probability) {
            return Err(op_error!(
                "a probability of {}, wanted one in 0..1",
                self.probability
            ));
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Err(
            "a dropout by counting belongs to a step of training, of which there are no files"
                .to_owned(),
        )
    }
}

fn like(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let op = Op::RandomLike(RandomLike {
        distribution: distribution(call)?,
        dtype: stated_dtype(call, "dtype")?,
        seed: seed(call)?,
    });
    call.finish_as_is(op)
}

fn of_shape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(0, 0)?;
    let Some(shape) = call.ints("shape")? else {
        return Err(call.error("attribute `shape` is missing"));
    };
    let op = Op::RandomLike(RandomLike {
        distribution: distribution(call)?,
        dtype: Some(stated_dtype(call, "dtype")?.unwrap_or(DType::F32)),
        seed: seed(call)?,
    });
    let shape = call.new_ints("shape", shape)?;
    let value = Tensor::zeros(DType::Bool, [1])?;
    let x = call.step(
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[Some(shape)],
    )?;
    call.finish(op, vec![Some(x)])
}

fn bernoulli(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let stated = stated_dtype(call, "dtype")?;
    let to = stated.or_else(|| call.builder.dtype(x));
    let Some(to) = to else {
        return Err(
            call.error("attribute `dtype` is missing, and the type of `x` is not known here")
        );
    };
    let drawn = unit(call, x, None)?;
    let hit = call.binary_step(Binary::Less, drawn, x)?;
    call.finish(Op::Cast(Cast { to }), vec![Some(hit)])
}

/// A class follows from a uniform number by the running sums of the probabilities. The number is multiplied by
/// their last, which rounding leaves off 1, so that no class without probability is drawn.
fn multinomial(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let to = stated_dtype(call, "dtype")?.unwrap_or(DType::I32);
    if !matches!(to, DType::I32 | DType::I64) {
        return Err(call.error(format!("attribute `dtype` is {to}, wanted i32 or i64")));
    }
    let n = call.count("sample_size", 1)?;
    let x = call.step(Op::Cast(Cast { to: DType::F32 }), &[Some(x)])?;
    let softmax = Op::Softmax(Softmax {
        axis: 1,
        log: false,
        flatten: false,
    });
    let weights = call.step(softmax, &[Some(x)])?;
    let one = call.new_constant("one", Tensor::from_i64([], vec![1])?)?;
    let sums = Op::CumSum(CumSum {
        exclusive: false,
        reverse: false,
    });
    let sums = call.step(sums, &[Some(weights), Some(one)])?;
    let last = call.new_ints("last", &[-1])?;
    let total = call.step(Op::Gather(Gather { axis: 1 }), &[Some(sums), Some(last)])?;
    // [batch, n] numbers against [batch, 1, classes] sums.
    let extents = |start, end| {
        Op::Shape(Shape {
            start,
            end: Some(end),
        })
    };
    let batch = call.step(extents(0, 1), &[Some(x)])?;
    let n = call.new_ints("n", &[n as i64])?;
    let shape = call.step(Op::Concat(Concat { axis: 0 }), &[Some(batch), Some(n)])?;
    let value = Tensor::zeros(DType::Bool, [1])?;
    let places = call.step(
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[Some(shape)],
    )?;
    let drawn = unit(call, places, Some(DType::F32))?;
    let drawn = call.binary_step(Binary::Mul, drawn, total)?;
    let behind = call.new_ints("behind", &[2])?;
    let drawn = call.step(Op::Unsqueeze(Unsqueeze), &[Some(drawn), Some(behind)])?;
    let between = call.new_ints("between", &[1])?;
    let sums = call.step(Op::Unsqueeze(Unsqueeze), &[Some(sums), Some(between)])?;
    let passed = call.binary_step(Binary::LessOrEqual, sums, drawn)?;
    let passed = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(passed)])?;
    let count = Op::Reduce(Reduce {
        kind: ReduceKind::Sum,
        keep_dims: false,
        noop_with_empty_axes: false,
    });
    let class = call.step(count, &[Some(passed), Some(behind)])?;
    // Where a total is 0, all sums are passed.
    let classes = call.step(extents(1, 2), &[Some(x)])?;
    let greatest = call.binary_step(Binary::Sub, classes, one)?;
    let smaller = Op::Variadic(Variadic::Min);
    let class = call.step(smaller, &[Some(class), Some(greatest)])?;
    call.finish(Op::Cast(Cast { to }), vec![Some(class)])
}

/// Uniform numbers from 0 up to 1, of the shape of `x` and of a type, or that of `x`.
fn unit(call: &mut Call<'_, '_>, x: ValueId, dtype: Option<DType>) -> Result<ValueId, ModelError> {
    let op = Op::RandomLike(RandomLike {
        distribution: Distribution::Uniform {
            low: 0.0,
            high: 1.0,
        },
        dtype,
        seed: seed(call)?,
    });
    call.step(op, &[Some(x)])
}

fn distribution(call: &Call<'_, '_>) -> Result<Distribution, ModelError> {
    Ok(match call.op_type().starts_with("RandomNormal") {
        true => Distribution::Normal {
            mean: call.float_or("mean", 0.0)?,
            scale: call.float_or("scale", 1.0)?,
        },
        false => Distribution::Uniform {
            low: call.float_or("low", 0.0)?,
            high: call.float_or("high", 1.0)?,
        },
    })
}

/// The seed that is stated, or a whole number below 2^24 from the name of the first result.
fn seed(call: &Call<'_, '_>) -> Result<f32, ModelError> {
    if let Some(seed) = call.float("seed")? {
        return Ok(seed);
    }
    // FNV-1a.
    let name = call.node.outputs.first().map_or("", |name| name);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Ok((hash >> 40) as f32)
}
