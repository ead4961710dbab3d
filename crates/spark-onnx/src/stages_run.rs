//! Runs what stands behind the head of a network: stage by stage, each on what earlier ones made.
//!
//! ```text
//! places   [v0, v1, -, -]  ──stage 1──>  [-, v1, v2, -]  ──stage 2──>  [-, -, -, v3] ──> outputs
//! ```
//!
//! A value goes as soon as no stage reads it any more. What is interpreted is counted while it is there ([`RunAccount`]), what is
//! planned with its arenas.
//!
//! Deliberately absent: the head, whose inputs and outputs are the caller's (`session`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::arenas::Arenas;
use crate::budget::Asker;
use crate::cpu::Executor;
use crate::graph::{Graph, Op};
use crate::planned::{Common, RunAccount};
use crate::precision::INTERPRETED;
use crate::stages::{Kind, LaterStage, Source, Stages, Template};
use crate::step_info::StepInfo;
use crate::tensor_view::TensorView;
use crate::{ModelError, Precision, Tensor};
use spark_onnx_graph::reference::{Host, Unbound};

/// How a run is watched.
pub(crate) enum Watch<'w> {
    /// Until this is set.
    Stop(&'w AtomicBool),
    /// To its end; it is called after every step with its number and when it began.
    Time(&'w mut dyn FnMut(usize, Instant)),
}

impl<'w> Watch<'w> {
    fn stop(&self) -> Option<&'w AtomicBool> {
        match self {
            Self::Stop(stop) => Some(stop),
            Self::Time(_) => None,
        }
    }

    /// What `executor` makes of `inputs`, and the bytes of these that were copied; `first` is the number of its first
    /// step.
    ///
    /// # Errors
    ///
    /// As [`Executor::run_on`].
    pub(crate) fn run(
        &mut self,
        executor: &mut Executor,
        inputs: &[TensorView<'_>],
        first: usize,
    ) -> Result<(Vec<Tensor>, usize), ModelError> {
        match self {
            Self::Stop(stop) => {
                let (made, traffic) = executor.run_on(inputs, stop)?;
                Ok((made, traffic.copied_in_bytes))
            }
            Self::Time(done) => {
                for (number, input) in inputs.iter().enumerate() {
                    executor.set_input(number, *input)?;
                }
                executor.run_spans(|step, start| done(first + step, start))?;
                let outputs = 0..executor.plan().outputs.len();
                let made = outputs.map(|index| executor.output(index));
                Ok((made.collect::<Result<_, _>>()?, 0))
            }
        }
    }
}

/// What a run of the stages has: the caller's inputs by number, and what earlier stages made.
struct Run<'r, I> {
    common: &'r Arc<Common>,
    stages: &'r Stages,
    input: I,
    places: Vec<Option<Place>>,
    account: RunAccount<'r>,
    /// Bytes of the caller's inputs that were copied.
    copied_in_bytes: usize,
}

/// A value between stages, and the bytes that the run's account holds for it.
#[derive(Clone)]
struct Place {
    tensor: Arc<Tensor>,
    bytes: usize,
}

/// A session's memory for the stages behind the head.
pub(crate) struct StagesRun {
    /// By stage: of planned ones that have run.
    arenas: Vec<Option<Arenas>>,
}

impl StagesRun {
    /// None yet.
    pub(crate) fn new(stages: &Stages) -> Self {
        Self {
            arenas: stages.later.iter().map(|_| None).collect(),
        }
    }

    /// Bytes of intermediate results and scratch, for all shapes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.arenas.iter().flatten().map(Arenas::bytes).sum()
    }

    /// Keeps no memory of a stage but the one used last; whether there was other.
    pub(crate) fn keep_last(&mut self) -> bool {
        let freed = self.arenas.iter_mut().flatten().map(Arenas::keep_last);
        freed.fold(false, |any, freed| any | freed)
    }

    /// The steps of all stages, of planned ones those of the plan used last.
    pub(crate) fn steps(&self, stages: &Stages, device: &'static str) -> Vec<StepInfo> {
        let mut steps = Vec::new();
        for (stage, arenas) in stages.later.iter().zip(&self.arenas) {
            match &stage.kind {
                Kind::Interpreted(graph) => {
                    let nodes = graph.nodes.iter();
                    steps.extend(nodes.map(|node| StepInfo {
                        name: node.name.clone(),
                        kind: node.op.kind(),
                        detail: match &node.op {
                            Op::Custom(op) => op.qualified().to_owned(),
                            _ => "as it is, in f64".to_owned(),
                        },
                        precision: Precision::Fp32,
                        kernel: "interpreted".to_owned(),
                        reason: INTERPRETED,
                        weight_bytes: 0,
                        device,
                        macs: 0,
                        bytes: 0,
                        mean: None,
                    }));
                }
                Kind::Planned(_) => {
                    steps.extend(arenas.iter().flat_map(|arenas| arenas.steps(device)));
                }
            }
        }
        steps
    }

    /// The outputs of the network, from what the head made and the network's inputs, and the bytes of these that were
    /// copied. Steps are counted from `first`.
    ///
    /// `free` is called where the budget is used up, once for a stage, and says whether anything was given back.
    ///
    /// # Errors
    ///
    /// Those of planning and of running a plan; [`ModelError::Operator`] where the interpreter refuses a node;
    /// [`ModelError::OverBudget`], [`ModelError::OutOfMemory`], [`ModelError::Cancelled`].
    pub(crate) fn run<'t>(
        &mut self,
        (common, stages): (&Arc<Common>, &Stages),
        (made, input): (Vec<Tensor>, impl Fn(usize) -> Option<TensorView<'t>>),
        (watch, mut first): (&mut Watch<'_>, usize),
        mut free: impl FnMut(&mut Self) -> bool,
    ) -> Result<(Vec<Tensor>, usize), ModelError> {
        let mut run = Run {
            common,
            stages,
            input,
            places: vec![None; stages.n_places],
            account: RunAccount::new(common, watch.stop()),
            copied_in_bytes: 0,
        };
        // Counted with the head's arenas.
        for (&place, tensor) in stages.of_head.iter().zip(made) {
            let tensor = Arc::new(tensor);
            run.places[place] = Some(Place { tensor, bytes: 0 });
        }
        for (number, stage) in stages.later.iter().enumerate() {
            let held = run.account.held();
            let done = match run.stage(stage, &mut self.arenas[number], watch, first) {
                Err(error @ ModelError::OverBudget { .. }) => {
                    // What a loop had stacked.
                    run.account.back_to(held);
                    if !free(self) {
                        return Err(error);
                    }
                    run.stage(stage, &mut self.arenas[number], watch, first)
                }
                done => done,
            };
            let (made, n_steps) = done?;
            run.put(stage, made);
            first += n_steps;
        }
        let copied_in_bytes = run.copied_in_bytes;
        Ok((run.outputs(), copied_in_bytes))
    }
}

impl<'t, I: Fn(usize) -> Option<TensorView<'t>>> Run<'_, I> {
    /// What one stage makes, and how many steps that took.
    fn stage(
        &mut self,
        stage: &LaterStage,
        arenas: &mut Option<Arenas>,
        watch: &mut Watch<'_>,
        first: usize,
    ) -> Result<(Vec<Place>, usize), ModelError> {
        match &stage.kind {
            Kind::Interpreted(graph) => {
                let made = self.interpreted((stage, graph), watch, first)?;
                Ok((made, graph.nodes.len()))
            }
            Kind::Planned(template) => self.planned((stage, template), arenas, watch, first),
        }
    }

    fn interpreted(
        &mut self,
        (stage, graph): (&LaterStage, &Graph),
        watch: &mut Watch<'_>,
        first: usize,
    ) -> Result<Vec<Place>, ModelError> {
        let mut given = Vec::with_capacity(stage.inputs.len());
        let mut copied = 0;
        for (source, &id) in stage.inputs.iter().zip(&graph.inputs) {
            given.push(match *source {
                Source::Made(place) => Arc::clone(&self.place(place).tensor),
                Source::Input(number) => {
                    let view = self.input(number);
                    let bytes = view.len() * view.dtype().size_bytes();
                    let asker = Asker {
                        node: &graph.value(id).name,
                        op: "input",
                        what: "a copy of it",
                    };
                    self.account.take(asker, bytes)?;
                    copied += bytes;
                    Arc::new(view.to_tensor()?)
                }
            });
        }
        let mut run = Unbound::start(graph, given, &mut self.account)?;
        for index in 0..graph.nodes.len() {
            let start = Instant::now();
            run.step(index)?;
            if let Watch::Time(done) = watch {
                done(first + index, start);
            }
        }
        let made = run.finish()?.into_iter();
        let made = made.map(|made| Place {
            tensor: made.tensor,
            bytes: made.bytes,
        });
        let made = made.collect();
        self.account.give_back(copied);
        self.copied_in_bytes += copied;
        Ok(made)
    }

    fn planned(
        &mut self,
        (stage, template): (&LaterStage, &Template),
        arenas: &mut Option<Arenas>,
        watch: &mut Watch<'_>,
        first: usize,
    ) -> Result<(Vec<Place>, usize), ModelError> {
        let views: Vec<_> = stage
            .inputs
            .iter()
            .map(|&source| self.view(source))
            .collect();
        let view = |number: usize| views.get(number).copied();
        let planned = template.planned(self.common, |number| Some(view(number)?.dtype()));
        let arenas = arenas.get_or_insert_with(|| Arenas::new(Arc::clone(planned)));
        arenas.make_for(view)?;
        let executor = arenas.last();
        // Of the bytes copied most are no caller's.
        let (made, _) = watch.run(executor, &views, first)?;
        let n_steps = executor.plan().steps.len();
        let made = made.into_iter().map(|tensor| Place {
            tensor: Arc::new(tensor),
            bytes: 0,
        });
        Ok((made.collect(), n_steps))
    }

    /// Keeps what `stage` made, and drops what nothing reads behind it.
    fn put(&mut self, stage: &LaterStage, made: Vec<Place>) {
        for (&place, made) in stage.outputs.iter().zip(made) {
            self.places[place] = Some(made);
        }
        for &place in &stage.last_read {
            if let Some(place) = self.places[place].take() {
                self.account.give_back(place.bytes);
            }
        }
    }

    /// The network's outputs.
    fn outputs(mut self) -> Vec<Tensor> {
        let outputs = self.stages.outputs.iter();
        let outputs: Vec<_> = outputs
            .map(|&place| Arc::clone(&self.place(place).tensor))
            .collect();
        self.places.clear();
        outputs.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    fn place(&self, place: usize) -> &Place {
        match &self.places[place] {
            Some(place) => place,
            None => unreachable!("an earlier stage made it"),
        }
    }

    fn view<'s>(&'s self, source: Source) -> TensorView<'s>
    where
        't: 's,
    {
        match source {
            Source::Made(place) => (&*self.place(place).tensor).into(),
            Source::Input(number) => self.input(number),
        }
    }

    /// An input of the network.
    fn input(&self, number: usize) -> TensorView<'t> {
        match (self.input)(number) {
            Some(view) => view,
            None => unreachable!("all inputs were given"),
        }
    }
}
