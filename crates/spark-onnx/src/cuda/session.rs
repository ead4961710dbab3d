//! A network on a GPU: loaded once, then one graph a run.

#![allow(unsafe_code, reason = "vouches for a plan that it has checked")]

use std::path::Path;

use spark_mem::{Device, DeviceKind, MemError};

use super::blocks::{Blocks, Stored};
use super::constants::Constants;
use super::launches::{Launch, Launching};
use super::ports::{check_status, read_output, write_input};
use super::recording::Recording;
use super::refused::{DEVICE, Refused};
use crate::budget::{Asker, ModelBudget};
use crate::graph::{Graph, bind_taking, check_graph, deciding_inputs};
use crate::options::RunOptions;
use crate::plan::{Plan, lower};
use crate::stages::{Kind, Stages};
use crate::{ModelError, Precision, Tensor, file};
use spark_onnx_graph::join_quantised;

/// Bytes that a session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CudaMemory {
    /// Weights, biases, other constants, tables and programs, on the device.
    pub constant_bytes: usize,
    /// Results between steps, on the device.
    pub arena_bytes: usize,
    /// All inputs; on a card as much again in pinned memory of the host.
    pub input_bytes: usize,
    /// A status and all outputs; on a card as much again in pinned memory of the host.
    pub output_bytes: usize,
}

/// One launch of a session's graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaStep {
    /// Name of the node, or of the input or output that is copied.
    pub name: String,
    /// Kind of the step: as the CPU's steps are called, or `input`, `output`.
    pub kind: &'static str,
    /// The kernel.
    pub kernel: &'static str,
}

/// A network with fixed shapes on one GPU, and memory for one run at a time: a first slice, not yet run on real hardware.
///
/// Its weights are brought to the device when it is loaded, and all launches are recorded as one graph then. A run writes the
/// inputs to one block of memory, launches the graph, and reads the outputs from another block. On unified memory, as of a
/// DGX Spark, both sides use these blocks and nothing is copied; on a card the graph copies one in and one out. No memory is
/// taken on the device after loading.
///
/// In fp16 weights and everything between steps are stored in 16 bits, so that from 65520 on a number becomes an infinity; so are
/// inputs on their way to an operator on pictures, and outputs that are not written in place. Sums are f32, and other inputs and
/// outputs stay what they are.
///
/// # Examples
///
/// ```no_run
/// use spark_mem::{Device, DeviceOptions};
/// use spark_onnx::cuda::CudaSession;
/// use spark_onnx::{DType, Precision, RunOptions, Tensor};
///
/// let device = Device::cuda(0, DeviceOptions::new())?;
/// let options = RunOptions::new().with_precision(Precision::Fp16);
/// let mut session = CudaSession::load("driving_policy.onnx".as_ref(), &device, &options)?;
/// let features = Tensor::zeros(DType::F32, [1, 25, 512])?;
/// let desire = Tensor::zeros(DType::F32, [1, 25, 8])?;
/// let traffic = Tensor::zeros(DType::F32, [1, 2])?;
/// let inputs = [("features_buffer", &features), ("desire_pulse", &desire), ("traffic_convention", &traffic)];
/// let outputs = session.run(&inputs)?;
/// println!("{}: {} numbers", outputs[0].0, outputs[0].1.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CudaSession {
    /// Without weights.
    plan: Plan,
    blocks: Blocks,
    recording: Recording,
    steps: Vec<CudaStep>,
    precision: Precision,
}

impl CudaSession {
    /// Reads an ONNX file and brings it to `device`.
    ///
    /// # Errors
    ///
    /// As [`file::load_with`] and [`CudaSession::from_graph`].
    pub fn load(path: &Path, device: &Device, options: &RunOptions) -> Result<Self, ModelError> {
        let graph = file::load_with(path, &options.read_options())?;
        Self::from_graph(graph, device, options)
    }

    /// Brings `graph` to `device`, in the precision of `options` or of the environment: fp32 or fp16, for all steps.
    /// Its own operators and [`RunOptions::memory_budget`] count, threads, instruction sets, plans and the device do not.
    ///
    /// # Errors
    ///
    /// [`ModelError::DeviceUnavailable`] for a device that is no GPU; [`ModelError::PrecisionUnavailable`] for another
    /// precision, and for single steps in one of their own; [`ModelError::StepUnsupported`] for a step without a kernel, and for
    /// lengths that values say, with the node's name; [`ModelError::InputDecides`] and
    /// [`ModelError::InputOpen`] for shapes that are not fixed; [`ModelError::OverBudget`];
    /// [`ModelError::Device`] for memory, compilers and launches that the device does not have; any error of binding or
    /// lowering the graph.
    pub fn from_graph(
        graph: Graph,
        device: &Device,
        options: &RunOptions,
    ) -> Result<Self, ModelError> {
        let DeviceKind::Cuda(_) = device.info().kind else {
            return Err(ModelError::DeviceUnavailable {
                device: device.info().name.clone(),
                reason: "models run on GPUs here, and on the CPU by `Model`",
            });
        };
        let precision = precision(options)?;
        let mut plan = planned(graph, options)?;
        plan.check_views()?;
        let of_plan = |refused: Refused| refused.of_node("the plan", "plan");
        let mut blocks = Blocks::of(&plan, precision).map_err(of_plan)?;
        let mut constants = Constants::of(&plan, &blocks).map_err(of_plan)?;
        let (launches, steps) = launches(&plan, precision, &mut blocks, &mut constants)?;
        let mut budget = ModelBudget::new(plan.budget_bytes);
        plan.take_for_a_run(blocks.arena_bytes, &mut budget)?;
        let asker = Asker {
            node: "the plan",
            op: "network",
            what: "weights, constants and tables",
        };
        budget.take(asker, blocks.constant_bytes)?;
        // SAFETY: the views of the plan were checked above, and blocks, launches and constants are of it.
        let recording = unsafe { Recording::new(&mut plan, &blocks, &launches, constants, device) };
        Ok(Self {
            recording: recording.map_err(of_device)?,
            plan,
            blocks,
            steps,
            precision,
        })
    }

    /// Runs the network once. Inputs are named, in any order; results come in the model's order.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`], [`ModelError::InputUnknown`], [`ModelError::InputTwice`],
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] for inputs that do not fit;
    /// [`ModelError::IndexOutside`] or [`ModelError::Operator`] where the model computes an index outside its axis, or divides
    /// an integer by zero; [`ModelError::Device`].
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.check_names(inputs)?;
        let mut block = self.recording.inputs().map_err(of_device)?;
        for (port, shared) in self.plan.inputs.iter().zip(&self.blocks.inputs) {
            let given = inputs.iter().find(|(name, _)| *name == port.name);
            let Some((_, tensor)) = given else {
                let name = port.name.clone();
                return Err(ModelError::InputMissing { name });
            };
            write_input(port, shared, tensor, &mut block)?;
        }
        block.finish().map_err(of_device)?;
        self.recording.launch().map_err(of_device)?;
        let block = self.recording.outputs().map_err(of_device)?;
        check_status(&self.plan, &block)?;
        let ports = self.plan.outputs.iter().zip(&self.blocks.outputs);
        let outputs = ports.map(|(port, shared)| {
            let tensor = read_output(port, shared, &block)?;
            Ok((port.name.clone(), tensor))
        });
        outputs.collect()
    }

    fn check_names(&self, inputs: &[(&str, &Tensor)]) -> Result<(), ModelError> {
        for (number, (name, _)) in inputs.iter().enumerate() {
            if self.plan.inputs.iter().all(|port| port.name != *name) {
                let name = (*name).to_owned();
                return Err(ModelError::InputUnknown { name });
            }
            if inputs[..number].iter().any(|(other, _)| other == name) {
                let name = (*name).to_owned();
                return Err(ModelError::InputTwice { name });
            }
        }
        Ok(())
    }

    /// The precision of all steps.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Every launch of a run, in order.
    pub fn steps(&self) -> &[CudaStep] {
        &self.steps
    }

    /// Bytes that it holds.
    pub fn memory(&self) -> CudaMemory {
        CudaMemory {
            constant_bytes: self.blocks.constant_bytes,
            arena_bytes: self.blocks.arena_bytes,
            input_bytes: self.blocks.input_bytes,
            output_bytes: self.blocks.output_bytes,
        }
    }
}

/// An error of memory, a compiler or a launch.
fn of_device(source: MemError) -> ModelError {
    ModelError::Device {
        source: source.into(),
    }
}

/// The precision asked for, if kernels have it.
fn precision(options: &RunOptions) -> Result<Precision, ModelError> {
    let precision = options.asked_precision();
    let refuse = |precision, device| {
        Err(ModelError::PrecisionUnavailable {
            precision,
            device,
            available: "fp32, fp16",
        })
    };
    if let Some(&own) = options.by_step.values().next() {
        return refuse(own, "cuda, for single steps");
    }
    if options.calibration.is_some() {
        return refuse(precision, "cuda, by a calibration");
    }
    match precision {
        Precision::Fp32 | Precision::Fp16 => Ok(precision),
        other => refuse(other, DEVICE),
    }
}

/// The plan of `graph` in its declared shapes, which gives its constants up.
fn planned(mut graph: Graph, options: &RunOptions) -> Result<Plan, ModelError> {
    check_graph(&graph)?;
    let budget_bytes = options.budget_bytes(&graph);
    join_quantised(&mut graph);
    if let Some(&number) = deciding_inputs(&graph).first() {
        let name = graph.value(graph.inputs[number]).name.clone();
        return Err(ModelError::InputDecides { name });
    }
    let (mut graph, stages) = Stages::cut(graph)?;
    if let Some(stages) = stages {
        let first = stages.later.first().map(|stage| &stage.kind);
        let node = match first {
            Some(Kind::Interpreted(graph)) => graph.nodes.first(),
            _ => None,
        };
        let (node, op) = node.map_or(("a later stage", "stage"), |n| (&n.name, n.op.name()));
        let refused = Refused("values say how long its results are".to_owned());
        return Err(refused.of_node(node, op));
    }
    lower(&bind_taking(&mut graph, budget_bytes)?)
}

/// All launches of a run in their order, and what each is for.
fn launches(
    plan: &Plan,
    precision: Precision,
    blocks: &mut Blocks,
    constants: &mut Constants,
) -> Result<(Vec<Launch>, Vec<CudaStep>), ModelError> {
    let (mut launches, mut steps) = (Vec::new(), Vec::new());
    let mut add = |name: &str, kind: &'static str, launch: Option<Launch>| {
        if let Some(launch) = launch {
            steps.push(CudaStep {
                name: name.to_owned(),
                kind,
                kernel: launch.work.kernel(),
            });
            launches.push(launch);
        }
    };
    let mut launching = Launching {
        plan,
        blocks,
        constants,
        weights: match precision {
            Precision::Fp16 => Stored::F16,
            _ => Stored::F32,
        },
    };
    for number in 0..plan.inputs.len() {
        let port = &plan.inputs[number];
        let launch = launching.copy_in(number);
        add(
            &port.name,
            "input",
            launch.map_err(|refused| refused.of_node(&port.name, "input"))?,
        );
    }
    for (index, planned) in plan.steps.iter().enumerate() {
        let launch = launching.launch_of(index);
        let launch = launch.map_err(|refused| refused.of_step(planned))?;
        add(&planned.name, planned.step.kind(), launch);
    }
    for number in 0..plan.outputs.len() {
        let port = &plan.outputs[number];
        let launch = launching.copy_out(number);
        add(
            &port.name,
            "output",
            launch.map_err(|refused| refused.of_node(&port.name, "output"))?,
        );
    }
    Ok((launches, steps))
}
