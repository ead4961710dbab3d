//! The graph while it grows: values by name, unique names, element types as far as known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::graph::{Dim, Graph, Node, Op, Unary, Value, ValueId};
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::NarrowType;

/// A graph under construction.
pub(crate) struct Builder {
    pub(crate) graph: Graph,
    by_name: HashMap<String, ValueId>,
    /// Every name the file uses, so that made names differ from names still to come.
    taken: HashSet<String>,
    /// Constants of the graphs around a body that it is given.
    captured: HashMap<ValueId, Arc<Tensor>>,
    /// Element types, declared or following from operators.
    dtypes: Vec<Option<DType>>,
    /// Values whose type in the file is held as a wider one.
    narrow: HashMap<ValueId, NarrowType>,
    result_dtype: ResultDType,
}

/// Element type of a result of an operator, by position, from those of the operands.
pub(crate) type ResultDType = fn(&Op, usize, &dyn Fn(usize) -> Option<DType>) -> Option<DType>;

impl Builder {
    /// An empty graph that will not make up any of the names in `taken`.
    pub(crate) fn new(name: &str, taken: HashSet<String>, result_dtype: ResultDType) -> Self {
        Self {
            graph: Graph {
                name: name.to_owned(),
                ..Graph::default()
            },
            by_name: HashMap::new(),
            taken,
            captured: HashMap::new(),
            dtypes: Vec::new(),
            narrow: HashMap::new(),
            result_dtype,
        }
    }

    /// The value of that name in the file.
    pub(crate) fn find(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    /// The element type of a value, if it is known.
    pub(crate) fn dtype(&self, id: ValueId) -> Option<DType> {
        self.dtypes[id.0]
    }

    /// The elements of a value, if it is a constant.
    pub(crate) fn constant_of(&self, id: ValueId) -> Option<&Tensor> {
        self.shared_constant(id).map(Arc::as_ref)
    }

    fn shared_constant(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        let own = self.graph.value(id).constant.as_ref();
        own.or_else(|| self.captured.get(&id))
    }

    fn register(&mut self, id: ValueId, dtype: Option<DType>) -> ValueId {
        let name = self.graph.value(id).name.clone();
        self.by_name.insert(name, id);
        self.dtypes.push(dtype);
        id
    }

    /// Adds an input. The caller has checked that the name is new.
    pub(crate) fn input(&mut self, name: &str, dtype: DType, shape: Option<Vec<Dim>>) -> ValueId {
        let id = self.graph.add_value(Value {
            name: name.to_owned(),
            dtype: Some(dtype),
            shape,
            constant: None,
        });
        self.graph.inputs.push(id);
        self.register(id, Some(dtype))
    }

    /// Adds what a body is given each time. Where it stands for a value of the graph `around` it, its type
    /// and elements are known as far as those are. The caller has checked that the name is new.
    pub(crate) fn body_input(
        &mut self,
        name: &str,
        dtype: Option<DType>,
        around: Option<(&Self, ValueId)>,
    ) -> ValueId {
        let dtype = dtype.or_else(|| around.and_then(|(outer, id)| outer.dtype(id)));
        let id = self.graph.add_value(Value {
            name: name.to_owned(),
            dtype,
            shape: None,
            constant: None,
        });
        self.graph.inputs.push(id);
        if let Some(constant) = around.and_then(|(outer, id)| outer.shared_constant(id)) {
            self.captured.insert(id, Arc::clone(constant));
        }
        self.set_narrow(id, around.and_then(|(outer, id)| outer.narrow(id)));
        self.register(id, dtype)
    }

    /// Notes the element type of a result that its node does not tell.
    pub(crate) fn set_dtype(&mut self, id: ValueId, dtype: Option<DType>) {
        self.dtypes[id.0] = self.dtypes[id.0].or(dtype);
    }

    /// The type of a value in the file, where it is held as a wider one.
    pub(crate) fn narrow(&self, id: ValueId) -> Option<NarrowType> {
        self.narrow.get(&id).copied()
    }

    /// Notes the type of a value in the file, where it is held as a wider one.
    pub(crate) fn set_narrow(&mut self, id: ValueId, narrow: Option<NarrowType>) {
        if let Some(narrow) = narrow {
            self.narrow.insert(id, narrow);
        }
    }

    /// Adds a constant under a name of the file, which the caller has checked to be new.
    pub(crate) fn named_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let dtype = tensor.dtype();
        let id = self.graph.add_constant(name, tensor);
        self.register(id, Some(dtype))
    }

    /// Adds a result under a name of the file, which the caller has checked to be new.
    pub(crate) fn result(&mut self, name: &str) -> ValueId {
        let id = self.graph.add_value(Value {
            name: name.to_owned(),
            dtype: None,
            shape: None,
            constant: None,
        });
        self.register(id, None)
    }

    /// A name no value of the file or of the graph has, close to `base`.
    pub(crate) fn unique(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while !self.taken.insert(name.clone()) {
            name = format!("{base}_{}", self.taken.len());
        }
        name
    }

    /// Appends a node and notes the types of its results.
    pub(crate) fn node(&mut self, node: Node) {
        for (index, output) in node.outputs.iter().enumerate() {
            if let Some(id) = *output {
                if moves_elements(&node.op)
                    && let Some(first) = node.inputs.first().copied().flatten()
                {
                    self.set_narrow(id, self.narrow(first));
                }
                let dtype = self.result_dtype(&node, index);
                if self.dtypes[id.0].is_none() {
                    self.dtypes[id.0] = dtype;
                }
            }
        }
        self.graph.nodes.push(node);
    }

    fn result_dtype(&self, node: &Node, output: usize) -> Option<DType> {
        let operand = |index: usize| {
            let id = node.inputs.get(index).copied().flatten()?;
            self.dtype(id)
        };
        (self.result_dtype)(&node.op, output, &operand)
    }
}

/// Whether the elements of all results are those of the first operand.
fn moves_elements(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(Unary::Identity)
            | Op::Reshape(_)
            | Op::Flatten(_)
            | Op::Squeeze(_)
            | Op::Unsqueeze(_)
            | Op::Transpose(_)
            | Op::Concat(_)
            | Op::Split(_)
            | Op::Slice(_)
            | Op::Gather(_)
            | Op::GatherElements(_)
            | Op::GatherNd(_)
            | Op::Expand(_)
            | Op::Tile(_)
            | Op::Pad(_)
    )
}
