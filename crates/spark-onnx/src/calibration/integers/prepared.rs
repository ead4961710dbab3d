//! A graph with what files write around products made plain, so that products are found and taken whole.
//!
//! ```text
//! w f16 ── Cast ── w f32                 a constant in f32
//! x f16 ── Conv f16 ── Relu ── y f16     x ── Cast ── Conv f32 ── Relu ── Cast ── y
//! Conv ── BatchNormalization             Conv with other weights
//! ```

use super::{folding, stored, widening};
use crate::ModelError;
use crate::graph::Graph;

/// `graph` in that form; names of inputs, outputs and products stay.
pub(super) fn prepared(graph: &Graph) -> Result<Graph, ModelError> {
    let mut graph = graph.clone();
    stored::read(&mut graph)?;
    widening::widen(&mut graph)?;
    folding::fold(&mut graph)?;
    Ok(graph)
}
