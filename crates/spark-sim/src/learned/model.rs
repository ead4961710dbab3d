//! A network as the car, run by `spark-onnx`: one call for all segments.
//!
//! ```text
//! ONNX file -> checked: inputs states [b, 20, 4] f32, tokens [b, 20] i64
//!                       output [b, 20, 1024], [b, 1, 1024] or [b, 1024] f32
//!           -> cut down to what the last step needs
//! predict   -> ModelRunner::run on [n, ...]: one row of 1024 per segment
//! ```

use super::last_step::keep_last_step;
use super::{CONTEXT, LearnedDynamics, N_BINS, STATE_SIZE};
use crate::SimError;
use spark_onnx::{ModelRunner, RunOptions, Tensor, graph::Graph};
use std::path::Path;

/// A network of the challenge's interface.
pub struct ModelDynamics {
    runner: ModelRunner,
    states: String,
    tokens: String,
}

impl ModelDynamics {
    /// Reads an ONNX file; see [`Self::from_graph`].
    ///
    /// # Errors
    ///
    /// [`SimError::Network`] if the file cannot be read, and as [`Self::from_graph`].
    pub fn load(path: &Path, options: &RunOptions) -> Result<Self, SimError> {
        let graph = spark_onnx::file::load(path).map_err(refused)?;
        Self::from_graph(graph, options)
    }

    /// Takes the input of 64-bit integers for the tokens, the other one for the states, and
    /// asks it one question to see whether it answers as it should.
    ///
    /// # Errors
    ///
    /// [`SimError::Network`] if it cannot be run, or asks for or answers something else.
    pub fn from_graph(graph: Graph, options: &RunOptions) -> Result<Self, SimError> {
        let inputs: Vec<_> = graph.inputs.iter().map(|&id| graph.value(id)).collect();
        let is_tokens = |i: usize| inputs[i].dtype == Some(spark_onnx::DType::I64);
        let (states, tokens) = match inputs.len() {
            2 if is_tokens(1) && !is_tokens(0) => (inputs[0].name.clone(), inputs[1].name.clone()),
            2 if is_tokens(0) && !is_tokens(1) => (inputs[1].name.clone(), inputs[0].name.clone()),
            n => {
                return Err(SimError::Network {
                    reason: format!(
                        "{n} inputs, expected states (f32) and tokens (64-bit integers)"
                    ),
                });
            }
        };
        let graph = keep_last_step(&graph, &states, &tokens).map_err(refused)?;
        let runner = ModelRunner::from_graph(graph, options).map_err(refused)?;
        let mut dynamics = Self {
            runner,
            states,
            tokens,
        };
        let mut logits = vec![0.0; N_BINS];
        let (states, tokens) = ([0.0; CONTEXT * STATE_SIZE], [0; CONTEXT]);
        dynamics
            .predict(1, &states, &tokens, &mut logits)
            .map_err(|reason| SimError::Network { reason })?;
        Ok(dynamics)
    }

    /// What runs it, for profiles and reports.
    pub fn runner(&mut self) -> &mut ModelRunner {
        &mut self.runner
    }
}

fn refused(error: spark_onnx::ModelError) -> SimError {
    SimError::Network {
        reason: error.to_string(),
    }
}

impl LearnedDynamics for ModelDynamics {
    fn predict(
        &mut self,
        n: usize,
        states: &[f32],
        tokens: &[i64],
        logits: &mut [f32],
    ) -> Result<(), String> {
        let text = |error: spark_onnx::ModelError| error.to_string();
        let states = Tensor::from_f32([n, CONTEXT, STATE_SIZE], states.to_vec()).map_err(text)?;
        let tokens = Tensor::from_i64([n, CONTEXT], tokens.to_vec()).map_err(text)?;
        let inputs = [
            (self.states.as_str(), &states),
            (self.tokens.as_str(), &tokens),
        ];
        let outputs = self.runner.run(&inputs).map_err(text)?;
        let answer = outputs.first().map(|(_, tensor)| tensor);
        let Some((tensor, values)) = answer.and_then(|t| Some((t, t.as_f32()?))) else {
            return Err("the first output is not f32".to_owned());
        };
        let n_steps = match *tensor.shape() {
            [rows, N_BINS] if rows == n => 1,
            [rows, steps, N_BINS] if rows == n && steps > 0 => steps,
            ref shape => {
                return Err(format!(
                    "logits are {shape:?}, expected [{n}, 20, {N_BINS}]"
                ));
            }
        };
        let rows = values.chunks_exact(n_steps * N_BINS);
        for (to, of_segment) in logits.chunks_exact_mut(N_BINS).zip(rows) {
            to.copy_from_slice(&of_segment[(n_steps - 1) * N_BINS..]);
        }
        Ok(())
    }
}
