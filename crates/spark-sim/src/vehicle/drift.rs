//! Single-track drift model (STD): Pacejka tyres and two wheel speeds.
//!
//! ```text
//! w = (tanh((v - 0.2) / 0.05) + 1) / 2
//! x' = w * (tyre forces) + (1 - w) * (kinematic about the centre of gravity)
//! wheel' = (-R F_x + brake and engine torque) / I_w      or (v_wheel / R - wheel) / 0.02 s
//! ```
//!
//! Tyre slips and the slip rate are zero below 0.1 m/s. A negative wheel speed is
//! held and treated as zero. Needs steps of 1 ms or less.

use super::single_track::kinematic_about_centre;
use super::{
    Dynamics, GRAVITY, N_INPUTS, Parameters, Tyre, limited_acceleration, limited_steering_rate,
};
use crate::real::Real;

/// Centre of the blend between the kinematic and the dynamic model, m/s.
const BLEND_SPEED: f64 = 0.2;
/// Width of the blend, m/s.
const BLEND_WIDTH: f64 = 0.05;
/// Time in which a wheel takes up the road's speed near standstill, s.
const WHEEL_RELAXATION_S: f64 = 0.02;

/// Single-track drift model, reference point at the centre of gravity.
#[derive(Debug, Clone, Copy)]
pub struct DriftSingleTrack;

impl Dynamics<9> for DriftSingleTrack {
    #[inline(always)]
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; 9], u: [R; N_INPUTS]) -> [R; 9] {
        let [
            _,
            _,
            steer,
            speed,
            heading,
            yaw_rate,
            slip,
            wheel_front,
            wheel_rear,
        ] = *x;
        let u = [
            limited_steering_rate(p, steer, u[0]),
            limited_acceleration(p, speed, u[1]),
        ];
        let zero = R::zero();
        let slowest = R::splat(BLEND_SPEED / 2.0);
        let rolling = speed.gt(slowest);
        let (a, b, radius) = (p.front_axle, p.rear_axle, p.wheel_radius);
        let (sin_slip, cos_slip) = slip.sin_cos();
        let (sin_steer, cos_steer) = steer.sin_cos();
        let (forward, sideways) = (speed * cos_slip, speed * sin_slip);

        let divisor = R::select(rolling, forward, R::one());
        let course_front = ((sideways + yaw_rate * a) / divisor).atan();
        let course_rear = ((sideways - yaw_rate * b) / divisor).atan();
        let alpha_front = R::select(rolling, course_front - steer, zero);
        let alpha_rear = R::select(rolling, course_rear, zero);

        let g = R::splat(GRAVITY);
        let load_front = p.mass * (g * b - u[1] * p.cog_height) / p.wheelbase();
        let load_rear = p.mass * (g * a + u[1] * p.cog_height) / p.wheelbase();

        let ground_front =
            (forward * cos_steer + (sideways + a * yaw_rate) * sin_steer).maximum(zero);
        let ground_rear = forward.maximum(zero);
        let kappa_front = R::one() - radius * wheel_front / ground_front.maximum(slowest);
        let kappa_rear = R::one() - radius * wheel_rear / ground_rear.maximum(slowest);

        let tyre = Tyre::COMMONROAD;
        let (fx_front, fy_front) = tyre.forces(kappa_front, alpha_front, load_front);
        let (fx_rear, fy_rear) = tyre.forces(kappa_rear, alpha_rear, load_rear);
        let (grip_fx_front, grip_fx_rear) = (fx_front * p.grip, fx_rear * p.grip);
        let (grip_fy_front, grip_fy_rear) = (fy_front * p.grip, fy_rear * p.grip);

        let (sin_front, cos_front) = (steer - slip).sin_cos();
        let speed_rate = (grip_fy_rear * sin_slip + grip_fx_rear * cos_slip
            - grip_fy_front * sin_front
            + grip_fx_front * cos_front)
            / p.mass;
        let yaw_acceleration = (grip_fy_front * cos_steer * a - grip_fy_rear * b
            + grip_fx_front * sin_steer * a)
            / p.yaw_inertia;
        let safe_speed = R::select(rolling, speed, R::one());
        let slip_rate = R::select(
            rolling,
            (grip_fy_front * cos_front + grip_fy_rear * cos_slip - grip_fx_rear * sin_slip
                + grip_fx_front * sin_front)
                / (p.mass * safe_speed)
                - yaw_rate,
            zero,
        );

        let torque = p.mass * radius * u[1];
        let braking = torque.minimum(zero);
        let driving = torque.maximum(zero);
        let one = R::one();
        let torque_front = p.brake_front * braking + p.engine_front * driving;
        let torque_rear = (one - p.brake_front) * braking + (one - p.engine_front) * driving;
        let front_rate = wheel_rate(p, wheel_front, torque_front, grip_fx_front);
        let rear_rate = wheel_rate(p, wheel_rear, torque_rear, grip_fx_rear);

        let low = kinematic_about_centre(p, x, u);
        let relaxation = R::splat(WHEEL_RELAXATION_S);
        let relax_front = (ground_front / radius - wheel_front.maximum(zero)) / relaxation;
        let relax_rear = (ground_rear / radius - wheel_rear.maximum(zero)) / relaxation;
        let weight = R::splat(0.5)
            * (((speed - R::splat(BLEND_SPEED)) / R::splat(BLEND_WIDTH)).tanh() + one);
        let (sin_course, cos_course) = (slip + heading).sin_cos();
        [
            speed * cos_course,
            speed * sin_course,
            u[0],
            blend(weight, speed_rate, u[1]),
            blend(weight, yaw_rate, low.yaw_rate),
            blend(weight, yaw_acceleration, low.yaw_acceleration),
            blend(weight, slip_rate, low.slip_rate),
            blend(weight, front_rate, relax_front),
            blend(weight, rear_rate, relax_rear),
        ]
    }
}

/// Angular acceleration of an axle's wheels, rad/s^2; a wheel turning backwards is held.
#[inline(always)]
fn wheel_rate<R: Real>(p: &Parameters<R>, wheel: R, torque: R, force: R) -> R {
    let rate = (torque - p.wheel_radius * force) / p.wheel_inertia;
    R::select(wheel.ge(R::zero()), rate, R::zero())
}

#[inline(always)]
fn blend<R: Real>(weight: R, dynamic: R, kinematic: R) -> R {
    weight * dynamic + (R::one() - weight) * kinematic
}
