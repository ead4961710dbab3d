//! Every command of the program under everything that happens to programs: help, wrong options, a reader that goes
//! away, Ctrl-C in the middle of a file, a folder that may not be written to, a disk that is full.
//!
//! ```text
//! sparkpilot help ──> leaves: "info", "sim run", …   each has a row here, with arguments that are enough for it
//! row: what it prints, and of each file that it writes the option and the name
//! ```
//!
//! The folders are a read-only mount and a full tmpfs in a mount namespace of the test's own, and Ctrl-C comes while
//! `slow_writes.c` holds the first write to a file up. Where the system allows none of that, the test says so.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::files::small_model;
use super::{Folder, Outcome, Program};

/// The program with these arguments.
pub(super) fn sparkpilot(args: &[&str]) -> Program {
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot"))).args(args)
}

/// All commands that have none below them, as `sparkpilot --help` and the helps below it list them.
pub(super) fn leaves() -> Vec<String> {
    let mut open = vec![String::new()];
    let mut leaves = Vec::new();
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
        let help = sparkpilot(&words).run().stdout;
        let Some((_, below)) = help.split_once("\nCommands:\n") else {
            leaves.push(path);
            continue;
        };
        let below = below.lines().take_while(|line| line.starts_with("  "));
        // A name stands two blanks in; what goes on below it stands further in.
        let names = below.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names = names.filter(|name| !name.is_empty() && *name != "help");
        open.extend(names.map(|name| format!("{path} {name}").trim().to_owned()));
    }
    leaves.sort();
    leaves
}

/// A command that is tried.
struct Row {
    path: &'static str,
    /// Enough for it to do its work, without writing a file.
    args: Vec<String>,
    /// Whether it prints to stdout here, and so notices that nobody reads.
    prints: bool,
    /// Of each way to write: what is added, where OUT stands for a place in the folder.
    writes: Vec<Vec<String>>,
}

/// What rows are made of: a model, what it gave, a run of scenarios, chunks of one, a record.
struct World {
    folder: Folder,
}

impl World {
    fn new() -> Self {
        let folder = Folder::new();
        small_model(&folder);
        let world = Self { folder };
        world.done(&["info", "--record", "{record.txt}"]);
        world.done(&[
            "bench",
            "--model",
            "{small.onnx}",
            "--runs",
            "1",
            "--warmup",
            "0",
            "--dump-outputs",
            "{golden.safetensors}",
        ]);
        let drive = [
            "sim",
            "run",
            "--suite",
            "ncap-braking",
            "--controller",
            "perfect",
        ];
        world.done(&[&drive[..], &["--json", "{run.json}"]].concat());
        world.done(&[&drive[..], &["--shard", "1/1", "--folder", "{chunks}"]].concat());
        #[cfg(feature = "dora")]
        super::adapters::made(&world.folder);
        world
    }

    /// Arguments, with `{name}` as the place of a file of this world.
    fn filled(&self, args: &[&str]) -> Vec<String> {
        let place = |name: &str| self.folder.path(name).to_string_lossy().into_owned();
        let filled = args.iter().map(|arg| {
            let name = arg
                .strip_prefix('{')
                .and_then(|name| name.strip_suffix('}'));
            name.map_or_else(|| (*arg).to_owned(), place)
        });
        filled.collect()
    }

    fn done(&self, args: &[&str]) {
        let args = self.filled(args);
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let outcome = sparkpilot(&words).run();
        assert_eq!(outcome.code, Some(0), "{args:?}: {}", outcome.stderr);
    }

    fn rows(&self) -> Vec<Row> {
        let row = |path: &'static str, args: &[&str], writes: &[&[&str]]| Row {
            path,
            args: self.filled(args),
            prints: true,
            writes: writes.iter().map(|args| self.filled(args)).collect(),
        };
        let silent = |row: Row| Row {
            prints: false,
            ..row
        };
        let drive = &["--suite", "ncap-braking", "--controller", "perfect"][..];
        let search = [
            drive,
            &[
                "--vary",
                "speed=5..30",
                "--population",
                "5",
                "--rounds",
                "1",
            ],
        ]
        .concat();
        let sides = [
            "--suite",
            "ncap-braking",
            "--baseline",
            "perfect",
            "--candidate",
            "perfect",
        ];
        let json = &["--json", "OUT"][..];
        let mut rows = vec![
            row("info", &[], &[&["--record", "OUT"]]),
            row(
                "doctor",
                &[],
                &[&["--output", "OUT"], &["--report", "--output", "OUT"]],
            ),
            row("cluster doctor", &["{record.txt}", "this"], &[]),
            row("cluster record", &["-"], &[]),
            silent(row("cluster record", &[], &[&["OUT"]])),
            // Without a GPU there is nothing to watch.
            silent(row("monitor", &["--status"], &[])),
            row(
                "run",
                &["{small.onnx}"],
                &[&["--outputs", "OUT.npz"], &["--outputs", "OUT.safetensors"]],
            ),
            row("inspect", &["{small.onnx}"], &[&["--svg", "OUT"]]),
            row(
                "compare",
                &["{small.onnx}", "--against", "{golden.safetensors}"],
                &[],
            ),
            row(
                "bench",
                &["--model", "{small.onnx}", "--runs", "1", "--warmup", "0"],
                &[
                    json,
                    &["--html", "OUT"],
                    &["--trace", "OUT"],
                    &["--dump-outputs", "OUT"],
                ],
            ),
            row(
                "quantize",
                &["{small.onnx}"],
                &[json, &["--plot", "OUT"], &["--output", "OUT"]],
            ),
            row("sim list", &[], &[]),
            row("sim run", drive, &[json]),
            row("sim merge", &["{chunks}"], &[json]),
            row("sim compare", &sides, &[&["--folder", "OUT"]]),
            row("sim replay", &[drive, &["--output", "-"]].concat(), &[]),
            silent(row("sim replay", drive, &[&["--output", "OUT"]])),
            row(
                "sim search",
                &search,
                &[json, &["--svg", "OUT"], &["--scenario", "OUT.toml"]],
            ),
            row(
                "sim report",
                &["{run.json}"],
                &[json, &["--html", "OUT"], &["--markdown", "OUT"]],
            ),
            row("sim bench", &[drive, &["--runs", "1"]].concat(), &[json]),
            row("zoo", &[], &[&["--folder", "OUT"]]),
            row("completions", &["bash"], &[]),
            row("man", &[], &[&["--folder", "OUT"]]),
        ];
        let drives = spark_testing::test_data("data/drive");
        let drives =
            drives.map_or_else(|| "no drives".to_owned(), |path| path.display().to_string());
        let has_drives = Path::new(&drives).is_dir();
        let picture: &[&[&str]] = if has_drives {
            &[&["--picture", "OUT"]]
        } else {
            &[]
        };
        let logs = row("logs", &[&drives], picture);
        rows.push(Row {
            prints: has_drives,
            ..logs
        });
        if cfg!(feature = "dora") {
            rows.push(row("adapter inspect", &["{adapter}"], &[]));
            rows.push(row("adapter diff", &["{adapter}", "{adapter}"], &[]));
            let converted = &["--storage", "bf16", "--output", "OUT"][..];
            rows.push(silent(row("adapter convert", &["{adapter}"], &[converted])));
        }
        if cfg!(feature = "train") {
            // What they write, and how they are stopped while they do, is tried in `tuning` and `tuning_trouble`.
            for path in [
                "finetune train",
                "finetune resume",
                "finetune eval",
                "finetune frames",
                "finetune merge",
            ] {
                rows.push(silent(row(path, &[], &[])));
            }
        }
        rows
    }
}

/// The path of a command and more arguments.
fn words<'a>(row: &'a Row, more: &'a [String]) -> Vec<&'a str> {
    let args = row.args.iter().chain(more).map(String::as_str);
    row.path.split(' ').chain(args).collect()
}

#[test]
fn every_command_has_a_row_and_help_with_examples() {
    let world = World::new();
    let rows = world.rows();
    let named: BTreeSet<&str> = rows.iter().map(|row| row.path).collect();
    let leaves = leaves();
    let there: BTreeSet<&str> = leaves.iter().map(String::as_str).collect();
    assert_eq!(
        named, there,
        "what `sparkpilot help` lists, and the rows here"
    );
    for row in &rows {
        for flag in ["--help", "-h"] {
            let outcome = sparkpilot(&row.path.split(' ').chain([flag]).collect::<Vec<_>>()).run();
            assert_eq!(outcome.code, Some(0), "{}: {}", row.path, outcome.stderr);
            let example = format!("  sparkpilot {}", row.path);
            let has_example =
                outcome.stdout.contains(&example) && outcome.stdout.contains("Examples:");
            assert!(has_example, "{}: {}", row.path, outcome.stdout);
            let sentence = outcome.stdout.lines().next().unwrap_or_default();
            assert!(sentence.len() > 20, "{}: {sentence}", row.path);
            assert_eq!(outcome.stderr, "", "{}", row.path);
        }
    }
}

#[test]
fn wrong_options_are_one_mistake_and_touch_nothing() {
    for row in World::new().rows() {
        let wrong = ["--no-such-option".to_owned()];
        let outcome = sparkpilot(&words(&row, &wrong)).run();
        assert_eq!(outcome.code, Some(2), "{}: {}", row.path, outcome.stderr);
        assert!(
            outcome.stderr.contains("--no-such-option"),
            "{}",
            outcome.stderr
        );
        assert_eq!(
            (outcome.stdout.as_str(), outcome.files.len()),
            ("", 0),
            "{}",
            row.path
        );
    }
}

#[test]
fn a_reader_that_goes_away_ends_every_command_quietly() {
    for row in World::new().rows().iter().filter(|row| row.prints) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let outcome = sparkpilot(&words(row, &[])).start_with_stdout(writer).end();
        assert_eq!(
            outcome.signal,
            Some(13),
            "{}: {:?} {}",
            row.path,
            outcome.code,
            outcome.stderr
        );
        let told = &outcome.stderr;
        assert!(
            !told.contains("error") && !told.contains("panicked"),
            "{}: {told}",
            row.path
        );
    }
}

/// Which folder a command is to write into.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    ReadOnly,
    Full,
}

/// Mounts the place at `$1`, runs the rest of the arguments there, lists the place into `$2`, ends as the program did.
const IN_PLACE: &str = r#"
place=$1; list=$2; kind=$3; shift 3
if [ "$kind" = full ]; then
    mount -t tmpfs -o size=64k none "$place" || exit 99
    cat /dev/zero > "$place/filler" 2>/dev/null
else
    mount --bind "$place" "$place" || exit 99
    mount -o remount,ro,bind "$place" || exit 99
fi
"$@"
code=$?
ls -AR "$place" > "$list"
exit $code
"#;

/// Runs a command in a namespace of its own; nothing where the system allows none.
fn in_place(program: &Program, place: Place, at: &Path, list: &Path) -> Option<Outcome> {
    let kind = if place == Place::Full {
        "full"
    } else {
        "read-only"
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", IN_PLACE, "sh"]);
    command
        .arg(at)
        .arg(list)
        .arg(kind)
        .arg(program.command.get_program());
    command.args(program.command.get_args());
    for (name, value) in program.command.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(&program.folder.0)
        .stdin(std::process::Stdio::null());
    let output = command.output().ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(99) || stderr.contains("unshare failed") {
        eprintln!("skipped: this system lets nobody mount: {stderr}");
        return None;
    }
    Some(Outcome {
        code: output.status.code(),
        signal: None,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr,
        files: Vec::new(),
    })
}

#[test]
fn places_that_cannot_be_written_to_are_told_and_keep_no_half_file() {
    let world = World::new();
    for row in world.rows() {
        for (more, place) in row
            .writes
            .iter()
            .flat_map(|more| [(more, Place::ReadOnly), (more, Place::Full)])
        {
            let (at, lists) = (Folder::new(), Folder::new());
            let list = lists.path("list");
            let out = at.path("new").to_string_lossy().into_owned();
            let more: Vec<String> = more.iter().map(|arg| arg.replace("OUT", &out)).collect();
            let program = sparkpilot(&words(&row, &more));
            let Some(outcome) = in_place(&program, place, &at.0, &list) else {
                return;
            };
            let context = format!(
                "{} {more:?}: {:?} {}",
                row.path, outcome.code, outcome.stderr
            );
            // A benchmark lists what could not be written beside what was measured, and its answer is no.
            let of_bench = row.path == "bench" && outcome.code == Some(1);
            assert!(outcome.code == Some(5) || of_bench, "{context}");
            let why = match place {
                Place::ReadOnly => "Read-only file system",
                Place::Full => "No space left on device",
            };
            assert!(outcome.stderr.contains(why), "{context}");
            assert!(!outcome.stderr.contains("panicked"), "{context}");
            let left = fs::read_to_string(&list).expect("a list");
            let is_new =
                |line: &&str| !line.is_empty() && !line.ends_with(':') && *line != "filler";
            let left: Vec<&str> = left.lines().filter(is_new).collect();
            // A folder that was made before its first file could not be is empty.
            assert!(
                left.iter().all(|name| *name == "new"),
                "{context}: {left:?}"
            );
            assert!(!Path::new(&out).is_file(), "{context}");
        }
    }
}

/// A library that holds up the first write to a file below `$SLOW_BELOW` half way, and says so in `$SLOW_SAYS`.
const SLOW_WRITES: &str = include_str!("slow_writes.c");

fn slow_writes(folder: &Folder) -> Option<PathBuf> {
    let source = folder.write("slow_writes.c", SLOW_WRITES);
    let library = folder.path("slow_writes.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    match built {
        Ok(status) if status.success() => Some(library),
        _ => {
            eprintln!("skipped: this system has no C compiler");
            None
        }
    }
}

#[test]
fn ctrl_c_in_the_middle_of_a_file_leaves_a_whole_one_or_none() {
    let world = World::new();
    let tools = Folder::new();
    let Some(library) = slow_writes(&tools) else {
        return;
    };
    for row in world.rows() {
        for more in &row.writes {
            let at = Folder::new();
            let place = at.path("new");
            let out = place.to_string_lossy().into_owned();
            let more: Vec<String> = more.iter().map(|arg| arg.replace("OUT", &out)).collect();
            let says = tools.path("says");
            let _ = fs::remove_file(&says);
            let program = sparkpilot(&words(&row, &more));
            let program = program
                .env("LD_PRELOAD", &library)
                .env("SLOW_BELOW", &at.0)
                .env("SLOW_SAYS", &says);
            let running = program.start();
            let context = format!("{} {more:?}", row.path);
            let begin = Instant::now();
            while !says.exists() {
                let waited = begin.elapsed() < Duration::from_secs(60);
                assert!(
                    waited,
                    "{context}: nothing is written; {}",
                    running.text("stderr")
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            running.interrupt();
            // Until the program has noticed, on a machine that is busy too.
            std::thread::sleep(Duration::from_millis(300));
            fs::remove_file(&says).expect("as before");
            let outcome = running.end();
            assert_eq!(
                outcome.signal,
                Some(2),
                "{context}: {:?} {}",
                outcome.code,
                outcome.stderr
            );
            assert!(
                !outcome.stderr.contains("panicked"),
                "{context}: {}",
                outcome.stderr
            );
            whole_or_none(&at.0, &context);
        }
    }
}

/// No file of another name than that of the output, and none that ends in its middle.
fn whole_or_none(folder: &Path, context: &str) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            whole_or_none(&path, context);
            continue;
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_temporary = name.starts_with('.') || name.contains("tmp") || name.contains(".new");
        assert!(!is_temporary, "{context}: {name} stays");
        let bytes = fs::read(&path).expect("a file");
        assert!(!bytes.is_empty(), "{context}: {name} is empty");
        if name.ends_with(".json") || bytes.starts_with(b"{") {
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
            assert!(json.is_ok(), "{context}: {name} is cut");
        }
        if bytes.starts_with(b"<svg") {
            assert!(
                bytes.trim_ascii_end().ends_with(b"</svg>"),
                "{context}: {name} is cut"
            );
        }
        if bytes.starts_with(b"<!doctype html>") {
            assert!(
                bytes.trim_ascii_end().ends_with(b"</html>"),
                "{context}: {name} is cut"
            );
        }
        if name.ends_with(".onnx") {
            sparkpilot::onnx::file::load(&path).expect("a whole model");
        }
    }
}

#[test]
fn a_full_disk_below_stdout_is_one_sentence() {
    if File::options().write(true).open("/dev/full").is_err() {
        eprintln!("skipped: this system has no /dev/full");
        return;
    }
    for row in World::new().rows().iter().filter(|row| row.prints) {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("as before");
        let outcome = sparkpilot(&words(row, &[])).start_with_stdout(full).end();
        assert_eq!(outcome.code, Some(5), "{}: {}", row.path, outcome.stderr);
        assert!(
            outcome.stderr.contains("No space left"),
            "{}: {}",
            row.path,
            outcome.stderr
        );
    }
}
