//! Biases trained beside the adapters: PEFT's `bias`.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Linear, Module};
use serde_json::{Value, json};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::optim::{LoraPlus, VariableGroups};
use spark_dora::{Adapter, AdapterSet, Biases, DoraConfig, DoraConfigBuilder, DoraError};

use crate::adapter::{Folder, Tensors, open};
use crate::data::{noise, values};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

fn linear(outputs: usize, inputs: usize, seed: u64) -> Linear {
    let bias = tensor(&[outputs], seed + 1);
    Linear::new(tensor(&[outputs, inputs], seed), Some(bias))
}

fn adapter(config: DoraConfigBuilder) -> Adapter {
    Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).unwrap()
}

/// `fc` is adapted, `head` is not.
fn settings(biases: Biases) -> DoraConfigBuilder {
    DoraConfig::builder(2).targets(["fc"]).biases(biases)
}

/// The network `head(fc(x))` under an adapter.
struct Two {
    fc: Box<dyn Module>,
    head: Box<dyn Module>,
}

impl Two {
    fn new(adapter: &mut Adapter) -> Self {
        let fc = adapter.linear("trunk.fc", &linear(5, 6, 1)).unwrap();
        let head = adapter.linear("head", &linear(3, 5, 3)).unwrap();
        adapter.finish().unwrap();
        let (fc, head): (Box<dyn Module>, Box<dyn Module>) = (Box::new(fc), Box::new(head));
        Self { fc, head }
    }

    fn run(&self) -> Tensor {
        let x = self.fc.forward(&tensor(&[4, 6], 5)).unwrap();
        self.head.forward(&x.tanh().unwrap()).unwrap()
    }
}

/// Sets all variables to numbers of their own.
fn moved(adapter: &Adapter) {
    for (at, var) in adapter.variables().all().enumerate() {
        let by = (tensor(var.dims(), 40 + at as u64) * 0.1).unwrap();
        var.set(&(var.as_tensor() + by).unwrap().detach()).unwrap();
    }
}

#[test]
fn only_biases_that_are_meant_learn() {
    for (biases, want) in [
        (Biases::None, vec![]),
        (Biases::LoraOnly, vec![5]),
        (Biases::All, vec![3, 5]),
    ] {
        let mut adapter = adapter(settings(biases));
        let network = Two::new(&mut adapter);
        let groups = adapter.variables();
        let mut lengths: Vec<_> = groups.bias.iter().map(|b| b.elem_count()).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, want, "{biases:?}");
        let loss = network.run().sqr().unwrap().sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        for bias in &groups.bias {
            let gradient = gradients.get(bias).expect("a gradient");
            assert!(values(gradient).iter().all(|g| *g != 0.0));
        }
        assert_eq!(adapter.bias("head").is_some(), biases == Biases::All);
        assert_eq!(adapter.bias("trunk.fc").is_some(), biases != Biases::None);
        let n_biases: usize = want.iter().sum();
        assert_eq!(adapter.size().trainable, 2 * 6 + 5 * 2 + 5 + n_biases);
        let is_of_them = |groups: &VariableGroups| {
            let rates = LoraPlus {
                rate: 1e-3,
                bias_ratio: 4.0,
                weight_decay: 0.1,
                ..LoraPlus::default()
            };
            let groups = groups.optimiser_groups(rates);
            let mut groups = groups.into_iter();
            groups.any(|group| group.rate == 4e-3 && group.weight_decay == 0.0)
        };
        assert_eq!(is_of_them(&groups), n_biases > 0);
    }
}

#[test]
fn files_hold_biases_under_pefts_names_and_give_them_back() {
    let base = "base_model.model.";
    for (biases, text, want) in [
        (
            Biases::All,
            "all",
            &["head.bias", "trunk.fc.base_layer.bias"][..],
        ),
        (
            Biases::LoraOnly,
            "lora_only",
            &["trunk.fc.base_layer.bias"][..],
        ),
    ] {
        let folder = Folder::new("biases");
        let mut first = adapter(settings(biases));
        let network = Two::new(&mut first);
        moved(&first);
        first.save(&folder.0).unwrap();
        let path = folder.0.join(TENSOR_FILE);
        let tensors: Tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
        let mut keys: Vec<_> = tensors.keys().filter(|k| k.ends_with("bias")).collect();
        keys.sort_unstable();
        let want: Vec<String> = want.iter().map(|key| format!("{base}{key}")).collect();
        assert_eq!(keys, want.iter().collect::<Vec<_>>());
        let json = std::fs::read(folder.0.join(CONFIG_FILE)).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["bias"], json!(text));

        let mut again = open(&folder.0).unwrap();
        let read = Two::new(&mut again);
        assert_eq!(values(&read.run()), values(&network.run()));
        assert_eq!(again.config().bias, biases);
    }
}

#[test]
fn a_file_without_the_biases_that_it_says_to_have_is_refused() {
    let folder = Folder::new("no-biases");
    let mut first = adapter(settings(Biases::None));
    Two::new(&mut first);
    first.save(&folder.0).unwrap();
    // As PEFT writes them, without this crate's copy of the settings.
    let path = folder.0.join(TENSOR_FILE);
    let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let path = folder.0.join(CONFIG_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = |value: &str| {
        std::fs::write(&path, text.replace("\"none\"", value)).unwrap();
        let mut again = open(&folder.0)?;
        again.linear("trunk.fc", &linear(5, 6, 1)).map(|_| ())
    };
    let error = changed("\"all\"").unwrap_err();
    let DoraError::Tensors { missing, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(missing, ["trunk.fc.base_layer.bias"]);
    changed("null").unwrap();
    for wrong in ["true", "\"some\"", "3"] {
        let error = changed(wrong).unwrap_err();
        assert!(matches!(error, DoraError::Json { .. }), "{error}");
    }
}

#[test]
fn merged_networks_have_the_trained_biases() {
    let mut adapter = adapter(settings(Biases::All));
    let network = Two::new(&mut adapter);
    moved(&adapter);
    let (fc, head) = (linear(5, 6, 1), linear(3, 5, 3));
    let of = |layer: &Linear| (layer.weight().clone(), layer.bias().unwrap().clone());
    let ((fc_w, fc_b), (head_w, head_b)) = (of(&fc), of(&head));
    let weights = BTreeMap::from(
        [
            ("trunk.fc.weight", fc_w),
            ("trunk.fc.bias", fc_b),
            ("head.weight", head_w),
            ("head.bias", head_b),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor)),
    );
    let (merged, report) = adapter.merge(weights.clone()).unwrap();
    assert_eq!(report.replaced, ["head.bias", "trunk.fc.bias"]);
    let changes = report.replaced.iter().flat_map(|name| {
        let pairs = values(&merged[name])
            .into_iter()
            .zip(values(&weights[name]));
        pairs.map(|(after, before)| (after - before).abs())
    });
    let largest = changes.fold(0.0, f64::max);
    assert!(largest > 0.0);
    assert_eq!(report.replaced_max_change, largest);
    let of_layers = report.layers.values().map(|layer| layer.max_change);
    assert_eq!(report.max_change(), of_layers.fold(largest, f64::max));
    let layer = |name: &str| {
        let [weight, bias] = ["weight", "bias"].map(|of| merged[&format!("{name}.{of}")].clone());
        Linear::new(weight, Some(bias))
    };
    let x = layer("trunk.fc").forward(&tensor(&[4, 6], 5)).unwrap();
    let y = layer("head").forward(&x.tanh().unwrap()).unwrap();
    let pairs = values(&y).into_iter().zip(values(&network.run()));
    for (got, want) in pairs {
        assert!((got - want).abs() < 1e-5, "{got} for {want}");
    }
    let mut lacking = weights;
    lacking.remove("head.bias");
    let error = adapter.merge(lacking.clone()).unwrap_err();
    assert!(matches!(error, DoraError::Tensors { missing, .. } if missing == ["head.bias"]));

    // And of a file, to whose adapter nothing was offered.
    let folder = Folder::new("merged-biases");
    adapter.save(&folder.0).unwrap();
    lacking.insert("head.bias".to_owned(), tensor(&[3], 4));
    let bytes = safetensors::serialize(lacking.iter().map(|(n, t)| (n.as_str(), t)), None).unwrap();
    let file = open(&folder.0).unwrap().merge_safetensors(&bytes).unwrap();
    let of_file = candle_core::safetensors::load_buffer(&file.bytes, &Device::Cpu).unwrap();
    for (name, tensor) in &merged {
        assert_eq!(values(&of_file[name]), values(tensor), "{name}");
    }
}

#[test]
fn convolutions_train_their_biases_too() {
    let mut adapter = adapter(DoraConfig::builder(1).biases(Biases::All).targets(["a"]));
    let of_two = Conv2d::new(
        tensor(&[4, 2, 3, 3], 1),
        Some(tensor(&[4], 2)),
        Conv2dConfig::default(),
    );
    let of_one = Conv1d::new(
        tensor(&[4, 2, 3], 3),
        Some(tensor(&[4], 4)),
        Conv1dConfig::default(),
    );
    for (name, x) in [("a", 0), ("b", 1)] {
        let y = adapter.conv2d(&format!("two.{name}"), &of_two).unwrap();
        let z = adapter.conv1d(&format!("one.{name}"), &of_one).unwrap();
        let y = y.forward(&tensor(&[1, 2, 5, 5], 5 + x)).unwrap();
        let z = z.forward(&tensor(&[1, 2, 5], 7 + x)).unwrap();
        // A bias is added once at each place.
        for (layer, y, places) in [("two", y, 9.0), ("one", z, 3.0)] {
            let gradients = y.sum_all().unwrap().backward().unwrap();
            let bias = adapter
                .bias(&format!("{layer}.{name}"))
                .expect("is trained");
            let gradient = values(gradients.get(bias).expect("a gradient"));
            assert!(
                gradient.iter().all(|g| (g - places).abs() < 1e-5),
                "{gradient:?}"
            );
        }
    }
    adapter.finish().unwrap();
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let beside = DoraConfig::builder(2)
        .biases(Biases::All)
        .modules_to_save(["head"]);
    let refused = |error: DoraError| {
        assert!(
            matches!(error, DoraError::Unsupported { name: "bias", .. }),
            "{error}"
        );
    };
    refused(beside.build().unwrap_err());

    let half = linear(4, 4, 1);
    let [weight, bias] = [half.weight(), half.bias().unwrap()].map(|t| t.to_dtype(DType::F16));
    let half = Linear::new(weight.unwrap(), Some(bias.unwrap()));
    let mut of_half = adapter(settings(Biases::All));
    refused(of_half.linear("fc", &half).unwrap_err());

    let mut set = AdapterSet::new();
    set.linear("fc", &linear(4, 4, 1)).unwrap();
    refused(
        set.add("a", adapter(settings(Biases::LoraOnly)))
            .map(|_| ())
            .unwrap_err(),
    );
}
