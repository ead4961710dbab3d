//! How is a network fine-tuned, judged and shipped?
//!
//! Run: `cargo run --release --features train --example finetune -- train --model MODEL.onnx --data FRAMES.safetensors --output RUN [OPTIONS]`
//!
//! A DoRA adapter is trained so that the network, in the precision that it will be run in, says what it, or another network, says in
//! full precision: what four bits lose is won back so. `train` begins a run, `resume` goes on with one that was stopped or killed,
//! `eval` judges it on frames that were held back, beside a bias and a constant, and `merge` writes the network with the adapter in
//! its weights. Data are inputs of many frames, `caseN/in/<input>`, in the order in which they were recorded.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use spark_program::{count, number};

#[path = "finetune/data.rs"]
mod data;
#[path = "finetune/judge.rs"]
mod judge;
#[path = "finetune/run.rs"]
mod run;

/// Fine-tune a network with a DoRA adapter
#[derive(Parser)]
#[command(
    name = "finetune",
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        finetune train --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        finetune train --model m.onnx --data frames.safetensors --output run --dry-run\n  \
        finetune resume --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        finetune eval --model m.onnx --data frames.safetensors --output run --qat fp4\n  \
        finetune merge --model m.onnx --adapter run/adapter --merged tuned.onnx\n\n\
        `resume` and `eval` take the options that the run was begun with. A run can be stopped with Ctrl-C."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Begin a run
    Train(Run),
    /// Go on with a run from its last checkpoint
    Resume(Run),
    /// Judge a run's adapter on the frames that are held back
    Eval(Run),
    /// Write the network with an adapter in its weights
    Merge(Merge),
}

#[derive(Args)]
pub(crate) struct Run {
    /// ONNX file of the network that is tuned
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: PathBuf,
    /// Inputs of many frames, caseN/in/<input>
    #[arg(long, value_name = "FILE.safetensors")]
    pub(crate) data: PathBuf,
    /// Folder of the run: checkpoints, adapter, metrics.jsonl
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// ONNX file of the teacher, of the same inputs and outputs; the network itself by default
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) teacher: Option<PathBuf>,
    /// Precision of the weights that the tuned network will be run in, which training sees
    #[arg(long, value_enum, value_name = "PRECISION")]
    pub(crate) qat: Option<Format>,
    /// How often every frame is taken
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1, 1_000_000))]
    pub(crate) epochs: usize,
    /// Ends after so many steps, whatever --epochs says
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000_000))]
    pub(crate) max_steps: Option<usize>,
    /// Frames of one step
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1, 4096))]
    pub(crate) batch_size: usize,
    /// Learning rate at its highest
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, value_parser = number(1e-12, 10.0))]
    pub(crate) lr: f64,
    /// Rank of the adapters
    #[arg(long, value_name = "R", default_value_t = 4, value_parser = count(1, 4096))]
    pub(crate) dora_rank: usize,
    /// Scale of their updates, alpha over rank; the rank by default
    #[arg(long, value_name = "ALPHA", value_parser = number(1e-6, 1e6))]
    pub(crate) dora_alpha: Option<f64>,
    /// Layers by the ends of their names, with commas; all that are not in groups and hold the rank by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) targets: Vec<String>,
    /// Share of the frames that is held back, the last ones
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = number(0.0, 0.9))]
    pub(crate) val_split: f64,
    /// Frames left out between those trained on and those held back
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count(0, 1_000_000))]
    pub(crate) gap: usize,
    /// Of the adapter's first values and the order of the frames
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Steps between checkpoints
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count(1, 1_000_000_000))]
    pub(crate) save_every: usize,
    /// Say what would be trained and how long a step takes, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the adapter as it begins into the run's folder, and train nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) create_adapter: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Merge {
    /// ONNX file of the network that the adapter was trained on
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: PathBuf,
    /// Folder of the adapter, as PEFT writes it too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) adapter: PathBuf,
    /// ONNX file to write
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) merged: PathBuf,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Fp8,
    Fp4,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| -> Result<ExitCode, Box<dyn Error>> {
        match arguments.command {
            Command::Train(run) => run::train(&run, false),
            Command::Resume(run) => run::train(&run, true),
            Command::Eval(run) => judge::eval(&run),
            Command::Merge(merge) => judge::merge(&merge),
        }
    })
}
