//! Calls of a model's own functions, replaced by the functions' bodies.
//!
//! ```text
//! node  y = my::Block(x) {alpha: 2}        function my::Block(a) -> b
//!                                              t = Relu(a)
//!                                              b = LeakyRelu(t) {alpha: @alpha}
//! becomes  call/t = Relu(x)                (names within the body get the call's name in front)
//!          y = LeakyRelu(call/t) {alpha: 2}
//! ```
//!
//! The graphs that If, Loop and Scan hold are flattened with them: each says which values of the graphs
//! around it it reads. Names in the main graph stay; those within functions are made unique there too.
//!
//! Each resulting node carries the operator-set version its own function (or the
//! model) imports. Parameters and tensors are borrowed from the file, so a body that
//! is called a thousand times does not multiply its constants.
//!
//! Source: ONNX IR specification, "Functions", <https://onnx.ai/onnx/repo-docs/IR.html>.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::error::ProtoError;
use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, ValueInfoProto, attribute_type, text,
};
use crate::wire::ReadBudget;

/// Most nodes of a network once functions are replaced, with their operands and results.
const MAX_STEPS: usize = 2 << 20;

/// Most parameters of a node; real operators have fewer than twenty.
const MAX_ATTRIBUTES: usize = 256;

/// Memory that nodes and their names may take once functions are replaced.
const NAME_BYTES: usize = 256 << 20;

/// Most levels of functions that call functions.
const MAX_CALL_DEPTH: usize = 32;

/// Most levels of graphs within graphs.
const MAX_GRAPH_DEPTH: usize = 16;

/// The standard operators whose graphs are flattened with them.
const CONTROL_FLOW: [&str; 3] = ["If", "Loop", "Scan"];

/// Oldest and newest version of the file format that is read.
const IR_VERSIONS: (i64, i64) = (3, 14);

/// Oldest and newest version of the standard operators that is read.
const STANDARD_VERSIONS: (i64, i64) = (1, 28);

/// A node with no function call left in it.
#[derive(Debug)]
pub struct FlatNode<'m> {
    /// Name of the node, made of operator and position where the file has none, with the names of the
    /// calls that it stands in before it: `call/Relu_3`. Never empty.
    pub name: String,
    /// Domain of the operator; empty for the standard one.
    pub domain: &'m str,
    /// Name of the operator within its domain.
    pub op_type: &'m str,
    /// Operands; empty where left out.
    pub inputs: Vec<Cow<'m, str>>,
    /// Results; empty where not wanted.
    pub outputs: Vec<Cow<'m, str>>,
    /// Parameters of the operator by name; those of a function's call stand in their places.
    pub attributes: Vec<(&'m str, &'m AttributeProto<'m>)>,
    /// Version of the operator set.
    pub opset: i64,
    /// The graphs that If, Loop and Scan hold, by the names of their parameters.
    pub graphs: Vec<(&'m str, FlatGraph<'m>)>,
}

/// A graph that a node holds, a branch or the body of a loop, with no function call left in it.
#[derive(Debug)]
pub struct FlatGraph<'m> {
    /// What it is given each time it runs, with what is declared of it.
    pub inputs: Vec<(Cow<'m, str>, &'m ValueInfoProto<'m>)>,
    /// What it makes, with what is declared of it.
    pub outputs: Vec<(Cow<'m, str>, &'m ValueInfoProto<'m>)>,
    /// Its own constants.
    pub constants: Vec<(Cow<'m, str>, &'m TensorProto<'m>)>,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<FlatNode<'m>>,
    /// The values of the graphs around it that it reads, each once.
    pub captures: Vec<Cow<'m, str>>,
}

impl<'m> FlatNode<'m> {
    /// The values that its graphs read of those around them; one that several read is there as often.
    pub fn captures(&self) -> impl Iterator<Item = &Cow<'m, str>> {
        self.graphs.iter().flat_map(|(_, graph)| &graph.captures)
    }
}

impl FlatNode<'_> {
    /// `domain::operator`, or the operator alone where it is a standard one.
    pub fn qualified(&self) -> String {
        qualified(self.domain, self.op_type)
    }
}

/// Refuses a count over its limit.
fn limited(what: &'static str, got: usize, limit: usize) -> Result<(), ProtoError> {
    if got <= limit {
        return Ok(());
    }
    Err(ProtoError::TooLarge {
        what,
        got: got as u64,
        limit: limit as u64,
    })
}

fn qualified(domain: &str, op_type: &str) -> String {
    if domain.is_empty() {
        op_type.to_owned()
    } else {
        format!("{domain}::{op_type}")
    }
}

/// The standard operators have two names for their domain.
fn domain_of(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Operator-set version by domain.
type Versions<'m> = HashMap<&'m str, i64>;

type FunctionKey<'m> = (&'m str, &'m str, &'m str);

/// Checks the versions a model states and replaces all calls of its functions: every node of the
/// model in the end, in the order of the file.
///
/// # Errors
///
/// [`ProtoError::IrVersion`] and [`ProtoError::OperatorSet`] for a version that is not read,
/// [`ProtoError::NoGraph`] for a model without a graph; [`ProtoError::Duplicate`],
/// [`ProtoError::Dangling`] and [`ProtoError::OperatorSetMissing`] for names that do not fit;
/// [`ProtoError::FunctionDepth`], [`ProtoError::TooLarge`] and [`ProtoError::Memory`] for calls
/// that never end or unfold to more than any honest model.
pub fn flatten<'m>(model: &'m ModelProto<'m>) -> Result<Vec<FlatNode<'m>>, ProtoError> {
    let (min, max) = IR_VERSIONS;
    let got = model.ir_version.unwrap_or_default();
    if got < min || got > max {
        return Err(ProtoError::IrVersion { got, min, max });
    }
    let graph = model.graph.as_deref().ok_or(ProtoError::NoGraph)?;
    let mut functions = HashMap::new();
    for function in &model.functions {
        let key = (
            domain_of(text(&function.domain)),
            text(&function.name),
            text(&function.overload),
        );
        if functions.insert(key, function).is_some() {
            return Err(ProtoError::Duplicate {
                what: "function",
                name: qualified(key.0, key.1),
            });
        }
    }
    let mut taken: HashSet<Cow<'m, str>> = HashSet::new();
    take_names(graph, &mut taken);
    let mut flattener = Flattener {
        functions,
        taken,
        nodes: Vec::new(),
        names: ReadBudget::new(NAME_BYTES),
        n_steps: 0,
        graph_depth: 0,
    };
    let versions = versions_of(&model.opset_import)?;
    for node in &graph.node {
        let call = Call {
            name: None,
            values: HashMap::new(),
            caller: None,
        };
        flattener.expand(node, &versions, &call, 0)?;
    }
    Ok(flattener.nodes)
}

/// Every name that nodes of `graph` and of the graphs within it have. Messages are nested no deeper than
/// their reader allows.
fn take_names<'m>(graph: &'m GraphProto<'m>, taken: &mut HashSet<Cow<'m, str>>) {
    for node in &graph.node {
        let names = node.input.iter().chain(&node.output);
        taken.extend(names.map(|n| Cow::Borrowed(n.as_ref())));
        for inner in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
            take_names(inner, taken);
        }
    }
}

fn versions_of<'m>(imports: &'m [OperatorSetIdProto<'m>]) -> Result<Versions<'m>, ProtoError> {
    let mut versions = Versions::new();
    for import in imports {
        let domain = domain_of(text(&import.domain));
        let got = import.version.unwrap_or_default();
        // Other domains have no versions worth the name; what they hold is known by operator.
        let (min, max) = if domain.is_empty() {
            STANDARD_VERSIONS
        } else {
            (0, i64::MAX)
        };
        if got < min || got > max {
            return Err(ProtoError::OperatorSet {
                domain: if domain.is_empty() { "ai.onnx" } else { domain }.to_owned(),
                got,
                min,
                max,
            });
        }
        if versions.insert(domain, got).is_some_and(|old| old != got) {
            return Err(ProtoError::Duplicate {
                what: "operator set",
                name: domain.to_owned(),
            });
        }
    }
    Ok(versions)
}

/// What the names in a body stand for. In the main graph they stand for themselves.
struct Call<'m, 'c> {
    /// Name of the calling node; `None` in the main graph.
    name: Option<&'c str>,
    values: HashMap<&'m str, Cow<'m, str>>,
    caller: Option<(
        &'c [(&'m str, &'m AttributeProto<'m>)],
        &'m FunctionProto<'m>,
    )>,
}

struct Flattener<'m> {
    functions: HashMap<FunctionKey<'m>, &'m FunctionProto<'m>>,
    taken: HashSet<Cow<'m, str>>,
    nodes: Vec<FlatNode<'m>>,
    names: ReadBudget,
    n_steps: usize,
    /// Levels of graphs within graphs that are being flattened.
    graph_depth: usize,
}

impl<'m> Flattener<'m> {
    fn expand(
        &mut self,
        node: &'m NodeProto<'m>,
        versions: &Versions<'m>,
        call: &Call<'m, '_>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        // Calls are counted as well as nodes: functions may call each other and hold nothing.
        self.n_steps += 1 + node.input.len() + node.output.len();
        limited("the number of nodes and operands", self.n_steps, MAX_STEPS)?;
        limited(
            "the number of attributes",
            node.attribute.len(),
            MAX_ATTRIBUTES,
        )?;
        let domain = domain_of(text(&node.domain));
        let op_type = text(&node.op_type);
        let own_name = match text(&node.name) {
            "" => format!("{op_type}_{}", self.nodes.len()),
            name => name.to_owned(),
        };
        let name = match call.name {
            Some(caller) => format!("{caller}/{own_name}"),
            None => own_name,
        };
        self.names
            .charge("a node", size_of::<FlatNode<'_>>() + name.len())?;
        let flat = FlatNode {
            domain,
            op_type,
            inputs: self.rename(&node.input, call, &name)?,
            outputs: self.rename(&node.output, call, &name)?,
            attributes: attributes_of(node, &name, call)?,
            opset: 0,
            graphs: self.graphs(node, &name, (versions, call), depth)?,
            name,
        };
        let key = (domain, op_type, text(&node.overload));
        if let Some(&function) = self.functions.get(&key) {
            return self.expand_call(&flat, function, depth);
        }
        let Some(&opset) = versions.get(domain) else {
            return Err(ProtoError::OperatorSetMissing {
                op: flat.qualified(),
                node: flat.name,
            });
        };
        self.nodes.push(FlatNode { opset, ..flat });
        Ok(())
    }

    /// The graphs of a node of control flow. One that a function is given as a parameter is left out, for
    /// its names are the caller's.
    fn graphs(
        &mut self,
        node: &'m NodeProto<'m>,
        name: &str,
        (versions, call): (&Versions<'m>, &Call<'m, '_>),
        depth: usize,
    ) -> Result<Vec<(&'m str, FlatGraph<'m>)>, ProtoError> {
        let is_control =
            domain_of(text(&node.domain)).is_empty() && CONTROL_FLOW.contains(&text(&node.op_type));
        let mut graphs = Vec::new();
        for attribute in node.attribute.iter().filter(|_| is_control) {
            if let (Some(graph), "") = (attribute.g.as_deref(), text(&attribute.ref_attr_name)) {
                let flat = self.graph(graph, name, (versions, call), depth)?;
                graphs.push((text(&attribute.name), flat));
            }
        }
        Ok(graphs)
    }

    fn graph(
        &mut self,
        graph: &'m GraphProto<'m>,
        holder: &str,
        (versions, call): (&Versions<'m>, &Call<'m, '_>),
        depth: usize,
    ) -> Result<FlatGraph<'m>, ProtoError> {
        if self.graph_depth == MAX_GRAPH_DEPTH {
            return Err(ProtoError::GraphDepth {
                node: holder.to_owned(),
                limit: MAX_GRAPH_DEPTH,
            });
        }
        self.n_steps += graph.input.len() + graph.output.len() + graph.initializer.len();
        let own = match call.name {
            Some(caller) => Some(self.call_within(graph, caller, call)?),
            None => None,
        };
        let call = own.as_ref().unwrap_or(call);
        let around = std::mem::take(&mut self.nodes);
        self.graph_depth += 1;
        for node in &graph.node {
            self.expand(node, versions, call, depth)?;
        }
        self.graph_depth -= 1;
        let nodes = std::mem::replace(&mut self.nodes, around);

        let mut flat = FlatGraph {
            inputs: Vec::with_capacity(graph.input.len()),
            outputs: Vec::with_capacity(graph.output.len()),
            constants: Vec::with_capacity(graph.initializer.len()),
            nodes,
            captures: Vec::new(),
        };
        for value in &graph.input {
            flat.inputs
                .push((self.renamed(text(&value.name), call, holder)?, value));
        }
        for value in &graph.output {
            flat.outputs
                .push((self.renamed(text(&value.name), call, holder)?, value));
        }
        for tensor in &graph.initializer {
            flat.constants
                .push((self.renamed(text(&tensor.name), call, holder)?, tensor));
        }
        flat.captures = captures_of(&flat);
        for name in &flat.captures {
            self.names
                .charge("names", size_of::<Cow<'_, str>>() + name.len())?;
        }
        Ok(flat)
    }

    /// `call` with the names of a graph within the function's body, which hide those around it.
    fn call_within<'c>(
        &mut self,
        graph: &'m GraphProto<'m>,
        caller: &'c str,
        call: &Call<'m, 'c>,
    ) -> Result<Call<'m, 'c>, ProtoError> {
        self.names.charge(
            "names",
            2 * call.values.len() * size_of::<(&str, Cow<'_, str>)>(),
        )?;
        let mut values = call.values.clone();
        let given = graph.input.iter().map(|value| text(&value.name));
        let constants = graph.initializer.iter().map(|tensor| text(&tensor.name));
        let made = graph.node.iter().flat_map(|n| &n.output);
        let locals = given.chain(constants).chain(made.map(Cow::as_ref));
        for local in locals.filter(|local| !local.is_empty()) {
            let unique = self.unique(&format!("{caller}/{local}"))?;
            values.insert(local, Cow::Owned(unique));
        }
        Ok(Call {
            name: Some(caller),
            values,
            caller: call.caller,
        })
    }

    /// What names in a body, or in the main graph, stand for outside.
    fn rename(
        &mut self,
        names: &'m [Cow<'m, str>],
        call: &Call<'m, '_>,
        user: &str,
    ) -> Result<Vec<Cow<'m, str>>, ProtoError> {
        let mut renamed = Vec::with_capacity(names.len());
        for name in names {
            renamed.push(self.renamed(name, call, user)?);
        }
        Ok(renamed)
    }

    fn renamed(
        &mut self,
        name: &'m str,
        call: &Call<'m, '_>,
        user: &str,
    ) -> Result<Cow<'m, str>, ProtoError> {
        let outer = match (call.values.get(name), call.name) {
            (Some(outer), _) => outer.clone(),
            (None, None) => Cow::Borrowed(name),
            // A body sees its own values only.
            (None, Some(_)) => {
                return Err(ProtoError::Dangling {
                    user: format!("node `{user}`"),
                    name: name.to_owned(),
                });
            }
        };
        let owned = if matches!(outer, Cow::Owned(_)) {
            outer.len()
        } else {
            0
        };
        self.names
            .charge("names", size_of::<Cow<'_, str>>() + owned)?;
        Ok(outer)
    }

    fn expand_call(
        &mut self,
        caller: &FlatNode<'m>,
        function: &'m FunctionProto<'m>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        if depth == MAX_CALL_DEPTH {
            return Err(ProtoError::FunctionDepth {
                function: caller.qualified(),
                limit: MAX_CALL_DEPTH,
            });
        }
        self.n_steps += function.opset_import.len();
        limited(
            "the number of attributes",
            function.attribute_proto.len(),
            MAX_ATTRIBUTES,
        )?;
        let versions = versions_of(&function.opset_import)?;
        let values = self.values_of(caller, function)?;
        let call = Call {
            name: Some(&caller.name),
            values,
            caller: Some((&caller.attributes, function)),
        };
        for node in &function.node {
            self.expand(node, &versions, &call, depth + 1)?;
        }
        self.copy_passed_through(caller, function, &call)
    }

    /// Names in the body to names outside: operands, results, and the rest made unique.
    fn values_of(
        &mut self,
        caller: &FlatNode<'m>,
        function: &'m FunctionProto<'m>,
    ) -> Result<HashMap<&'m str, Cow<'m, str>>, ProtoError> {
        let (n_inputs, n_outputs) = (function.input.len(), function.output.len());
        limited(
            "the number of operands of a call",
            caller.inputs.len(),
            n_inputs,
        )?;
        limited(
            "the number of results of a call",
            caller.outputs.len(),
            n_outputs,
        )?;
        self.n_steps += n_inputs + n_outputs;
        let mut values: HashMap<&'m str, Cow<'m, str>> = HashMap::new();
        values.insert("", Cow::Borrowed(""));
        for (index, formal) in function.input.iter().enumerate() {
            let actual = caller.inputs.get(index).cloned().unwrap_or_default();
            self.names.charge("names", actual.len())?;
            if values.insert(formal.as_ref(), actual).is_some() {
                return Err(ProtoError::Duplicate {
                    what: "operand of a function",
                    name: formal.to_string(),
                });
            }
        }
        for (formal, actual) in function.output.iter().zip(&caller.outputs) {
            if !actual.is_empty() {
                // An operand handed through keeps its own name; a copy follows the body.
                values.entry(formal.as_ref()).or_insert(actual.clone());
            }
        }
        for local in function.node.iter().flat_map(|n| &n.output) {
            if !values.contains_key(local.as_ref()) {
                let unique = self.unique(&format!("{}/{local}", caller.name))?;
                values.insert(local.as_ref(), Cow::Owned(unique));
            }
        }
        Ok(values)
    }

    fn unique(&mut self, base: &str) -> Result<String, ProtoError> {
        self.names
            .charge("names within functions", 2 * base.len())?;
        let mut name = base.to_owned();
        while !self.taken.insert(Cow::Owned(name.clone())) {
            name = format!("{base}_{}", self.taken.len());
        }
        Ok(name)
    }

    /// A result that is an operand of the function, with no node in between, is copied.
    fn copy_passed_through(
        &mut self,
        caller: &FlatNode<'m>,
        function: &'m FunctionProto<'m>,
        call: &Call<'m, '_>,
    ) -> Result<(), ProtoError> {
        for (formal, actual) in function.output.iter().zip(&caller.outputs) {
            let Some(inner) = call.values.get(formal.as_ref()) else {
                continue;
            };
            if actual.is_empty() || inner == actual {
                continue;
            }
            self.nodes.push(FlatNode {
                name: format!("{}/{formal}", caller.name),
                domain: "",
                op_type: "Identity",
                inputs: vec![inner.clone()],
                outputs: vec![actual.clone()],
                attributes: Vec::new(),
                opset: STANDARD_VERSIONS.1,
                graphs: Vec::new(),
            });
        }
        Ok(())
    }
}

/// What `graph` reads and does not make, in the order in which it is read.
fn captures_of<'m>(graph: &FlatGraph<'m>) -> Vec<Cow<'m, str>> {
    let given = graph.inputs.iter().map(|(name, _)| name);
    let constants = graph.constants.iter().map(|(name, _)| name);
    let made = graph.nodes.iter().flat_map(|node| &node.outputs);
    let mut known: HashSet<&str> = given
        .chain(constants)
        .chain(made)
        .map(Cow::as_ref)
        .collect();
    known.insert("");
    let read = graph.nodes.iter();
    let read = read.flat_map(|node| node.inputs.iter().chain(node.captures()));
    let handed_out = graph.outputs.iter().map(|(name, _)| name);
    let mut captures = Vec::new();
    for name in read.chain(handed_out) {
        if known.insert(name.as_ref()) {
            captures.push(name.clone());
        }
    }
    captures
}

/// The parameters of `node`, those that refer to the enclosing call resolved.
fn attributes_of<'m>(
    node: &'m NodeProto<'m>,
    node_name: &str,
    call: &Call<'m, '_>,
) -> Result<Vec<(&'m str, &'m AttributeProto<'m>)>, ProtoError> {
    let mut attributes: Vec<(&'m str, &'m AttributeProto<'m>)> =
        Vec::with_capacity(node.attribute.len());
    for attribute in &node.attribute {
        let name = text(&attribute.name);
        let resolved = match (text(&attribute.ref_attr_name), &call.caller) {
            ("", _) => Some(attribute),
            (wanted, Some((given, function))) => given
                .iter()
                .find(|(n, _)| *n == wanted)
                .map(|(_, a)| *a)
                .or_else(|| {
                    let defaults = function.attribute_proto.iter();
                    defaults.into_iter().find(|a| text(&a.name) == wanted)
                }),
            (wanted, None) => {
                return Err(ProtoError::Dangling {
                    user: format!("attribute `{name}` of node `{node_name}`"),
                    name: wanted.to_owned(),
                });
            }
        };
        if attributes.iter().any(|(n, _)| *n == name) {
            return Err(ProtoError::Duplicate {
                what: "attribute",
                name: format!("{name}` of node `{node_name}"),
            });
        }
        // A parameter neither given nor defaulted takes the operator's own default.
        attributes.extend(resolved.map(|a| (name, a)));
    }
    Ok(attributes)
}

/// Whether a parameter holds a graph, as those of control flow do.
pub fn is_graph(attribute: &AttributeProto<'_>) -> bool {
    matches!(
        attribute.r#type,
        Some(attribute_type::GRAPH | attribute_type::GRAPHS)
    ) || attribute.g.is_some()
        || !attribute.graphs.is_empty()
}
