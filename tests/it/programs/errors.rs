//! Options out of range and files that are none: one sentence, quickly, and no panic.

use std::path::{Path, PathBuf};

use super::{Folder, Program};
use crate::programs::files::small_model;

#[track_caller]
fn refused(program: &str, args: &[&str], words: &[&str]) {
    let outcome = Program::new(program).args(args).run();
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, Some(2), "{program} {args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{program} {args:?}: {stderr}");
    }
    assert_eq!(outcome.stdout, "", "{program} {args:?}");
    assert!(
        outcome.files.is_empty(),
        "{program} {args:?}: {:?}",
        outcome.files
    );
}

#[test]
fn numbers_out_of_range_are_wrong_usage_and_name_the_range() {
    for runs in ["0", "1e30", "99999999999999999999", "NaN", "10000001"] {
        refused("bench_supercombo", &["--runs", runs], &["--runs"]);
    }
    refused("bench_supercombo", &["--runs", "0"], &["1..=10000000"]);
    refused("bench_supercombo", &["--runs=-1"], &["--runs"]);
    refused(
        "bench_supercombo",
        &["--quick", "--runs", "3"],
        &["--quick", "--runs"],
    );
    refused("bench_supercombo", &["--threads", "0"], &["1..=1024"]);
    refused(
        "bench_supercombo",
        &["--threads", "1000000000"],
        &["1..=1024"],
    );
    refused("bench_supercombo", &["--warmup=-3"], &["--warmup"]);
    for decibels in ["NaN", "0", "1e30", "inf"] {
        refused(
            "bench_supercombo",
            &["--mix", decibels],
            &["from 0.001 to 1000"],
        );
    }
    for bits in ["NaN", "0", "-1", "1e30"] {
        let bits = format!("--bits={bits}");
        refused("quantize_weights", &[&bits], &["from 0.01 to 32"]);
    }
    for scenarios in ["0", "1e30", "1000001", "many"] {
        refused("simulate_batch", &[scenarios, "out"], &["N_SCENARIOS"]);
    }
    refused("marl_random", &["0"], &["N_STEPS"]);
    refused(
        "check_gate",
        &["--comparisons", "1000001"],
        &["0..=1000000"],
    );
    refused("gpu_monitor", &["0"], &["SECONDS"]);
    refused(
        "gpu_monitor",
        &["1", "--interval-ms", "0"],
        &["10..=3600000"],
    );
}

#[test]
fn words_that_are_unknown_name_the_known() {
    refused(
        "bench_supercombo",
        &["--precision", "fp12"],
        &["fp12", "bf16"],
    );
    refused("bench_supercombo", &["--device", "tpu"], &["tpu", "cuda"]);
    refused(
        "bench_supercombo",
        &["--bf16", "slow"],
        &["slow", "fastest"],
    );
    refused(
        "quantize_weights",
        &["--format", "int3"],
        &["int3", "nvfp4"],
    );
    refused("gpu_monitor", &["1", "xml"], &["xml", "csv"]);
    let both = ["a.onnx", "b.onnx"];
    refused("controls_challenge", &both, &["more than one network"]);
    let no_int8 = ["--format", "int8", "--output", "q"];
    refused("quantize_weights", &no_int8, &["compressed-tensors"]);
}

/// Files that are none, under names with this ending, and what is to be read about each.
fn no_files(folder: &Folder, ending: &str) -> Vec<(PathBuf, &'static [&'static str])> {
    let path = |name: &str| folder.path(&format!("{name}{ending}"));
    let link = |name: &str, to: &str| {
        std::os::unix::fs::symlink(to, path(name)).expect("a writable folder");
        path(name)
    };
    folder.write(&format!("empty{ending}"), "");
    folder.write(&format!("garbage{ending}"), [0xA5; 4096]);
    std::fs::create_dir(path("folder")).expect("a writable folder");
    folder.pipe(&format!("pipe{ending}"));
    const NO_FILE: &[&str] = &["not a regular file"];
    vec![
        (path("missing"), &["No such file"]),
        (path("empty"), &[]),
        (path("garbage"), &[]),
        (
            path("folder"),
            &["not a regular file", "no file that ends in .csv"],
        ),
        (path("pipe"), NO_FILE),
        (link("zero", "/dev/zero"), NO_FILE),
        (link("null", "/dev/null"), NO_FILE),
        // A regular file by its type, of no bytes by its size; reading it fails.
        (link("memory", "/proc/self/mem"), &[]),
        (
            link("circle", &path("circle").to_string_lossy()),
            &["symbolic links"],
        ),
    ]
}

fn file_stem(file: &str) -> &str {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.expect("a name of letters")
}

/// Each kind of bad file in the place of `FILE` among the arguments: exit code 1 and one line
/// that names the file and why.
#[track_caller]
fn bad_files_are_refused(program: &str, args: &[&str], ending: &str) {
    let folder = Folder::new();
    for (file, reasons) in no_files(&folder, ending) {
        let file = file.to_string_lossy();
        let given = args
            .iter()
            .map(|&arg| if arg == "FILE" { &*file } else { arg });
        let outcome = Program::new(program).args(given).run();
        let stderr = &outcome.stderr;
        let context = format!("{program} {args:?} with {file}: {stderr}");
        assert_eq!(outcome.code, Some(1), "{context}");
        assert_eq!(outcome.stdout, "", "{context}");
        let errors: Vec<&str> = stderr.lines().collect();
        // The challenge goes on after a bad segment, and says at the end that none was left.
        let n_lines = if program == "controls_challenge" {
            1..=2
        } else {
            1..=1
        };
        assert!(n_lines.contains(&errors.len()), "{context}");
        let error = errors[0];
        // The benchmark calls a model by its file's name without the ending.
        let model = format!("model `{}`", file_stem(&file));
        let names_it = error.contains(&*file) || error.contains(&model);
        assert!(error.starts_with("error: ") && names_it, "{context}");
        let is_told = reasons.is_empty() || reasons.iter().any(|why| error.contains(why));
        assert!(is_told, "{context}");
        // Longer than the name alone: it says why.
        assert!(
            error.len() > "error: ``: ".len() + file_stem(&file).len() + 10,
            "{context}"
        );
        // No cause is told twice.
        let parts: Vec<&str> = error.split(": ").collect();
        let repeated = parts
            .iter()
            .enumerate()
            .any(|(i, part)| parts[..i].contains(part));
        assert!(!repeated, "{context}");
        assert!(outcome.files.is_empty(), "{context}");
    }
}

#[test]
fn models_that_are_none_are_refused() {
    bad_files_are_refused("bench_supercombo", &["--model", "FILE"], ".onnx");
    bad_files_are_refused("quantize_weights", &["FILE"], ".onnx");
    bad_files_are_refused("controls_challenge", &["FILE"], ".onnx");
}

#[test]
fn tensor_files_that_are_none_are_refused() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    let inputs = ["--model", &*model, "--inputs", "FILE"];
    bad_files_are_refused("bench_supercombo", &inputs, ".safetensors");
    let golden = ["--model", &*model, "--compare", "FILE"];
    bad_files_are_refused("bench_supercombo", &golden, ".safetensors");
    bad_files_are_refused("quantize_weights", &["FILE"], ".safetensors");
}

#[test]
fn segments_that_are_none_are_refused() {
    bad_files_are_refused("controls_challenge", &["FILE"], ".csv");
}

#[cfg(feature = "dora")]
#[test]
fn bases_and_adapters_that_are_none_are_refused() {
    let base = ["FILE", "adapter", "merged.safetensors"];
    bad_files_are_refused("merge_adapter", &base, ".safetensors");
    let folder = Folder::new();
    let tensors = folder.path("tensors");
    let made = Program::new("merge_adapter")
        .args(["--exchange".as_ref(), tensors.as_os_str()])
        .run();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let base = tensors.join("exchange.safetensors");
    let args = [
        &*base.to_string_lossy(),
        "no_such_adapter",
        "merged.safetensors",
    ];
    let outcome = Program::new("merge_adapter").args(args).run();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("No such file"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.files.is_empty(), "{:?}", outcome.files);
}

#[test]
fn a_pipe_on_stdin_is_no_file() {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let mut program = Program::new("quantize_weights").args(["/dev/stdin"]);
    program.command.stdin(reader);
    let outcome = program.run();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("not a regular file"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn places_that_cannot_be_written_to_are_told() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    let taken = folder.write("taken", "a file");
    let inside = taken.join("out").to_string_lossy().into_owned();
    let bench = [
        "--model", &*model, "--runs", "1", "--warmup", "0", "--json", &inside,
    ];
    for (program, args) in [
        ("bench_supercombo", bench.as_slice()),
        ("bench_supercombo", &["--write-zoo", &inside]),
        ("quantize_weights", &[&model, "--output", &inside]),
        ("quantize_weights", &[&model, "--json", &inside]),
        ("simulate_batch", &["1", &inside]),
    ] {
        let outcome = Program::new(program).args(args).run();
        let stderr = &outcome.stderr;
        assert_eq!(outcome.code, Some(1), "{program} {args:?}: {stderr}");
        assert!(
            stderr.contains("Not a directory"),
            "{program} {args:?}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{program} {args:?}: {stderr}");
    }
    assert_eq!(folder.names(), ["small.onnx", "taken"]);
}
