//! Operators of an embedder's own: one step, on whatever views its operands are.

use super::lowering::{Lower, Lowering};
use crate::graph::{Custom, Node, OpError};
use crate::plan::Storage;
use crate::plan::step::{CustomStep, Step, TypedView};

impl Lower for Custom {
    fn lower(&self, l: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let mut operands = Vec::with_capacity(node.inputs.len());
        for id in &node.inputs {
            operands.push(match *id {
                Some(id) => Some(TypedView {
                    view: l.view(id)?,
                    dtype: l.ty(id).dtype,
                }),
                None => None,
            });
        }
        let mut results = Vec::with_capacity(node.outputs.len());
        for id in &node.outputs {
            results.push(id.map(|id| {
                let ty = l.ty(id);
                let view = l.row_major_buffer(Storage::of(ty.dtype), &ty.shape);
                l.set(id, view.clone());
                TypedView {
                    view,
                    dtype: ty.dtype,
                }
            }));
        }
        let op = self.clone();
        l.emit(
            &node.name,
            Step::Custom(CustomStep {
                op,
                operands,
                results,
            }),
        );
        Ok(())
    }
}
