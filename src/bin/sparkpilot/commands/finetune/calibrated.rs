//! Weights rounded for what they meet, before training begins with them.
//!
//! The network of a run that calibrates is `calibrated.onnx` in its folder: what is resumed, judged and merged.

use std::error::Error;
use std::path::{Path, PathBuf};

use spark_program::{Pulse, about, output, progress};
use sparkpilot::onnx::graph::Graph;
use sparkpilot::onnx::{Precision, RunOptions, file};
use sparkpilot::train::{Samples, with_calibrated_weights};

/// File of a run's folder that has the network.
const FILE: &str = "calibrated.onnx";

/// Where a run in this folder keeps it.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// The network with weights rounded on `n` of the frames that are trained on.
pub(crate) fn made(
    graph: &Graph,
    training: &dyn Samples,
    n: usize,
    precision: Precision,
) -> Result<Graph, Box<dyn Error>> {
    let bar = progress(None).with_message("calibration, layers");
    let _pulse = Pulse::of(&bar);
    let options = RunOptions::new();
    let tell = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let made = with_calibrated_weights(graph.clone(), training, n, precision, &options, tell);
    bar.finish_and_clear();
    Ok(made?)
}

/// Writes it into a run's folder.
pub(crate) fn keep(graph: &Graph, folder: &Path) -> Result<(), Box<dyn Error>> {
    output::write(&path(folder), file::to_bytes(graph)?)?;
    Ok(())
}

/// The network of a run that was begun, if it got as far as to keep one.
pub(crate) fn kept(folder: &Path) -> Result<Option<Graph>, Box<dyn Error>> {
    let path = path(folder);
    match path.exists() {
        true => Ok(Some(file::load(&path).map_err(about(&path))?)),
        false => Ok(None),
    }
}
