//! `sparkpilot doctor --load` and `--verify`, on the CPU, as people start them. What GPUs do is tested in `spark-load`, what is said of it in `spark-hal`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Outcome, Program};

/// On the CPU, whatever the machine has.
fn doctor(args: &[&str]) -> Program {
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")))
        .args(["doctor"])
        .args(args)
        .env("SPARK_DEVICE", "cpu")
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("JSON and nothing else")
}

#[test]
fn without_a_gpu_the_processors_are_loaded_and_the_end_says_so() {
    let outcome = doctor(&["--load", "1s"]).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let why = "SPARK_DEVICE=cpu chooses the CPU";
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    for words in [
        "under load (",
        &format!("GPU: not loaded: {why}"),
        "copy, one thread",
        "GFLOPS",
    ] {
        assert!(
            outcome.stdout.contains(words),
            "{words}: {}",
            outcome.stdout
        );
    }
    assert_eq!(outcome.files, [""; 0]);

    let outcome = doctor(&["--load", "1s", "--json"]).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let report = json(&outcome);
    assert_eq!(report["schema"], "spark-doctor/2");
    assert_eq!(report["load"]["gpu"]["not_loaded"], why);
    assert_eq!(report["load"]["is_partial"], false);
    assert!(report["load"]["host"]["gflops"]["median"].as_f64() > Some(0.0));
}

#[test]
fn ctrl_c_ends_a_load_with_what_was_measured() {
    let begin = Instant::now();
    let running = doctor(&["--load", "10m", "--json"]).start();
    std::thread::sleep(Duration::from_secs(1));
    running.interrupt();
    let outcome = running.end();
    assert_eq!(
        outcome.code,
        Some(130),
        "{:?}: {}",
        outcome.signal,
        outcome.stderr
    );
    assert_eq!(json(&outcome)["load"]["is_partial"], true);
    assert!(begin.elapsed() < Duration::from_secs(100));
}

#[test]
fn the_cpu_is_verified_by_a_network() {
    let outcome = doctor(&["--verify"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", outcome.stdout);
    assert!(lines[1].contains("kernel") && lines[1].ends_with("not examined: no GPU is used"));
    assert!(lines[2].contains("copy") && lines[2].ends_with("not examined: no GPU is used"));
    assert!(lines[3].contains("network") && lines[3].ends_with(" ok"));

    let report = json(&doctor(&["--verify", "--json"]).run());
    assert_eq!(report["schema"], "spark-verify/1");
    assert_eq!(report["trials"][2]["outcome"], "ok");
    // A device that cannot be had is refused, not replaced.
    let refused = doctor(&["--verify"]).env("SPARK_DEVICE", "cuda:77").run();
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    assert!(!refused.stderr.is_empty());
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    for args in [
        &["--load", "0s"][..],
        &["--load", "11m"],
        &["--load", "fast"],
        &["--load", "5s", "--from", "machine.txt"],
        &["--load", "5s", "--verify"],
        &["--verify", "--strict"],
        &["--verify", "--from", "machine.txt"],
        &["--explain", "load.clocks", "--load", "5s"],
    ] {
        let outcome = doctor(args).run();
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
    }
    let told = doctor(&["--explain", "load.bandwidth"]).run();
    assert_eq!(told.code, Some(0));
    assert!(told.stdout.contains("antirez/ds4 #773 (2026-08-10)"));
}
