//! Measuring models: latency, memory and accuracy, as a table and as JSON.
//!
//! ```text
//! BenchOptions --measure--> for each precision, for each model:
//!                             load, first run, warm-up, timed runs, distance from fp32, golden
//!                           vision + policy chained                       --> Measured
//! Measured     --write--> trace and outputs, where asked for              --> BenchReport
//! BenchReport  --table::render--> text        --write_json--> spark-bench/1
//!              --html::write--> one page with plots
//!
//! files        safetensors, .npy, .npz --read_tensors--> TensorMap --tensors_to_bytes--> the same
//! Graph        --network_picture--> boxes and edges as SVG
//! a seed       --write_zoo--> the zoo's networks as ONNX files
//! ```
//!
//! A precision or device that cannot be had is listed as refused, with the reason the
//! runner gives; nothing is measured in its place. What goes wrong with one model takes nothing from
//! the others: it is listed as failed. Inputs are fed anew in every run and
//! outputs are read back, so the figures are those a caller sees.
//!
//! ```no_run
//! use spark_bench::{BenchOptions, table};
//!
//! // Without a model: the networks of the zoo, in the precision that the environment asks for.
//! let report = spark_bench::run(&BenchOptions::default(), &mut |_| {})?;
//! println!("{}", table::render(&report));
//! # Ok::<(), spark_bench::BenchError>(())
//! ```
//!
//! Deliberately absent: comparing two reports (that is the record keeper's work), and networks on a
//! GPU: what is measured is a `ModelRunner`, which runs on the CPU.

mod accuracy;
mod batches;
mod combined;
mod driving;
mod element_bytes;
mod error;
mod golden;
pub mod html;
mod inputs;
mod layers;
mod machine;
mod models;
mod network;
mod numpy;
mod one_model;
mod options;
mod output;
mod profile;
mod progress;
mod report;
mod run;
mod scene;
mod statistics;
pub mod table;
mod tensor_file;
mod trace;
mod zoo;

pub use accuracy::Accuracy;
pub use batches::read as read_batches;
pub use driving::{Distance, DrivingReport};
pub use error::BenchError;
pub use golden::{
    GoldenCase, OutputDistance, distances as golden_distances, maker as maker_of_value,
    read as read_golden, with_inner_values,
};
pub use inputs::{
    Inputs, made_up as made_up_inputs, of_bytes as inputs_of_bytes, read as read_inputs,
};
pub use network::picture as network_picture;
pub use options::{BenchOptions, PrecisionList};
pub use output::write_json;
pub use progress::Progress;
pub use report::{
    AccuracyReport, BenchReport, CombinedReport, GoldenReport, LatencyReport, LayerReport,
    MachineReport, MemoryReport, PeaksReport, Refusal, RunReport, SCHEMA, SettingsReport,
    SliceReport,
};
pub use run::{Measured, measure, run};
pub use statistics::Latency;
pub use tensor_file::{
    TensorFormat, TensorMap, read as read_tensors, to_bytes as tensors_to_bytes,
    write as write_tensors,
};
pub use zoo::write as write_zoo;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
