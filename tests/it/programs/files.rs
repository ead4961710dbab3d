//! Files that programs write are whole or not there, also after Ctrl-C.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sparkpilot::bench::write_tensors;
use sparkpilot::onnx::graph::{Dim, Gemm, Graph, Op};
use sparkpilot::onnx::{DType, Tensor, file};

use super::{Folder, Program};

/// A network of one layer, as a file.
pub(super) fn small_model(folder: &Folder) -> PathBuf {
    model_of(folder, "small.onnx", Dim::Known(1))
}

/// The same for any number of samples.
#[cfg(feature = "cli")]
pub(super) fn open_model(folder: &Folder) -> PathBuf {
    model_of(folder, "open.onnx", Dim::Symbol("batch".to_owned()))
}

fn model_of(folder: &Folder, name: &str, batch: Dim) -> PathBuf {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![batch, Dim::Known(64)]);
    let values = (0..4096).map(|i| (i % 97) as f32 / 97.0 - 0.5).collect();
    let weights = Tensor::from_f32([64, 64], values).expect("fills its shape");
    let w = graph.add_constant("layer", weights);
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    });
    let y = graph.add_node("y", gemm, &[Some(x), Some(w)]);
    graph.outputs.push(y);
    let path = folder.path(name);
    file::save(&graph, &path).expect("a writable folder");
    path
}

#[test]
fn reports_are_written_beside_the_table_and_nothing_else_is() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    let args = [
        "--model",
        &*model,
        "--runs",
        "2",
        "--warmup",
        "0",
        "--threads",
        "1",
    ];
    let reports = [
        "--json",
        "a.json",
        "--dump-outputs",
        "a.safetensors",
        "--trace",
        "t.json",
    ];
    let outcome = Program::new("bench_supercombo")
        .args(args)
        .args(reports)
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.files, ["a.json", "a.safetensors", "t.json"]);
    assert!(outcome.stdout.contains("small"), "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "");

    let reports = ["--output", "out", "--json", "q.json", "--plot", "q.svg"];
    let outcome = Program::new("quantize_weights")
        .args([&*model])
        .args(reports)
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.files, ["out", "q.json", "q.svg"]);
}

#[test]
fn ctrl_c_while_a_file_is_written_leaves_whole_files_only() {
    let folder = Folder::new();
    let zoo = folder.path("zoo");
    let running = Program::new("bench_supercombo")
        .args(["--write-zoo".as_ref(), zoo.as_os_str()])
        .start();
    // The first temporary name: the file is being written.
    let begin = Instant::now();
    let is_writing = || {
        let entries = std::fs::read_dir(&zoo).into_iter().flatten().flatten();
        entries.count() > 0
    };
    while !is_writing() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    running.interrupt();
    let outcome = running.end();
    assert_eq!(
        outcome.signal,
        Some(2),
        "{:?}: {}",
        outcome.code,
        outcome.stderr
    );
    // Nothing, or on a slow machine that it waits.
    assert!(!outcome.stderr.contains("error"), "{}", outcome.stderr);
    let mut n_files = 0;
    for entry in std::fs::read_dir(&zoo).expect("the folder was made") {
        let path = entry.expect("an entry").path();
        assert!(
            path.extension().is_some_and(|ending| ending == "onnx"),
            "{path:?}"
        );
        file::load(&path).expect("a whole model");
        n_files += 1;
    }
    // The one that was being written, and not all of them.
    assert!((1..4).contains(&n_files), "{n_files} files");
}

#[test]
fn who_ends_a_program_that_is_held_up_while_it_writes_is_told_what_it_waits_for() {
    let folder = Folder::new();
    // So many that what is written about them is more than a pipe holds.
    let weights = (0..400).map(|i| {
        let values = (0..64).map(|k| (k * 7 + i) as f32 / 64.0).collect();
        let tensor = Tensor::from_f32([4, 16], values).expect("fills its shape");
        (format!("l{i}.weight"), tensor)
    });
    let model = folder.path("model.safetensors");
    write_tensors(&model, &weights.collect()).expect("a writable folder");
    let pipe = folder.pipe("pipe");
    let running = Program::new("quantize_weights")
        .args([model.as_os_str(), "--json".as_ref(), pipe.as_os_str()])
        .start();
    // Opened, which waits for the writer, and never read.
    let _reader = std::fs::File::open(&pipe).expect("a pipe");
    running.interrupt();
    let begin = Instant::now();
    while !running.text("stderr").contains("a second signal ends it") {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is said");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.interrupt();
    assert_eq!(running.end().signal, Some(2));
}

#[test]
fn ctrl_c_while_nothing_is_written_ends_a_program_at_once() {
    let running = Program::new("marl_random").args(["1000000000"]).start();
    std::thread::sleep(Duration::from_millis(300));
    running.interrupt();
    let begin = Instant::now();
    let outcome = running.end();
    assert_eq!(
        outcome.signal,
        Some(2),
        "{:?}: {}",
        outcome.code,
        outcome.stderr
    );
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(outcome.stdout, "");
}

#[test]
fn outputs_follow_links_and_leave_devices_and_pipes_what_they_are() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let folder = Folder::new();
    let model = small_model(&folder);
    let (link, null) = (folder.path("link.json"), folder.path("null"));
    let file = folder.path("file.json");
    std::fs::write(&file, "old").expect("a writable folder");
    symlink(&file, &link).expect("a link");
    symlink("/dev/null", &null).expect("a link");
    let outcome = quick_bench(&model)
        .args(["--json".as_ref(), link.as_os_str()])
        .args(["--dump-outputs".as_ref(), null.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let is_link = |path| std::fs::symlink_metadata(path).expect("there").is_symlink();
    assert!(is_link(&link) && is_link(&null));
    let text = std::fs::read_to_string(&file).expect("written");
    assert!(text.contains("spark-bench/1"), "{text}");
    let null = std::fs::metadata("/dev/null").expect("there").file_type();
    assert!(null.is_char_device());
}

#[test]
fn an_output_that_is_an_input_or_another_output_is_wrong_usage() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let before = std::fs::read(&model).expect("there");
    let over_the_model = quick_bench(&model)
        .args(["--json".as_ref(), model.as_os_str()])
        .run();
    let twice = quick_bench(&model)
        .args(["--json", "a", "--trace", "./a"])
        .run();
    let weights = folder.path("model.safetensors");
    std::fs::write(&weights, "any file").expect("a writable folder");
    let over_the_weights = Program::new("quantize_weights")
        .args([
            weights.as_os_str(),
            "--output".as_ref(),
            weights.parent().expect("a folder").as_os_str(),
        ])
        .run();
    for outcome in [over_the_model, twice, over_the_weights] {
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("is to be written and is"),
            "{}",
            outcome.stderr
        );
        assert!(outcome.files.is_empty(), "{:?}", outcome.files);
    }
    assert_eq!(std::fs::read(&model).expect("there"), before);
    assert_eq!(std::fs::read(&weights).expect("there"), b"any file");
}

/// One run of the model; outputs are added.
fn quick_bench(model: &std::path::Path) -> Program {
    Program::new("bench_supercombo")
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--runs", "1", "--warmup", "0", "--threads", "1"])
}
