//! One step of actuators and vehicle, all lanes.

use super::cars::Cars;
use super::course::Course;
use super::tables::{FixedLane, MotionLane, RoadLane};
use crate::control::{ActionBatch, StateBatch};
use crate::integrate::{Euler, Integrator, Rk4, Road, Rule};
use crate::real::{Column, Kernel, Lanes, Real};
use crate::vehicle::{
    Actuator, ActuatorBatch, Direction, DriftSingleTrack, DynamicSingleTrack, Dynamics, GRAVITY,
    KinematicSingleTrack, Parameters, SteerInterface, VehicleModel, limited_steering_rate,
    path_curvature,
};

/// A state variable beyond this is no longer a car on a road.
pub(super) const LARGEST_STATE: f32 = 1e7;

/// What the loop must look after, lane by lane.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Events {
    pub(super) state_not_finite: bool,
    pub(super) piece_left: bool,
    pub(super) line_ended: bool,
    /// Some car turns less than its wheels, for lack of grip.
    pub(super) slips: bool,
}

/// What safety code lets through of steering torques, all lanes.
pub(super) struct LimitTorque<'a> {
    pub(super) actuators: &'a ActuatorBatch<f32>,
    pub(super) action: &'a ActionBatch,
    /// What was let through last, and then what is let through now.
    pub(super) torque: &'a mut Column<f32>,
    /// Is told whether its command was cut.
    pub(super) state: &'a mut StateBatch,
}

/// Share of full torque by which a command must be cut for the controller to be told; openpilot's.
const CUT: f64 = 1e-2;

impl Kernel for LimitTorque<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        for first in (0..self.action.n_lanes()).step_by(L::N) {
            let actuator = self.actuators.load::<L>(first);
            let command = L::load(&self.action.steer, first);
            let given = actuator.limited_torque(command, L::load(self.torque, first));
            given.store(self.torque, first);
            let is_cut = (given - command).abs().gt(L::splat(CUT));
            L::select(is_cut, L::one(), L::zero())
                .store(&mut self.state.steer_limited_by_safety, first);
        }
    }
}

/// The step as a kernel.
pub(super) struct Drive<'a> {
    pub(super) cars: &'a mut Cars,
    pub(super) course: &'a Course,
    pub(super) action: &'a ActionBatch,
    pub(super) preview_s: f64,
    pub(super) step_idx: usize,
}

impl Drive<'_> {
    #[inline(always)]
    fn model<L: Lanes<Elem = f32>, M: Dynamics<N>, const N: usize>(self) -> Events {
        match self.cars.integrator {
            Integrator::Rk4 => self.all::<L, M, Rk4, N>(),
            Integrator::Euler | Integrator::ExactArc => self.all::<L, M, Euler, N>(),
        }
    }

    #[inline(always)]
    fn all<L: Lanes<Elem = f32>, M: Dynamics<N>, S: Rule, const N: usize>(self) -> Events {
        let Self {
            cars,
            course,
            action,
            ..
        } = self;
        let interface = cars.interface;
        let slipped = cars.slipped;
        let preview_s = L::splat(self.preview_s);
        // Not a sum of steps: its rounding would grow to a step within a minute.
        let steps_done = L::splat((self.step_idx + 1) as f64);
        let (zero, half) = (L::zero(), L::splat(0.5));
        let mut events = Events::default();
        for first in (0..cars.fixed.n_lanes()).step_by(L::N) {
            let p = cars.parameters.load::<L>(first);
            let actuator = cars.actuators.load::<L>(first);
            let fixed = cars.fixed.load::<L>(first);
            let road = course.road.load::<L>(first);
            let mut motion = cars.motion.load::<L>(first);
            let x = cars.vehicle.load::<L, N>(first);
            let given = match interface {
                SteerInterface::Torque => &cars.torque,
                SteerInterface::Angle | SteerInterface::Curvature => &action.steer,
            };
            let arriving = [
                L::load(cars.steer_delay.arriving(given), first),
                L::load(cars.accel_delay.arriving(&action.accel), first),
            ];
            let alive = motion.alive.gt(half);
            // No closure: it would not be inlined into the vector code.
            let slips = if slipped {
                Some(L::load(&cars.slip_curvature, first).abs().gt(zero))
            } else {
                None
            };

            motion.applied = settled(actuator.acceleration(arriving[1], motion.applied));
            let wind = wind(&fixed, x[3]);
            let resistance = L::splat(GRAVITY) * road.grade + wind.drag;
            let acceleration = motion.applied - resistance;
            let next = step::<L, M, S, N>(
                interface,
                &p,
                &actuator,
                &fixed,
                &road,
                wind.side_push,
                &motion,
                x,
                slips,
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
            cars.vehicle.store(first, shown);

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
            if N == 5 {
                let demand = motion.lateral_acceleration.squared() + motion.acceleration.squared();
                let beyond = demand.gt(fixed.grip_squared);
                let any_beyond = L::any(beyond);
                if any_beyond | slipped {
                    limit_to_grip(&mut motion, &fixed, v, beyond)
                        .store(&mut cars.slip_curvature, first);
                }
                events.slips |= any_beyond;
            }
            cars.motion.store(first, motion);

            let preview = course.preview.load::<L>(first);
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

impl Kernel for Drive<'_> {
    type Elem = f32;
    type Output = Events;

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) -> Events {
        match self.cars.model {
            VehicleModel::Kinematic | VehicleModel::KinematicTrailer => {
                self.model::<L, KinematicSingleTrack, 5>()
            }
            VehicleModel::SingleTrack => self.model::<L, DynamicSingleTrack, 7>(),
            VehicleModel::Drift => self.model::<L, DriftSingleTrack, 9>(),
        }
    }
}

/// Keeps a car without tyres within its friction circle, `a_x^2 + a_y^2 <= (mu g)^2`: braking and
/// accelerating come first, the rest is left for turning. Returns the curvature that is lost.
#[inline(always)]
fn limit_to_grip<L: Lanes<Elem = f32>>(
    motion: &mut MotionLane<L>,
    fixed: &FixedLane<L>,
    v: L,
    beyond: L::Mask,
) -> L {
    let steered = motion.curvature;
    let room = (fixed.grip_squared - motion.acceleration.squared()).maximum(L::zero());
    let most = room.sqrt() / (v * v).maximum(L::splat(1e-3));
    motion.curvature = L::select(beyond, steered.clamp(-most, most), steered);
    motion.yaw_rate = v * motion.curvature;
    motion.lateral_acceleration = settled(v * motion.yaw_rate);
    steered - motion.curvature
}

/// What the relative wind does to a car, m/s^2.
struct Wind<L> {
    /// Deceleration beyond that of still air, which is the powertrain's to overcome.
    drag: L,
    /// Acceleration to the left.
    side_push: L,
}

/// Force of the air that meets a car from ahead at `v + headwind` and from the right at
/// `crosswind`: density/2 c A V^2 along the relative wind's parts, of which one is
/// V (v + headwind), the other V crosswind.
///
/// Source: Mitschke, Wallentowitz, *Dynamik der Kraftfahrzeuge* (2004), `F = c(angle) A density/2 V^2`, with a
/// coefficient of side force that grows as the sine of the angle and one of drag as its cosine.
/// No yawing moment, and no gusts.
#[inline(always)]
fn wind<L: Real>(fixed: &FixedLane<L>, v: L) -> Wind<L> {
    let air = v + fixed.headwind;
    let airspeed = (air * air + fixed.crosswind * fixed.crosswind).sqrt();
    Wind {
        // Exactly 0 in still air: the root of a square is exact.
        drag: fixed.drag * (airspeed * air - v * v.abs()),
        side_push: fixed.side_force * airspeed * fixed.crosswind,
    }
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
    side_push: L,
    motion: &MotionLane<L>,
    x: [L; N],
    slips: Option<L::Mask>,
    steer_command: L,
    acceleration: L,
) -> [L; N] {
    let zero = L::zero();
    let mut sideways = L::splat(GRAVITY) * road.bank;
    if N >= 7 {
        // Kinematic models do not feel the wind.
        sideways = sideways - side_push;
    }
    let dt = fixed.dt;
    let rate = actuator.steering_rate(p, interface, steer_command, x[2], x[3], sideways, dt);
    let frame = Road {
        curvature: road.curvature,
        curvature_rate: road.curvature_rate,
    };
    // The sensors have just looked along the heading; the last step ended with this steering angle.
    let mut direction = Direction {
        sin_heading: motion.sin_heading,
        cos_heading: motion.cos_heading,
        path_curvature: motion.curvature,
    };
    let (mut from, mut u) = (x, [rate, acceleration]);
    if let Some(slips) = slips
        && N == 5
    {
        // At the limit of its grip a car turns as if its wheels were turned no further.
        from[2] = L::select(slips, (motion.curvature * p.wheelbase()).atan(), x[2]);
        u[0] = L::select(slips, zero, rate);
        let driven = path_curvature(p, from[2]);
        direction.path_curvature = L::select(slips, driven, motion.curvature);
    }
    let mut next = S::step_toward::<L, M, _, N>(frame, p, from, u, dt, &direction);
    if let Some(slips) = slips
        && N == 5
    {
        let steer = x[2] + dt * limited_steering_rate(p, x[2], rate);
        next[2] = L::select(slips, steer, next[2]);
    }
    // Brakes hold a car that has stopped.
    next[3] = next[3].maximum(zero);
    if N >= 7 {
        // Bank and crosswind push sideways; a kinematic model has no tyres to give way.
        let push = side_push - L::splat(GRAVITY) * road.bank;
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
