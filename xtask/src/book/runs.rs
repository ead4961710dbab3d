//! Runs the commands of a page, in its order and in a folder of its own.
//!
//! ```text
//! block at line 40 ──> 40 empty lines and its text ──bash──> $LINENO is the page's line
//!                      set -eEuo pipefail; on an error the line is written down
//! ```
//!
//! A block fails where its exit code is another one than the one it is marked with, where it takes longer than
//! [`SECONDS`], or where it prints an error and ends well. A picture beside the page that its commands draw has to be the one
//! that they draw. The environment is bare: a search path, a home folder of the
//! check's own, no colours.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

use super::finding::Finding;
use super::given::Given;
use super::output;
use super::pages::{self, Block, Kind};
use super::programs::Programs;

/// How long one block may take.
const SECONDS: u32 = 300;
/// Blocks that take longer are named.
const SLOW: Duration = Duration::from_secs(5);

/// What was run, and what was not and why.
#[derive(Debug, Default)]
pub(super) struct Totals {
    n_run: usize,
    n_not_run: usize,
    n_compared: usize,
    lacking: Vec<String>,
}

impl Totals {
    /// Those of another page too.
    pub(super) fn add(&mut self, other: Self) {
        self.n_run += other.n_run;
        self.n_not_run += other.n_not_run;
        self.n_compared += other.n_compared;
        self.lacking.extend(other.lacking);
    }

    /// Blocks that need files that are not there.
    pub(super) fn lacking(self) -> LeftOut {
        self.lacking
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "pages: {} blocks of commands run, {} outputs compared, {} blocks not run, {} lack data",
            self.n_run,
            self.n_compared,
            self.n_not_run,
            self.lacking.len()
        )
    }
}

/// One page.
pub(super) struct Page {
    path: String,
    file: PathBuf,
    text: String,
}

/// How a script ended.
struct Outcome {
    code: Option<i32>,
    /// Of the page, where a command failed.
    line: Option<usize>,
    printed: String,
    took: Duration,
}

impl Page {
    pub(super) fn read(workspace: &Workspace, path: &str) -> Result<Self, Error> {
        let file = workspace.root.join(path);
        let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            text,
        })
    }

    /// Runs every block and compares outputs, or with `write` rewrites those that differ.
    pub(super) fn check(
        &self,
        programs: &Programs,
        given: &Given,
        folder: &Path,
        write: bool,
        totals: &mut Totals,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let n_findings = findings.len();
        let mut find = |line: usize, message: String| {
            findings.push(Finding {
                page: self.path.clone(),
                line,
                message,
            });
        };
        let blocks = match pages::blocks(&self.text) {
            Ok(blocks) => blocks,
            Err((line, message)) => {
                find(line, message);
                return Ok(());
            }
        };
        let place = Place::new(programs, folder, &self.path)?;
        let mut printed: Option<String> = None;
        let mut changed = Vec::new();
        for block in &blocks {
            match &block.kind {
                Kind::Other => continue,
                Kind::NotRun { reason } => {
                    println!("{}:{}: not run: {reason}", self.path, block.line);
                    totals.n_not_run += 1;
                    printed = None;
                }
                Kind::Run { code } => {
                    let lacking = given.link(&block.text, &place.page)?;
                    if !lacking.is_empty() {
                        let what = lacking.join(", ");
                        let what = format!("{}:{}: no {what}", self.path, block.line);
                        totals.lacking.push(what);
                        printed = None;
                        continue;
                    }
                    let outcome = place.run(block)?;
                    totals.n_run += 1;
                    if outcome.took > SLOW {
                        let seconds = outcome.took.as_secs_f64();
                        println!("{}:{}: took {seconds:.1} s", self.path, block.line);
                    }
                    if let Some(message) = outcome.complaint(*code) {
                        find(outcome.line.unwrap_or(block.line), message);
                        printed = None;
                    } else {
                        printed = Some(outcome.printed);
                    }
                }
                Kind::Output { numbers_vary } => {
                    let Some(printed) = printed.take() else {
                        find(block.line, "no command before it was run".to_owned());
                        continue;
                    };
                    totals.n_compared += 1;
                    if output::matches(&block.text, &printed, *numbers_vary) {
                        continue;
                    }
                    if write {
                        changed.push((block, printed));
                    } else {
                        let message = format!(
                            "the command before it prints something else; `cargo xtask book --write` rewrites it:\n{printed}"
                        );
                        find(block.line, message);
                    }
                }
            }
        }
        for picture in pictures(&self.text) {
            let (made, kept) = (place.page.join(picture), self.file.with_file_name(picture));
            let Ok(made) = fs::read(&made) else {
                continue;
            };
            if fs::read(&kept).is_ok_and(|kept| kept == made) {
                totals.n_compared += 1;
            } else if write {
                fs::write(&kept, made).map_err(Error::io("write", &kept))?;
                println!("wrote {}", kept.display());
            } else {
                let message = "differs from what the commands of this page draw; `cargo xtask book --write` replaces it";
                find(0, format!("`{picture}` {message}"));
            }
        }
        if !changed.is_empty() {
            let text = with_outputs(&self.text, &changed);
            fs::write(&self.file, text).map_err(Error::io("write", &self.file))?;
            println!("wrote {}", self.path);
        }
        // What a page made is worth its room only to somebody who looks for a fault.
        if findings.len() == n_findings {
            fs::remove_dir_all(&place.beside).map_err(Error::io("remove", &place.beside))?;
        }
        Ok(())
    }
}

/// Names of the pictures that lie beside a page.
fn pictures(page: &str) -> impl Iterator<Item = &str> {
    let starts = page.match_indices("](");
    let targets =
        starts.filter_map(|(start, opening)| page[start + opening.len()..].split(')').next());
    targets.filter(|target| target.ends_with(".svg") && !target.contains('/'))
}

/// The page with other text in some of its blocks.
fn with_outputs(page: &str, changed: &[(&Block, String)]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (block, printed) in changed.iter().rev() {
        let n_lines = block.text.lines().count();
        let new = printed
            .trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned());
        lines.splice(block.line..block.line + n_lines, new);
    }
    lines.join("\n") + "\n"
}

/// Where a page's commands run.
struct Place {
    page: PathBuf,
    home: PathBuf,
    path: std::ffi::OsString,
    /// Script, output and line of the last block.
    beside: PathBuf,
}

impl Place {
    /// Empty folders.
    fn new(programs: &Programs, folder: &Path, page: &str) -> Result<Self, Error> {
        let beside = folder.join("runs").join(page.replace('/', "+"));
        if beside.is_dir() {
            fs::remove_dir_all(&beside).map_err(Error::io("remove", &beside))?;
        }
        let (page, home, bin) = (beside.join("page"), beside.join("home"), beside.join("bin"));
        for folder in [&page, &home] {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        programs.link(&bin)?;
        let mut path = bin.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Ok(Self {
            page,
            home,
            path,
            beside,
        })
    }

    fn run(&self, block: &Block) -> Result<Outcome, Error> {
        let script = self.beside.join("script");
        let printed = self.beside.join("printed");
        let line = self.beside.join("line");
        let prelude = "set -eEuo pipefail; trap 'echo $LINENO > \"$PAGE_LINE\"' ERR";
        let text = format!("{prelude}{}{}", "\n".repeat(block.line), block.text);
        fs::write(&script, text).map_err(Error::io("write", &script))?;
        fs::write(&line, "").map_err(Error::io("write", &line))?;
        let out = File::create(&printed).map_err(Error::io("write", &printed))?;
        let err = out.try_clone().map_err(Error::io("write", &printed))?;
        let started = Instant::now();
        let mut bash = Command::new("timeout");
        bash.args(["--kill-after=5", &SECONDS.to_string(), "bash"]);
        bash.arg(&script).current_dir(&self.page);
        bash.env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home);
        bash.env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("NO_COLOR", "1");
        bash.env("PAGE_LINE", &line);
        bash.stdin(Stdio::null()).stdout(out).stderr(err);
        let status = bash.status().map_err(|source| Error::Start {
            command: "timeout".to_owned(),
            source,
        })?;
        let took = started.elapsed();
        let printed_bytes = fs::read(&printed).map_err(Error::io("read", &printed))?;
        let failed_at = fs::read_to_string(&line).unwrap_or_default();
        Ok(Outcome {
            code: status.code(),
            line: failed_at
                .lines()
                .next()
                .and_then(|line| line.trim().parse().ok()),
            printed: String::from_utf8_lossy(&printed_bytes).into_owned(),
            took,
        })
    }
}

impl Outcome {
    /// What is wrong with it, if anything.
    fn complaint(&self, wanted: i32) -> Option<String> {
        let ending = match self.code {
            // What `timeout` ends with.
            Some(124 | 137) => format!("took longer than {SECONDS} s"),
            Some(code) if code == wanted => {
                let is_error =
                    |line: &&str| line.starts_with("error: ") || line.contains("panicked at");
                let error = self
                    .printed
                    .lines()
                    .find(is_error)
                    .filter(|_| wanted == 0)?;
                return Some(format!("ended well and printed `{error}`"));
            }
            Some(code) => format!("ended with {code}, not with {wanted}"),
            None => "was ended by a signal".to_owned(),
        };
        // The error, or the end: a usage stands behind the former.
        let is_error = |line: &&str| line.starts_with("error");
        let said = self.printed.lines().find(is_error);
        let said = said.or_else(|| self.printed.trim_end().lines().last());
        Some(format!(
            "{ending}: {}",
            said.unwrap_or("nothing was printed")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named_with_its_line() {
        let folder = std::env::temp_dir().join(format!("xtask-runs-{}", std::process::id()));
        fs::create_dir_all(folder.join("built/examples")).expect("a folder");
        fs::write(folder.join("built/sparkpilot"), "").expect("a file");
        let programs = Programs::of(&folder.join("built")).expect("programs");
        let place = Place::new(&programs, &folder, "docs/p.md").expect("a place");
        let run = |text: &str| {
            let block = Block {
                kind: Kind::Other,
                line: 40,
                text: text.to_owned(),
            };
            place.run(&block).expect("bash starts")
        };
        let good = run("echo one\necho two > file\n");
        assert_eq!((good.complaint(0), good.printed.as_str()), (None, "one\n"));
        let later = run("cat file\n");
        assert_eq!(later.printed, "two\n");
        for (text, line, code) in [
            ("true\nfalse\ntrue\n", 42, 1),
            ("false | cat\n", 41, 1),
            ("for k in 1 2; do\n  test $k = 1\ndone\n", 42, 1),
            ("true\nno-such-program-anywhere\n", 42, 127),
        ] {
            let bad = run(text);
            assert_eq!((bad.code, bad.line), (Some(code), Some(line)), "{text}");
            assert!(
                bad.complaint(0).is_some() && bad.complaint(code).is_none(),
                "{text}"
            );
        }
        let quiet = run("echo 'error: no such thing' >&2\n");
        assert!(
            quiet
                .complaint(0)
                .is_some_and(|message| message.contains("no such thing"))
        );
        fs::remove_dir_all(&folder).expect("a folder");
    }

    #[test]
    fn pictures_beside_a_page_are_known() {
        let page = "![a](a.svg) [b](b.md) ![c](https://c.d/c.svg) ![d](d.svg)";
        assert_eq!(pictures(page).collect::<Vec<_>>(), ["a.svg", "d.svg"]);
    }

    #[test]
    fn outputs_are_put_into_their_blocks() {
        let page =
            "a\n```sh\nx\n```\n```text output\nold\nold\n```\nb\n```sh\n```\n```text output\n```\n";
        let blocks = pages::blocks(page).expect("a page");
        let changed = [
            (&blocks[1], "new \n".to_owned()),
            (&blocks[3], "1\n2\n".to_owned()),
        ];
        let wanted = "a\n```sh\nx\n```\n```text output\nnew\n```\nb\n```sh\n```\n```text output\n1\n2\n```\n";
        assert_eq!(with_outputs(page, &changed), wanted);
    }
}
