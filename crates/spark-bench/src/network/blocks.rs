//! What stands in a picture as one box: a chain of nodes, an input, an output.
//!
//! ```text
//! Conv ─> Relu ─> Conv ─┬─>      one box of three lines: nobody else reads what is between them
//!                       └─>
//! ```

use std::collections::BTreeSet;

use spark_onnx::graph::{Dim, Graph, Node, Value, ValueId};
use spark_onnx::tensor::DType;

/// Most lines of a box; a longer chain is several.
const MOST_LINES: usize = 12;
/// Most characters of a line.
const MOST_CHARACTERS: usize = 34;

/// What colour a line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Port,
    /// Where the work is: convolutions and matmuls.
    Heavy,
    /// Moves or cuts values and computes nothing.
    Moving,
    Other,
}

/// One box.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) lines: Vec<(Kind, String)>,
    /// The shape of what it hands on, where the file declares it.
    pub(super) shape: Option<String>,
    /// Blocks that read what it makes, by their places, which are behind its own.
    pub(super) readers: BTreeSet<usize>,
}

/// All blocks, each behind those that it reads.
pub(super) fn of(graph: &Graph) -> Vec<Block> {
    let ports = graph.inputs.iter().map(|&id| Block {
        lines: vec![(Kind::Port, shortened(&graph.value(id).name))],
        shape: shape_of(graph.value(id)),
        readers: BTreeSet::new(),
    });
    let mut blocks: Vec<Block> = ports.collect();
    // What alone is read of a block's last node; of an input there is none, so that it keeps its box.
    let mut end: Vec<Option<ValueId>> = vec![None; blocks.len()];
    // Which block makes a value, and how many nodes read it, an output as one more.
    let mut maker = vec![None; graph.values.len()];
    let mut n_readers = vec![0_usize; graph.values.len()];
    for (block, id) in graph.inputs.iter().enumerate() {
        maker[id.0] = Some(block);
    }
    let read =
        |node: &Node| -> BTreeSet<ValueId> { node.inputs.iter().flatten().copied().collect() };
    for id in graph
        .nodes
        .iter()
        .flat_map(read)
        .chain(graph.outputs.iter().copied())
    {
        n_readers[id.0] += 1;
    }
    for node in &graph.nodes {
        let operands: Vec<ValueId> = read(node)
            .into_iter()
            .filter(|id| maker[id.0].is_some())
            .collect();
        let before: BTreeSet<usize> = operands.iter().filter_map(|id| maker[id.0]).collect();
        let line = (kind_of(node), line_of(graph, node));
        let results = || node.outputs.iter().flatten();
        let shape = results().next().and_then(|&id| shape_of(graph.value(id)));
        let chained = match (&operands[..], before.first()) {
            (&[operand], Some(&block)) => {
                let is_alone = n_readers[operand.0] == 1 && end[block] == Some(operand);
                let has_room = blocks[block].lines.len() < MOST_LINES;
                (is_alone && has_room).then_some(block)
            }
            _ => None,
        };
        let block = match chained {
            Some(block) => {
                blocks[block].lines.push(line);
                blocks[block].shape = shape;
                block
            }
            None => {
                for &earlier in &before {
                    let own = blocks.len();
                    blocks[earlier].readers.insert(own);
                }
                blocks.push(Block {
                    lines: vec![line],
                    shape,
                    readers: BTreeSet::new(),
                });
                end.push(None);
                blocks.len() - 1
            }
        };
        let mut are_read = results().filter(|id| n_readers[id.0] > 0);
        end[block] = are_read
            .next()
            .copied()
            .filter(|_| are_read.next().is_none());
        for id in results() {
            maker[id.0] = Some(block);
        }
    }
    for &id in &graph.outputs {
        let own = blocks.len();
        if let Some(block) = maker[id.0] {
            blocks[block].readers.insert(own);
        }
        blocks.push(Block {
            lines: vec![(Kind::Port, shortened(&graph.value(id).name))],
            shape: shape_of(graph.value(id)),
            readers: BTreeSet::new(),
        });
    }
    blocks
}

/// The operator, with the shape of the largest constant that it takes.
fn line_of(graph: &Graph, node: &Node) -> String {
    let constants = node
        .inputs
        .iter()
        .flatten()
        .filter(|&&id| graph.value(id).constant.is_some());
    let shapes = constants.filter_map(|&id| known(graph.value(id)));
    let largest = shapes.max_by_key(|shape| {
        shape
            .iter()
            .fold(1, |n: usize, &axis| n.saturating_mul(axis))
    });
    let shape = largest.filter(|shape| shape.iter().any(|&axis| axis > 1));
    let shape = shape.map(|shape| {
        let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!(" {}", axes.join("×"))
    });
    shortened(&format!("{}{}", node.op.name(), shape.unwrap_or_default()))
}

/// The shape of a constant that is a weight; wide integers are shapes, axes and indices.
fn known(value: &Value) -> Option<Vec<usize>> {
    let tensor = value.constant.as_ref()?;
    let is_weight = !matches!(tensor.dtype(), DType::I32 | DType::I64 | DType::Bool);
    is_weight.then(|| tensor.shape().to_vec())
}

fn shape_of(value: &Value) -> Option<String> {
    let axes = value.shape.as_ref()?.iter().map(|dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Symbol(name) => name.clone(),
        Dim::Unknown => "?".to_owned(),
    });
    Some(shortened(&axes.collect::<Vec<_>>().join("×")))
}

fn kind_of(node: &Node) -> Kind {
    match node.op.name() {
        "Conv" | "ConvTranspose" | "Gemm" | "MatMul" | "MatMulInteger" | "ConvInteger"
        | "QLinearConv" | "QLinearMatMul" | "LSTM" | "GRU" | "RNN" | "Attention" | "Einsum" => {
            Kind::Heavy
        }
        "Reshape" | "Flatten" | "Transpose" | "Concat" | "Slice" | "Split" | "Squeeze"
        | "Unsqueeze" | "Gather" | "Expand" | "Pad" | "Identity" | "Cast" | "Tile" | "Shape"
        | "GatherElements" | "GatherND" => Kind::Moving,
        _ => Kind::Other,
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MOST_CHARACTERS {
        return text.to_owned();
    }
    text.chars()
        .take(MOST_CHARACTERS - 1)
        .chain(['…'])
        .collect()
}
