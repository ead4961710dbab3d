//! Which operators an embedder brings, by domain and name.
//!
//! ```text
//! node com.example::Foo, attributes ──> registry ──make(attributes)──> Arc<dyn CustomOperator>
//! ```
//!
//! Functions that a file spells out come first, then the operators that are known anyway, which cannot be registered anew:
//! a network means the same whatever is registered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ModelError;
use crate::graph::{CustomAttributes, CustomOperator, OperatorError};
use crate::operators;

/// Makes an operator of a node's attributes.
pub(crate) type Make =
    dyn Fn(&CustomAttributes) -> Result<Arc<dyn CustomOperator>, OperatorError> + Send + Sync;

/// Operators of an embedder's own that files may hold.
///
/// Cloning shares what makes them.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::file::{OperatorRegistry, ReadOptions, parse_with};
/// use spark_onnx_graph::graph::{CustomAttributes, CustomOperator, Operand, OperatorError, TensorType};
/// use spark_onnx_graph::{TensorView, TensorViewMut};
///
/// /// `max(x, floor)`.
/// struct AtLeast {
///     floor: f32,
/// }
///
/// impl AtLeast {
///     fn of(attributes: &CustomAttributes) -> Result<Self, OperatorError> {
///         attributes.only(&["floor"])?;
///         Ok(Self { floor: attributes.float("floor")?.unwrap_or(0.0) })
///     }
/// }
///
/// impl CustomOperator for AtLeast {
///     fn infer(&self, operands: &[Option<Operand<'_>>], _: usize) -> Result<Vec<TensorType>, OperatorError> {
///         match operands {
///             [Some(x)] => Ok(vec![x.ty()]),
///             _ => Err("takes one operand".into()),
///         }
///     }
///
///     fn run(
///         &self,
///         operands: &[Option<TensorView<'_>>],
///         results: &mut [Option<TensorViewMut<'_>>],
///     ) -> Result<(), OperatorError> {
///         let ([Some(x)], [Some(y)]) = (operands, results) else {
///             return Err("`infer` saw one operand".into());
///         };
///         let (Some(x), Some(y)) = (x.as_slice::<f32>(), y.as_slice_mut::<f32>()) else {
///             return Err("takes f32".into());
///         };
///         y.iter_mut().zip(x).for_each(|(y, x)| *y = x.max(self.floor));
///         Ok(())
///     }
/// }
///
/// let mut operators = OperatorRegistry::new();
/// operators.register("com.example", "AtLeast", AtLeast::of)?;
/// let options = ReadOptions::new().with_operators(operators);
/// let graph = parse_with(b"no model", None, &options); // of a file: load_with(path, &options)
/// assert!(graph.is_err());
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
#[derive(Clone, Default)]
pub struct OperatorRegistry {
    /// By domain, then name.
    made_by: BTreeMap<(String, String), Arc<Make>>,
}

impl OperatorRegistry {
    /// No operator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads nodes of operator `name` of `domain`, the empty one or `ai.onnx` for ONNX's own, with what `make` makes of their
    /// attributes. It is called once for each such node of a file that is read.
    ///
    /// # Errors
    ///
    /// [`ModelError::OperatorTaken`] if it is registered, or one that is known anyway.
    pub fn register<O: CustomOperator + 'static>(
        &mut self,
        domain: &str,
        name: &str,
        make: impl Fn(&CustomAttributes) -> Result<O, OperatorError> + Send + Sync + 'static,
    ) -> Result<(), ModelError> {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        let key = (domain.to_owned(), name.to_owned());
        if operators::translator_of(domain, name).is_some() || self.made_by.contains_key(&key) {
            return Err(ModelError::OperatorTaken {
                op: match domain {
                    "" => name.to_owned(),
                    _ => format!("{domain}::{name}"),
                },
            });
        }
        let make = move |attributes: &CustomAttributes| {
            make(attributes).map(|operator| Arc::new(operator) as Arc<dyn CustomOperator>)
        };
        self.made_by.insert(key, Arc::new(make));
        Ok(())
    }

    /// Names of all, as `domain::name`, sorted.
    pub fn names(&self) -> Vec<String> {
        let names = self
            .made_by
            .keys()
            .map(|(domain, name)| match domain.as_str() {
                "" => name.clone(),
                domain => format!("{domain}::{name}"),
            });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// What makes the operator of this name, if it is registered.
    pub(crate) fn maker(&self, domain: &str, name: &str) -> Option<&Make> {
        let found = self.made_by.get(&(domain.to_owned(), name.to_owned()));
        found.map(Arc::as_ref)
    }
}

impl PartialEq for OperatorRegistry {
    /// Whether the same names are made by the same values.
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.made_by.iter().zip(&other.made_by);
        self.made_by.len() == other.made_by.len()
            && pairs().all(|((a, x), (b, y))| a == b && Arc::ptr_eq(x, y))
    }
}

impl Eq for OperatorRegistry {}

impl fmt::Debug for OperatorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
