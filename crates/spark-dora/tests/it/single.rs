//! Layers of any shape in f32 against the dense f64 oracle, within a bound that the arithmetic gives.
//!
//! ```text
//! |got - want|  <=  n u (1 + c) sum of |products|        u = 2^-24
//! ```
//!
//! `n` is the number of roundings one result can go through (depth, rank, columns, outputs and a few).
//! `c` is the condition of the worst row's norm: the length of `|W| + s |B| |A|` over that of `W + s B A`,
//! squared. The sum is the oracle's result for the absolute values of all operands.

use candle_core::{DType, Tensor};
use proptest::prelude::*;

use crate::data::{noise, values};
use crate::gradients::{Kind, Trained, build};
use crate::oracle::{Case, Values};

const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

fn map(v: &Values, f: fn(f64) -> f64) -> Values {
    let all = |values: &[f64]| values.iter().map(|&v| f(v)).collect();
    Values {
        x: all(&v.x),
        w: all(&v.w),
        bias: all(&v.bias),
        a: all(&v.a),
        b: all(&v.b),
        m: all(&v.m),
    }
}

fn in_f32(value: f64) -> f64 {
    f64::from(value as f32)
}

#[track_caller]
fn assert_within(what: &str, got: &Tensor, want: &[f64], scale: &[f64], factor: f64) {
    let got = values(got);
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, ((got, want), scale)) in got.iter().zip(want).zip(scale).enumerate() {
        let (error, bound) = ((got - want).abs(), factor * scale);
        // Inside or fail, so that NaN never passes.
        let inside = error <= bound;
        assert!(
            inside,
            "{what}[{i}]: {got} for {want}, off by {error:e} > {bound:e}"
        );
    }
}

#[track_caller]
fn check(kind: Kind, case: &Case, seed: u64) {
    let v = map(&case.values(seed), in_f32);
    let absolute = map(&v, f64::abs);
    let (norms, long) = (case.norms(&v), case.norms(&absolute));
    let y = case.forward(&v, &norms);
    let g: Vec<f64> = noise(y.len(), seed + 7).into_iter().map(in_f32).collect();
    let g_absolute: Vec<f64> = g.iter().map(|g| g.abs()).collect();
    let want = case.gradients(&v, &g, &norms);
    let y_scale = case.forward(&absolute, &norms);
    let mut scale = case.gradients(&absolute, &g_absolute, &norms);
    // The magnitude's gradient is found from results with their bias.
    let pixels = case.out()[0] * case.out()[1];
    scale.m = vec![0.0; case.outputs];
    for (i, (y, g)) in y_scale.iter().zip(&g_absolute).enumerate() {
        let o = i / pixels % case.outputs;
        scale.m[o] += y * g / absolute.m[o];
    }
    let conditions = long
        .iter()
        .zip(&norms)
        .map(|(long, norm)| (long / norm).powi(2));
    let condition = conditions.fold(0.0, f64::max);
    let roundings = case.depth() + case.rank + y.len() / case.outputs + case.outputs + 16;
    let factor = roundings as f64 * ROUNDING * (1.0 + condition);

    let built = build(kind, Trained::Dora, case, &v, DType::F32);
    let got = built.layer.forward(built.x.as_tensor());
    let name = |what: &str| format!("{what} of {kind:?} {case:?}");
    assert_within(&name("y"), &got, &y, &y_scale, factor);
    let cotangent = Tensor::from_slice(&g, got.dims(), got.device()).unwrap();
    let cotangent = cotangent.to_dtype(DType::F32).unwrap();
    let loss = (got * cotangent).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let factors = built.layer.factors();
    let variables = [
        ("dx", Some(built.x.as_tensor()), &want.x, &scale.x),
        (
            "dbias",
            Some(built.bias.as_tensor()),
            &want.bias,
            &scale.bias,
        ),
        ("dA", factors.a(), &want.a, &scale.a),
        ("dB", factors.b(), &want.b, &scale.b),
        ("dm", factors.magnitude(), &want.m, &scale.m),
    ];
    for (what, variable, want, scale) in variables {
        let got = gradients
            .get(variable.expect("DoRA has it"))
            .expect("a gradient");
        assert_within(&name(what), got, want, scale, factor);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_convolution_in_f32(
        batch in 1usize..3, groups in 1usize..4, inputs in 1usize..4, outputs in 1usize..4,
        extent in [1usize..9, 1usize..9], kernel in 1usize..4, stride in 1usize..4,
        padding in 0usize..4, dilation in 1usize..3, rank in 1usize..3, seed in 0u64..1000,
    ) {
        let reach = dilation * (kernel - 1) + 1;
        prop_assume!(extent.iter().all(|e| e + 2 * padding >= reach));
        let case = Case {
            batch, extent, groups, rank, scaling: 0.5,
            inputs: inputs * groups, outputs: outputs * groups,
            kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2],
            dilation: [dilation; 2],
        };
        check(Kind::Conv2d, &case, seed);
    }

    #[test]
    fn any_linear_layer_in_f32(
        tokens in 1usize..80, inputs in 1usize..20, outputs in 1usize..20, rank in 1usize..4,
        seed in 0u64..1000,
    ) {
        check(Kind::Linear, &Case::linear(tokens, inputs, outputs, rank), seed);
    }
}
