//! Forward passes and every gradient against the dense f64 oracle and finite differences.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Linear, Module};
use proptest::prelude::*;
use spark_dora::{DoraConv1d, DoraConv2d, DoraLinear, Factors};

use crate::data::{assert_close, noise, values};
use crate::oracle::{Case, Values};

/// A layer of any kind.
pub(crate) enum Layer {
    Linear(DoraLinear),
    Conv2d(DoraConv2d),
    Conv1d(DoraConv1d),
}

impl Layer {
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Linear(layer) => layer.forward(x),
            Self::Conv2d(layer) => layer.forward(x),
            Self::Conv1d(layer) => layer.forward(x),
        }
        .expect("an input that fits")
    }

    pub(crate) fn factors(&self) -> &Factors {
        match self {
            Self::Linear(layer) => layer.factors(),
            Self::Conv2d(layer) => layer.factors(),
            Self::Conv1d(layer) => layer.factors(),
        }
    }

    pub(crate) fn merged(&self) -> Vec<f64> {
        let weight = match self {
            Self::Linear(layer) => layer.merge().map(|m| m.layer.weight().clone()),
            Self::Conv2d(layer) => layer.merge().map(|m| m.layer.weight().clone()),
            Self::Conv1d(layer) => layer.merge().map(|m| m.layer.weight().clone()),
        };
        values(&weight.expect("finite weights"))
    }
}

/// Which module computes the case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Linear,
    Conv2d,
    Conv1d,
}

/// Which variables the layer has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Trained {
    Dora,
    Lora,
    Magnitude,
}

/// The layer, its input, and its trainable bias.
pub(crate) struct Built {
    pub(crate) layer: Layer,
    pub(crate) x: Var,
    pub(crate) bias: Var,
    pub(crate) weight: Tensor,
}

fn var(data: &[f64], shape: &[usize], dtype: DType) -> Var {
    let tensor = Tensor::from_slice(data, shape, &Device::Cpu).expect("as many values");
    Var::from_tensor(&tensor.to_dtype(dtype).expect("a float type")).expect("a variable")
}

/// Makes the layer of `case` with `v` in `dtype`.
pub(crate) fn build(kind: Kind, trained: Trained, case: &Case, v: &Values, dtype: DType) -> Built {
    let (out, r, c) = (case.outputs, case.rank, case.channels());
    let [kh, kw] = case.kernel;
    let [h, w] = case.extent;
    let shapes: [Vec<usize>; 5] = match kind {
        Kind::Linear => [
            vec![case.batch, c],
            vec![out, c],
            vec![r, c],
            vec![out, r],
            vec![out],
        ],
        Kind::Conv2d => [
            vec![case.batch, case.inputs, h, w],
            vec![out, c, kh, kw],
            vec![r, c, kh, kw],
            vec![out, r, 1, 1],
            vec![1, out, 1, 1],
        ],
        Kind::Conv1d => [
            vec![case.batch, case.inputs, w],
            vec![out, c, kw],
            vec![r, c, kw],
            vec![out, r, 1],
            vec![1, out, 1],
        ],
    };
    let x = var(&v.x, &shapes[0], dtype);
    let weight = var(&v.w, &shapes[1], dtype).into_inner();
    let bias = var(&v.bias, &[out], dtype);
    let tensor = |data: &[f64], shape: &[usize]| var(data, shape, dtype).into_inner();
    let low = (trained != Trained::Magnitude)
        .then(|| (tensor(&v.a, &shapes[2]), tensor(&v.b, &shapes[3])));
    let m = (trained != Trained::Lora).then(|| tensor(&v.m, &shapes[4]));
    let b = Some(bias.as_tensor().clone());
    let s = case.scaling;
    let layer = match kind {
        Kind::Linear => {
            let linear = Linear::new(weight.clone(), b);
            DoraLinear::from_tensors(&linear, low, m, s).map(Layer::Linear)
        }
        Kind::Conv2d => {
            let config = Conv2dConfig {
                padding: case.padding[0],
                stride: case.stride[0],
                dilation: case.dilation[0],
                groups: case.groups,
                cudnn_fwd_algo: None,
            };
            let conv = Conv2d::new(weight.clone(), b, config);
            DoraConv2d::from_tensors(&conv, low, m, s).map(Layer::Conv2d)
        }
        Kind::Conv1d => {
            let config = Conv1dConfig {
                padding: case.padding[1],
                stride: case.stride[1],
                dilation: case.dilation[1],
                groups: case.groups,
                cudnn_fwd_algo: None,
            };
            let conv = Conv1d::new(weight.clone(), b, config);
            DoraConv1d::from_tensors(&conv, low, m, s).map(Layer::Conv1d)
        }
    };
    Built {
        layer: layer.expect("tensors that fit"),
        x,
        bias,
        weight,
    }
}

/// What the oracle sees: without A and B, or with magnitudes that are the norms.
fn seen(case: &Case, v: &Values, trained: Trained) -> (Case, Values) {
    let (mut case, mut v) = (*case, v.clone());
    match trained {
        Trained::Dora => {}
        Trained::Lora => v.m = case.norms(&v),
        Trained::Magnitude => {
            case.rank = 0;
            (v.a, v.b) = (Vec::new(), Vec::new());
        }
    }
    (case, v)
}

/// Checks results, merged weight and all gradients of one layer, in f64 and in f32.
#[track_caller]
fn check(kind: Kind, trained: Trained, case: &Case, seed: u64) {
    check_in(
        &[(DType::F64, 1e-10), (DType::F32, 2e-5)],
        kind,
        trained,
        case,
        seed,
    );
}

/// The same in f64 alone, for shapes whose few terms may nearly cancel.
#[track_caller]
fn check_exactly(kind: Kind, trained: Trained, case: &Case, seed: u64) {
    check_in(&[(DType::F64, 1e-9)], kind, trained, case, seed);
}

#[track_caller]
fn check_in(types: &[(DType, f64)], kind: Kind, trained: Trained, case: &Case, seed: u64) {
    let v = case.values(seed);
    let (oracle, seen) = seen(case, &v, trained);
    let norms = oracle.norms(&seen);
    let y = oracle.forward(&seen, &norms);
    let g = noise(y.len(), seed + 7);
    let want = oracle.gradients(&seen, &g, &norms);
    for &(dtype, bound) in types {
        let built = build(kind, trained, case, &v, dtype);
        let got = built.layer.forward(built.x.as_tensor());
        let name = |what: &str| format!("{what} of {kind:?} {trained:?} {case:?} in {dtype:?}");
        assert_close(&name("y"), &values(&got), &y, bound);
        assert_close(
            &name("W'"),
            &built.layer.merged(),
            &oracle.merged(&seen, &norms),
            bound,
        );
        let cotangent = Tensor::from_slice(&g, got.dims(), &Device::Cpu).expect("as many");
        let loss = (got * cotangent.to_dtype(dtype).expect("float")).and_then(|p| p.sum_all());
        let gradients = loss.and_then(|l| l.backward()).expect("a backward pass");
        let factors = built.layer.factors();
        let expected = [
            ("dx", Some(built.x.as_tensor()), &want.x),
            ("dbias", Some(built.bias.as_tensor()), &want.bias),
            ("dA", factors.a(), &want.a),
            ("dB", factors.b(), &want.b),
            ("dm", factors.magnitude(), &want.m),
        ];
        for (what, tensor, want) in expected {
            let Some(tensor) = tensor else { continue };
            let got = gradients
                .get(tensor)
                .unwrap_or_else(|| panic!("no {}", name(what)));
            assert_eq!(got.dims(), tensor.dims(), "{}", name(what));
            assert_close(&name(what), &values(got), want, bound);
        }
        assert!(gradients.get(&built.weight).is_none(), "the base is frozen");
    }
}

fn conv(inputs: usize, outputs: usize, kernel: usize, groups: usize, rank: usize) -> Case {
    Case {
        batch: 2,
        inputs,
        outputs,
        extent: [7, 9],
        kernel: [kernel; 2],
        stride: [1; 2],
        padding: [kernel / 2; 2],
        dilation: [1; 2],
        groups,
        rank,
        scaling: 0.75,
    }
}

#[test]
fn linear_layers_of_few_and_many_tokens() {
    for tokens in [1, 5, 70] {
        for trained in [Trained::Dora, Trained::Lora, Trained::Magnitude] {
            check(Kind::Linear, trained, &Case::linear(tokens, 11, 7, 3), 1);
        }
    }
    check(Kind::Linear, Trained::Dora, &Case::linear(3, 70, 101, 5), 2);
}

#[test]
fn ranks_wider_than_a_block() {
    check(Kind::Linear, Trained::Dora, &Case::linear(3, 67, 66, 65), 3);
}

#[test]
fn plain_strided_and_pointwise_convolutions() {
    for trained in [Trained::Dora, Trained::Lora, Trained::Magnitude] {
        check(Kind::Conv2d, trained, &conv(4, 6, 3, 1, 2), 4);
    }
    let strided = Case {
        stride: [2; 2],
        ..conv(4, 6, 3, 1, 2)
    };
    check(Kind::Conv2d, Trained::Dora, &strided, 5);
    check(Kind::Conv2d, Trained::Dora, &conv(4, 6, 1, 1, 3), 6);
    let wide_stride = Case {
        stride: [3; 2],
        padding: [0; 2],
        ..conv(3, 5, 1, 1, 2)
    };
    check(Kind::Conv2d, Trained::Dora, &wide_stride, 7);
}

#[test]
fn convolutions_with_more_weight_than_pixels() {
    for trained in [Trained::Dora, Trained::Lora, Trained::Magnitude] {
        let small = Case {
            batch: 1,
            extent: [2, 3],
            ..conv(10, 12, 3, 1, 3)
        };
        check(Kind::Conv2d, trained, &small, 16);
        let pointwise = Case {
            kernel: [1; 2],
            padding: [0; 2],
            ..small
        };
        check(Kind::Conv2d, trained, &pointwise, 17);
    }
}

#[test]
fn strided_convolutions_whose_last_column_reads_half_a_pair() {
    for width in [8, 9] {
        let strided = Case {
            extent: [5, width],
            stride: [2; 2],
            padding: [0; 2],
            ..conv(3, 4, 3, 1, 2)
        };
        check(Kind::Conv2d, Trained::Dora, &strided, 18);
    }
    let one_by_one = Case {
        extent: [3, 9],
        kernel: [1; 2],
        stride: [2; 2],
        padding: [0; 2],
        ..conv(3, 4, 1, 1, 2)
    };
    check(Kind::Conv2d, Trained::Dora, &one_by_one, 19);
}

#[test]
fn dilated_convolutions() {
    let dilated = Case {
        dilation: [2; 2],
        padding: [2; 2],
        ..conv(3, 4, 3, 1, 2)
    };
    check(Kind::Conv2d, Trained::Dora, &dilated, 8);
    let strided = Case {
        stride: [2; 2],
        ..dilated
    };
    check(Kind::Conv2d, Trained::Dora, &strided, 9);
}

#[test]
fn grouped_and_depthwise_convolutions() {
    for trained in [Trained::Dora, Trained::Lora, Trained::Magnitude] {
        check(Kind::Conv2d, trained, &conv(6, 4, 3, 2, 3), 10);
        check(Kind::Conv2d, trained, &conv(5, 5, 3, 5, 4), 11);
    }
    let everything = Case {
        stride: [2; 2],
        dilation: [2; 2],
        ..conv(6, 12, 3, 6, 5)
    };
    check(Kind::Conv2d, Trained::Dora, &everything, 12);
}

#[test]
fn one_dimensional_convolutions() {
    let conv1d = Case {
        extent: [1, 13],
        kernel: [1, 3],
        padding: [0, 1],
        ..conv(4, 6, 1, 1, 2)
    };
    check(Kind::Conv1d, Trained::Dora, &conv1d, 13);
    let grouped = Case {
        groups: 2,
        stride: [1, 2],
        dilation: [1, 2],
        padding: [0, 3],
        ..conv1d
    };
    check(Kind::Conv1d, Trained::Dora, &grouped, 14);
}

#[test]
fn more_pixels_than_one_block() {
    let many = Case {
        extent: [11, 10],
        ..conv(2, 3, 3, 1, 2)
    };
    check(Kind::Conv2d, Trained::Dora, &many, 15);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_convolution(
        batch in 1usize..3, groups in 1usize..4, inputs in 1usize..4, outputs in 1usize..4,
        extent in [1usize..9, 1usize..9], kernel in 1usize..4, stride in 1usize..4,
        padding in 0usize..4, dilation in 1usize..3, seed in 0u64..1000,
    ) {
        let reach = dilation * (kernel - 1) + 1;
        prop_assume!(extent.iter().all(|e| e + 2 * padding >= reach));
        let (inputs, outputs) = (inputs * groups, outputs * groups);
        let case = Case {
            batch, inputs, outputs, extent, groups,
            kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2],
            dilation: [dilation; 2], rank: 1, scaling: 0.5,
        };
        check_exactly(Kind::Conv2d, Trained::Dora, &case, seed);
    }

    #[test]
    fn any_linear_layer(
        tokens in 1usize..9, inputs in 1usize..20, outputs in 1usize..20, rank in 1usize..4,
        seed in 0u64..1000,
    ) {
        check_exactly(Kind::Linear, Trained::Dora, &Case::linear(tokens, inputs, outputs, rank), seed);
    }
}
