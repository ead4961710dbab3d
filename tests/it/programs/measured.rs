//! `bench_supercombo` and others: what was asked for and not had is told, and nothing measured is lost.

use serde_json::Value;
use sparkpilot::bench::{TensorMap, write_tensors};
use sparkpilot::onnx::Tensor;

use super::files::small_model;
use super::{Folder, Outcome, Program};

const QUICK: [&str; 6] = ["--runs", "1", "--warmup", "0", "--threads", "1"];

fn bench(args: &[&str]) -> Outcome {
    let program = Program::new("bench_supercombo").args(QUICK);
    program.args(args).run()
}

#[test]
fn a_model_that_fails_takes_nothing_from_the_others() {
    let folder = Folder::new();
    let good = small_model(&folder);
    let bytes = std::fs::read(&good).expect("own file");
    let bad = folder.write("cut.onnx", &bytes[..bytes.len() / 2]);
    let json = folder.path("r.json");
    let [good, bad, json] = [&good, &bad, &json].map(|path| path.to_string_lossy());
    for models in [[&good, &bad], [&bad, &good]] {
        let [first, second] = models;
        let args = ["--model", first, "--model", second, "--json", &json];
        let outcome = bench(&args);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("\nsmall  "), "{}", outcome.stdout);
        assert!(
            outcome.stdout.contains("failed: fp32: "),
            "{}",
            outcome.stdout
        );
        assert!(outcome.stderr.contains("cut"), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        let text = std::fs::read_to_string(&*json).expect("written");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["runs"][0]["model"], "small");
        assert_eq!(report["failed"][0]["model"], "cut");
        std::fs::remove_file(&*json).expect("own file");
    }
}

#[test]
fn results_that_are_no_numbers_are_an_error_that_names_the_network() {
    let folder = Folder::new();
    let [model, inputs] = [small_model(&folder), folder.path("x.safetensors")];
    let large = Tensor::from_f32([1, 64], vec![f32::MAX; 64]).expect("64");
    let x = TensorMap::from([("x".to_owned(), large)]);
    write_tensors(&inputs, &x).expect("a writable folder");
    let [model, inputs] = [&model, &inputs].map(|path| path.to_string_lossy());
    let outcome = bench(&["--model", &model, "--inputs", &inputs]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    let begins = outcome.stderr.starts_with("error: fp32 of small gave ");
    let ends = outcome.stderr.ends_with(" results that are not finite\n");
    assert!(begins && ends, "{}", outcome.stderr);
}

#[test]
fn quick_is_three_runs_after_one() {
    let folder = Folder::new();
    let [model, json] = [small_model(&folder), folder.path("r.json")];
    let [model, json] = [&model, &json].map(|path| path.to_string_lossy());
    let args = ["--quick", "--model", &model, "--json", &json];
    let outcome = Program::new("bench_supercombo").args(args).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let text = std::fs::read_to_string(&*json).expect("written");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["settings"]["runs"], 3);
    assert_eq!(report["settings"]["warmup"], 1);
}

#[test]
fn a_place_that_is_none_is_told_before_the_work() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    // Measured first, they would take hours.
    for option in ["--json", "--html", "--trace", "--dump-outputs"] {
        let args = [
            "--model",
            &*model,
            "--runs",
            "10000000",
            option,
            "missing/x",
        ];
        let outcome = Program::new("bench_supercombo").args(args).run();
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("missing/x"), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
    for args in [["--json", "missing/x"], ["--plot", "missing/x"]] {
        let outcome = Program::new("quantize_weights").args(args).run();
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("missing/x"), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn a_precision_that_is_refused_is_no_success() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = model.to_string_lossy();
    let half = ["--model", &*model, "--precision", "fp16", "--fp16", "both"];
    let files = ["--dump-outputs", "d", "--trace", "t", "--json", "j"];
    let outcome = bench(&[&half[..], &files].concat());
    if !outcome.stdout.contains("refused: fp16") {
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        eprintln!("skipped: this processor multiplies fp16, nothing is refused");
        return;
    }
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("fp16 of small was refused"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("refused: fp16"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.files.is_empty(), "of nothing: {:?}", outcome.files);

    // What was measured is written under its name, and the code says that it is not all.
    let dump = folder.path("d.safetensors");
    let dump = dump.to_string_lossy();
    for more in [
        ["--precision", "fp32,fp16"].as_slice(),
        &["--precision", "fp16", "--html", "h.html"],
    ] {
        let args = [
            "--model",
            &*model,
            "--fp16",
            "both",
            "--dump-outputs",
            &dump,
        ];
        let outcome = bench(&[&args[..], more].concat());
        assert_eq!(outcome.code, Some(1), "{more:?}");
        assert!(
            outcome.stderr.contains("fp16 of small was refused"),
            "{}",
            outcome.stderr
        );
        let path = std::path::Path::new(&*dump);
        let tensors = sparkpilot::bench::read_tensors(path).expect("whole");
        let is_named = |name: &String| name.starts_with("small/fp32/");
        assert!(tensors.keys().all(is_named), "{:?}", tensors.keys());
    }
}

#[test]
fn files_with_like_names_are_models_of_their_own() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let mut args = Vec::new();
    for name in ["a/m.onnx", "m_2.onnx", "b/m.onnx"] {
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        std::fs::copy(&model, &path).expect("a writable folder");
        args.extend(["--model".to_owned(), path.to_string_lossy().into_owned()]);
    }
    let dump = folder.path("d.safetensors");
    let outcome = Program::new("bench_supercombo")
        .args(QUICK)
        .args(args)
        .args(["--dump-outputs".as_ref(), dump.as_os_str()])
        .run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let tensors = sparkpilot::bench::read_tensors(&dump).expect("whole");
    for name in ["m/fp32/", "m_2/fp32/", "m_3/fp32/"] {
        assert!(tensors.keys().any(|key| key.starts_with(name)), "{name}");
    }
}

#[test]
fn options_that_would_do_nothing_are_wrong_usage() {
    for (args, word) in [
        (
            ["--write-zoo", "z", "--json", "r.json"].as_slice(),
            "--json",
        ),
        (&["--write-zoo", "z", "--model", "m.onnx"], "--model"),
        (&["--write-zoo", "z", "--precision", "fp16"], "--precision"),
        (&["--fp16", "both"], "--fp16"),
        (&["--bf16", "dot", "--precision", "fp16"], "--bf16"),
        (&["--exact-activations"], "--exact-activations"),
    ] {
        let outcome = Program::new("bench_supercombo").args(args).run();
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(word),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(outcome.files.is_empty(), "{args:?}: {:?}", outcome.files);
    }
}

#[test]
fn rates_are_of_suites_and_comparisons_that_there_were() {
    let gate = |args: &[&str]| {
        let short = ["--comparisons", "1", "--scenarios", "3", "--duration", "1"];
        let outcome = Program::new("check_gate").args(short).args(args).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout
    };
    let text = gate(&["--small", "1", "--changed", "0"]);
    let suites: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("suite of"))
        .collect();
    assert_eq!(suites.len(), 3, "{text}");
    assert!(!text.contains("worse by 1.5 margins"), "{text}");
    let text = gate(&["--small", "0", "--changed", "0"]);
    assert!(
        !text.contains("suite of") && !text.contains("of 0"),
        "{text}"
    );
}

#[test]
fn samples_that_were_to_be_written_and_are_not_are_an_error() {
    let outcome = Program::new("gpu_monitor")
        .args(["1", "csv", "--output", "s.csv"])
        .run();
    // With a GPU they are there, without one it is said.
    let is_written = outcome.files == ["s.csv"];
    let code = i32::from(!is_written);
    assert_eq!(
        outcome.code,
        Some(code),
        "{:?}: {}",
        outcome.files,
        outcome.stderr
    );
    assert_eq!(outcome.stderr.contains("no GPU to watch"), !is_written);
}

#[test]
fn the_worst_case_is_drawn_in_a_folder_that_is_made() {
    let outcome = Program::new("worst_case").args(["a/b/c.svg"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.files, ["a"]);
    let taken = Program::new("worst_case").args(["/dev/null/a/x.svg"]).run();
    assert_eq!(taken.code, Some(1), "{}", taken.stderr);
    assert!(taken.stderr.contains("Not a directory"), "{}", taken.stderr);
}
