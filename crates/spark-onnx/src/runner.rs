//! A model ready to run: the one type most users need, a [`Model`] with one [`Session`].
//!
//! ```text
//! load(path) -> Model -> Session
//! run(inputs) -> outputs
//! ```
//!
//! Deliberately absent: results in memory of the caller's, state between runs, several threads; those are
//! the session's and the model's.

use std::path::Path;

use crate::cpu::{Isa, Peaks};
use crate::graph::Graph;
use crate::model::Model;
use crate::options::RunOptions;
use crate::session::Session;
use crate::step_info::{Span, StepInfo};
use crate::{ModelError, Precision, Tensor, TensorView, file};

/// Bytes a runner holds; where an input shape is open, the model's own constants besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunnerMemory {
    /// Intermediate results and scratch of all plans.
    pub arena_bytes: usize,
    /// Weights as the executor holds them.
    pub weight_bytes: usize,
    /// Memory of a device of its own; `None` on the CPU.
    pub device_bytes: Option<usize>,
}

/// A model ready to run.
///
/// # Examples
///
/// ```
/// use spark_onnx::graph::{Dim, Graph, MatMul, Op};
/// use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};
///
/// // y = x W; `ModelRunner::load(path, &options)` reads a network from a file.
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
/// let w = Tensor::from_f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let w = graph.add_constant("w", w);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// graph.outputs.push(y);
///
/// let mut runner = ModelRunner::from_graph(graph, &RunOptions::new())?;
/// let x = Tensor::from_f32([1, 2], vec![1.0, 10.0])?;
/// let outputs = runner.run(&[("x", &x)])?;
/// assert_eq!(outputs[0].0, "y");
/// assert_eq!(outputs[0].1.to_f32(), [41.0, 52.0, 63.0]);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
#[derive(Debug)]
pub struct ModelRunner {
    session: Session,
}

impl ModelRunner {
    /// Reads an ONNX file and makes it ready; where all input shapes are fixed, its plan is made
    /// at once, else at the first run.
    ///
    /// # Errors
    ///
    /// As [`file::load_with`] and [`ModelRunner::from_graph`].
    pub fn load(path: &Path, options: &RunOptions) -> Result<Self, ModelError> {
        Self::from_graph(file::load_with(path, &options.read_options())?, options)
    }

    /// Makes `graph` ready.
    ///
    /// # Errors
    ///
    /// As [`Model::from_graph`].
    pub fn from_graph(graph: Graph, options: &RunOptions) -> Result<Self, ModelError> {
        let mut session = Model::from_graph(graph, options)?.session();
        session.warm_up()?;
        Ok(Self { session })
    }

    /// The model it runs, for more sessions of it.
    pub fn model(&self) -> &Model {
        self.session.model()
    }

    /// The model as it was read; see [`Model::graph`].
    pub fn graph(&self) -> &Graph {
        self.model().graph()
    }

    /// The precision asked for; [`ModelRunner::steps`] says which step computes in what.
    pub fn precision(&self) -> Precision {
        self.model().precision()
    }

    /// Where the model runs.
    pub fn device(&self) -> &'static str {
        self.model().device()
    }

    /// Instruction set the kernels use.
    pub fn isa(&self) -> Isa {
        self.model().isa()
    }

    /// Threads that take part.
    pub fn threads(&self) -> usize {
        self.model().threads()
    }

    /// Bytes held by the plans that are kept.
    pub fn memory(&self) -> RunnerMemory {
        RunnerMemory {
            arena_bytes: self.session.arena_bytes(),
            weight_bytes: self.model().memory().weight_bytes,
            device_bytes: None,
        }
    }

    /// The steps of the plan used last; empty before the first plan. See [`Session::steps`].
    pub fn steps(&self) -> Vec<StepInfo> {
        self.session.steps()
    }

    /// Runs the model once.
    ///
    /// Inputs are named, in any order; results come in the model's order. Shapes may be any the
    /// model admits; a plan is made for each new set of them.
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.session.run(inputs)
    }

    /// [`ModelRunner::run`] on elements that the caller keeps, in the caller's layout; see
    /// [`Session::run_views`].
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn run_views(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.session.run_views(inputs)
    }

    /// Runs the model `runs` times and tells the mean time of every step.
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn profile(
        &mut self,
        inputs: &[(&str, &Tensor)],
        runs: u32,
    ) -> Result<Vec<StepInfo>, ModelError> {
        self.session.profile(inputs, runs)
    }

    /// Runs the model `runs` times and tells when every step ran.
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn spans(
        &mut self,
        inputs: &[(&str, &Tensor)],
        runs: usize,
    ) -> Result<Vec<Span>, ModelError> {
        self.session.spans(inputs, runs)
    }

    /// What the processor can do at most on this runner's threads; measures for a few tenths of a
    /// second and takes 256 MB meanwhile.
    pub fn peaks(&self) -> Peaks {
        self.model().peaks()
    }
}
