//! `finetune`: a driving model in miniature, taught head by head, stopped, gone on with, judged and merged.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor, safetensors};
use serde_json::Value;
use sparkpilot::onnx::graph::{Dim, Flatten, Gemm, GlobalPool, Graph, MatMul, Op, PoolKind, Unary};
use sparkpilot::onnx::{DType, file};

use super::{Folder, Outcome, Program};

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    spark_testing::numbers(n, seed)
}

/// Two layers between `desire` and an output of 32 numbers, with a table; and 12 frames.
pub(super) fn made(folder: &Folder) -> [PathBuf; 2] {
    let mut graph = Graph::default();
    let x = graph.add_input("desire", DType::F32, vec![Dim::Known(1), Dim::Known(32)]);
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    });
    let weight = |seed| {
        let tensor = sparkpilot::onnx::Tensor::from_f32([32, 32], numbers(1024, seed));
        tensor.expect("fits")
    };
    let first = graph.add_constant("first.weight", weight(1));
    let second = graph.add_constant("second.weight", weight(2));
    let y = graph.add_node("first", gemm, &[Some(x), Some(first)]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
    let y = graph.add_node("outputs", Op::MatMul(MatMul), &[Some(y), Some(second)]);
    graph.values[y.0].shape = Some(vec![Dim::Known(1), Dim::Known(32)]);
    graph.outputs.push(y);
    let parts = [
        ("pose", 12),
        ("desire_state", 8),
        ("lead_prob", 3),
        ("hidden_state", 9),
    ];
    let mut start = 0;
    let table = parts.map(|(name, len)| {
        start += len;
        sparkpilot::openpilot::slices::OutputSlice {
            name,
            start: start - len,
            end: start,
        }
    });
    let key = sparkpilot::openpilot::metadata::OUTPUT_SLICES_KEY.to_owned();
    let table = sparkpilot::openpilot::metadata::encode(&table);
    graph.metadata.insert(key, table);
    let model = folder.write("model.onnx", file::to_bytes(&graph).expect("is written"));
    let frames: HashMap<String, Tensor> = (0..12)
        .map(|at| {
            let tensor = Tensor::from_vec(numbers(32, 10 + at), (1, 32), &Device::Cpu);
            (format!("case{at}/in/desire"), tensor.expect("fits"))
        })
        .collect();
    let data = folder.path("frames.safetensors");
    safetensors::save(&frames, &data).expect("a writable folder");
    [model, data]
}

fn train(paths: &[PathBuf; 2], run: &Path, more: &[&str]) -> Outcome {
    let mut program = Program::new("finetune").args(["train", "--qat", "fp4", "--batch-size", "3"]);
    program = program.args(["--model".as_ref(), paths[0].as_os_str()]);
    program = program.args(["--data".as_ref(), paths[1].as_os_str()]);
    program
        .args(["--output".as_ref(), run.as_os_str()])
        .args(more)
        .run()
}

#[test]
fn heads_are_taught_judged_and_merged() {
    let folder = Folder::new();
    let paths = made(&folder);
    let (run, json) = (folder.path("run"), folder.path("result.json"));
    let json_text = json.display().to_string();
    let options = [
        "--heads",
        "driving",
        "--head-weight",
        "pose=2,lead_prob=0",
        "--epochs",
        "40",
    ];
    let options = [&options[..], &["--json", &json_text]].concat();
    let outcome = train(&paths, &run, &options);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let taught = "taught: pose (distributions x 2), desire_state (classes), hidden_state (squares)";
    assert!(outcome.stdout.contains(taught), "{}", outcome.stdout);
    let result: Value =
        serde_json::from_slice(&fs::read(&json).expect("is written")).expect("is JSON");
    #[cfg(feature = "cli")]
    super::schema::check(&result);
    let of = |part: &Value, name: &str| part[name].as_f64().expect("a number");
    let heads = result["heads"].as_array().expect("a list");
    let names: Vec<_> = heads.iter().map(|head| head["head"].as_str()).collect();
    // What weighs nothing is judged all the same.
    let want = ["pose", "desire_state", "lead_prob", "hidden_state"];
    assert_eq!(names, want.map(Some));
    let loss = &result["loss"];
    assert!(of(loss, "trained") < 0.9 * of(loss, "untouched"), "{loss}");
    let sum: f64 = [2.0, 1.0, 0.0, 1.0]
        .iter()
        .zip(heads)
        .map(|(weight, head)| weight * of(&head["loss"], "trained"))
        .sum();
    let got = of(loss, "trained");
    assert!((sum - got).abs() < 1e-6 + 1e-4 * got, "{sum} and {got}");

    let merged = folder.path("merged.onnx");
    let outcome = Program::new("finetune")
        .args(["merge".as_ref(), "--model".as_ref(), paths[0].as_os_str()])
        .args(["--adapter".as_ref(), run.join("adapter").as_os_str()])
        .args(["--merged".as_ref(), merged.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let [base, tuned] = [&paths[0], &merged].map(|path| file::load(path).expect("loads"));
    assert_eq!(base.nodes.len(), tuned.nodes.len());
}

/// The losses of a run's steps.
fn step_losses(run: &Path) -> Vec<f64> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("was written");
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("is JSON"));
    let steps = events.filter(|event| event["event"] == "step");
    steps
        .map(|step| step["loss"].as_f64().expect("is a number"))
        .collect()
}

#[test]
fn a_step_in_parts_has_the_same_frames_and_its_parts_are_of_one_size() {
    let folder = Folder::new();
    let paths = made(&folder);
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path(name));
    let outcome = train(&paths, &whole, &["--epochs", "2"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let three = ["--epochs", "2", "--virtual-shards", "3"];
    let outcome = train(&paths, &parts, &three);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (whole, of_parts) = (step_losses(&whole), step_losses(&parts));
    assert_eq!(whole.len(), of_parts.len());
    for (one, other) in whole.iter().zip(&of_parts) {
        assert!((one - other).abs() <= 1e-4 * one.abs(), "{one} {other}");
    }
    // Which a run that is gone on with knows.
    let outcome = Program::new("finetune")
        .args(["resume".as_ref(), "--output".as_ref(), parts.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let outcome = train(&paths, &folder.path("two"), &["--virtual-shards", "2"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let said = "the 3 frames of a step (--batch-size) do not make 2 parts of one size";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}

#[test]
fn heads_and_weights_that_do_not_fit_are_wrong_usage() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    for (options, said) in [
        (
            &["--heads", "driving", "--head-weight", "plan=2"][..],
            "there is no head `plan`; there are pose, desire_state",
        ),
        (
            &["--head-weight", "pose=2"],
            "there is no head `pose`; there are outputs",
        ),
        (&["--head-weight", "outputs=0"], "every head weighs 0"),
        (
            &["--head-weight", "outputs=2,outputs=3"],
            "`outputs` has two weights",
        ),
        (&["--head-weight", "=2"], "expected HEAD=WEIGHT"),
        (
            &["--head-weight", "outputs=-1"],
            "expected a number from 0 to 1000000",
        ),
        (
            &["--head-weight", "outputs=nan"],
            "expected a number from 0 to 1000000",
        ),
    ] {
        let outcome = train(&paths, &run, options);
        assert_eq!(outcome.code, Some(2), "{options:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(said),
            "{options:?}: {}",
            outcome.stderr
        );
        assert!(!run.exists(), "{options:?}");
    }
    let mut other = file::load(&paths[0]).expect("loads");
    other.metadata.clear();
    let other = folder.write("other.onnx", file::to_bytes(&other).expect("is written"));
    let outcome = train(&[other, paths[1].clone()], &run, &["--heads", "driving"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("has no table of heads"),
        "{}",
        outcome.stderr
    );
}

/// Two layers behind the mean of a driver monitoring network's picture; weights by a seed.
pub(super) fn of_pictures(folder: &Folder, name: &str, seed: u64) -> PathBuf {
    let mut graph = Graph::default();
    let shape = [1, 6, 320, 160].map(Dim::Known).to_vec();
    let x = graph.add_input("input_img", DType::F32, shape);
    let pool = GlobalPool {
        kind: PoolKind::Average,
    };
    let x = graph.add_node("mean", Op::GlobalPool(pool), &[Some(x)]);
    let x = graph.add_node("flat", Op::Flatten(Flatten { axis: 1 }), &[Some(x)]);
    let mut layer = |x, name: &str, shape: [usize; 2], seed| {
        let values = numbers(shape[0] * shape[1], seed);
        let weight = sparkpilot::onnx::Tensor::from_f32(shape, values).expect("fits");
        let weight = graph.add_constant(format!("{name}.weight"), weight);
        graph.add_node(name, Op::MatMul(MatMul), &[Some(x), Some(weight)])
    };
    let h = layer(x, "first", [6, 16], seed);
    let y = layer(h, "outputs", [16, 4], seed + 1);
    graph.outputs.push(y);
    folder.write(name, file::to_bytes(&graph).expect("is written"))
}

#[test]
fn a_folder_of_drives_is_trained_on_and_gone_on_with() {
    let Some(drives) = spark_testing::test_videos("data/drive") else {
        return;
    };
    let folder = Folder::new();
    let model = of_pictures(&folder, "model.onnx", 1);
    let teacher = of_pictures(&folder, "teacher.onnx", 5);
    let (run, cache) = (folder.path("run"), folder.path("cache"));
    let program = |words: &[&str]| {
        let cache = cache.display().to_string();
        let program = Program::new("finetune").env("SPARK_CACHE_DIR", &cache);
        program
            .args(words)
            .args(["--output".as_ref(), run.as_os_str()])
    };
    let begun = |more: &[&str]| {
        let program = program(&["train", "--batch-size", "3", "--dora-rank", "1"]);
        let program = program.args(["--model".as_ref(), model.as_os_str()]);
        let program = program.args(["--teacher".as_ref(), teacher.as_os_str()]);
        program
            .args(["--data".as_ref(), drives.as_os_str()])
            .args(more)
            .run()
    };
    // No driver's camera is among them.
    let outcome = begun(&["--camera", "driver"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--camera"), "{}", outcome.stderr);
    assert!(!run.exists());

    let outcome = begun(&["--every", "100", "--epochs", "3"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // One of twelve frames has no speed, as the log begins later than the video; a quarter of eleven is held back.
    assert!(
        outcome.stderr.contains("left out: 1 frames without speed"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("on the frames held back, 3"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("6 steps in"), "{}", outcome.stdout);
    assert!(cache.join("pictures").is_dir(), "pictures are kept");
    let outcome = program(&["resume"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("all 6 steps had been made"),
        "{}",
        outcome.stdout
    );
    let outcome = program(&["eval"]).run();
    assert!(
        outcome.stdout.contains("on the frames held back, 3"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn other_frames_than_the_run_was_begun_with_are_not_judged() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let outcome = train(&paths, &run, &["--max-steps", "1"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let eval = || {
        let program = Program::new("finetune").args(["eval"]);
        program.args(["--output".as_ref(), run.as_os_str()]).run()
    };
    assert_eq!(eval().code, Some(0));
    // The same number of frames, one of them another one.
    let device = Device::Cpu;
    let mut frames = safetensors::load(&paths[1], &device).expect("was written");
    let other = Tensor::from_vec(numbers(32, 99), (1, 32), &device).expect("fits");
    frames.insert("case11/in/desire".to_owned(), other);
    safetensors::save(&frames, &paths[1]).expect("a writable folder");
    let outcome = eval();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    let said = "are not those that the run was begun with";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
}

#[test]
fn what_is_of_drives_is_no_option_of_a_file() {
    let folder = Folder::new();
    let paths = made(&folder);
    for options in [["--every", "2"], ["--camera", "road"]] {
        let outcome = train(&paths, &folder.path("run"), &options);
        assert_eq!(outcome.code, Some(2), "{options:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("--data is none"),
            "{}",
            outcome.stderr
        );
    }
}

/// A broken and a short video are left out by name; the drive beside them is trained on.
#[test]
fn videos_that_give_no_pictures_are_left_out_by_name() {
    let minute = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0";
    let Some(minute) = spark_testing::test_videos(minute) else {
        return;
    };
    let folder = Folder::new();
    let model = of_pictures(&folder, "model.onnx", 1);
    let teacher = of_pictures(&folder, "teacher.onnx", 5);
    let video = std::fs::read(minute.join("qcamera.ts")).expect("is there");
    let log = std::fs::read(minute.join("qlog.bz2")).expect("is there");
    let segment = |number: usize, video: &[u8]| {
        let name = format!("a2a0ccea32023010_2023-07-27--13-01-19--{number}");
        let segment = folder.path("drives").join(name);
        std::fs::create_dir_all(&segment).expect("a writable folder");
        std::fs::write(segment.join("qlog.bz2"), &log).expect("a writable folder");
        std::fs::write(segment.join("qcamera.ts"), video).expect("a writable folder");
        segment
    };
    let broken = segment(1, b"no video");
    // Whole packets of 188 bytes, so that nothing but the end is missing.
    let short = segment(2, &video[..video.len() / 376 * 188]);
    let train = |run: &str| {
        let cache = folder.path("cache").display().to_string();
        let options = ["train", "--batch-size", "3", "--dora-rank", "1"];
        let more = ["--every", "100", "--epochs", "1"];
        Program::new("finetune")
            .env("SPARK_CACHE_DIR", &cache)
            .args(options)
            .args(more)
            .args(["--model".as_ref(), model.as_os_str()])
            .args(["--teacher".as_ref(), teacher.as_os_str()])
            .args(["--data".as_ref(), folder.path("drives").as_os_str()])
            .args(["--output".as_ref(), folder.path(run).as_os_str()])
            .run()
    };
    let outcome = train("none");
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let said = "no frame below";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(!folder.path("none").exists());

    segment(0, &video);
    let outcome = train("run");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for segment in [broken, short] {
        let video = segment.join("qcamera.ts").display().to_string();
        let said = [format!("{video}: "), format!("frames of `{video}`")];
        for said in said {
            assert!(outcome.stderr.contains(&said), "{said}: {}", outcome.stderr);
        }
    }
    let said = "on the frames held back, 3";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);

    // The run goes on without a video that is whole again, and not without one that is broken now.
    let eval = || {
        let cache = folder.path("cache").display().to_string();
        let program = Program::new("finetune").env("SPARK_CACHE_DIR", &cache);
        let program = program.args(["eval"]);
        program
            .args(["--output".as_ref(), folder.path("run").as_os_str()])
            .run()
    };
    segment(1, &video);
    let outcome = eval();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let said = "left out, as when the run was begun";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    segment(0, b"no video");
    let outcome = eval();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let said = "is neither an MPEG transport stream nor raw HEVC";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}

/// The machine's fault is no video's: nothing is left out for it.
#[test]
fn a_decoder_that_is_missing_ends_the_reading() {
    let Some(drives) = spark_testing::test_videos("data/drive") else {
        return;
    };
    let folder = Folder::new();
    let model = of_pictures(&folder, "model.onnx", 1);
    let outcome = Program::new("finetune")
        .env(
            "SPARK_CACHE_DIR",
            folder.path("cache").display().to_string(),
        )
        .env("PATH", folder.path("nothing").display().to_string())
        .args([
            "train",
            "--qat",
            "fp8",
            "--batch-size",
            "3",
            "--dora-rank",
            "1",
        ])
        .args(["--every", "100"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--data".as_ref(), drives.as_os_str()])
        .args(["--output".as_ref(), folder.path("run").as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ffmpeg"), "{}", outcome.stderr);
    assert!(
        !outcome.stderr.contains("left out: 11"),
        "{}",
        outcome.stderr
    );
    assert!(!folder.path("run").exists());
}

/// The program has the same command, with its own exit codes.
#[test]
fn the_program_trains_judges_and_merges_too() {
    let program = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_sparkpilot");
        Program::at(Path::new(program))
            .args(["finetune"])
            .args(words)
    };
    let folder = Folder::new();
    let [model, frames] = made(&folder);
    let run = folder.path("run");
    let begun = program(&[
        "train",
        "--batch-size",
        "3",
        "--dora-rank",
        "2",
        "--qat",
        "fp8",
    ])
    .args(["--epochs", "2", "--heads", "driving"])
    .args(["--model".as_ref(), model.as_os_str()])
    .args(["--data".as_ref(), frames.as_os_str()])
    .args(["--output".as_ref(), run.as_os_str()])
    .run();
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    let merged = folder.path("merged.onnx");
    let outcome = program(&["merge"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--adapter".as_ref(), run.join("adapter").as_os_str()])
        .args(["--merged".as_ref(), merged.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(merged.exists());
    let eval = |folder: &Path| {
        let program = program(&["eval"]);
        program
            .args(["--output".as_ref(), folder.as_os_str()])
            .run()
    };
    let outcome = eval(&run);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("on the frames held back"),
        "{}",
        outcome.stdout
    );
    assert_eq!(eval(&folder.path("none")).code, Some(2));
    // Nothing of it runs on a GPU, whichever command.
    for device in ["cuda", "cuda:7"] {
        let outcome = program(&["merge", "--model", "m", "--adapter", "a", "--merged", "o"])
            .env("SPARK_DEVICE", device)
            .run();
        assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
        let said = "works on the CPU only";
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    std::fs::write(run.join("run.json"), "{}").expect("a writable folder");
    let outcome = eval(&run);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("run.json"), "{}", outcome.stderr);
}

/// What was recorded and what was learnt is not written over, by a result or by another run.
#[test]
fn results_and_runs_keep_off_what_is_there() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let outcome = train(&paths, &run, &["--max-steps", "1", "--val-split", "0.01"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let said = "0.01 of 12 frames holds back none";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    let json = folder.path("result.json").display().to_string();
    let options = [
        "--max-steps",
        "1",
        "--val-split",
        "0.01",
        "--json",
        json.as_str(),
    ];
    let outcome = train(&paths, &folder.path("other"), &options);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);

    // A name that runs give, on a file that none has written.
    for name in ["calibrated.onnx", "metrics.jsonl"] {
        let own = folder.path(&format!("folder of {name}"));
        std::fs::create_dir(&own).expect("a writable folder");
        let theirs = own.join(name);
        std::fs::write(&theirs, "kept").expect("a writable folder");
        let outcome = train(&paths, &own, &options[..2]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        let said = format!("{name}` is of no run");
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        assert_eq!(std::fs::read(&theirs).expect("is there"), b"kept");
    }

    let checkpoints = run.join("checkpoints");
    let of_step = std::fs::read_dir(&checkpoints).expect("is there").flatten();
    let of_step = of_step.map(|entry| entry.path()).find(|path| path.is_dir());
    let state = of_step.expect("a checkpoint").join("trainer.json");
    let before = std::fs::read(&state).expect("is there");
    let eval = |json: &Path| {
        let program = Program::new("finetune").args(["eval"]);
        let program = program.args(["--output".as_ref(), run.as_os_str()]);
        program.args(["--json".as_ref(), json.as_os_str()]).run()
    };
    let outcome = eval(&state);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert_eq!(std::fs::read(&state).expect("is there"), before);

    let drives = folder.path("drives");
    std::fs::create_dir_all(drives.join("segment")).expect("a writable folder");
    let log = drives.join("segment/qlog.bz2");
    std::fs::write(&log, "a log").expect("a writable folder");
    let outcome = Program::new("finetune")
        .args(["train", "--qat", "fp8", "--json"])
        .args([log.as_os_str(), "--data".as_ref(), drives.as_os_str()])
        .args(["--model".as_ref(), paths[0].as_os_str()])
        .args(["--output".as_ref(), folder.path("third").as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert_eq!(std::fs::read(&log).expect("is there"), b"a log");
}

/// A run that was stopped before its first checkpoint is gone on with from its beginning.
#[test]
fn a_run_without_a_checkpoint_begins_again() {
    let folder = Folder::new();
    let paths = made(&folder);
    let [whole, stopped] = [folder.path("whole"), folder.path("stopped")];
    let outcome = train(&paths, &whole, &["--max-steps", "2"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let outcome = train(&paths, &stopped, &["--max-steps", "2", "--create-adapter"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let program = Program::new("finetune").args(["resume"]);
    let outcome = program
        .args(["--output".as_ref(), stopped.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("goes on after step 0"),
        "{}",
        outcome.stdout
    );
    let adapter = |run: &Path| {
        let file = run.join("adapter/adapter_model.safetensors");
        let tensors = safetensors::load(file, &Device::Cpu).expect("is there");
        let values = tensors.into_iter().map(|(name, tensor)| {
            let values = tensor.flatten_all().and_then(|t| t.to_vec1::<f32>());
            (name, values.expect("is in f32"))
        });
        values.collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(adapter(&whole), adapter(&stopped));
}
