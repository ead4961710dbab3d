//! `quantize_weights`: no weight of a file is passed over, and a file without any is told what it holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sparkpilot::bench::{TensorMap, write_tensors};
use sparkpilot::onnx::graph::{Cast, Dim, Graph, MatMul, Op, Transpose};
use sparkpilot::onnx::{DType, Tensor, file};

use super::{Folder, Outcome, Program};

const SIZE: usize = 64;

fn numbers(seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 31 + seed * 17) % 97) as f32 / 97.0 - 0.5;
    (0..SIZE * SIZE).map(number).collect()
}

fn matrix(values: Vec<f32>) -> Tensor {
    Tensor::from_f32([SIZE, SIZE], values).expect("fills its shape")
}

/// A network that `build` adds layers to, from its input to its output, as a file.
fn network(
    folder: &Folder,
    name: &str,
    build: impl FnOnce(&mut Graph, sparkpilot::onnx::graph::ValueId) -> sparkpilot::onnx::graph::ValueId,
) -> PathBuf {
    let mut graph = Graph::default();
    let square = vec![Dim::Known(SIZE), Dim::Known(SIZE)];
    let x = graph.add_input("x", DType::F32, square);
    let y = build(&mut graph, x);
    graph.outputs.push(y);
    let path = folder.path(name);
    file::save(&graph, &path).expect("a writable folder");
    path
}

fn tensors(folder: &Folder, name: &str, tensors: &[(&str, Tensor)]) -> PathBuf {
    let named = tensors
        .iter()
        .map(|(name, t)| ((*name).to_owned(), t.clone()));
    let path = folder.path(name);
    write_tensors(&path, &named.collect::<TensorMap>()).expect("a writable folder");
    path
}

fn quantize(file: &Path, args: &[&str]) -> Outcome {
    let program = Program::new("quantize_weights").args([file]);
    program.args(args).run()
}

/// Error of each weight in NVFP4, by name, as the JSON file has it.
#[track_caller]
fn weights(file: &Path) -> BTreeMap<String, f64> {
    let folder = Folder::new();
    let json = folder.path("q.json");
    let outcome = quantize(
        file,
        &["--format", "nvfp4", "--json", &json.to_string_lossy()],
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let text = std::fs::read_to_string(json).expect("written");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let picks = report["plan"]["picks"].as_array().expect("a plan");
    let weight = |pick: &Value| {
        let name = pick["name"].as_str().expect("a name").to_owned();
        (name, pick["sqnr_db"].as_f64().expect("a finite figure"))
    };
    picks.iter().map(weight).collect()
}

#[track_caller]
fn names(file: &Path) -> Vec<String> {
    weights(file).into_keys().collect()
}

#[test]
fn weights_whose_names_begin_alike_are_all_quantized() {
    let folder = Folder::new();
    let chain = |file: &str, layers: &[&str]| {
        network(&folder, file, |graph, x| {
            layers.iter().enumerate().fold(x, |x, (i, name)| {
                let w = graph.add_constant(*name, matrix(numbers(i)));
                graph.add_node(format!("y{i}"), Op::MatMul(MatMul), &[Some(x), Some(w)])
            })
        })
    };
    let file = chain("a.onnx", &["layer10", "layer1"]);
    assert_eq!(names(&file), ["layer1.weight", "layer10.weight"]);
    let file = chain("b.onnx", &["a.weight", "a"]);
    assert_eq!(names(&file), ["a.weight", "a_2.weight"]);
    let file = chain("c.onnx", &["a", "a.weight"]);
    assert_eq!(names(&file), ["a.weight", "a_2.weight"]);
    // The checkpoint has them too.
    let out = folder.path("q");
    let outcome = quantize(&file, &["--output", &out.to_string_lossy()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (checkpoint, _) =
        sparkpilot::quant::checkpoint::Checkpoint::read_folder(&out).expect("sound");
    let names: Vec<&String> = checkpoint.entries.keys().collect();
    assert_eq!(names, ["a.weight", "a_2.weight"]);
}

#[test]
fn a_weight_that_two_nodes_use_is_one() {
    let folder = Folder::new();
    let file = network(&folder, "twice.onnx", |graph, x| {
        let w = graph.add_constant("w", matrix(numbers(0)));
        let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
        graph.add_node("z", Op::MatMul(MatMul), &[Some(y), Some(w)])
    });
    assert_eq!(names(&file), ["w.weight"]);
}

#[test]
fn weights_behind_casts_transposes_and_on_the_left_are_found_with_their_values() {
    let folder = Folder::new();
    let numbers = numbers(0).into_iter().map(f64::from).collect();
    let halves = Tensor::from_f64(DType::F16, [SIZE, SIZE], numbers).expect("fills its shape");
    let wide = || matrix(halves.to_f32());
    let plain = network(&folder, "plain.onnx", |graph, x| {
        let w = graph.add_constant("w", wide());
        graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)])
    });
    let cast = network(&folder, "cast.onnx", |graph, x| {
        let w = graph.add_constant("w", halves.clone());
        let w = graph.add_node("wide", Op::Cast(Cast { to: DType::F32 }), &[Some(w)]);
        graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)])
    });
    let want = weights(&plain);
    assert_eq!(want.keys().next().map(String::as_str), Some("w.weight"));
    assert_eq!(weights(&cast), want);

    // On the left rows are the outputs; transposing twice is doing nothing.
    let left = network(&folder, "left.onnx", |graph, x| {
        let w = graph.add_constant("w", wide());
        graph.add_node("y", Op::MatMul(MatMul), &[Some(w), Some(x)])
    });
    let turned = network(&folder, "turned.onnx", |graph, x| {
        let w = graph.add_constant("w", wide());
        let turn = Op::Transpose(Transpose {
            perm: Some(vec![1, 0]),
        });
        let w = graph.add_node("turned", turn, &[Some(w)]);
        graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)])
    });
    assert_eq!(weights(&turned), weights(&left));
    assert_ne!(weights(&left), want, "blocks run along the other axis");
}

#[test]
fn names_without_weight_at_their_end_are_weights_where_no_others_are() {
    let folder = Folder::new();
    let w = || matrix(numbers(0));
    let alone = tensors(&folder, "alone.safetensors", &[("w", w())]);
    assert_eq!(names(&alone), ["w.weight"]);
    let both = [("embedding", w()), ("l.weight", w())];
    let beside = tensors(&folder, "beside.safetensors", &both);
    assert_eq!(names(&beside), ["l.weight"]);
    let said = quantize(&beside, &[]).stdout;
    assert!(
        said.contains("1 tensor more") && said.contains("`embedding`"),
        "{said}"
    );
}

#[test]
fn a_file_without_weights_is_told_what_it_holds() {
    let folder = Folder::new();
    let told = |file: &Path, words: &[&str]| {
        let outcome = quantize(file, &[]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
        assert_eq!(outcome.stdout, "");
        let name = file.to_string_lossy();
        for word in words.iter().chain(&[&*name]) {
            assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
        }
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    };
    let whole = Tensor::from_i64([2, 3], vec![0; 6]).expect("fills its shape");
    let list = Tensor::from_f32([3], vec![0.0; 3]).expect("fills its shape");
    let odd = [("i.weight", whole), ("b", list)];
    let file = tensors(&folder, "odd.safetensors", &odd);
    told(&file, &["1 tensor of fewer than two axes", "others in I64"]);

    let file = tensors(
        &folder,
        "w.safetensors",
        &[("l.weight", matrix(numbers(0)))],
    );
    let out = folder.path("q");
    let outcome = quantize(&file, &["--output", &out.to_string_lossy()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    told(
        &out.join("model.safetensors"),
        &["1 tensor quantized already"],
    );

    let file = network(&folder, "none.onnx", |graph, x| {
        graph.add_node("y", Op::Cast(Cast { to: DType::F16 }), &[Some(x)])
    });
    told(&file, &["no convolution and no matrix product"]);
    let file = network(&folder, "square.onnx", |graph, x| {
        graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(x)])
    });
    told(&file, &["no operand", "products (1)"]);
}

#[test]
fn an_empty_weight_does_not_lift_the_figure() {
    let folder = Folder::new();
    let real = ("l.weight", matrix(numbers(0)));
    let empty = Tensor::from_f32([0, 128], vec![]).expect("fills its shape");
    let alone = tensors(&folder, "one.safetensors", std::slice::from_ref(&real));
    let both = tensors(&folder, "two.safetensors", &[real, ("empty.weight", empty)]);
    assert_eq!(quantize(&alone, &[]).stdout, quantize(&both, &[]).stdout);
    // It is in the checkpoint all the same.
    let out = folder.path("q");
    let outcome = quantize(&both, &["--output", &out.to_string_lossy()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (checkpoint, _) =
        sparkpilot::quant::checkpoint::Checkpoint::read_folder(&out).expect("sound");
    assert!(checkpoint.entries.contains_key("empty.weight"));
}

#[test]
fn tensors_that_stay_as_they_are_are_counted() {
    let folder = Folder::new();
    let integers = Tensor::from_i64([SIZE, SIZE], vec![3; SIZE * SIZE]).expect("fills its shape");
    let weights = [
        ("k.weight", matrix(numbers(0))),
        ("l.weight", matrix(numbers(1))),
        ("m.weight", integers),
    ];
    let file = tensors(&folder, "some.safetensors", &weights);
    let out = folder.path("q");
    // One stays plain, so that there is something to do the second time.
    let args = ["--exclude", "k.", "--output", &*out.to_string_lossy()];
    let outcome = quantize(&file, &args);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let said = "1 tensor of two axes or more in I64 stay";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    let outcome = quantize(&out.join("model.safetensors"), &[]);
    let said = "1 tensor quantized already stay";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
}

#[test]
fn figures_of_finite_weights_are_finite() {
    let folder = Folder::new();
    let size = |i: usize| 3e38 * (1.0 - 0.02 * (i % 3) as f32);
    let value = |i: usize| {
        if i.is_multiple_of(2) {
            size(i)
        } else {
            -size(i)
        }
    };
    let values = (0..SIZE * SIZE).map(value);
    let file = tensors(
        &folder,
        "huge.safetensors",
        &[("l.weight", matrix(values.collect()))],
    );
    for args in [&["--format", "mxfp4"], &["--format", "auto"]] {
        let json = folder.path("q.json");
        let json = json.to_string_lossy();
        let outcome = quantize(&file, &[args[0], args[1], "--json", &json]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert!(!outcome.stdout.contains("inf"), "{}", outcome.stdout);
        let is_said = outcome.stdout.contains("than the one asked for: 1,");
        assert_eq!(is_said, args[1] == "mxfp4", "{}", outcome.stdout);
        let text = std::fs::read_to_string(&*json).expect("written");
        assert!(!text.contains("null"), "{text}");
    }
}

#[test]
fn names_cannot_speak_to_the_terminal() {
    let folder = Folder::new();
    let name = "\u{1b}[2Jl.weight";
    let file = tensors(&folder, "w.safetensors", &[(name, matrix(numbers(0)))]);
    let said = quantize(&file, &[]).stdout;
    assert!(
        !said.contains('\u{1b}') && said.contains("\\u{1b}[2Jl.weight"),
        "{said}"
    );
}

#[test]
fn options_that_would_do_nothing_are_wrong_usage() {
    let folder = Folder::new();
    let file = tensors(
        &folder,
        "w.safetensors",
        &[("l.weight", matrix(numbers(0)))],
    );
    for (args, word) in [
        (["--bits", "3"].as_slice(), "--format auto"),
        (&["--bits", "3", "--format", "mxfp8"], "--format auto"),
        (&["--exclude", "nosuchthing"], "nosuchthing"),
        (&["--layout", "native"], "--output"),
    ] {
        let outcome = quantize(&file, args);
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stdout);
        assert!(
            outcome.stderr.contains(word),
            "{args:?}: {}",
            outcome.stderr
        );
    }
    for args in [
        ["--bits", "9", "--format", "auto"].as_slice(),
        &["--exclude", "l."],
        &["--layout", "native", "--output", "q"],
        &["--format", "int8"],
    ] {
        let outcome = quantize(&file, args);
        assert_eq!(outcome.code, Some(0), "{args:?}: {}", outcome.stderr);
    }
}
