//! What stands behind the head of a network some of whose shapes hang on values: stages, and which values go where.
//!
//! ```text
//! head, planned      stage 1, interpreted     stage 2, planned        stage 3, interpreted
//! Conv ... ──v0──>   NonMaxSuppression ──v2──> RoiAlign, Gemm ──v3──> NonZero, Gather ──> outputs
//!          ──v1───────────────────────────────>
//! ```
//!
//! A planned stage is a network of its own with open shapes: a plan is made for each set of them that runs bring, and
//! packed weights are shared by all. For one product that takes some ten microseconds, as long as interpreting it for ten rows
//! and 16 x 16 factors; for the head of a detector with regions of interest some milliseconds, where interpreting it takes
//! seconds. So products, windows and whatever reads pictures begin a planned stage ([`is_worth_a_plan`]), and gathers, sums and sorts of a few
//! hundred boxes do not.
//!
//! Deliberately absent: cutting, which is `spark-onnx-graph`'s ([`stages_at_values`]), and running (`stages_run`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::ModelError;
use crate::graph::{Graph, Node, Op, ValueId};
use crate::planned::{Common, Planned};
use crate::tensor::DType;
use spark_onnx_graph::{Stage, split_at_values, stages_at_values};

/// Where a stage has a value from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An input of the network.
    Input(usize),
    /// What an earlier stage made, in this place.
    Made(usize),
}

/// What runs a stage.
pub(crate) enum Kind {
    /// The interpreter, node by node.
    Interpreted(Graph),
    /// A plan for each set of shapes.
    Planned(Template),
}

/// A network whose inputs have element types once a run brings them.
pub(crate) struct Template {
    graph: Graph,
    planned: OnceLock<Arc<Planned>>,
}

impl Template {
    /// The network with its plans, for inputs of these types; the first that come stay.
    pub(crate) fn planned(
        &self,
        common: &Arc<Common>,
        dtype: impl Fn(usize) -> Option<DType>,
    ) -> &Arc<Planned> {
        self.planned.get_or_init(|| {
            let mut graph = self.graph.clone();
            for (number, &id) in self.graph.inputs.iter().enumerate() {
                let value = &mut graph.values[id.0];
                value.dtype = value.dtype.or_else(|| dtype(number));
            }
            Arc::new(Planned::open(Arc::clone(common), graph, None))
        })
    }
}

/// A stage behind the head.
pub(crate) struct LaterStage {
    pub(crate) kind: Kind,
    /// By input of its graph.
    pub(crate) inputs: Vec<Source>,
    /// Places of what it makes, by output of its graph.
    pub(crate) outputs: Vec<usize>,
    /// Places that nothing reads behind it.
    pub(crate) last_read: Vec<usize>,
}

/// Everything behind the head.
pub(crate) struct Stages {
    /// The network as users see it, without constants that the head has given up.
    pub(crate) whole: Graph,
    pub(crate) later: Vec<LaterStage>,
    /// How many places there are.
    pub(crate) n_places: usize,
    /// Places of what the head makes, by output of its graph.
    pub(crate) of_head: Vec<usize>,
    /// Places of the network's outputs.
    pub(crate) outputs: Vec<usize>,
}

impl Stages {
    /// Cuts `graph`: its head, and what stands behind, if anything does.
    ///
    /// # Errors
    ///
    /// [`ModelError::Graph`].
    pub(crate) fn cut(graph: Graph) -> Result<(Graph, Option<Self>), ModelError> {
        let known = RefCell::default();
        let is_worth_a_plan =
            |graph: &Graph, node: &Node| is_worth_a_plan(graph, node, &mut known.borrow_mut());
        // Constants are shared, so that this copies names and nodes alone.
        let whole = graph.clone();
        let stages = stages_at_values(graph, is_worth_a_plan)?;
        let mut stages = stages.into_iter();
        let Some(head) = stages.next() else {
            return Ok((whole, None));
        };
        let later: Vec<Stage> = stages.collect();
        if later.is_empty() {
            return Ok((head.graph, None));
        }
        let stages = Self::behind(&head, later, whole);
        stages.log();
        Ok((head.graph, Some(stages)))
    }

    fn behind(head: &Stage, stages: Vec<Stage>, whole: Graph) -> Self {
        let mut places: HashMap<ValueId, usize> = HashMap::new();
        let mut place = |id: ValueId| {
            let next = places.len();
            *places.entry(id).or_insert(next)
        };
        let of_head = head.outputs.iter().map(|&id| place(id)).collect();
        let mut later: Vec<LaterStage> = Vec::with_capacity(stages.len());
        let inputs: HashMap<ValueId, usize> = whole.inputs.iter().copied().zip(0..).collect();
        for stage in stages {
            let sources = stage.inputs.iter().map(|id| match inputs.get(id) {
                Some(&number) => Source::Input(number),
                None => Source::Made(place(*id)),
            });
            let sources = sources.collect();
            let outputs = stage.outputs.iter().map(|&id| place(id)).collect();
            later.push(LaterStage {
                kind: match stage.is_interpreted {
                    true => Kind::Interpreted(stage.graph),
                    false => Kind::Planned(Template {
                        graph: stage.graph,
                        planned: OnceLock::new(),
                    }),
                },
                inputs: sources,
                outputs,
                last_read: Vec::new(),
            });
        }
        let outputs: Vec<usize> = whole.outputs.iter().map(|&id| place(id)).collect();
        let mut is_read = vec![false; places.len()];
        for &place in &outputs {
            is_read[place] = true;
        }
        for stage in later.iter_mut().rev() {
            for source in &stage.inputs {
                if let Source::Made(place) = *source
                    && !std::mem::replace(&mut is_read[place], true)
                {
                    stage.last_read.push(place);
                }
            }
        }
        Self {
            n_places: places.len(),
            whole,
            later,
            of_head,
            outputs,
        }
    }

    /// Gives the constants of [`Self::whole`] up; the stages have their own.
    pub(crate) fn forget_constants(&mut self) {
        for value in &mut self.whole.values {
            value.constant = None;
        }
    }

    /// Plans that stages behind the head keep.
    pub(crate) fn n_plans(&self) -> usize {
        let kept = self.planned().map(Planned::n_plans);
        kept.sum()
    }

    /// Keeps no plan of a stage but the one that was used last; whether there were others.
    pub(crate) fn keep_last(&self) -> bool {
        let freed = self.planned().map(Planned::keep_last);
        freed.fold(false, |any, freed| any | freed)
    }

    fn planned(&self) -> impl Iterator<Item = &Planned> {
        self.later.iter().filter_map(|stage| match &stage.kind {
            Kind::Interpreted(_) => None,
            Kind::Planned(template) => template.planned.get().map(|planned| &**planned),
        })
    }

    /// Says once what does not run as fast as it could.
    fn log(&self) {
        let (mut interpreted, mut planned, mut slow) = (0, 0, Vec::new());
        let mut first = "";
        let mut known = HashMap::new();
        for stage in &self.later {
            match &stage.kind {
                Kind::Planned(template) => planned += template.graph.nodes.len(),
                Kind::Interpreted(graph) => {
                    if interpreted == 0 {
                        first = graph.nodes.first().map_or("", |node| &node.name);
                    }
                    interpreted += graph.nodes.len();
                    let nodes = graph.nodes.iter();
                    slow.extend(nodes.filter(|node| is_worth_a_plan(graph, node, &mut known)));
                }
            }
        }
        let model = &self.whole.name;
        tracing::info!(
            "`{model}`: how long its results are hangs on values from node `{first}` on: behind it {interpreted} operators \
             are interpreted, and {planned} planned anew for each set of shapes"
        );
        if let [node, ..] = &slow[..] {
            tracing::warn!(
                "`{model}`: {} operators that compute much are interpreted, which is slow, as their shapes hang on values; \
                 the first is `{}` ({})",
                slow.len(),
                node.name,
                node.op.name()
            );
        }
    }
}

/// What of `graph` stands before results whose length values say, with what is read behind as outputs too; all of it where
/// there are none. Values keep their numbers.
///
/// # Errors
///
/// [`ModelError::Graph`].
pub(crate) fn head_of(graph: Graph) -> Result<Graph, ModelError> {
    split_at_values(graph).map(|(head, _)| head)
}

/// What is known of bodies, by address: they may be shared.
type Known = HashMap<*const Graph, bool>;

/// Whether interpreting `node`, which is behind an interpreted stage, would take longer than making a plan.
fn is_worth_a_plan(graph: &Graph, node: &Node, known: &mut Known) -> bool {
    match &node.op {
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::ConvInteger(_)
        | Op::QLinearConv(_)
        | Op::Recurrent(_)
        | Op::Pool(_)
        | Op::Resize(_)
        | Op::GridSample(_)
        | Op::RoiAlign(_)
        | Op::MatMul(_)
        | Op::Gemm(_)
        | Op::Einsum(_)
        | Op::MatMulInteger(_)
        | Op::QLinearMatMul(_) => true,
        op => op.bodies().iter().any(|body| {
            let Some(body) = graph.bodies.get(body.0) else {
                return false;
            };
            let address = Arc::as_ptr(body);
            if let Some(&is_worth) = known.get(&address) {
                return is_worth;
            }
            let mut nodes = body.nodes.iter();
            let is_worth = nodes.any(|node| is_worth_a_plan(body, node, known));
            known.insert(address, is_worth);
            is_worth
        }),
    }
}
