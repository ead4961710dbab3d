//! Adapters that change nothing, rows of length zero, and half-precision bases.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Embedding, Linear, Module, VarBuilder, VarMap};
use spark_dora::{DoraConv2d, DoraEmbedding, DoraLinear, LayerConfig, equivalence};

use crate::data::{noise, values};

const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

fn tensor(shape: &[usize], seed: u64, dtype: DType) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).expect("as many values");
    tensor.to_dtype(dtype).expect("a float type")
}

/// Variables beside a base of `dtype`.
fn store(variables: &VarMap, dtype: DType) -> VarBuilder<'static> {
    let dtype = if dtype == DType::F64 {
        dtype
    } else {
        DType::F32
    };
    VarBuilder::from_varmap(variables, dtype, &Device::Cpu)
}

#[test]
fn a_new_adapter_changes_no_bit_of_a_half_precision_base() {
    for dtype in [DType::F16, DType::BF16] {
        let linear = Linear::new(tensor(&[33, 40], 1, dtype), Some(tensor(&[33], 2, dtype)));
        let x = tensor(&[7, 40], 3, dtype);
        let variables = VarMap::new();
        let layer =
            DoraLinear::from_linear(&linear, &LayerConfig::dora(4), store(&variables, dtype));
        let y = layer.unwrap().forward(&x).unwrap();
        assert_eq!(y.dtype(), dtype);
        assert_eq!(
            values(&y),
            values(&linear.forward(&x).unwrap()),
            "{dtype:?}"
        );

        if dtype == DType::BF16 {
            continue; // candle has no convolution of this type on the CPU
        }
        let config = Conv2dConfig {
            padding: 1,
            ..Conv2dConfig::default()
        };
        let bias = Some(tensor(&[8], 5, dtype));
        let conv = Conv2d::new(tensor(&[8, 6, 3, 3], 4, dtype), bias, config);
        let x = tensor(&[2, 6, 5, 7], 6, dtype);
        let variables = VarMap::new();
        let layer = DoraConv2d::from_conv2d(&conv, &LayerConfig::dora(4), store(&variables, dtype));
        let y = layer.unwrap().forward(&x).unwrap();
        assert_eq!(values(&y), values(&conv.forward(&x).unwrap()), "{dtype:?}");
    }
}

#[test]
fn a_new_adapter_gives_the_bits_of_the_layer_without_one() {
    for dtype in [DType::F32, DType::F64] {
        let linear = Linear::new(tensor(&[33, 40], 1, dtype), Some(tensor(&[33], 2, dtype)));
        let x = tensor(&[7, 40], 3, dtype);
        let variables = VarMap::new();
        let dora =
            DoraLinear::from_linear(&linear, &LayerConfig::dora(4), store(&variables, dtype));
        let bare = DoraLinear::from_tensors(&linear, None, None, 1.0).unwrap();
        let (dora, bare) = (
            dora.unwrap().forward(&x).unwrap(),
            bare.forward(&x).unwrap(),
        );
        assert_eq!(values(&dora), values(&bare), "{dtype:?}");
        let plain = values(&linear.forward(&x).unwrap());
        crate::data::assert_close("candle's own layer", &values(&dora), &plain, 1e-6);
    }
}

#[test]
fn a_new_embedding_adapter_changes_no_bit() {
    let ids = Tensor::new(&[[0u32, 3, 12], [5, 5, 1]], &Device::Cpu).unwrap();
    for dtype in TYPES {
        let embedding = Embedding::new(tensor(&[13, 10], 1, dtype), 10);
        let variables = VarMap::new();
        let config = LayerConfig::dora(3);
        let layer = DoraEmbedding::from_embedding(&embedding, &config, store(&variables, dtype));
        let y = layer.unwrap().forward(&ids).unwrap();
        assert_eq!(
            values(&y),
            values(&embedding.forward(&ids).unwrap()),
            "{dtype:?}"
        );
    }
}

#[test]
fn rows_of_length_zero_stay_finite_and_can_leave_zero() {
    for dtype in TYPES {
        let mask = Tensor::new(&[[1f64], [0.0], [1.0], [0.0]], &Device::Cpu).unwrap();
        let weight = tensor(&[4, 6], 1, DType::F64).broadcast_mul(&mask).unwrap();
        let linear = Linear::new(weight.to_dtype(dtype).unwrap(), None);
        let x = tensor(&[3, 6], 2, dtype);
        let variables = VarMap::new();
        let config = LayerConfig::dora(2);
        let layer = DoraLinear::from_linear(&linear, &config, store(&variables, dtype)).unwrap();
        let y = layer.forward(&x).unwrap();
        assert!(values(&y).iter().all(|v| v.is_finite()), "{dtype:?}");
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        for (name, tensor) in layer.factors().named() {
            let gradient = gradients.get(tensor).expect("a gradient");
            assert!(
                values(gradient).iter().all(|v| v.is_finite()),
                "{name} {dtype:?}"
            );
        }
        let ones = y.sum_all().unwrap().backward().unwrap();
        let db = values(ones.get(layer.factors().b().unwrap()).unwrap());
        assert!(db[2] != 0.0, "row 1 of B learns: {dtype:?}");
        assert!(layer.merge().is_ok());
    }
}

#[test]
fn half_precision_layers_follow_the_f64_ones() {
    for (dtype, bound) in [(DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        let config = LayerConfig {
            init: spark_dora::Init::Random,
            ..LayerConfig::dora(4)
        };
        let narrow = Linear::new(tensor(&[33, 40], 1, dtype), Some(tensor(&[33], 2, dtype)));
        let wide = Linear::new(
            narrow.weight().to_dtype(DType::F64).unwrap(),
            narrow.bias().map(|b| b.to_dtype(DType::F64).unwrap()),
        );
        let (few, many) = (VarMap::new(), VarMap::new());
        let narrow = DoraLinear::from_linear(&narrow, &config, store(&few, dtype)).unwrap();
        let wide = DoraLinear::from_linear(&wide, &config, store(&many, DType::F64)).unwrap();
        let x = tensor(&[7, 40], 3, dtype);
        let got = values(&narrow.forward(&x).unwrap());
        let want = values(&wide.forward(&x.to_dtype(DType::F64).unwrap()).unwrap());
        crate::data::assert_close("y", &got, &want, bound);
    }
}

#[test]
fn merged_layers_are_equivalent() {
    let linear = Linear::new(
        tensor(&[33, 40], 1, DType::F32),
        Some(tensor(&[33], 2, DType::F32)),
    );
    let config = LayerConfig {
        init: spark_dora::Init::Random,
        ..LayerConfig::dora(4)
    };
    let variables = VarMap::new();
    let layer = DoraLinear::from_linear(&linear, &config, store(&variables, DType::F32)).unwrap();
    let merged = layer.merge().unwrap();
    let report = equivalence(&merged.layer, &layer, &tensor(&[9, 40], 3, DType::F32)).unwrap();
    assert!(report.relative < 1e-6, "{report:?}");
    assert!(merged.report.max_change > 0.01, "{:?}", merged.report);
    let base = layer.base().unwrap();
    assert_eq!(
        values(base.weight()),
        values(linear.weight()),
        "the base is kept"
    );
}

#[test]
fn norms_found_along_with_few_results_are_those_of_many() {
    let linear = Linear::new(tensor(&[130, 90], 1, DType::F32), None);
    let config = LayerConfig {
        init: spark_dora::Init::Random,
        ..LayerConfig::dora(5)
    };
    let variables = VarMap::new();
    let vb = store(&variables, DType::F32);
    let layer = DoraLinear::from_linear(&linear, &config, vb).unwrap();
    let x = tensor(&[100, 90], 2, DType::F32);
    let change = || {
        for var in variables.all_vars() {
            let changed = (var.as_detached_tensor() * 1.5).unwrap();
            var.set(&changed).unwrap();
        }
    };
    let first = x.narrow(0, 0, 7).unwrap();
    change();
    let few = layer.forward(&first).unwrap();
    assert_eq!(
        values(&few),
        values(&layer.forward(&first).unwrap()),
        "found, and found again"
    );
    // The same A and B for a layer that meets them with many tokens.
    let low = (layer.factors().a().unwrap(), layer.factors().b().unwrap());
    let low = (low.0.copy().unwrap(), low.1.copy().unwrap());
    let m = layer.factors().magnitude().unwrap().copy().unwrap();
    let other = DoraLinear::from_tensors(&linear, Some(low), Some(m), config.scaling()).unwrap();
    let many = other.forward(&x).unwrap().narrow(0, 0, 7).unwrap();
    assert_eq!(values(&few), values(&many), "the same bits");
}
