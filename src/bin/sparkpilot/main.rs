//! The program `sparkpilot`: what a Spark's owner does without writing Rust.
//!
//! ```text
//! sparkpilot COMMAND …
//!   arguments by clap ──> commands/COMMAND.rs ──> a library ──> stdout; JSON with --json
//!                                 │ error                       log, bars and errors: stderr
//!                                 ▼
//!                            exit_code.rs
//!   0 done · 1 the answer is no · 2 wrong usage · 3 bad input · 4 device or precision refused · 5 files
//! ```
//!
//! Commands are thin: they parse, call one entry point of a library, and print. What they share is
//! `spark_program`'s, for every program of the workspace, and of this one `tables`, `engine_options` and `recorded_machine`.
//! `bench` lists what was refused or could not be read beside what was measured, and its answer is no.
//!
//! `finetune` is there where the feature `train` is, and `adapter` where `dora` is: they take minutes to compile.
//!
//! Deliberately absent: commands of what has not landed.

#![allow(clippy::print_stdout, reason = "a program's output is its product")]

mod commands;
mod engine_options;
mod exit_code;
mod recorded_machine;
mod tables;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use spark_program::{Devices, Manners};

#[cfg(feature = "dora")]
use commands::adapter;
#[cfg(feature = "train")]
use commands::finetune;
use commands::{
    bench, cluster, compare, completions, doctor, info, inspect, logs, man, monitor, quantize, run,
    sim, zoo,
};

/// Run, measure and check openpilot's driving models on a DGX Spark, or on any other Linux machine
#[derive(Parser)]
#[command(
    name = "sparkpilot",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        sparkpilot info                                  what machine this is\n  \
        sparkpilot doctor                                what is wrong with it\n  \
        sparkpilot bench                                 how fast driving models are here\n  \
        sparkpilot inspect driving_vision.onnx           what a model is made of\n\n\
        Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 bad input, 4 device or precision refused,\n\
        5 a file could not be read or written. `bench` lists what was refused or failed, and ends with 1.\n\
        Environment: DEBUG=1 to 3 says more, NO_COLOR=1 leaves colours away, SPARK_DEVICE and the other variables\n\
        of docs/environment.md choose devices, precisions and folders."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Info(info::Arguments),
    Doctor(doctor::Arguments),
    /// Look at several machines and the links between them
    #[command(after_help = "Examples:\n  \
        sparkpilot cluster record spark-1.txt                              on each machine\n  \
        sparkpilot cluster doctor spark-1.txt spark-2.txt --measured both.json\n\n\
        The measurement is `sparkpilot-mpi measure`, which mpirun starts on all of them: docs/cluster.md.")]
    Cluster(cluster::Arguments),
    Monitor(monitor::Arguments),
    Run(run::Arguments),
    Inspect(inspect::Arguments),
    Compare(compare::Arguments),
    /// Measure driving models: latency, memory and accuracy
    ///
    /// Without a model, the built-in networks of openpilot's shapes with random weights are measured.
    #[command(after_help = "Examples:\n  \
        sparkpilot bench\n  \
        sparkpilot bench --quick                                         whether it works here\n  \
        sparkpilot bench --model driving_vision.onnx --runs 200\n  \
        sparkpilot bench --models-dir openpilot/selfdrive/modeld/models\n  \
        sparkpilot bench --precision all --html report.html")]
    Bench(Box<bench::Arguments>),
    /// Quantize the weights of a network and say what it costs
    #[command(after_help = "Examples:\n  \
        sparkpilot quantize model.safetensors --output quantized\n  \
        sparkpilot quantize model.onnx --format auto --bits 5 --plot trade_off.svg\n\n\
        Without a file: a built-in network with random weights.")]
    Quantize(quantize::Arguments),
    /// Fine-tune a network with a DoRA adapter, judge it and merge it
    #[cfg(feature = "train")]
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune train --model m.onnx --data drives --output run --qat fp4\n  \
        sparkpilot finetune resume --output run\n  \
        sparkpilot finetune eval --output run --json result.json\n  \
        sparkpilot finetune frames --model m.onnx --data drives --folder frames --shard 1/2\n  \
        sparkpilot finetune train --model m.onnx --data frames --output run --qat fp4\n  \
        sparkpilot finetune eval --output run --shard 1/2 --folder answers\n  \
        sparkpilot finetune eval --output run --merge answers\n  \
        sparkpilot finetune merge --model m.onnx --adapter run/adapter --merged tuned.onnx\n\n\
        A run can be stopped with Ctrl-C; the folder keeps what it was begun with.")]
    Finetune(finetune::Arguments),
    #[cfg(feature = "dora")]
    Adapter(adapter::Arguments),
    Logs(logs::Arguments),
    Sim(sim::Arguments),
    Zoo(zoo::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

fn main() -> ExitCode {
    let manners = Manners {
        devices: Devices::AsOpened,
        // `info`, `doctor` and `monitor` say what is wrong with CUDA; commands with a device open it.
        keeps_promise_of_cuda: false,
        exit_code: exit_code::of,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| dispatch(arguments.command))
}

fn dispatch(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Monitor(arguments) => monitor::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Bench(arguments) => bench::run(*arguments),
        Command::Quantize(arguments) => quantize::run(&arguments),
        #[cfg(feature = "train")]
        Command::Finetune(arguments) => finetune::run(arguments),
        #[cfg(feature = "dora")]
        Command::Adapter(arguments) => adapter::run(&arguments),
        Command::Logs(arguments) => logs::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Zoo(arguments) => zoo::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
    }
}
