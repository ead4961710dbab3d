//! `merge_adapter`: every kind of layer, and where the result goes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, safetensors};
use candle_nn::{Conv1d, Conv1dConfig, Embedding, Linear};
use sparkpilot::dora::{Adapter, DoraConfig, Init, Offered};

use super::{Folder, Outcome, Program};

type Tensors = HashMap<String, Tensor>;

fn random(shape: &[usize]) -> Tensor {
    Tensor::randn(0f32, 0.2, shape, &Device::Cpu).expect("a tensor")
}

/// A network and an adapter of it in `folder`, and the weights that merging gives.
pub(super) fn made(folder: &Folder) -> (PathBuf, PathBuf, Tensors) {
    let shapes = [
        ("out.weight", [5, 16].as_slice()),
        ("words.weight", &[20, 16]),
        ("filter.weight", &[6, 4, 3]),
        ("other.bias", &[5]),
    ];
    let base = shapes.map(|(name, shape)| (name.to_owned(), random(shape)));
    let base = Tensors::from(base);
    let config = DoraConfig::builder(2).init(Init::Random).build();
    let config = config.expect("settings");
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).expect("an adapter");
    let mut merged = base.clone();
    let linear = Linear::new(base["out.weight"].clone(), None);
    let words = Embedding::new(base["words.weight"].clone(), 16);
    let filter = Conv1d::new(base["filter.weight"].clone(), None, Conv1dConfig::default());
    let Ok(Offered::Adapted(linear)) = adapter.linear("out", &linear) else {
        panic!("every layer is meant");
    };
    let Ok(Offered::Adapted(words)) = adapter.embedding("words", &words) else {
        panic!("every layer is meant");
    };
    let Ok(Offered::Adapted(filter)) = adapter.conv1d("filter", &filter) else {
        panic!("every layer is meant");
    };
    for (name, weight) in [
        ("out.weight", linear.merge().expect("merges").layer.weight()),
        (
            "words.weight",
            words.merge().expect("merges").layer.embeddings(),
        ),
        (
            "filter.weight",
            filter.merge().expect("merges").layer.weight(),
        ),
    ] {
        merged.insert(name.to_owned(), weight.clone());
    }
    let (base_path, adapter_path) = (folder.path("base.safetensors"), folder.path("adapter"));
    safetensors::save(&base, &base_path).expect("a writable folder");
    adapter.save(&adapter_path).expect("a writable folder");
    (base_path, adapter_path, merged)
}

fn merge(base: &Path, adapter: &Path, merged: &Path) -> Outcome {
    Program::new("merge_adapter")
        .args([base, adapter, merged])
        .run()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let flat = tensor.flatten_all().expect("contiguous");
    flat.to_vec1().expect("f32")
}

#[test]
fn embeddings_and_convolutions_are_merged_as_linear_layers_are() {
    let folder = Folder::new();
    let (base, adapter, want) = made(&folder);
    let path = folder.path("merged.safetensors");
    let outcome = merge(&base, &adapter, &path);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let got = safetensors::load(&path, &Device::Cpu).expect("readable");
    let before = safetensors::load(&base, &Device::Cpu).expect("readable");
    assert_eq!(got.len(), want.len());
    for (name, want) in &want {
        assert_eq!(values(&got[name]), values(want), "{name}");
        let is_changed = values(&got[name]) != values(&before[name]);
        assert_eq!(is_changed, name.ends_with(".weight"), "{name}");
    }
    // As readable for others as any new file.
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode(&path), mode(&folder.write("any", "")));
}

#[test]
fn a_pipe_gets_the_merged_file_and_stays_a_pipe() {
    let folder = Folder::new();
    let (base, adapter, _) = made(&folder);
    let path = folder.path("merged.safetensors");
    assert_eq!(merge(&base, &adapter, &path).code, Some(0));
    let pipe = folder.pipe("pipe");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            let mut file = File::open(pipe).expect("a pipe");
            file.read_to_end(&mut bytes).expect("a stream");
            bytes
        }
    });
    let outcome = merge(&base, &adapter, &pipe);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let length = fs::metadata(&path).expect("a file").len();
    assert_eq!(reader.join().expect("reads").len() as u64, length);
    let kind = fs::metadata(&pipe).expect("still there").file_type();
    assert!(kind.is_fifo(), "{kind:?}");
}

#[test]
fn weights_that_an_update_is_lost_in_are_refused() {
    for dtype in [DType::U8, DType::I64, DType::F8E4M3] {
        let folder = Folder::new();
        let (path, adapter, _) = made(&folder);
        let mut base = safetensors::load(&path, &Device::Cpu).expect("readable");
        let weight = base["out.weight"].to_dtype(dtype).expect("converts");
        base.insert("out.weight".to_owned(), weight);
        safetensors::save(&base, &path).expect("a writable folder");
        let merged = folder.path("merged.safetensors");
        let outcome = merge(&path, &adapter, &merged);
        assert_eq!(outcome.code, Some(1), "{dtype:?}: {}", outcome.stdout);
        let says = format!("`out.weight` is {}, expected", dtype.as_str());
        assert!(outcome.stderr.contains(&says), "{}", outcome.stderr);
        assert!(!merged.exists());
    }
}

#[cfg(feature = "cli")]
#[test]
fn adapters_are_looked_at_converted_and_compared() {
    use super::matrix::sparkpilot;
    let folder = Folder::new();
    let (base, adapter, _) = made(&folder);
    let place = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let of = |args: &[&str]| sparkpilot(&[&["adapter"], args].concat()).run();
    let adapter_text = adapter.to_string_lossy().into_owned();
    let inspected = of(&["inspect", &adapter_text, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&inspected.stdout).expect("JSON");
    super::schema::check(&report);
    let modules = report["modules"].as_array().expect("a list");
    let of_module = |name: &str| {
        modules
            .iter()
            .find(|it| it["name"] == name)
            .expect("a module")
    };
    for (name, weight) in [
        ("out", vec![5, 16]),
        ("words", vec![20, 16]),
        ("filter", vec![6, 4, 3]),
    ] {
        let module = of_module(name);
        assert_eq!(module["weight"], serde_json::json!(weight), "{report:#}");
        assert_eq!(
            (&module["rank"], &module["scale"]),
            (&2.into(), &2.0.into()),
            "{report:#}"
        );
        assert_eq!(
            (&module["method"], &module["storage"][0]),
            (&"dora".into(), &"f32".into())
        );
    }
    let text = of(&["inspect", &adapter_text]).stdout;
    let base_numbers = 5 * 16 + 20 * 16 + 6 * 4 * 3;
    assert!(
        text.contains(&format!("of the {base_numbers} of the weights")),
        "{text}"
    );

    let (small, scaled) = (place("small"), place("scaled"));
    let outcome = of(&[
        "convert",
        &adapter_text,
        "--storage",
        "bf16",
        "--output",
        &small,
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("out.lora_A.weight"),
        "{}",
        outcome.stdout
    );
    let outcome = of(&[
        "convert",
        &adapter_text,
        "--rslora",
        "true",
        "--output",
        &scaled,
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("every number is what it was"),
        "{}",
        outcome.stdout
    );
    // Half a unit of bf16's last place, of a largest element that is at most a unit less than a power of two.
    assert_eq!(
        of(&["diff", &adapter_text, &small, "--within", "0.00391"]).code,
        Some(0)
    );
    let told = of(&["diff", &adapter_text, &small, "--json"]);
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    super::schema::check(&told);
    assert_eq!(told["alike"], false, "{told:#}");
    assert_eq!(of(&["diff", &adapter_text, &adapter_text]).code, Some(0));
    let told = of(&["diff", &adapter_text, &scaled]);
    assert!(
        told.code == Some(1)
            && told.stdout.contains("the setting lora_alpha")
            && told.stdout.contains("the setting use_rslora"),
        "{}",
        told.stdout
    );
    // Its scales are what they were: merged it gives the same weights.
    let merged = ["merged", "otherwise"].map(|name| folder.path(name));
    for (adapter, merged) in [adapter.as_path(), Path::new(&scaled)].iter().zip(&merged) {
        assert_eq!(merge(&base, adapter, merged).code, Some(0));
    }
    let [one, other] = merged.map(|path| safetensors::load(path, &Device::Cpu).expect("written"));
    for (name, tensor) in &one {
        assert_eq!(values(tensor), values(&other[name]), "{name}");
    }
    for (args, code) in [
        (&["convert", &*adapter_text, "--output", &small][..], 2),
        (
            &[
                "convert",
                &adapter_text,
                "--storage",
                "bf16",
                "--output",
                &adapter_text,
            ],
            2,
        ),
        (&["inspect", "missing"], 5),
        (&["inspect", &*base.to_string_lossy()], 3),
        (&["diff", &adapter_text, "missing"], 5),
    ] {
        let outcome = of(args);
        assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
    }
}

/// PEFT's folder of one module, with this name and these numbers in A.
fn folder_of(folder: &Folder, name: &str, module: &str, a: [f32; 2]) -> String {
    let place = folder.path(name);
    fs::create_dir_all(&place).expect("a writable folder");
    let settings = serde_json::json!({
        "peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": [module], "use_dora": false,
    });
    fs::write(place.join("adapter_config.json"), settings.to_string()).expect("the same");
    let one = |shape: [usize; 2], values: [f32; 2]| {
        Tensor::from_slice(&values, &shape[..], &Device::Cpu).expect("a tensor")
    };
    let tensor = |what: &str| format!("base_model.model.{module}.lora_{what}.weight");
    let tensors = match module {
        "" => Tensors::new(),
        _ => Tensors::from([
            (tensor("A"), one([1, 2], a)),
            (tensor("B"), one([2, 1], [1.0, 2.0])),
        ]),
    };
    safetensors::save(&tensors, place.join("adapter_model.safetensors")).expect("the same");
    place.to_string_lossy().into_owned()
}

#[cfg(feature = "cli")]
#[test]
fn adapters_that_hold_nothing_or_too_much_are_told() {
    use super::matrix::sparkpilot;
    let folder = Folder::new();
    let of = |args: &[&str]| sparkpilot(&[&["adapter"], args].concat()).run();
    let nothing = folder_of(&folder, "nothing", "", [0.0; 2]);
    let outcome = of(&["inspect", &nothing]);
    assert_eq!(
        outcome.code,
        Some(3),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(outcome.stderr.contains("no tensors"), "{}", outcome.stderr);

    // Finite, and beyond what f16 holds.
    let large = folder_of(&folder, "large", "fc", [1.0, 1e6]);
    let out = folder.path("half");
    let half = &*out.to_string_lossy();
    let outcome = of(&["convert", &large, "--storage", "f16", "--output", half]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    let is_told = outcome
        .stderr
        .contains("element 1 of `fc.lora_A.weight` is beyond the range of f16");
    assert!(is_told, "{}", outcome.stderr);
    assert!(!out.join("adapter_model.safetensors").exists());

    // A checkpoint stays what its run goes on from.
    let step = folder.path("step-00000003");
    std::fs::create_dir(&step).expect("a writable folder");
    std::fs::write(step.join("manifest.json"), "{}").expect("a writable folder");
    let small = folder_of(&folder, "small", "fc", [1.0; 2]);
    let place = &*step.to_string_lossy();
    let outcome = of(&["convert", &small, "--storage", "f16", "--output", place]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("is a checkpoint"),
        "{}",
        outcome.stderr
    );
    assert_eq!(std::fs::read_dir(&step).expect("is there").count(), 1);

    // A name is one line, whatever it holds.
    let lines = folder_of(&folder, "lines", "fc\nwrong 9", [1.0; 2]);
    let outcome = of(&["inspect", &lines]);
    assert!(!outcome.stdout.contains("\nwrong"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("fc\\u{a}wrong 9"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}
