//! `program | head -1`, and a disk that is full.

use std::fs::File;

use super::files::small_model;
use super::{Folder, Outcome, Program, programs};

/// Runs a program whose stdout nobody reads.
fn into_a_closed_pipe(program: Program) -> Outcome {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    program.start_with_stdout(writer).end()
}

#[track_caller]
fn ends_quietly(name: &str, args: &[&str]) -> Outcome {
    let outcome = into_a_closed_pipe(Program::new(name).args(args));
    // By the signal, as programs in other languages do, which a shell passes over in silence.
    let is_quiet = outcome.signal == Some(13) || outcome.code == Some(0);
    assert!(is_quiet, "{name}: {:?}, {}", outcome.code, outcome.stderr);
    assert!(
        !outcome.stderr.contains("panicked"),
        "{name}: {}",
        outcome.stderr
    );
    assert!(
        !outcome.stderr.contains("error"),
        "{name}: {}",
        outcome.stderr
    );
    outcome
}

#[test]
fn help_into_a_closed_pipe_is_quiet() {
    for name in programs() {
        ends_quietly(name, &["--help"]);
    }
}

#[test]
fn output_into_a_closed_pipe_ends_the_program_quietly() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    for (name, args) in [
        ("detect", [].as_slice()),
        ("detect", &["--record"]),
        ("doctor", &[]),
        ("doctor", &["--json"]),
        ("zero_copy", &[]),
        ("explicit_copy", &[]),
        ("marl_random", &["1"]),
        ("quantize_weights", &[&model]),
        (
            "bench_supercombo",
            &["--model", &model, "--runs", "1", "--warmup", "0"],
        ),
        ("quantize_weights", &[]),
        // It would go on for long, and ends with the first line.
        ("learn_lane_keeping", &[]),
    ] {
        let outcome = ends_quietly(name, args);
        let is_gpu_warning = |line: &str| line.starts_with("warning: performance: ");
        assert!(
            outcome.stderr.lines().all(is_gpu_warning),
            "{name}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn reports_are_whole_when_only_the_first_line_of_the_table_is_read() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    let args = [
        "--model",
        &*model,
        "--runs",
        "1",
        "--warmup",
        "0",
        "--json",
        "report.json",
    ];
    let outcome = ends_quietly("bench_supercombo", &args);
    assert_eq!(outcome.files, ["report.json"]);
}

#[test]
fn files_are_whole_when_nothing_of_the_words_is_read() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    for (name, args, files) in [
        (
            "quantize_weights",
            [&*model, "--output", "q", "--json", "j", "--plot", "p"].as_slice(),
            ["j", "p", "q"].as_slice(),
        ),
        ("worst_case", &["x.svg"], &["x.svg"]),
        ("bench_supercombo", &["--write-zoo", "."], &ZOO),
    ] {
        assert_eq!(ends_quietly(name, args).files, files, "{name}");
    }
}

/// What `--write-zoo` writes.
const ZOO: [&str; 3] = [
    "dmonitoring_model.onnx",
    "driving_policy.onnx",
    "driving_vision.onnx",
];

#[test]
fn a_full_disk_below_stdout_is_one_sentence() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        eprintln!("skipped: this system has no /dev/full");
        return;
    };
    let outcome = Program::new("detect").start_with_stdout(full).end();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("No space left"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_full_disk_below_stderr_changes_no_exit_code() {
    let full = || File::options().write(true).open("/dev/full");
    if full().is_err() {
        eprintln!("skipped: this system has no /dev/full");
        return;
    }
    for (name, args, variable, code) in [
        ("detect", [].as_slice(), ("SPARK_DEVICE", "bogus"), 0),
        (
            "bench_supercombo",
            &["--model", "missing.onnx"],
            ("DEBUG", "0"),
            1,
        ),
        ("controls_challenge", &["missing.csv"], ("DEBUG", "0"), 1),
        ("bench_supercombo", &["--nonsense"], ("DEBUG", "0"), 2),
    ] {
        let program = Program::new(name).args(args).env(variable.0, variable.1);
        let outcome = program.start_with_stderr(full().expect("as before")).end();
        assert_eq!(
            (outcome.code, outcome.signal),
            (Some(code), None),
            "{name} {args:?}"
        );
    }
    let both = Program::new("detect")
        .start_with_both(full().expect("as before"), full().expect("as before"));
    let outcome = both.end();
    assert_eq!((outcome.code, outcome.signal), (Some(1), None));
}
