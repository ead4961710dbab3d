//! Losses by the heads of outputs, written into the graph, so that an engine runs them with everything else.
//!
//! ```text
//! output ──slice──> head ──> how far it is from the same head of the target ──mean──> part ──weights, sum──> loss
//! ```
//!
//! What each kind of head computes is said by [`spark_dora::loss`], which is also what it is tested against. Targets are inputs:
//! another network's outputs, or anything of their shape.

use std::collections::BTreeSet;

use spark_dora::loss::{Head, HeadKind, MAX_LOG_WIDTH};
use spark_onnx_graph::graph::{
    Binary, Cast, Dim, Graph, Op, Reduce, ReduceKind, Reshape, Slice, Softmax, StaticGraph, Unary,
    ValueId, Variadic,
};
use spark_onnx_graph::{DType, ModelError, Tensor};

use crate::error::{Result, TrainError};

/// The heads of one output that are taught.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputHeads {
    /// Name of the output.
    pub output: String,
    /// Its heads, in its last axis.
    pub heads: Vec<Head>,
}

impl OutputHeads {
    /// All numbers of an output of the shape of `target`, as one head of its name: the mean of squared differences.
    pub fn squares(output: &str, target: &Tensor) -> Self {
        Self {
            output: output.to_owned(),
            heads: vec![Head {
                name: output.to_owned(),
                range: 0..target.shape().last().copied().unwrap_or(1),
                kind: HeadKind::Squares,
                weight: 1.0,
            }],
        }
    }
}

/// Inputs and outputs that losses bring.
#[derive(Debug)]
pub(crate) struct Losses {
    /// Output, input of its target, shape of both.
    pub(crate) targets: Vec<(String, String, Vec<usize>)>,
    /// Name of the output that is the whole loss.
    pub(crate) loss: String,
    /// Head, and the name of the output that is its part.
    pub(crate) parts: Vec<(String, String)>,
}

impl Losses {
    /// Targets by output as inputs.
    pub(crate) fn given<'t>(
        &'t self,
        targets: &[(&str, &'t Tensor)],
    ) -> Result<Vec<(&'t str, &'t Tensor)>> {
        let mut given = Vec::with_capacity(targets.len());
        for &(output, tensor) in targets {
            let mut known = self.targets.iter();
            let Some((_, input, _)) = known.find(|(name, ..)| name == output) else {
                let names = self.targets.iter().map(|(name, ..)| name.clone());
                return Err(TrainError::NoOutput {
                    name: output.to_owned(),
                    available: names.collect(),
                });
            };
            given.push((input.as_str(), tensor));
        }
        Ok(given)
    }

    /// The loss and its parts, from the results that they are.
    pub(crate) fn read(&self, mut results: Vec<(String, Tensor)>) -> (f64, Vec<(String, f64)>) {
        let number = |tensor: &Tensor| tensor.to_f64().first().copied().unwrap_or(f64::NAN);
        let loss = results
            .pop()
            .map_or(f64::NAN, |(_, tensor)| number(&tensor));
        let parts = self.parts.iter().zip(&results);
        let parts = parts.map(|((head, _), (_, tensor))| (head.clone(), number(tensor)));
        (loss, parts.collect())
    }
}

/// Adds losses to a graph, of which `bound` says the shapes.
pub(crate) fn add_losses(
    graph: &mut Graph,
    bound: &StaticGraph,
    heads: &[OutputHeads],
) -> Result<Losses> {
    let mut losses = Losses {
        targets: Vec::new(),
        loss: String::new(),
        parts: Vec::new(),
    };
    let mut weighted = Vec::new();
    let mut writer = Writer::new(graph);
    for of_output in heads {
        let name = &of_output.output;
        let output = output_of(writer.graph, name)?;
        let mut values = bound.outputs().iter().map(|&id| bound.value(id));
        let ty = values
            .find(|value| value.name == *name)
            .map(|value| &value.ty);
        let shape = ty.map_or(Vec::new(), |ty| ty.shape.clone());
        writer.prefix = format!("loss.{name}");
        // Losses are f32, whatever the network is.
        let output = match ty.map(|ty| ty.dtype) {
            Some(DType::F16 | DType::BF16 | DType::F64) => {
                writer.op(Cast { to: DType::F32 }, &[output])
            }
            _ => output,
        };
        let known = losses.targets.iter().find(|(known, ..)| known == name);
        let target = match known {
            Some((_, input, _)) => writer.input(input),
            None => {
                let input = writer.unique(&format!("target.{name}"));
                let known = shape.iter().map(|&extent| Dim::Known(extent)).collect();
                let target = writer.graph.add_input(&input, DType::F32, known);
                losses.targets.push((name.clone(), input, shape.clone()));
                target
            }
        };
        for head in &of_output.heads {
            check(name, head, &shape)?;
            writer.prefix = format!("loss.{name}.{}", head.name);
            let part = writer.part(output, target, head)?;
            weighted.push(writer.times(part, head.weight)?);
            let value = writer.graph.value(part).name.clone();
            writer.graph.outputs.push(part);
            losses.parts.push((head.name.clone(), value));
        }
    }
    writer.prefix = "loss".to_owned();
    let loss = match weighted[..] {
        [] => {
            return Err(TrainError::Head {
                head: String::new(),
                output: heads.first().map_or(String::new(), |h| h.output.clone()),
                reason: "there is none, so that there is no loss".to_owned(),
            });
        }
        [one] => one,
        _ => writer.op(Op::Variadic(Variadic::Sum), &weighted),
    };
    writer.graph.outputs.push(loss);
    losses.loss = writer.graph.value(loss).name.clone();
    Ok(losses)
}

fn output_of(graph: &Graph, name: &str) -> Result<ValueId> {
    let named = |id: &&ValueId| graph.value(**id).name == name;
    graph.outputs.iter().find(named).copied().ok_or_else(|| {
        let names = graph.outputs.iter().map(|&id| graph.value(id).name.clone());
        TrainError::NoOutput {
            name: name.to_owned(),
            available: names.collect(),
        }
    })
}

/// Largest weights and temperatures: with larger ones f32 ends.
const MOST: f64 = 1e6;

fn check(output: &str, head: &Head, shape: &[usize]) -> Result<()> {
    let refused = |reason: String| {
        Err(TrainError::Head {
            head: head.name.clone(),
            output: output.to_owned(),
            reason,
        })
    };
    let (range, len) = (&head.range, shape.last().copied().unwrap_or(0));
    if range.is_empty() || range.end > len {
        let (start, end) = (range.start, range.end);
        return refused(format!("it is at {start}..{end} of {len} numbers"));
    }
    if !(head.weight.is_finite() && head.weight >= 0.0 && head.weight <= MOST) {
        return refused(format!("its weight is {}, wanted 0 to 1e6", head.weight));
    }
    match head.kind {
        HeadKind::Mdn if !range.len().is_multiple_of(2) => refused(format!(
            "centres and log widths are {} numbers, an odd count",
            range.len()
        )),
        HeadKind::Hypotheses {
            hypotheses,
            selections,
        } if values_of(range.len(), hypotheses, selections).is_none() => refused(format!(
            "{} numbers are no {hypotheses} hypotheses of centres, log widths and {selections} logits",
            range.len()
        )),
        HeadKind::Softmax { classes } if classes == 0 || !range.len().is_multiple_of(classes) => {
            refused(format!(
                "{} numbers are no rows of {classes} classes",
                range.len()
            ))
        }
        HeadKind::Features { temperature } if !(1.0 / MOST..=MOST).contains(&temperature) => {
            refused(format!(
                "its temperature is {temperature}, wanted 1e-6 to 1e6"
            ))
        }
        _ => Ok(()),
    }
}

/// Centres of one hypothesis, where `len` numbers are so many of them.
fn values_of(len: usize, hypotheses: usize, selections: usize) -> Option<usize> {
    let one = len.checked_div(hypotheses)?;
    let values = one.checked_sub(selections)? / 2;
    let fits = values > 0 && selections > 0 && hypotheses * (2 * values + selections) == len;
    fits.then_some(values)
}

struct Writer<'g> {
    graph: &'g mut Graph,
    names: BTreeSet<String>,
    prefix: String,
}

type Built = std::result::Result<ValueId, ModelError>;

impl Writer<'_> {
    fn new(graph: &mut Graph) -> Writer<'_> {
        let names = graph.values.iter().map(|value| value.name.clone());
        let nodes = graph.nodes.iter().map(|node| node.name.clone());
        Writer {
            names: names.chain(nodes).collect(),
            graph,
            prefix: "loss".to_owned(),
        }
    }

    /// A name that nothing has.
    fn unique(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        let mut count = 1;
        while !self.names.insert(name.clone()) {
            count += 1;
            name = format!("{wish}.{count}");
        }
        name
    }

    /// The input of this name, which there is.
    fn input(&self, name: &str) -> ValueId {
        let mut inputs = self.graph.inputs.iter();
        let named = inputs.find(|id| self.graph.value(**id).name == name);
        named.copied().unwrap_or(ValueId(0))
    }

    fn name(&mut self) -> String {
        let prefix = self.prefix.clone();
        self.unique(&prefix)
    }

    fn op(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        let name = self.name();
        self.graph.add_node(name, op.into(), &inputs)
    }

    fn number(&mut self, value: f64) -> Built {
        let name = self.name();
        let tensor = Tensor::from_f32(Vec::new(), vec![value as f32])?;
        Ok(self.graph.add_constant(name, tensor))
    }

    fn whole(&mut self, values: Vec<i64>) -> Built {
        let name = self.name();
        let tensor = Tensor::from_i64([values.len()], values)?;
        Ok(self.graph.add_constant(name, tensor))
    }

    fn unary(&mut self, f: Unary, x: ValueId) -> ValueId {
        self.op(Op::Unary(f), &[x])
    }

    fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.op(Op::Binary(f), &[a, b])
    }

    fn times(&mut self, x: ValueId, factor: f64) -> Built {
        let factor = self.number(factor)?;
        Ok(self.binary(Binary::Mul, x, factor))
    }

    fn bounded(&mut self, x: ValueId, kind: Variadic, bound: f64) -> Built {
        let bound = self.number(bound)?;
        Ok(self.op(Op::Variadic(kind), &[x, bound]))
    }

    fn slice(&mut self, x: ValueId, start: usize, end: usize) -> Built {
        let bounds = [start as i64, end as i64, -1];
        let mut operands = vec![x];
        for bound in bounds {
            operands.push(self.whole(vec![bound])?);
        }
        Ok(self.op(Slice, &operands))
    }

    fn reshape(&mut self, x: ValueId, shape: Vec<i64>) -> Built {
        let shape = self.whole(shape)?;
        let op = Reshape { allow_zero: false };
        Ok(self.op(op, &[x, shape]))
    }

    fn reduce(&mut self, kind: ReduceKind, x: ValueId, axis: Option<i64>) -> Built {
        self.reduced(kind, x, axis, false)
    }

    fn reduced(
        &mut self,
        kind: ReduceKind,
        x: ValueId,
        axis: Option<i64>,
        keep_dims: bool,
    ) -> Built {
        let op = Reduce {
            kind,
            keep_dims,
            noop_with_empty_axes: false,
        };
        let mut operands = vec![x];
        if let Some(axis) = axis {
            operands.push(self.whole(vec![axis])?);
        }
        Ok(self.op(op, &operands))
    }

    fn mean(&mut self, x: ValueId) -> Built {
        self.reduce(ReduceKind::Mean, x, None)
    }

    /// How far a head is from its target: one number.
    fn part(&mut self, output: ValueId, target: ValueId, head: &Head) -> Built {
        let (start, end) = (head.range.start, head.range.end);
        let [student, teacher] = [
            self.slice(output, start, end)?,
            self.slice(target, start, end)?,
        ];
        match head.kind {
            HeadKind::Squares => {
                let d = self.binary(Binary::Sub, student, teacher);
                let squares = self.binary(Binary::Mul, d, d);
                self.mean(squares)
            }
            HeadKind::Distances => {
                let d = self.binary(Binary::Sub, student, teacher);
                let distances = self.unary(Unary::Abs, d);
                self.mean(distances)
            }
            HeadKind::Mdn => {
                let apart = self.laplace_kl(teacher, student, head.range.len() / 2)?;
                self.mean(apart)
            }
            HeadKind::Hypotheses {
                hypotheses,
                selections,
            } => {
                let one = head.range.len() / hypotheses;
                self.hypotheses_divergence([teacher, student], hypotheses, [one, selections])
            }
            HeadKind::Sigmoid => self.sigmoid_divergence(teacher, student),
            HeadKind::Softmax { classes } => {
                let rows = vec![-1, classes as i64];
                let teacher = self.reshape(teacher, rows.clone())?;
                let student = self.reshape(student, rows)?;
                self.softened(teacher, student, 1.0)
            }
            HeadKind::Features { temperature } => self.softened(teacher, student, temperature),
        }
    }

    /// `log(b2 / b1) + |d| / b2 + (b1 / b2) exp(-|d| / b1) - 1`, 1 being the teacher; of each value, in the last axis.
    fn laplace_kl(&mut self, teacher: ValueId, student: ValueId, n: usize) -> Built {
        let mut split = |x| {
            let centre = self.slice(x, 0, n)?;
            let log_width = self.slice(x, n, 2 * n)?;
            let log_width = self.bounded(log_width, Variadic::Min, MAX_LOG_WIDTH)?;
            Ok::<_, ModelError>((centre, log_width))
        };
        let ((mu1, log1), (mu2, log2)) = (split(teacher)?, split(student)?);
        let d = self.binary(Binary::Sub, mu1, mu2);
        let d = self.unary(Unary::Abs, d);
        let ratio = self.binary(Binary::Sub, log2, log1);
        let per = |writer: &mut Self, log: ValueId| {
            let negative = writer.unary(Unary::Neg, log);
            writer.unary(Unary::Exp, negative)
        };
        let per2 = per(self, log2);
        let far = self.binary(Binary::Mul, d, per2);
        let per1 = per(self, log1);
        let widths = self.binary(Binary::Mul, d, per1);
        // log1 - log2 - |d| / b1, in one exponential
        let exponent = self.binary(Binary::Add, ratio, widths);
        let near = per(self, exponent);
        let sum = self.op(Op::Variadic(Variadic::Sum), &[ratio, far, near]);
        let less = self.number(-1.0)?;
        Ok(self.binary(Binary::Add, sum, less))
    }

    /// As [`spark_dora::loss::hypotheses_divergence`], of `hypotheses` of `one` numbers each, the last of which are logits.
    fn hypotheses_divergence(
        &mut self,
        heads: [ValueId; 2],
        hypotheses: usize,
        [one, selections]: [usize; 2],
    ) -> Built {
        let values = (one - selections) / 2;
        let mut rows = [ValueId(0); 2];
        let mut choices = rows;
        for ((rows, choice), head) in rows.iter_mut().zip(&mut choices).zip(heads) {
            let shape = vec![-1, hypotheses as i64, one as i64];
            *rows = self.reshape(head, shape)?;
            let logits = self.slice(*rows, 2 * values, one)?;
            *choice = self.op(log_softmax(1), &[logits]);
        }
        let ([teacher, student], [chosen, choice]) = (rows, choices);
        let apart = self.laplace_kl(teacher, student, values)?;
        let apart = self.reduced(ReduceKind::Mean, apart, Some(-1), true)?;
        let choice = self.binary(Binary::Sub, chosen, choice);
        let choice = self.times(choice, 1.0 / values as f64)?;
        let both = self.binary(Binary::Add, choice, apart);
        let likely = self.unary(Unary::Exp, chosen);
        let weighed = self.binary(Binary::Mul, likely, both);
        let sums = self.reduce(ReduceKind::Sum, weighed, Some(1))?;
        self.mean(sums)
    }

    fn log_sigmoid(&mut self, x: ValueId) -> Built {
        // min(x, 0) - log(1 + exp(-|x|)): nothing overflows.
        let size = self.unary(Unary::Abs, x);
        let size = self.unary(Unary::Neg, size);
        let tail = self.unary(Unary::Softplus, size);
        let low = self.bounded(x, Variadic::Min, 0.0)?;
        Ok(self.binary(Binary::Sub, low, tail))
    }

    /// `p(teacher) (log p(teacher) - log p(student))`, of logits.
    fn sigmoid_term(&mut self, teacher: ValueId, student: ValueId) -> Built {
        let (t, s) = (self.log_sigmoid(teacher)?, self.log_sigmoid(student)?);
        let likely = self.unary(Unary::Exp, t);
        let difference = self.binary(Binary::Sub, t, s);
        Ok(self.binary(Binary::Mul, likely, difference))
    }

    fn sigmoid_divergence(&mut self, teacher: ValueId, student: ValueId) -> Built {
        let yes = self.sigmoid_term(teacher, student)?;
        let [teacher, student] = [teacher, student].map(|x| self.unary(Unary::Neg, x));
        let no = self.sigmoid_term(teacher, student)?;
        let sum = self.binary(Binary::Add, yes, no);
        self.mean(sum)
    }

    fn softened(&mut self, teacher: ValueId, student: ValueId, temperature: f64) -> Built {
        let mut log = |x| {
            let soft = self.times(x, 1.0 / temperature)?;
            Ok::<_, ModelError>(self.op(log_softmax(-1), &[soft]))
        };
        let (teacher, student) = (log(teacher)?, log(student)?);
        let likely = self.unary(Unary::Exp, teacher);
        let difference = self.binary(Binary::Sub, teacher, student);
        let terms = self.binary(Binary::Mul, likely, difference);
        let sums = self.reduce(ReduceKind::Sum, terms, Some(-1))?;
        let mean = self.mean(sums)?;
        self.times(mean, temperature * temperature)
    }
}

fn log_softmax(axis: i64) -> Softmax {
    Softmax {
        axis,
        log: true,
        flatten: false,
    }
}
