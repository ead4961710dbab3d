//! The heads of openpilot's networks, each taught by what its numbers mean.
//!
//! ```text
//! OutputLayout::of(graph) ──parts──> HeadMeaning ──> HeadKind
//!     Regression      Mdn           Probabilities  Sigmoid
//!     Hypotheses      Hypotheses    Categories     Softmax
//!     Features, Values, Unknown     Squares
//!     Unused                        not taught
//! ```
//!
//! Deliberately absent: weights. Each head is the mean over its numbers, so that all weigh the same; what matters more is for the
//! caller to say, in [`Head::weight`].

use spark_dora::loss::{Head, HeadKind};
use spark_onnx_graph::graph::Graph;
use spark_openpilot::heads::HeadMeaning;
use spark_openpilot::slices::OutputLayout;

use crate::error::Result;
use crate::loss::OutputHeads;

/// The heads of the only output of a network of openpilot, by the table in its metadata or by its length; `None` if neither
/// says where they are.
///
/// # Errors
///
/// [`TrainError::Layout`](crate::TrainError::Layout) for a table that cannot be read or does not fit the output.
pub fn driving_heads(graph: &Graph) -> Result<Option<OutputHeads>> {
    let (Some(layout), Some(&output)) = (OutputLayout::of(graph)?, graph.outputs.first()) else {
        return Ok(None);
    };
    let heads = layout.parts().iter().filter_map(|(name, range)| {
        let kind = match HeadMeaning::of(name, range.len()) {
            HeadMeaning::Regression => HeadKind::Mdn,
            HeadMeaning::Hypotheses {
                hypotheses,
                selections,
            } => HeadKind::Hypotheses {
                hypotheses,
                selections,
            },
            HeadMeaning::Probabilities => HeadKind::Sigmoid,
            HeadMeaning::Categories { classes } => HeadKind::Softmax { classes },
            HeadMeaning::Unused => return None,
            _ => HeadKind::Squares,
        };
        (!range.is_empty()).then(|| Head {
            name: name.clone(),
            range: range.clone(),
            kind,
            weight: 1.0,
        })
    });
    Ok(Some(OutputHeads {
        output: graph.value(output).name.clone(),
        heads: heads.collect(),
    }))
}
