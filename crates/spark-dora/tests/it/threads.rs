//! The same bits for every number of threads.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module};
use spark_dora::{DoraConv2d, DoraLinear, set_threads};
use spark_quant::Recipe;

use crate::data::noise;
use crate::packed::packed;

fn tensor(shape: &[usize], seed: u64, dtype: DType) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(dtype).unwrap()
}

fn var(shape: &[usize], seed: u64, dtype: DType) -> Tensor {
    let var = Var::from_tensor(&tensor(shape, seed, dtype)).unwrap();
    var.into_inner()
}

/// The bits of a layer's results and of all its gradients.
fn pass(layer: &dyn Module, variables: &[Tensor], x: &Tensor) -> Vec<Vec<u64>> {
    let y = layer.forward(x).unwrap();
    let dy = tensor(y.dims(), 77, y.dtype());
    let loss = (&y * dy).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let all = variables.iter().chain([x]);
    let all = all.map(|v| gradients.get(v).expect("a gradient").clone());
    let bits = |t: Tensor| {
        let t = t.flatten_all().unwrap();
        match t.dtype() {
            DType::F64 => t
                .to_vec1::<f64>()
                .unwrap()
                .iter()
                .map(|v| v.to_bits())
                .collect(),
            _ => t
                .to_vec1::<f32>()
                .unwrap()
                .iter()
                .map(|v| v.to_bits().into())
                .collect(),
        }
    };
    [y].into_iter().chain(all).map(bits).collect()
}

/// Fails unless the passes of layers that `make` gives have the same bits for every number of threads.
#[track_caller]
fn check<L: Module>(what: &str, make: impl Fn() -> (L, Vec<Tensor>, Tensor)) {
    /// The limit is the whole process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut want: Option<Vec<Vec<u64>>> = None;
    for threads in [1, 2, 3, 5, 16] {
        set_threads(threads);
        let (layer, variables, x) = make();
        // Twice: norms are computed in the first pass and found in the second.
        for turn in 0..2 {
            let got = pass(&layer, &variables, &x);
            match &want {
                None => want = Some(got),
                Some(want) => {
                    assert!(got == *want, "{what}, {threads} threads, pass {turn}");
                }
            }
        }
    }
    set_threads(1);
}

fn linear(dtype: DType, tokens: usize, inputs: usize, outputs: usize, rank: usize, dora: bool) {
    check(
        &format!("{dtype:?} {tokens} x {inputs} x {outputs}"),
        || {
            let base = Linear::new(
                tensor(&[outputs, inputs], 1, dtype),
                Some(tensor(&[outputs], 2, dtype)),
            );
            let a = var(&[rank, inputs], 3, dtype);
            let b = var(&[outputs, rank], 4, dtype);
            let m = dora.then(|| var(&[outputs], 5, dtype));
            let low = Some((a.clone(), b.clone()));
            let layer = DoraLinear::from_tensors(&base, low, m.clone(), 2.0).unwrap();
            let variables = [a, b].into_iter().chain(m).collect();
            (layer, variables, var(&[tokens, inputs], 6, dtype))
        },
    );
}

#[test]
fn linear_layers_have_the_same_bits_for_any_number_of_threads() {
    // Few tokens, with norms found along the way; some; so many that every thread has its own.
    linear(DType::F32, 3, 1030, 2050, 8, true);
    linear(DType::F32, 40, 517, 770, 16, true);
    linear(DType::F32, 130, 517, 600, 70, true);
    linear(DType::F32, 700, 257, 199, 16, true);
    linear(DType::F32, 2100, 130, 97, 4, false);
    linear(DType::F64, 33, 400, 389, 5, true);
    linear(DType::F64, 300, 130, 120, 5, false);
    // Too little to share out.
    linear(DType::F32, 2, 5, 3, 2, true);
}

#[test]
fn packed_layers_have_the_same_bits_for_any_number_of_threads() {
    for tokens in [7, 300] {
        check(&format!("packed, {tokens} tokens"), || {
            let weight = packed(Recipe::NVFP4, &[700, 256], 1);
            let config = spark_dora::LayerConfig {
                init: spark_dora::Init::Random,
                ..spark_dora::LayerConfig::dora(8)
            };
            let variables = candle_nn::VarMap::new();
            let vb = candle_nn::VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
            let layer = DoraLinear::from_packed(&weight, None, &config, vb).unwrap();
            let all = layer.factors().named().map(|(_, t)| t.clone()).collect();
            (layer, all, var(&[tokens, 256], 6, DType::F32))
        });
    }
}

#[test]
fn convolutions_have_the_same_bits_for_any_number_of_threads() {
    // Channels in and out, kernel, stride, groups, batch, height and width, rank.
    for (inputs, outputs, kernel, stride, groups, batch, extent, rank) in [
        (6, 40, 3, 1, 1, 3, (21, 37), 4),  // through the effective weight
        (96, 130, 1, 1, 1, 2, (9, 11), 8), // pointwise
        (160, 200, 3, 2, 1, 2, (8, 9), 8), // few pixels for its weight
        (12, 48, 3, 1, 1, 1, (40, 40), 0), // only the magnitude
        (48, 48, 3, 1, 2, 2, (24, 24), 4), // groups
        (3, 64, 3, 2, 1, 1, (64, 128), 2), // fewer channels than threads
    ] {
        for dtype in [DType::F32, DType::F64] {
            check(
                &format!("{dtype:?} {inputs} to {outputs}, kernel {kernel}"),
                || {
                    let config = Conv2dConfig {
                        stride,
                        padding: kernel / 2,
                        groups,
                        ..Default::default()
                    };
                    let inner = inputs / groups;
                    let weight = tensor(&[outputs, inner, kernel, kernel], 1, dtype);
                    let base = Conv2d::new(weight, Some(tensor(&[outputs], 2, dtype)), config);
                    let mut all = Vec::new();
                    let low = (rank > 0).then(|| {
                        let a = var(&[rank, inner, kernel, kernel], 3, dtype);
                        let b = var(&[outputs, rank, 1, 1], 4, dtype);
                        all.extend([a.clone(), b.clone()]);
                        (a, b)
                    });
                    let m = var(&[1, outputs, 1, 1], 5, dtype);
                    all.push(m.clone());
                    let layer = DoraConv2d::from_tensors(&base, low, Some(m), 2.0).unwrap();
                    let x = var(&[batch, inputs, extent.0, extent.1], 6, dtype);
                    (layer, all, x)
                },
            );
        }
    }
}
