//! How is a network fine-tuned, judged and shipped?
//!
//! Run: `cargo run --release --features train --example finetune -- train --model MODEL.onnx --data FRAMES.safetensors --output RUN --qat fp4`
//!
//! The same as `sparkpilot finetune`, without the rest of that program.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

#[path = "../src/bin/sparkpilot/commands/finetune/mod.rs"]
mod finetune;

use std::process::ExitCode;

use clap::Parser;

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
        finetune frames --model m.onnx --data drives --folder frames --shard 1/2\n  \
        finetune train --model m.onnx --data frames --output run --qat fp4\n  \
        finetune merge --model m.onnx --adapter run/adapter --merged tuned.onnx\n\n\
        A run can be stopped with Ctrl-C; the folder keeps what it was begun with."
)]
struct Arguments {
    #[command(flatten)]
    finetune: finetune::Arguments,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| finetune::run(arguments.finetune))
}
