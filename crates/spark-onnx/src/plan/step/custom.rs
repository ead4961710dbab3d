//! An operator of an embedder's own.

use super::lowered_step::{LoweredStep, shape};
use crate::DType;
use crate::graph::Custom;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// An operator that somebody else computes, on row-major tensors in the model's own types.
///
/// Every result is a dense row-major buffer of its own, in which nothing else of the step lies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CustomStep {
    pub(crate) op: Custom,
    /// In any layout; `None` where one is left out.
    pub(crate) operands: Vec<Option<TypedView>>,
    /// `None` where nobody wants it.
    pub(crate) results: Vec<Option<TypedView>>,
}

/// A tensor as the plan holds it, and its type in the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TypedView {
    pub(crate) view: View,
    pub(crate) dtype: DType,
}

impl CustomStep {
    fn all(&self) -> impl Iterator<Item = &TypedView> {
        self.operands.iter().chain(&self.results).flatten()
    }
}

impl LoweredStep for CustomStep {
    fn kind(&self) -> &'static str {
        "custom"
    }

    fn views_read(&self) -> Vec<&View> {
        self.operands.iter().flatten().map(|of| &of.view).collect()
    }

    fn views_written(&self) -> Vec<&View> {
        self.results.iter().flatten().map(|of| &of.view).collect()
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let all = self.operands.iter_mut().chain(&mut self.results);
        all.flatten().map(|of| &mut of.view).collect()
    }

    /// As any value of its type.
    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        self.all()
            .all(|of| storage(&of.view) == Storage::of(of.dtype))
    }

    fn describe(&self) -> String {
        let list = |list: &[Option<TypedView>]| {
            let each = list.iter().map(|of| match of {
                Some(TypedView { view, dtype }) => format!("{} {dtype}", shape(view)),
                None => "-".to_owned(),
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let (operands, results) = (list(&self.operands), list(&self.results));
        format!("{}, {operands} -> {results}", self.op.qualified())
    }
}
