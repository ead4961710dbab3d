//! Runs the suites of a bundle on a GPU machine.
//!
//! ```text
//! for each suite   program under SPARK_REQUIRE_GPU=1, in a process group of its own
//!                    stdout, stderr ──> screen and <out>/<suite>.log, as they come
//!                    after eight minutes the whole group is ended
//! <out>/report.json   the machine, the compiler, every suite
//! ```
//!
//! A suite that fails or hangs does not keep the others from running; the exit status says in the
//! end whether all passed. Only needs of a suite that a machine may lack (compute-sanitizer)
//! make it `skipped`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::nvrtc::{self, Nvrtc};
use super::outcome::{End, Outcome, Output};
use crate::error::Error;

/// What one suite may take.
const LIMIT: Duration = Duration::from_secs(480);

/// One program to run.
#[derive(Debug)]
struct Suite {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// A tool that runs the program, which the machine may lack.
    under: Option<&'static [&'static str]>,
}

const fn suite(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Suite {
    Suite {
        name,
        program,
        arguments,
        under: None,
    }
}

const TESTS: &[&str] = &["--test-threads=4", "--show-output"];
/// Tests provoke errors of the driver on purpose, and loading a kernel asks for one parameter too many.
const MEMCHECK: &[&str] = &[
    "compute-sanitizer",
    "--tool",
    "memcheck",
    "--report-api-errors",
    "no",
    "--error-exitcode=9",
];
const RACECHECK: &[&str] = &[
    "compute-sanitizer",
    "--tool",
    "racecheck",
    "--error-exitcode=9",
];
/// Watched programs are slow, so they leave out what is timed. The sanitiser loses launches that
/// several threads make at once (seen with 2025.3.1: "failure to track a kernel launch").
const WATCHED: &[&str] = &["--test-threads=1", "--skip=timed", "--skip=threads"];

/// In the order in which they run: what is short and says most comes first.
const SUITES: &[Suite] = &[
    suite("machine", "detect", &[]),
    suite("doctor", "doctor", &[]),
    suite("mem", "spark-mem-gpu-tests", TESTS),
    suite("quant", "spark-quant-gpu-tests", TESTS),
    suite(
        "sim",
        "spark-sim-gpu-tests",
        &["--test-threads=1", "--show-output", "--skip=timed"],
    ),
    suite(
        "sim-rollouts-timed",
        "spark-sim-gpu-tests",
        &["--test-threads=1", "--nocapture", "timed"],
    ),
    suite(
        "networks",
        "spark-openpilot-gpu-tests",
        &["--test-threads=1", "--show-output"],
    ),
    suite("mem-bench", "mem-bench", &["--bench"]),
    Suite {
        name: "mem-memcheck",
        program: "spark-mem-gpu-tests",
        arguments: WATCHED,
        under: Some(MEMCHECK),
    },
    Suite {
        name: "mem-racecheck",
        program: "spark-mem-gpu-tests",
        arguments: WATCHED,
        under: Some(RACECHECK),
    },
    Suite {
        name: "quant-memcheck",
        program: "spark-quant-gpu-tests",
        arguments: WATCHED,
        under: Some(MEMCHECK),
    },
];

/// What is asked for on the command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) bundle: PathBuf,
    pub(crate) out: Option<PathBuf>,
    /// Beginnings of names; everything if empty.
    pub(crate) only: Vec<String>,
    /// Print the names and run nothing.
    pub(crate) list: bool,
}

/// Runs them.
///
/// # Errors
///
/// [`Error::Usage`] if `only` names nothing; files that cannot be written;
/// [`Error::Suites`] with the number of suites that failed.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let is_wanted = |suite: &&Suite| {
        options.only.is_empty() || options.only.iter().any(|name| suite.name.starts_with(name))
    };
    let wanted: Vec<&Suite> = SUITES.iter().filter(is_wanted).collect();
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if let Some(none) = options
        .only
        .iter()
        .find(|only| !names.iter().any(|name| name.starts_with(only.as_str())))
    {
        return Err(Error::Usage(format!(
            "no suite `{none}`; there are {}",
            names.join(", ")
        )));
    }
    let bundle = fs::canonicalize(&options.bundle).map_err(Error::io("find", &options.bundle))?;
    let out = options.out.clone().unwrap_or_else(|| bundle.join("out"));
    fs::create_dir_all(&out).map_err(Error::io("make", &out))?;
    let compiler = nvrtc::find(&bundle);
    let machine = machine();
    println!("{}", machine["gpu"].as_str().unwrap_or("no nvidia-smi"));
    println!("NVRTC: {compiler:?}");
    let mut outcomes = Vec::new();
    for suite in wanted {
        println!("== {}", suite.name);
        outcomes.push(run_suite(suite, &bundle, &out, &compiler)?);
        // Written anew after every suite: a machine may be taken back at any time.
        write_report(&out.join("report.json"), &machine, &compiler, &outcomes)?;
    }
    println!();
    for outcome in &outcomes {
        println!("{}", outcome.line());
        for figure in outcome.output.figures() {
            println!("    {figure}");
        }
    }
    match outcomes.iter().filter(|row| row.end.is_failure()).count() {
        0 => Ok(()),
        n_failed => Err(Error::Suites { n_failed }),
    }
}

fn run_suite(suite: &Suite, bundle: &Path, out: &Path, compiler: &Nvrtc) -> Result<Outcome, Error> {
    let log = format!("{}.log", suite.name);
    let mut outcome = Outcome {
        suite: suite.name.to_owned(),
        end: End::Skipped,
        why: None,
        took: Duration::ZERO,
        output: Output::default(),
        log: None,
    };
    let program = bundle.join(suite.program);
    let mut command = match suite.under {
        None => Command::new(&program),
        Some([tool, flags @ ..]) if is_in_path(tool) => {
            let mut command = Command::new(tool);
            command.args(flags).arg(&program);
            command
        }
        Some(tool) => {
            let tool = tool.first().unwrap_or(&"tool for it");
            outcome.why = Some(format!("this machine has no {tool}"));
            return Ok(outcome);
        }
    };
    command
        .args(suite.arguments)
        .envs(environment(bundle, compiler));
    let path = out.join(&log);
    let file = File::create(&path).map_err(Error::io("write", &path))?;
    let started = Instant::now();
    (outcome.end, outcome.why) = match watch(&mut command, file, &mut outcome.output) {
        Ok(end) => end,
        Err(source) => (End::NotStarted, Some(source.to_string())),
    };
    if outcome.end == End::Passed && outcome.output.ran_nothing() {
        outcome.end = End::Failed;
        outcome.why = Some("no test ran".to_owned());
    }
    outcome.took = started.elapsed();
    outcome.log = Some(log);
    Ok(outcome)
}

/// What every suite is told. A skip is a failure, the GPU is the device, and compiled kernels are
/// kept in the bundle.
fn environment(bundle: &Path, compiler: &Nvrtc) -> Vec<(&'static str, std::ffi::OsString)> {
    let mut variables = vec![
        ("SPARK_REQUIRE_GPU", "1".into()),
        ("CUDA", "1".into()),
        ("SPARK_CACHE_DIR", bundle.join("cache").into_os_string()),
    ];
    if let Nvrtc::In(folder) = compiler {
        let mut path = folder.clone().into_os_string();
        if let Some(before) = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
            path.push(":");
            path.push(before);
        }
        variables.push(("LD_LIBRARY_PATH", path));
    }
    variables
}

/// Starts a program, passes on and reads what it prints, and waits for it.
fn watch(
    command: &mut Command,
    mut log: File,
    output: &mut Output,
) -> std::io::Result<(End, Option<String>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (lines, received) = mpsc::channel();
    pass_on(child.stdout.take(), lines.clone());
    pass_on(child.stderr.take(), lines);
    let deadline = Instant::now() + LIMIT;
    let mut is_late = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(line) => {
                // A closed screen must not end the run; the log is what counts.
                let _ = writeln!(std::io::stdout().lock(), "{line}");
                writeln!(log, "{line}")?;
                output.add(&line);
            }
            // Both ends closed: it is over, or will be at once.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                is_late = true;
                end_group(&child);
                break;
            }
        }
    }
    // A program that closes its output and goes on is ended at the deadline too.
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            is_late = true;
            end_group(&child);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = child.wait()?;
    Ok(match (is_late, status.success()) {
        (true, _) => (
            End::TimedOut,
            Some(format!("ended after {} s", LIMIT.as_secs())),
        ),
        (false, true) => (End::Passed, None),
        (false, false) => (End::Failed, Some(status.to_string())),
    })
}

fn pass_on(stream: Option<impl Read + Send + 'static>, lines: Sender<String>) {
    let Some(stream) = stream else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            if lines
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
}

/// Ends a program and everything it started.
fn end_group(child: &Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
}

fn is_in_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// What the driver's own tool says of the GPU, and what the kernel says of the processors.
fn machine() -> Value {
    let query = "--query-gpu=name,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.memory,power.limit";
    let asked = Command::new("nvidia-smi")
        .args([query, "--format=csv,noheader"])
        .output();
    let gpu = asked
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let n_processors = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "gpu": gpu,
        "processor": model.and_then(|line| line.split_once(": ")).map(|(_, model)| model),
        "processors": n_processors,
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

/// Writes the report under another name and renames it, so that it is always whole.
fn write_report(
    path: &Path,
    machine: &Value,
    compiler: &Nvrtc,
    outcomes: &[Outcome],
) -> Result<(), Error> {
    let report = json!({
        "machine": machine,
        "nvrtc": match compiler {
            Nvrtc::In(folder) => folder.display().to_string(),
            Nvrtc::Installed => "installed".to_owned(),
            Nvrtc::Absent => "absent".to_owned(),
        },
        "suites": outcomes.iter().map(Outcome::json).collect::<Vec<_>>(),
    });
    let temporary = path.with_extension("json.tmp");
    fs::write(&temporary, format!("{report:#}\n")).map_err(Error::io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("rename", &temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(name: &str) -> PathBuf {
        let name = format!("spark-xtask-suites-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn script(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mut chmod = Command::new("chmod");
        assert!(chmod.arg("+x").arg(&path).status().unwrap().success());
    }

    #[test]
    fn a_suite_that_fails_or_is_missing_does_not_stop_the_others() {
        let folder = bundle("fails");
        script(
            &folder,
            "spark-mem-gpu-tests",
            "echo 'test a ... FAILED'; exit 101",
        );
        script(
            &folder,
            "spark-sim-gpu-tests",
            "echo 'test b ... ok'; echo \"figure: $SPARK_REQUIRE_GPU = 1\" >&2",
        );
        let options = Options {
            bundle: folder.clone(),
            out: None,
            only: vec!["mem".to_owned(), "quant".to_owned(), "sim".to_owned()],
            list: false,
        };
        // mem and mem-bench and quant fail, what needs the sanitiser is skipped or fails too.
        assert!(matches!(run(&options), Err(Error::Suites { n_failed }) if n_failed >= 3));
        let report = fs::read_to_string(folder.join("out/report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let row = |name: &str| -> Value {
            let rows = report["suites"].as_array().unwrap();
            rows.iter()
                .find(|row| row["suite"] == name)
                .unwrap()
                .clone()
        };
        assert_eq!(row("mem")["end"], "failed");
        assert_eq!(row("mem")["failed"][0], "a");
        assert_eq!(row("quant")["end"], "not started");
        assert_eq!(row("sim")["end"], "passed");
        assert_eq!(row("sim")["figures"][0], "1 = 1");
        let log = fs::read_to_string(folder.join("out/sim.log")).unwrap();
        assert!(log.contains("test b ... ok") && log.contains("figure"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_that_no_suite_has_is_refused() {
        let options = Options {
            bundle: std::env::temp_dir(),
            out: None,
            only: vec!["men".to_owned()],
            list: false,
        };
        assert!(matches!(run(&options), Err(Error::Usage(text)) if text.contains("mem-bench")));
    }
}
