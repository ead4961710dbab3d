//! What is known of an operator before data flows: name, ways in from a file, types, way out.
//!
//! ```text
//! node of a file, any version ──IMPORTS──> parameters ──infer──> types of the results
//!                                              └──attributes, export──> node of a file
//! ```
//!
//! Operands that an operator cannot compute with are refused by `infer`, however its graph was made:
//! their count, element types, ranks, channel counts, axes, windows larger than their input, sizes that
//! overflow. The interpreter and the executors stand behind it and index freely. If, Loop and Scan,
//! whose types are those of their bodies, are checked where they are bound.
//!
//! Deliberately absent: the operators, which are in the files beside this one by family.

use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::Translator;
use crate::graph::infer::Operands;
use crate::graph::{OpError, TensorType};
use crate::tensor::DType;

/// The types of an operator's results.
pub(super) type Inferred = Result<Vec<TensorType>, OpError>;

/// Parameters as attributes, or why ONNX cannot express them.
pub(super) type Exported<'g> = Result<Attributes<'g>, String>;

/// The element type of an operand, by position, as far as it is known.
pub(crate) type KnownDType<'k> = &'k dyn Fn(usize) -> Option<DType>;

/// Operator set of the files that are written, unless an operator is newer.
pub(super) const OPERATOR_SET: i64 = 21;

/// An operator as ONNX defines it. Every parameter struct of an operator is one.
pub(super) trait Operator {
    /// Its names in a file, older ones too, and what takes a node of that name, of any version, to
    /// the normal form.
    const IMPORTS: &'static [Translator];

    /// Its name in the ONNX specification; `custom` of an embedder's own.
    fn name(&self) -> &'static str;

    /// The types of its results, as many as are wanted.
    fn infer(&self, operands: &Operands<'_>) -> Inferred;

    /// Operands whose elements must be known before it runs, as shapes hang on them, or steps.
    fn deciding_operands(&self) -> &[usize] {
        &[]
    }

    /// The element type of a result, as far as it follows without shapes.
    fn result_dtype(&self, _output: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(0)
    }

    /// Its parameters as the attributes of the standard operator of its name. All are written,
    /// defaults too, except empty lists, which stand for defaults that depend on the rank.
    fn attributes(&self) -> Exported<'_>;

    /// The first operator set that has it in this form, at least [`OPERATOR_SET`].
    fn operator_set(&self) -> i64 {
        OPERATOR_SET
    }

    /// Writes its node, or the nodes it is spelled out in.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        node.finish(self.name(), self.attributes()?)
    }
}
