//! How is a network fine-tuned, judged and shipped?
//!
//! Run: `cargo run --release --features train --example finetune -- train --model MODEL.onnx --data FRAMES.safetensors --output RUN --qat fp4`
//!
//! A DoRA adapter is trained so that the network, in the precision that it will be run in, says what it, or another network, says in
//! full precision: what four bits lose is won back so. `train` begins a run, `resume` goes on with one that was stopped or killed,
//! `eval` judges it on the frames that were held back, beside a bias and a constant, and `merge` writes the network with the adapter
//! in its weights. Data are the frames of recorded drives, logs and videos in a folder, or inputs in a file, `caseN/in/<input>`, in the
//! order in which they were recorded.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use run::Options;

#[path = "finetune/data.rs"]
mod data;
#[path = "finetune/drives.rs"]
mod drives;
#[path = "finetune/judge.rs"]
mod judge;
#[path = "finetune/run.rs"]
mod run;
#[path = "finetune/train.rs"]
mod train;

/// Fine-tune a network with a DoRA adapter
#[derive(Parser)]
#[command(
    name = "finetune",
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        finetune train --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        finetune train --model m.onnx --data drives --every 2 --output run --qat fp4\n  \
        finetune train --model m.onnx --data frames.safetensors --output run --qat fp4 --dry-run\n  \
        finetune resume --output run\n  \
        finetune eval --output run --json result.json\n  \
        finetune merge --model m.onnx --adapter run/adapter --merged tuned.onnx\n\n\
        A run can be stopped with Ctrl-C; the folder keeps what it was begun with."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Begin a run
    Train(Box<Train>),
    /// Go on with a run from its last checkpoint
    Resume(Begun),
    /// Judge a run's adapter on the frames that are held back
    Eval(Begun),
    /// Write the network with an adapter in its weights
    Merge(Merge),
}

#[derive(Args)]
struct Train {
    #[command(flatten)]
    options: Options,
    /// Folder of the run: checkpoints, adapter, metrics.jsonl, run.json
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Say what would be trained and how long a step takes, and write nothing but decoded pictures
    #[arg(long)]
    dry_run: bool,
    /// Write the adapter as it begins into the run's folder, and train nothing
    #[arg(long, conflicts_with = "dry_run")]
    create_adapter: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "create_adapter"])]
    json: Option<PathBuf>,
}

/// A run that was begun.
#[derive(Args)]
struct Begun {
    /// Folder of the run
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct Merge {
    /// ONNX file of the network that the adapter was trained on
    #[arg(long, value_name = "FILE.onnx")]
    model: PathBuf,
    /// Folder of the adapter, as PEFT writes it too
    #[arg(long, value_name = "FOLDER")]
    adapter: PathBuf,
    /// ONNX file to write
    #[arg(long, value_name = "FILE.onnx")]
    merged: PathBuf,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| -> Result<ExitCode, Box<dyn Error>> {
        match arguments.command {
            Command::Train(train) => train::begin(*train),
            Command::Resume(begun) => train::resume(&begun),
            Command::Eval(begun) => judge::eval(&begun),
            Command::Merge(merge) => judge::merge(&merge),
        }
    })
}
