//! NaN, infinities and scales that f32 does not hold are refused, with the tensor's or setting's name.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Embedding, Linear, VarBuilder, VarMap};
use spark_dora::{Adapter, DoraConfig, DoraError, DoraLinear, LayerConfig, Targets};
use spark_quant::packed::Scales;
use spark_quant::{ExecutionPolicy, PackedTensor, Quantizer, Recipe};

const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Ones with `bad` at element 7.
fn with(bad: f64, shape: &[usize], dtype: DType) -> Tensor {
    let mut data = vec![1.0; shape.iter().product()];
    data[7] = bad;
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(dtype).unwrap()
}

fn adapter() -> Adapter {
    let config = DoraConfig::builder(2).exclude(["plain"]).build().unwrap();
    Adapter::new(config, DType::F32, &Device::Cpu).unwrap()
}

#[track_caller]
fn check<T>(result: Result<T, DoraError>, want: &str) {
    match result.err() {
        Some(DoraError::NotFinite { name, index: 7 }) => assert_eq!(name, want),
        other => panic!("{want}: {other:?}"),
    }
}

#[test]
fn base_weights_that_are_no_numbers_are_named() {
    for bad in BAD {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let weight = with(bad, &[12, 10], dtype);
            check(
                adapter().linear("a.fc", &Linear::new(weight.clone(), None)),
                "a.fc.weight",
            );
            check(
                adapter().linear("plain", &Linear::new(weight.clone(), None)),
                "plain.weight",
            );
            check(
                adapter().embedding("e", &Embedding::new(weight, 10)),
                "e.weight",
            );
            let conv = with(bad, &[8, 4, 3, 3], dtype);
            let conv = Conv2d::new(conv, None, Conv2dConfig::default());
            check(adapter().conv2d("c", &conv), "c.weight");
        }
        let good = Tensor::ones((12, 10), DType::F32, &Device::Cpu).unwrap();
        let bias = Some(with(bad, &[12], DType::F32));
        check(
            adapter().linear("a.fc", &Linear::new(good, bias)),
            "a.fc.bias",
        );
    }
}

#[test]
fn packed_weights_that_are_no_numbers_are_named() {
    let weight = vec![1.0f32; 16 * 32];
    let quantizer = Quantizer::new(Recipe::FP8);
    let packed = quantizer
        .quantize(ExecutionPolicy::detect(), &weight, &[16, 32], 1)
        .unwrap();
    let Scales::F32 { mut values, block } = packed.scales().clone() else {
        panic!("scales of f32")
    };
    // A finite scale whose product with a code is none.
    *values.last_mut().unwrap() = f32::MAX;
    let scales = Scales::F32 { values, block };
    let codes = packed.codes().to_vec();
    let bad = PackedTensor::from_parts(&[16, 32], 1, packed.format(), codes, scales).unwrap();
    let wide = bad.dequantize(ExecutionPolicy::detect()).unwrap();
    let first = wide.iter().position(|v| !v.is_finite()).unwrap();
    match adapter().packed_linear("q", &bad, None).err() {
        Some(DoraError::NotFinite { name, index }) => {
            assert_eq!((name.as_str(), index), ("q.weight", first));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stored_factors_that_are_no_numbers_are_named() {
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let base = Linear::new(ones(&[12, 10]), None);
    for bad in BAD {
        let stored = VarMap::new();
        let vb = VarBuilder::from_varmap(&stored, DType::F32, &Device::Cpu).pp("x.fc");
        let bad = candle_core::Var::from_tensor(&with(bad, &[2, 10], DType::F32)).unwrap();
        stored
            .data()
            .lock()
            .unwrap()
            .insert("x.fc.lora_A.weight".to_owned(), bad);
        let config = LayerConfig::dora(2);
        check(
            DoraLinear::from_linear(&base, &config, vb),
            "x.fc.lora_A.weight",
        );
    }
    let factors = || Some((ones(&[2, 10]), ones(&[12, 2])));
    for scaling in [f64::NAN, f64::INFINITY, 1e39] {
        let made = DoraLinear::from_tensors(&base, factors(), None, scaling);
        check_setting(made, "scaling");
    }
    let bad = Linear::new(with(f64::NAN, &[12, 10], DType::F32), None);
    check(
        DoraLinear::from_tensors(&bad, factors(), None, 1.0),
        "weight",
    );
}

#[track_caller]
fn check_setting<T>(result: Result<T, DoraError>, want: &str) {
    match result.err() {
        Some(DoraError::Setting { name, .. }) => assert_eq!(name, want),
        other => panic!("{want}: {other:?}"),
    }
}

#[test]
fn a_scale_that_f32_does_not_hold_is_named() {
    check_setting(DoraConfig::builder(4).alpha(1e308).build(), "lora_alpha");
    check_setting(
        DoraConfig::builder(4).alpha_of("fc", 1e308).build(),
        "alpha_pattern of `fc`",
    );
    check_setting(
        DoraConfig::builder(4).alpha_of("fc", f64::NAN).build(),
        "alpha_pattern of `fc`",
    );
    // Only this layer's rank makes it too large.
    let config = DoraConfig::builder(16)
        .alpha(4e38)
        .rank("a.fc", 1)
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let weight = Tensor::ones((16, 16), DType::F32, &Device::Cpu).unwrap();
    let base = Linear::new(weight, None);
    check_setting(adapter.linear("a.fc", &base), "lora_alpha of `a.fc`");
    assert!(adapter.linear("b.fc", &base).is_ok());
    // A configuration that was changed after it was built.
    let mut config = DoraConfig::builder(4).build().unwrap();
    config.lora_alpha = 1e308;
    config.target_modules = Some(Targets::Names(vec!["fc".to_owned()]));
    check_setting(
        Adapter::new(config, DType::F32, &Device::Cpu).map(drop),
        "lora_alpha",
    );
}
