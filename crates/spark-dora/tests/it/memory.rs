//! What DoRA's training step holds in memory beside LoRA's.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap};
use spark_dora::{DoraConv2d, DoraLinear, LayerConfig, Result};

use spark_testing::Watch;

/// Bytes held at most: by the layer with everything it keeps, and by a step beyond that.
#[derive(Debug)]
struct Held {
    layer: usize,
    step: usize,
}

/// Makes a layer and trains it for two optimiser steps of two passes.
fn held<L: Module>(make: impl FnOnce(VarBuilder<'static>) -> Result<L>, x: &[usize]) -> Held {
    let x = Var::randn(0f32, 1.0, x, &Device::Cpu).unwrap();
    let whole = Watch::start();
    let variables = VarMap::new();
    let layer = make(VarBuilder::from_varmap(
        &variables,
        DType::F32,
        &Device::Cpu,
    ))
    .unwrap();
    let mut step = 0;
    for _ in 0..2 {
        for var in variables.all_vars() {
            var.set(&(var.as_detached_tensor() + 0.01).unwrap())
                .unwrap();
        }
        let watch = Watch::start();
        for _ in 0..2 {
            let y = layer.forward(x.as_tensor()).unwrap();
            y.sum_all().unwrap().backward().unwrap();
        }
        // The first step makes what the layer keeps; the last tells what comes and goes.
        step = watch.peak();
    }
    let layer = whole.held_now();
    Held { layer, step }
}

#[track_caller]
fn check(name: &str, base: usize, dora: &Held, lora: &Held) {
    let steps = dora.step as f64 / lora.step as f64;
    assert!(
        steps <= 1.05,
        "{name}: a step {steps:.3} of LoRA's, {dora:?} {lora:?}"
    );
    let all = |held: &Held| (base + held.layer + held.step) as f64;
    let all = all(dora) / all(lora);
    assert!(
        all <= 1.05,
        "{name}: all memory {all:.3} of LoRA's, {dora:?} {lora:?}"
    );
}

#[test]
fn a_linear_training_step_takes_at_most_a_twentieth_more_than_with_lora() {
    for (outputs, inputs, tokens) in [(512, 512, 200), (1024, 1024, 32), (2048, 1024, 8)] {
        let weight = Tensor::randn(0f32, 0.02, (outputs, inputs), &Device::Cpu).unwrap();
        let base = Linear::new(weight, None);
        let of = |config: LayerConfig| {
            held(
                |vb| DoraLinear::from_linear(&base, &config, vb),
                &[tokens, inputs],
            )
        };
        let (dora, lora) = (of(LayerConfig::dora(16)), of(LayerConfig::lora(16)));
        check(
            &format!("{outputs}x{inputs}"),
            4 * outputs * inputs,
            &dora,
            &lora,
        );
    }
}

#[test]
fn a_convolutional_training_step_takes_at_most_a_twentieth_more_than_with_lora() {
    let cases = [
        (64, 64, 3, 1, [1, 32, 64]),
        (12, 64, 3, 2, [1, 64, 128]),
        (256, 512, 1, 1, [2, 4, 8]),
    ];
    for (inputs, outputs, kernel, stride, [batch, height, width]) in cases {
        let shape = (outputs, inputs, kernel, kernel);
        let weight = Tensor::randn(0f32, 0.02, shape, &Device::Cpu).unwrap();
        let config = Conv2dConfig {
            padding: kernel / 2,
            stride,
            ..Conv2dConfig::default()
        };
        let base = Conv2d::new(weight, None, config);
        let x = [batch, inputs, height, width];
        let of = |config: LayerConfig| held(|vb| DoraConv2d::from_conv2d(&base, &config, vb), &x);
        let (dora, lora) = (of(LayerConfig::dora(8)), of(LayerConfig::lora(8)));
        let bytes = 4 * outputs * inputs * kernel * kernel;
        check(&format!("{shape:?}"), bytes, &dora, &lora);
    }
}
