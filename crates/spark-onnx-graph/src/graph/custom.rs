//! Operators of an embedder's own: what ONNX does not have, computed by code of whoever runs the network.
//!
//! ```text
//! in a file      node Foo of domain com.example ──file::OperatorRegistry──> Custom { attributes, Arc<dyn CustomOperator> }
//! in code        Custom::new("com.example", "Foo", attributes, foo)         the same
//!
//! bind           CustomOperator::infer   types of the results; never folded, whatever is constant
//! reference,     CustomOperator::run     row-major tensors in, row-major memory out, in the types that `infer` was
//! an engine                              told and told; once for each time that a run comes to the node
//! to a file      its node again, with domain, version and attributes
//! ```
//!
//! Nothing else looks inside: rewrites leave such a node where it is, no precision changes its types, nothing is fused with
//! it. It sees tensors that others hold and writes memory that others lend, in safe code, so that no mistake in it reaches
//! further than its own results. A panic passes through whoever called: a session, for one, can go on.
//!
//! Deliberately absent: graphs among the attributes, layouts other than row-major, and threads, of which an operator may
//! use its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::infer::Operand;
use super::types::TensorType;
use crate::tensor::Tensor;
use crate::tensor_view::TensorView;
use crate::tensor_view_mut::TensorViewMut;

/// Why an operator of an embedder's refuses its parameters or operands, or could not compute: any error.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// An operator that an embedder computes.
///
/// One value stands for a node with its parameters. It may be asked and run by several threads at a time, each with
/// operands of its own.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use spark_onnx_graph::graph::{
///     Custom, CustomAttributes, CustomOperator, Dim, Graph, Op, Operand, OperatorError, TensorType, bind,
/// };
/// use spark_onnx_graph::{DType, Tensor, TensorView, TensorViewMut, reference};
///
/// /// Rows of a matrix, each shifted by its mean.
/// struct Centre;
///
/// impl CustomOperator for Centre {
///     fn infer(&self, operands: &[Option<Operand<'_>>], _: usize) -> Result<Vec<TensorType>, OperatorError> {
///         match operands {
///             [Some(x)] if x.dtype == DType::F32 && x.shape.len() == 2 => Ok(vec![x.ty()]),
///             _ => Err("takes one matrix of f32".into()),
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
///         let columns = x.shape()[1];
///         let (Some(x), Some(y)) = (x.as_slice::<f32>(), y.as_slice_mut::<f32>()) else {
///             return Err("`infer` saw f32".into());
///         };
///         for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)) {
///             let mean = x.iter().sum::<f32>() / columns as f32;
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = x - mean);
///         }
///         Ok(())
///     }
/// }
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(2)]);
/// let centre = Custom::new("com.example", "Centre", CustomAttributes::default(), Arc::new(Centre));
/// let y = graph.add_node("y", Op::Custom(centre), &[Some(x)]);
/// graph.outputs.push(y);
///
/// let x = Tensor::from_f32([2, 2], vec![1.0, 3.0, 10.0, 20.0])?;
/// let outputs = reference::run(&bind(&graph, &[])?, &[("x", &x)])?;
/// assert_eq!(outputs[0].1.to_f32(), [-1.0, 1.0, -5.0, 5.0]);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub trait CustomOperator: Send + Sync {
    /// Types of the results, `n_results` of them. A result that the node leaves out counts if a later one is there.
    ///
    /// Everything that can be wrong before data flows is refused here: [`CustomOperator::run`] gets operands of these types
    /// and shapes. An operand that is left out is `None`, or missing at the end.
    ///
    /// It must not use the model that it is part of, nor a session of that, nor wait for a thread that does: an engine may ask
    /// while it holds its plans, and would wait for itself for ever.
    ///
    /// # Errors
    ///
    /// Why it cannot take these operands, which becomes [`ModelError::Operator`](crate::ModelError::Operator) with the
    /// node's name.
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        n_results: usize,
    ) -> Result<Vec<TensorType>, OperatorError>;

    /// Computes the results, in the memory that is lent for them, which is zero. A result that the node leaves out may be
    /// `None`. It is not called where no result has an element.
    ///
    /// # Errors
    ///
    /// Why it could not, which becomes [`ModelError::Custom`](crate::ModelError::Custom) with the node's name; the run ends
    /// with it.
    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError>;

    /// Operands whose elements [`CustomOperator::infer`] must see, as shapes hang on them: such an operand is
    /// [`Operand::constant`], and an input of the network that it comes from decides shapes
    /// ([`deciding_inputs`](super::deciding_inputs)). Where a run computes them, a network is cut there
    /// ([`stages_at_values`](crate::stages_at_values)) or run as it is ([`run_unbound`](crate::reference::run_unbound)), and
    /// the results are as long as the run's values say; all operands are [`Operand::constant`] then.
    fn deciding_operands(&self) -> &[usize] {
        &[]
    }
}

/// A parameter of an operator.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f32),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(Tensor),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Texts.
    Texts(Vec<String>),
}

impl AttributeValue {
    /// What it holds, for people.
    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::Tensor(_) => "a tensor",
            Self::Ints(_) => "ints",
            Self::Floats(_) => "floats",
            Self::Texts(_) => "texts",
        }
    }
}

/// A parameter that is there and of another kind, is not there, or is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// It is there, and of another kind.
    #[error("attribute `{name}` is {got}, wanted {want}")]
    Kind {
        /// Name of the parameter.
        name: String,
        /// What it holds.
        got: &'static str,
        /// What was wanted.
        want: &'static str,
    },
    /// It must be there.
    #[error("attribute `{name}` is missing")]
    Missing {
        /// Name of the parameter.
        name: String,
    },
    /// It is none of those that are known.
    #[error("attribute `{name}` is not known")]
    Unknown {
        /// Name of the parameter.
        name: String,
    },
}

/// The parameters of a node, by name.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{AttributeValue, CustomAttributes};
///
/// let attributes = CustomAttributes::from([("alpha".to_owned(), AttributeValue::Float(0.5))]);
/// attributes.only(&["alpha", "axis"])?;
/// assert_eq!(attributes.float("alpha")?, Some(0.5));
/// assert_eq!(attributes.int("axis")?.unwrap_or(-1), -1);
/// assert_eq!(attributes.int("alpha").unwrap_err().to_string(), "attribute `alpha` is a float, wanted an int");
/// # Ok::<(), spark_onnx_graph::graph::AttributeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CustomAttributes(BTreeMap<String, AttributeValue>);

macro_rules! getters {
    ($($name:ident -> $variant:ident $t:ty, $want:literal, $how:expr;)*) => {
        $(
            #[doc = concat!("The parameter of this name, which holds ", $want, "; nothing where it is not there.")]
            ///
            /// # Errors
            ///
            /// [`AttributeError::Kind`] if it holds something else.
            pub fn $name(&self, name: &str) -> Result<Option<$t>, AttributeError> {
                match self.0.get(name) {
                    None => Ok(None),
                    Some(AttributeValue::$variant(value)) => Ok(Some($how(value))),
                    Some(other) => Err(AttributeError::Kind {
                        name: name.to_owned(),
                        got: other.kind(),
                        want: $want,
                    }),
                }
            }
        )*
    };
}

impl CustomAttributes {
    getters! {
        int -> Int i64, "an int", |value: &i64| *value;
        float -> Float f32, "a float", |value: &f32| *value;
        text -> Text &str, "a text", String::as_str;
        tensor -> Tensor &Tensor, "a tensor", std::convert::identity;
        ints -> Ints &[i64], "ints", Vec::as_slice;
        floats -> Floats &[f32], "floats", Vec::as_slice;
        texts -> Texts &[String], "texts", Vec::as_slice;
    }

    /// Whatever the parameter of this name holds.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.0.get(name)
    }

    /// All parameters, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Refuses parameters of other names: what is not understood may change the result.
    ///
    /// # Errors
    ///
    /// [`AttributeError::Unknown`], naming the first.
    pub fn only(&self, known: &[&str]) -> Result<(), AttributeError> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(AttributeError::Unknown { name: name.clone() }),
            None => Ok(()),
        }
    }
}

impl<const N: usize> From<[(String, AttributeValue); N]> for CustomAttributes {
    fn from(list: [(String, AttributeValue); N]) -> Self {
        Self(BTreeMap::from(list))
    }
}

impl FromIterator<(String, AttributeValue)> for CustomAttributes {
    fn from_iter<I: IntoIterator<Item = (String, AttributeValue)>>(list: I) -> Self {
        Self(list.into_iter().collect())
    }
}

/// Parameters of [`Op::Custom`](super::Op::Custom): which operator it is, with what, and what computes it.
///
/// Two are equal if they have the same names, version and attributes and are computed by the same value.
#[derive(Clone)]
pub struct Custom {
    domain: String,
    name: String,
    /// `domain::name`.
    qualified: String,
    version: i64,
    attributes: Arc<CustomAttributes>,
    operator: Arc<dyn CustomOperator>,
}

impl Custom {
    /// The operator `name` of `domain`, the empty one or `ai.onnx` for ONNX's own, in version 1 of that.
    ///
    /// One with the name of an operator that is known anyway runs, but is not written into files, where it would be read
    /// as that.
    pub fn new(
        domain: &str,
        name: &str,
        attributes: CustomAttributes,
        operator: Arc<dyn CustomOperator>,
    ) -> Self {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        Self {
            domain: domain.to_owned(),
            name: name.to_owned(),
            qualified: match domain {
                "" => name.to_owned(),
                _ => format!("{domain}::{name}"),
            },
            version: 1,
            attributes: Arc::new(attributes),
            operator,
        }
    }

    /// The same in another version of its domain, which is written into files.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }

    /// Domain of the operator; empty for ONNX's own.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Name of the operator within its domain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `domain::name`, or the name alone in ONNX's own domain.
    pub fn qualified(&self) -> &str {
        &self.qualified
    }

    /// Version of the domain's operators.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The parameters.
    pub fn attributes(&self) -> &CustomAttributes {
        &self.attributes
    }

    /// What computes it.
    pub fn operator(&self) -> &Arc<dyn CustomOperator> {
        &self.operator
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.qualified == other.qualified
            && self.version == other.version
            && self.attributes == other.attributes
            && Arc::ptr_eq(&self.operator, &other.operator)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("operator", &self.qualified)
            .field("version", &self.version)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}
