//! The network with its adapters written out, in its own operators.
//!
//! ```text
//! linear      y = (x W + (x A) B) * g + b             A, B and g are inputs; B holds the scaling
//! convolution y = (conv(x, W) + conv(conv(x, A), B)) * g + b     A has the window of W, B is 1 x 1
//! formed      y = conv(x, (W + B A) * g) + b          in groups, which share A, and with windows of 1 x 1
//! whole       y = conv(x, W) + b, x W + b             W and b are inputs, as is the weight of a layer that is rounded
//! biased      as above                                b is an input
//! rounded     x is rounded in front of any of these, where the engine rounds it; layers that read the same share that
//! ```
//!
//! A weight is formed where it is small beside what it computes: pictures have many pixels, and a pass over them more costs more.
//! Without magnitudes there is no `g`, and with magnitudes alone no A and B. The frozen product stays a node of its own with a
//! constant weight, which an engine packs once. A normalisation behind a convolution whose weight is formed, or that is not trained,
//! becomes part of that weight, unless its bias is trained; behind other layers nothing is folded.
//!
//! With dropout adapted layers are written otherwise (`dropped`), for steps of training alone.

use std::collections::{BTreeMap, BTreeSet};

use spark_dora::SavedTensors;
use spark_onnx_graph::graph::{
    Binary, Conv, Dim, Graph, MatMul, Node, Op, Padding, Reshape, ValueId,
};
use spark_onnx_graph::{DType, Tensor};

use super::deployment::{Operands, Rounding};
use super::formed::Formed;
use super::layer::{Adapted, Trained, variable};
use super::layers::{Form, Layer};
use super::normalized::{Norm, norms};
use super::port::{Port, Source, Way};
use crate::error::Result;

/// A trained layer of the graph.
pub(super) struct Site<'a> {
    pub(super) layer: &'a Layer,
    pub(super) trained: &'a Trained,
    /// What rounds its weight before it is used.
    pub(super) rounding: Option<Rounding>,
    /// Its bias, if that is trained beside the adapters.
    pub(super) bias: Option<candle_core::Tensor>,
}

/// The adapted graph, and what it takes besides its own inputs.
pub(super) struct Rewritten {
    pub(super) graph: Graph,
    pub(super) ports: Vec<Port>,
    /// The input, behind the ports, that says which masks of dropout a pass has, if it has any.
    pub(super) pass: Option<ValueId>,
}

/// Writes the adapters into a graph, which drops what their layers read or does not, and what rounds operands.
pub(super) fn rewrite(
    mut graph: Graph,
    sites: &[Site<'_>],
    operands: &Operands,
    drops: bool,
) -> Result<Rewritten> {
    let nodes = std::mem::take(&mut graph.nodes);
    let names = graph.values.iter().map(|value| value.name.clone());
    let names = names.chain(nodes.iter().map(|node| node.name.clone()));
    let mut writer = Writer {
        names: names.collect(),
        graph,
        ports: Vec::new(),
        pass: None,
    };
    let mut by_node = BTreeMap::new();
    let mut biases = BTreeMap::new();
    for (position, site) in sites.iter().enumerate() {
        let inputs = writer.inputs(position, site)?;
        if let (Some(input), Some(bias)) = (inputs.bias, &site.layer.bias) {
            let places = bias.places.iter();
            biases.extend(places.map(|&(node, slot)| (node, (slot, input))));
        }
        for (nth, &node) in site.layer.nodes.iter().enumerate() {
            by_node.insert(node, (site, inputs.clone(), nth));
        }
    }
    if drops {
        let name = writer.name("dropout.pass".to_owned());
        writer.pass = Some(writer.graph.add_input(name, DType::I64, Vec::new()));
    }
    let mut norms = norms(&writer.graph, &nodes);
    norms.retain(|position, _| {
        let trained = by_node.get(position);
        trained.is_none_or(|(site, inputs, _)| inputs.keeps_both() && writer.is_formed(site.layer))
    });
    let folded: BTreeSet<usize> = norms.values().map(|norm| norm.position).collect();
    let mut rounded: BTreeSet<ValueId> = BTreeSet::new();
    for (position, mut node) in nodes.into_iter().enumerate() {
        if folded.contains(&position) {
            continue;
        }
        if let Some(&(slot, input)) = biases.get(&position) {
            node.inputs[slot] = Some(input);
        }
        if let Some(operand) = operands.get(&position) {
            if rounded.insert(operand.to) {
                let name = format!("{}.rounded", node.name);
                writer.op(name, operand.op, &[operand.x], Some(operand.to));
            }
            node.inputs[0] = Some(operand.to);
        }
        let norm = norms.get(&position);
        match by_node.get(&position) {
            None => writer.untrained(node, norm)?,
            Some((site, inputs, nth)) => writer.layer(node, (site, *nth), inputs, norm)?,
        }
    }
    Ok(Rewritten {
        graph: writer.graph,
        ports: writer.ports,
        pass: writer.pass,
    })
}

/// Inputs of one layer.
#[derive(Clone, Default)]
pub(super) struct Inputs {
    pub(super) a: Option<ValueId>,
    pub(super) b: Option<ValueId>,
    pub(super) scale: Option<ValueId>,
    pub(super) weight: Option<ValueId>,
    bias: Option<ValueId>,
    /// What is left of the weight for the frozen product, where A and B began as parts of it.
    pub(super) frozen: Option<ValueId>,
}

impl Inputs {
    /// Whether the layer's own weight stays.
    fn keeps_weight(&self) -> bool {
        self.weight.is_none()
    }

    /// Whether its own bias stays too.
    fn keeps_both(&self) -> bool {
        self.keeps_weight() && self.bias.is_none()
    }
}

pub(super) struct Writer {
    pub(super) graph: Graph,
    names: BTreeSet<String>,
    ports: Vec<Port>,
    /// Which masks a pass has, where layers drop what they read.
    pub(super) pass: Option<ValueId>,
}

impl Writer {
    pub(super) fn name(&mut self, wish: String) -> String {
        let mut name = wish.clone();
        let mut count = 1;
        while !self.names.insert(name.clone()) {
            count += 1;
            name = format!("{wish}.{count}");
        }
        name
    }

    pub(super) fn constant(&mut self, wish: String, tensor: Tensor) -> ValueId {
        let name = self.name(wish);
        self.graph.add_constant(name, tensor)
    }

    /// A node with one result, which is `to` where that is given.
    pub(super) fn op(
        &mut self,
        wish: String,
        op: impl Into<Op>,
        inputs: &[ValueId],
        to: Option<ValueId>,
    ) -> ValueId {
        let name = self.name(wish);
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        match to {
            None => self.graph.add_node(name, op.into(), &inputs),
            Some(to) => {
                self.graph.nodes.push(Node {
                    name,
                    op: op.into(),
                    inputs,
                    outputs: vec![Some(to)],
                });
                to
            }
        }
    }

    fn port(&mut self, port: Port) -> ValueId {
        let name = self.name(port.input.clone());
        let shape = port.shape.iter().map(|&extent| Dim::Known(extent));
        let id = self
            .graph
            .add_input(name.clone(), DType::F32, shape.collect());
        self.ports.push(Port {
            input: name,
            ..port
        });
        id
    }

    /// An input of one variable.
    fn variable_port(
        &mut self,
        (site, position): (&Site<'_>, usize),
        of: &str,
        tensor: &candle_core::Tensor,
        (shape, way): (Vec<usize>, Way),
    ) -> Result<ValueId> {
        let source = Source::Variable(variable(tensor)?, way);
        Ok(self.port(Port {
            input: format!("{}.{of}", site.layer.name),
            shape,
            layer: position,
            source,
        }))
    }

    fn inputs(&mut self, position: usize, site: &Site<'_>) -> Result<Inputs> {
        let mut inputs = self.inputs_of_weight(position, site)?;
        if let Some(bias) = &site.bias {
            let of_bias = (bias.dims().to_vec(), Way::Times(1.0));
            inputs.bias = Some(self.variable_port((site, position), "bias", bias, of_bias)?);
        }
        Ok(inputs)
    }

    /// All but a bias that is trained beside the adapters.
    fn inputs_of_weight(&mut self, position: usize, site: &Site<'_>) -> Result<Inputs> {
        match (site.trained, &site.rounding) {
            (Trained::Adapted(adapted), Some(rounding)) => {
                let formed = Formed::new(site.layer, adapted, rounding.clone())?;
                let weight = self.port(Port {
                    input: site.layer.name.clone(),
                    shape: self.stored_shape(site.layer),
                    layer: position,
                    source: Source::Formed(Box::new(formed)),
                });
                Ok(Inputs {
                    weight: Some(weight),
                    ..Inputs::default()
                })
            }
            (Trained::Adapted(adapted), None) => self.inputs_of_adapter(position, site, adapted),
            (Trained::Saved(tensors), rounding) => {
                self.inputs_of_saved(position, site, tensors, rounding.as_ref())
            }
            (Trained::Biased, _) => Ok(Inputs::default()),
        }
    }

    fn inputs_of_adapter(
        &mut self,
        position: usize,
        site: &Site<'_>,
        adapted: &Adapted,
    ) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        let factors = adapted.factors();
        let is_linear = matches!(site.layer.form, Form::Linear { .. });
        let is_formed = self.is_formed(site.layer);
        let shape_of = |dims: &[usize]| match (is_linear, is_formed) {
            (true, _) => dims.iter().rev().copied().collect(),
            (false, true) => vec![dims[0], dims[1..].iter().product()],
            (false, false) => dims.to_vec(),
        };
        let way = |factor| match is_linear {
            true => Way::Turned(factor),
            false => Way::Times(factor),
        };
        let at = (site, position);
        if let (Some(a), Some(b)) = (factors.a(), factors.b()) {
            let of_a = (shape_of(a.dims()), way(1.0));
            inputs.a = Some(self.variable_port(at, "lora_A", a, of_a)?);
            let of_b = (shape_of(b.dims()), way(factors.scaling() as f32));
            inputs.b = Some(self.variable_port(at, "lora_B", b, of_b)?);
        }
        if let Some(magnitude) = factors.magnitude() {
            let mut shape = vec![magnitude.elem_count()];
            if !is_linear {
                // Beside a result [n, out, ..], or beside a weight [out, in, ..].
                let ones = magnitude.rank() - 2;
                shape.extend(vec![1; ones + usize::from(is_formed)]);
            }
            let of_scale = (shape, Way::OverNorms);
            inputs.scale = Some(self.variable_port(at, "scale", magnitude, of_scale)?);
        }
        if let Some(frozen) = adapted.frozen()? {
            let dims = adapted.base_weight()?.dims().to_vec();
            let (shape, values) = site.layer.turned(&dims, frozen);
            let tensor = Tensor::from_f32(shape, values)?;
            let name = format!("{}.frozen", site.layer.name);
            inputs.frozen = Some(self.constant(name, tensor));
        }
        Ok(inputs)
    }

    fn inputs_of_saved(
        &mut self,
        position: usize,
        site: &Site<'_>,
        tensors: &SavedTensors,
        rounding: Option<&Rounding>,
    ) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for (name, tensor) in tensors.variables() {
            if let ("weight", Some(rounding)) = (name, rounding) {
                inputs.weight = Some(self.port(Port {
                    input: format!("{}.weight", site.layer.name),
                    shape: self.stored_shape(site.layer),
                    layer: position,
                    source: Source::Rounded(variable(tensor)?, rounding.clone()),
                }));
                continue;
            }
            let mut shape = tensor.dims().to_vec();
            let turns = Form::Linear {
                is_transposed: true,
            };
            let way = match name == "weight" && site.layer.form == turns {
                true => Way::Turned(1.0),
                false => Way::Times(1.0),
            };
            if way == Way::Turned(1.0) {
                shape.reverse();
            }
            let id = self.variable_port((site, position), name, tensor, (shape, way))?;
            match name {
                "weight" => inputs.weight = Some(id),
                _ => inputs.bias = Some(id),
            }
        }
        Ok(inputs)
    }

    fn stored_shape(&self, layer: &Layer) -> Vec<usize> {
        let constant = self.graph.value(layer.stored).constant.as_ref();
        constant.map_or(Vec::new(), |tensor| tensor.shape().to_vec())
    }

    fn untrained(&mut self, mut node: Node, norm: Option<&Norm>) -> Result<()> {
        if let Some(norm) = norm {
            let weight = node.inputs[1].and_then(|id| self.graph.value(id).constant.clone());
            if let Some(weight) = weight {
                let weight = norm.weight(&weight)?;
                let weight = self.constant(format!("{}.normalized", node.name), weight);
                node.inputs[1] = Some(weight);
            }
            self.normalize(&mut node, norm)?;
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    /// Gives a convolution the bias and the result of the normalisation behind it.
    pub(super) fn normalize(&mut self, node: &mut Node, norm: &Norm) -> Result<()> {
        let bias = node.inputs.get(2).copied().flatten();
        let bias = bias.and_then(|id| self.graph.value(id).constant.clone());
        let bias = norm.bias(bias.as_deref())?;
        let bias = self.constant(format!("{}.shift", node.name), bias);
        node.inputs.truncate(2);
        node.inputs.push(Some(bias));
        node.outputs = vec![Some(norm.result)];
        Ok(())
    }

    fn layer(
        &mut self,
        mut node: Node,
        (site, nth): (&Site<'_>, usize),
        inputs: &Inputs,
        norm: Option<&Norm>,
    ) -> Result<()> {
        if let (Some(pass), Trained::Adapted(adapted)) = (self.pass, site.trained) {
            return self.dropped(node, site, (adapted, inputs), norm, (pass, nth));
        }
        if !inputs.keeps_weight() || matches!(site.trained, Trained::Saved(_) | Trained::Biased) {
            if inputs.weight.is_some() {
                node.inputs[1] = inputs.weight;
            }
            self.graph.nodes.push(node);
            return Ok(());
        }
        if inputs.frozen.is_some() {
            node.inputs[1] = inputs.frozen;
        }
        match self.is_formed(site.layer) {
            true => self.formed(node, site, inputs, norm),
            false => self.low_rank(node, site, inputs),
        }
    }

    /// The frozen product beside the low-rank one.
    fn low_rank(&mut self, mut node: Node, site: &Site<'_>, inputs: &Inputs) -> Result<()> {
        let name = node.name.clone();
        let (Some(x), result) = (node.inputs[0], node.outputs[0]) else {
            self.graph.nodes.push(node);
            return Ok(());
        };
        // Scaling is in front of the bias, so that this must stand apart.
        let bias = match inputs.scale {
            Some(_) if node.inputs.len() > 2 => node.inputs[2].take(),
            _ => None,
        };
        let is_last = inputs.a.is_none() && inputs.scale.is_none();
        if is_last {
            self.graph.nodes.push(node);
            return Ok(());
        }
        let mut sum = self.frozen_result(node);
        if let Some(low) = self.low(&name, site, inputs, x) {
            let to = result.filter(|_| inputs.scale.is_none());
            sum = self.op(format!("{name}.sum"), Binary::Add, &[sum, low], to);
        }
        let Some(scale) = inputs.scale else {
            return Ok(());
        };
        let to = result.filter(|_| bias.is_none());
        let scaled = self.op(format!("{name}.scaled"), Binary::Mul, &[sum, scale], to);
        if let Some(bias) = bias {
            let bias = self.beside_channels(&name, bias, site.layer)?;
            self.op(
                format!("{name}.biased"),
                Binary::Add,
                &[scaled, bias],
                result,
            );
        }
        Ok(())
    }

    /// Ends a node with a value of its own.
    pub(super) fn frozen_result(&mut self, mut node: Node) -> ValueId {
        let frozen = self.name(format!("{}.frozen", node.name));
        let result = self.graph.add_value(spark_onnx_graph::graph::Value {
            name: frozen.clone(),
            dtype: None,
            shape: None,
            constant: None,
        });
        node.name = frozen;
        node.outputs = vec![Some(result)];
        self.graph.nodes.push(node);
        result
    }

    /// `(x A) B`, if the layer has them.
    pub(super) fn low(
        &mut self,
        name: &str,
        site: &Site<'_>,
        inputs: &Inputs,
        x: ValueId,
    ) -> Option<ValueId> {
        let (a, b) = (inputs.a?, inputs.b?);
        let (down, up): (Op, Op) = match &site.layer.form {
            Form::Linear { .. } => (MatMul.into(), MatMul.into()),
            Form::Conv(conv) => (conv.clone().into(), point().into()),
        };
        let h = self.op(format!("{name}.lora_A"), down, &[x, a], None);
        Some(self.op(format!("{name}.lora_B"), up, &[h, b], None))
    }

    /// `B A` as a weight is shaped, if the layer has them.
    pub(super) fn change(
        &mut self,
        name: &str,
        site: &Site<'_>,
        inputs: &Inputs,
    ) -> Result<Option<ValueId>> {
        let (Some(a), Some(b)) = (inputs.a, inputs.b) else {
            return Ok(None);
        };
        let change = self.op(format!("{name}.lora"), MatMul, &[b, a], None);
        let shape = self.stored_shape(site.layer);
        let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let shape = Tensor::from_i64([shape.len()], shape)?;
        let shape = self.constant(format!("{name}.lora.shape"), shape);
        let op = Reshape { allow_zero: false };
        Ok(Some(self.op(
            format!("{name}.change"),
            op,
            &[change, shape],
            None,
        )))
    }

    /// The scales of a normalisation beside a weight of the layer.
    pub(super) fn scales(&mut self, name: &str, norm: &Norm, layer: &Layer) -> Result<ValueId> {
        let scales = norm.scales(self.stored_shape(layer).len())?;
        Ok(self.constant(format!("{name}.norm"), scales))
    }

    /// A bias as `[out, 1..]`, where channels are not the last axis.
    fn beside_channels(&mut self, name: &str, bias: ValueId, layer: &Layer) -> Result<ValueId> {
        let Form::Conv(_) = layer.form else {
            return Ok(bias);
        };
        let n_axes = self.stored_shape(layer).len().saturating_sub(2);
        let constant = self.graph.value(bias).constant.clone();
        let wish = format!("{name}.bias");
        match constant {
            Some(constant) => {
                let mut shape = vec![constant.len()];
                shape.extend(vec![1; n_axes]);
                let tensor = Tensor::clone(&constant).reshaped(shape)?;
                Ok(self.constant(wish, tensor))
            }
            None => {
                let mut shape = vec![-1];
                shape.extend(vec![1; n_axes]);
                let n = shape.len();
                let shape = Tensor::from_i64([n], shape)?;
                let shape = self.constant(format!("{wish}.shape"), shape);
                let op = Reshape { allow_zero: false };
                Ok(self.op(wish, op, &[bias, shape], None))
            }
        }
    }

    /// Whether the weight of a layer is formed.
    pub(super) fn is_formed(&self, layer: &Layer) -> bool {
        let window = self.stored_shape(layer).into_iter().skip(2);
        match &layer.form {
            Form::Conv(conv) => conv.groups > 1 || window.product::<usize>() == 1,
            Form::Linear { .. } => false,
        }
    }

    /// The weight formed, then one convolution.
    fn formed(
        &mut self,
        mut node: Node,
        site: &Site<'_>,
        inputs: &Inputs,
        norm: Option<&Norm>,
    ) -> Result<()> {
        let name = node.name.clone();
        let Some(mut weight) = node.inputs[1] else {
            self.graph.nodes.push(node);
            return Ok(());
        };
        if let Some(change) = self.change(&name, site, inputs)? {
            weight = self.op(format!("{name}.sum"), Binary::Add, &[weight, change], None);
        }
        if let Some(scale) = inputs.scale {
            weight = self.op(
                format!("{name}.scaled"),
                Binary::Mul,
                &[weight, scale],
                None,
            );
        }
        if let Some(norm) = norm {
            let scales = self.scales(&name, norm, site.layer)?;
            let normed = format!("{name}.normalized");
            weight = self.op(normed, Binary::Mul, &[weight, scales], None);
            self.normalize(&mut node, norm)?;
        }
        node.inputs[1] = Some(weight);
        self.graph.nodes.push(node);
        Ok(())
    }
}

/// A convolution of 1 x 1 along any number of axes.
fn point() -> Conv {
    Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Valid,
        groups: 1,
    }
}
