//! One thread's run of a model: an arena per set of input shapes, and state that goes from frame to frame.
//!
//! ```text
//! run        inputs by name ──> new tensors
//! run_into   inputs by name ──> memory of the caller's, some outputs or all
//!
//! carry("h", "h0"):   frame 1   h0 = A   h -> B
//!                     frame 2   h0 = B   h -> A       two tensors that change places, no copy
//! ```
//!
//! What stands behind a length that values say takes memory anew in every run, and all outputs of such a network are copied into
//! the caller's.
//!
//! Deliberately absent: what sessions share, which is the model's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::arenas::Arenas;
use crate::cpu::{Executor, PortTraffic};
use crate::graph::{Graph, ValueId};
use crate::model::Model;
use crate::stages_run::{StagesRun, Watch};
use crate::step_info::{Span, StepInfo};
use crate::tensor_view::{TensorView, TensorViewMut, copy_tensor};
use crate::{DType, ModelError, Tensor};

/// Ends a run of a session from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Ends one run with [`ModelError::Cancelled`]: the one in progress, after the step that it is at, or
    /// else the next one, also where that fails for another reason. [`Session::profile`] and [`Session::spans`] are not
    /// ended.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An output that is the next run's input.
struct State {
    /// Number of the input, and of the output, in the model.
    input: usize,
    output: usize,
    /// What the next run reads.
    now: Tensor,
    /// What it writes.
    next: Tensor,
}

/// What runs a model on one thread.
///
/// # Examples
///
/// A sum over all frames, kept in the session:
///
/// ```
/// use spark_onnx::graph::{Binary, Dim, Graph, Op};
/// use spark_onnx::{DType, Model, RunOptions, Tensor, TensorView, TensorViewMut};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
/// let before = graph.add_input("before", DType::F32, vec![Dim::Known(2)]);
/// let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(before)]);
/// graph.outputs.push(sum);
///
/// let mut session = Model::from_graph(graph, &RunOptions::new())?.session();
/// session.carry("sum", "before", Tensor::from_f32([2], vec![10.0, 20.0])?)?;
/// let frame = [1.0f32, 2.0];
/// for _ in 0..3 {
///     session.run_into(&[("x", TensorView::new(&frame[..], &[2])?)], &mut [])?;
/// }
/// assert_eq!(session.state("before").map(Tensor::to_f32), Some(vec![13.0, 26.0]));
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
pub struct Session {
    model: Model,
    head: Arenas,
    /// Of what stands behind the head, where the model has such.
    stages: Option<StagesRun>,
    states: Vec<State>,
    stop: Arc<AtomicBool>,
    traffic: PortTraffic,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("model", &self.model)
            .field("shapes", &self.head.shapes())
            .finish_non_exhaustive()
    }
}

impl Model {
    /// A session, which takes its memory when it first runs.
    pub fn session(&self) -> Session {
        Session {
            model: self.clone(),
            head: Arenas::new(Arc::clone(self.head())),
            stages: self.stages().map(StagesRun::new),
            states: Vec::new(),
            stop: Arc::default(),
            traffic: PortTraffic::default(),
        }
    }
}

impl Session {
    /// The model it runs.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What ends a run of this session from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Bytes that the last run which ended well copied or converted at its edge.
    pub fn last_traffic(&self) -> PortTraffic {
        self.traffic
    }

    /// Bytes of intermediate results and scratch, for all shapes that it keeps.
    pub fn arena_bytes(&self) -> usize {
        self.head.bytes() + self.stages.as_ref().map_or(0, StagesRun::bytes)
    }

    /// Takes the memory for inputs of the declared shapes now, where none is open, so that the first run
    /// does not have to.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub fn warm_up(&mut self) -> Result<(), ModelError> {
        self.head.warm_up()
    }

    /// From now on `output` of each run is `input` of the next, and the caller gives neither; `initial` is the
    /// first.
    ///
    /// With [`Session::run_into`] two tensors change places from run to run; [`Session::run`] makes a new one
    /// each time. Where the plan reads and writes them as they lie, row-major and in the model's type, nothing
    /// is copied; [`Session::last_traffic`] tells. A state may have another shape from run to run, and of a network whose lengths
    /// hang on values it is a new tensor each time. A run that fails leaves the state as it was. The budget of
    /// memory does not count these tensors, which are the caller's.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputUnknown`], [`ModelError::OutputUnknown`]; [`ModelError::InputCarried`] or
    /// [`ModelError::OutputCarried`] if either is carried already; [`ModelError::InputType`] if `initial` is not of
    /// the input's type. Whether the output is, and what shapes they have, the runs say.
    pub fn carry(&mut self, output: &str, input: &str, initial: Tensor) -> Result<(), ModelError> {
        let graph = self.model.graph();
        let number_of =
            |ids: &[ValueId], name: &str| ids.iter().position(|&id| graph.value(id).name == name);
        let Some(input_number) = number_of(&graph.inputs, input) else {
            return Err(ModelError::InputUnknown {
                name: input.to_owned(),
            });
        };
        let Some(output_number) = number_of(&graph.outputs, output) else {
            return Err(ModelError::OutputUnknown {
                name: output.to_owned(),
            });
        };
        if self.states.iter().any(|state| state.input == input_number) {
            return Err(ModelError::InputCarried {
                name: input.to_owned(),
            });
        }
        if self.states.iter().any(|s| s.output == output_number) {
            return Err(ModelError::OutputCarried {
                name: output.to_owned(),
            });
        }
        check_dtype(graph, graph.inputs[input_number], initial.dtype())?;
        self.states.push(State {
            input: input_number,
            output: output_number,
            next: initial.clone(),
            now: initial,
        });
        Ok(())
    }

    /// What the next run reads as `input`, if that is carried.
    pub fn state(&self, input: &str) -> Option<&Tensor> {
        let graph = self.model.graph();
        let name = |state: &State| &graph.value(graph.inputs[state.input]).name;
        let found = self.states.iter().find(|state| name(state) == input);
        found.map(|state| &state.now)
    }

    /// Replaces what the next run reads as `input`: a new drive begins.
    ///
    /// # Errors
    ///
    /// [`ModelError::NotCarried`] unless that input is carried; [`ModelError::InputType`].
    pub fn set_state(&mut self, input: &str, state: Tensor) -> Result<(), ModelError> {
        let graph = self.model.graph();
        let mut states = self.states.iter_mut();
        match states.find(|s| graph.value(graph.inputs[s.input]).name == input) {
            Some(found) => {
                check_dtype(graph, graph.inputs[found.input], state.dtype())?;
                found.now = state;
                Ok(())
            }
            None => Err(ModelError::NotCarried {
                name: input.to_owned(),
            }),
        }
    }

    /// Runs the model once.
    ///
    /// Inputs are named, in any order; results come in the model's order. Shapes may be any the
    /// model admits; a plan is made for each new set of them.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`], [`ModelError::InputUnknown`], [`ModelError::InputTwice`],
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] for inputs that do not fit;
    /// [`ModelError::IndexOutside`], [`ModelError::Operator`] or [`ModelError::Quantise`] where the model computes an index
    /// outside its axis, a division of integers by zero, or an activation to be quantised that is not finite;
    /// [`ModelError::Cancelled`]; [`ModelError::OutOfMemory`]; any error of planning for new shapes.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.run_views(&as_views(inputs))
    }

    /// [`Session::run`] on elements that the caller keeps, in the caller's layout.
    ///
    /// An input whose elements lie as the plan holds them is read where it is: row-major ones, unless an
    /// operator on pictures follows, such as a convolution, for which channels-last ones are. All others are
    /// converted. Outputs that are carried are not among the results.
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn run_views(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        let done = self.run_once(inputs);
        self.ended(done)
    }

    fn run_once(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.check_inputs(inputs)?;
        self.with_memory_for(inputs)?;
        let (outputs, traffic) = match self.model.stages() {
            None => self.planned_outputs(inputs)?,
            Some(_) => {
                let stop = Arc::clone(&self.stop);
                let (outputs, traffic) = self.staged_outputs(inputs, &mut Watch::Stop(&stop))?;
                self.check_states(&outputs)?;
                (outputs, traffic)
            }
        };
        self.traffic = traffic;
        let Self { model, states, .. } = self;
        let graph = model.graph();
        let mut results = Vec::with_capacity(outputs.len());
        for (number, (&id, tensor)) in graph.outputs.iter().zip(outputs).enumerate() {
            match states.iter_mut().find(|state| state.output == number) {
                Some(state) => state.now = tensor,
                None => results.push((graph.value(id).name.clone(), tensor)),
            }
        }
        Ok(results)
    }

    /// Runs the model once, its outputs into memory of the caller's: some of them or all, in any order. The
    /// others are not converted, nor handed out.
    ///
    /// With shapes whose plan it keeps, it takes no memory, but a little for each input or output that must be
    /// converted ([`Session::last_traffic`]), and a tensor where a carried one changes its shape. Where it fails,
    /// the memory of outputs holds old elements, new ones, or some of each.
    ///
    /// Where values say how long outputs are, memory must have the length that comes out: which that is, [`Session::run`] tells.
    /// Outputs are then copied, once all have been found to fit, and the run takes memory of its own.
    ///
    /// # Errors
    ///
    /// As [`Session::run`], and [`ModelError::OutputUnknown`], [`ModelError::OutputTwice`] or
    /// [`ModelError::OutputMemory`] for memory that does not fit.
    pub fn run_into(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
        outputs: &mut [(&str, TensorViewMut<'_>)],
    ) -> Result<(), ModelError> {
        let done = self.run_once_into(inputs, outputs);
        self.ended(done)
    }

    fn run_once_into(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
        outputs: &mut [(&str, TensorViewMut<'_>)],
    ) -> Result<(), ModelError> {
        self.check_inputs(inputs)?;
        self.check_outputs(outputs)?;
        self.with_memory_for(inputs)?;
        if self.model.stages().is_some() {
            return self.run_staged_into(inputs, outputs);
        }
        let Self {
            model,
            head,
            states,
            stop,
            ..
        } = self;
        let graph = model.graph();
        let executor = head.last();
        fit_states(executor, states)?;
        let mut frame = executor.frame();
        for (number, &id) in graph.inputs.iter().enumerate() {
            let name = &graph.value(id).name;
            if let Some((_, tensor)) = inputs.iter().find(|(given, _)| given == name) {
                frame.input(number, *tensor)?;
            }
        }
        for state in states.iter_mut() {
            frame.input(state.input, (&state.now).into())?;
            frame.output(state.output, (&mut state.next).into())?;
        }
        for (name, memory) in outputs.iter_mut() {
            let mut ids = graph.outputs.iter();
            if let Some(number) = ids.position(|&id| graph.value(id).name == *name) {
                frame.output(number, memory.reborrow())?;
            }
        }
        let done = frame.run(stop);
        self.traffic = done?;
        for state in &mut self.states {
            std::mem::swap(&mut state.now, &mut state.next);
        }
        Ok(())
    }

    /// The steps of the plan used last; empty before the first plan. Behind a length that values say, operators that are
    /// interpreted are steps as well ([`INTERPRETED`](crate::precision::INTERPRETED)), and steps that are planned there are those of
    /// the run before.
    pub fn steps(&self) -> Vec<StepInfo> {
        let device = self.model.device();
        let mut steps = self.head.steps(device);
        // A head may have none.
        let has_plan = !self.head.shapes().is_empty();
        if let (true, Some(stages), Some(run)) = (has_plan, self.model.stages(), &self.stages) {
            steps.extend(run.steps(stages, device));
        }
        steps
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
        let mut times = Vec::new();
        let add = |times: &mut Vec<Duration>, step: usize, time: Duration| {
            times.resize(times.len().max(step + 1), Duration::ZERO);
            times[step] += time;
        };
        match self.model.stages() {
            None => {
                times = vec![Duration::ZERO; self.prepared(inputs)?.plan().steps.len()];
                for _ in 0..runs {
                    // A run may have written over its inputs.
                    self.prepared(inputs)?.run_timed(&mut times)?;
                }
            }
            Some(_) => {
                self.prepared(inputs)?;
                for _ in 0..runs {
                    self.staged_spans(inputs, |step, start| {
                        add(&mut times, step, start.elapsed());
                    })?;
                }
            }
        }
        let mut steps = self.steps();
        times.resize(steps.len(), Duration::ZERO);
        for (step, time) in steps.iter_mut().zip(times) {
            step.mean = (runs > 0).then(|| time / runs.max(1));
        }
        Ok(steps)
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
        let mut spans = Vec::new();
        let begin = Instant::now();
        let mut add = |step, start: Instant| {
            spans.push(Span {
                step,
                start: start.duration_since(begin),
                duration: start.elapsed(),
            });
        };
        match self.model.stages() {
            None => {
                for _ in 0..runs {
                    // A run may have written over its inputs.
                    self.prepared(inputs)?.run_spans(&mut add)?;
                }
            }
            Some(_) => {
                self.prepared(inputs)?;
                for _ in 0..runs {
                    self.staged_spans(inputs, &mut add)?;
                }
            }
        }
        Ok(spans)
    }

    /// What a run gave; where it failed of itself, a request to end it is met. One that comes after the last look of a run
    /// that ends well is the next run's.
    fn ended<T>(&self, done: Result<T, ModelError>) -> Result<T, ModelError> {
        if let Err(error) = &done
            && !matches!(error, ModelError::Cancelled)
        {
            self.stop.store(false, Ordering::Relaxed);
        }
        done
    }

    /// The executor for `inputs`, with them written into it.
    fn prepared(&mut self, inputs: &[(&str, &Tensor)]) -> Result<&mut Executor, ModelError> {
        let views = as_views(inputs);
        self.check_inputs(&views)?;
        self.with_memory_for(&views)?;
        let Self {
            model,
            head,
            states,
            ..
        } = self;
        let executor = head.last();
        for number in 0..model.graph().inputs.len() {
            if let Some(tensor) = given(model, states, &views, number) {
                executor.set_input(number, tensor)?;
            }
        }
        Ok(executor)
    }

    /// The outputs of a model that one plan runs, in memory that was made for `inputs`.
    fn planned_outputs(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<(Vec<Tensor>, PortTraffic), ModelError> {
        let Self {
            model,
            head,
            states,
            stop,
            ..
        } = self;
        let executor = head.last();
        fit_states(executor, states)?;
        executor.run_on(&all_given(model, states, inputs), stop)
    }

    /// Each input once, by the caller or from the run before.
    fn check_inputs(&self, inputs: &[(&str, TensorView<'_>)]) -> Result<(), ModelError> {
        let graph = self.model.graph();
        let is_carried = |number| self.states.iter().any(|state| state.input == number);
        for (index, (name, tensor)) in inputs.iter().enumerate() {
            let owned = || (*name).to_owned();
            let mut ids = graph.inputs.iter();
            let Some(number) = ids.position(|&id| graph.value(id).name == *name) else {
                return Err(ModelError::InputUnknown { name: owned() });
            };
            if is_carried(number) {
                return Err(ModelError::InputCarried { name: owned() });
            }
            if inputs[..index].iter().any(|(before, _)| before == name) {
                return Err(ModelError::InputTwice { name: owned() });
            }
            check_dtype(graph, graph.inputs[number], tensor.dtype())?;
        }
        for (number, &id) in graph.inputs.iter().enumerate() {
            let name = &graph.value(id).name;
            if !is_carried(number) && !inputs.iter().any(|(given, _)| given == name) {
                return Err(ModelError::InputMissing { name: name.clone() });
            }
        }
        Ok(())
    }

    /// Each output at most once.
    fn check_outputs(&self, outputs: &[(&str, TensorViewMut<'_>)]) -> Result<(), ModelError> {
        let graph = self.model.graph();
        for (index, (name, _)) in outputs.iter().enumerate() {
            let owned = || (*name).to_owned();
            let mut ids = graph.outputs.iter();
            let Some(number) = ids.position(|&id| graph.value(id).name == *name) else {
                return Err(ModelError::OutputUnknown { name: owned() });
            };
            if self.states.iter().any(|state| state.output == number) {
                return Err(ModelError::OutputCarried { name: owned() });
            }
            if outputs[..index].iter().any(|(before, _)| before == name) {
                return Err(ModelError::OutputTwice { name: owned() });
            }
        }
        Ok(())
    }

    /// Puts the memory for the shapes of `inputs` last, made if need be.
    fn with_memory_for(&mut self, inputs: &[(&str, TensorView<'_>)]) -> Result<(), ModelError> {
        let Self {
            model,
            head,
            states,
            ..
        } = self;
        head.make_for(|number| given(model, states, inputs, number))
    }
}

/// Where a network is cut, as shapes hang on values: the head by its plan, then the stages behind it.
impl Session {
    /// The outputs of the network, in memory that was made for `inputs`.
    fn staged_outputs(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<Tensor>, PortTraffic), ModelError> {
        let Self {
            model,
            head,
            stages: Some(run),
            states,
            ..
        } = self
        else {
            unreachable!("a model with stages makes sessions with them");
        };
        let Some(stages) = model.stages() else {
            unreachable!("looked at before");
        };
        let tensors = all_given(model, states, inputs);
        let (made, of_head) = watch.run(head.last(), &tensors, 0)?;
        let first = head.last().plan().steps.len();
        let input = |number: usize| tensors.get(number).copied();
        // Where the budget is used up, by plans and memory for other shapes.
        let free = |run: &mut StagesRun| {
            let own = head.keep_last() | run.keep_last();
            own | head.planned().keep_last() | stages.keep_last()
        };
        let common = (model.common(), stages);
        let (outputs, behind) = run.run(common, (made, input), (watch, first), free)?;
        let traffic = PortTraffic {
            copied_in_bytes: of_head + behind,
            ..PortTraffic::default()
        };
        Ok((outputs, traffic))
    }

    /// Runs the model once, and calls `done` after every step with its number and when it began.
    fn staged_spans(
        &mut self,
        inputs: &[(&str, &Tensor)],
        mut done: impl FnMut(usize, Instant),
    ) -> Result<(), ModelError> {
        let views = as_views(inputs);
        self.check_inputs(&views)?;
        self.with_memory_for(&views)?;
        self.staged_outputs(&views, &mut Watch::Time(&mut done))?;
        Ok(())
    }

    /// [`Session::run_into`]: what comes out is copied, once it is known that all of it fits.
    fn run_staged_into(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
        outputs: &mut [(&str, TensorViewMut<'_>)],
    ) -> Result<(), ModelError> {
        let stop = Arc::clone(&self.stop);
        let (made, mut traffic) = self.staged_outputs(inputs, &mut Watch::Stop(&stop))?;
        self.check_states(&made)?;
        let Self { model, states, .. } = self;
        let graph = model.graph();
        let number_of = |name: &str| {
            let mut ids = graph.outputs.iter();
            ids.position(|&id| graph.value(id).name == name)
        };
        for (name, memory) in outputs.iter() {
            let number = number_of(name);
            if let Some(tensor) = number.and_then(|number| made.get(number))
                && (memory.dtype(), memory.shape()) != (tensor.dtype(), tensor.shape())
            {
                return Err(ModelError::OutputMemory {
                    name: (*name).to_owned(),
                    want: tensor.dtype(),
                    want_shape: tensor.shape().to_vec(),
                    got: memory.dtype(),
                    got_shape: memory.shape().to_vec(),
                });
            }
        }
        for (name, memory) in outputs.iter_mut() {
            if let Some(tensor) = number_of(name).and_then(|number| made.get(number)) {
                copy_tensor(memory.elements_mut(), tensor);
                traffic.copied_out_bytes += tensor.size_bytes();
            }
        }
        for (number, tensor) in made.into_iter().enumerate() {
            if let Some(state) = states.iter_mut().find(|state| state.output == number) {
                state.now = tensor;
            }
        }
        self.traffic = traffic;
        Ok(())
    }

    /// Refuses outputs that are carried to inputs of another type.
    fn check_states(&self, outputs: &[Tensor]) -> Result<(), ModelError> {
        let graph = self.model.graph();
        self.states.iter().try_for_each(|state| {
            let dtype = outputs.get(state.output).map(Tensor::dtype);
            dtype.map_or(Ok(()), |dtype| {
                check_dtype(graph, graph.inputs[state.input], dtype)
            })
        })
    }
}

/// Refuses a tensor for an input that is declared of another type.
fn check_dtype(graph: &Graph, id: ValueId, got: DType) -> Result<(), ModelError> {
    let value = graph.value(id);
    match value.dtype {
        Some(want) if want != got => Err(ModelError::InputType {
            name: value.name.clone(),
            got,
            want,
        }),
        _ => Ok(()),
    }
}

/// Refuses outputs that are carried to inputs of another type, and makes memory for those whose shape was
/// another one at the run before.
fn fit_states(executor: &Executor, states: &mut [State]) -> Result<(), ModelError> {
    let plan = executor.plan();
    for state in states {
        let (from, to) = (&plan.outputs[state.output], &plan.inputs[state.input]);
        if from.dtype != to.dtype {
            return Err(ModelError::InputType {
                name: to.name.clone(),
                got: from.dtype,
                want: to.dtype,
            });
        }
        if state.next.shape() != from.shape || state.next.dtype() != from.dtype {
            state.next = Tensor::zeros(from.dtype, from.shape.clone())?;
        }
    }
    Ok(())
}

/// Input number `number`, by the caller or from the run before.
fn given<'t>(
    model: &Model,
    states: &'t [State],
    inputs: &[(&str, TensorView<'t>)],
    number: usize,
) -> Option<TensorView<'t>> {
    if let Some(state) = states.iter().find(|state| state.input == number) {
        return Some((&state.now).into());
    }
    let graph = model.graph();
    let name = &graph.value(graph.inputs[number]).name;
    let found = inputs.iter().find(|(given, _)| given == name);
    found.map(|(_, tensor)| *tensor)
}

/// All inputs, by the caller or from the run before.
fn all_given<'t>(
    model: &Model,
    states: &'t [State],
    inputs: &[(&str, TensorView<'t>)],
) -> Vec<TensorView<'t>> {
    let numbers = 0..model.graph().inputs.len();
    numbers
        .filter_map(|number| given(model, states, inputs, number))
        .collect()
}

/// Named tensors as views of them.
fn as_views<'a>(inputs: &[(&'a str, &'a Tensor)]) -> Vec<(&'a str, TensorView<'a>)> {
    let views = inputs.iter();
    views.map(|&(name, tensor)| (name, tensor.into())).collect()
}
