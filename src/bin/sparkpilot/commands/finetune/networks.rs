//! What tells a network from others, whatever file it lies in.

use std::error::Error;
use std::path::Path;

use spark_program::{about, input};
use sparkpilot::onnx::file;
use sparkpilot::onnx::graph::Graph;
use sparkpilot::shards::Fingerprint;

/// A network of a file, and what tells it from others.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) graph: Graph,
    /// SHA-256 of its file, and of its constants, which may lie in files beside it.
    pub(crate) hash: String,
}

impl Network {
    pub(crate) fn load(path: &Path) -> Result<Self, Box<dyn Error>> {
        let graph = file::load(path).map_err(about(path))?;
        let mut hash = Fingerprint::new();
        hash.add(input::read(path)?);
        for constant in graph.values.iter().filter_map(|v| v.constant.as_ref()) {
            let values = constant.to_f64().into_iter();
            hash.add(values.flat_map(f64::to_le_bytes).collect::<Vec<u8>>());
        }
        let hash = hash.hex();
        Ok(Self { graph, hash })
    }
}
