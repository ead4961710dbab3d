//! Networks that hand a state from one frame to the next.
//!
//! ```text
//! frame t:  inputs, state[t] --network--> outputs, state[t + 1]
//! state[0] = zeros
//! ```
//!
//! The driving networks up to 0.9.4 carry a GRU's state so: `rnn_state` in 0.7.4 and 0.7.5, whose
//! successor is one of the outputs.
//!
//! Deliberately absent: histories of inputs, which later networks have instead (`history`).

use crate::OpenpilotError;
use spark_onnx::ModelRunner;
use spark_onnx::graph::Dim;
use spark_onnx::{DType, Tensor};

/// Output and input that carry the state of supercombo 0.7.4.
pub const STATE_0_7_4: (&str, &str) = ("add_3", "rnn_state");

/// A network with its state.
///
/// # Examples
///
/// ```
/// use spark_onnx::graph::{Binary, Dim, Graph, Op};
/// use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};
/// use spark_openpilot::recurrent::RecurrentNetwork;
///
/// // A sum: next = state + x.
/// let mut graph = Graph::default();
/// let state = graph.add_input("state", DType::F32, vec![Dim::Known(1)]);
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1)]);
/// let next = graph.add_node("next", Op::Binary(Binary::Add), &[Some(state), Some(x)]);
/// graph.outputs.push(next);
/// let runner = ModelRunner::from_graph(graph, &RunOptions::new())?;
///
/// let mut sum = RecurrentNetwork::new(runner, &[("next", "state")])?;
/// let two = Tensor::from_f32([1], vec![2.0])?;
/// sum.step(&[("x", &two)])?;
/// assert_eq!(sum.step(&[("x", &two)])?[0].1.to_f32(), [4.0]);
/// # Ok::<(), spark_openpilot::OpenpilotError>(())
/// ```
pub struct RecurrentNetwork {
    runner: ModelRunner,
    links: Vec<Link>,
}

/// A state: where it comes from, where it goes, what it is now.
struct Link {
    output: usize,
    input: String,
    dtype: DType,
    state: Tensor,
}

impl RecurrentNetwork {
    /// Feeds each named output into the named input of the next frame; the first gets zeros.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Interface`] if the network has no such output or input, or the input's
    /// type or shape is not declared.
    pub fn new(runner: ModelRunner, links: &[(&str, &str)]) -> Result<Self, OpenpilotError> {
        let graph = runner.graph();
        let refused = |reason: String| OpenpilotError::Interface {
            model: graph.name.clone(),
            reason,
        };
        let mut made = Vec::new();
        for &(output, input) in links {
            let position = graph
                .outputs
                .iter()
                .position(|&id| graph.value(id).name == output);
            let position =
                position.ok_or_else(|| refused(format!("it has no output `{output}`")))?;
            let id = graph
                .inputs
                .iter()
                .find(|&&id| graph.value(id).name == input);
            let value =
                graph.value(*id.ok_or_else(|| refused(format!("it has no input `{input}`")))?);
            let extents = value.shape.iter().flatten().map(|dim| match dim {
                Dim::Known(extent) => Some(*extent),
                _ => None,
            });
            let shape: Option<Vec<usize>> = extents.collect();
            let (Some(dtype), Some(shape), true) = (value.dtype, shape, value.shape.is_some())
            else {
                return Err(refused(format!("the shape of `{input}` is not fixed")));
            };
            made.push(Link {
                output: position,
                input: input.to_owned(),
                dtype,
                state: Tensor::zeros(dtype, shape)?,
            });
        }
        Ok(Self {
            runner,
            links: made,
        })
    }

    /// Runs one frame; `inputs` are those that carry no state.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Model`] if the network refuses its inputs or fails, [`OpenpilotError::Length`]
    /// if a state has not the size of its input. The state is then that of the frame before.
    pub fn step(
        &mut self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<Vec<(String, Tensor)>, OpenpilotError> {
        let states = self
            .links
            .iter()
            .map(|link| (link.input.as_str(), &link.state));
        let all: Vec<(&str, &Tensor)> = inputs.iter().copied().chain(states).collect();
        let outputs = self.runner.run(&all)?;
        let next = self.links.iter().map(|link| {
            let (name, value) = &outputs[link.output];
            let (got, want) = (value.len(), link.state.len());
            if got != want {
                let what = name.clone();
                return Err(OpenpilotError::Length { what, got, want });
            }
            let shape = link.state.shape().to_vec();
            Ok(Tensor::from_f64(link.dtype, shape, value.to_f64())?)
        });
        let next = next.collect::<Result<Vec<Tensor>, OpenpilotError>>()?;
        for (link, state) in self.links.iter_mut().zip(next) {
            link.state = state;
        }
        Ok(outputs)
    }

    /// Forgets every frame.
    ///
    /// # Errors
    ///
    /// None that can occur: the state has a shape already.
    pub fn reset(&mut self) -> Result<(), OpenpilotError> {
        for link in &mut self.links {
            link.state = Tensor::zeros(link.dtype, link.state.shape().to_vec())?;
        }
        Ok(())
    }

    /// The network's runner, for its graph, plan and memory.
    pub fn runner(&self) -> &ModelRunner {
        &self.runner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spark_onnx::RunOptions;
    use spark_onnx::graph::{Binary, Graph, Op};

    /// `y = x + state`.
    fn counter() -> ModelRunner {
        let mut graph = Graph::default();
        let dims = vec![Dim::Known(1), Dim::Known(2)];
        let x = graph.add_input("x", DType::F32, dims.clone());
        let state = graph.add_input("state", DType::F32, dims);
        let y = graph.add_node("y", Op::Binary(Binary::Add), &[Some(x), Some(state)]);
        graph.outputs.push(y);
        let options = RunOptions::new().with_precision(spark_onnx::Precision::Fp32);
        ModelRunner::from_graph(graph, &options).expect("fp32")
    }

    #[test]
    fn state_is_carried_from_frame_to_frame_and_forgotten() {
        let runner = counter();
        let output = runner.graph().value(runner.graph().outputs[0]).name.clone();
        let mut network = RecurrentNetwork::new(runner, &[(&output, "state")]).expect("both exist");
        let x = Tensor::from_f32([1, 2], vec![1.0, 10.0]).expect("fits");
        for frame in 1..=3 {
            let outputs = network.step(&[("x", &x)]).expect("sound inputs");
            assert_eq!(outputs[0].1.to_f32(), [frame as f32, 10.0 * frame as f32]);
        }
        assert!(network.step(&[]).is_err());
        let outputs = network
            .step(&[("x", &x)])
            .expect("the error changed nothing");
        assert_eq!(outputs[0].1.to_f32(), [4.0, 40.0]);
        network.reset().expect("a known shape");
        let outputs = network.step(&[("x", &x)]).expect("sound inputs");
        assert_eq!(outputs[0].1.to_f32(), [1.0, 10.0]);
    }

    #[test]
    fn names_that_do_not_exist_are_refused() {
        assert!(RecurrentNetwork::new(counter(), &[("z", "state")]).is_err());
        let runner = counter();
        let output = runner.graph().value(runner.graph().outputs[0]).name.clone();
        assert!(RecurrentNetwork::new(runner, &[(&output, "z")]).is_err());
    }
}
