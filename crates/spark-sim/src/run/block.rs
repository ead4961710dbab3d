//! A block: some scenarios side by side, one lane each, and the loop that drives them.

use super::cars::Cars;
use super::course::Course;
use super::drive::{Drive, LARGEST_STATE, LimitTorque};
use super::latency::Latency;
use super::outcome::{ScenarioError, Trace};
use super::perception::{Perception, World};
use super::record::{Recorder, Scene};
use super::score::{LastLane, LastLanes, Score};
use super::sense::Sense;
use super::tables::{Prepared, lane_setup};
use super::traffic::Traffic;
use crate::control::planner::{self, PlannerConfig};
use crate::control::{Action, ActionBatch, Algorithm, LaneSetup, State, StateBatch};
use crate::metric::{Accumulator, Metrics};
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::SteerInterface;
use std::time::{Duration, Instant};

/// Options of the run that a block needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockOptions {
    pub(super) planner: PlannerConfig,
    pub(super) deadline: Option<Duration>,
    pub(super) measure_latency: bool,
    pub(super) record_interval_s: Option<f64>,
}

/// A block's result, lane by lane.
pub(super) type LaneOutcome = (Result<Metrics, ScenarioError>, Option<Trace>);

/// The state of a block and what its phases keep between steps.
pub(super) struct Block<'a> {
    pub(super) lanes: &'a [Prepared<'a>],
    options: BlockOptions,
    pub(super) cars: Cars,
    pub(super) course: Course,
    pub(super) state: StateBatch,
    action: ActionBatch,
    perception: Perception,
    traffic: Traffic,
    last: LastLanes,
    accumulator: Accumulator,
    recorder: Recorder,
    pub(super) n_steps: Vec<usize>,
    /// Step at which the next lane comes to its end.
    next_end: usize,
    failures: Vec<Option<ScenarioError>>,
}

impl<'a> Block<'a> {
    /// All scenarios must share vehicle model and integrator.
    pub(super) fn new(lanes: &'a [Prepared<'a>], options: BlockOptions) -> Self {
        let n = lanes.len();
        let mut block = Self {
            lanes,
            options,
            cars: Cars::new(lanes),
            course: Course::new(lanes, options.planner.preview_s),
            state: StateBatch::filled(n, State::at_rest()),
            action: ActionBatch::filled(n, Action::default()),
            perception: Perception::new(lanes),
            traffic: Traffic::new(lanes),
            last: LastLanes::filled(n, LastLane::default()),
            accumulator: Accumulator::new(n),
            recorder: Recorder::new(n, options.record_interval_s),
            n_steps: lanes.iter().map(|lane| lane.scenario.n_steps()).collect(),
            next_end: 0,
            failures: (0..n).map(|_| None).collect(),
        };
        for lane in 0..n {
            block.start_lane(lane);
        }
        block
    }

    fn start_lane(&mut self, lane: usize) {
        let scenario = self.lanes[lane].scenario;
        let actuators = scenario.vehicle.actuators();
        *self.cars.motion.next_line(lane) = self.course.change_lines(lane, scenario, 0.0);
        let [low, high] = scenario
            .requests
            .acceleration_limits
            .unwrap_or([planner::ACCEL_MIN, planner::ACCEL_MAX]);
        self.state.dt[lane] = scenario.dt_s as f32;
        self.state.accel_min[lane] = low.max(-actuators.deceleration_max) as f32;
        self.state.accel_max[lane] = high.min(actuators.acceleration_max) as f32;
    }

    /// Drives every lane to its end.
    pub(super) fn run(
        mut self,
        algorithm: &mut dyn Algorithm,
        latency: &mut Latency,
    ) -> Vec<LaneOutcome> {
        let setups: Vec<LaneSetup> = self.lanes.iter().map(|l| lane_setup(l.scenario)).collect();
        algorithm.reset(&setups);
        let interface = algorithm.steer_interface();
        self.cars.interface = interface.unwrap_or(SteerInterface::Curvature);
        let (steers, sets_speed) = (interface.is_some(), algorithm.controls_speed());
        let last_step = self.n_steps.iter().copied().max().unwrap_or(0);
        let starts = self.piece_starts();
        self.traffic
            .look(&mut self.cars.motion, &self.cars.vehicle, &starts);
        for step_idx in 0..last_step {
            if step_idx >= self.next_end || step_idx.is_multiple_of(64) {
                self.end_finished_lanes(step_idx);
                if (0..self.lanes.len()).all(|lane| !self.cars.is_alive(lane)) {
                    break;
                }
            }
            self.sense(step_idx);
            // What the algorithm does not control is commanded as the planner wants.
            if !steers {
                self.action
                    .steer
                    .copy_from_slice(&self.state.desired_curvature);
            }
            if !sets_speed {
                self.action.accel.copy_from_slice(&self.state.a_target);
            }
            self.update(algorithm, latency, step_idx);
            if !f32::dispatch(AllFinite(&self.action)) {
                self.drop_lanes_with_bad_actions(step_idx);
            }
            self.actuate();
            self.drive(step_idx);
            self.move_traffic(step_idx);
            self.accumulator.end_step();
            self.record(step_idx);
        }
        self.finish()
    }

    fn sense(&mut self, step_idx: usize) {
        let n_lanes = self.lanes.len();
        let told = if self.perception.is_true() {
            None
        } else {
            let world = World {
                vehicle: &self.cars.vehicle,
                motion: &self.cars.motion,
                road: &self.course.road,
                preview: &self.course.preview,
                preview_s: self.options.planner.preview_s as f32,
            };
            self.perception.update(world, step_idx);
            Some(&self.perception.told)
        };
        let sense = Sense {
            cars: &mut self.cars,
            course: &self.course,
            told,
            has_traffic: !self.traffic.is_empty(),
            planner: self.options.planner,
            step_idx,
            state: &mut self.state,
        };
        f32::dispatch_pairs(n_lanes, sense);
    }

    fn update(&mut self, algorithm: &mut dyn Algorithm, latency: &mut Latency, step_idx: usize) {
        let timed = self.options.measure_latency || self.options.deadline.is_some();
        if !timed {
            algorithm.update(&self.state, &mut self.action);
            return;
        }
        let start = Instant::now();
        algorithm.update(&self.state, &mut self.action);
        let took_s = start.elapsed().as_secs_f64() / self.lanes.len() as f64;
        latency.record(took_s * 1e9);
        if let Some(allowed) = self.options.deadline {
            let allowed_s = allowed.as_secs_f64();
            if took_s > allowed_s {
                for lane in 0..self.lanes.len() {
                    self.fail(
                        lane,
                        ScenarioError::DeadlineMissed {
                            step_idx,
                            took_s,
                            allowed_s,
                        },
                    );
                }
            }
        }
    }

    fn actuate(&mut self) {
        let cars = &mut self.cars;
        if cars.interface == SteerInterface::Torque {
            let limit = LimitTorque {
                actuators: &cars.actuators,
                action: &self.action,
                torque: &mut cars.torque,
                state: &mut self.state,
            };
            f32::dispatch_pairs(self.lanes.len(), limit);
            cars.steer_delay.pass(&cars.torque);
        } else {
            cars.steer_delay.pass(&self.action.steer);
        }
        cars.accel_delay.pass(&self.action.accel);
    }

    fn drive(&mut self, step_idx: usize) {
        let events = f32::dispatch(Drive {
            cars: &mut self.cars,
            course: &self.course,
            action: &self.action,
            preview_s: self.options.planner.preview_s,
            step_idx,
        });
        self.cars.slipped = events.slips;
        let score = Score {
            cars: &self.cars,
            state: &self.state,
            action: &self.action,
            last: &mut self.last,
            accumulator: &mut self.accumulator,
        };
        f32::dispatch_pairs(self.lanes.len(), score);
        if events.state_not_finite {
            self.drop_lanes_with_bad_states(step_idx);
        }
        if events.piece_left {
            self.change_pieces();
        }
        if events.line_ended {
            self.change_lines(step_idx);
        }
    }

    fn fail(&mut self, lane: usize, why: ScenarioError) {
        if self.cars.is_alive(lane) {
            *self.cars.motion.alive(lane) = 0.0;
            self.failures[lane] = Some(why);
        }
    }

    fn end_finished_lanes(&mut self, step_idx: usize) {
        self.next_end = usize::MAX;
        for (lane, &n_steps) in self.n_steps.iter().enumerate() {
            if step_idx >= n_steps {
                *self.cars.motion.alive(lane) = 0.0;
            } else {
                self.next_end = self.next_end.min(n_steps);
            }
        }
    }

    fn drop_lanes_with_bad_actions(&mut self, step_idx: usize) {
        for lane in 0..self.lanes.len() {
            let answers = [
                ("steering", self.action.steer[lane]),
                ("acceleration", self.action.accel[lane]),
            ];
            for (what, got) in answers {
                if !got.is_finite() {
                    self.fail(
                        lane,
                        ScenarioError::ActionNotFinite {
                            what,
                            step_idx,
                            got,
                        },
                    );
                    self.action.steer[lane] = 0.0;
                    self.action.accel[lane] = 0.0;
                }
            }
        }
    }

    fn drop_lanes_with_bad_states(&mut self, step_idx: usize) {
        for lane in 0..self.lanes.len() {
            let x = self.cars.vehicle.get(lane);
            if x.iter()
                .any(|value| value.is_nan() || value.abs() >= LARGEST_STATE)
            {
                self.fail(lane, ScenarioError::StateNotFinite { step_idx });
                self.cars
                    .vehicle
                    .set(lane, &vec![0.0; x.len()])
                    .expect("one number per state of the model");
            }
        }
    }

    fn change_pieces(&mut self) {
        for (lane, Prepared { road, .. }) in self.lanes.iter().enumerate() {
            if !self.cars.is_alive(lane) {
                continue;
            }
            let (s, v) = self.cars.position_and_speed(lane);
            if let Some(s) = self.course.change_pieces(lane, road, s, v) {
                self.cars.vehicle.column_mut(0)[lane] = s;
            }
        }
    }

    fn change_lines(&mut self, step_idx: usize) {
        for (lane, Prepared { scenario, .. }) in self.lanes.iter().enumerate() {
            // As `Drive` asks for all lanes. What other lanes need must not change this one.
            let dt = self.cars.fixed.get(lane).dt;
            let next_line = self.cars.motion.next_line(lane);
            if dt * (step_idx + 1) as f32 + 0.25 * dt >= *next_line {
                let t = (step_idx + 1) as f64 * scenario.dt_s;
                *next_line = self.course.change_lines(lane, scenario, t);
            }
        }
    }

    fn piece_starts(&self) -> Vec<f64> {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .map(|(lane, prepared)| self.course.piece_start(lane, &prepared.road))
            .collect()
    }

    fn move_traffic(&mut self, step_idx: usize) {
        if self.traffic.is_empty() {
            return;
        }
        let starts = self.piece_starts();
        self.traffic.advance(
            &mut self.cars.motion,
            &mut self.accumulator,
            &self.cars.vehicle,
            &starts,
            step_idx,
        );
    }

    fn record(&mut self, step_idx: usize) {
        let scene = Scene {
            lanes: self.lanes,
            cars: &self.cars,
            course: &self.course,
            state: &self.state,
            action: &self.action,
            traffic: &self.traffic,
        };
        let collisions = &self.accumulator.collisions;
        self.recorder
            .record(scene, |lane| collisions[lane].is_some(), step_idx);
    }

    fn finish(mut self) -> Vec<LaneOutcome> {
        let starts = self.piece_starts();
        (0..self.lanes.len())
            .map(|lane| {
                let s = starts[lane] + f64::from(self.cars.vehicle.column(0)[lane]);
                let scenario = self.lanes[lane].scenario;
                let distance = s - scenario.start.distance;
                let metrics = self.accumulator.metrics(lane, scenario.dt_s, distance);
                let outcome = match self.failures[lane].take() {
                    Some(failure) => Err(failure),
                    None => Ok(metrics),
                };
                (outcome, self.recorder.take(lane))
            })
            .collect()
    }
}

/// Whether every answer is a finite number.
struct AllFinite<'a>(&'a ActionBatch);

impl Kernel for AllFinite<'_> {
    type Elem = f32;
    type Output = bool;

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) -> bool {
        let most = L::splat(f64::from(f32::MAX));
        let mut all = L::zero().le(most);
        for first in (0..self.0.n_lanes()).step_by(L::N) {
            let steer = L::load(&self.0.steer, first);
            let accel = L::load(&self.0.accel, first);
            all = all & steer.abs().le(most) & accel.abs().le(most);
        }
        !L::any(!all)
    }
}
