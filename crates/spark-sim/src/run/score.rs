//! What one step adds to the metrics, all lanes.

use super::cars::Cars;
use super::drive::settled;
use super::tables::{FixedLane, MotionLane};
use crate::columns::lane_tiles;
use crate::control::{ActionBatch, StateBatch};
use crate::metric::{Accumulator, Extremes, Sums};
use crate::real::{Kernel, Lanes};
use crate::vehicle::SteerInterface;

/// Comfort: largest lateral acceleration (m/s^2) and jerk (m/s^3), openpilot and ISO 11270.
const COMFORT_LATERAL: f64 = 3.0;
const COMFORT_JERK: f64 = 5.0;
/// Share of the squared radius of the friction circle from which on a car is at its limit.
const GRIP_LIMIT: f64 = 0.999;
/// Limit of a curvature command, 1/m.
const CURVATURE_LIMIT: f64 = 0.2;

lane_tiles! {
    /// What changes at a rate that counts.
    pub(super) struct LastLane;
    /// Values of the step before, many lanes.
    pub(super) struct LastLanes;
    {
        steer_command,
        accel_command,
        lateral_acceleration,
        acceleration,
        /// 0 on the first step: there is no rate of change yet.
        exists,
    }
}

/// Adding up as a kernel, after [`super::drive::Drive`].
pub(super) struct Score<'a> {
    pub(super) cars: &'a Cars,
    pub(super) state: &'a StateBatch,
    pub(super) action: &'a ActionBatch,
    pub(super) last: &'a mut LastLanes,
    pub(super) accumulator: &'a mut Accumulator,
}

impl Kernel for Score<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let Self { cars, last, .. } = self;
        let steer_limit = L::splat(match cars.interface {
            SteerInterface::Curvature => CURVATURE_LIMIT,
            SteerInterface::Angle | SteerInterface::Torque => 1.0,
        });
        for first in (0..cars.fixed.n_lanes()).step_by(L::N) {
            let motion = cars.motion.load::<L>(first);
            let fixed = cars.fixed.load::<L>(first);
            let [_, place, _, v, heading] = cars.vehicle.load::<L, 5>(first);
            let before = last.load::<L>(first);
            let now = LastLane {
                steer_command: settled(L::load(&self.action.steer, first)),
                accel_command: settled(L::load(&self.action.accel, first)),
                lateral_acceleration: motion.lateral_acceleration,
                acceleration: motion.acceleration,
                exists: L::one(),
            };
            last.store(first, now);
            let per_second = before.exists * fixed.per_second;
            let step = Step {
                alive: motion.alive.gt(L::splat(0.5)),
                fixed: &fixed,
                motion: &motion,
                offset: place - motion.offset_target,
                place,
                heading,
                v,
                v_target: L::load(&self.state.v_target, first),
                saturated: L::load(&self.action.saturated, first),
                steer_command: now.steer_command,
                steer_rate: (now.steer_command - before.steer_command) * per_second,
                accel_rate: (now.accel_command - before.accel_command) * per_second,
                lateral_jerk: (now.lateral_acceleration - before.lateral_acceleration) * per_second,
                jerk: (now.acceleration - before.acceleration) * per_second,
                has_rates: before.exists,
            };
            step.sum(&mut self.accumulator.sums, first);
            step.extremes(steer_limit, &mut self.accumulator.extremes, first);
        }
    }
}

/// One register of lanes, one step.
struct Step<'a, L: Lanes> {
    alive: L::Mask,
    fixed: &'a FixedLane<L>,
    motion: &'a MotionLane<L>,
    offset: L,
    place: L,
    heading: L,
    v: L,
    v_target: L,
    saturated: L,
    steer_command: L,
    steer_rate: L,
    accel_rate: L,
    lateral_jerk: L,
    jerk: L,
    has_rates: L,
}

impl<L: Lanes<Elem = f32>> Step<'_, L> {
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
        let now = self.motion;
        let c = L::splat;
        let uncomfortable = now.lateral_acceleration.abs().gt(c(COMFORT_LATERAL))
            | self.lateral_jerk.abs().gt(c(COMFORT_JERK))
            | self.jerk.abs().gt(c(COMFORT_JERK))
            | now.acceleration.gt(c(2.0))
            | now.acceleration.lt(c(-3.5));
        let off_lane = (self.offset.abs() + self.fixed.half_width).gt(self.fixed.half_lane);
        let off_road = self.place.gt(self.fixed.left_edge) | self.place.lt(self.fixed.right_edge);

        let mut s = sums.load::<L>(first);
        s.steps = self.add(s.steps, L::one());
        s.rate_steps = self.add(s.rate_steps, self.has_rates);
        s.offset_squared = self.add(s.offset_squared, self.offset.squared());
        s.offset_size = self.add(s.offset_size, self.offset.abs());
        s.heading_squared = self.add(s.heading_squared, self.heading.squared());
        s.speed_squared = self.add(s.speed_squared, (self.v_target - self.v).squared());
        let curvature_error = now.desired_curvature - now.curvature;
        s.curvature_squared = self.add(s.curvature_squared, curvature_error.squared());
        s.steer = self.add(s.steer, self.steer_command);
        s.steer_squared = self.add(s.steer_squared, self.steer_command.squared());
        s.steer_rate_squared = self.add(s.steer_rate_squared, self.steer_rate.squared());
        s.accel_rate_squared = self.add(s.accel_rate_squared, self.accel_rate.squared());
        s.lateral_jerk_squared = self.add(s.lateral_jerk_squared, self.lateral_jerk.squared());
        s.acceleration_squared = self.add(s.acceleration_squared, now.acceleration.squared());
        s.jerk_squared = self.add(s.jerk_squared, self.jerk.squared());
        s.uncomfortable = s.uncomfortable + self.count(uncomfortable);
        s.saturated = s.saturated + self.count(self.saturated.gt(L::splat(0.5)));
        s.off_lane = s.off_lane + self.count(off_lane);
        s.off_road = s.off_road + self.count(off_road);
        let demand = now.lateral_acceleration.squared() + now.acceleration.squared();
        let at_grip_limit = demand.ge(c(GRIP_LIMIT) * self.fixed.grip_squared);
        s.at_grip_limit = s.at_grip_limit + self.count(at_grip_limit);
        sums.store(first, s);
    }

    #[inline(always)]
    fn extremes(&self, steer_limit: L, extremes: &mut Extremes, first: usize) {
        let now = self.motion;
        let mut e = extremes.load::<L>(first);
        e.offset = self.most(e.offset, self.offset.abs());
        e.lateral_acceleration = self.most(e.lateral_acceleration, now.lateral_acceleration.abs());
        e.lateral_jerk = self.most(e.lateral_jerk, self.lateral_jerk.abs());
        e.deceleration = self.most(e.deceleration, -now.acceleration);
        e.jerk = self.most(e.jerk, self.jerk.abs());
        let margin = steer_limit - self.steer_command.abs();
        e.margin = L::select(self.alive & margin.lt(e.margin), margin, e.margin);
        extremes.store(first, e);
    }
}
