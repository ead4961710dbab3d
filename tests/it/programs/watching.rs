//! `sparkpilot monitor` in lines, with its recorder and its metrics, on GPUs that a stand-in for NVIDIA's library poses: none, one, eight, one
//! that hangs. The screen is drawn in the tests of the program itself.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use spark_testing::{Age, StandIn};
use sparkpilot::hal::monitor::{Look, utc};

use super::{Folder, Program, Running, schema};

const NO_DRIVER: &str = "init = no_driver\n";
const GB10: &str = "device\nname = NVIDIA GB10\nutilization = 97,0\ntemperature = 50 | 60\npower_mw = 10000\n\
                    sm_clock = 2400\nthrottle = 0x4\nprocesses = 1:4096\n";

fn pose(script: &str) -> StandIn {
    let files = StandIn::new().expect("a temporary folder");
    files
        .with_nvml(Age::Current, script)
        .expect("a writable folder")
}

fn monitor<'a>(posed: &StandIn, args: impl IntoIterator<Item = &'a str>) -> Program {
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")))
        .args(["monitor"])
        .args(args)
        .env("LD_LIBRARY_PATH", posed.directory())
        .env("CUDA", "0")
}

#[track_caller]
fn wait_for(running: &Running, what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        let (out, err) = (running.text("stdout"), running.text("stderr"));
        assert!(begin.elapsed() < Duration::from_secs(60), "{out}\n{err}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Cells of a row, quoted ones whole.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for c in row.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => cells.last_mut().expect("one at least").push(c),
        }
    }
    cells
}

fn column(row: &str, name: &str) -> String {
    let header = Look::csv_header();
    let idx = header.trim_end().split(',').position(|it| it == name);
    cells(row)[idx.expect("a column")].clone()
}

#[test]
fn rows_are_whole_and_there_up_to_the_last_second_when_the_program_is_killed() {
    for (script, n_gpus) in [(NO_DRIVER, 1), (GB10, 1), (&*GB10.repeat(8), 8)] {
        let (posed, folder) = (pose(script), Folder::new());
        let path = folder.path("looks.csv");
        let file = path.to_string_lossy().into_owned();
        // The name says the form.
        let args = ["--interval", "100ms", "--output", &file];
        let mut running = monitor(&posed, args).start();
        let text = || fs::read_to_string(&path).unwrap_or_default();
        wait_for(&running, || text().lines().count() > 10 * n_gpus);
        running.child.kill().expect("a child to kill");
        let killed = SystemTime::now();
        let outcome = running.end();
        assert_eq!((outcome.signal, &*outcome.stdout), (Some(9), ""));
        let text = text();
        assert!(text.ends_with('\n'), "{text}");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(Look::csv_header().trim_end()));
        let n_columns = Look::csv_header().split(',').count();
        let mut times: Vec<String> = Vec::new();
        for line in lines {
            assert_eq!(cells(line).len(), n_columns, "{line}");
            assert_eq!(column(line, "schema"), "sparkpilot-monitor/1");
            assert!(!column(line, "memory_available_bytes").is_empty(), "{line}");
            times.push(column(line, "time"));
        }
        assert!(times.is_sorted(), "{times:?}");
        let last = times.last().expect("rows");
        let (from, to) = (utc(killed - Duration::from_secs(1)), utc(killed));
        assert!(from <= *last && *last <= to, "{from} {last} {to}");
        // The last look is there for every GPU.
        assert_eq!(times.iter().filter(|time| *time == last).count(), n_gpus);
    }
}

/// A file that can grow no further, as on a full disk, ends with its last whole row.
#[test]
fn a_full_disk_leaves_no_half_of_a_row() {
    let (posed, folder) = (pose(&GB10.repeat(3)), Folder::new());
    let path = folder.path("looks.csv");
    let watch = r#"trap '' XFSZ; ulimit -f 4; exec "$0" "$@""#;
    let program = env!("CARGO_BIN_EXE_sparkpilot");
    let outcome = Program::at(Path::new("/bin/sh"))
        .args([
            "-c",
            watch,
            program,
            "monitor",
            "--interval",
            "10ms",
            "--output",
        ])
        .args([&path])
        .env("LD_LIBRARY_PATH", posed.directory())
        .env("CUDA", "0")
        .run();
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("looks.csv"), "{}", outcome.stderr);
    let text = fs::read_to_string(&path).expect("is there");
    assert!(text.ends_with('\n') && text.lines().count() > 1, "{text}");
    let n_columns = cells(&Look::csv_header()).len();
    for row in text.lines() {
        assert_eq!(cells(row).len(), n_columns, "{row}");
    }
}

#[test]
fn without_a_gpu_the_machine_is_told_all_the_same() {
    let posed = pose(NO_DRIVER);
    let outcome = monitor(&posed, ["--status"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("  CPU "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" GiB, swap "), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("GPUs: none to watch: "),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.stdout.lines().count(), 2);
    let outcome = monitor(&posed, ["--status", "--form", "csv"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let row = outcome.stdout.lines().nth(1).expect("a row");
    assert_eq!(column(row, "gpu"), "");
    assert!(column(row, "failures").starts_with("GPUs: "), "{row}");
    assert!(!column(row, "cpu_busy_percent").is_empty(), "{row}");
}

#[test]
fn a_line_of_json_has_the_machine_and_every_gpu() {
    let posed = pose(&GB10.repeat(8));
    let outcome = monitor(&posed, ["--duration", "1", "--form", "json"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let mut times = Vec::new();
    for line in outcome.stdout.lines() {
        let look: Value = serde_json::from_str(line).expect("an object per line");
        assert_eq!(look["schema"], "sparkpilot-monitor/1");
        let gpus = look["gpus"].as_array().expect("GPUs");
        assert_eq!(gpus.len(), 8, "{line}");
        assert_eq!(gpus[7]["name"], "NVIDIA GB10");
        assert_eq!(gpus[7]["throttle"][0], "power_cap");
        assert!(
            look["memory"]["total_bytes"].as_u64() > Some(1 << 20),
            "{line}"
        );
        assert!(
            look["processes"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        );
        times.push(look["time"].as_str().expect("a time").to_owned());
    }
    assert!(!times.is_empty() && times.is_sorted(), "{times:?}");
    assert!(times[0].ends_with('Z') && times[0].len() == 24, "{times:?}");
}

#[test]
fn a_driver_that_hangs_holds_up_neither_lines_nor_their_end() {
    let posed = pose(&GB10.replace("50 | 60", "50 | hang"));
    let args = ["--form", "csv", "--interval", "200ms"];
    let running = monitor(&posed, args).start();
    wait_for(&running, || running.text("stdout").lines().count() > 10);
    running.interrupt();
    let interrupted = Instant::now();
    let outcome = running.end();
    assert_eq!(outcome.code, Some(130), "{}", outcome.stderr);
    assert!(interrupted.elapsed() < Duration::from_secs(10));
    let rows: Vec<&str> = outcome.stdout.lines().skip(1).collect();
    assert_eq!(column(rows[0], "gpu_temperature_c"), "50");
    let last = rows[rows.len() - 1];
    assert_eq!(column(last, "gpu_temperature_c"), "", "no number of before");
    let failures = column(last, "failures");
    assert!(failures.starts_with("GPUs: no answer for "), "{failures}");
    assert!(!column(last, "cpu_busy_percent").is_empty(), "{last}");
}

#[test]
fn a_summary_of_gpus_follows_lines_for_people() {
    let posed = pose(GB10);
    let outcome = monitor(&posed, ["--duration", "1s", "--interval-ms", "100"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let wanted = "GPU 0: busy 97 %, 2400 MHz, 60 C, 10.0 W, ";
    assert!(outcome.stdout.contains(wanted), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains(", held back: power_cap\n"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("GPU 0 in short:\nsamples"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn an_anomaly_is_on_the_disk_with_what_came_before_when_the_program_is_killed() {
    let (posed, folder) = (
        pose(&GB10.replace("50 | 60", "50 | 50 | 50 | 50 | 95")),
        Folder::new(),
    );
    let place = folder.path("kept/anomalies");
    let place_text = place.to_string_lossy().into_owned();
    let args = [
        "--record-anomalies",
        &place_text,
        "--interval",
        "100ms",
        "--form",
        "json",
    ];
    let mut running = monitor(&posed, args).start();
    wait_for(&running, || {
        running.text("stderr").contains("hot: recorded in ")
    });
    running.child.kill().expect("a child to kill");
    running.end();
    let mut files: Vec<_> = fs::read_dir(&place).expect("a folder").collect();
    assert_eq!(files.len(), 1);
    let file = files.remove(0).expect("an entry").path();
    let text = fs::read_to_string(file).expect("text");
    assert!(text.ends_with('\n'));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object per line"))
        .collect();
    assert_eq!(lines[0]["schema"], "sparkpilot-anomaly/1");
    lines.iter().for_each(schema::check);
    assert_eq!(lines[0]["crossed"][0]["limit"], "hot");
    assert_eq!(lines[0]["crossed"][0]["words"], "95 C, above 85");
    let celsius = |line: &Value| line["gpus"][0]["temperature_c"].as_u64();
    let before = lines
        .iter()
        .filter(|line| celsius(line) == Some(50))
        .count();
    assert!(before >= 3, "{text}");
    assert!(lines.iter().any(|line| celsius(line) == Some(95)), "{text}");
}

#[test]
fn metrics_are_at_the_loopback_address_while_the_watch_goes_on() {
    let posed = pose(GB10);
    let args = ["--prometheus", "0", "--form", "json", "--interval", "100ms"];
    let running = monitor(&posed, args).start();
    let address = || {
        let told = running.text("stderr");
        let rest = told.split("metrics at http://").nth(1)?;
        Some(rest.split('/').next()?.to_owned())
    };
    wait_for(&running, || address().is_some());
    let address = address().expect("it was told");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let metric = "sparkpilot_gpu_busy_ratio{gpu=\"0\",name=\"NVIDIA GB10\"} 0.97\n";
    assert!(answer.contains(metric), "{answer}");
    // Nobody can have it twice.
    let port = address.rsplit(':').next().expect("a port");
    let taken = monitor(&posed, ["--duration", "1h", "--prometheus", port]).run();
    assert_eq!(taken.code, Some(5), "{}", taken.stderr);
    assert!(
        taken.stderr.contains(&format!("127.0.0.1:{port}")),
        "{}",
        taken.stderr
    );
    running.interrupt();
    assert_eq!(running.end().code, Some(130));
}

#[test]
fn spans_that_are_none_are_wrong_usage() {
    let posed = pose(NO_DRIVER);
    for args in [
        &["--interval", "9ms"][..],
        &["--interval", "2h"],
        &["--interval", "soon"],
        &["--interval", "1s", "--interval-ms", "1000"],
        &["--interval-ms", "9"],
        &["--duration", "0"],
        &["--duration", "1.5s"],
        &["--status", "--interval", "1s"],
        &["--prometheus", "65536"],
    ] {
        let outcome = monitor(&posed, args.iter().copied()).run();
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{args:?}");
    }
}
