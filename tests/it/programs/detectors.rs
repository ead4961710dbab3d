//! Networks whose lengths hang on values: measured, explained and calibrated as others are, and nobody is slow silently.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sparkpilot::bench::{TensorMap, write_tensors};
use sparkpilot::onnx::graph::{
    AspectRatio, Binary, CoordinateTransform, Dim, Gather, Graph, Interpolation, MatMul,
    NearestRounding, NonZero, Op, Reshape, Resize, Unary,
};
use sparkpilot::onnx::{DType, Tensor, file};

use super::{Folder, Outcome, Program};

const ROWS: usize = 64;
const DEPTH: usize = 32;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 31 + seed * 17) % 97) as f32 / 97.0 - 0.5;
    (0..n).map(number).collect()
}

fn list(graph: &mut Graph, name: &str, values: &[i64]) -> sparkpilot::onnx::graph::ValueId {
    let tensor = Tensor::from_i64([values.len()], values.to_vec()).expect("a list");
    graph.add_constant(name, tensor)
}

fn saved(folder: &Folder, name: &str, graph: &Graph) -> PathBuf {
    let path = folder.path(name);
    file::save(graph, &path).expect("a writable folder");
    path
}

/// Logits by two products, the rows of positive ones, and a product of these.
fn detector(folder: &Folder) -> PathBuf {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(ROWS), Dim::Known(DEPTH)]);
    let product = |graph: &mut Graph, name: &str, x, columns: usize| {
        let w = Tensor::from_f32([DEPTH, columns], numbers(DEPTH * columns, name.len()));
        let w = graph.add_constant(format!("{name}.w"), w.expect("fits"));
        graph.add_node(name, Op::MatMul(MatMul), &[Some(x), Some(w)])
    };
    let hidden = product(&mut graph, "hidden", x, DEPTH);
    let logits = product(&mut graph, "logits", hidden, DEPTH);
    let positive = graph.add_node("positive", Op::Unary(Unary::Relu), &[Some(logits)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(positive)]);
    let first = list(&mut graph, "first", &[0]);
    let gather = Op::Gather(Gather { axis: 0 });
    let row = graph.add_node("row", gather.clone(), &[Some(at), Some(first)]);
    let flat = list(&mut graph, "flat", &[-1]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let row = graph.add_node("row_list", reshape, &[Some(row), Some(flat)]);
    let chosen = graph.add_node("chosen", gather, &[Some(logits), Some(row)]);
    let found = product(&mut graph, "found", chosen, 4);
    graph.outputs = vec![found, logits];
    saved(folder, "detector.onnx", &graph)
}

/// Resizes a picture to what it computes.
fn resizer(folder: &Folder) -> PathBuf {
    let mut graph = Graph::default();
    let x = graph.add_input(
        "x",
        DType::F32,
        vec![1, 1, 8, 8].into_iter().map(Dim::Known).collect(),
    );
    let extents = graph.add_input("extents", DType::I64, vec![Dim::Known(1), Dim::Known(4)]);
    let more = list(&mut graph, "more", &[1, 1, 3, 4]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(extents), Some(more)]);
    let flat = list(&mut graph, "flat", &[-1]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let sizes = graph.add_node("sizes", reshape, &[Some(sum), Some(flat)]);
    let resize = Op::Resize(Resize {
        mode: Interpolation::Linear,
        transform: CoordinateTransform::HalfPixel,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        axes: None,
        aspect: AspectRatio::Stretch,
    });
    let y = graph.add_node("resized", resize, &[Some(x), None, None, Some(sizes)]);
    graph.outputs.push(y);
    saved(folder, "resizer.onnx", &graph)
}

fn bench(model: &Path) -> Program {
    let quick = ["--runs", "2", "--warmup", "0", "--threads", "1", "--model"];
    Program::new("bench_supercombo").args(quick).args([model])
}

#[track_caller]
fn ran(outcome: Outcome) -> Outcome {
    assert_eq!(
        outcome.code,
        Some(0),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    outcome
}

#[test]
fn another_number_of_boxes_than_in_fp32_is_no_agreement_and_no_panic() {
    let folder = Folder::new();
    let model = detector(&folder);
    let (json, trace) = (folder.path("r.json"), folder.path("t.json"));
    let [json_path, trace_path] = [&json, &trace].map(|path| path.to_string_lossy());
    let args = ["--precision", "fp4", "--explain", "--profile"];
    let files = ["--json", &*json_path, "--trace", &*trace_path];
    let outcome = ran(bench(&model).args(args).args(files).run());
    let text = &outcome.stdout;
    assert!(
        text.contains("operators that are interpreted, `at` the first"),
        "{text}"
    );
    assert!(text.contains("operators that are interpreted, `"), "{text}");
    assert!(text.contains("  found  "), "planned behind them: {text}");
    let report = std::fs::read_to_string(&json).expect("written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let run = &report["runs"][0];
    assert_eq!(run["steps"]["cpu interpreted"], 4, "{run}");
    // Positive logits are others in four bits.
    assert_eq!(run["accuracy"]["max_rel"], Value::Null, "{run}");
    assert_eq!(run["accuracy"]["non_finite"], 0, "{run}");
    let trace = std::fs::read_to_string(&trace).expect("written");
    assert!(trace.contains("\"NonZero\""), "{trace}");
}

#[test]
fn what_is_interpreted_is_said_once_and_what_is_slow_without_being_asked() {
    let folder = Folder::new();
    let model = detector(&folder);
    let outcome = ran(bench(&model).run());
    assert_eq!(outcome.stderr, "");
    let outcome = ran(bench(&model).env("DEBUG", "1").run());
    let lines = outcome.stderr.lines();
    let said: Vec<&str> = lines
        .filter(|line| line.contains("are interpreted"))
        .collect();
    let [line] = said[..] else {
        panic!("{said:?}");
    };
    assert!(
        line.contains("from node `at` on") && line.contains("4 operators"),
        "{line}"
    );
    let outcome = ran(bench(&resizer(&folder)).run());
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [line] = lines[..] else {
        panic!("{lines:?}");
    };
    assert!(line.starts_with("warning: "), "{line}");
    assert!(
        line.contains("is slow") && line.contains("`resized` (Resize)"),
        "{line}"
    );
}

#[test]
fn a_detector_is_calibrated_before_its_lengths_hang_on_values() {
    let folder = Folder::new();
    let model = detector(&folder);
    let frame = |seed| Tensor::from_f32([ROWS, DEPTH], numbers(ROWS * DEPTH, seed)).expect("fits");
    let tensors = (0..6).map(|case| (format!("case{case}/in/x"), frame(3 * case + 5)));
    let batches = folder.path("frames.safetensors");
    write_tensors(&batches, &tensors.collect::<TensorMap>()).expect("a writable folder");
    let calibrate = |args: [&str; 2], output: &Path| {
        let program =
            Program::new("calibrate_model").args([&model, Path::new("--batches"), &batches]);
        ran(program
            .args(args)
            .args([Path::new("--output"), output])
            .run())
    };
    let chosen = folder.path("chosen.safetensors");
    let outcome = calibrate(["--precision", "fp8"], &chosen);
    assert!(outcome.stdout.contains("hidden") && outcome.stdout.contains("logits"));
    let calibration = ["--calibration", &*chosen.to_string_lossy()].map(str::to_owned);
    let outcome = ran(bench(&model).args(&calibration).args(["--explain"]).run());
    assert!(
        outcome.stdout.contains("as calibrated"),
        "{}",
        outcome.stdout
    );
    let integers = folder.path("integers.onnx");
    let outcome = calibrate(["--precision", "int8"], &integers);
    assert!(
        outcome
            .stdout
            .contains("how many rows it gets hangs on values"),
        "{}",
        outcome.stdout
    );
    let outcome = ran(bench(&integers).args(["--explain"]).run());
    assert!(outcome.stdout.contains("int8"), "{}", outcome.stdout);
}
