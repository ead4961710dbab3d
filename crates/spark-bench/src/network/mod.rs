//! A network as a picture: from its inputs at the top to its outputs at the bottom.
//!
//! ```text
//! nodes ──blocks──> chains of nodes with one way in and out, inputs, outputs
//!       ──layers──> each block below all that it reads; long edges pass through places of their own
//!       ──order───> neighbours near each other, so that few edges cross
//!       ──places──> x as near to the neighbours as the order allows
//!       ──draw────> Svg
//! ```
//!
//! Layers and their order follow K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical
//! System Structures", 1981, with barycentres; x by pooling adjacent violators. Deliberately absent: bodies of control
//! flow, which stand as one line, and constants, whose shapes stand at the operators that take them.

mod blocks;
mod draw;
mod layers;
mod places;
#[cfg(test)]
mod tests;

use spark_drawing::Svg;
use spark_onnx::graph::Graph;

/// The picture of a network. As many operators as it has, it is made; with a few hundred it is readable.
pub fn picture(graph: &Graph) -> Svg {
    let blocks = blocks::of(graph);
    let layers = layers::of(&blocks);
    let places = places::of(&blocks, &layers);
    draw::picture(&blocks, &layers, &places)
}
