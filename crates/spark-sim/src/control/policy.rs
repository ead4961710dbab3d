//! A network as the controller: an ONNX file, one call per step for a block of cars.
//!
//! ```text
//! StateBatch --chosen columns, scaled--> [64, n_signals] f32 --> network --> [64, n_answers] f32
//!                                        rows beyond the block are 0          steering, then speed
//! ```
//!
//! The network always sees 64 rows: a product may round differently for other numbers of rows,
//! and results must not depend on how scenarios are split into blocks. Every block has a
//! session of its own on one thread, since blocks run side by side, and all read the same weights; sessions
//! are kept and used again.
//!
//! Deliberately absent: networks with memory of their own. What a policy wants to remember it
//! can only see if it is a signal.

use super::{ActionBatch, Algorithm, AlgorithmFactory, LaneSetup, StateBatch};
use crate::SimError;
use crate::vehicle::SteerInterface;
use spark_onnx::graph::Graph;
use spark_onnx::{Model, ModelError, RunOptions, Session, Tensor};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of every call.
const ROWS: usize = 64;

/// One column of what the network sees.
#[derive(Debug, Clone, Copy)]
pub struct PolicySignal {
    /// Picks a column of the states.
    pub read: fn(&StateBatch) -> &[f32],
    /// What its numbers are multiplied by.
    pub scale: f32,
}

impl PolicySignal {
    /// A column and its scale: `PolicySignal::new(|s| &s.v_ego, 1.0 / 30.0)`.
    pub fn new(read: fn(&StateBatch) -> &[f32], scale: f32) -> Self {
        Self { read, scale }
    }
}

/// What the network sees and what its answers mean.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// Name of the controller in reports.
    pub name: String,
    /// Columns of the network's input, in order.
    pub signals: Vec<PolicySignal>,
    /// What the first answer means; `None` if it does not steer.
    pub steer: Option<SteerInterface>,
    /// Whether the last answer is an acceleration, m/s^2.
    pub controls_speed: bool,
}

/// A network that drives; hand it to a simulator as any other controller.
pub struct Policy {
    shared: Arc<Shared>,
}

struct Shared {
    config: PolicyConfig,
    model: Model,
    input: String,
    idle: Mutex<Vec<Session>>,
}

impl Policy {
    /// Reads an ONNX file; see [`Self::from_graph`].
    ///
    /// # Errors
    ///
    /// [`SimError::Network`] if the file cannot be read, and as [`Self::from_graph`].
    pub fn load(path: &Path, config: PolicyConfig, options: &RunOptions) -> Result<Self, SimError> {
        let graph = spark_onnx::file::load(path).map_err(refused)?;
        Self::from_graph(graph, config, options)
    }

    /// Takes a network with one input `[batch, n_signals]` and asks it one question to see
    /// whether it answers `[batch, n_answers]`. Threads and pool in `options` are not used.
    ///
    /// # Errors
    ///
    /// [`SimError::Network`] if it cannot be run, or asks for or answers something else, or
    /// neither steers nor sets the speed.
    pub fn from_graph(
        graph: Graph,
        config: PolicyConfig,
        options: &RunOptions,
    ) -> Result<Self, SimError> {
        let wrong = |reason: String| SimError::Network { reason };
        let &[input] = graph.inputs.as_slice() else {
            let n = graph.inputs.len();
            return Err(wrong(format!("{n} inputs, expected one")));
        };
        if config.signals.is_empty() || n_answers(&config) == 0 {
            return Err(wrong(
                "a policy needs a signal and something to control".to_owned(),
            ));
        }
        let mut options = options.clone().with_threads(1);
        options.pool = None;
        let shared = Arc::new(Shared {
            config,
            input: graph.value(input).name.clone(),
            model: Model::from_graph(graph, &options).map_err(refused)?,
            idle: Mutex::new(Vec::new()),
        });
        let mut driver = PolicyDriver {
            session: Some(shared.session()),
            shared: Arc::clone(&shared),
        };
        let zeros = vec![0.0; ROWS * shared.config.signals.len()];
        driver.ask(zeros).map_err(wrong)?;
        drop(driver);
        Ok(Self { shared })
    }
}

fn n_answers(config: &PolicyConfig) -> usize {
    usize::from(config.steer.is_some()) + usize::from(config.controls_speed)
}

fn refused(error: ModelError) -> SimError {
    SimError::Network {
        reason: error.to_string(),
    }
}

impl Shared {
    /// One that nobody uses, or a new one.
    fn session(&self) -> Session {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_else(|| self.model.session())
    }
}

impl AlgorithmFactory for Policy {
    fn name(&self) -> &str {
        &self.shared.config.name
    }

    fn create(&self) -> Option<Box<dyn Algorithm>> {
        Some(Box::new(PolicyDriver {
            session: Some(self.shared.session()),
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// The network of one block.
struct PolicyDriver {
    /// There until it is dropped.
    session: Option<Session>,
    shared: Arc<Shared>,
}

impl Drop for PolicyDriver {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let mut idle = self.shared.idle.lock();
            idle.as_mut()
                .unwrap_or_else(|poisoned| poisoned.get_mut())
                .push(session);
        }
    }
}

impl PolicyDriver {
    /// The answers to `ROWS` rows of signals.
    fn ask(&mut self, rows: Vec<f32>) -> Result<Vec<f32>, String> {
        let config = &self.shared.config;
        let text = |error: ModelError| error.to_string();
        let rows = Tensor::from_f32([ROWS, config.signals.len()], rows).map_err(text)?;
        let session = self.session.as_mut().expect("there until it is dropped");
        let outputs = session.run(&[(self.shared.input.as_str(), &rows)]);
        let outputs = outputs.map_err(text)?;
        let Some((_, answer)) = outputs.first() else {
            return Err("the network has no output".to_owned());
        };
        let n = n_answers(config);
        let shape = answer.shape();
        if *shape != [ROWS, n] {
            return Err(format!("answers are {shape:?}, expected [{ROWS}, {n}]"));
        }
        let values = answer.as_f32();
        let values = values.ok_or_else(|| "the answers are not f32".to_owned())?;
        Ok(values.to_vec())
    }
}

impl Algorithm for PolicyDriver {
    fn reset(&mut self, _lanes: &[LaneSetup]) {}

    /// Panics, which fails the scenarios of the block, if the network does not answer; it has
    /// answered the same question before.
    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        let shared = Arc::clone(&self.shared);
        let config = &shared.config;
        let (n_signals, n) = (config.signals.len(), n_answers(config));
        for first in (0..state.n_lanes()).step_by(ROWS) {
            let n_rows = ROWS.min(state.n_lanes() - first);
            let mut rows = vec![0.0; ROWS * n_signals];
            for (i, signal) in config.signals.iter().enumerate() {
                let column = &(signal.read)(state)[first..first + n_rows];
                for (row, value) in column.iter().enumerate() {
                    rows[row * n_signals + i] = value * signal.scale;
                }
            }
            let answers = match self.ask(rows) {
                Ok(answers) => answers,
                Err(reason) => panic!("the network does not answer: {reason}"),
            };
            for (row, answer) in answers.chunks_exact(n).take(n_rows).enumerate() {
                if config.steer.is_some() {
                    action.steer[first + row] = answer[0];
                }
                if config.controls_speed {
                    action.accel[first + row] = answer[n - 1];
                }
            }
        }
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        self.shared.config.steer
    }

    fn controls_speed(&self) -> bool {
        self.shared.config.controls_speed
    }
}

#[cfg(test)]
mod tests;
