//! A block's scenarios as the tables that kernels read; `kernels/rollout.cuh` says what is where.

use super::super::block::Block;
use super::super::perception::bias;
use super::super::tables::lane_setup;
use crate::control::planner::PlannerConfig;
use crate::control::{CudaControl, LaneSetup};
use crate::profile::Profile;
use crate::vehicle::SteerInterface;

/// State variables of the largest model.
const N_STATES_MOST: usize = 9;
/// Channels that can be noisy: those of the road and the car itself.
const N_NOISY: usize = 7;

/// Tables `[field][lane]` of a block.
pub(super) struct Tables {
    pub(super) cars: Vec<f32>,
    pub(super) exact: Vec<f64>,
    pub(super) whole: Vec<u32>,
    pub(super) pieces: Vec<f64>,
    pub(super) lines: Vec<f64>,
    /// Rows of the ring of commands: the longest delay and one.
    pub(super) n_rows: usize,
}

/// Fields of one lane in the order of `sim::Car`, then its start.
fn car(block: &Block<'_>, lane: usize, setup: &LaneSetup) -> Vec<f32> {
    let mut fields = block.cars.parameters.get(lane).values();
    fields.extend(block.cars.actuators.get(lane).values());
    fields.extend(block.cars.fixed.get(lane).values());
    let ratio = setup.vehicle.steer_ratio * setup.vehicle.wheelbase();
    fields.extend([
        block.state.accel_min[lane],
        block.state.accel_max[lane],
        setup.slip_factor() as f32,
        ratio.to_degrees() as f32,
    ]);
    let mut state = block.cars.vehicle.get(lane);
    state.resize(N_STATES_MOST, 0.0);
    fields.extend(state);
    let motion = block.cars.motion.get(lane);
    fields.extend([
        motion.desired_curvature,
        motion.yaw_rate,
        motion.lateral_acceleration,
        block.cars.torque[lane],
    ]);
    fields
}

impl Tables {
    /// `None` if its roads and profiles have more parts than 32 bits count.
    pub(super) fn new(block: &Block<'_>) -> Option<Self> {
        let n = block.lanes.len();
        let mut tables = Self {
            cars: Vec::new(),
            exact: Vec::new(),
            whole: Vec::new(),
            pieces: Vec::new(),
            lines: Vec::new(),
            n_rows: 1,
        };
        for (lane, prepared) in block.lanes.iter().enumerate() {
            let scenario = prepared.scenario;
            let setup = lane_setup(scenario);
            put(&mut tables.cars, n, lane, &car(block, lane, &setup));

            let noise = scenario.environment.noise.channels();
            let (mut exact, mut noisy) = (vec![scenario.dt_s], 0);
            for (channel, (_, own)) in noise.iter().enumerate().take(N_NOISY) {
                exact.extend([bias(own, channel, scenario.seed), own.white_sd]);
                noisy |= u32::from(!own.is_none()) << channel;
            }
            put(&mut tables.exact, n, lane, &exact);

            let delays = [
                block.cars.steer_delay.steps(lane),
                block.cars.accel_delay.steps(lane),
            ];
            tables.n_rows = tables.n_rows.max(delays[0] + 1).max(delays[1] + 1);
            let first_piece = u32::try_from(tables.pieces.len() / 6).ok()?;
            let n_pieces = tables.push_pieces(block, lane);
            let requests = &scenario.requests;
            let profiles = [
                (&requests.cruise_speed, scenario.start.speed),
                (&requests.offset, 0.0),
                (&requests.curvature, 0.0),
                (&requests.acceleration, 0.0),
            ];
            let (mut first_lines, mut n_lines) = ([0; 4], [0; 4]);
            for (i, (profile, absent)) in profiles.into_iter().enumerate() {
                first_lines[i] = u32::try_from(tables.lines.len() / 4).ok()?;
                n_lines[i] = tables.push_lines(profile.as_ref(), absent);
            }
            let mut whole = vec![
                u32::try_from(block.n_steps[lane]).ok()?,
                u32::try_from(delays[0]).ok()?,
                u32::try_from(delays[1]).ok()?,
                first_piece,
                u32::try_from(block.course.piece_idx[lane]).ok()?,
                n_pieces,
            ];
            whole.extend(first_lines);
            whole.extend(n_lines);
            whole.extend([noisy, scenario.seed as u32, (scenario.seed >> 32) as u32]);
            put(&mut tables.whole, n, lane, &whole);
        }
        Some(tables)
    }

    fn push_pieces(&mut self, block: &Block<'_>, lane: usize) -> u32 {
        let pieces = block.lanes[lane].road.pieces();
        for piece in pieces {
            self.pieces.extend([
                piece.start,
                piece.length,
                piece.curvature,
                piece.curvature_rate,
                piece.grade.sin(),
                piece.bank,
            ]);
        }
        pieces.len() as u32
    }

    fn push_lines(&mut self, profile: Option<&Profile>, absent: f64) -> u32 {
        let constant = Profile::constant(absent);
        let lines = profile.unwrap_or(&constant).lines();
        for (from, line) in &lines {
            self.lines
                .extend([*from, line.value, line.slope, line.start]);
        }
        lines.len() as u32
    }
}

/// Writes one lane's fields into a table `[field][lane]`.
fn put<T: Copy + Default>(table: &mut Vec<T>, n: usize, lane: usize, fields: &[T]) {
    table.resize(n * fields.len(), T::default());
    for (field, &value) in fields.iter().enumerate() {
        table[field * n + lane] = value;
    }
}

/// Planner and controller, in the order of `sim::Setting`.
pub(super) fn settings(planner: &PlannerConfig, control: &CudaControl) -> Vec<f32> {
    let interface = match control.steer.unwrap_or(SteerInterface::Curvature) {
        SteerInterface::Angle => 0.0,
        SteerInterface::Torque => 1.0,
        SteerInterface::Curvature => 2.0,
    };
    let flag = |on: bool| if on { 1.0 } else { 0.0 };
    let mut settings = vec![
        planner.path_frequency as f32,
        (1.0 / planner.path_length) as f32,
        (2.0 * planner.path_damping) as f32,
        planner.approach_angle as f32,
        planner.preview_s as f32,
        interface,
        flag(control.steer.is_some()),
        flag(control.controls_speed),
    ];
    settings.extend(&control.parameters);
    settings
}

#[cfg(test)]
mod tests {
    use crate::run::tables::FixedLane;
    use crate::vehicle::{Actuator, Parameters};

    /// The header's list of fields is this module's.
    #[test]
    fn cars_have_the_same_fields_on_both_sides() {
        let header = include_str!("../../../kernels/vehicles.cuh");
        let (_, body) = header.split_once("struct Car {").expect("the structure");
        let (body, _) = body.split_once("__device__").expect("its end");
        let fields: Vec<&str> = body
            .split(';')
            .flat_map(|line| line.trim().trim_start_matches("float").split(','))
            .map(str::trim)
            .filter(|field| !field.is_empty())
            .collect();
        let own = [
            "accel_min",
            "accel_max",
            "slip_factor",
            "degrees_per_curvature",
        ];
        let lists = [
            Parameters::<f32>::NAMES,
            Actuator::<f32>::NAMES,
            FixedLane::<f32>::NAMES,
            &own,
        ];
        // Two structures have an `acceleration_max`; the header tells them apart.
        let want = lists.concat();
        assert_eq!(fields.len(), want.len());
        for (field, want) in fields.iter().zip(want) {
            assert!(field.ends_with(want), "{field} is not {want}");
        }
    }
}
