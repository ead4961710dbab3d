//! Run, tune and test openpilot driving models: one name for the crates that people call.
//!
//! ```text
//! sparkpilot::hal        what machine this is: GPUs, memory, what is wrong with it
//! sparkpilot::load       the machine under load, and whether it computes right
//! sparkpilot::mem        buffers, streams and kernels on the CPU or a GPU
//! sparkpilot::quant      FP8, FP4 and their relatives
//! sparkpilot::onnx       ONNX models: load and run
//! sparkpilot::onnx_graph ONNX networks without an engine: shapes, meaning, files
//! sparkpilot::onnx_proto ONNX files without an engine: their messages
//! sparkpilot::openpilot  driving models: pictures in, plans out
//! sparkpilot::zoo        networks of openpilot's shapes with random weights
//! sparkpilot::data       recorded drives: route logs, comma2k19, labels
//! sparkpilot::bench      how fast and how exact models are, in each number format
//! sparkpilot::sim        closed-loop driving scenarios
//! sparkpilot::shards     numbered work shared out among processes, and merged
//! sparkpilot::dora       DoRA and LoRA layers for candle (feature `dora`)
//! sparkpilot::train      networks fine-tuned with such adapters (feature `train`)
//! ```
//!
//! ```
//! use sparkpilot::onnx::{DType, ModelRunner, RunOptions, Tensor};
//! use sparkpilot::zoo;
//!
//! println!("{}", sparkpilot::hal::machine().summary());
//!
//! // A network of openpilot's size and shape, with random weights.
//! let mut runner = ModelRunner::from_graph(zoo::driving_policy(0), &RunOptions::new())?;
//! let desire = Tensor::zeros(DType::F32, [1, 25, 8])?;
//! let traffic = Tensor::from_f32([1, 2], vec![1.0, 0.0])?;
//! let features = Tensor::zeros(DType::F32, [1, 25, 512])?;
//! let outputs = runner.run(&[
//!     ("desire_pulse", &desire),
//!     ("traffic_convention", &traffic),
//!     ("features_buffer", &features),
//! ])?;
//! assert_eq!(outputs[0].1.shape(), [1, 1000]);
//! # Ok::<(), sparkpilot::onnx::ModelError>(())
//! ```
//!
//! Each crate is usable alone; this one adds nothing to them.

pub use spark_bench as bench;
pub use spark_data as data;
#[cfg(feature = "dora")]
pub use spark_dora as dora;
pub use spark_hal as hal;
pub use spark_load as load;
pub use spark_mem as mem;
pub use spark_onnx as onnx;
pub use spark_onnx_graph as onnx_graph;
pub use spark_onnx_proto as onnx_proto;
pub use spark_openpilot as openpilot;
pub use spark_openpilot::zoo;
pub use spark_quant as quant;
pub use spark_shards as shards;
pub use spark_sim as sim;
#[cfg(feature = "train")]
pub use spark_train as train;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
