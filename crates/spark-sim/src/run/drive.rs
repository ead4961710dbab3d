//! One step of actuators, vehicle and metrics, all lanes.

use super::block::{Block, FixedLane, RoadLane};
use crate::columns::lane_tiles;
use crate::integrate::{Euler, Integrator, Rk4, Road, Rule};
use crate::metric::{Extremes, Sums};
use crate::real::{Kernel, Lanes, Real};
use crate::vehicle::{
    Actuator, DriftSingleTrack, DynamicSingleTrack, Dynamics, GRAVITY, KinematicSingleTrack,
    Parameters, SteerInterface, VehicleModel,
};

/// A state variable beyond this is no longer a car on a road.
pub(super) const LARGEST_STATE: f32 = 1e7;

/// Comfort: largest lateral acceleration (m/s^2) and jerk (m/s^3), openpilot and ISO 11270.
const COMFORT_LATERAL: f64 = 3.0;
const COMFORT_JERK: f64 = 5.0;
/// Limit of a curvature command, 1/m.
const CURVATURE_LIMIT: f64 = 0.2;

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
        curvature,
        yaw_rate,
        lateral_acceleration,
        steer_rate,
        desired_curvature,
        offset_target,
        steer_command,
        accel_command,
        /// 0 on the first step: there is no rate of change yet.
        has_last,
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
        for first in (0..block.fixed.n_padded()).step_by(L::N) {
            let p = block.parameters.load::<L>(first);
            let actuator = block.actuators.load::<L>(first);
            let fixed = block.fixed.load::<L>(first);
            let road = block.road.load::<L>(first);
            let mut motion = block.motion.load::<L>(first);
            let x = block.vehicle.load::<L, N>(first);
            let arriving = [
                L::load(&block.arriving_steer, first),
                L::load(&block.arriving_accel, first),
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
                x,
                arriving[0],
                acceleration,
            );

            let dt = fixed.dt;
            let mut shown = x;
            let mut finite = alive | !alive;
            for i in 0..N {
                shown[i] = L::select(alive, next[i], x[i]);
                finite = finite & shown[i].abs().lt(L::splat(f64::from(LARGEST_STATE)));
            }
            block.vehicle.store(first, shown);

            let last = motion;
            let v = next[3];
            motion.acceleration = (v - x[3]) * fixed.per_second;
            motion.steer_rate = (next[2] - x[2]) * fixed.per_second;
            if N == 5 {
                let (sin, cos) = next[2].sin_cos();
                motion.curvature = sin / (cos * p.wheelbase());
                motion.yaw_rate = v * motion.curvature;
            } else {
                motion.yaw_rate = next[5];
                motion.curvature = motion.yaw_rate / v.maximum(L::one());
            }
            motion.lateral_acceleration = v * motion.yaw_rate;
            motion.steer_command = L::load(&block.action.steer, first);
            motion.accel_command = L::load(&block.action.accel, first);
            motion.has_last = L::one();

            let score = Score {
                interface,
                alive,
                fixed: &fixed,
                offset: next[1] - motion.offset_target,
                place: next[1],
                heading: next[4],
                v,
                v_target: L::load(&block.state.v_target, first),
                saturated: L::load(&block.action.saturated, first),
                last: &last,
                now: &motion,
            };
            score.sum(&mut block.accumulator.sums, first);
            score.extremes(&mut block.accumulator.extremes, first);
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
    let mut next = S::step::<L, M, _, N>(frame, p, x, [rate, acceleration], fixed.dt);
    // Brakes hold a car that has stopped.
    next[3] = next[3].maximum(zero);
    if N >= 7 {
        // Bank and crosswind push sideways; a kinematic model has no tyres to give way.
        let push = fixed.crosswind_push - L::splat(GRAVITY) * road.bank;
        let slipping = next[3].gt(L::one());
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
fn settled<L: Real>(x: L) -> L {
    L::select(x.abs().lt(L::splat(1e-9)), L::zero(), x)
}

/// One register of lanes' contribution to the metrics of this step.
struct Score<'a, L: Real> {
    interface: SteerInterface,
    alive: L::Mask,
    fixed: &'a FixedLane<L>,
    offset: L,
    place: L,
    heading: L,
    v: L,
    v_target: L,
    saturated: L,
    last: &'a MotionLane<L>,
    now: &'a MotionLane<L>,
}

impl<L: Lanes<Elem = f32>> Score<'_, L> {
    /// Rates of change per second: steering command, acceleration command, lateral and longitudinal acceleration.
    #[inline(always)]
    fn rates(&self) -> [L; 4] {
        let per_second = self.last.has_last * self.fixed.per_second;
        [
            (self.now.steer_command - self.last.steer_command) * per_second,
            (self.now.accel_command - self.last.accel_command) * per_second,
            (self.now.lateral_acceleration - self.last.lateral_acceleration) * per_second,
            (self.now.acceleration - self.last.acceleration) * per_second,
        ]
    }

    /// `sum` plus `value` in running lanes.
    #[inline(always)]
    fn add(&self, sum: L, value: L) -> L {
        sum + L::select(self.alive, value, L::zero())
    }

    /// 1 in running lanes where the mask holds.
    #[inline(always)]
    fn count(&self, mask: L::Mask) -> L {
        L::select(mask & self.alive, L::one(), L::zero())
    }

    /// The larger value in running lanes.
    #[inline(always)]
    fn most(&self, old: L, value: L) -> L {
        L::select(self.alive & value.gt(old), value, old)
    }

    #[inline(always)]
    fn sum(&self, sums: &mut Sums, first: usize) {
        let [steer_rate, accel_rate, lateral_jerk, jerk] = self.rates();
        let now = self.now;
        let c = L::splat;
        let uncomfortable = now.lateral_acceleration.abs().gt(c(COMFORT_LATERAL))
            | lateral_jerk.abs().gt(c(COMFORT_JERK))
            | jerk.abs().gt(c(COMFORT_JERK))
            | now.acceleration.gt(c(2.0))
            | now.acceleration.lt(c(-3.5));
        let off_lane = (self.offset.abs() + self.fixed.half_width).gt(self.fixed.half_lane);
        let off_road = self.place.gt(self.fixed.left_edge) | self.place.lt(self.fixed.right_edge);

        let mut s = sums.load::<L>(first);
        s.steps = self.add(s.steps, L::one());
        s.rate_steps = self.add(s.rate_steps, self.last.has_last);
        s.offset_squared = self.add(s.offset_squared, self.offset.squared());
        s.offset_size = self.add(s.offset_size, self.offset.abs());
        s.heading_squared = self.add(s.heading_squared, self.heading.squared());
        s.speed_squared = self.add(s.speed_squared, (self.v_target - self.v).squared());
        let curvature_error = now.desired_curvature - now.curvature;
        s.curvature_squared = self.add(s.curvature_squared, curvature_error.squared());
        s.steer = self.add(s.steer, now.steer_command);
        s.steer_squared = self.add(s.steer_squared, now.steer_command.squared());
        s.steer_rate_squared = self.add(s.steer_rate_squared, steer_rate.squared());
        s.accel_rate_squared = self.add(s.accel_rate_squared, accel_rate.squared());
        s.lateral_jerk_squared = self.add(s.lateral_jerk_squared, lateral_jerk.squared());
        s.acceleration_squared = self.add(s.acceleration_squared, now.acceleration.squared());
        s.jerk_squared = self.add(s.jerk_squared, jerk.squared());
        s.uncomfortable = s.uncomfortable + self.count(uncomfortable);
        s.saturated = s.saturated + self.count(self.saturated.gt(L::splat(0.5)));
        s.off_lane = s.off_lane + self.count(off_lane);
        s.off_road = s.off_road + self.count(off_road);
        sums.store(first, s);
    }

    #[inline(always)]
    fn extremes(&self, extremes: &mut Extremes, first: usize) {
        let [_, _, lateral_jerk, jerk] = self.rates();
        let now = self.now;
        let limit = match self.interface {
            SteerInterface::Curvature => CURVATURE_LIMIT,
            SteerInterface::Angle | SteerInterface::Torque => 1.0,
        };
        let mut e = extremes.load::<L>(first);
        e.offset = self.most(e.offset, self.offset.abs());
        e.lateral_acceleration = self.most(e.lateral_acceleration, now.lateral_acceleration.abs());
        e.lateral_jerk = self.most(e.lateral_jerk, lateral_jerk.abs());
        e.deceleration = self.most(e.deceleration, -now.acceleration);
        e.jerk = self.most(e.jerk, jerk.abs());
        let margin = L::splat(limit) - now.steer_command.abs();
        e.margin = L::select(self.alive & margin.lt(e.margin), margin, e.margin);
        extremes.store(first, e);
    }
}
