//! The cars of a block: vehicles, actuators, commands on their way; and how they start.

use super::delay::DelayLine;
use super::tables::{FixedLane, FixedLanes, Motion, MotionLane, Prepared, lane_setup};
use crate::control::LaneSetup;
use crate::integrate::{Integrator, VehicleBatch};
use crate::real::Column;
use crate::road::Road;
use crate::scenario::{SIDE_FORCE, Scenario};
use crate::vehicle::{
    ActuatorBatch, GRAVITY, ParameterBatch, SteerInterface, VehicleModel, path_curvature,
    slowest_slip,
};

/// Air density times drag area over two, kg/m: 1.2 kg/m^3 and 0.7 m^2.
const DRAG: f64 = 0.5 * 1.2 * 0.7;

/// The cars, all of one vehicle model and one integrator.
pub(super) struct Cars {
    pub(super) model: VehicleModel,
    pub(super) integrator: Integrator,
    /// What steering commands mean.
    pub(super) interface: SteerInterface,
    pub(super) vehicle: VehicleBatch<f32>,
    pub(super) parameters: ParameterBatch<f32>,
    pub(super) actuators: ActuatorBatch<f32>,
    pub(super) fixed: FixedLanes,
    pub(super) motion: Motion,
    /// Share of full steering torque that safety code let through last.
    pub(super) torque: Column<f32>,
    /// Curvature that cars at the limit of their grip steer but do not drive, 1/m.
    pub(super) slip_curvature: Column<f32>,
    /// Whether any of it is not 0.
    pub(super) slipped: bool,
    pub(super) steer_delay: DelayLine,
    pub(super) accel_delay: DelayLine,
}

impl Cars {
    /// Cars at the start of their scenarios.
    pub(super) fn new(lanes: &[Prepared<'_>]) -> Self {
        let n = lanes.len();
        let first = lanes[0].scenario;
        let model = first.vehicle.model;
        let setup = lane_setup(first);
        let lane = setup.actuators.lane(&setup.vehicle, model, first.dt_s);
        let delays = |pick: fn(&LaneSetup) -> f64| {
            let per_lane = lanes.iter().map(|lane| {
                let setup = lane_setup(lane.scenario);
                (pick(&setup) / setup.dt_s).round() as usize
            });
            DelayLine::new(per_lane.collect())
        };
        let fixed = FixedLane {
            dt: first.dt_s as f32,
            per_second: (1.0 / first.dt_s) as f32,
            ..FixedLane::default()
        };
        let mut cars = Self {
            model,
            integrator: first.vehicle.integrator,
            interface: SteerInterface::Curvature,
            vehicle: VehicleBatch::new(model, n),
            parameters: ParameterBatch::filled(n, first.vehicle.parameters().rounded()),
            actuators: ActuatorBatch::filled(n, lane),
            fixed: FixedLanes::filled(n, fixed),
            motion: Motion::filled(n, MotionLane::default()),
            torque: Column::filled(n, 0.0),
            slip_curvature: Column::filled(n, 0.0),
            slipped: false,
            steer_delay: delays(|setup| setup.actuators.steer_delay_s),
            accel_delay: delays(|setup| setup.actuators.acceleration_delay_s),
        };
        for (lane, Prepared { scenario, road }) in lanes.iter().enumerate() {
            cars.start(lane, scenario, road);
        }
        cars
    }

    fn start(&mut self, lane: usize, scenario: &Scenario, road: &Road) {
        let setup = lane_setup(scenario);
        let environment = &scenario.environment;
        let mut vehicle = setup.vehicle;
        vehicle.friction *= environment.friction;
        // Of these tyres on this road, as the friction circle.
        let grip = GRAVITY * vehicle.friction;
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
        let piece = road.piece(road.piece_idx_at(start.distance));
        // The car starts steered for the bend it is in.
        let curvature = road.curvature_at(start.distance);
        let held = curvature
            * (vehicle.wheelbase()
                - setup.slip_factor() * vehicle.wheelbase() * start.speed.powi(2));
        let steer = held.clamp(-vehicle.steer_max, vehicle.steer_max);
        let mut x = vec![
            (start.distance - piece.start) as f32,
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

        // The torque that holds the wheel where it is, as if it had been held before.
        let square = start.speed * start.speed;
        let bank = GRAVITY * piece.bank;
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
                grip_squared: (GRAVITY * vehicle.friction).powi(2) as f32,
            },
        );
        self.motion.set(
            lane,
            MotionLane {
                alive: 1.0,
                curvature: path_curvature(&parameters, steer as f32),
                yaw_rate: turning,
                lateral_acceleration: turning * start.speed as f32,
                desired_curvature: curvature as f32,
                ..MotionLane::default()
            },
        );
    }

    /// Whether the lane's scenario still runs.
    pub(super) fn is_alive(&self, lane: usize) -> bool {
        self.motion.get(lane).alive > 0.0
    }

    /// The position along its piece of road, m, and the speed, m/s.
    pub(super) fn position_and_speed(&self, lane: usize) -> (f32, f32) {
        (self.vehicle.column(0)[lane], self.vehicle.column(3)[lane])
    }
}

fn flag(condition: bool) -> f32 {
    if condition { 1.0 } else { 0.0 }
}
