//! What every program of this workspace does alike, so that an example is its idea alone.
//!
//! ```text
//! run(main) ── closed pipe ends the process quietly         signals
//!          ├── options by clap; wrong ones: exit 2
//!          ├── the log on stderr, as much as DEBUG says     log
//!          ├── Ctrl-C waits for a file being written        signals, output
//!          ├── a place for it is asked for before the work  place
//!          ├── one process of several: its part of the work shards
//!          └── main: its error is one sentence, exit 1      failure
//! ```
//!
//! ```no_run
//! /// Counts to a number.
//! #[derive(clap::Parser)]
//! struct Arguments {
//!     /// Where to stop
//!     #[arg(value_parser = spark_program::count(1, 1_000_000))]
//!     end: usize,
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     spark_program::run(|arguments: Arguments| {
//!         (1..=arguments.end).for_each(|n| println!("{n}"));
//!         Ok(())
//!     })
//! }
//! ```
//!
//! For programs: libraries never print, install no subscriber and catch no signal.
//! Deliberately absent: anything that only one program needs.

mod arguments;
mod failure;
pub mod input;
mod log;
pub mod output;
pub mod place;
mod printable;
mod progress;
mod pulse;
pub mod shards;
mod signals;

use std::error::Error;
use std::process::{ExitCode, Termination};

use clap::Parser;
use spark_hal::config::{CUDA, Config, CudaUse, DEVICE, DeviceChoice, config};

pub use arguments::{count, file_ending_in, number};
pub use failure::{About, ExitCodeOf, Usage, about, tell, with_causes};
pub use indicatif::ProgressBar;
pub use log::allows_colours;
pub use printable::printable;
pub use progress::progress;
pub use pulse::Pulse;
pub use signals::{LastWords, postponed, sleep};

/// What differs between programs.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// Exit code for wrong usage; clap's is 2.
    pub wrong_usage: u8,
    /// Whether `CUDA=1` without CUDA, and `SPARK_DEVICE=cuda` in a program for the CPU, end the
    /// program with an error. Not for programs that say what is wrong with CUDA.
    pub keeps_promise_of_cuda: bool,
    /// Where its work runs.
    pub devices: Devices,
    /// Exit code of a program that ends with this error; 1 for every one by default. Wrong usage has its own.
    pub exit_code: ExitCodeOf,
}

/// Which devices the work of a program can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// The CPU alone. Asked for a GPU, the program ends with an error.
    Cpu,
    /// Those that it opens itself, which is an error where they cannot be had.
    AsOpened,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            wrong_usage: 2,
            keeps_promise_of_cuda: true,
            devices: Devices::Cpu,
            exit_code: |_| 1,
        }
    }
}

/// Parses the command line, sets the process up, runs `main`, and says how it went.
///
/// The process ends with 0, with `main`'s own code, with 1 after an error unless
/// [`Manners::exit_code`] says otherwise, or with 2 for wrong usage: options that clap refuses, and [`Usage`] from `main`. A closed pipe and Ctrl-C end it
/// by their signal, as programs without a handler end.
pub fn run<A: Parser, T: Termination>(
    main: impl FnOnce(A) -> Result<T, Box<dyn Error>>,
) -> ExitCode {
    run_with(Manners::default(), main)
}

/// As [`run`], for a program that differs from the others.
pub fn run_with<A: Parser, T: Termination>(
    manners: Manners,
    main: impl FnOnce(A) -> Result<T, Box<dyn Error>>,
) -> ExitCode {
    signals::end_quietly_on_a_closed_pipe();
    failure::say_in_one_sentence_that_output_cannot_be_written(manners.exit_code);
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            // Help goes to stdout, mistakes to stderr. Of mistakes that cannot be written nobody can be told.
            return match told.print() {
                _ if told.use_stderr() => ExitCode::from(manners.wrong_usage),
                Ok(()) => ExitCode::SUCCESS,
                Err(source) => {
                    let path = "stdout".into();
                    let unwritten = output::Unwritten { path, source };
                    failure::report(&unwritten, manners.wrong_usage, manners.exit_code)
                }
            };
        }
    };
    log::install();
    signals::let_files_be_finished();
    let promised = match manners.keeps_promise_of_cuda {
        true => check_devices(manners.devices).map_err(Into::into),
        false => Ok(()),
    };
    match promised.and_then(|()| main(arguments)) {
        Ok(value) => value.report(),
        Err(error) => failure::report(error.as_ref(), manners.wrong_usage, manners.exit_code),
    }
}

/// A device that the environment asks for and that cannot be had; the text says which and why.
#[derive(Debug)]
pub struct DeviceRefused(String);

impl std::fmt::Display for DeviceRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for DeviceRefused {}

/// A device that the environment asks for is had, or refused with a reason: never replaced.
///
/// # Errors
///
/// [`DeviceRefused`] for `CUDA=1` without CUDA, and for a GPU asked of work on the CPU.
pub fn check_devices(devices: Devices) -> Result<(), DeviceRefused> {
    check_devices_of(devices, config()).map_err(DeviceRefused)
}

fn check_devices_of(devices: Devices, config: &Config) -> Result<(), String> {
    let requires = |why: String| format!("{}=1 requires CUDA: {why}", CUDA.name);
    spark_hal::cuda::check_required().map_err(|why| requires(why.to_string()))?;
    let why = "this program works on the CPU only";
    match (devices, config.device, config.cuda) {
        (Devices::Cpu, DeviceChoice::Cuda(number), _) => {
            let number = number.map(|number| format!(":{number}"));
            let number = number.unwrap_or_default();
            Err(format!("{}=cuda{number} cannot be had: {why}", DEVICE.name))
        }
        (Devices::Cpu, DeviceChoice::Auto, CudaUse::Require) => Err(requires(why.to_owned())),
        _ => Ok(()),
    }
}

/// The README's example, so that it is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
