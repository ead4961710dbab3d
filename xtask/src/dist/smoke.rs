//! What was packed, unpacked and run: on this machine, under an emulator, and in a Debian that has nothing else.
//!
//! ```text
//! tarball ─> unpack ─> --version, info, doctor, bench --quick     a foreign program by qemu, on the C library of its kind
//! .deb    ─> mmdebstrap minbase ─> dpkg -i ─> the same, dpkg -V ─> dpkg -r: no file is left or changed
//!         └> of a foreign kind: unpacked, --version
//! ```
//!
//! None of these has a driver of NVIDIA's, and that is no error. The emulator tests answers, not speed.

use std::path::Path;
use std::process::{Command, Output};

use super::release::{Packed, empty};
use crate::command;
use crate::error::{Error, LeftOut};

/// The oldest Debian that is still looked after: its C library is newer than what is promised, and `program` checks that promise.
const DEBIAN: &str = "bookworm";

/// Words after the program's name, and exit codes that are answers: `doctor` may find something.
const COMMANDS: [(&[&str], &[i32]); 3] = [
    (&["info"], &[0]),
    (&["doctor"], &[0, 1]),
    (&["bench", "--quick"], &[0]),
];

/// Unpacks the tarball, and starts the program without measuring anything.
///
/// # Errors
///
/// [`Error::Promise`] for an answer that is none.
pub(super) fn starts(packed: &Packed, folder: &Path, host: &str) -> Result<(), Error> {
    let program = unpacked(packed, folder)?;
    let start = || packed.target.runs(&program, host);
    says_its_version(packed, start().map_err(Error::Usage)?)?;
    for (words, codes) in &COMMANDS[..2] {
        answers(start().map_err(Error::Usage)?.args(*words), codes)?;
    }
    Ok(())
}

/// Runs what was packed for one target, and tells what this machine lacks for that.
///
/// # Errors
///
/// [`Error::Promise`] for a program that fails, and for a package that leaves something behind; tools that fail.
pub(super) fn check(packed: &Packed, folder: &Path, host: &str) -> Result<LeftOut, Error> {
    let program = unpacked(packed, folder)?;
    let start = || packed.target.runs(&program, host);
    match start() {
        Err(what) => return Ok(vec![what]),
        Ok(program) => says_its_version(packed, program)?,
    }
    for (words, codes) in COMMANDS {
        answers(start().map_err(Error::Usage)?.args(words), codes)?;
    }
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if packed.target.triple != host {
        let files = folder.join("deb");
        empty(&files)?;
        let mut dpkg = Command::new("dpkg-deb");
        command::run(dpkg.arg("--extract").arg(&packed.deb).arg(&files))?;
        let program = files.join("usr/bin/sparkpilot");
        let program = packed.target.runs(&program, host).map_err(Error::Usage)?;
        says_its_version(packed, program)?;
        return Ok(LeftOut::new());
    }
    if !is_there("mmdebstrap") {
        return Ok(vec![
            "a clean Debian: apt-get install mmdebstrap".to_owned(),
        ]);
    }
    in_clean_debian(packed, &folder.join("root"))?;
    Ok(LeftOut::new())
}

/// The program of a tarball, unpacked into an empty folder.
fn unpacked(packed: &Packed, folder: &Path) -> Result<std::path::PathBuf, Error> {
    let folder = folder.join("tarball");
    empty(&folder)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]);
    tar.arg(&packed.tarball).arg("--directory").arg(&folder);
    command::run(&mut tar)?;
    Ok(folder.join("bin/sparkpilot"))
}

fn says_its_version(packed: &Packed, mut program: Command) -> Result<(), Error> {
    let output = answers(program.arg("--version"), &[0])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let want = format!("sparkpilot {}", packed.version);
    if text.trim() == want {
        return Ok(());
    }
    let why = format!("it says `{}`, and not `{want}`", text.trim());
    Err(Error::Promise {
        path: packed.tarball.clone(),
        why,
    })
}

/// Runs a command, shows what it says, and refuses other exit codes than these, silence and panics.
fn answers(command: &mut Command, codes: &[i32]) -> Result<Output, Error> {
    command.env_remove("LD_LIBRARY_PATH");
    println!("== {}", command::shown(command));
    let output = command.output().map_err(|source| Error::Start {
        command: command::shown(command),
        source,
    })?;
    let says = String::from_utf8_lossy(&output.stdout);
    let complains = String::from_utf8_lossy(&output.stderr);
    print!("{says}{complains}");
    let is_good = output
        .status
        .code()
        .is_some_and(|code| codes.contains(&code));
    if is_good && !says.trim().is_empty() && !complains.contains("panicked") {
        return Ok(output);
    }
    Err(Error::Command {
        command: command::shown(command),
        code: output.status.code(),
    })
}

/// Installs the package into a Debian of its essential packages alone, runs the program there and removes it.
fn in_clean_debian(packed: &Packed, root: &Path) -> Result<(), Error> {
    if root.exists() {
        command::run(as_root("rm").args(["-rf", "--one-file-system"]).arg(root))?;
    }
    println!("== a Debian {DEBIAN} in {}", root.display());
    let mut debian = as_root("mmdebstrap");
    debian.args(["--quiet", "--variant=minbase"]);
    debian.arg(format!("--architectures={}", packed.target.debian));
    command::run(debian.arg(DEBIAN).arg(root))?;
    let package = "/sparkpilot.deb";
    command::run(as_root("cp").arg(&packed.deb).arg(root.join(&package[1..])))?;
    let before = listing(root)?;
    answers(inside(root).args(["dpkg", "--install", package]), &[0])?;
    if listing(root)? == before {
        let why = "it installs nothing".to_owned();
        let path = packed.deb.clone();
        return Err(Error::Promise { path, why });
    }
    let mut version = inside(root);
    version.arg("sparkpilot");
    says_its_version(packed, version)?;
    for (words, codes) in COMMANDS {
        answers(inside(root).arg("sparkpilot").args(words), codes)?;
    }
    // It says nothing where every file has its sum.
    command::run(inside(root).args(["dpkg", "--verify", "sparkpilot"]))?;
    answers(inside(root).args(["dpkg", "--remove", "sparkpilot"]), &[0])?;
    let after = listing(root)?;
    if after != before {
        let others = after
            .lines()
            .filter(|line| !before.lines().any(|it| it == *line));
        let others: Vec<&str> = others.take(5).collect();
        let why = format!(
            "it leaves something behind or takes it away: {}",
            others.join(", ")
        );
        let path = packed.deb.clone();
        return Err(Error::Promise { path, why });
    }
    command::run(as_root("rm").args(["-rf", "--one-file-system"]).arg(root))
}

/// A command in the root, with processes and a `/proc` of its own.
fn inside(root: &Path) -> Command {
    let mut command = as_root("unshare");
    command.args(["--mount", "--pid", "--fork"]);
    command.arg(format!("--mount-proc={}", root.join("proc").display()));
    command.arg("chroot").arg(root);
    command.args([
        "/usr/bin/env",
        "-i",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL=C.UTF-8",
    ]);
    command
}

/// Every file with its kind and mode, but for what dpkg itself remembers.
fn listing(root: &Path) -> Result<String, Error> {
    let mut find = as_root("find");
    find.arg(root).args(["-xdev", "("]);
    let of_dpkg = ["proc", "var/lib/dpkg", "var/log", "var/cache"];
    for (idx, name) in of_dpkg.iter().enumerate() {
        if idx > 0 {
            find.arg("-o");
        }
        find.arg("-path").arg(root.join(name));
    }
    find.args([")", "-prune", "-o", "-printf", "%y %m %P\\n"]);
    let text = command::output_of(&mut find)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

/// A program started as root, by sudo where this is somebody else.
fn as_root(program: &str) -> Command {
    let id = Command::new("id").arg("-u").output();
    if id.is_ok_and(|output| output.stdout.trim_ascii() == b"0") {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.arg(program);
    sudo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", text]);
        shell
    }

    #[test]
    fn silence_panics_and_other_codes_are_no_answers() {
        assert!(answers(&mut shell("echo yes; exit 1"), &[0, 1]).is_ok());
        for text in [
            "true",
            "echo yes; exit 2",
            "echo yes; echo panicked >&2",
            "kill -9 $$",
        ] {
            assert!(answers(&mut shell(text), &[0, 1]).is_err(), "{text}");
        }
    }
}
