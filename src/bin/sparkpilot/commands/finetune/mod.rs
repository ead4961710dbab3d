//! How is a network fine-tuned, judged and shipped: `sparkpilot finetune`, and the example `finetune`, which is built of this file.
//!
//! ```text
//! train ──> run.json, checkpoints, adapter        resume ──> the same from the last checkpoint
//! eval  ──> errors beside a bias and a constant   merge  ──> ONNX with the adapter in its weights
//! frames ──> what train reads of drives, made ready by any number of processes; eval's work is shared out in the same way
//! ```
//!
//! A DoRA adapter is trained so that the network, in the precision that it will be run in, says what it, or another network, says in
//! full precision: what four bits lose is won back so. Data are the frames of recorded drives, logs and videos in a folder or what `frames` made of them, or inputs in a
//! file, `caseN/in/<input>`, in the order in which they were recorded.

mod answers;
pub(crate) mod arguments;
mod begun;
mod calibrated;
mod data;
mod drives;
mod frames;
mod judge;
mod kept;
mod lacking;
mod logs;
mod networks;
pub(crate) mod ranks;
mod ready;
mod run;
mod samples;
pub(crate) mod train;
mod trunk;

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use spark_program::{Devices, check_devices, tell};
use sparkpilot::hal::config::{PRECISION, PrecisionChoice, config};
use sparkpilot::onnx::Precision;

use arguments::{Eval, MakeFrames, Merge, Resume, Train};
use ranks::Ranks;

// What is written on it here would stand on every command that takes these options in.
#[derive(Args)]
#[group(skip)] // the group that clap would make has the name of the example's own
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Begin a run: train an adapter of a network on frames or recorded drives
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune train --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        sparkpilot finetune train --model m.onnx --data drives --output run --qat fp4 --dry-run\n  \
        sparkpilot finetune train --model m.onnx --data drives --output run --qat fp4 --dora-rank 8 --lora-dropout 0.05")]
    Train(Box<Train>),
    /// Go on with a run from its last checkpoint
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune resume --output run")]
    Resume(Resume),
    /// Make frames of recorded drives ready for training, by one process or several
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune frames --model m.onnx --data drives --folder frames\n  \
        sparkpilot finetune frames --model m.onnx --data drives --folder frames --shard 1/2")]
    Frames(MakeFrames),
    /// Judge a run's adapter on the frames that are held back, by one process or several
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune eval --output run --json result.json\n  \
        sparkpilot finetune eval --output run --shard 1/2 --folder answers\n  \
        sparkpilot finetune eval --output run --merge answers")]
    Eval(Eval),
    /// Write the network with an adapter in its weights
    #[command(after_help = "Examples:\n  \
        sparkpilot finetune merge --model m.onnx --adapter run/adapter --merged tuned.onnx")]
    Merge(Merge),
}

/// Says which settings change nothing.
pub(crate) fn warn_of_settings() {
    if let PrecisionChoice::Fixed(precision) = config().precision
        && precision != Precision::Fp32
    {
        tell(format!(
            "warning: {}={precision} has no effect here: steps are computed in fp32, and --qat says what weights are rounded to",
            PRECISION.name
        ));
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    check_devices(Devices::Cpu)?;
    warn_of_settings();
    match arguments.command {
        Command::Train(train) => train::begin(*train, Ranks::single()),
        Command::Resume(begun) => train::resume(&begun, Ranks::single()),
        Command::Frames(frames) => frames::make(&frames),
        Command::Eval(eval) => answers::eval(&eval),
        Command::Merge(merge) => judge::merge(&merge),
    }
}
