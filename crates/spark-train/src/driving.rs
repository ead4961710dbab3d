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
//! Deliberately absent: weights. Each head's loss is a mean over its numbers or rows, those of distributions and choices in nats, all
//! others squares in their own units; what matters more is for the caller to say, in [`Head::weight`].

use spark_dora::loss::{Head, HeadKind};
use spark_onnx_graph::graph::Graph;
use spark_openpilot::heads::HeadMeaning;
use spark_openpilot::metadata::OUTPUT_SLICES_KEY;
use spark_openpilot::slices::OutputLayout;

use crate::error::Result;
use crate::loss::OutputHeads;

/// Inputs of openpilot's networks, one of which each has.
const INPUTS: [&str; 9] = [
    "img",
    "big_img",
    "input_img",
    "input_imgs",
    "big_input_imgs",
    "desire",
    "desire_pulse",
    "features_buffer",
    "calib",
];

/// The heads of a network of openpilot as its file has it: by the table in its metadata, else by the length of its output, if an
/// input is called as openpilot calls its. `None` for other networks, for those of several outputs, and where the output's shape is
/// not declared.
///
/// # Errors
///
/// [`TrainError::Layout`](crate::TrainError::Layout) for a table that cannot be read or does not fit the output.
pub fn driving_heads(graph: &Graph) -> Result<Option<OutputHeads>> {
    let (Some(layout), Some(&output)) = (OutputLayout::of(graph)?, graph.outputs.first()) else {
        return Ok(None);
    };
    let is_named = graph.metadata.contains_key(OUTPUT_SLICES_KEY);
    let mut inputs = graph.inputs.iter().map(|&id| graph.value(id).name.as_str());
    if !is_named && !inputs.any(|name| INPUTS.contains(&name)) {
        return Ok(None);
    }
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
