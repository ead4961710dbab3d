//! The interface of everything that drives, batched and one lane at a time.

use super::{Action, ActionBatch, CudaControl, LaneSetup, State, StateBatch};
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::SteerInterface;

/// A controller of many cars at once.
///
/// Lane `i` of the answer must depend on lane `i` of the states only; then a
/// scenario's result does not depend on the batch it ran in. State that is kept
/// between steps is kept per lane.
pub trait Algorithm: Send {
    /// Forgets everything and prepares for `lanes.len()` cars.
    fn reset(&mut self, lanes: &[LaneSetup]);

    /// One step. Fields of `action` that this algorithm does not control are left alone.
    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch);

    /// What its steering means; `None` if it does not steer: what the planner wants is then commanded.
    fn steer_interface(&self) -> Option<SteerInterface>;

    /// Whether it sets `accel`; if not, the planner's target is applied.
    fn controls_speed(&self) -> bool;
}

/// Makes one algorithm per batch.
pub trait AlgorithmFactory: Sync {
    /// Name of the algorithm in reports.
    fn name(&self) -> &str;
    /// A fresh algorithm for the CPU, if there is one; `reset` is called before its first step.
    fn create(&self) -> Option<Box<dyn Algorithm>>;
    /// The same algorithm for a GPU, if there is one.
    fn cuda(&self) -> Option<&CudaControl> {
        None
    }
}

/// A factory made of a name and a closure; see [`named`].
pub struct Named<F> {
    name: String,
    make: F,
    cuda: Option<CudaControl>,
}

impl<F> Named<F> {
    /// Adds the same algorithm for a GPU.
    #[must_use]
    pub fn with_cuda(mut self, control: CudaControl) -> Self {
        self.cuda = Some(control);
        self
    }
}

/// A factory from a name and a closure.
///
/// ```
/// use spark_sim::control::{LateralPid, LateralPidConfig, AlgorithmFactory, named};
/// let factory = named("pid", || LateralPid::new(LateralPidConfig::default()));
/// assert_eq!(factory.name(), "pid");
/// ```
pub fn named<A: Algorithm + 'static, F: Fn() -> A + Sync>(
    name: impl Into<String>,
    make: F,
) -> Named<F> {
    Named {
        name: name.into(),
        make,
        cuda: None,
    }
}

impl<A: Algorithm + 'static, F: Fn() -> A + Sync> AlgorithmFactory for Named<F> {
    fn name(&self) -> &str {
        &self.name
    }
    fn create(&self) -> Option<Box<dyn Algorithm>> {
        Some(Box::new((self.make)()))
    }
    fn cuda(&self) -> Option<&CudaControl> {
        self.cuda.as_ref()
    }
}

/// A controller of one car.
pub trait LaneAlgorithm: Send {
    /// Forgets everything and prepares for a car.
    fn reset(&mut self, setup: &LaneSetup);
    /// What the controller answers to what it sees at one step.
    fn update(&mut self, state: &State<f32>) -> Action<f32>;
}

/// Runs one [`LaneAlgorithm`] per lane.
pub struct PerLane<A, F> {
    make: F,
    lanes: Vec<A>,
    steer: Option<SteerInterface>,
    speed: bool,
}

impl<A: LaneAlgorithm, F: Fn() -> A + Send> PerLane<A, F> {
    /// `steer` and `controls_speed` say what the algorithm controls, as in [`Algorithm`].
    pub fn new(steer: Option<SteerInterface>, controls_speed: bool, make: F) -> Self {
        Self {
            make,
            lanes: Vec::new(),
            steer,
            speed: controls_speed,
        }
    }
}

impl<A: LaneAlgorithm, F: Fn() -> A + Send> Algorithm for PerLane<A, F> {
    fn reset(&mut self, lanes: &[LaneSetup]) {
        self.lanes.clear();
        for setup in lanes {
            let mut algorithm = (self.make)();
            algorithm.reset(setup);
            self.lanes.push(algorithm);
        }
    }

    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        for (lane, algorithm) in self.lanes.iter_mut().enumerate() {
            let answer = algorithm.update(&state.get(lane));
            if self.steer.is_some() {
                action.steer[lane] = answer.steer;
            }
            if self.speed {
                action.accel[lane] = answer.accel;
            }
            action.saturated[lane] = answer.saturated;
        }
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        self.steer
    }

    fn controls_speed(&self) -> bool {
        self.speed
    }
}

/// One algorithm steers, another sets the speed.
pub struct Combined<S, L> {
    lateral: S,
    longitudinal: L,
    /// What the second one answered, while the first one writes to the same batch.
    answered: ActionBatch,
}

impl<S: Algorithm, L: Algorithm> Combined<S, L> {
    /// Steering of the first, speed of the second.
    pub fn new(lateral: S, longitudinal: L) -> Self {
        Self {
            lateral,
            longitudinal,
            answered: ActionBatch::filled(0, Action::default()),
        }
    }
}

impl<S: Algorithm, L: Algorithm> Algorithm for Combined<S, L> {
    fn reset(&mut self, lanes: &[LaneSetup]) {
        self.lateral.reset(lanes);
        self.longitudinal.reset(lanes);
        self.answered = ActionBatch::filled(lanes.len(), Action::default());
    }

    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        self.longitudinal.update(state, &mut self.answered);
        self.lateral.update(state, action);
        f32::dispatch(Merge {
            speed: &self.answered,
            takes_accel: self.longitudinal.controls_speed(),
            into: action,
        });
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        self.lateral.steer_interface()
    }

    fn controls_speed(&self) -> bool {
        self.longitudinal.controls_speed()
    }
}

/// Speed of one answer into another; saturated is what either is.
struct Merge<'a> {
    speed: &'a ActionBatch,
    takes_accel: bool,
    into: &'a mut ActionBatch,
}

impl Kernel for Merge<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        for first in (0..self.into.n_lanes()).step_by(L::N) {
            if self.takes_accel {
                L::load(&self.speed.accel, first).store(&mut self.into.accel, first);
            }
            let flags = L::load(&self.into.saturated, first);
            let flags = flags.maximum(L::load(&self.speed.saturated, first));
            flags.store(&mut self.into.saturated, first);
        }
    }
}
