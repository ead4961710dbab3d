//! `gpu_monitor` on a GPU that a stand-in for NVIDIA's library poses: every sample is written
//! when it is taken, and Ctrl-C ends the watch in order.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use spark_testing::{Age, StandIn};

use super::{Folder, Program};

const GPU: &str = "device\nutilization = 10,0 | 50,0\ntemperature = 50\npower_mw = 10000\n";

/// The program on the posed GPU.
fn monitor(posed: &StandIn, args: &[&str]) -> Program {
    let program = Program::new("gpu_monitor")
        .args(args)
        .args(["--interval-ms", "50"]);
    program.env("LD_LIBRARY_PATH", posed.directory())
}

fn pose() -> StandIn {
    let files = StandIn::new().expect("a temporary folder");
    files
        .with_nvml(Age::Current, GPU)
        .expect("a writable folder")
}

#[test]
fn samples_come_through_a_pipe_as_they_are_taken_and_ctrl_c_ends_the_watch() {
    let posed = pose();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let running = monitor(&posed, &["3600", "csv"]).start_with_stdout(writer);
    let mut lines = BufReader::new(reader).lines();
    let mut next = || lines.next().expect("more to come").expect("text");
    assert!(next().starts_with("at_ms,gpu,"));
    // An hour is not over; these rows are.
    for _ in 0..3 {
        assert_eq!(next().split(',').nth(4), Some("50"), "the temperature");
    }
    running.interrupt();
    let outcome = running.end();
    assert_eq!(
        outcome.code,
        Some(130),
        "{:?}: {}",
        outcome.signal,
        outcome.stderr
    );
}

#[test]
fn a_summary_follows_when_the_watch_is_over_or_interrupted() {
    let posed = pose();
    let outcome = monitor(&posed, &["1"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("GPU 0: busy"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("GPU 0 in short"),
        "{}",
        outcome.stdout
    );
    let running = monitor(&posed, &["3600"]).start();
    wait_for(|| running.text("stdout").lines().count() >= 2);
    running.interrupt();
    let outcome = running.end();
    assert_eq!(
        outcome.code,
        Some(130),
        "{:?}: {}",
        outcome.signal,
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("GPU 0 in short"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn samples_go_to_a_file_as_they_are_taken_in_whole_lines() {
    let (posed, folder) = (pose(), Folder::new());
    let path = folder.path("samples.jsonl");
    let file = path.to_string_lossy().into_owned();
    let mut running = monitor(&posed, &["3600", "json", "--output", &file]).start();
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_for(|| text().lines().count() >= 3);
    // Killed, not asked: what is there is whole all the same.
    running.child.kill().expect("a child to kill");
    let outcome = running.end();
    assert_eq!(outcome.stdout, "");
    let text = text();
    assert!(text.ends_with("}\n"), "{text}");
    for line in text.lines() {
        let sample: serde_json::Value = serde_json::from_str(line).expect("an object per line");
        assert_eq!(sample["temperature_c"], 50, "{line}");
    }
}

#[track_caller]
fn wait_for(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
