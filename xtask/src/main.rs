//! Workspace automation, run as `cargo xtask <command>`.
//!
//! ```text
//! args ──> main ──┬─> build, test     cargo with the workspace's usual flags
//!                 ├─> ci              every check, timed, stops at the first failure
//!                 ├─> tidy            what compilers cannot check
//!                 ├─> kernels         every .cu file through NVIDIA's compiler
//!                 ├─> gpu             a bundle of tests and benches for a GPU machine
//!                 ├─> aarch64         Arm's vector code, under an emulator
//!                 ├─> sanitize        memory and threads watched while tests run
//!                 └─> bench           run, record, compare, plot
//! ```
//!
//! It depends on `serde_json` alone, so that it compiles in seconds, and it never
//! depends on the crates it checks.

#![allow(
    clippy::print_stdout,
    reason = "a command line tool; its output is its product"
)]

mod aarch64;
mod args;
mod bench;
mod ci;
mod command;
mod error;
mod gpu;
mod kernels;
mod layers;
mod sanitize;
mod tidy;
mod workspace;

use std::process::ExitCode;

use args::{Args, HELP};
use error::Error;
use workspace::Workspace;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: Vec<String>) -> Result<(), Error> {
    let mut args = Args::new(words);
    let command = args.subcommand()?;
    match command.as_deref() {
        None | Some("help") => {
            println!("{HELP}");
            Ok(())
        }
        Some("build") => {
            let release = args.flag("--release");
            args.finish()?;
            command::build(&Workspace::load()?, release)
        }
        Some("test") => command::test(&Workspace::load()?, &args.rest()),
        Some("ci") => {
            let mut skipped = Vec::new();
            while let Some(step) = args.value("--skip")? {
                skipped.push(step);
            }
            args.finish()?;
            ci::run(&Workspace::load()?, &skipped)
        }
        Some("tidy") => {
            let write = args.flag("--write");
            args.finish()?;
            tidy::run(&Workspace::load()?, write)
        }
        Some("kernels") => {
            args.finish()?;
            kernels::run(&Workspace::load()?)
        }
        Some("gpu") => {
            let mut targets = Vec::new();
            while let Some(target) = args.value("--target")? {
                targets.push(target);
            }
            args.finish()?;
            gpu::run(&Workspace::load()?, &targets)
        }
        Some("aarch64") => {
            args.finish()?;
            aarch64::run(&Workspace::load()?)
        }
        Some("sanitize") => {
            args.finish()?;
            sanitize::run(&Workspace::load()?)
        }
        Some("bench") => {
            let options = bench::Options {
                filter: args.value("--filter")?,
                quick: args.flag("--quick"),
                json: args.value("--json")?.map(Into::into),
            };
            args.finish()?;
            bench::run(&Workspace::load()?, &options)
        }
        Some(other) => Err(Error::Usage(format!("no command `{other}`\n\n{HELP}"))),
    }
}
