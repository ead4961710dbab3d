//! A graph with what files write around products made plain, so that products are found and taken whole.
//!
//! ```text
//! Conv ── BatchNormalization     Conv with other weights
//! ```

use super::folding;
use crate::ModelError;
use crate::graph::Graph;

/// `graph` in that form; names of inputs, outputs and products stay.
pub(super) fn prepared(graph: &Graph) -> Result<Graph, ModelError> {
    let mut graph = graph.clone();
    folding::fold(&mut graph)?;
    Ok(graph)
}
