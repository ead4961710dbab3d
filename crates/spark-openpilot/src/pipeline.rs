//! One step of openpilot's model process: two pictures in, a plan out.
//!
//! ```text
//! road, wide planes --> frame histories --> vision --> hidden state --> feature history --+
//! desire            --> rising edge     ----------------------------> pulse history ------+--> policy
//! traffic convention ---------------------------------------------------------------------+
//! ```
//!
//! A step is one frame of 20 Hz. The vision network sees the newest pictures and those of
//! 0.2 s ago; the policy network sees 25 hidden states, the newest of which is this step's.
//!
//! Source: `ModelState.run` of openpilot's `selfdrive/modeld/modeld.py`.

use crate::OpenpilotError;
use crate::frame::{FRAME_BYTES, PLANE_HEIGHT, PLANE_WIDTH, PLANES_PER_FRAME};
use crate::history::{DesirePulse, FrameHistory, STEPS, VectorHistory};
use crate::prediction::{PolicyPrediction, VisionPrediction};
use crate::slices::OutputLayout;
use spark_onnx::ModelRunner;
use spark_onnx::graph::Graph;
use spark_onnx::{DType, Tensor, TensorData};

/// Values of a hidden state.
const HIDDEN: usize = 512;
/// Desires, the first of which means "none".
const DESIRES: usize = 8;

/// What the world gives for one step.
#[derive(Debug, Clone, Copy)]
pub struct DrivingInput<'a> {
    /// Planes of the road camera, warped to the model's view: `[6, 128, 256]`.
    pub road: &'a [u8],
    /// Planes of the wide camera: `[6, 128, 256]`.
    pub wide: &'a [u8],
    /// Desires as held by the driver's wish; pulses are made from them.
    pub desire: [f32; DESIRES],
    /// `[1, 0]` where traffic keeps right, `[0, 1]` where it keeps left.
    pub traffic_convention: [f32; 2],
}

/// What one step gives.
#[derive(Debug, Clone)]
pub struct DrivingOutput {
    /// The vision network's output vector.
    pub vision_values: Vec<f32>,
    /// The policy network's output vector.
    pub policy_values: Vec<f32>,
    /// What the vision network says.
    pub vision: VisionPrediction,
    /// What the policy network says.
    pub policy: PolicyPrediction,
}

/// The driving networks with their memory of the last five seconds.
///
/// # Examples
///
/// ```
/// use spark_onnx::{ModelRunner, RunOptions};
/// use spark_openpilot::frame::FRAME_BYTES;
/// use spark_openpilot::{DrivingInput, DrivingPipeline, zoo};
///
/// let load = |graph| ModelRunner::from_graph(graph, &RunOptions::new());
/// let (vision, policy) = (load(zoo::driving_vision(0))?, load(zoo::driving_policy(0))?);
/// let mut pipeline = DrivingPipeline::new(vision, policy)?;
/// let grey = vec![128; FRAME_BYTES];
/// let input = DrivingInput {
///     road: &grey,
///     wide: &grey,
///     desire: [0.0; 8],
///     traffic_convention: [1.0, 0.0],
/// };
/// let output = pipeline.step(&input)?; // one frame of 20 Hz
/// assert_eq!(output.policy_values.len(), 1000);
/// # Ok::<(), spark_openpilot::OpenpilotError>(())
/// ```
pub struct DrivingPipeline {
    vision: Network,
    policy: Network,
    road: FrameHistory,
    wide: FrameHistory,
    features: VectorHistory,
    pulses: VectorHistory,
    edge: DesirePulse,
}

impl DrivingPipeline {
    /// Chains two loaded networks.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Interface`] if one does not have the inputs or the output of its
    /// kind, [`OpenpilotError::Metadata`] or [`OpenpilotError::SliceRange`] if its table of
    /// heads is wrong.
    pub fn new(vision: ModelRunner, policy: ModelRunner) -> Result<Self, OpenpilotError> {
        let frames = [1, 2 * PLANES_PER_FRAME, PLANE_HEIGHT, PLANE_WIDTH];
        let vision = Network::new(
            vision,
            vec![("img", frames.to_vec()), ("big_img", frames.to_vec())],
        )?;
        let policy = Network::new(
            policy,
            vec![
                ("desire_pulse", vec![1, STEPS, DESIRES]),
                ("traffic_convention", vec![1, 2]),
                ("features_buffer", vec![1, STEPS, HIDDEN]),
            ],
        )?;
        Ok(Self {
            vision,
            policy,
            road: FrameHistory::new(FRAME_BYTES),
            wide: FrameHistory::new(FRAME_BYTES),
            features: VectorHistory::new(HIDDEN),
            pulses: VectorHistory::new(DESIRES),
            edge: DesirePulse::default(),
        })
    }

    /// Advances by one frame.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] if the planes have the wrong size, in which case nothing
    /// has changed; [`OpenpilotError::Model`] if a network fails, with the pictures already
    /// in their history.
    pub fn step(&mut self, input: &DrivingInput<'_>) -> Result<DrivingOutput, OpenpilotError> {
        for (what, planes) in [("road planes", input.road), ("wide planes", input.wide)] {
            if planes.len() != FRAME_BYTES {
                return Err(OpenpilotError::Length {
                    what: what.to_owned(),
                    got: planes.len(),
                    want: FRAME_BYTES,
                });
            }
        }
        self.road.push(input.road)?;
        self.wide.push(input.wide)?;
        let vision_values = self
            .vision
            .run_bytes([self.road.pair(), self.wide.pair()])?;
        let vision = VisionPrediction::parse(&self.vision.layout, &vision_values)?;

        self.features.push(&vision.hidden_state)?;
        self.pulses.push(&self.edge.step(input.desire))?;
        let traffic = input.traffic_convention.to_vec();
        let policy_inputs = [self.pulses.pooled(), traffic, self.features.every_fourth()];
        let policy_values = self.policy.run_floats(policy_inputs)?;
        let policy = PolicyPrediction::parse(&self.policy.layout, &policy_values)?;
        Ok(DrivingOutput {
            vision_values,
            policy_values,
            vision,
            policy,
        })
    }

    /// Forgets the last five seconds.
    pub fn reset(&mut self) {
        self.road.clear();
        self.wide.clear();
        self.features.clear();
        self.pulses.clear();
        self.edge.clear();
    }

    /// The vision network's runner, for its plan and memory.
    pub fn vision(&self) -> &ModelRunner {
        &self.vision.runner
    }

    /// The policy network's runner, for its plan and memory.
    pub fn policy(&self) -> &ModelRunner {
        &self.policy.runner
    }
}

/// A network whose interface was checked.
struct Network {
    runner: ModelRunner,
    layout: OutputLayout,
    /// Name, element type and shape of each input, in the order this module feeds them.
    inputs: Vec<(&'static str, DType, Vec<usize>)>,
}

impl Network {
    fn new(
        runner: ModelRunner,
        wanted: Vec<(&'static str, Vec<usize>)>,
    ) -> Result<Self, OpenpilotError> {
        let graph = runner.graph();
        let refused = |reason: String| OpenpilotError::Interface {
            model: graph.name.clone(),
            reason,
        };
        if graph.inputs.len() != wanted.len() {
            let names: Vec<&str> = graph
                .inputs
                .iter()
                .map(|&id| graph.value(id).name.as_str())
                .collect();
            return Err(refused(format!("it has the inputs {}", names.join(", "))));
        }
        let inputs = wanted
            .into_iter()
            .map(|(name, shape)| match input_dtype(graph, name) {
                Some(dtype) => Ok((name, dtype, shape)),
                None => Err(refused(format!("it has no input `{name}`"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let layout = OutputLayout::of(graph)?
            .ok_or_else(|| refused("the heads of its output are not known".to_owned()))?;
        Ok(Self {
            runner,
            layout,
            inputs,
        })
    }

    fn run_bytes<const N: usize>(
        &mut self,
        values: [Vec<u8>; N],
    ) -> Result<Vec<f32>, OpenpilotError> {
        let tensors = self
            .inputs
            .iter()
            .zip(values)
            .map(|((name, dtype, shape), bytes)| {
                let tensor = match dtype {
                    DType::U8 => Tensor::new(shape.clone(), TensorData::U8(bytes)),
                    // Networks of the f16 era take the same bytes as numbers.
                    _ => Tensor::from_f64(
                        *dtype,
                        shape.clone(),
                        bytes.iter().map(|&b| f64::from(b)).collect(),
                    ),
                };
                Ok((*name, tensor?))
            });
        let tensors = tensors.collect::<Result<Vec<_>, OpenpilotError>>()?;
        self.run(&tensors)
    }

    fn run_floats<const N: usize>(
        &mut self,
        values: [Vec<f32>; N],
    ) -> Result<Vec<f32>, OpenpilotError> {
        let tensors = self
            .inputs
            .iter()
            .zip(values)
            .map(|((name, dtype, shape), floats)| {
                let tensor = match dtype {
                    DType::F32 => Tensor::from_f32(shape.clone(), floats),
                    _ => Tensor::from_f64(
                        *dtype,
                        shape.clone(),
                        floats.iter().map(|&v| f64::from(v)).collect(),
                    ),
                };
                Ok((*name, tensor?))
            });
        let tensors = tensors.collect::<Result<Vec<_>, OpenpilotError>>()?;
        self.run(&tensors)
    }

    fn run(&mut self, tensors: &[(&'static str, Tensor)]) -> Result<Vec<f32>, OpenpilotError> {
        let borrowed: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, t)| (*name, t)).collect();
        let mut outputs = self.runner.run(&borrowed)?;
        let output = outputs.pop().map(|(_, tensor)| tensor);
        Ok(match output.map(Tensor::into_data) {
            Some(TensorData::F32(values)) => values,
            Some(other) => {
                let n = other.len();
                Tensor::new(vec![n], other)?.to_f32()
            }
            None => Vec::new(),
        })
    }
}

fn input_dtype(graph: &Graph, name: &str) -> Option<DType> {
    let id = graph
        .inputs
        .iter()
        .find(|&&id| graph.value(id).name == name)?;
    graph.value(*id).dtype
}
