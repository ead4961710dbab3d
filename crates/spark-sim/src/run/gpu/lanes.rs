//! A block's scenarios as the tables that kernels read; `kernels/rollout.cuh` says what is where.

use super::super::block::Block;
use super::super::perception::bias;
use super::super::tables::lane_setup;
use super::super::traffic::outline;
use super::actors::Actors;
use super::lines::Lines;
use crate::control::planner::PlannerConfig;
use crate::control::{CudaControl, LaneSetup};
use crate::profile::Profile;
use crate::vehicle::SteerInterface;

/// State variables of the largest model.
const N_STATES_MOST: usize = 9;
/// Channels that can be noisy: those of the road and the car itself, and then those of the car ahead.
const N_NOISY: usize = 7;
const N_NOISY_OF_LEAD: usize = 3;

/// Tables `[field][lane]` of a block.
pub(super) struct Tables {
    pub(super) cars: Vec<f32>,
    pub(super) exact: Vec<f64>,
    pub(super) whole: Vec<u32>,
    pub(super) pieces: Vec<f64>,
    pub(super) lines: Lines,
    /// Other road users; none of the lanes has some if absent.
    pub(super) actors: Option<Actors>,
    /// Rows of the ring of commands and requests: the longest delay, or memory of requests, and one.
    pub(super) n_rows: usize,
    /// Rings of that many rows: of steering, of acceleration, and of requests that a controller remembers.
    pub(super) n_rings: usize,
}

/// Fields of one lane in the order of `sim::Car`, then its start. What a controller knows of the car follows.
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
    pub(super) fn new(block: &Block<'_>, control: &CudaControl) -> Option<Self> {
        let n = block.lanes.len();
        let mut tables = Self {
            cars: Vec::new(),
            exact: Vec::new(),
            whole: Vec::new(),
            pieces: Vec::new(),
            lines: Lines::default(),
            actors: None,
            n_rows: 1,
            n_rings: if control.torque.is_some() { 3 } else { 2 },
        };
        if block
            .lanes
            .iter()
            .any(|lane| !lane.scenario.actors.is_empty())
        {
            tables.actors = Some(Actors::new(block.lanes, &mut tables.lines)?);
        }
        let n_noisy = match &tables.actors {
            Some(_) => N_NOISY + N_NOISY_OF_LEAD,
            None => N_NOISY,
        };
        for (lane, prepared) in block.lanes.iter().enumerate() {
            let scenario = prepared.scenario;
            let setup = lane_setup(scenario);
            let mut car = car(block, lane, &setup);
            if let Some(torque) = &control.torque {
                let (figures, n_remembered) = torque.device_figures(&setup);
                car.extend(figures);
                tables.n_rows = tables.n_rows.max(n_remembered);
            }
            put(&mut tables.cars, n, lane, &car);

            let noise = scenario.environment.noise.channels();
            let (mut exact, mut noisy) = (vec![scenario.dt_s], 0);
            for (channel, (_, own)) in noise.iter().enumerate().take(n_noisy) {
                exact.extend([bias(own, channel, scenario.seed), own.white_sd]);
                noisy |= u32::from(!own.is_none()) << channel;
            }
            if tables.actors.is_some() {
                let (shape, to_centre) = outline(scenario);
                let lane_width = prepared.road.lane_width();
                exact.extend([shape.length, shape.width, to_centre, lane_width]);
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
                let constant = Profile::constant(absent);
                let profile = profile.as_ref().unwrap_or(&constant);
                [first_lines[i], n_lines[i]] = tables.lines.push_profile(profile)?;
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
            if let Some(actors) = &tables.actors {
                // At most 256.
                whole.extend([scenario.actors.len() as u32, actors.ranks[lane]]);
            }
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
        planner.personality.time_gap() as f32,
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
