//! One step of actuators and vehicle, all lanes.

use super::block::{Block, FixedLane, RoadLane};
use crate::columns::lane_tiles;
use crate::integrate::{Euler, Integrator, Rk4, Road, Rule};
use crate::real::{Kernel, Lanes, Real};
use crate::vehicle::{
    Actuator, Direction, DriftSingleTrack, DynamicSingleTrack, Dynamics, GRAVITY,
    KinematicSingleTrack, Parameters, SteerInterface, VehicleModel, path_curvature,
};

/// A state variable beyond this is no longer a car on a road.
pub(super) const LARGEST_STATE: f32 = 1e7;

lane_tiles! {
    /// What a lane's car is doing, beyond its vehicle model's state.
    pub(super) struct MotionLane;
    /// Motion of many lanes.
    pub(super) struct Motion;
    {
        /// 1 while the scenario runs.
        alive,
        acceleration,
        /// Acceleration that the powertrain delivers, m/s^2.
        applied,
        /// Of the path, 1/m. Of kinematic cars exactly [`path_curvature`] of the steering angle.
        curvature,
        /// Sine and cosine of the heading relative to the road.
        sin_heading,
        cos_heading,
        yaw_rate,
        lateral_acceleration,
        steer_rate,
        desired_curvature,
        offset_target,
        lead_present,
        lead_gap,
        lead_speed,
        lead_acceleration,
        /// Time at which the first of the requests' lines ends, s.
        next_line,
    }
}

/// What the loop must look after, lane by lane.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Events {
    pub(super) state_not_finite: bool,
    pub(super) piece_left: bool,
    pub(super) line_ended: bool,
}

/// The step as a kernel.
pub(super) struct Drive<'a, 'b> {
    block: &'a mut Block<'b>,
    step_idx: usize,
}

impl<'a, 'b> Drive<'a, 'b> {
    pub(super) fn new(block: &'a mut Block<'b>, step_idx: usize) -> Self {
        Self { block, step_idx }
    }

    #[inline(always)]
    fn model<L: Lanes<Elem = f32>, M: Dynamics<N>, const N: usize>(self) -> Events {
        match self.block.integrator {
            Integrator::Rk4 => self.all::<L, M, Rk4, N>(),
            Integrator::Euler | Integrator::ExactArc => self.all::<L, M, Euler, N>(),
        }
    }

    #[inline(always)]
    fn all<L: Lanes<Elem = f32>, M: Dynamics<N>, S: Rule, const N: usize>(self) -> Events {
        let block = self.block;
        let interface = block.interface;
        let preview_s = L::splat(block.options.planner.preview_s);
        // Not a sum of steps: its rounding would grow to a step within a minute.
        let steps_done = L::splat((self.step_idx + 1) as f64);
        let (zero, half) = (L::zero(), L::splat(0.5));
        let mut events = Events::default();
        for first in (0..block.fixed.n_lanes()).step_by(L::N) {
            let p = block.parameters.load::<L>(first);
            let actuator = block.actuators.load::<L>(first);
            let fixed = block.fixed.load::<L>(first);
            let road = block.road.load::<L>(first);
            let mut motion = block.motion.load::<L>(first);
            let x = block.vehicle.load::<L, N>(first);
            let arriving = [
                L::load(block.steer_delay.arriving(&block.action.steer), first),
                L::load(block.accel_delay.arriving(&block.action.accel), first),
            ];
            let alive = motion.alive.gt(half);

            motion.applied = settled(actuator.acceleration(arriving[1], motion.applied));
            let acceleration = motion.applied - resistance(&fixed, &road, x[3]);
            let next = step::<L, M, S, N>(
                interface,
                &p,
                &actuator,
                &fixed,
                &road,
                &motion,
                x,
                arriving[0],
                acceleration,
            );

            let dt = fixed.dt;
            let mut shown = x;
            let mut finite = alive;
            for i in 0..N {
                shown[i] = L::select(alive, next[i], x[i]);
                finite = finite & next[i].abs().lt(L::splat(f64::from(LARGEST_STATE)));
            }
            block.vehicle.store(first, shown);

            let v = next[3];
            motion.acceleration = (v - x[3]) * fixed.per_second;
            motion.steer_rate = (next[2] - x[2]) * fixed.per_second;
            if N == 5 {
                motion.curvature = path_curvature(&p, next[2]);
                motion.yaw_rate = v * motion.curvature;
            } else {
                motion.yaw_rate = next[5];
                motion.curvature = motion.yaw_rate / v.maximum(L::one());
            }
            motion.lateral_acceleration = settled(v * motion.yaw_rate);
            block.motion.store(first, motion);

            let preview = block.preview.load::<L>(first);
            let ahead = shown[0] + v * preview_s - preview.ahead;
            let left = shown[0].ge(road.length)
                | shown[0].lt(zero)
                | ahead.ge(preview.length)
                | ahead.lt(zero);
            let soon = dt * steps_done + L::splat(0.25) * dt;
            events.state_not_finite |= L::any(alive & !finite);
            events.piece_left |= L::any(alive & left);
            events.line_ended |= L::any(alive & soon.ge(motion.next_line));
        }
        events
    }
}

impl Kernel for Drive<'_, '_> {
    type Elem = f32;
    type Output = Events;

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) -> Events {
        match self.block.model {
            VehicleModel::Kinematic | VehicleModel::KinematicTrailer => {
                self.model::<L, KinematicSingleTrack, 5>()
            }
            VehicleModel::SingleTrack => self.model::<L, DynamicSingleTrack, 7>(),
            VehicleModel::Drift => self.model::<L, DriftSingleTrack, 9>(),
        }
    }
}

/// Deceleration by grade and by wind beyond still air, m/s^2. Drag in still air is
/// the powertrain's to overcome.
#[inline(always)]
fn resistance<L: Real>(fixed: &FixedLane<L>, road: &RoadLane<L>, v: L) -> L {
    let air = v + fixed.headwind;
    let wind = fixed.headwind_drag * (air * air.abs() - v * v.abs());
    L::splat(GRAVITY) * road.grade + wind
}

/// The next vehicle state from the commands that arrive.
#[allow(
    clippy::too_many_arguments,
    reason = "one call site; a struct would only rename them"
)]
#[inline(always)]
fn step<L: Lanes<Elem = f32>, M: Dynamics<N>, S: Rule, const N: usize>(
    interface: SteerInterface,
    p: &Parameters<L>,
    actuator: &Actuator<L>,
    fixed: &FixedLane<L>,
    road: &RoadLane<L>,
    motion: &MotionLane<L>,
    x: [L; N],
    steer_command: L,
    acceleration: L,
) -> [L; N] {
    let zero = L::zero();
    let rate = actuator.steering_rate(p, interface, steer_command, x[2], x[3]);
    let frame = Road {
        curvature: road.curvature,
        curvature_rate: road.curvature_rate,
    };
    // The sensors have just looked along the heading; the last step ended with this steering angle.
    let direction = Direction {
        sin_heading: motion.sin_heading,
        cos_heading: motion.cos_heading,
        path_curvature: motion.curvature,
    };
    let u = [rate, acceleration];
    let mut next = S::step_toward::<L, M, _, N>(frame, p, x, u, fixed.dt, &direction);
    // Brakes hold a car that has stopped.
    next[3] = next[3].maximum(zero);
    if N >= 7 {
        // Bank and crosswind push sideways; a kinematic model has no tyres to give way.
        let push = fixed.crosswind_push - L::splat(GRAVITY) * road.bank;
        let slipping = next[3].gt(L::one()) & next[3].ge(p.kinematic_below);
        let slip = next[6] + fixed.dt * push / next[3].maximum(L::one());
        next[6] = L::select(slipping, slip, next[6]);
    }
    if N >= 9 {
        next[7] = next[7].maximum(zero);
        next[8] = next[8].maximum(zero);
    }
    for value in &mut next {
        *value = settled(*value);
    }
    next
}

/// Zero for what is below a nanometre, a nanoradian or the like.
///
/// What decays would otherwise reach subnormal numbers, with which many CPUs calculate a
/// hundred times slower; its square gets there even sooner.
#[inline(always)]
pub(super) fn settled<L: Real>(x: L) -> L {
    L::select(x.abs().lt(L::splat(1e-9)), L::zero(), x)
}
