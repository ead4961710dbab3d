//! `sparkpilot finetune` where something is amiss: places that cannot be written to, damaged data, paths that are gone, Ctrl-C; and what
//! it tells on the way.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor as Candle, safetensors};
use serde_json::Value;
use sparkpilot::data::log::Compression;
use sparkpilot::onnx::graph::{Dim, Graph, MatMul, Op};
use sparkpilot::onnx::{DType, Tensor, file};

use super::tuning::{made, of_pictures};
use super::{Folder, Outcome, Program, Running};

fn finetune(words: &[&str]) -> Program {
    let program = Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")));
    program.args(["finetune"]).args(words)
}

/// A run on the frames of a file.
fn on_frames([model, data]: &[PathBuf; 2], run: &Path) -> Program {
    finetune(&["train", "--qat", "fp4", "--batch-size", "3"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--data".as_ref(), data.as_os_str()])
        .args(["--output".as_ref(), run.as_os_str()])
}

fn on_run(what: &str, run: &Path) -> Program {
    finetune(&[what]).args(["--output".as_ref(), run.as_os_str()])
}

/// Segments of a recorded minute, of which each test damages some.
struct Drives {
    folder: Folder,
    log: Vec<u8>,
    video: Vec<u8>,
}

impl Drives {
    /// `None` without the recorded minute or without ffmpeg.
    fn new() -> Option<Self> {
        let minute = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0";
        let minute = spark_testing::test_videos(minute)?;
        let folder = Folder::new();
        of_pictures(&folder, "model.onnx", 1);
        of_pictures(&folder, "teacher.onnx", 5);
        Some(Self {
            folder,
            log: fs::read(minute.join("qlog.bz2")).expect("is there"),
            video: fs::read(minute.join("qcamera.ts")).expect("is there"),
        })
    }

    /// A segment of this log and the whole video; the log's path.
    fn segment(&self, number: usize, log: &[u8]) -> PathBuf {
        let name = format!("a2a0ccea32023010_2023-07-27--13-01-19--{number}");
        let segment = self.folder.path("drives").join(name);
        fs::create_dir_all(&segment).expect("a writable folder");
        fs::write(segment.join("qcamera.ts"), &self.video).expect("a writable folder");
        let path = segment.join("qlog.bz2");
        fs::write(&path, log).expect("a writable folder");
        path
    }

    fn train(&self, run: &str, batch: usize) -> Program {
        let path = |name: &str| self.folder.path(name).into_os_string();
        finetune(&["train", "--dora-rank", "1"])
            .args(["--every", "100", "--epochs", "1"])
            .args(["--batch-size", &batch.to_string()])
            .args(["--model".into(), path("model.onnx")])
            .args(["--teacher".into(), path("teacher.onnx")])
            .args(["--data".into(), path("drives")])
            .args(["--output".into(), path(run)])
            .env("SPARK_CACHE_DIR", path("cache"))
    }

    fn frames(&self, folder: &str) -> Program {
        let path = |name: &str| self.folder.path(name).into_os_string();
        finetune(&["frames", "--every", "100"])
            .args(["--model".into(), path("model.onnx")])
            .args(["--data".into(), path("drives")])
            .args(["--folder".into(), path(folder)])
            .env("SPARK_CACHE_DIR", path("cache"))
    }

    fn eval(&self, run: &str) -> Outcome {
        let program = on_run("eval", &self.folder.path(run));
        program
            .env("SPARK_CACHE_DIR", self.folder.path("cache"))
            .run()
    }

    /// A folder with an `ffmpeg` that does this first, as the only one on the path before the system's.
    fn with_decoder(&self, script: &str) -> std::ffi::OsString {
        let folder = self.folder.path("decoder");
        fs::create_dir_all(&folder).expect("a writable folder");
        let system = std::env::var("PATH").expect("a path");
        let script = format!("#!/bin/sh\n{script}\nPATH='{system}' exec ffmpeg \"$@\"\n");
        let program = folder.join("ffmpeg");
        fs::write(&program, script).expect("a writable folder");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its own file");
        format!("{}:{system}", folder.display()).into()
    }
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn assert_says(outcome: &Outcome, code: i32, said: &[&str]) {
    let (out, err) = (&outcome.stdout, &outcome.stderr);
    assert_eq!(outcome.code, Some(code), "{err}");
    for said in said {
        let is_said = out.contains(said) || err.contains(said);
        assert!(is_said, "{said}: {out}{err}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_frames_are_read() {
    let folder = Folder::new();
    let paths = made(&folder);
    let taken = folder.write("taken", "a file");
    let closed = folder.path("closed");
    fs::create_dir(&closed).expect("a writable folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("its own folder");
    let mut places = vec![
        taken.clone(),
        taken.join("run"),
        PathBuf::from("/sys/no-such/run"),
    ];
    match fs::write(closed.join("probe"), "") {
        Ok(()) => eprintln!("skipped: nothing is closed to this user"),
        Err(_) => places.push(closed.join("run")),
    }
    for place in places {
        let outcome = on_frames(&paths, &place).run();
        let said = format!("cannot write `{}`", place.display());
        assert_says(&outcome, 5, &[&said]);
        // What is trained is said when the frames are read.
        assert_eq!(outcome.stdout, "", "{}", place.display());
    }
    // A folder whose parents are not there is made.
    let run = folder.path("a/b/run");
    let outcome = on_frames(&paths, &run).args(["--max-steps", "1"]).run();
    assert_says(&outcome, 0, &["1 steps in"]);
    assert!(run.join("run.json").is_file());
}

#[test]
fn a_run_writes_over_nothing_that_it_reads() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let run = folder.path("run");
    fs::create_dir(&run).expect("a folder");
    for name in ["calibrated.onnx", "metrics.jsonl"] {
        let inside = run.join(name);
        fs::copy(&model, &inside).expect("is copied");
        let outcome = on_frames(&[inside.clone(), data.clone()], &run)
            .args(["--calibrate", "2"])
            .run();
        assert_says(&outcome, 2, &["is to be written and is", name]);
        let same = fs::read(&inside).expect("is there") == fs::read(&model).expect("is there");
        assert!(same, "{name}");
    }
    assert!(!run.join("run.json").exists());
    // Nor does a merged network take the place of something else.
    let words = ["merge", "--adapter", "run/adapter", "--model"];
    let outcome = finetune(&words)
        .args([&model])
        .args(["--merged", "run.json"])
        .run();
    assert_says(&outcome, 2, &["run.json", ".onnx"]);
}

#[test]
fn frames_that_are_cut_are_bad_input() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let whole = fs::read(&data).expect("was written");
    for n_bytes in [0, 5, 100, whole.len() - 1] {
        let cut = folder.write("cut.safetensors", &whole[..n_bytes]);
        let outcome = on_frames(&[model.clone(), cut], &folder.path("run")).run();
        assert_says(&outcome, 3, &["cut.safetensors"]);
    }
    assert!(!folder.path("run").exists());
}

/// Logs that cannot be read and empty ones are left out by name; the segments beside them are trained on.
#[test]
fn logs_that_say_nothing_are_left_out_by_name() {
    let Some(drives) = Drives::new() else {
        return;
    };
    let piped = drives.segment(1, b"");
    fs::remove_file(&piped).expect("was written");
    drives.folder.pipe("pipe");
    fs::rename(drives.folder.path("pipe"), &piped).expect("the same disk");
    let broken = [
        (piped, "it is not a regular file"),
        (
            drives.segment(2, b"no log, but text"),
            "after 0 events there is no message",
        ),
        (drives.segment(3, b""), "there is no event in it"),
        (drives.segment(4, &drives.log[..200]), "after 0 events"),
    ];
    let said: Vec<String> = broken
        .iter()
        .map(|(log, why)| format!("left out: `{}`: {why}", log.display()))
        .collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    // The first one is the error, and a pipe is the system's matter.
    let outcome = drives.train("none", 3).run();
    assert_says(&outcome, 5, &said);
    fs::remove_dir_all(broken[0].0.parent().expect("a segment")).expect("was made");
    let outcome = drives.train("none", 3).run();
    assert_says(&outcome, 3, &["error: no log below", "there is no message"]);
    assert!(!drives.folder.path("none").exists());

    let whole = drives.segment(0, &drives.log);
    let outcome = drives.train("run", 3).run();
    assert_says(&outcome, 0, &said[1..]);
    assert_says(&outcome, 0, &["on the frames held back, 3"]);
    let begun = fs::read(drives.folder.path("run/run.json")).expect("is written");
    let begun: Value = serde_json::from_slice(&begun).expect("is JSON");
    let want: Vec<_> = broken[1..].iter().map(|(log, _)| log.display()).collect();
    let want: Vec<_> = want.iter().map(ToString::to_string).collect();
    assert_eq!(begun["left_out"], serde_json::json!(want));

    // The run goes on without a log that is whole again, and not without one that is broken now.
    drives.segment(2, &drives.log);
    let said = format!("{}: left out, as when the run was begun", want[0]);
    assert_says(&drives.eval("run"), 0, &[&said, "held back, 3"]);
    drives.segment(0, b"");
    let said = format!("error: `{}`: there is no event in it", whole.display());
    assert_says(&drives.eval("run"), 3, &[&said]);
}

#[test]
fn too_few_frames_of_a_cut_log_are_bad_input_and_of_a_whole_one_wrong_usage() {
    let Some(drives) = Drives::new() else {
        return;
    };
    let mut log = Vec::new();
    let (_, mut unpacked) = Compression::reader(&drives.log[..]).expect("is compressed");
    unpacked.read_to_end(&mut log).expect("is whole");
    for (log, code, said) in [
        (&log[..], 2, "fewer than the 10 of a step (--batch-size)"),
        (
            &log[..log.len() / 2],
            3,
            "1 logs and videos cannot be read to their end",
        ),
    ] {
        drives.segment(0, log);
        let outcome = drives.train("run", 10).run();
        assert_says(&outcome, code, &[said]);
    }
}

#[test]
fn drives_of_broken_videos_alone_are_bad_input() {
    let Some(drives) = Drives::new() else {
        return;
    };
    let log = drives.segment(0, &drives.log);
    let video = log.with_file_name("qcamera.ts");
    fs::write(&video, "no video").expect("a writable folder");
    let outcome = drives.train("run", 3).run();
    let video = video.display().to_string();
    assert_says(&outcome, 3, &[&video, "has its pictures"]);
    // Nothing is broken where another camera was asked for.
    let outcome = drives.train("run", 3).args(["--camera", "road"]).run();
    assert_says(&outcome, 2, &["--camera"]);
}

/// What a decoder that fails by itself has not given is missing from nothing: it comes with the same command again.
#[test]
fn a_decoder_that_fails_by_itself_costs_no_frames() {
    let Some(drives) = Drives::new() else {
        return;
    };
    drives.segment(0, &drives.log);
    drives.segment(1, &drives.log);
    let failed = "the decoder itself failed";
    for (script, said) in [
        ("kill -9 $$", failed),
        ("exit 1", failed),
        ("echo no such library >&2; exit 127", "no such library"),
        ("echo rubbish; exit 0", "no YUV4MPEG2 stream"),
        ("exit 0", "without a picture and without a word"),
    ] {
        let path = drives.with_decoder(script);
        let outcome = drives.frames("chunks").env("PATH", &path).run();
        assert_says(&outcome, 3, &[said, "qcamera.ts"]);
        assert_eq!(outcome.stdout, "", "{script}");
        let outcome = drives.train("run", 3).env("PATH", &path).run();
        assert_says(&outcome, 3, &[said, "qcamera.ts"]);
        assert!(!drives.folder.path("run").exists(), "{script}");
    }
    // Killed once, behind the first video.
    let begun = drives.folder.path("begun");
    let script = format!("mkdir '{}' 2> /dev/null && kill -9 $$", begun.display());
    let path = drives.with_decoder(&script);
    let outcome = drives.frames("chunks").env("PATH", &path).run();
    assert_says(&outcome, 3, &["signal: 9"]);
    let outcome = drives.frames("chunks").env("PATH", &path).run();
    assert_says(&outcome, 0, &["0 were there, 1 made (22 frames)"]);
}

#[test]
fn a_run_that_has_learnt_nothing_leaves_nothing() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let paths = [model, data];
    let run = folder.path("run");
    // A name that `run.json` cannot keep.
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"mod\xffel.onnx");
    let odd = folder.0.join::<&std::ffi::OsStr>(name);
    fs::copy(&paths[0], &odd).expect("a file system of any names");
    let outcome = on_frames(&[odd, paths[1].clone()], &run).run();
    assert_says(&outcome, 2, &["--model: `", "is no text"]);
    assert!(!run.exists());
    // A disk that has room for the samples and not for the adapter.
    let script = "trap '' XFSZ; ulimit -f 6; exec \"$0\" \"$@\"";
    let outcome = Program::at(Path::new("/bin/bash"))
        .args(["-c", script, env!("CARGO_BIN_EXE_sparkpilot")])
        .args(["finetune", "train", "--qat", "fp4", "--create-adapter"])
        .args(["--batch-size", "3", "--dora-rank", "32"])
        .args(["--model".as_ref(), paths[0].as_os_str()])
        .args(["--data".as_ref(), paths[1].as_os_str()])
        .args(["--output".as_ref(), run.as_os_str()])
        .run();
    assert_says(&outcome, 5, &["run"]);
    assert!(!run.exists());
    // A teacher whose answers no loss is finite of.
    let teacher = linear(&folder, "loud.onnx", 32, 3e38);
    let with = |teacher: &Path| {
        let program = on_frames(&paths, &run);
        program.args(["--teacher".as_ref(), teacher.as_os_str()])
    };
    let outcome = with(&teacher).run();
    assert_says(&outcome, 3, &["gave no finite numbers"]);
    assert!(!run.exists());
    // What others have put into its folder stays.
    fs::create_dir(&run).expect("a writable folder");
    fs::write(run.join("notes"), "mine").expect("a writable folder");
    assert_says(&with(&teacher).run(), 3, &["gave no finite numbers"]);
    let left = fs::read_dir(&run).expect("is there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["notes"]);
    // An empty file, as one that was killed in the beginning leaves it.
    fs::write(run.join("run.json"), "").expect("a writable folder");
    assert_says(&on_run("resume", &run).run(), 3, &["is empty", "remove it"]);
}

/// One layer from the inputs of [`made`] to its output, of weights of this size.
fn linear(folder: &Folder, name: &str, n_outputs: usize, size: f32) -> PathBuf {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(1), Dim::Known(32)];
    let x = graph.add_input("desire", DType::F32, shape);
    let weight = Tensor::from_f32([32, n_outputs], vec![size; 32 * n_outputs]);
    let weight = graph.add_constant("only.weight", weight.expect("fits"));
    let y = graph.add_node("outputs", Op::MatMul(MatMul), &[Some(x), Some(weight)]);
    graph.outputs.push(y);
    folder.write(name, file::to_bytes(&graph).expect("is written"))
}

#[test]
fn networks_and_teachers_that_cannot_be_taught_by_are_named() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let run = folder.path("run");
    // Of frames of another shape the file is named, too.
    let short = Candle::zeros((1, 31), candle_core::DType::F32, &Device::Cpu);
    let short = [("case7/in/desire".to_owned(), short.expect("fits"))];
    let short_data = folder.path("short.safetensors");
    let short = HashMap::from(short);
    safetensors::save(&short, &short_data).expect("a writable folder");
    let outcome = on_frames(&[model.clone(), short_data], &run).run();
    assert_says(
        &outcome,
        3,
        &["short.safetensors`: frame 0, from 0", "[1, 31]"],
    );
    let narrow = linear(&folder, "narrow.onnx", 16, 1.0);
    let outcome = on_frames(&[model.clone(), data.clone()], &run)
        .args(["--teacher".as_ref(), narrow.as_os_str()])
        .run();
    assert_says(&outcome, 2, &["--teacher: ", "narrow.onnx", "[1, 16]"]);
    for size in [f32::NAN, f32::INFINITY] {
        let broken = linear(&folder, "broken.onnx", 32, size);
        let outcome = on_frames(&[broken.clone(), data.clone()], &run).run();
        assert_says(&outcome, 3, &["broken.onnx", "`only.weight`"]);
        let outcome = on_frames(&[model.clone(), data.clone()], &run)
            .args(["--teacher".as_ref(), broken.as_os_str()])
            .run();
        assert_says(&outcome, 3, &["broken.onnx", "`only.weight`"]);
    }
    let outcome = on_frames(&[model, data], &run)
        .args(["--whole", "first,second"])
        .run();
    assert_says(&outcome, 2, &["--whole: no layer is left to adapt"]);
    assert!(!run.exists());
}

#[test]
fn frames_that_an_epoch_passes_over_are_said() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let with = |words: &[&str]| {
        finetune(&["train", "--qat", "fp4", "--dry-run"])
            .args(["--model".as_ref(), paths[0].as_os_str()])
            .args(["--data".as_ref(), paths[1].as_os_str()])
            .args(["--output".as_ref(), run.as_os_str()])
            .args(words)
            .run()
    };
    let outcome = with(&["--batch-size", "4"]);
    let said = "an epoch takes 8 of the 9 frames in steps of 4 (--batch-size) and passes over 1";
    assert_says(&outcome, 0, &[said, "others each time"]);
    let outcome = with(&["--batch-size", "4", "--epochs", "1"]);
    assert_says(&outcome, 0, &[said, "this is the only one (--epochs)"]);
    let outcome = with(&["--batch-size", "3"]);
    assert!(
        !outcome.stdout.contains("passes over"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_result_may_lie_in_the_folder_that_the_run_makes() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let json = run.join("result.json");
    let program = on_frames(&paths, &run).args(["--max-steps", "1", "--json"]);
    assert_says(&program.args([&json]).run(), 0, &["1 steps in"]);
    assert!(json.is_file());
}

#[test]
fn who_has_no_room_for_samples_is_told_what_moves_them() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let cache = folder.path("cache");
    // Files of at most 1 KiB stand for a disk with no more room.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    let outcome = Program::at(Path::new("/bin/sh"))
        .args(["-c", script, env!("CARGO_BIN_EXE_sparkpilot")])
        .args(["finetune", "train", "--qat", "fp4"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--data".as_ref(), data.as_os_str()])
        .args(["--output".as_ref(), folder.path("run").as_os_str()])
        .env("SPARK_CACHE_DIR", &cache)
        .run();
    let cache = cache.display().to_string();
    let said = "SPARK_CACHE_DIR names another folder";
    assert_says(&outcome, 5, &[&cache, said]);
    assert!(!folder.path("run").exists());
}

/// What is learnt is written, and the exit code says that not all was said.
#[test]
fn a_disk_that_fills_up_below_stdout_does_not_end_a_run() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    // Room for what is trained and some epochs, with files of at most 64 KiB.
    let said = folder.write("said", vec![b'\n'; (64 << 10) - 400]);
    let said = fs::File::options().append(true).open(said);
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let outcome = Program::at(Path::new("/bin/bash"))
        .args(["-c", script, env!("CARGO_BIN_EXE_sparkpilot")])
        .args(["finetune", "train", "--qat", "fp4", "--batch-size", "3"])
        .args(["--epochs", "10"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--data".as_ref(), data.as_os_str()])
        .args(["--output".as_ref(), folder.path("run").as_os_str()])
        .start_with_stdout(said.expect("its own file"))
        .end();
    assert_says(
        &outcome,
        5,
        &["the run goes on", "failed printing to stdout"],
    );
    let adapter = folder.path("run/adapter/adapter_model.safetensors");
    assert!(adapter.is_file(), "{}", outcome.stderr);
}

#[test]
fn a_run_is_found_from_any_folder_and_says_what_is_gone() {
    let folder = Folder::new();
    let [model, data] = made(&folder);
    let run = folder.path("run");
    let mut begun = finetune(&["train", "--qat", "fp4", "--batch-size", "3"])
        .args(["--model", "model.onnx", "--data", "frames.safetensors"])
        .args(["--max-steps", "1", "--output", "run"]);
    begun.command.current_dir(&folder.0);
    assert_says(&begun.run(), 0, &["1 steps in"]);
    assert_says(&on_run("eval", &run).run(), 0, &["held back, 3"]);
    for (path, name) in [(&model, "model"), (&data, "data")] {
        let away = folder.path("away");
        fs::rename(path, &away).expect("is there");
        let outcome = on_run("resume", &run).run();
        let said = format!("{name} is `{}`: No such file", path.display());
        assert_says(&outcome, 5, &["run.json", &said]);
        fs::rename(&away, path).expect("is there");
    }
}

#[test]
fn a_precision_of_the_environment_that_has_no_effect_is_said_once() {
    let folder = Folder::new();
    let paths = made(&folder);
    let said = |precision: &str| {
        let run = folder.path(precision);
        let program = on_frames(&paths, &run).args(["--max-steps", "1"]);
        let outcome = program.env("OPENPILOT_DGX_PRECISION", precision).run();
        assert_says(&outcome, 0, &[]);
        let lines = outcome.stderr.lines();
        lines
            .filter(|line| line.contains("OPENPILOT_DGX_PRECISION=bf16 has no effect"))
            .count()
    };
    assert_eq!(said("bf16"), 1);
    for without_a_word in ["fp32", "auto"] {
        assert_eq!(said(without_a_word), 0, "{without_a_word}");
    }
}

/// Stderr is a file here; the decoder is silent for longer than a line may be.
#[test]
fn who_sees_no_bar_is_told_how_far_decoding_is() {
    let Some(drives) = Drives::new() else {
        return;
    };
    drives.segment(0, &drives.log);
    let path = drives.with_decoder("sleep 11");
    let outcome = drives.train("run", 3).env("PATH", path).run();
    assert_says(&outcome, 0, &["pictures, teacher: 0 of 11\n"]);
}

#[test]
fn ctrl_c_says_where_the_user_stands() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let is_training = || {
        let metrics = fs::read_to_string(run.join("metrics.jsonl"));
        metrics.unwrap_or_default().lines().count()
    };
    let stop = |running: Running| {
        let before = is_training();
        wait_until("more steps", || is_training() > before + 5);
        running.interrupt();
        let outcome = running.end();
        let line = |begin: &str| -> String {
            let found = outcome.stdout.lines().find_map(|l| l.strip_prefix(begin));
            found
                .unwrap_or_else(|| panic!("{begin}: {}", outcome.stdout))
                .to_owned()
        };
        assert_eq!(outcome.code, Some(130), "{}", outcome.stderr);
        let step = line("stopped after step ");
        let checkpoint = PathBuf::from(line("the checkpoint to go on from: "));
        assert!(checkpoint.join("trainer.json").is_file(), "{checkpoint:?}");
        let command = line("go on with: ");
        let want = format!("sparkpilot finetune resume --output {}", run.display());
        assert_eq!(command, want);
        (step, outcome.stdout.clone())
    };
    let running = on_frames(&paths, &run)
        .args(["--epochs", "1000000"])
        .start();
    let (step, _) = stop(running);
    let (_, said) = stop(on_run("resume", &run).start());
    assert!(
        said.contains(&format!("goes on after step {step}")),
        "{said}"
    );

    let Some(drives) = Drives::new() else {
        return;
    };
    drives.segment(0, &drives.log);
    let begun = drives.folder.path("decoder/begun");
    let wait = "while kill -0 $PPID 2> /dev/null; do sleep 0.05; done; exit 1";
    let path = drives.with_decoder(&format!("touch '{}'; {wait}", begun.display()));
    let running = drives.train("run", 3).env("PATH", path).start();
    wait_until("the decoder runs", || begun.exists());
    running.interrupt();
    let outcome = running.end();
    assert_eq!(outcome.signal, Some(2), "{}", outcome.stderr);
    let said = "stopped, nothing was written";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(!drives.folder.path("run").exists());
}

#[test]
fn events_for_tensorboard_are_written_and_go_on_in_a_file_of_their_own() {
    let folder = Folder::new();
    let paths = made(&folder);
    let (run, board) = (folder.path("run"), folder.path("run/board"));
    let option = ["--tensorboard".as_ref(), board.as_os_str()];
    let files = || {
        let entries = fs::read_dir(&board).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    };
    let begun = on_frames(&paths, &run).args(["--heads", "driving", "--epochs", "2"]);
    assert_says(&begun.args(option).run(), 0, &["6 steps in"]);
    let [first] = &files()[..] else {
        panic!("{:?}", files());
    };
    let events = fs::read(first).expect("is written");
    assert_eq!(events[..12], *b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22");
    let n_of = |tag: &str| {
        let windows = events.windows(tag.len());
        windows.filter(|bytes| *bytes == tag.as_bytes()).count()
    };
    for tag in [
        "loss/train",
        "loss/pose",
        "rate",
        "gradient_norm",
        "samples_per_second",
        "waiting_for_samples",
    ] {
        assert_eq!(n_of(tag), 6, "{tag}");
    }
    assert_eq!(n_of("loss/validation"), 2);
    let resumed = on_run("resume", &run).args(option).run();
    assert_says(&resumed, 0, &["all 6 steps had been made"]);
    assert_eq!(files().len(), 2);

    let taken = folder.write("taken", "a file");
    let other = folder.path("other");
    let board = ["--tensorboard".as_ref(), taken.as_os_str()];
    let outcome = on_frames(&paths, &other).args(board).run();
    assert_says(&outcome, 5, &["cannot write"]);
    let kept = run.join("checkpoints/board");
    let board = ["--tensorboard".as_ref(), kept.as_os_str()];
    let outcome = on_run("resume", &run).args(board).run();
    assert_says(&outcome, 2, &["--tensorboard: what lies below"]);
}
