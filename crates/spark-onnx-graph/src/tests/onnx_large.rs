//! Large constants stay in the file until their tensors are made: a model is the same, or is
//! refused for the same reason, whether it is read from a file or from memory.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use spark_onnx_graph::graph::{Graph, Value};
use spark_onnx_graph::{DType, ModelError, Tensor, file};
use spark_onnx_proto::Packed;
use spark_onnx_proto::{GraphProto, StringStringEntryProto, TensorProto};

use crate::file::tensors::write_tensor;
use crate::samples::DamagedFiles;
use crate::samples::messages::{constant, graph, model, node, text};

/// A file of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let file = format!("spark-large-{name}-{}.onnx", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    fn load(&self, bytes: &[u8]) -> Result<Graph, ModelError> {
        std::fs::write(&self.0, bytes).expect("a writable folder");
        file::load(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that stays behind harms nothing.
        let _ = std::fs::remove_file(&self.0);
    }
}

const TYPES: [(&str, DType); 8] = [
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("f16", DType::F16),
    ("bf16", DType::BF16),
    ("i8", DType::I8),
    ("u8", DType::U8),
    ("i64", DType::I64),
    ("bool", DType::Bool),
];

fn values(dtype: DType, len: usize) -> Tensor {
    let values = (0..len).map(|i| (i % 201) as f64 - 100.0).collect();
    Tensor::from_f64(dtype, [len], values).expect("a list")
}

/// Constants from a byte to several pieces long, small ones between them, numbers in lists too.
fn sample() -> Vec<u8> {
    let mut tensors = Vec::new();
    for (name, dtype) in TYPES {
        tensors.push((name, values(dtype, 12_000)));
    }
    tensors.push(("pieces", values(DType::F32, 60_001)));
    tensors.push(("one", values(DType::F32, 1)));
    tensors.push(("edge", values(DType::U8, 4096)));
    tensors.push(("over", values(DType::U8, 4097)));
    let mut initializer: Vec<TensorProto<'_>> = tensors
        .iter()
        .map(|(name, tensor)| constant(name, tensor))
        .collect();
    initializer.push(TensorProto {
        dims: vec![3000],
        data_type: Some(1),
        float_data: Packed(vec![0.5; 3000]),
        name: text("list"),
        ..TensorProto::default()
    });
    let nodes = vec![
        node("Relu", &["x"], &["a"], vec![]),
        node("Add", &["a", "one"], &["y"], vec![]),
    ];
    let graph = GraphProto {
        initializer,
        ..graph(&[1, 2], nodes)
    };
    model(13, graph).encode()
}

/// Everything of a graph, its constants bit by bit.
#[track_caller]
fn check_same(from_file: Result<Graph, ModelError>, from_memory: Result<Graph, ModelError>) {
    let (file, memory) = match (from_file, from_memory) {
        (Ok(file), Ok(memory)) => (file, memory),
        (Err(file), Err(memory)) => {
            assert_eq!(file.to_string(), memory.to_string());
            return;
        }
        (file, memory) => panic!("from the file {:?}, else {:?}", file.err(), memory.err()),
    };
    assert_eq!(format!("{:?}", file.nodes), format!("{:?}", memory.nodes));
    assert_eq!(file.inputs, memory.inputs);
    assert_eq!(file.outputs, memory.outputs);
    assert_eq!(file.metadata, memory.metadata);
    assert_eq!(file.values.len(), memory.values.len());
    for (a, b) in file.values.iter().zip(&memory.values) {
        assert_eq!((&a.name, a.dtype, &a.shape), (&b.name, b.dtype, &b.shape));
        // As bytes, in which NaN equals itself.
        let raw = |value: &Value| {
            let tensor = value.constant.as_deref();
            tensor.map(|t| write_tensor("", t).raw_data.map(Cow::into_owned))
        };
        assert!(raw(a) == raw(b), "constant `{}`", a.name);
    }
}

#[test]
fn a_file_gives_the_graph_of_its_bytes() {
    let (scratch, bytes) = (Scratch::new("sound"), sample());
    let graph = scratch.load(&bytes).expect("loads");
    let found = |name: &str| graph.values.iter().find(|v| v.name == name);
    for (name, dtype) in TYPES {
        let constant = found(name).and_then(|v| v.constant.as_deref());
        assert_eq!(constant, Some(&values(dtype, 12_000)), "{name}");
    }
    check_same(Ok(graph), file::parse(&bytes, None));
}

#[test]
fn a_graph_in_two_parts_is_one_graph() {
    let bytes = sample();
    let mut twice = bytes.clone();
    let nodes = vec![node("Relu", &["y"], &["z"], vec![])];
    let more = values(DType::F32, 5000);
    let second = GraphProto {
        node: nodes,
        initializer: vec![constant("more", &more)],
        ..GraphProto::default()
    };
    twice.extend(model(13, second).encode());
    let from_file = Scratch::new("twice").load(&twice);
    assert!(from_file.as_ref().is_ok_and(|g| g.nodes.len() == 3));
    check_same(from_file, file::parse(&twice, None));
}

#[test]
fn damaged_files_fare_as_their_bytes_do() {
    let scratch = Scratch::new("damaged");
    let (large, all) = (DamagedFiles::of(sample()), super::damaged_files());
    for number in 0..600 {
        let seeds = if number % 3 == 0 { &all } else { &large };
        let bytes = seeds.mutant(number);
        // Shown if the next line fails.
        eprintln!("mutant {number}");
        check_same(scratch.load(&bytes), file::parse(&bytes, None));
    }
}

#[test]
fn a_file_that_ends_anywhere_is_refused_as_its_bytes_are() {
    let (scratch, bytes) = (Scratch::new("cut"), sample());
    let step = bytes.len() / 150;
    let whole = |n: usize| check_same(scratch.load(&bytes[..n]), file::parse(&bytes[..n], None));
    (0..bytes.len()).step_by(step).for_each(whole);
    (bytes.len() - 100..bytes.len()).for_each(whole);
}

#[test]
fn large_elements_beside_the_model_are_read() {
    let folder = std::env::temp_dir().join(format!("spark-beside-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let want = values(DType::F32, 50_000);
    let raw = write_tensor("", &want).raw_data.expect("elements");
    std::fs::write(folder.join("weights"), [&[7; 12], &raw[..]].concat()).expect("writes");
    let entry = |key, value| StringStringEntryProto {
        key: text(key),
        value: text(value),
    };
    let outside = TensorProto {
        dims: vec![50_000],
        data_type: Some(1),
        name: text("w"),
        external_data: vec![entry("location", "weights"), entry("offset", "12")],
        data_location: Some(1),
        ..TensorProto::default()
    };
    let nodes = vec![node("Relu", &["x"], &["y"], vec![])];
    let graph = GraphProto {
        initializer: vec![outside],
        ..graph(&[1, 2], nodes)
    };
    let path = folder.join("net.onnx");
    std::fs::write(&path, model(13, graph).encode()).expect("writes");
    let loaded = file::load(&path).expect("loads");
    let constant = loaded.values.iter().find_map(|v| v.constant.as_deref());
    assert_eq!(constant, Some(&want));
    // A folder that stays behind harms nothing.
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_hint_gets_the_memory_of_constants_before_it_is_read() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    fn hint(memory: &[u8]) {
        assert!(memory.iter().all(|byte| *byte == 0), "not read yet");
        SEEN.fetch_add(memory.len(), Ordering::Relaxed);
    }
    let (scratch, bytes) = (Scratch::new("hinted"), sample());
    std::fs::write(&scratch.0, &bytes).expect("a writable folder");
    let check = |hinted| {
        let seen = SEEN.swap(0, Ordering::Relaxed);
        assert!(seen > 4 * 60_001, "{seen} bytes");
        check_same(hinted, file::parse(&bytes, None));
    };
    let options = file::ReadOptions::new().with_hint(hint);
    check(file::load_with(&scratch.0, &options));
    check(file::parse_with(&bytes, None, &options));
}
