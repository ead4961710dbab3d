//! One step of training as one run of one plan: the network, its losses, the gradients of the adapter's variables.
//!
//! ```text
//! inputs, targets, factors ──plan──> loss, parts, outputs, gradients of the factors ──> gradients of the variables
//! ```
//!
//! The plan is the engine's, as for inference: memory is laid out before the first step and used again in each, frozen weights are
//! packed once, and the results have the same bits whatever the number of threads. The variables stay candle's, so that
//! optimisers, clipping and files are spark-dora's; the weights of layers that are adapted and rounded are formed of them before
//! the plan runs, and their gradients taken apart behind it.
//!
//! Steps are in f32, whatever the environment says of precisions.
//!
//! A step with dropout is one pass of many: its masks follow from the pass's number, so that a step made again, or elsewhere, is the same.

use spark_dora::optim::Gradients;
use spark_onnx::{Model, RunOptions, Session, StepInfo};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::backward::{WithGradients, with_gradients};
use spark_onnx_graph::graph::{Graph, bind};
use spark_onnx_graph::reference::gradient::GradientOptions;

use crate::error::{Result, TrainError};
use crate::exact::exact;
use crate::loss::{Losses, OutputHeads, add_losses};
use crate::network::AdaptedNetwork;

/// What runs steps of training for inputs of one shape.
#[derive(Debug)]
pub struct TrainingStep {
    session: Session,
    losses: Losses,
    /// The input that takes the gradient of the loss, which is 1.
    seed: String,
    /// The input that says which masks of dropout are meant, if there are any.
    pass: Option<String>,
    n_outputs: usize,
    one: Tensor,
}

/// What one step gives.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The loss: the weighted sum of its parts.
    pub loss: f64,
    /// By head, its mean over the batch and its numbers, unweighted.
    pub parts: Vec<(String, f64)>,
    /// The network's outputs.
    pub outputs: Vec<(String, Tensor)>,
    /// Of the adapter's variables.
    pub gradients: Gradients,
}

impl TrainingStep {
    /// Plans steps for inputs of these shapes, whose first extents are the batch.
    ///
    /// # Errors
    ///
    /// [`NoOutput`](crate::TrainError::NoOutput) and [`Head`](crate::TrainError::Head) for heads that the network does not
    /// have; [`Gradient`](crate::TrainError::Gradient) naming a node and operator without gradient;
    /// [`NotExact`](crate::TrainError::NotExact) for options that ask for another precision than fp32;
    /// [`Model`](crate::TrainError::Model) as of [`Model::from_graph`].
    pub fn new(
        network: &AdaptedNetwork,
        heads: &[OutputHeads],
        input_shapes: &[(&str, Vec<usize>)],
        options: &RunOptions,
    ) -> Result<Self> {
        Self::planned(network, heads, input_shapes, options, |whole| whole)
    }

    /// The same steps with what the way back reads of the way forth computed a second time ([`WithGradients::recomputed`]): in less memory where
    /// pictures are large, for at most the time of one forward pass more. Where the engine fuses nodes in one of the passes alone (attention, GELU
    /// and normalisations spelled out), last bits differ.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::new`].
    pub fn recomputing(
        network: &AdaptedNetwork,
        heads: &[OutputHeads],
        input_shapes: &[(&str, Vec<usize>)],
        options: &RunOptions,
    ) -> Result<Self> {
        let again = WithGradients::recomputed;
        Self::planned(network, heads, input_shapes, options, again)
    }

    fn planned(
        network: &AdaptedNetwork,
        heads: &[OutputHeads],
        input_shapes: &[(&str, Vec<usize>)],
        options: &RunOptions,
        arranged: impl FnOnce(WithGradients) -> WithGradients,
    ) -> Result<Self> {
        let graph = network.training_graph();
        let (graph, losses) = with_losses(graph, heads, input_shapes)?;
        let bound = bind(&graph, input_shapes)?;
        let wanted: Vec<&str> = network.factor_names().collect();
        let of = [losses.loss.as_str()];
        let whole = with_gradients(&bound, &wanted, &of, &[], GradientOptions::default())?;
        let WithGradients {
            graph,
            output_gradients,
            ..
        } = arranged(whole);
        let seed = output_gradients.into_iter().next().unwrap_or_default();
        let session = Model::from_graph(graph, &exact(options)?)?.session();
        Ok(Self {
            session,
            losses,
            seed,
            pass: network.pass().map(str::to_owned),
            n_outputs: network.graph().outputs.len(),
            one: Tensor::from_f32(Vec::new(), vec![1.0])?,
        })
    }

    /// The graph of a step, to be looked at.
    pub fn graph(&self) -> &Graph {
        self.session.model().graph()
    }

    /// What runs it, with its steps and times.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Outputs that are taught, with the shapes of their targets.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let targets = self.losses.targets.iter();
        targets.map(|(output, _, shape)| (output.as_str(), shape.as_slice()))
    }

    /// One step forth and back for the present values of the variables: `inputs` by name, `targets` by output.
    ///
    /// # Errors
    ///
    /// [`Dropout`](crate::TrainError::Dropout) for a network with dropout, whose steps must be told apart ([`TrainingStep::run_pass`]);
    /// [`NoOutput`](crate::TrainError::NoOutput) for a target of an output that is not taught;
    /// [`Model`](crate::TrainError::Model) for inputs and targets that are missing or of other shapes.
    pub fn run(
        &mut self,
        network: &AdaptedNetwork,
        inputs: &[(&str, &Tensor)],
        targets: &[(&str, &Tensor)],
    ) -> Result<StepResult> {
        match self.pass {
            Some(_) => Err(TrainError::Dropout),
            None => self.run_pass(network, 0, inputs, targets),
        }
    }

    /// The same with the masks of dropout that a pass has, as [`spark_dora::TrainModule`]'s steps have theirs. Without dropout the number is not
    /// looked at.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::run`], but for the first.
    pub fn run_pass(
        &mut self,
        network: &AdaptedNetwork,
        pass: u64,
        inputs: &[(&str, &Tensor)],
        targets: &[(&str, &Tensor)],
    ) -> Result<StepResult> {
        let factors = network.factors()?;
        // All 64 bits of it.
        let pass = Tensor::from_i64(Vec::new(), vec![pass as i64])?;
        let mut given = inputs.to_vec();
        given.extend(self.losses.given(targets)?);
        given.extend(lent(&factors));
        given.push((&self.seed, &self.one));
        given.extend(self.pass.as_deref().map(|name| (name, &pass)));
        let mut results = self.session.run(&given)?;
        let gradients = results.split_off(self.n_outputs + self.losses.parts.len() + 1);
        let losses = results.split_off(self.n_outputs);
        let (loss, parts) = self.losses.read(losses);
        let gradients: Vec<Tensor> = gradients.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(StepResult {
            loss,
            parts,
            outputs: results,
            gradients: network.gradients(&gradients)?,
        })
    }
}

impl TrainingStep {
    /// The steps of the plan with the mean time that each took in `runs` runs.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::run`].
    pub fn profile(
        &mut self,
        network: &AdaptedNetwork,
        inputs: &[(&str, &Tensor)],
        targets: &[(&str, &Tensor)],
        runs: u32,
    ) -> Result<Vec<StepInfo>> {
        let factors = network.factors()?;
        let pass = Tensor::from_i64(Vec::new(), vec![0])?;
        let mut given = inputs.to_vec();
        given.extend(self.losses.given(targets)?);
        given.extend(lent(&factors));
        given.push((&self.seed, &self.one));
        given.extend(self.pass.as_deref().map(|name| (name, &pass)));
        Ok(self.session.profile(&given, runs)?)
    }
}

/// What runs a network with its losses alone, for samples that are held back.
#[derive(Debug)]
pub struct Evaluation {
    session: Session,
    losses: Losses,
    n_outputs: usize,
}

/// What one evaluation gives.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationResult {
    /// The loss: the weighted sum of its parts.
    pub loss: f64,
    /// By head, its mean over the batch and its numbers, unweighted.
    pub parts: Vec<(String, f64)>,
    /// The network's outputs.
    pub outputs: Vec<(String, Tensor)>,
}

impl Evaluation {
    /// Plans evaluations for inputs of these shapes.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::new`], but for gradients.
    pub fn new(
        network: &AdaptedNetwork,
        heads: &[OutputHeads],
        input_shapes: &[(&str, Vec<usize>)],
        options: &RunOptions,
    ) -> Result<Self> {
        let (graph, losses) = with_losses(network.graph(), heads, input_shapes)?;
        let session = Model::from_graph(graph, &exact(options)?)?.session();
        Ok(Self {
            session,
            losses,
            n_outputs: network.graph().outputs.len(),
        })
    }

    /// The losses for the present values of the variables, without dropout.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::run`].
    pub fn run(
        &mut self,
        network: &AdaptedNetwork,
        inputs: &[(&str, &Tensor)],
        targets: &[(&str, &Tensor)],
    ) -> Result<EvaluationResult> {
        let factors = network.factors()?;
        let mut given = inputs.to_vec();
        given.extend(self.losses.given(targets)?);
        given.extend(lent(&factors));
        let mut outputs = self.session.run(&given)?;
        let (loss, parts) = self.losses.read(outputs.split_off(self.n_outputs));
        Ok(EvaluationResult {
            loss,
            parts,
            outputs,
        })
    }
}

/// The network with its losses behind it.
fn with_losses(
    graph: &Graph,
    heads: &[OutputHeads],
    input_shapes: &[(&str, Vec<usize>)],
) -> Result<(Graph, Losses)> {
    let mut graph = graph.clone();
    let bound = bind(&graph, input_shapes)?;
    let losses = add_losses(&mut graph, &bound, heads)?;
    Ok((graph, losses))
}

fn lent(tensors: &[(String, Tensor)]) -> impl Iterator<Item = (&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors.map(|(name, tensor)| (name.as_str(), tensor))
}
