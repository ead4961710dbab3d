//! QDoRA: packed bases give what their weights converted to f32 give, and everything trains on top.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Linear, Module, VarBuilder, VarMap};
use spark_dora::{Adapter, DoraConfig, DoraError, DoraLinear, Init, LayerConfig};
use spark_quant::{ExecutionPolicy, PackedTensor, Quantizer, Recipe};

use crate::data::{assert_close, noise, values};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).expect("as many values");
    tensor.to_dtype(DType::F32).expect("a float type")
}

pub(crate) fn packed(recipe: Recipe, shape: &[usize], axis: usize) -> PackedTensor {
    let weight = tensor(shape, 1)
        .flatten_all()
        .and_then(|t| t.to_vec1::<f32>())
        .unwrap();
    let quantizer = Quantizer::new(recipe);
    quantizer
        .quantize(ExecutionPolicy::detect(), &weight, shape, axis)
        .expect("finite weights")
}

/// NVFP4, FP8, INT8 and MXFP4, of more rows than are converted at once.
fn recipes() -> Vec<(&'static str, Recipe)> {
    vec![
        ("nvfp4", Recipe::NVFP4),
        ("mxfp4", Recipe::MXFP4),
        ("int8", Recipe::INT8),
        ("fp8", Recipe::FP8),
    ]
}

#[test]
fn packed_bases_give_the_results_and_gradients_of_their_widened_weights() {
    for (name, recipe) in recipes() {
        let shape = [600, 72];
        let packed = packed(recipe, &shape, 1);
        let wide = packed.dequantize(ExecutionPolicy::detect()).unwrap();
        let wide = Tensor::from_vec(wide, &shape, &Device::Cpu).unwrap();
        let bias = tensor(&[600], 2);
        let config = LayerConfig {
            init: Init::Random,
            ..LayerConfig::dora(4)
        };
        let (few, many) = (VarMap::new(), VarMap::new());
        let vb = |v: &VarMap| VarBuilder::from_varmap(v, DType::F32, &Device::Cpu);
        let q = DoraLinear::from_packed(&packed, Some(bias.clone()), &config, vb(&few)).unwrap();
        let linear = Linear::new(wide, Some(bias));
        let d = DoraLinear::from_linear(&linear, &config, vb(&many)).unwrap();
        let run = |layer: &DoraLinear, x: &Var| {
            let y = layer.forward(x).unwrap();
            let store = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let mut results = vec![values(&y), values(store.get(x).unwrap())];
            let named = layer.factors().named();
            results.extend(named.map(|(_, t)| values(store.get(t).expect("a gradient"))));
            results
        };
        // Of few tokens and many: the norms are found along with the results, or before.
        for tokens in [5, 70] {
            for var in [few.all_vars(), many.all_vars()].concat() {
                var.set(&(var.as_detached_tensor() * 1.25).unwrap())
                    .unwrap();
            }
            let computed = q.factors().norm_computations();
            let x = Var::from_tensor(&tensor(&[tokens, 72], 3)).unwrap();
            for (got, want) in run(&q, &x).iter().zip(&run(&d, &x)) {
                assert_close(name, got, want, 1e-5);
            }
            assert_eq!(q.factors().norm_computations(), computed + 1);
        }
        let merged = q.merge().unwrap().layer;
        let want = d.merge().unwrap().layer;
        assert_close(name, &values(merged.weight()), &values(want.weight()), 1e-6);
    }
}

#[test]
fn blocks_along_another_axis_are_refused() {
    let packed = packed(Recipe::NVFP4, &[32, 48], 0);
    let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    let made = DoraLinear::from_packed(&packed, None, &LayerConfig::dora(2), vb);
    assert!(matches!(made, Err(DoraError::Setting { name, .. }) if name == "axis"));
}

#[test]
fn packed_layers_belong_to_adapters_too() {
    let packed = packed(Recipe::NVFP4, &[64, 48], 1);
    let config = DoraConfig::builder(2).targets(["fc"]).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let layer = adapter.packed_linear("a.fc", &packed, None).unwrap();
    assert_eq!(layer.forward(&tensor(&[3, 48], 1)).unwrap().dims(), [3, 64]);
    assert_eq!(adapter.size().base_bytes, packed.size_bytes());
    let other = adapter.packed_linear("a.other", &packed, None);
    assert!(matches!(other, Err(DoraError::UnknownLayer { .. })));
}
