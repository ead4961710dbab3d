//! `sparkpilot-mpi`: one network fine-tuned by several processes, started by mpirun; and how quick the way between them is.
//!
//! ```text
//! mpirun ──> rank 0 .. N-1, each:   options ──> network, frames ──> of one mind? ──> steps ──> rank 0 judges
//!            main thread            computes batches               │ bytes, by channels
//!            thread of MPI          gathers what ranks give  <─────┘   library
//!            watchdog               ends all ranks when nothing moves any more   ending
//! ```
//!
//! Besides, `measure` says how quick the way between the ranks is, for `sparkpilot cluster doctor`.
//!
//! The options and their work are those of `sparkpilot finetune train` and `resume`, of whose files this program is built. What a run writes
//! the main program reads: `sparkpilot finetune resume` goes on with it in one process, with the same bits.
//!
//! Whatever ends one rank ends all: an error, a signal, a rank that was killed, one that no longer moves. Files are whole then, and the last
//! checkpoint is what a run goes on from.

#![allow(clippy::print_stdout, reason = "a program's output is its product")]

mod ending;
mod exchange;
mod launcher;
mod library;
mod measure;
mod of_rank;

#[path = "../../src/bin/sparkpilot/exit_code.rs"]
#[allow(dead_code, reason = "the main program names some of its codes")]
mod exit_code;

#[path = "../../src/bin/sparkpilot/commands/finetune/mod.rs"]
#[allow(
    dead_code,
    reason = "this program begins and goes on; the main one judges and merges besides"
)]
mod finetune;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use spark_program::{Devices, Usage, check_devices, count, tell};
use sparkpilot::train::{GradientExchange as _, Sum};

use ending::Ending;
use exchange::Mpi;
use finetune::arguments::{Resume, Train};
use finetune::ranks::Ranks;
use launcher::check_launcher;
use of_rank::of_rank;

/// Fine-tune a network in several processes, which mpirun starts, or measure the way between them
#[derive(Parser)]
#[command(
    name = "sparkpilot-mpi",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        mpirun -n 2 sparkpilot-mpi train --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        mpirun -n 4 sparkpilot-mpi resume --output run\n  \
        mpirun -n 2 --host spark-1,spark-2 --map-by node sparkpilot-mpi measure --output both.json\n  \
        sparkpilot finetune eval --output run\n\n\
        Losses and adapters have the same bits for every number of processes that divides --virtual-shards."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Begin a run
    #[command(name = "train")]
    Begin {
        #[command(flatten)]
        train: Box<Train>,
        #[command(flatten)]
        manners: Manners,
    },
    /// Go on with a run from its last checkpoint, on any number of processes that divides its shards
    #[command(name = "resume")]
    GoOn {
        #[command(flatten)]
        resume: Resume,
        #[command(flatten)]
        manners: Manners,
    },
    Measure(measure::Measure),
}

/// What ranks of a training do.
enum Work {
    Train(Box<Train>),
    Resume(Resume),
}

/// How processes treat each other.
#[derive(Args)]
struct Manners {
    /// Add gradients in whatever order is fastest: fewer bytes, but last bits that hang on the number of processes
    #[arg(long)]
    fast_sum: bool,
    /// Threads of a process that compute steps; as many as it has cores by default
    #[arg(long, value_name = "N", value_parser = count(1, 4096))]
    threads: Option<usize>,
    /// Seconds without a batch or an answer of the others after which a process ends all
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = count(1, 1_000_000))]
    stall_timeout: usize,
    /// The same until training begins: while networks and frames are read
    #[arg(long, value_name = "SECONDS", default_value_t = 7200, value_parser = count(1, 1_000_000))]
    start_timeout: usize,
}

/// Parts of a step unless the options say otherwise.
const VIRTUAL_SHARDS: usize = 8;

/// What ranks write side by side is said before the first of them ends all.
const TO_BE_HEARD: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let ending = Ending::new();
    let manners = spark_program::Manners {
        exit_code: exit_code::of,
        ..spark_program::Manners::default()
    };
    let code = spark_program::run_with(manners, |arguments: Arguments| work(arguments, &ending));
    if code != ExitCode::SUCCESS && ending.has_others() {
        std::thread::sleep(TO_BE_HEARD);
        // The type does not tell its number.
        let number = (1..=u8::MAX).find(|number| ExitCode::from(*number) == code);
        ending.end_all(number.unwrap_or(1).into());
    }
    code
}

fn work(arguments: Arguments, ending: &Ending) -> Result<ExitCode, Box<dyn Error>> {
    check_devices(Devices::Cpu)?;
    let (work, manners) = match arguments.command {
        Command::Begin { train, manners } => (Work::Train(train), manners),
        Command::GoOn { resume, manners } => (Work::Resume(resume), manners),
        Command::Measure(arguments) => return measure::run(&arguments, ending),
    };
    let seconds = |n: usize| Duration::from_secs(n as u64);
    let limits = [manners.start_timeout, manners.stall_timeout].map(seconds);
    let started = Mpi::start(ending, limits).map_err(|error| -> Box<dyn Error> { error });
    let (mut mpi, world) = started?;
    let is_lone = world.size == 1;
    check_launcher(world.size)?;
    let sum = match manners.fast_sum {
        true => Sum::Fast,
        false => Sum::InOrder,
    };
    let own = [
        (
            "program",
            format!("sparkpilot-mpi {}", env!("CARGO_PKG_VERSION")),
        ),
        ("MPI", world.library.clone()),
        ("architecture", std::env::consts::ARCH.to_owned()),
        (
            "instruction set",
            spark_simd::Isa::detect().name().to_owned(),
        ),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let traffic = mpi.traffic();
    let place = (world.rank, is_lone);
    of_rank(all_do(&mut mpi, &work), place)?;
    let ranks = Ranks::new(Box::new(mpi), sum, own.into(), manners.threads);
    let voice = ranks.voice();
    let ranks_are = if is_lone { "rank" } else { "ranks" };
    voice.say(format_args!(
        "{} {ranks_are}, {}",
        world.size, world.library
    ));
    if voice.is_first {
        finetune::warn_of_settings();
    }
    let code = match work {
        Work::Train(mut train) => {
            if train.dry_run || train.create_adapter {
                let why = "--dry-run and --create-adapter are for `sparkpilot finetune train`";
                return Err(Box::new(Usage(why.to_owned())));
            }
            train.options.virtual_shards.get_or_insert(VIRTUAL_SHARDS);
            of_rank(finetune::train::begin(*train, ranks), place)?
        }
        Work::Resume(resume) => of_rank(finetune::train::resume(&resume, ranks), place)?,
    };
    if let Some(told) = traffic.told().filter(|_| !is_lone) {
        voice.say(format_args!("{told}"));
    }
    if code != ExitCode::SUCCESS && !voice.is_first {
        tell(format!("rank {}: ended by a signal", world.rank));
    }
    Ok(code)
}

/// Refuses ranks some of which begin and others go on.
fn all_do(mpi: &mut Mpi, work: &Work) -> Result<(), Box<dyn Error>> {
    let own = match work {
        Work::Train(_) => "train",
        Work::Resume(_) => "resume",
    };
    let all = mpi
        .gather(own.as_bytes())
        .map_err(|error| -> Box<dyn Error> { error })?;
    match all.iter().position(|other| other != own.as_bytes()) {
        None => Ok(()),
        Some(other) => {
            let theirs = String::from_utf8_lossy(&all[other]);
            Err(format!("this rank was told to {own}, rank {other} to {theirs}").into())
        }
    }
}
