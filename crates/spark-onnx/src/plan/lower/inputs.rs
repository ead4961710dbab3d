//! How inputs are held: as the caller has them, unless they lead to pictures.
//!
//! ```text
//! an operator on pictures is reached   channels last: those steps want it, the edge transposes
//! else                                 row-major: the caller's own memory can be read
//! ```

use super::lowering::{Lower, Lowered, Lowering};
use crate::ModelError;
use crate::graph::StaticGraph;
use crate::plan::{MAX_RANK, Port, Storage};
use crate::tensor::DType;
use spark_onnx_graph::each_operator;

impl Lowering<'_> {
    /// Makes a port and a buffer for every input of the graph.
    pub(super) fn inputs(&mut self) -> Result<(), ModelError> {
        let leads_to_pictures = leads_to_pictures(self.graph);
        for &id in self.graph.inputs() {
            let value = self.graph.value(id);
            if value.ty.shape.len() > MAX_RANK {
                return Err(ModelError::Operator {
                    node: value.name.clone(),
                    op: "input".to_owned(),
                    reason: format!("{} axes, at most {MAX_RANK}", value.ty.shape.len()),
                });
            }
            if value.ty.dtype == DType::F64 {
                tracing::warn!(input = %value.name, "f64 values are carried as f32");
            }
            let storage = Storage::of(value.ty.dtype);
            let view = if leads_to_pictures[id.0] {
                self.image_buffer(storage, &value.ty.shape)
            } else {
                self.row_major_buffer(storage, &value.ty.shape)
            };
            self.values[id.0] = Lowered::View(view.clone());
            self.plan.inputs.push(Port {
                name: value.name.clone(),
                dtype: value.ty.dtype,
                shape: value.ty.shape.clone(),
                view,
            });
        }
        Ok(())
    }
}

/// By value: whether a step that works on pictures is computed from it.
fn leads_to_pictures(graph: &StaticGraph) -> Vec<bool> {
    let mut leads = vec![false; graph.values().len()];
    for node in graph.nodes().iter().rev() {
        let on_images = each_operator!(match &node.op, it => Lower::works_on_images(it));
        if on_images || node.outputs.iter().flatten().any(|id| leads[id.0]) {
            for id in node.inputs.iter().flatten() {
                leads[id.0] = true;
            }
        }
    }
    leads
}
