//! Which number format should each weight of a network get, and what does that cost?
//!
//! Run: `cargo run --release --example quantize_weights -- [FILE.safetensors | FILE.onnx] [OPTIONS]`
//!
//! The same as `sparkpilot quantize`.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

#[path = "../src/bin/sparkpilot/commands/quantize/mod.rs"]
mod quantize;

use std::process::ExitCode;

use clap::Parser;

/// Quantize the weights of a network and say what it costs
#[derive(Parser)]
#[command(
    name = "quantize_weights",
    after_help = "Examples:\n  \
        quantize_weights                          a built-in network, random weights\n  \
        quantize_weights model.safetensors --output quantized\n  \
        quantize_weights model.onnx --format auto --bits 5 --plot trade_off.svg"
)]
struct Arguments {
    #[command(flatten)]
    quantize: quantize::Arguments,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| quantize::run(&arguments.quantize))
}
