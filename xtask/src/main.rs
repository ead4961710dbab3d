//! Workspace automation, run as `cargo xtask <command>`.
//!
//! ```text
//! args ──> main ──┬─> build, test     cargo with the workspace's usual flags
//!                 ├─> ci              every check, timed, in two rows, stops at the first failure
//!                 ├─> tidy            what compilers cannot check
//!                 ├─> kernels         every .cu file through NVIDIA's compiler
//!                 ├─> onnx-suite      the ONNX project's own tests
//!                 ├─> gpu             a bundle of tests and benches for a GPU machine
//!                 ├─> aarch64         Arm's vector code, under an emulator
//!                 ├─> sanitize        memory and threads watched while tests run
//!                 ├─> mpi             training in several processes, on real ranks
//!                 ├─> dist            what a release consists of
//!                 ├─> book            the pages as a book, every command on them
//!                 ├─> fuzz            parsers on hostile files, guided by coverage
//!                 └─> bench           run, record, compare, plot
//! ```
//!
//! It depends on little, so that it compiles in seconds, of the crates it checks on `spark-drawing` alone.

#![allow(
    clippy::print_stdout,
    reason = "a command line tool; its output is its product"
)]

mod aarch64;
mod args;
mod bench;
mod book;
mod build_and_test;
mod ci;
mod circles;
mod command;
mod dist;
mod error;
mod fuzz;
mod gpu;
mod kernels;
mod layers;
mod mpi;
mod onnx_suite;
mod sanitize;
mod tidy;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use args::{Args, HELP};
use error::Error;
use workspace::Workspace;

fn main() -> ExitCode {
    // A closed pipe ends the process; without this it would be a panic of `println`.
    let always = Arc::new(AtomicBool::new(true));
    let _ = signal_hook::flag::register_conditional_default(signal_hook::consts::SIGPIPE, always);
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    match run(words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On a full disk nobody can be told; the exit code says it.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(words: Vec<String>) -> Result<(), Error> {
    let mut args = Args::new(words);
    let command = args.subcommand()?;
    // `test` hands its words on, `--help` among them.
    let command = command.filter(|command| command == "test" || !args.wants_help());
    match command.as_deref() {
        None | Some("help") => {
            println!("{HELP}");
            Ok(())
        }
        Some("build") => {
            let release = args.flag("--release");
            args.finish()?;
            build_and_test::build(&Workspace::load()?, release)
        }
        Some("test") => build_and_test::test(&Workspace::load()?, &args.rest()),
        Some("ci") => {
            let asked = ci::Asked {
                skipped: values(&mut args, "--skip")?,
                is_beside: args.flag("--beside"),
            };
            args.finish()?;
            ci::run(&Workspace::load()?, &asked)
        }
        Some("tidy") => {
            let write = args.flag("--write");
            args.finish()?;
            tidy::run(&Workspace::load()?, write)
        }
        Some("onnx-suite") => {
            args.finish()?;
            onnx_suite::run(&Workspace::load()?)
        }
        Some("kernels") => {
            args.finish()?;
            kernels::run(&Workspace::load()?)
        }
        Some("gpu") => {
            let targets = values(&mut args, "--target")?;
            args.finish()?;
            gpu::bundle(&Workspace::load()?, &targets)
        }
        Some("gpu-suites") => {
            let options = gpu::SuiteOptions {
                bundle: args
                    .value("--bundle")?
                    .unwrap_or_else(|| ".".to_owned())
                    .into(),
                out: args.value("--out")?.map(Into::into),
                only: values(&mut args, "--only")?,
                list: args.flag("--list"),
            };
            args.finish()?;
            gpu::run_suites(&options)
        }
        Some("aarch64") => {
            args.finish()?;
            aarch64::run(&Workspace::load()?)
        }
        Some("sanitize") => {
            args.finish()?;
            for what in sanitize::run(&Workspace::load()?)? {
                println!("left out: {what}");
            }
            Ok(())
        }
        Some("mpi") => {
            args.finish()?;
            mpi::run(&Workspace::load()?)
        }
        Some("dist") => {
            let is_checked = args.flag("--check");
            if args.flag("--quick") {
                args.finish()?;
                return dist::quick(&Workspace::load()?, is_checked);
            }
            let options = dist::Options {
                targets: values(&mut args, "--target")?,
                is_checked,
            };
            args.finish()?;
            dist::run(&Workspace::load()?, &options)
        }
        Some("book") => {
            let options = book::Options {
                check: args.flag("--check"),
                write: args.flag("--write"),
                only: args.value("--only")?,
                programs: args.value("--programs")?.map(Into::into),
            };
            args.finish()?;
            for what in book::run(&Workspace::load()?, &options)? {
                println!("left out: {what}");
            }
            Ok(())
        }
        Some("fuzz") => {
            let only = args.value("--only")?;
            let seconds = match args.value("--seconds")? {
                None => fuzz::SECONDS,
                Some(text) => text.parse().map_err(|_| {
                    Error::Usage(format!("`--seconds {text}`: a whole number is needed"))
                })?,
            };
            args.finish()?;
            fuzz::run(&Workspace::load()?, seconds, only.as_deref())
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

/// Every value of an option that may be given several times.
fn values(args: &mut Args, name: &str) -> Result<Vec<String>, Error> {
    let mut values = Vec::new();
    while let Some(value) = args.value(name)? {
        values.push(value);
    }
    Ok(values)
}
