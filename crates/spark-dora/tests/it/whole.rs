//! Modules trained whole: PEFT's `modules_to_save`.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Embedding, LayerNorm, Linear, Module};
use serde_json::{Value, json};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::optim::LoraPlus;
use spark_dora::{Adapter, DoraConfig, DoraConfigBuilder, DoraError, Offered, TrainModule};
use spark_quant::Recipe;

use crate::adapter::{Folder, Tensors, linear, open};
use crate::data::{noise, values};
use crate::packed::packed;

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

fn biased(outputs: usize, inputs: usize) -> Linear {
    Linear::new(tensor(&[outputs, inputs], 3), Some(tensor(&[outputs], 4)))
}

fn adapter(config: DoraConfigBuilder) -> Adapter {
    Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).unwrap()
}

/// `fc` is adapted, `head` is trained whole.
fn settings() -> DoraConfigBuilder {
    DoraConfig::builder(2)
        .targets(["fc"])
        .modules_to_save(["head"])
}

#[test]
fn a_whole_layer_begins_as_its_base_and_learns_without_touching_it() {
    let base = biased(4, 6);
    let mut adapter = adapter(settings());
    let head = adapter.linear("head", &base).unwrap();
    let x = tensor(&[3, 6], 5);
    let before = values(&base.forward(&x).unwrap());
    assert_eq!(values(&head.forward(&x).unwrap()), before);

    let loss = head.forward_train(&x, 1).unwrap();
    let loss = loss.sqr().unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let whole = adapter.variables().whole;
    assert_eq!(whole.len(), 2, "weight and bias");
    for var in &whole {
        let gradient = gradients.get(var).expect("a gradient");
        assert!(values(gradient).iter().all(|g| *g != 0.0));
        let step = (var.as_tensor().detach() - (gradient * 0.1).unwrap()).unwrap();
        var.set(&step).unwrap();
    }
    assert_ne!(values(&head.forward(&x).unwrap()), before, "it has learnt");
    assert_eq!(
        values(&base.forward(&x).unwrap()),
        before,
        "the base is whole"
    );
    let saved = head.saved().expect("trained whole");
    assert_eq!(values(&saved.base().forward(&x).unwrap()), before);
    // As a plain layer it is the same.
    let plain = saved.layer().unwrap();
    assert_eq!(
        values(&plain.forward(&x).unwrap()),
        values(&head.forward(&x).unwrap())
    );
}

#[test]
fn files_hold_whole_modules_under_pefts_names_and_give_them_back() {
    let folder = Folder::new("whole");
    let mut first = adapter(settings());
    let conv = |seed| {
        let weight = tensor(&[4, 2, 3, 3], seed);
        Conv2d::new(
            weight,
            Some(tensor(&[4], seed + 1)),
            Conv2dConfig::default(),
        )
    };
    let fc = linear(6, 5, 1);
    first.linear("trunk.fc", &fc).unwrap();
    first.linear("head.dense", &biased(4, 6)).unwrap();
    first.conv2d("head.conv", &conv(7)).unwrap();
    first
        .embedding("head.words", &Embedding::new(tensor(&[9, 4], 9), 4))
        .unwrap();
    let norm = tensor(&[6], 10);
    first.module("head.norm", &[("weight", &norm)]).unwrap();
    first.finish().unwrap();
    for (seed, var) in first.variables().whole.iter().enumerate() {
        var.set(&tensor(var.dims(), 20 + seed as u64)).unwrap();
    }
    first.save(&folder.0).unwrap();

    let tensors = candle_core::safetensors::load(folder.0.join(TENSOR_FILE), &Device::Cpu).unwrap();
    let mut keys: Vec<_> = tensors.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let want = [
        "base_model.model.head.conv.bias",
        "base_model.model.head.conv.weight",
        "base_model.model.head.dense.bias",
        "base_model.model.head.dense.weight",
        "base_model.model.head.norm.weight",
        "base_model.model.head.words.weight",
        "base_model.model.trunk.fc.lora_A.weight",
        "base_model.model.trunk.fc.lora_B.weight",
        "base_model.model.trunk.fc.lora_magnitude_vector",
    ];
    assert_eq!(keys, want);
    let text = std::fs::read(folder.0.join(CONFIG_FILE)).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["modules_to_save"], json!(["head"]));
    assert_eq!(json["target_modules"], json!(["trunk.fc"]));

    // Over another base: nothing of a whole module's base is left.
    let mut again = open(&folder.0).unwrap();
    again.linear("trunk.fc", &fc).unwrap();
    let other = Linear::new(tensor(&[4, 6], 50), Some(tensor(&[4], 51)));
    let dense = again.linear("head.dense", &other).unwrap();
    let conv = again.conv2d("head.conv", &conv(52)).unwrap();
    let words = Embedding::new(tensor(&[9, 4], 54), 4);
    let words = again.embedding("head.words", &words).unwrap();
    let saved_norm = again.module("head.norm", &[("weight", &norm)]).unwrap();
    again.finish().unwrap();
    let stored = |name: &str| values(&tensors[&format!("base_model.model.head.{name}")]);
    let dense = dense.saved().unwrap().layer().unwrap();
    assert_eq!(values(dense.weight()), stored("dense.weight"));
    assert_eq!(values(dense.bias().unwrap()), stored("dense.bias"));
    let conv = conv.saved().unwrap().layer().unwrap();
    assert_eq!(values(conv.weight()), stored("conv.weight"));
    let words = words.saved().unwrap().layer().unwrap();
    assert_eq!(values(words.embeddings()), stored("words.weight"));
    let saved_norm = saved_norm.unwrap().get("weight").unwrap();
    assert_eq!(values(&saved_norm), stored("norm.weight"));
    assert_ne!(stored("norm.weight"), values(&norm));
    assert_eq!(again.saved_modules().count(), 4);
    assert_eq!(again.adapted().collect::<Vec<_>>(), ["trunk.fc"]);
}

#[test]
fn an_entry_means_every_module_whose_name_ends_in_it_and_all_within_as_in_peft() {
    for (name, want) in [
        ("head", true),
        ("trunk.head", true),
        ("lm_head", true),
        ("trunk.lm_head.dense", true),
        ("head.dense.0", true),
        ("head2", false),
        ("trunk.headless.fc", false),
    ] {
        let config = DoraConfig::builder(2)
            .targets(["proj"])
            .modules_to_save(["head"]);
        let mut adapter = adapter(config);
        let layer = adapter.linear(name, &linear(6, 5, 1)).unwrap();
        assert_eq!(layer.saved().is_some(), want, "{name}");
    }
    // What is within is not adapted, whatever the targets say.
    let mut within = adapter(DoraConfig::builder(2).modules_to_save(["head"]));
    let layer = within.linear("head.dense", &linear(6, 5, 1)).unwrap();
    assert!(layer.saved().is_some());
    assert!(within.config().layer("head.dense").unwrap().is_none());
    // The middle of a part is the end of a name, but no match of PEFT's exclusion: it refuses that, too.
    let mut both = adapter(DoraConfig::builder(2).modules_to_save(["head"]));
    match both.linear("lm_head", &linear(6, 5, 1)).unwrap_err() {
        DoraError::SavedAndAdapted { layer } => assert_eq!(layer, "lm_head"),
        other => panic!("{other}"),
    }
    // "all-linear" adapts no module that is no layer.
    let norm = tensor(&[5], 1);
    let mut norms = adapter(DoraConfig::builder(2).modules_to_save(["norm"]));
    let saved = norms.module("layernorm", &[("weight", &norm)]).unwrap();
    assert!(saved.is_some());
}

#[test]
fn entries_without_a_module_are_named() {
    let mut adapter = adapter(settings());
    adapter.linear("fc", &linear(6, 5, 1)).unwrap();
    match adapter.finish().unwrap_err() {
        DoraError::Tensors { missing, .. } => assert_eq!(missing, ["head"]),
        other => panic!("{other}"),
    }
}

/// A folder as PEFT writes it, with these tensors of `head`.
fn of_peft(head: &[(&str, Tensor)]) -> Folder {
    let folder = Folder::new("whole-peft");
    let mut tensors = Tensors::new();
    for (name, shape) in [
        ("lora_A.weight", [2, 5].as_slice()),
        ("lora_B.weight", &[6, 2]),
        ("lora_magnitude_vector", &[6]),
    ] {
        tensors.insert(format!("base_model.model.fc.{name}"), tensor(shape, 1));
    }
    for (name, value) in head {
        tensors.insert(format!("base_model.model.head.{name}"), value.clone());
    }
    candle_core::safetensors::save(&tensors, folder.0.join(TENSOR_FILE)).unwrap();
    let json = json!({
        "peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_dora": true, "target_modules": ["fc"],
        "modules_to_save": ["head"],
    });
    std::fs::write(folder.0.join(CONFIG_FILE), json.to_string()).unwrap();
    folder
}

#[test]
fn tensors_of_a_file_that_do_not_fit_a_whole_module_are_named() {
    let weight = || ("weight", tensor(&[4, 6], 1));
    let bias = || ("bias", tensor(&[4], 2));
    let offered = |folder: &Folder| {
        let mut adapter = open(&folder.0).unwrap();
        adapter.linear("fc", &linear(6, 5, 1)).unwrap();
        let head = adapter.linear("head", &biased(4, 6));
        head.and_then(|head| adapter.finish().map(|()| head))
    };
    let head = offered(&of_peft(&[weight(), bias()])).unwrap();
    let head = head.saved().unwrap().layer().unwrap();
    assert_eq!(values(head.weight()), values(&weight().1));
    match offered(&of_peft(&[weight()])).unwrap_err() {
        DoraError::Tensors { missing, .. } => assert_eq!(missing, ["head.bias"]),
        other => panic!("{other}"),
    }
    match offered(&of_peft(&[weight(), bias(), ("scale", tensor(&[1], 1))])).unwrap_err() {
        DoraError::Tensors { unexpected, .. } => {
            assert_eq!(unexpected, ["base_model.model.head.scale"])
        }
        other => panic!("{other}"),
    }
    match offered(&of_peft(&[("weight", tensor(&[6, 4], 1)), bias()])).unwrap_err() {
        DoraError::Shape { name, got, want } => {
            assert_eq!(name, "head.weight");
            assert_eq!((got, want), (vec![6, 4], vec![4, 6]));
        }
        other => panic!("{other}"),
    }
    let nan = Tensor::full(f32::NAN, (4, 6), &Device::Cpu).unwrap();
    let error = open(&of_peft(&[("weight", nan), bias()]).0).err();
    assert!(matches!(error, Some(DoraError::NotFinite { .. })));
}

#[test]
fn modules_that_cannot_be_trained_whole_are_refused() {
    let mut one = adapter(settings());
    let whole = Tensor::ones((4, 6), DType::I64, &Device::Cpu).unwrap();
    let error = one.module("head", &[("counter", &whole)]).unwrap_err();
    assert!(matches!(error, DoraError::ElementType { name, .. } if name == "head.counter"));
    let twice = tensor(&[4], 1);
    let error = one
        .module("head", &[("weight", &twice), ("weight", &twice)])
        .unwrap_err();
    assert!(matches!(error, DoraError::Duplicate { name } if name == "head.weight"));
    one.module("head", &[("weight", &twice)]).unwrap();
    let error = one.module("head", &[("weight", &twice)]).unwrap_err();
    assert!(matches!(error, DoraError::Duplicate { name } if name == "head"));
    let error = one.module("other", &[("weight", &twice)]).unwrap();
    assert!(error.is_none(), "not meant");
    let saved = adapter(settings())
        .module("head", &[("weight", &twice)])
        .unwrap()
        .unwrap();
    let error = saved.get("bias").unwrap_err();
    assert!(matches!(error, DoraError::UnknownLayer { name } if name == "bias"));
    // Entries that are no pattern, and those by which PEFT would mean a part of its own layers.
    for pattern in ["(?=x)", "[", "", "_layer", "base_layer", "A", "default"] {
        let config = DoraConfig::builder(2).modules_to_save([pattern]).build();
        let error = config.unwrap_err();
        assert!(
            matches!(
                &error,
                DoraError::Unsupported {
                    name: "modules_to_save",
                    ..
                }
            ),
            "{error}"
        );
    }
    let packed = packed(Recipe::NVFP4, &[4, 16], 1);
    let error = adapter(settings())
        .packed_linear("head", &packed, None)
        .unwrap_err();
    assert!(matches!(
        error,
        DoraError::Unsupported {
            name: "modules_to_save",
            ..
        }
    ));
}

#[test]
fn half_precision_modules_are_trained_in_f32_and_keep_their_type() {
    let mut adapter = adapter(settings());
    let x = tensor(&[3, 6], 2).to_dtype(DType::BF16).unwrap();
    let weight = tensor(&[6], 1).to_dtype(DType::BF16).unwrap();
    let norm = adapter.module("head", &[("weight", &weight)]).unwrap();
    let norm = norm.unwrap();
    let run = || {
        let norm = LayerNorm::rms_norm(norm.get("weight").unwrap(), 1e-5);
        norm.forward(&x).unwrap()
    };
    let y = run();
    assert_eq!(y.dtype(), DType::BF16);
    let want = LayerNorm::rms_norm(weight.clone(), 1e-5)
        .forward(&x)
        .unwrap();
    assert_eq!(values(&y), values(&want));
    let [var]: [Var; 1] = adapter.variables().whole.try_into().unwrap();
    assert_eq!(var.dtype(), DType::F32);
    let sum = y.to_dtype(DType::F32).unwrap().sum_all().unwrap();
    assert!(sum.backward().unwrap().get(&var).is_some());
    var.set(&tensor(&[6], 9)).unwrap();
    assert_ne!(values(&run()), values(&y));
}

#[test]
fn whole_modules_have_a_group_of_their_own_and_count_as_trained() {
    let mut adapter = adapter(settings());
    adapter.linear("fc", &linear(6, 5, 1)).unwrap();
    let head = adapter.linear("head", &biased(4, 6)).unwrap();
    assert!(matches!(head, Offered::Saved(_)));
    let rates = LoraPlus {
        rate: 1e-3,
        whole_ratio: 0.5,
        weight_decay: 0.1,
        ..Default::default()
    };
    let groups = adapter.variables().optimiser_groups(rates);
    let last = groups.last().unwrap();
    assert_eq!((groups.len(), last.variables.len()), (4, 2));
    assert_eq!((last.rate, last.weight_decay), (5e-4, 0.1));
    assert_eq!(adapter.variables().all().count(), 5);
    let size = adapter.size();
    assert_eq!(size.trainable, 2 * 5 + 6 * 2 + 6 + 4 * 6 + 4);
    assert_eq!(size.frozen, 6 * 5 + 4 * 6 + 4);
}
