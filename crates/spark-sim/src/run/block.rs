//! A block: some scenarios side by side, one lane each, and the loop that drives them.

use super::delay::DelayLine;
use super::drive::{Drive, LimitTorque, Motion, MotionLane};
use super::latency::Latency;
use super::outcome::{ScenarioError, Trace, TraceActor, TraceRow};
use super::perception::{Perception, World};
use super::score::{LastLane, LastLanes, Score};
use super::sense::Sense;
use super::traffic::Traffic;
use crate::columns::lane_tiles;
use crate::control::planner::{self, PlannerConfig};
use crate::control::{Action, ActionBatch, Algorithm, LaneSetup, State, StateBatch};
use crate::integrate::{Integrator, VehicleBatch};
use crate::metric::{Accumulator, Metrics};
use crate::profile::Profile;
use crate::real::{Column, Element, Kernel, Lanes};
use crate::road::Road;
use crate::scenario::{SIDE_FORCE, Scenario};
use crate::vehicle::{ActuatorBatch, ParameterBatch, SteerInterface, VehicleModel, slowest_slip};
use std::time::{Duration, Instant};

/// A scenario that passed validation, with its road.
pub(super) struct Prepared<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) road: Road,
}

lane_tiles! {
    /// The piece of road under one lane's car, or under its preview point.
    pub(super) struct RoadLane;
    /// The pieces of road of many lanes.
    pub(super) struct RoadLanes;
    {
        /// From the start of the car's piece to the start of this one, m; 0 for the car's own.
        ahead,
        length,
        curvature,
        curvature_rate,
        grade,
        bank,
    }
}

lane_tiles! {
    /// A line of a profile: value + slope (t - start), until `next`.
    pub(super) struct LineLane;
    /// Lines of many lanes.
    pub(super) struct LineLanes;
    { value, slope, start, next }
}

lane_tiles! {
    /// What does not change during a scenario.
    pub(super) struct FixedLane;
    /// Fixed figures of many lanes.
    pub(super) struct FixedLanes;
    {
        dt,
        /// Steps per second.
        per_second,
        steer_ratio_deg,
        has_curvature_request,
        has_acceleration_request,
        /// Drag and side force of the relative wind over the car's mass, per squared airspeed, 1/m.
        drag,
        side_force,
        headwind,
        crosswind,
        half_width,
        half_lane,
        left_edge,
        right_edge,
        /// Friction circle's radius squared, m^2/s^4.
        grip_squared,
    }
}

/// The four requests over time, as lines.
pub(super) struct RequestLanes {
    pub(super) cruise: LineLanes,
    pub(super) offset: LineLanes,
    pub(super) curvature: LineLanes,
    pub(super) acceleration: LineLanes,
}

/// Air density times drag area over two, kg/m: 1.2 kg/m^3 and 0.7 m^2.
const DRAG: f64 = 0.5 * 1.2 * 0.7;
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

pub(super) struct Block<'a> {
    pub(super) lanes: &'a [Prepared<'a>],
    pub(super) options: BlockOptions,
    pub(super) model: VehicleModel,
    pub(super) integrator: Integrator,
    pub(super) interface: SteerInterface,
    pub(super) vehicle: VehicleBatch<f32>,
    pub(super) parameters: ParameterBatch<f32>,
    pub(super) actuators: ActuatorBatch<f32>,
    pub(super) road: RoadLanes,
    pub(super) preview: RoadLanes,
    pub(super) requests: RequestLanes,
    /// Whether any lane's curvature, or acceleration, is asked for outright.
    pub(super) has_curvature_requests: bool,
    pub(super) has_acceleration_requests: bool,
    pub(super) fixed: FixedLanes,
    pub(super) motion: Motion,
    pub(super) last: LastLanes,
    pub(super) state: StateBatch,
    pub(super) action: ActionBatch,
    pub(super) accumulator: Accumulator,
    pub(super) traffic: Traffic,
    /// Share of full steering torque that safety code let through last.
    pub(super) torque: Column<f32>,
    /// Curvature that cars at the limit of their grip steer but do not drive, 1/m.
    pub(super) slip_curvature: Column<f32>,
    /// Whether any of it is not 0.
    pub(super) slipped: bool,
    pub(super) steer_delay: DelayLine,
    pub(super) accel_delay: DelayLine,
    /// Piece of road under each car, and under its preview point.
    pub(super) piece_idx: Vec<usize>,
    preview_idx: Vec<usize>,
    pub(super) n_steps: Vec<usize>,
    /// Step at which the next lane comes to its end.
    next_end: usize,
    pub(super) start_distance: Vec<f64>,
    failures: Vec<Option<ScenarioError>>,
    traces: Vec<Option<Trace>>,
    recording: Vec<bool>,
    pub(super) perception: Perception,
}

impl<'a> Block<'a> {
    /// All scenarios must share vehicle model and integrator.
    pub(super) fn new(lanes: &'a [Prepared<'a>], options: BlockOptions) -> Self {
        let n = lanes.len();
        let first = lanes[0].scenario;
        let model = first.vehicle.model;
        let parameters = ParameterBatch::filled(n, first.vehicle.parameters().rounded());
        let setup = lane_setup(first);
        let actuators =
            ActuatorBatch::filled(n, setup.actuators.lane(&setup.vehicle, model, first.dt_s));
        let steps = |seconds: f64, dt: f64| (seconds / dt).round() as usize;
        let delays = |pick: fn(&LaneSetup) -> f64| {
            let per_lane = lanes.iter().map(|lane| {
                let setup = lane_setup(lane.scenario);
                steps(pick(&setup), setup.dt_s)
            });
            DelayLine::new(per_lane.collect())
        };
        let flat = LineLane {
            next: f32::INFINITY,
            ..LineLane::default()
        };
        let mut block = Self {
            lanes,
            options,
            model,
            integrator: first.vehicle.integrator,
            interface: SteerInterface::Curvature,
            vehicle: VehicleBatch::new(model, n),
            parameters,
            actuators,
            road: RoadLanes::filled(
                n,
                RoadLane {
                    length: f32::INFINITY,
                    ..RoadLane::default()
                },
            ),
            preview: RoadLanes::filled(
                n,
                RoadLane {
                    length: f32::INFINITY,
                    ..RoadLane::default()
                },
            ),
            requests: RequestLanes {
                cruise: LineLanes::filled(n, flat),
                offset: LineLanes::filled(n, flat),
                curvature: LineLanes::filled(n, flat),
                acceleration: LineLanes::filled(n, flat),
            },
            has_curvature_requests: lanes
                .iter()
                .any(|lane| lane.scenario.requests.curvature.is_some()),
            has_acceleration_requests: lanes
                .iter()
                .any(|lane| lane.scenario.requests.acceleration.is_some()),
            fixed: FixedLanes::filled(
                n,
                FixedLane {
                    dt: first.dt_s as f32,
                    per_second: (1.0 / first.dt_s) as f32,
                    ..FixedLane::default()
                },
            ),
            motion: Motion::filled(n, MotionLane::default()),
            last: LastLanes::filled(n, LastLane::default()),
            state: StateBatch::filled(n, State::at_rest()),
            action: ActionBatch::filled(n, Action::default()),
            accumulator: Accumulator::new(n),
            traffic: Traffic::new(lanes),
            torque: Column::filled(n, 0.0),
            slip_curvature: Column::filled(n, 0.0),
            slipped: false,
            steer_delay: delays(|setup| setup.actuators.steer_delay_s),
            accel_delay: delays(|setup| setup.actuators.acceleration_delay_s),
            piece_idx: vec![0; n],
            preview_idx: vec![0; n],
            n_steps: lanes.iter().map(|lane| lane.scenario.n_steps()).collect(),
            next_end: 0,
            start_distance: vec![0.0; n],
            failures: (0..n).map(|_| None).collect(),
            traces: (0..n)
                .map(|_| options.record_interval_s.map(|_| Trace::default()))
                .collect(),
            recording: vec![options.record_interval_s.is_some(); n],
            perception: Perception::new(lanes),
        };
        for lane in 0..n {
            block.start_lane(lane);
        }
        block
    }

    fn start_lane(&mut self, lane: usize) {
        let Prepared { scenario, road } = &self.lanes[lane];
        let setup = lane_setup(scenario);
        let environment = &scenario.environment;
        let mut vehicle = setup.vehicle;
        vehicle.friction *= environment.friction;
        let grip = crate::vehicle::GRAVITY * environment.friction;
        vehicle.acceleration_max = vehicle.acceleration_max.min(grip);
        let mut parameters = vehicle.rounded();
        let most_decay = self.integrator.most_decay();
        parameters.kinematic_below = slowest_slip(&vehicle, setup.dt_s, most_decay) as f32;
        self.parameters.set(lane, parameters);
        let mut actuators = setup.actuators;
        actuators.acceleration_max = actuators.acceleration_max.min(grip);
        actuators.deceleration_max = actuators.deceleration_max.min(grip);
        self.actuators
            .set(lane, actuators.lane(&vehicle, self.model, setup.dt_s));

        let start = &scenario.start;
        let piece_idx = road.piece_idx_at(start.distance);
        let local = start.distance - road.piece(piece_idx).start;
        // The car starts steered for the bend it is in.
        let curvature = road.curvature_at(start.distance);
        let held = curvature
            * (vehicle.wheelbase()
                - setup.slip_factor() * vehicle.wheelbase() * start.speed.powi(2));
        let steer = held.clamp(-vehicle.steer_max, vehicle.steer_max);
        let mut x = vec![
            local as f32,
            start.offset as f32,
            steer as f32,
            start.speed as f32,
            start.heading as f32,
        ];
        let wheel = (start.speed / vehicle.wheel_radius) as f32;
        let turning = (start.speed * curvature) as f32;
        x.extend(
            [turning, 0.0, wheel, wheel]
                .iter()
                .take(self.model.n_states() - 5),
        );
        self.vehicle
            .set(lane, &x)
            .expect("one number per state of the model");
        self.piece_idx[lane] = piece_idx;
        self.preview_idx[lane] = piece_idx;
        self.start_distance[lane] = start.distance;
        self.load_pieces(lane);

        // The torque that holds the wheel where it is, as if it had been held before.
        let square = start.speed * start.speed;
        let bank = crate::vehicle::GRAVITY * road.piece(piece_idx).bank;
        let held = (square * steer + vehicle.wheelbase() * bank)
            / (vehicle.wheelbase() * (1.0 - setup.slip_factor() * square));
        let share = held / actuators.lateral_acceleration_at_full_torque;
        self.torque[lane] = share.clamp(-1.0, 1.0) as f32;

        let mass = vehicle.mass;
        self.fixed.set(
            lane,
            FixedLane {
                dt: scenario.dt_s as f32,
                per_second: (1.0 / scenario.dt_s) as f32,
                steer_ratio_deg: setup.vehicle.steer_ratio.to_degrees() as f32,
                has_curvature_request: flag(scenario.requests.curvature.is_some()),
                has_acceleration_request: flag(scenario.requests.acceleration.is_some()),
                drag: (DRAG / mass) as f32,
                side_force: (SIDE_FORCE / mass) as f32,
                headwind: environment.headwind as f32,
                crosswind: environment.crosswind as f32,
                half_width: (0.5 * vehicle.width) as f32,
                half_lane: (0.5 * road.lane_width()) as f32,
                left_edge: road.left_edge() as f32,
                right_edge: road.right_edge() as f32,
                grip_squared: (crate::vehicle::GRAVITY * vehicle.friction).powi(2) as f32,
            },
        );
        self.motion.set(
            lane,
            MotionLane {
                alive: 1.0,
                curvature: crate::vehicle::path_curvature(&parameters, steer as f32),
                yaw_rate: turning,
                lateral_acceleration: turning * start.speed as f32,
                desired_curvature: curvature as f32,
                ..MotionLane::default()
            },
        );
        self.refresh_requests(lane, 0.0);
        let [low, high] = scenario
            .requests
            .acceleration_limits
            .unwrap_or([planner::ACCEL_MIN, planner::ACCEL_MAX]);
        self.state.dt[lane] = scenario.dt_s as f32;
        self.state.accel_min[lane] = low.max(-setup.actuators.deceleration_max) as f32;
        self.state.accel_max[lane] = high.min(setup.actuators.acceleration_max) as f32;
    }

    /// Drives every lane to its end.
    pub(super) fn run(
        mut self,
        algorithm: &mut dyn Algorithm,
        latency: &mut Latency,
    ) -> Vec<LaneOutcome> {
        let setups: Vec<LaneSetup> = self.lanes.iter().map(|l| lane_setup(l.scenario)).collect();
        algorithm.reset(&setups);
        self.interface = algorithm
            .steer_interface()
            .unwrap_or(SteerInterface::Curvature);
        let (steers, sets_speed) = (
            algorithm.steer_interface().is_some(),
            algorithm.controls_speed(),
        );
        let last_step = self.n_steps.iter().copied().max().unwrap_or(0);
        let starts = self.piece_starts();
        self.traffic.look(&mut self.motion, &self.vehicle, &starts);
        for step_idx in 0..last_step {
            if step_idx >= self.next_end || step_idx.is_multiple_of(64) {
                self.end_finished_lanes(step_idx);
                if (0..self.lanes.len()).all(|lane| !self.is_alive(lane)) {
                    break;
                }
            }
            if !self.perception.is_true() {
                self.perceive(step_idx);
            }
            f32::dispatch_pairs(self.lanes.len(), Sense::new(&mut self, step_idx));
            // What the algorithm does not control is tracked perfectly.
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
            if self.interface == SteerInterface::Torque {
                f32::dispatch_pairs(self.lanes.len(), LimitTorque(&mut self));
                self.steer_delay.pass(&self.torque);
            } else {
                self.steer_delay.pass(&self.action.steer);
            }
            self.accel_delay.pass(&self.action.accel);
            let events = f32::dispatch(Drive::new(&mut self, step_idx));
            self.slipped = events.slips;
            f32::dispatch_pairs(self.lanes.len(), Score::new(&mut self));
            if events.state_not_finite {
                self.drop_lanes_with_bad_states(step_idx);
            }
            if events.piece_left {
                self.change_pieces();
            }
            if events.line_ended {
                self.change_lines(step_idx);
            }
            self.move_traffic(step_idx);
            self.accumulator.end_step();
            self.record(step_idx);
        }
        self.finish()
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

    fn is_alive(&self, lane: usize) -> bool {
        self.motion.get(lane).alive > 0.0
    }

    fn fail(&mut self, lane: usize, why: ScenarioError) {
        if self.is_alive(lane) {
            *self.motion.alive(lane) = 0.0;
            self.failures[lane] = Some(why);
        }
    }

    fn end_finished_lanes(&mut self, step_idx: usize) {
        self.next_end = usize::MAX;
        for (lane, &n_steps) in self.n_steps.iter().enumerate() {
            if step_idx >= n_steps {
                *self.motion.alive(lane) = 0.0;
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
            let x = self.vehicle.get(lane);
            if x.iter()
                .any(|value| value.is_nan() || value.abs() >= super::drive::LARGEST_STATE)
            {
                self.fail(lane, ScenarioError::StateNotFinite { step_idx });
                self.vehicle
                    .set(lane, &vec![0.0; x.len()])
                    .expect("one number per state of the model");
            }
        }
    }

    /// Moves lanes whose car or preview point left its piece of road to the right piece.
    fn change_pieces(&mut self) {
        for lane in 0..self.lanes.len() {
            if !self.is_alive(lane) {
                continue;
            }
            if !self.has_left_piece(lane) {
                continue;
            }
            let road = &self.lanes[lane].road;
            let mut s = self.vehicle.column(0)[lane];
            let before = self.piece_idx[lane];
            while s >= road.piece(self.piece_idx[lane]).length as f32 {
                s -= road.piece(self.piece_idx[lane]).length as f32;
                self.piece_idx[lane] += 1;
            }
            while s < 0.0 && self.piece_idx[lane] > 0 {
                self.piece_idx[lane] -= 1;
                s += road.piece(self.piece_idx[lane]).length as f32;
            }
            let car_start = road.piece(self.piece_idx[lane]).start;
            let point = car_start + f64::from(s) + f64::from(self.preview_distance(lane));
            let mut preview = self.preview_idx[lane];
            while point >= road.piece(preview).start + road.piece(preview).length {
                preview += 1;
            }
            while preview > 0 && point < road.piece(preview).start {
                preview -= 1;
            }
            if before != self.piece_idx[lane] || preview != self.preview_idx[lane] {
                self.preview_idx[lane] = preview;
                self.vehicle.column_mut(0)[lane] = s;
                self.load_pieces(lane);
            }
        }
    }

    /// As [`Drive`] asks for all lanes. What other lanes need must not change this one.
    fn has_left_piece(&self, lane: usize) -> bool {
        let (road, preview) = (self.road.get(lane), self.preview.get(lane));
        let (s, v) = (self.vehicle.column(0)[lane], self.vehicle.column(3)[lane]);
        let ahead = s + v * self.options.planner.preview_s as f32 - preview.ahead;
        s >= road.length || s < 0.0 || ahead >= preview.length || ahead < 0.0
    }

    fn preview_distance(&self, lane: usize) -> f32 {
        self.vehicle.column(3)[lane].max(0.0) * self.options.planner.preview_s as f32
    }

    /// Copies the current pieces of one lane's road into its columns.
    fn load_pieces(&mut self, lane: usize) {
        let road = &self.lanes[lane].road;
        let car = road.piece(self.piece_idx[lane]);
        let lane_of = |piece: &crate::road::Piece| RoadLane {
            ahead: (piece.start - car.start) as f32,
            length: piece.length as f32,
            curvature: piece.curvature as f32,
            curvature_rate: piece.curvature_rate as f32,
            grade: piece.grade.sin() as f32,
            bank: piece.bank as f32,
        };
        self.road.set(lane, lane_of(car));
        self.preview
            .set(lane, lane_of(road.piece(self.preview_idx[lane])));
    }

    fn piece_starts(&self) -> Vec<f64> {
        (0..self.lanes.len())
            .map(|lane| self.lanes[lane].road.piece(self.piece_idx[lane]).start)
            .collect()
    }

    fn change_lines(&mut self, step_idx: usize) {
        for lane in 0..self.lanes.len() {
            // As `Drive` asks for all lanes. What other lanes need must not change this one.
            let dt = self.fixed.get(lane).dt;
            if dt * (step_idx + 1) as f32 + 0.25 * dt >= self.motion.get(lane).next_line {
                let t = (step_idx + 1) as f64 * self.lanes[lane].scenario.dt_s;
                self.refresh_requests(lane, t);
            }
        }
    }

    fn refresh_requests(&mut self, lane: usize, t: f64) {
        let scenario = self.lanes[lane].scenario;
        let requests = &scenario.requests;
        let line = |profile: &Option<Profile>, absent: f64| {
            let constant = Profile::constant(absent);
            // Half a step early, so that rounding of f32 times cannot skip a point.
            let (line, next) = profile
                .as_ref()
                .unwrap_or(&constant)
                .line_at(t + 0.25 * scenario.dt_s);
            LineLane {
                value: line.value as f32,
                slope: line.slope as f32,
                start: line.start as f32,
                next: next as f32,
            }
        };
        self.requests
            .cruise
            .set(lane, line(&requests.cruise_speed, scenario.start.speed));
        self.requests.offset.set(lane, line(&requests.offset, 0.0));
        self.requests
            .curvature
            .set(lane, line(&requests.curvature, 0.0));
        self.requests
            .acceleration
            .set(lane, line(&requests.acceleration, 0.0));
        let next = [
            self.requests.cruise.get(lane).next,
            self.requests.offset.get(lane).next,
            self.requests.curvature.get(lane).next,
            self.requests.acceleration.get(lane).next,
        ]
        .into_iter()
        .fold(f32::INFINITY, f32::min);
        *self.motion.next_line(lane) = next;
    }

    /// Takes this step's frames of noisy sensors.
    fn perceive(&mut self, step_idx: usize) {
        let world = World {
            vehicle: &self.vehicle,
            motion: &self.motion,
            road: &self.road,
            preview: &self.preview,
            preview_s: self.options.planner.preview_s as f32,
        };
        self.perception.update(world, step_idx);
    }

    fn move_traffic(&mut self, step_idx: usize) {
        if self.traffic.is_empty() {
            return;
        }
        let starts = self.piece_starts();
        self.traffic.advance(
            &mut self.motion,
            &mut self.accumulator,
            &self.vehicle,
            &starts,
            step_idx,
        );
    }

    /// Records lanes that drove this step: at the interval, and the moment of a collision.
    fn record(&mut self, step_idx: usize) {
        let Some(interval) = self.options.record_interval_s else {
            return;
        };
        for lane in 0..self.lanes.len() {
            let collided = self.accumulator.collisions[lane].is_some();
            let driving = self.is_alive(lane) || collided;
            if !driving || !self.recording[lane] {
                continue;
            }
            self.recording[lane] = !collided;
            let dt = self.lanes[lane].scenario.dt_s;
            let every = ((interval / dt).round() as usize).max(1);
            if collided || step_idx.is_multiple_of(every) {
                let row = self.trace_row(lane, step_idx);
                if let Some(trace) = &mut self.traces[lane] {
                    trace.rows.push(row);
                }
            }
        }
    }

    fn trace_row(&self, lane: usize, step_idx: usize) -> TraceRow {
        let value = |column: &[f32]| f64::from(column[lane]);
        let motion = self.motion.get(lane);
        let start = self.lanes[lane].road.piece(self.piece_idx[lane]).start;
        let actors = self.traffic.states(lane).iter().map(|actor| TraceActor {
            s: actor.s,
            d: actor.d,
            heading: actor.heading(),
            speed: actor.speed,
        });
        TraceRow {
            time: (step_idx + 1) as f64 * self.lanes[lane].scenario.dt_s,
            s: start + value(self.vehicle.column(0)),
            d: value(self.vehicle.column(1)),
            heading: value(self.vehicle.column(4)),
            speed: value(self.vehicle.column(3)),
            acceleration: f64::from(motion.acceleration),
            steer: value(self.vehicle.column(2)),
            desired_curvature: value(&self.state.desired_curvature),
            curvature: f64::from(motion.curvature),
            steer_command: value(&self.action.steer),
            accel_command: value(&self.action.accel),
            v_target: value(&self.state.v_target),
            offset_target: f64::from(motion.offset_target),
            gap: (motion.lead_present > 0.5).then_some(f64::from(motion.lead_gap)),
            actors: actors.collect(),
        }
    }

    fn finish(mut self) -> Vec<LaneOutcome> {
        let starts = self.piece_starts();
        (0..self.lanes.len())
            .map(|lane| {
                let s = starts[lane] + f64::from(self.vehicle.column(0)[lane]);
                let distance = s - self.start_distance[lane];
                let dt = self.lanes[lane].scenario.dt_s;
                let metrics = self.accumulator.metrics(lane, dt, distance);
                let outcome = match self.failures[lane].take() {
                    Some(failure) => Err(failure),
                    None => Ok(metrics),
                };
                (outcome, self.traces[lane].take())
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

fn flag(condition: bool) -> f32 {
    if condition { 1.0 } else { 0.0 }
}

pub(super) fn lane_setup(scenario: &Scenario) -> LaneSetup {
    LaneSetup {
        vehicle: scenario.vehicle.parameters(),
        actuators: scenario.vehicle.actuators(),
        model: scenario.vehicle.model,
        dt_s: scenario.dt_s,
    }
}
