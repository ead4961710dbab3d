//! Adapters in files: PEFT's, kohya's, and damaged ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::{
    Adapter, AdapterFiles, Change, DoraConfig, DoraConv2d, DoraError, DoraLinear, Init, Offered,
};

use crate::data::{assert_close, noise, truth, values};

pub(crate) type Tensors = HashMap<String, Tensor>;

/// An empty folder that goes away with its value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spark-dora-{}-{count}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The network of `truth/peft/adapter_small`.
struct Small {
    conv: Offered<Conv2d, DoraConv2d>,
    head: Offered<Linear, DoraLinear>,
    out: Offered<Linear, DoraLinear>,
}

impl Small {
    fn new(adapter: &mut Adapter, base: &Tensors) -> Result<Self, DoraError> {
        let get = |name: &str| base[&format!("base.{name}")].clone();
        let config = Conv2dConfig {
            stride: 2,
            padding: 1,
            ..Conv2dConfig::default()
        };
        let conv = Conv2d::new(get("conv.weight"), Some(get("conv.bias")), config);
        let head = Linear::new(get("head.weight"), Some(get("head.bias")));
        Ok(Self {
            conv: adapter.conv2d("conv", &conv)?,
            head: adapter.linear("head", &head)?,
            out: adapter.linear("out", &Linear::new(get("out.weight"), None))?,
        })
    }

    fn forward(&self, x: &Tensor) -> Vec<f64> {
        let run = || -> candle_core::Result<Tensor> {
            let x = self.conv.forward(x)?.relu()?.flatten_from(1)?;
            self.out.forward(&self.head.forward(&x)?.relu()?)
        };
        values(&run().expect("shapes that fit"))
    }
}

fn small() -> Option<(PathBuf, Tensors)> {
    let folder = truth("adapter_small")?;
    let io = candle_core::safetensors::load(folder.join("model_io.safetensors"), &Device::Cpu);
    Some((folder, io.expect("a tensor file")))
}

pub(crate) fn open(folder: &Path) -> Result<Adapter, DoraError> {
    Adapter::open(folder, DType::F32, &Device::Cpu)
}

#[test]
fn an_adapter_of_peft_gives_its_outputs_and_merges_to_its_weights() {
    let Some((folder, io)) = small() else { return };
    let mut adapter = open(&folder).unwrap();
    let net = Small::new(&mut adapter, &io).unwrap();
    adapter.finish().unwrap();
    assert_close("y", &net.forward(&io["x"]), &values(&io["y"]), 1e-5);
    let merged = net.conv.adapted().unwrap().merge().unwrap().layer;
    assert_close(
        "conv",
        &values(merged.weight()),
        &values(&io["merged.conv.weight"]),
        1e-5,
    );
    for (name, layer) in [("head", &net.head), ("out", &net.out)] {
        let merged = layer.adapted().unwrap().merge().unwrap().layer;
        let want = values(&io[&format!("merged.{name}.weight")]);
        assert_close(name, &values(merged.weight()), &want, 1e-5);
    }
    assert_eq!(
        adapter.factors("out").unwrap().rank(),
        2,
        "from the rank pattern"
    );
}

#[test]
fn what_was_read_is_written_with_the_same_keys_values_and_settings() {
    let Some((folder, io)) = small() else { return };
    let mut adapter = open(&folder).unwrap();
    let net = Small::new(&mut adapter, &io).unwrap();
    let copy = Folder::new("copy");
    adapter.save(&copy.0).unwrap();
    let load =
        |folder: &Path| candle_core::safetensors::load(folder.join(TENSOR_FILE), &Device::Cpu);
    let (want, got) = (load(&folder).unwrap(), load(&copy.0).unwrap());
    let names = |t: &Tensors| {
        let mut names: Vec<_> = t
            .iter()
            .map(|(n, t)| (n.clone(), t.dims().to_vec()))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&got), names(&want));
    for (name, want) in &want {
        assert_eq!(values(&got[name]), values(want), "{name}");
    }
    let json = |folder: &Path| -> serde_json::Value {
        let text = std::fs::read_to_string(folder.join(CONFIG_FILE)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (mut want, got) = (json(&folder), json(&copy.0));
    // A set, written in any order.
    want["target_modules"] = serde_json::json!(["conv", "head", "out"]);
    assert_eq!(got, want);
    let mut again = open(&copy.0).unwrap();
    let second = Small::new(&mut again, &io).unwrap();
    again.finish().unwrap();
    assert_eq!(second.forward(&io["x"]), net.forward(&io["x"]));
    assert_eq!(
        std::fs::read_dir(&copy.0).unwrap().count(),
        2,
        "no file is left over"
    );
}

pub(crate) fn linear(outputs: usize, inputs: usize, seed: u64) -> Linear {
    let data = noise(outputs * inputs, seed);
    let weight = Tensor::from_vec(data, (outputs, inputs), &Device::Cpu).unwrap();
    Linear::new(weight.to_dtype(DType::F32).unwrap(), None)
}

pub(crate) fn saved(name: &str) -> Folder {
    let folder = Folder::new(name);
    let config = DoraConfig::builder(2).init(Init::Random).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
    adapter.save(&folder.0).unwrap();
    folder
}

#[test]
fn other_base_weights_are_named() {
    let folder = saved("bases");
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.linear("b.fc", &linear(7, 6, 3)).unwrap();
    match adapter.finish().unwrap_err() {
        DoraError::Base { layers } => assert_eq!(layers, ["b.fc"]),
        other => panic!("{other}"),
    }
}

#[test]
fn layers_that_are_missing_or_shaped_otherwise_are_named() {
    let folder = saved("shapes");
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    match adapter.finish().unwrap_err() {
        DoraError::Tensors { unexpected, .. } => {
            assert_eq!(unexpected.len(), 3);
            assert!(unexpected.iter().all(|name| name.starts_with("b.fc.")));
        }
        other => panic!("{other}"),
    }
    match adapter.linear("b.fc", &linear(7, 9, 2)).unwrap_err() {
        DoraError::Shape { name, got, want } => {
            assert_eq!(name, "b.fc.lora_A.weight");
            assert_eq!((got, want), (vec![2, 6], vec![2, 9]));
        }
        other => panic!("{other}"),
    }
    assert!(matches!(
        adapter.linear("a.fc", &linear(6, 5, 1)),
        Err(DoraError::Duplicate { .. })
    ));
}

#[test]
fn targets_without_a_layer_are_named() {
    let config = DoraConfig::builder(2)
        .targets(["fc", "gone"])
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    let plain = adapter.linear("a.other", &linear(6, 5, 1)).unwrap();
    assert!(plain.adapted().is_none());
    match adapter.finish().unwrap_err() {
        DoraError::Tensors { missing, .. } => assert_eq!(missing, ["gone"]),
        other => panic!("{other}"),
    }
}

#[test]
fn exact_targets_are_no_ends_of_names() {
    let names = ["a.fc", "c+d.fc[1]"];
    let config = DoraConfig::builder(2).exact_targets(names).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    for (name, is_meant) in [
        ("a.fc", true),
        ("c+d.fc[1]", true),
        ("b.a.fc", false),
        ("aXfc", false),
    ] {
        let offered = adapter.linear(name, &linear(6, 5, 1)).unwrap();
        assert_eq!(offered.adapted().is_some(), is_meant, "{name}");
    }
    adapter.finish().unwrap();
    let folder = Folder::new("exact");
    adapter.save(&folder.0).unwrap();
    let mut opened = open(&folder.0).unwrap();
    for name in ["b.a.fc", "a.fc", "c+d.fc[1]"] {
        opened.linear(name, &linear(6, 5, 1)).unwrap();
    }
    assert_eq!(opened.adapted().count(), 2);
    let none = DoraConfig::builder(2).exact_targets([]).build().unwrap();
    assert!(none.layer("a").unwrap().is_none());
}

/// Opens a copy of a good adapter after `damage` to one file.
fn damaged(file: &str, damage: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<Adapter, DoraError> {
    let folder = saved("damage");
    if file == CONFIG_FILE {
        // As PEFT's, whose tensor files hold no settings that others could differ from.
        let path = folder.0.join(TENSOR_FILE);
        let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
        candle_core::safetensors::save(&tensors, &path).unwrap();
    }
    let path = folder.0.join(file);
    let bytes = damage(std::fs::read(&path).unwrap());
    std::fs::write(&path, bytes).unwrap();
    open(&folder.0)
}

#[test]
fn damaged_files_are_errors() {
    let header = |len: u64| {
        move |mut b: Vec<u8>| {
            b[..8].copy_from_slice(&len.to_le_bytes());
            b
        }
    };
    for length in [0, 1, 1 << 20, u64::MAX] {
        assert!(
            damaged(TENSOR_FILE, header(length)).is_err(),
            "header of {length}"
        );
    }
    for keep in [0, 7, 8, 60, 400] {
        let cut = |mut b: Vec<u8>| {
            b.truncate(keep);
            b
        };
        assert!(damaged(TENSOR_FILE, cut).is_err(), "{keep} bytes");
    }
    let longer = |b: Vec<u8>| {
        let text = String::from_utf8_lossy(&b).into_owned();
        let at = text.find("\"shape\":[2,5]").expect("a shape");
        let mut b = b;
        b[at + 9..at + 12].copy_from_slice(b"9,9");
        b
    };
    assert!(damaged(TENSOR_FILE, longer).is_err(), "a shape that lies");
    for text in [
        "",
        "{",
        "[]",
        "{\"r\": -1}",
        "{\"r\": 4, \"lora_alpha\": \"x\"}",
    ] {
        assert!(damaged(CONFIG_FILE, |_| text.into()).is_err(), "{text}");
    }
}

#[test]
fn settings_that_would_change_the_results_are_refused() {
    let change = |key: &str, value: serde_json::Value| {
        damaged(CONFIG_FILE, |b| {
            let mut json: serde_json::Value = serde_json::from_slice(&b).unwrap();
            json[key] = value;
            json.to_string().into()
        })
    };
    use serde_json::json;
    for (key, value) in [
        ("fan_in_fan_out", json!(true)),
        ("lora_bias", json!(true)),
        ("peft_type", json!("LOHA")),
        ("init_lora_weights", json!("pissa")),
    ] {
        let error = change(key, value).err();
        assert!(
            matches!(error, Some(DoraError::Unsupported { .. })),
            "{key}: {error:?}"
        );
    }
    assert!(matches!(
        change("r", json!(0)).err(),
        Some(DoraError::RankZero { .. })
    ));
}

#[test]
fn numbers_that_are_none_are_refused_when_read_and_when_written() {
    let nan = |mut b: Vec<u8>| {
        let end = b.len();
        b[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        b
    };
    assert!(matches!(
        damaged(TENSOR_FILE, nan).err(),
        Some(DoraError::NotFinite { .. })
    ));
    let folder = saved("nan");
    let mut adapter = open(&folder.0).unwrap();
    let layer = adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
    let before = std::fs::read(folder.0.join(TENSOR_FILE)).unwrap();
    let b = layer.adapted().unwrap().factors().b().unwrap().clone();
    let nan = (Tensor::ones_like(&b).unwrap() * f64::NAN).unwrap();
    candle_core::Var::from_tensor(&b)
        .unwrap()
        .set(&nan)
        .unwrap();
    assert!(matches!(
        adapter.save(&folder.0),
        Err(DoraError::NotFinite { .. })
    ));
    assert_eq!(
        std::fs::read(folder.0.join(TENSOR_FILE)).unwrap(),
        before,
        "the old one stays"
    );
}

#[test]
fn old_and_new_names_of_the_magnitude_are_read() {
    let folder = saved("names");
    let path = folder.0.join(TENSOR_FILE);
    let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    let renamed: Tensors = tensors
        .into_iter()
        .map(|(name, tensor)| match name.ends_with("vector") {
            true => (format!("{name}.default.weight"), tensor),
            false => (name, tensor),
        })
        .collect();
    candle_core::safetensors::save(&renamed, &path).unwrap();
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
    adapter.finish().unwrap();
}

#[test]
fn kohyas_file_gives_the_layers_of_pefts() {
    let folder = saved("kohya");
    let load = |name: &str| candle_core::safetensors::load(folder.0.join(name), &Device::Cpu);
    let mut tensors = Tensors::new();
    for (name, tensor) in load(TENSOR_FILE).unwrap() {
        let name = name.strip_prefix("base_model.model.").unwrap().to_owned();
        let (module, what) = name.split_once(".lora_").unwrap();
        let module = format!("lora_unet_{}", module.replace('.', "_"));
        let (what, tensor) = match what {
            "A.weight" => ("lora_down.weight", tensor),
            "B.weight" => ("lora_up.weight", tensor),
            _ => ("dora_scale", tensor.unsqueeze(1).unwrap()),
        };
        tensors.insert(format!("{module}.{what}"), tensor);
        let alpha = Tensor::new(4f32, &Device::Cpu).unwrap();
        tensors.insert(format!("{module}.alpha"), alpha);
    }
    let path = folder.0.join("kohya.safetensors");
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let (of_kohya, of_peft) = (AdapterFiles::open(&path), AdapterFiles::open(&folder.0));
    let (of_kohya, of_peft) = (of_kohya.unwrap(), of_peft.unwrap());
    let told = |files: &AdapterFiles| -> Vec<_> {
        let modules = files.modules().unwrap().into_iter();
        modules
            .map(|it| (it.method, it.rank, it.scaling, it.weight, it.storage))
            .collect()
    };
    assert_eq!(told(&of_kohya), told(&of_peft));
    let names: Vec<String> = of_kohya
        .modules()
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(
        names,
        ["lora_unet_a_fc", "lora_unet_b_fc"],
        "the dots are not to be had again"
    );
    let refused = of_kohya.save_as(&folder.0.join("new"), Change::default());
    assert!(matches!(
        refused,
        Err(DoraError::Unsupported { name: "layout", .. })
    ));
    let x = Tensor::from_vec(noise(15, 9), (3, 5), &Device::Cpu).unwrap();
    let x = x.to_dtype(DType::F32).unwrap();
    let run = |mut adapter: Adapter| {
        let a = adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
        let b = adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
        adapter.finish().unwrap();
        let y = values(&b.forward(&a.forward(&x).unwrap()).unwrap());
        let again = Folder::new("kohya-again");
        adapter.save(&again.0).unwrap();
        let mut adapter = open(&again.0).unwrap();
        let a = adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
        let b = adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
        assert_eq!(
            values(&b.forward(&a.forward(&x).unwrap()).unwrap()),
            y,
            "after saving"
        );
        y
    };
    let kohya = Adapter::open_kohya(&path, DType::F32, &Device::Cpu).unwrap();
    assert_eq!(run(kohya), run(open(&folder.0).unwrap()));
}

#[test]
fn sizes_count_frozen_weights_and_say_which_rank_fits() {
    let config = DoraConfig::builder(16).targets(["fc"]).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("fc", &linear(512, 512, 1)).unwrap();
    adapter.linear("other", &linear(512, 512, 2)).unwrap();
    let size = adapter.size();
    assert_eq!(size.trainable, 16 * 1024 + 512);
    assert_eq!(size.frozen, 2 * 512 * 512);
    assert!(size.fraction > 0.01);
    let rank = size.rank_that_fits.unwrap();
    assert!((rank * 1024 + 512) * 100 <= size.frozen);
    assert!(((rank + 1) * 1024 + 512) * 100 > size.frozen);
}
