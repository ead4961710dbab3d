//! `finetune frames` and `finetune eval --shard` as processes: shared out, killed, damaged, mixed up; what comes of it is what one process makes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sparkpilot::shards::{Identity, decode, encode, file_name};

use super::tuning::{made, of_pictures};
use super::{Folder, Outcome, Program};

/// The minute that drives of tests are made of.
const MINUTE: &str = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0";

/// Drives of three minutes, networks of their pictures, and pictures that are decoded once.
struct Material {
    folder: Folder,
    model: PathBuf,
    teacher: PathBuf,
    drives: PathBuf,
}

impl Material {
    fn new() -> Option<Self> {
        let minute = spark_testing::test_videos(MINUTE)?;
        let folder = Folder::new();
        let material = Self {
            model: of_pictures(&folder, "model.onnx", 1),
            teacher: of_pictures(&folder, "teacher.onnx", 5),
            drives: folder.path("drives"),
            folder,
        };
        let log = fs::read(minute.join("qlog.bz2")).expect("is there");
        let video = fs::read(minute.join("qcamera.ts")).expect("is there");
        for number in 0..3 {
            let segment = material.segment(number);
            fs::create_dir_all(&segment).expect("a writable folder");
            fs::write(segment.join("qlog.bz2"), &log).expect("a writable folder");
            fs::write(segment.join("qcamera.ts"), &video).expect("a writable folder");
        }
        Some(material)
    }

    fn segment(&self, number: usize) -> PathBuf {
        let name = format!("a2a0ccea32023010_2023-07-27--13-01-19--{number}");
        self.drives.join(name)
    }

    fn program(&self, words: &[&str]) -> Program {
        let cache = self.folder.path("cache").display().to_string();
        let program = Program::new("finetune").env("SPARK_CACHE_DIR", &cache);
        program.args(words)
    }

    fn frames_of(&self, model: &Path, folder: &Path, more: &[&str]) -> Program {
        self.program(&["frames"])
            .args(["--model".as_ref(), model.as_os_str()])
            .args(["--teacher".as_ref(), self.teacher.as_os_str()])
            .args(["--data".as_ref(), self.drives.as_os_str()])
            .args(["--folder".as_ref(), folder.as_os_str()])
            .args(more)
    }

    /// 30 frames of a minute, less those without a speed: 87 of three.
    fn frames(&self, folder: &Path, more: &[&str]) -> Program {
        self.frames_of(&self.model, folder, &[&["--every", "40"], more].concat())
    }

    fn train(&self, data: &Path, run: &Path, more: &[&str]) -> Outcome {
        self.program(&["train", "--batch-size", "8", "--dora-rank", "1"])
            .args(["--epochs", "1"])
            .args(["--model".as_ref(), self.model.as_os_str()])
            .args(["--teacher".as_ref(), self.teacher.as_os_str()])
            .args(["--data".as_ref(), data.as_os_str()])
            .args(["--output".as_ref(), run.as_os_str()])
            .args(more)
            .run()
    }
}

#[track_caller]
fn done(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.files.is_empty(), "{:?}", outcome.files);
}

#[track_caller]
fn is_refused(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

/// The files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("is there");
    let file = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).expect("is a file");
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    entries
        .map(|entry| file(entry.expect("an entry")))
        .collect()
}

/// What a run came to, without what hangs on the clock.
fn learnt(run: &Path) -> (Vec<u8>, Vec<Value>, Value) {
    let read = |name: &str| fs::read(run.join(name)).expect("was written");
    let metrics = String::from_utf8(read("metrics.jsonl")).expect("is text");
    let events = metrics.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).expect("is JSON");
        if let Value::Object(fields) = &mut event {
            fields.retain(|name, _| {
                ["event", "step", "loss", "training", "validation"].contains(&name.as_str())
            });
        }
        event
    });
    let options: Value = serde_json::from_slice(&read("run.json")).expect("is JSON");
    let adapter = read("adapter/adapter_model.safetensors");
    (adapter, events.collect(), options["frames"].clone())
}

#[test]
fn frames_are_the_same_files_however_many_processes_make_them() {
    let Some(material) = Material::new() else {
        return;
    };
    let one = material.folder.path("one");
    let outcome = material.frames(&one, &[]).run();
    done(&outcome);
    let told = "shard 1/1: 3 of 3 chunks; 0 were there, 3 made (";
    assert!(outcome.stdout.starts_with(told), "{}", outcome.stdout);
    let want = files(&one);
    assert_eq!(want.len(), 3);
    for of in [2, 3, 7] {
        let folder = material.folder.path(&format!("of-{of}"));
        let started: Vec<_> = (1..=of)
            .map(|k| {
                material
                    .frames(&folder, &["--shard", &format!("{k}/{of}")])
                    .start()
            })
            .collect();
        started.into_iter().for_each(|it| done(&it.end()));
        assert!(files(&folder) == want, "{of} processes");
    }
    // Killed at any moment, and gone on with.
    let killed = material.folder.path("killed");
    for ms in [100, 1000, 3000] {
        let mut running = material.frames(&killed, &[]).start();
        std::thread::sleep(Duration::from_millis(ms));
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }
    done(&material.frames(&killed, &["--shard", "2/2"]).run());
    done(&material.frames(&killed, &[]).run());
    let mut left = files(&killed);
    left.retain(|name, _| !name.starts_with('.'));
    assert!(left == want);
    // Damage is named, and made anew.
    let chunk = one.join(file_name(1));
    let mut bytes = want[&file_name(1)].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&chunk, &bytes).unwrap();
    let outcome = material.train(&one, &material.folder.path("run"), &[]);
    is_refused(&outcome, 1, &["chunk-00000001.shard", "checksum"]);
    let outcome = material.frames(&one, &[]).run();
    done(&outcome);
    assert!(
        outcome.stderr.contains("chunk-00000001.shard"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("2 were there, 1 made (32 frames)"),
        "{}",
        outcome.stdout
    );
    assert!(files(&one) == want);
}

#[test]
fn training_on_ready_frames_is_training_on_the_drives() {
    let Some(material) = Material::new() else {
        return;
    };
    // A video that is broken, and a log that says nothing.
    fs::write(material.segment(1).join("qcamera.ts"), "no video").unwrap();
    let silent = material.segment(3);
    fs::create_dir_all(&silent).unwrap();
    fs::write(silent.join("qlog.bz2"), "no log").unwrap();
    fs::write(silent.join("qcamera.ts"), "no video").unwrap();
    let (ready, half) = (material.folder.path("ready"), material.folder.path("half"));
    for k in ["1/2", "2/2"] {
        done(&material.frames(&ready, &["--shard", k]).run());
    }
    // What is missing is said again, and what mends it.
    let again = material.frames(&ready, &[]).run();
    done(&again);
    let line = "3 of 3 chunks; 3 were there, 0 made (0 frames)";
    assert!(again.stdout.contains(line), "{}", again.stdout);
    let lost = "left out when the chunks were made: 28 frames of \
                `a2a0ccea32023010|2023-07-27--13-01-19--1/qcamera.ts`";
    for said in [
        lost,
        "remove the chunks that lack them",
        "chunk-00000001.shard",
    ] {
        assert!(again.stderr.contains(said), "{said}: {}", again.stderr);
    }
    fs::remove_file(ready.join(file_name(1))).unwrap();
    let made = material.frames(&ready, &[]).run();
    done(&made);
    let line = "1 made (32 frames, 24 of them without pictures)";
    assert!(made.stdout.contains(line), "{}", made.stdout);
    let [on_drives, on_frames] = ["on-drives", "on-frames"].map(|name| material.folder.path(name));
    done(&material.train(&material.drives, &on_drives, &["--every", "40"]));
    let outcome = material.train(&ready, &on_frames, &[]);
    done(&outcome);
    assert!(outcome.stderr.contains(lost), "{}", outcome.stderr);
    assert!(learnt(&on_drives) == learnt(&on_frames));
    let options = fs::read_to_string(on_frames.join("run.json")).unwrap();
    let options: Value = serde_json::from_str(&options).unwrap();
    let name =
        |number, file: &str| format!("a2a0ccea32023010|2023-07-27--13-01-19--{number}/{file}");
    let want = [name(3, "qlog.bz2"), name(1, "qcamera.ts")];
    assert_eq!(options["left_out"], serde_json::json!(want));
    // Whatever is below a folder has the same names, and drives stay drives.
    let above = material.folder.path("above");
    let outcome = material
        .program(&["frames", "--every", "40"])
        .args(["--model".as_ref(), material.model.as_os_str()])
        .args(["--teacher".as_ref(), material.teacher.as_os_str()])
        .args([
            "--data".as_ref(),
            material.drives.parent().unwrap().as_os_str(),
        ])
        .args(["--folder".as_ref(), above.as_os_str()])
        .run();
    done(&outcome);
    assert!(files(&above) == files(&ready));
    let to: [&Path; 4] = [
        "--shard".as_ref(),
        "1/1".as_ref(),
        "--folder".as_ref(),
        &material.drives,
    ];
    is_refused(
        &eval(&on_drives, &to).run(),
        2,
        &["--folder: what lies below"],
    );
    is_refused(
        &material.train(&ready, &ready, &[]),
        2,
        &["--output: a run lies in another folder"],
    );
    // What was begun goes on without drives and decoder.
    let resume = |command: &str| {
        let program = material.program(&[command]).env("PATH", "");
        program
            .args(["--output".as_ref(), on_frames.as_os_str()])
            .run()
    };
    fs::rename(&material.drives, material.folder.path("away")).unwrap();
    done(&resume("resume"));
    done(&resume("eval"));
    fs::rename(material.folder.path("away"), &material.drives).unwrap();

    let video = material.segment(2).join("qcamera.ts");
    fs::remove_file(&video).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&video).status();
    assert!(made.unwrap().success());
    let outcome = material.frames(&material.folder.path("piped"), &[]).run();
    is_refused(&outcome, 1, &["qcamera.ts", "not a regular file"]);
    fs::remove_file(&video).unwrap();
    fs::copy(material.segment(0).join("qcamera.ts"), &video).unwrap();

    let run = material.folder.path("run");
    for option in [["--every", "40"], ["--camera", "road"]] {
        let outcome = material.train(&ready, &run, &option);
        is_refused(&outcome, 2, &["given to `frames`"]);
    }
    let outcome = material.frames_of(&material.model, &half, &["--every", "30"]);
    done(&outcome.args(["--shard", "2/2"]).run());
    let outcome = material.train(&half, &run, &[]);
    is_refused(&outcome, 1, &["chunks are missing: 0"]);
    // Frames of other networks, and other frames.
    let other = of_pictures(&material.folder, "other.onnx", 9);
    let outcome = material.frames_of(&other, &ready, &["--every", "40"]).run();
    is_refused(&outcome, 1, &["of another run (model: "]);
    let outcome = material
        .frames_of(&material.model, &ready, &["--every", "10"])
        .run();
    is_refused(&outcome, 1, &["every: 10 here, 40 there"]);
    fs::write(material.segment(0).join("qlog.bz2"), "no log").unwrap();
    is_refused(&material.frames(&ready, &[]).run(), 1, &["drives: "]);
    let program = material.program(&["train", "--dora-rank", "1"]);
    let outcome = program
        .args(["--model".as_ref(), other.as_os_str()])
        .args(["--teacher".as_ref(), material.model.as_os_str()])
        .args(["--data".as_ref(), ready.as_os_str()])
        .args(["--output".as_ref(), run.as_os_str()])
        .run();
    let words = [
        "not for this run (model: ",
        "; teacher: ",
        " here, ",
        " there",
    ];
    is_refused(&outcome, 1, &words);
    assert!(!run.exists());
    let frames = material.program(&["frames"]);
    let outcome = frames
        .args(["--model".as_ref(), material.model.as_os_str()])
        .args(["--data".as_ref(), ready.as_os_str()])
        .args(["--folder".as_ref(), half.as_os_str()])
        .run();
    is_refused(&outcome, 2, &["has chunks of frames"]);
}

/// A run on frames in a file, which nothing has to be decoded for.
fn begun(folder: &Folder, more: &[&str]) -> PathBuf {
    begun_on(made(folder), folder, more)
}

fn begun_on([model, data]: [PathBuf; 2], folder: &Folder, more: &[&str]) -> PathBuf {
    let run = folder.path("run");
    let program = Program::new("finetune").args(["train", "--qat", "fp4", "--batch-size", "3"]);
    let outcome = program
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--data".as_ref(), data.as_os_str()])
        .args(["--output".as_ref(), run.as_os_str()])
        .args(more)
        .run();
    done(&outcome);
    run
}

fn eval(run: &Path, more: &[&Path]) -> Program {
    let program = Program::new("finetune").args(["eval"]);
    program
        .args(["--output".as_ref(), run.as_os_str()])
        .args(more)
}

#[test]
fn what_shards_asked_is_judged_as_one_process_judges() {
    for options in [
        &["--epochs", "2"][..],
        &[
            "--epochs",
            "2",
            "--heads",
            "driving",
            "--head-weight",
            "pose=2,lead_prob=0",
        ],
        &["--epochs", "2", "--calibrate", "6"],
    ] {
        let folder = Folder::new();
        let run = begun(&folder, options);
        let [one, merged] = ["one.json", "merged.json"].map(|name| folder.path(name));
        let alone = eval(&run, &["--json".as_ref(), &one]).run();
        done(&alone);
        let chunks = folder.path("chunks");
        for k in 1..=3 {
            let shard = format!("{k}/3");
            let to = [
                "--shard".as_ref(),
                Path::new(&shard),
                "--folder".as_ref(),
                &chunks,
            ];
            let outcome = eval(&run, &to).run();
            done(&outcome);
            let told = format!("shard {k}/3: ");
            assert!(outcome.stdout.starts_with(&told), "{}", outcome.stdout);
        }
        // Nothing of the frames is read.
        fs::write(folder.path("frames.safetensors"), "gone").unwrap();
        let to = [
            "--merge".as_ref(),
            chunks.as_path(),
            "--json".as_ref(),
            &merged,
        ];
        let outcome = eval(&run, &to).run();
        done(&outcome);
        assert_eq!(outcome.stdout, alone.stdout, "{options:?}");
        assert_eq!(
            fs::read(&merged).unwrap(),
            fs::read(&one).unwrap(),
            "{options:?}"
        );
    }
}

#[test]
fn answers_about_other_frames_are_no_judgement_of_the_same_adapter() {
    let (folder, other) = (Folder::new(), Folder::new());
    let run = begun(&folder, &["--create-adapter"]);
    let [model, data] = made(&other);
    let mut frames = fs::read(&data).unwrap();
    let last = frames.len() - 4;
    frames[last..].copy_from_slice(&0.5f32.to_le_bytes());
    fs::write(&data, frames).unwrap();
    let second = begun_on([model, data], &other, &["--create-adapter"]);
    let adapter = |run: &Path| fs::read(run.join("adapter/adapter_model.safetensors")).unwrap();
    assert_eq!(adapter(&run), adapter(&second));
    let chunks = folder.path("chunks");
    let to: [&Path; 4] = [
        "--shard".as_ref(),
        "1/1".as_ref(),
        "--folder".as_ref(),
        &chunks,
    ];
    done(&eval(&second, &to).run());
    let outcome = eval(&run, &["--merge".as_ref(), &chunks]).run();
    is_refused(&outcome, 1, &["not of the adapter in", "frames: "]);
    done(&eval(&second, &["--merge".as_ref(), &chunks]).run());
}

#[test]
fn answers_of_another_run_or_damaged_ones_are_no_judgement() {
    let (folder, other) = (Folder::new(), Folder::new());
    let run = begun(&folder, &["--epochs", "1"]);
    let chunks = folder.path("chunks");
    let shard = |run: &Path| {
        let to = [
            "--shard".as_ref(),
            Path::new("1/1"),
            "--folder".as_ref(),
            chunks.as_path(),
        ];
        eval(run, &to).run()
    };
    let merge = |run: &Path| eval(run, &["--merge".as_ref(), &chunks]).run();
    done(&shard(&run));
    let second = begun(&other, &["--epochs", "2", "--lr", "0.01"]);
    is_refused(
        &merge(&second),
        1,
        &["not of the adapter in", "judged adapter: ", "lr: "],
    );
    is_refused(
        &shard(&second),
        1,
        &["of another run (", "judged adapter: "],
    );
    // Chunks that are whole and hold what they should not.
    let path = chunks.join(file_name(0));
    let written = decode(&fs::read(&path).unwrap()).unwrap();
    let mut run_of_chunk = written.run.clone();
    let lines = written
        .run
        .identity
        .lines()
        .map(|(name, value)| match name {
            "frames trained on" => (name, "8"),
            name => (name, value),
        });
    let mut lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let work = lines.next().expect("the line of the work").1;
    run_of_chunk.identity = lines.fold(Identity::new(work), |it, (name, value)| {
        it.with(name, value)
    });
    fs::write(&path, encode(&run_of_chunk, 0, &written.payload).unwrap()).unwrap();
    is_refused(
        &merge(&run),
        1,
        &["chunk-00000000.shard", "other answers than it says"],
    );
    fs::write(
        &path,
        encode(&written.run, 0, &written.payload[1..]).unwrap(),
    )
    .unwrap();
    is_refused(&merge(&run), 1, &["chunk-00000000.shard", "packed tensors"]);
    fs::write(&path, "no chunk").unwrap();
    is_refused(&merge(&run), 1, &["chunk-00000000.shard", "damaged"]);
    let outcome = shard(&run);
    done(&outcome);
    assert!(
        outcome
            .stdout
            .contains("0 were there, 1 asked about (12 frames)"),
        "{}",
        outcome.stdout
    );
    done(&merge(&run));
    let json = eval(
        &run,
        &["--merge".as_ref(), &chunks, "--json".as_ref(), &path],
    )
    .run();
    is_refused(&json, 2, &["shard's chunk"]);
    let both = eval(
        &run,
        &[
            "--merge".as_ref(),
            &chunks,
            "--shard".as_ref(),
            "1/1".as_ref(),
        ],
    )
    .run();
    is_refused(&both, 2, &["--merge"]);
}
