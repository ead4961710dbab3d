//! `cargo xtask` as people start it.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).output().expect("a program that starts")
}

#[test]
fn help_is_given_behind_any_command_and_wrong_words_are_wrong_usage() {
    for args in [
        ["--help"].as_slice(),
        &["help"],
        &["bench", "--help"],
        &["ci", "-h"],
        &[],
    ] {
        let output = xtask(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            output.stdout.starts_with(b"cargo xtask <command>"),
            "{args:?}"
        );
        assert!(output.stderr.is_empty(), "{args:?}");
    }
    for args in [
        ["frist"].as_slice(),
        &["tidy", "--wriet"],
        &["bench", "--json"],
    ] {
        let output = xtask(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            output.stdout.is_empty() && output.stderr.starts_with(b"error: "),
            "{args:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command
        .stdout(writer)
        .output()
        .expect("a program that starts");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
