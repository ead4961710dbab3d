//! Whole networks merged at once.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::{Adapter, DoraConfig, DoraError, Init};
use spark_quant::Recipe;

use crate::adapter::{Folder, Tensors, open};
use crate::data::{assert_close, noise, truth, values};
use crate::packed::packed;

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

/// Weights of a network of every kind of layer, one of them in half precision.
fn network() -> BTreeMap<String, Tensor> {
    let shapes: [(&str, &[usize]); 8] = [
        ("trunk.fc.weight", &[6, 5]),
        ("trunk.fc.bias", &[6]),
        ("trunk.words.weight", &[9, 4]),
        ("trunk.conv.weight", &[4, 3, 3, 3]),
        ("trunk.filter.weight", &[4, 3, 5]),
        ("trunk.other.weight", &[5, 5]),
        ("head.dense.weight", &[3, 6]),
        ("head.dense.bias", &[3]),
    ];
    let weights = shapes.into_iter().zip(1..);
    let mut weights: BTreeMap<_, _> = weights
        .map(|((name, shape), seed)| (name.to_owned(), tensor(shape, seed)))
        .collect();
    let filter = weights["trunk.filter.weight"].to_dtype(DType::BF16);
    weights.insert("trunk.filter.weight".to_owned(), filter.unwrap());
    weights
}

/// An adapter of the network, none of whose layers does nothing, and what merging layer by layer gives.
fn adapted(weights: &BTreeMap<String, Tensor>) -> (Adapter, BTreeMap<String, Tensor>) {
    let config = DoraConfig::builder(2)
        .targets(["fc", "words", "conv", "filter"])
        .modules_to_save(["head"])
        .init(Init::Random);
    let config = config.build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let get = |name: &str| weights[&format!("{name}.weight")].clone();
    let bias = weights.get("trunk.fc.bias").cloned();
    let fc = adapter.linear("trunk.fc", &Linear::new(get("trunk.fc"), bias));
    let words = adapter.embedding("trunk.words", &Embedding::new(get("trunk.words"), 4));
    let conv = Conv2d::new(get("trunk.conv"), None, Default::default());
    let conv = adapter.conv2d("trunk.conv", &conv);
    let filter = Conv1d::new(get("trunk.filter"), None, Default::default());
    let filter = adapter.conv1d("trunk.filter", &filter);
    let other = Linear::new(get("trunk.other"), None);
    adapter.linear("trunk.other", &other).unwrap();
    let bias = weights.get("head.dense.bias").cloned();
    let dense = Linear::new(get("head.dense"), bias);
    let dense = adapter.linear("head.dense", &dense).unwrap();
    for (seed, var) in (30..).zip(adapter.variables().whole) {
        var.set(&tensor(var.dims(), seed)).unwrap();
    }
    for magnitude in adapter.variables().magnitude {
        let factor = magnitude.rand_like(0.8, 1.2).unwrap();
        let changed = (magnitude.as_detached_tensor() * factor).unwrap();
        magnitude.set(&changed).unwrap();
    }
    adapter.finish().unwrap();
    let mut want = weights.clone();
    let mut set = |name: &str, tensor: Tensor| want.insert(name.to_owned(), tensor);
    let layer = fc.unwrap().adapted().unwrap().merge().unwrap().layer;
    set("trunk.fc.weight", layer.weight().clone());
    let layer = words.unwrap().adapted().unwrap().merge().unwrap().layer;
    set("trunk.words.weight", layer.embeddings().clone());
    let layer = conv.unwrap().adapted().unwrap().merge().unwrap().layer;
    set("trunk.conv.weight", layer.weight().clone());
    let layer = filter.unwrap().adapted().unwrap().merge().unwrap().layer;
    set("trunk.filter.weight", layer.weight().clone());
    let layer = dense.saved().unwrap().layer().unwrap();
    set("head.dense.weight", layer.weight().detach());
    set("head.dense.bias", layer.bias().unwrap().detach());
    (adapter, want)
}

fn check(got: &BTreeMap<String, Tensor>, want: &BTreeMap<String, Tensor>) {
    assert!(got.keys().eq(want.keys()));
    for (name, want) in want {
        assert_eq!(got[name].dtype(), want.dtype(), "{name}");
        assert_eq!(got[name].dims(), want.dims(), "{name}");
        assert_eq!(values(&got[name]), values(want), "{name}");
    }
}

fn file(weights: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(weights, Some(metadata)).unwrap()
}

fn read(bytes: &[u8]) -> BTreeMap<String, Tensor> {
    let tensors = candle_core::safetensors::load_buffer(bytes, &Device::Cpu).unwrap();
    tensors.into_iter().collect()
}

#[test]
fn a_network_is_merged_as_its_layers_are_one_by_one() {
    let weights = network();
    let (mut adapter, want) = adapted(&weights);
    let (merged, report) = adapter.merge(weights.clone()).unwrap();
    check(&merged, &want);
    let layers: Vec<_> = report.layers.keys().map(String::as_str).collect();
    let adapted = ["trunk.conv", "trunk.fc", "trunk.filter", "trunk.words"];
    assert_eq!(layers, adapted);
    assert_eq!(report.replaced, ["head.dense.bias", "head.dense.weight"]);
    for (name, before) in &weights {
        let is_meant = !["trunk.fc.bias", "trunk.other.weight"].contains(&name.as_str());
        assert_eq!(values(&merged[name]) != values(before), is_meant, "{name}");
    }
    // As a file, by the adapter that trained and by one that was opened.
    let folder = Folder::new("network");
    adapter.save(&folder.0).unwrap();
    for adapter in [&mut adapter, &mut open(&folder.0).unwrap()] {
        let network = adapter.merge_safetensors(&file(&weights)).unwrap();
        check(&read(&network.bytes), &want);
        assert_eq!(network.report, report);
        let (_, metadata) = SafeTensors::read_metadata(&network.bytes).unwrap();
        let format = metadata.metadata().as_ref().unwrap().get("format");
        assert_eq!(format.unwrap(), "pt");
    }
}

#[test]
fn tensors_that_the_adapter_does_not_mean_are_copied_byte_by_byte() {
    let weights = network();
    let (adapter, _) = adapted(&weights);
    let folder = Folder::new("network-copied");
    adapter.save(&folder.0).unwrap();
    let shape = vec![2, 3];
    let bytes: Vec<u8> = (1..=6).collect();
    let base = file(&weights);
    let base = SafeTensors::deserialize(&base).unwrap();
    let mut views: Vec<(String, TensorView<'_>)> = base
        .iter()
        .map(|(name, view)| (name.to_owned(), view))
        .collect();
    // Types that candle has not, and integers under the name of a weight.
    for (name, dtype) in [
        ("mask", Dtype::BOOL),
        ("codes.weight", Dtype::U8),
        ("small.weight", Dtype::F8_E5M2),
    ] {
        let view = TensorView::new(dtype, shape.clone(), &bytes).unwrap();
        views.push((name.to_owned(), view));
    }
    let base = safetensors::serialize(views, None).unwrap();
    let network = open(&folder.0).unwrap().merge_safetensors(&base).unwrap();
    let merged = SafeTensors::deserialize(&network.bytes).unwrap();
    for name in ["mask", "codes.weight", "small.weight"] {
        let view = merged.tensor(name).unwrap();
        assert_eq!((view.data(), view.shape()), (&*bytes, &*shape), "{name}");
    }
}

#[test]
fn other_bases_and_missing_weights_are_refused_by_name() {
    let weights = network();
    let (mut adapter, _) = adapted(&weights);
    let folder = Folder::new("network-refused");
    adapter.save(&folder.0).unwrap();
    let mut other = weights.clone();
    other.insert("trunk.conv.weight".to_owned(), tensor(&[4, 3, 3, 3], 90));
    let half = weights["trunk.words.weight"].to_dtype(DType::F16).unwrap();
    other.insert("trunk.words.weight".to_owned(), half);
    let errors = [
        adapter.merge(other.clone()).err(),
        adapter.merge_safetensors(&file(&other)).err(),
        open(&folder.0)
            .unwrap()
            .merge_safetensors(&file(&other))
            .err(),
    ];
    for error in errors {
        match error {
            Some(DoraError::Base { layers }) => {
                assert_eq!(layers, ["trunk.conv", "trunk.words"]);
            }
            other => panic!("{other:?}"),
        }
    }
    for gone in ["trunk.fc.weight", "head.dense.bias"] {
        let mut fewer = weights.clone();
        fewer.remove(gone);
        match adapter.merge(fewer.clone()).unwrap_err() {
            DoraError::Tensors { missing, .. } => assert_eq!(missing, [gone]),
            other => panic!("{other}"),
        }
        let error = open(&folder.0).unwrap().merge_safetensors(&file(&fewer));
        assert!(matches!(error, Err(DoraError::Tensors { .. })), "{gone}");
    }
    let mut otherwise = weights.clone();
    otherwise.insert("head.dense.bias".to_owned(), tensor(&[4], 1));
    let error = adapter.merge(otherwise).unwrap_err();
    assert!(matches!(error, DoraError::Shape { name, .. } if name == "head.dense.bias"));
    for bytes in [&[][..], &[1; 7], &[255; 64]] {
        let error = open(&folder.0).unwrap().merge_safetensors(bytes);
        assert!(matches!(error, Err(DoraError::Safetensors(_))));
    }
}

#[test]
fn a_weight_that_is_no_number_after_merging_is_refused() {
    let weights = network();
    for (of_magnitudes, want) in [(true, "trunk.conv.weight"), (false, "head.dense.bias")] {
        let (adapter, _) = adapted(&weights);
        let variables = adapter.variables();
        let var = match of_magnitudes {
            true => &variables.magnitude[0],
            false => &variables.whole[0],
        };
        var.set(&Tensor::full(f32::NAN, var.shape(), &Device::Cpu).unwrap())
            .unwrap();
        let error = adapter.merge(weights.clone()).unwrap_err();
        assert!(
            matches!(&error, DoraError::NotFinite { name, .. } if name == want),
            "{error}"
        );
    }
}

#[test]
fn a_dense_weight_is_another_base_than_a_packed_one() {
    let config = DoraConfig::builder(2).init(Init::Random).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let packed = packed(Recipe::NVFP4, &[6, 32], 1);
    let layer = adapter.packed_linear("fc", &packed, None).unwrap();
    let converted = layer.base().unwrap().weight().clone();
    let weights = BTreeMap::from([("fc.weight".to_owned(), converted)]);
    let error = adapter.merge(weights).unwrap_err();
    assert!(matches!(error, DoraError::Base { layers } if layers == ["fc"]));
}

/// The layers of PEFT's fixture as one network, its own merged weights as the answer.
#[test]
fn peft_merges_every_kind_of_layer_to_the_same_weights_embeddings_among_them() {
    let Some(path) = truth("peft_dora.safetensors") else {
        return;
    };
    let truth = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    let cases = ["linear", "conv3x3_s2", "conv1x1", "conv1d", "embedding"];
    let (mut base, mut tensors) = (BTreeMap::new(), Tensors::new());
    for case in cases {
        let get = |what: &str| truth[&format!("{case}.{what}")].clone();
        base.insert(format!("{case}.weight"), get("W"));
        let names = match case {
            "embedding" => ["lora_embedding_A", "lora_embedding_B"],
            _ => ["lora_A.weight", "lora_B.weight"],
        };
        let names = names.into_iter().chain(["lora_magnitude_vector"]);
        for (name, what) in names.zip(["A", "B", "m"]) {
            tensors.insert(format!("base_model.model.{case}.{name}"), get(what));
        }
    }
    let folder = Folder::new("network-peft");
    candle_core::safetensors::save(&tensors, folder.0.join(TENSOR_FILE)).unwrap();
    let json = json!({
        "peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_dora": true, "target_modules": cases,
        "rank_pattern": {"linear": 4, "conv3x3_s2": 4},
        "alpha_pattern": {"linear": 8, "conv3x3_s2": 8},
    });
    std::fs::write(folder.0.join(CONFIG_FILE), json.to_string()).unwrap();
    let mut adapter = open(&folder.0).unwrap();
    let network = adapter.merge_safetensors(&file(&base)).unwrap();
    let merged = read(&network.bytes);
    for case in cases {
        let name = format!("{case}.weight");
        let want = values(&truth[&format!("{case}.W_merged")]);
        assert_close(case, &values(&merged[&name]), &want, 1e-6);
        assert_ne!(values(&merged[&name]), values(&base[&name]), "{case}");
    }
    // What the merged embedding looks up is what PEFT's adapted one gave.
    let embedding = Embedding::new(merged["embedding.weight"].clone(), 10);
    let y = embedding.forward(&truth["embedding.x"]).unwrap();
    assert_close("y", &values(&y), &values(&truth["embedding.y"]), 1e-6);
}
