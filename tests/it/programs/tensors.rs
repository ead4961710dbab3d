//! Tensors that the program reads and writes: NumPy's files, pipes, values between layers, networks as pictures.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;
use sparkpilot::bench::{TensorFormat, TensorMap, read_tensors, tensors_to_bytes, write_tensors};
use sparkpilot::onnx::graph::{Dim, Graph, MatMul, Op, Unary};
use sparkpilot::onnx::{DType, Model, RunOptions, Tensor, file};

use super::files::small_model;
use super::matrix::sparkpilot as program;
use super::{Folder, Outcome, schema};

fn run(args: &[&str]) -> Outcome {
    program(args).run()
}

fn named(name: &str, shape: [usize; 2], values: Vec<f32>) -> TensorMap {
    let tensor = Tensor::from_f32(shape, values).expect("fills its shape");
    TensorMap::from([(name.to_owned(), tensor)])
}

#[test]
fn inputs_and_outputs_are_files_of_numpy_too_and_pipes() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let x = named("x", [1, 64], (0..64).map(|i| i as f32 / 64.0).collect());
    for (name, format) in [
        ("in.npy", TensorFormat::Npy),
        ("in.npz", TensorFormat::Npz),
        ("in.safetensors", TensorFormat::Safetensors),
    ] {
        let bytes = tensors_to_bytes(Path::new(name), format, &x).expect("is written");
        folder.write(name, bytes);
    }
    let mut given = Vec::new();
    for ending in ["npy", "npz", "safetensors"] {
        let (input, output) = (
            place(&format!("in.{ending}")),
            place(&format!("out.{ending}")),
        );
        let outcome = run(&["run", model, "--inputs", &input, "--outputs", &output]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let outputs = read_tensors(Path::new(&output)).expect("is read");
        let (_, tensor) = outputs.into_iter().next().expect("one output");
        given.push(tensor);
    }
    assert!(given[0] == given[1] && given[1] == given[2]);
    assert!(
        fs::read(place("out.npy"))
            .expect("there")
            .starts_with(b"\x93NUMPY")
    );
    assert!(
        fs::read(place("out.npz"))
            .expect("there")
            .starts_with(b"PK\x03\x04")
    );

    let mut piped = program(&["run", model, "--inputs", "-", "--outputs", "-"]);
    piped
        .command
        .stdin(File::open(place("in.npz")).expect("there"));
    let outcome = piped
        .start_with_stdout(File::create(place("piped")).expect("writable"))
        .end();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("shape"),
        "words go to stderr: {}",
        outcome.stderr
    );
    let [piped, written] =
        ["piped", "out.safetensors"].map(|name| fs::read(place(name)).expect("there"));
    assert_eq!(piped, written);

    folder.write("cut.npy", &fs::read(place("in.npy")).expect("there")[..100]);
    folder.write("none.npz", b"PK\x03\x04 and no archive");
    for (args, code, told) in [
        (
            ["--inputs", &*place("cut.npy")],
            3,
            "cut.npy` is not an .npy file",
        ),
        (
            ["--inputs", &place("none.npz")],
            3,
            "none.npz` is not an .npz file",
        ),
        (["--inputs", &place("missing.npy")], 5, "missing.npy"),
    ] {
        let outcome = run(&[&["run", model], &args[..]].concat());
        assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    let both = run(&["run", model, "--outputs", "-", "--json"]);
    assert_eq!((both.code, &*both.stdout), (Some(2), ""), "{}", both.stderr);
}

/// Two layers with a step between them, and what each makes of an input.
fn layered(folder: &Folder) -> (String, TensorMap) {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(8)]);
    let weight = |seed: usize| {
        let values = (0..64)
            .map(|i| ((i * 7 + seed) % 11) as f32 / 11.0 - 0.4)
            .collect();
        Tensor::from_f32([8, 8], values).expect("fills its shape")
    };
    let (first, second) = (
        graph.add_constant("w1", weight(1)),
        graph.add_constant("w2", weight(5)),
    );
    let a = graph.add_node("first", Op::MatMul(MatMul), &[Some(x), Some(first)]);
    let b = graph.add_node("step", Op::Unary(Unary::Relu), &[Some(a)]);
    let y = graph.add_node("second", Op::MatMul(MatMul), &[Some(b), Some(second)]);
    graph.outputs.push(y);
    let path = folder.path("layered.onnx");
    file::save(&graph, &path).expect("a writable folder");
    graph.outputs = vec![a, b, y];
    let input = Tensor::from_f32([1, 8], (0..8).map(|i| i as f32 - 3.0).collect()).expect("eight");
    let model = Model::from_graph(graph, &RunOptions::new()).expect("a model");
    let outputs = model.session().run(&[("x", &input)]).expect("runs");
    let mut dump = TensorMap::from([("in.x".to_owned(), input)]);
    for (name, tensor) in outputs {
        let kind = if name == "second" { "out" } else { "inner" };
        dump.insert(format!("{kind}.{name}"), tensor);
    }
    (path.to_string_lossy().into_owned(), dump)
}

#[test]
fn the_first_layer_that_diverges_is_named() {
    let folder = Folder::new();
    let (model, dump) = layered(&folder);
    let golden = folder.path("golden.safetensors");
    let compare = |dump: &TensorMap| -> (Option<i32>, Value, String) {
        write_tensors(&golden, dump).expect("a writable folder");
        let args = ["compare", &*model, "--against", &golden.to_string_lossy()];
        let told = run(&[&args[..], &["--json"]].concat());
        let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
        schema::check(&report);
        (told.code, report, run(&args).stdout)
    };
    let (code, report, text) = compare(&dump);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(
        report["layers"].as_array().map(Vec::len),
        Some(3),
        "{report:#}"
    );
    assert!(
        report["first_divergent_layer"].is_null() && text.contains("no layer diverges"),
        "{text}"
    );

    let shifted = |names: &[&str]| {
        let mut dump = dump.clone();
        for name in names {
            let tensor = &dump[*name];
            let values = tensor.to_f64().iter().map(|value| value + 0.5).collect();
            let tensor = Tensor::from_f64(DType::F32, tensor.shape(), values).expect("as before");
            dump.insert((*name).to_owned(), tensor);
        }
        dump
    };
    let (code, report, text) = compare(&shifted(&["inner.step", "out.second"]));
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(
        report["first_divergent_layer"]["node"], "step",
        "{report:#}"
    );
    assert_eq!(
        report["first_divergent_layer"]["operator"], "Relu",
        "{report:#}"
    );
    assert!(
        text.contains("the first layer that diverges is `step` (Relu)"),
        "{text}"
    );
    // Outputs decide the exit code.
    assert_eq!(compare(&shifted(&["inner.first"])).0, Some(0));
    let mut foreign = dump.clone();
    foreign.insert("inner.third".to_owned(), dump["in.x"].clone());
    write_tensors(&golden, &foreign).expect("a writable folder");
    let refused = run(&["compare", &model, "--against", &golden.to_string_lossy()]);
    assert!(
        refused.code == Some(3) && refused.stderr.contains("inner/third"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_network_is_drawn() {
    let folder = Folder::new();
    let (model, _) = layered(&folder);
    let picture = folder.path("network.svg");
    let outcome = run(&["inspect", &model, "--svg", &picture.to_string_lossy()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let svg = fs::read_to_string(&picture).expect("was written");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(
        svg.contains("MatMul 8×8") && svg.contains("Relu") && svg.contains(">second<"),
        "{svg}"
    );
    let piped = run(&["inspect", &model, "--svg", "-"]);
    assert_eq!(
        (piped.code, &piped.stdout),
        (Some(0), &svg),
        "{}",
        piped.stderr
    );
    assert!(
        piped.stderr.contains("operators"),
        "words go to stderr: {}",
        piped.stderr
    );
    let both = run(&["inspect", &model, "--svg", "-", "--json"]);
    assert_eq!((both.code, &*both.stdout), (Some(2), ""));
}
