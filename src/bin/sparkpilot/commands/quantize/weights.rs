//! The weights of a file, and a true sentence about a file that holds none.
//!
//! ```text
//! ONNX         y = Conv(x, w)  MatMul(x, w)  MatMul(w, x)  Gemm      w: a constant, or one behind
//!                                                                    Cast, Identity, Transpose, Reshape
//! safetensors  X.weight, f32, f16 or bf16, two axes or more          or, if no name ends so, every
//!                                                                    such tensor
//! ```
//!
//! A weight is `[outputs, inputs…]`, as PyTorch has it, and its name ends in `.weight`, as the layouts
//! of checkpoints want it. What is like a weight and stays as it is, is counted; constants behind other nodes
//! than these, and tables that are looked up, are not searched for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spark_program::about;
use sparkpilot::onnx::graph::{CastLike, Graph, MatMul, Node, Op, Unary, ValueId};
use sparkpilot::onnx::{DType, Tensor, file, reference};
use sparkpilot::quant::analysis::NamedWeight;
use sparkpilot::quant::checkpoint::{Checkpoint, Entry};
use sparkpilot::zoo;

/// Nodes between a constant and the product that uses it; exporters write one or two.
const MOST_STEPS: usize = 16;

/// What a file holds.
#[derive(Default)]
pub(super) struct Found {
    /// Weights to quantize; not empty.
    pub(super) weights: Vec<NamedWeight>,
    /// Everything else of a checkpoint, which stays as it is.
    pub(super) others: Vec<(String, Entry)>,
    /// Sentences that the reader should not miss.
    pub(super) notes: Vec<String>,
}

/// Weights of two axes and more, and everything else.
pub(super) fn read(path: Option<&Path>) -> Result<Found, Box<dyn Error>> {
    let Some(path) = path else {
        let note = "no file given: the built-in driving policy, random weights".to_owned();
        return Ok(Found {
            notes: vec![note],
            ..of_graph(&zoo::driving_policy(0))?
        });
    };
    let found = if path
        .extension()
        .is_some_and(|extension| extension == "onnx")
    {
        of_graph(&file::load(path).map_err(about(path))?)
    } else {
        of_checkpoint(Checkpoint::read(path).map_err(about(path))?.0)
    };
    Ok(found.map_err(about(path))?)
}

/// `base.weight`, or with a number where that name is taken; the name is taken then.
fn weight_name(base: &str, taken: &mut HashSet<String>) -> String {
    let base = base.strip_suffix(".weight").unwrap_or(base);
    let mut name = format!("{base}.weight");
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{base}_{number}.weight");
        number += 1;
    }
    name
}

fn of_checkpoint(checkpoint: Checkpoint) -> Result<Found, String> {
    let mut found = Found::default();
    let (mut unnamed, mut passed) = (Vec::new(), BTreeMap::<&str, usize>::new());
    let mut n_quantized = 0;
    let mut pass = |why| *passed.entry(why).or_default() += 1;
    let mut types = BTreeMap::<String, usize>::new();
    for (name, entry) in checkpoint.entries {
        let plain = match &entry {
            Entry::Plain(plain) => plain,
            Entry::Quantized(_) => {
                pass("quantized already");
                n_quantized += 1;
                found.others.push((name, entry));
                continue;
            }
        };
        if plain.data.is_empty() || plain.shape.len() < 2 {
            pass(match plain.data.is_empty() {
                true => "empty",
                false => "of fewer than two axes",
            });
            found.others.push((name, entry));
            continue;
        }
        let Some(values) = plain.to_f32() else {
            *types.entry(format!("{:?}", plain.dtype)).or_default() += 1;
            found.others.push((name, entry));
            continue;
        };
        let shape = plain.shape.clone();
        if name.ends_with(".weight") {
            found.weights.push(NamedWeight {
                name,
                shape,
                values,
            });
        } else {
            unnamed.push((name, entry, shape, values));
        }
    }
    if found.weights.is_empty() {
        let names = found.others.iter().map(|(name, _)| name.clone());
        let mut taken: HashSet<String> = names.collect();
        for (name, _, shape, values) in unnamed {
            let name = weight_name(&name, &mut taken);
            found.weights.push(NamedWeight {
                name,
                shape,
                values,
            });
        }
        if !found.weights.is_empty() {
            let note = "no float tensor of two axes and more has a name that ends in `.weight`: they are \
                        quantized, with `.weight` behind their names";
            found.notes.push(note.to_owned());
        }
    } else if let Some((first, ..)) = unnamed.first() {
        found.notes.push(format!(
            "{} more of two axes or more, as `{first}`, stay as they are: their names do not end in \
             `.weight`",
            counted(unnamed.len(), "tensor")
        ));
        let unnamed = unnamed.into_iter().map(|(name, entry, ..)| (name, entry));
        found.others.extend(unnamed);
    }
    if found.weights.is_empty() {
        let mut parts: Vec<String> = passed
            .into_iter()
            .map(|(why, n)| format!("{} {why}", counted(n, "tensor")))
            .collect();
        if !types.is_empty() {
            let types: Vec<String> = types.into_keys().collect();
            parts.push(format!("others in {}", types.join(", ")));
        }
        if parts.is_empty() {
            parts.push("no tensor at all".to_owned());
        }
        let parts = parts.join(", ");
        return Err(format!(
            "holds no weight that can be quantized, but {parts}"
        ));
    }
    for (dtype, n) in &types {
        found.notes.push(format!(
            "{} of two axes or more in {dtype} stay as they are, outside the table and its totals",
            counted(*n, "tensor")
        ));
    }
    if n_quantized > 0 {
        found.notes.push(format!(
            "{} quantized already stay as they are, outside the table and its totals",
            counted(n_quantized, "tensor")
        ));
    }
    Ok(found)
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Constant weights of convolutions and matrix products; the latter as `[outputs, inputs]`.
fn of_graph(graph: &Graph) -> Result<Found, String> {
    let makers = Makers::of(graph);
    // Names that are weights' own come first, so that no other weight takes them.
    let own = graph.values.iter().map(|value| &value.name);
    let mut taken: HashSet<String> = own
        .filter(|name| name.ends_with(".weight"))
        .cloned()
        .collect();
    let mut found = Found::default();
    let (mut seen, mut n_products, mut n_left) = (HashSet::new(), 0, 0);
    for node in &graph.nodes {
        // Operands that may be the weight, and whether their columns are the outputs.
        let operands = match &node.op {
            Op::Conv(_) => vec![(1, false)],
            Op::Gemm(gemm) => vec![(1, !gemm.trans_b), (0, gemm.trans_a)],
            Op::MatMul(MatMul) => vec![(1, true), (0, false)],
            Op::ConvTranspose(_) | Op::Einsum(_) | Op::Recurrent(_) => {
                let mut operands = node.inputs.iter().skip(1).take(2).flatten();
                n_left += usize::from(operands.any(|&id| makers.constant_behind(id).is_some()));
                continue;
            }
            _ => continue,
        };
        n_products += 1;
        let is_conv = matches!(node.op, Op::Conv(_));
        for (operand, is_transposed) in operands {
            let id = node.inputs.get(operand).copied().flatten();
            let Some((source, tensor)) = id.and_then(|id| makers.constant_behind(id)) else {
                continue;
            };
            let shape = tensor.shape().to_vec();
            let is_float = matches!(
                tensor.dtype(),
                DType::F32 | DType::F16 | DType::BF16 | DType::F64
            );
            if !is_float || tensor.is_empty() || shape.len() < 2 {
                continue;
            }
            if !is_conv && shape.len() > 2 {
                n_left += 1;
                break;
            }
            if !seen.insert(source) {
                break; // The same weight in another place.
            }
            let values = tensor.to_f32();
            let (shape, values) = match shape[..] {
                [depth, rows] if is_transposed => (
                    vec![rows, depth],
                    (0..rows * depth)
                        .map(|i| values[i % depth * rows + i / depth])
                        .collect(),
                ),
                _ => (shape, values),
            };
            let name = &graph.value(source).name;
            let name = if name.ends_with(".weight") {
                name.clone()
            } else {
                weight_name(name, &mut taken)
            };
            found.weights.push(NamedWeight {
                name,
                shape,
                values,
            });
            break;
        }
    }
    if n_left > 0 {
        let nodes = counted(n_left, "node");
        found.notes.push(format!(
            "the constants of {nodes} stay out: products of more than two axes, transposed convolutions, \
             recurrent layers and einsum are not quantized"
        ));
    }
    if found.weights.is_empty() {
        return Err(match n_products {
            0 => "holds no convolution and no matrix product, and so no weights".to_owned(),
            n => format!(
                "holds no weight that can be quantized: no operand of its convolutions and matrix \
                 products ({n}) is a constant of floats, of two axes in a product"
            ),
        });
    }
    Ok(found)
}

/// The node that makes each value.
struct Makers<'a> {
    graph: &'a Graph,
    by_value: HashMap<ValueId, &'a Node>,
}

impl<'a> Makers<'a> {
    fn of(graph: &'a Graph) -> Self {
        let made = |node: &'a Node| {
            let outputs = node.outputs.iter().flatten();
            outputs.map(move |&id| (id, node))
        };
        let by_value = graph.nodes.iter().flat_map(made).collect();
        Self { graph, by_value }
    }

    /// The constant that `id` is, or is a conversion or rearrangement of; with its values as `id`
    /// has them.
    fn constant_behind(&self, id: ValueId) -> Option<(ValueId, Arc<Tensor>)> {
        let (mut source, mut steps) = (id, Vec::new());
        let mut tensor = loop {
            if let Some(constant) = &self.graph.value(source).constant {
                break constant.clone();
            }
            let node = *self.by_value.get(&source)?;
            let is_followed = matches!(
                node.op,
                Op::Cast(_)
                    | Op::CastLike(CastLike)
                    | Op::Unary(Unary::Identity)
                    | Op::Transpose(_)
                    | Op::Reshape(_)
            );
            if !is_followed || steps.len() == MOST_STEPS {
                return None;
            }
            steps.push(node);
            source = node.inputs.first().copied().flatten()?;
        };
        for node in steps.into_iter().rev() {
            let others = node.inputs.iter().skip(1);
            let others: Vec<Option<&Tensor>> = others
                .map(|id| id.map(|id| self.graph.value(id).constant.as_deref()))
                .map(|operand| match operand {
                    None => Some(None),
                    Some(constant) => constant.map(Some),
                })
                .collect::<Option<_>>()?;
            let operands: Vec<Option<&Tensor>> =
                std::iter::once(Some(&*tensor)).chain(others).collect();
            let made = reference::evaluate(&node.op, &operands, 1).ok()?;
            tensor = Arc::new(made.into_iter().next()?);
        }
        Some((source, tensor))
    }
}
