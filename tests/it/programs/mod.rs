//! The examples, and by the feature `cli` the program, as people start them: real processes, their exit codes, stdout and stderr.
//!
//! ```text
//! cargo test builds the examples ──> target/<profile>/examples/NAME
//! Program::new(NAME) … .run() ──> Outcome { code or signal, stdout, stderr }, or "it hangs"
//! ```
//!
//! Each program starts in an empty folder of its own, so that a file it leaves is seen.

#[cfg(feature = "dora")]
mod adapters;
mod calibrating;
#[cfg(feature = "cli")]
mod cluster;
mod detectors;
#[cfg(feature = "cli")]
mod doctor_load;
#[cfg(feature = "cli")]
mod doctor_report;
mod errors;
mod files;
mod log;
#[cfg(feature = "cli")]
mod matrix;
mod measured;
#[cfg(feature = "cli")]
mod misuse;
mod monitor;
mod pipes;
#[cfg(feature = "cli")]
mod reports;
#[cfg(feature = "cli")]
mod scenarios;
#[cfg(feature = "cli")]
mod schema;
mod segments;
#[cfg(feature = "cli")]
mod shards;
#[cfg(feature = "cli")]
mod sparkpilot;
#[cfg(feature = "cli")]
mod tensors;
#[cfg(feature = "train")]
mod tuning;
#[cfg(feature = "train")]
mod tuning_begins;
#[cfg(feature = "train")]
mod tuning_shards;
#[cfg(feature = "train")]
mod tuning_trouble;
#[cfg(feature = "cli")]
mod watching;
mod weights;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Every example, and whether this build has it.
const PROGRAMS: [(&str, bool); 18] = [
    ("bench_supercombo", true),
    ("calibrate_model", true),
    ("check_gate", true),
    ("controls_challenge", true),
    ("detect", true),
    ("doctor", true),
    ("embed_dora", cfg!(feature = "dora")),
    ("explicit_copy", true),
    ("finetune", cfg!(feature = "train")),
    ("gpu_monitor", true),
    ("learn_lane_keeping", true),
    ("marl_random", true),
    ("merge_adapter", cfg!(feature = "dora")),
    ("quantize_weights", true),
    ("replay_scenario", cfg!(feature = "pictures")),
    ("simulate_batch", true),
    ("worst_case", true),
    ("zero_copy", true),
];

/// What no program may take here; a machine that is busy with other tests is slow.
const LIMIT: Duration = Duration::from_secs(120);

/// The programs of this build.
fn programs() -> impl Iterator<Item = &'static str> {
    let built = PROGRAMS.iter().filter(|(_, is_built)| *is_built);
    built.map(|(name, _)| *name)
}

/// An empty folder that goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spark-programs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a writable temporary folder");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).expect("a writable folder");
        self.path(name)
    }

    /// A named pipe.
    fn pipe(&self, name: &str) -> PathBuf {
        let made = Command::new("mkfifo").arg(self.path(name)).status();
        assert!(made.expect("mkfifo is there").success());
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a readable folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program to start, in an empty folder and without settings of its own.
struct Program {
    command: Command,
    folder: Folder,
    output: Folder,
}

/// How a program ended.
struct Outcome {
    code: Option<i32>,
    signal: Option<i32>,
    stdout: String,
    stderr: String,
    /// What it left in its folder.
    files: Vec<String>,
}

impl Program {
    fn new(name: &str) -> Self {
        let tests = std::env::current_exe().expect("this program's path");
        let profile = tests
            .parent()
            .and_then(Path::parent)
            .expect("target/<profile>/deps");
        let path = profile.join("examples").join(name);
        assert!(
            path.is_file(),
            "{} is not built: cargo build --examples",
            path.display()
        );
        Self::at(&path)
    }

    /// The program in this file.
    fn at(path: &Path) -> Self {
        let (folder, output) = (Folder::new(), Folder::new());
        // As a terminal starts it, so that it sees Ctrl-C.
        let mut command = if interrupts_are_ignored() {
            let mut command = Command::new("/usr/bin/env");
            command.arg("--default-signal=INT").arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(&folder.0).stdin(Stdio::null());
        for declaration in ::sparkpilot::hal::config::DECLARATIONS {
            command.env_remove(declaration.name);
        }
        command
            .env_remove("RUST_BACKTRACE")
            .env("SPARK_CACHE_DIR", output.path("cache"));
        Self {
            command,
            folder,
            output,
        }
    }

    fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it; stdout and stderr go to files, which no reader has to keep up with.
    fn start(mut self) -> Running {
        let file = |name: &str| File::create(self.output.path(name)).expect("a writable folder");
        self.command.stdout(file("stdout")).stderr(file("stderr"));
        self.start_as_set()
    }

    /// Starts it with the stdout that was set.
    fn start_with_stdout(mut self, stdout: impl Into<Stdio>) -> Running {
        File::create(self.output.path("stdout")).expect("a writable folder");
        let stderr = File::create(self.output.path("stderr")).expect("a writable folder");
        self.command.stdout(stdout).stderr(stderr);
        self.start_as_set()
    }

    /// Starts it with the stderr that is given.
    fn start_with_stderr(self, stderr: impl Into<Stdio>) -> Running {
        let stdout = File::create(self.output.path("stdout")).expect("a writable folder");
        self.start_with_both(stdout, stderr)
    }

    fn start_with_both(mut self, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Running {
        self.command.stdout(stdout).stderr(stderr);
        self.start_as_set()
    }

    fn start_as_set(mut self) -> Running {
        let child = self.command.spawn().expect("a program that starts");
        // The command holds the ends of pipes; what remains of them is the child's.
        self.command = Command::new("");
        Running {
            child,
            program: self,
        }
    }

    fn run(self) -> Outcome {
        self.start().end()
    }
}

struct Running {
    child: Child,
    program: Program,
}

impl Running {
    /// Waits until it ended.
    #[track_caller]
    fn end(mut self) -> Outcome {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child to wait for") {
                break status;
            }
            if begin.elapsed() > LIMIT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("it hangs; stderr: {}", self.text("stderr"));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Outcome {
            code: status.code(),
            signal: status.signal(),
            stdout: self.text("stdout"),
            stderr: self.text("stderr"),
            files: self.program.folder.names(),
        }
    }

    fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.program.output.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a signal as the terminal does for Ctrl-C.
    fn interrupt(&self) {
        let status = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill is there").success());
    }
}

/// Whether Ctrl-C is ignored here: a shell without job control sets that, and what is started
/// from there inherits it.
fn interrupts_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn the_table_names_every_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, PROGRAMS.map(|(name, _)| name));
}

#[test]
fn help_goes_to_stdout_with_a_sentence_and_examples_and_does_nothing_else() {
    for name in programs() {
        for flag in ["--help", "-h"] {
            let outcome = Program::new(name).args([flag]).run();
            assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
            for word in ["Usage:", "Example", name] {
                assert!(outcome.stdout.contains(word), "{name}: {}", outcome.stdout);
            }
            let sentence = outcome.stdout.lines().next().unwrap_or_default();
            assert!(
                sentence.len() > 25,
                "{name} does not say what it does: {sentence}"
            );
            assert_eq!(outcome.stderr, "", "{name}");
            assert!(outcome.files.is_empty(), "{name}: {:?}", outcome.files);
        }
    }
}

#[test]
fn an_unknown_option_is_wrong_usage() {
    for name in programs() {
        let outcome = Program::new(name).args(["--no-such-option"]).run();
        // 1 and 2 are what the doctor found.
        let code = if name == "doctor" { 64 } else { 2 };
        assert_eq!(outcome.code, Some(code), "{name}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("--no-such-option"),
            "{name}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "", "{name}");
        assert!(outcome.files.is_empty(), "{name}: {:?}", outcome.files);
    }
}
