//! How much memory a model takes while it is loaded and run for the first time.
//!
//! A process of its own does that, for only a whole process knows what it has touched at most.

use std::path::Path;
use std::process::Command;

use half::f16;
use spark_onnx::graph::{Dim, Value};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, TensorData, file};
use spark_openpilot::zoo::ZooModel;
use spark_testing::test_data;

/// Set in the process that is measured: the model.
const FILE: &str = "SPARK_MEMORY_FILE";

/// Peak memory over weights and arena, at most.
const MOST: f64 = 1.3;

/// What the system says of this process, in bytes.
struct Held {
    /// Most memory it has held.
    peak: usize,
    /// Pages of files, among them the program: they are shared and can be dropped at any time.
    of_files: usize,
}

impl Held {
    fn now() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(kilobytes << 10)
        };
        Some(Self {
            peak: bytes("VmHWM:")?,
            of_files: bytes("RssFile:")?,
        })
    }
}

/// Ones, so that the input's pages are there and can be left out: zeros nobody wrote take none.
fn ones(input: &Value) -> (String, Tensor) {
    let dims = input.shape.iter().flatten();
    let shape: Vec<usize> = dims
        .map(|dim| match dim {
            Dim::Known(extent) => *extent,
            // The number of pictures, where a file leaves it open.
            _ => 1,
        })
        .collect();
    let count = shape.iter().product();
    let data = match input.dtype.expect("declared") {
        DType::F32 => TensorData::F32(vec![1.0; count]),
        DType::F16 => TensorData::F16(vec![f16::ONE; count]),
        DType::U8 => TensorData::U8(vec![1; count]),
        other => panic!("an input of {other}"),
    };
    (
        input.name.clone(),
        Tensor::new(shape, data).expect("a small input"),
    )
}

/// What the model takes beyond what the process had before and the caller's inputs, and what it
/// should. Kernels that run for the first time become pages of the process too; they are left out.
fn measured(file: &Path) -> Option<(usize, usize)> {
    let before = Held::now()?;
    let options = RunOptions::new().with_threads(1);
    let mut runner = ModelRunner::load(file, &options).expect("a sound file");
    let graph = runner.graph();
    let inputs: Vec<(String, Tensor)> = graph
        .inputs
        .iter()
        .map(|&id| ones(graph.value(id)))
        .collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&inputs).expect("runs");
    let memory = runner.memory();
    let after = Held::now()?;
    let given: usize = inputs.iter().map(|(_, t)| t.size_bytes()).sum();
    let files = after.of_files.saturating_sub(before.of_files);
    Some((
        (after.peak - before.peak).saturating_sub(files + given),
        memory.weight_bytes + memory.arena_bytes,
    ))
}

/// The ratio of the two, measured in a process of its own.
fn ratio(file: &Path) -> f64 {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "memory::loading_takes_little_more_than_weights_and_arena",
        ])
        .arg("--nocapture")
        .env(FILE, file)
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    let numbers: Vec<usize> = said
        .lines()
        .find_map(|line| line.strip_prefix("measured "))
        .map(|rest| {
            rest.split(' ')
                .map(|n| n.parse().expect("a number"))
                .collect()
        })
        .unwrap_or_else(|| panic!("no figures in `{said}`"));
    assert!(numbers[1] > 10_000_000, "{} is too small", file.display());
    let ratio = numbers[0] as f64 / numbers[1] as f64;
    eprintln!("{}: {ratio:.2} of weights and arena", file.display());
    assert!(ratio > 0.8, "{numbers:?} is not the memory of a model");
    ratio
}

#[test]
fn loading_takes_little_more_than_weights_and_arena() {
    if let Ok(file) = std::env::var(FILE) {
        if let Some((peak, needed)) = measured(file.as_ref()) {
            eprintln!("measured {peak} {needed}");
        }
        return;
    }
    if Held::now().is_none() {
        eprintln!("skipped: this system does not tell how much memory a process has held");
        return;
    }
    for model in ZooModel::ALL {
        let file = format!("spark-memory-{}-{}.onnx", model.name(), std::process::id());
        let file = std::env::temp_dir().join(file);
        file::save(&model.build(3), &file).expect("a writable folder");
        let ratio = ratio(&file);
        std::fs::remove_file(&file).expect("own file");
        assert!(ratio <= MOST, "{}: {ratio:.2}", model.name());
    }
    let Some(models) = test_data("data/models") else {
        return;
    };
    for entry in std::fs::read_dir(models).expect("a folder") {
        let file = entry.expect("readable").path();
        if file.extension().is_some_and(|e| e == "onnx") {
            let ratio = ratio(&file);
            assert!(ratio <= MOST, "{}: {ratio:.2}", file.display());
        }
    }
}
