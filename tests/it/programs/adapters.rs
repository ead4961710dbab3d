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
fn made(folder: &Folder) -> (PathBuf, PathBuf, Tensors) {
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
