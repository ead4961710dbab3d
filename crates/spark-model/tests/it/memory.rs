//! How much memory a model takes while it is loaded and run for the first time.
//!
//! A process of its own does that, for only a whole process knows what it has touched at most.

use std::path::Path;
use std::process::Command;

use spark_model::graph::{Dim, Value};
use spark_model::zoo::ZooModel;
use spark_model::{ModelRunner, RunOptions, Tensor, onnx};

/// Set in the process that is measured: the model.
const FILE: &str = "SPARK_MEMORY_FILE";

/// Peak memory over weights and arena, at most.
const MOST: f64 = 1.3;

/// Most memory this process has held, in bytes.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

fn zeros(input: &Value) -> (String, Tensor) {
    let dims = input.shape.iter().flatten();
    let shape: Vec<usize> = dims
        .map(|dim| match dim {
            Dim::Known(extent) => *extent,
            _ => panic!("the zoo's shapes are fixed"),
        })
        .collect();
    let dtype = input.dtype.expect("declared");
    (
        input.name.clone(),
        Tensor::zeros(dtype, shape).expect("a small input"),
    )
}

/// What the model takes beyond what the process had before, and what it should.
fn measured(file: &Path) -> Option<(usize, usize)> {
    let before = peak_bytes()?;
    let options = RunOptions::new().threads(1);
    let mut runner = ModelRunner::load(file, &options).expect("own file");
    let graph = runner.graph();
    let inputs: Vec<(String, Tensor)> = graph
        .inputs
        .iter()
        .map(|&id| zeros(graph.value(id)))
        .collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&inputs).expect("runs");
    let memory = runner.memory();
    Some((
        peak_bytes()? - before,
        memory.weight_bytes + memory.arena_bytes,
    ))
}

#[test]
fn loading_takes_little_more_than_weights_and_arena() {
    if let Ok(file) = std::env::var(FILE) {
        if let Some((peak, needed)) = measured(file.as_ref()) {
            eprintln!("measured {peak} {needed}");
        }
        return;
    }
    if peak_bytes().is_none() {
        eprintln!("skipped: this system does not tell how much memory a process has held");
        return;
    }
    for model in [ZooModel::DrivingPolicy, ZooModel::DriverMonitoring] {
        let file = format!("spark-memory-{}-{}.onnx", model.name(), std::process::id());
        let file = std::env::temp_dir().join(file);
        onnx::save(&model.build(3), &file).expect("a writable folder");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "memory::loading_takes_little_more_than_weights_and_arena",
            ])
            .arg("--nocapture")
            .env(FILE, &file)
            .output()
            .expect("starts");
        std::fs::remove_file(&file).expect("own file");
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
        let ratio = numbers[0] as f64 / numbers[1] as f64;
        assert!(numbers[1] > 10_000_000, "{} is too small", model.name());
        assert!(ratio <= MOST, "{}: {numbers:?}, {ratio:.2}", model.name());
        eprintln!("{}: {ratio:.2} of weights and arena", model.name());
    }
}
