//! Dynamic single-track model (ST): linear tyres, load transfer, no longitudinal slip.
//!
//! ```text
//! Ff = C_f (g b - a_x h)    Fr = C_r (g a + a_x h)          axle stiffness per unit friction and mass
//! r'    = mu m / (I l) (a Ff steer + (b Fr - a Ff) beta - (a^2 Ff + b^2 Fr) r / v)
//! beta' = mu / (v l) (Ff steer - (Fr + Ff) beta + (b Fr - a Ff) r / v) - r
//! |v| < 0.1 m/s: the kinematic model about the centre of gravity; see `slowest_slip`
//! ```
//!
//! The low-speed slip rate carries `(b/l tan^2 steer)^2` where differentiating
//! `beta = atan(b/l tan steer)` gives `(b/l tan steer)^2`; the published code has the
//! former, and parity with it is tested.

use super::model::KINEMATIC_BELOW;
use super::{
    Dynamics, GRAVITY, N_INPUTS, Parameters, VehicleParameters, limited_acceleration,
    limited_steering_rate,
};
use crate::real::Real;

/// Speed, m/s, above which linear tyres can be stepped: from it on, the fastest decay of yaw
/// rate and slip in one step of `dt` s is at most `most_decay`; at least 0.1.
///
/// Tyres pull yaw rate and slip to their steady state at rates `l / v`. A step of an explicit
/// rule longer than `c v / l` (`c` is 2.8 for RK4, 2 for Euler) throws them beyond it, further
/// each time: at 10 ms a car with good tyres that creeps at 0.7 m/s spins within a second.
///
/// `l` is the larger eigenvalue of the equations in the module's header without the terms that
/// do not grow as `v` falls, and without load transfer.
pub fn slowest_slip(vehicle: &VehicleParameters, dt: f64, most_decay: f64) -> f64 {
    let (a, b) = (vehicle.front_axle, vehicle.rear_axle);
    let length = vehicle.wheelbase();
    let front = vehicle.cornering_front * GRAVITY * b;
    let rear = vehicle.cornering_rear * GRAVITY * a;
    let turn = vehicle.friction * vehicle.mass / (vehicle.yaw_inertia * length);
    let push = vehicle.friction / length;
    let yaw = turn * (a * a * front + b * b * rear);
    let slip = push * (front + rear);
    let imbalance = b * rear - a * front;
    let coupling = turn * push * imbalance * imbalance;
    let spread = ((yaw - slip).powi(2) + 4.0 * coupling).sqrt();
    let fastest = 0.5 * (yaw + slip + spread);
    (fastest * dt / most_decay).max(KINEMATIC_BELOW)
}

/// Dynamic single-track model, reference point at the centre of gravity.
#[derive(Debug, Clone, Copy)]
pub struct DynamicSingleTrack;

impl Dynamics<7> for DynamicSingleTrack {
    #[inline(always)]
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; 7], u: [R; N_INPUTS]) -> [R; 7] {
        let [_, _, steer, speed, heading, yaw_rate, slip] = *x;
        let u = [
            limited_steering_rate(p, steer, u[0]),
            limited_acceleration(p, speed, u[1]),
        ];
        let slow = speed.abs().lt(p.kinematic_below);

        let divisor = R::select(slow, R::one(), speed);
        let (mut yaw_acceleration, mut slip_rate) = tyre_response(p, x, u[1], divisor);
        let mut course = slip + heading;
        let mut heading_rate = yaw_rate;
        if R::any(slow) {
            let low = kinematic_about_centre(p, x, u);
            yaw_acceleration = R::select(slow, low.yaw_acceleration, yaw_acceleration);
            slip_rate = R::select(slow, low.slip_rate, slip_rate);
            course = R::select(slow, low.slip + heading, course);
            heading_rate = R::select(slow, low.yaw_rate, heading_rate);
        }
        let (sin, cos) = course.sin_cos();
        [
            speed * cos,
            speed * sin,
            u[0],
            u[1],
            heading_rate,
            yaw_acceleration,
            slip_rate,
        ]
    }
}

/// Yaw acceleration and slip rate from linear tyres.
#[inline(always)]
fn tyre_response<R: Real>(p: &Parameters<R>, x: &[R; 7], acceleration: R, speed: R) -> (R, R) {
    let [_, _, steer, _, _, yaw_rate, slip] = *x;
    let (a, b) = (p.front_axle, p.rear_axle);
    let g = R::splat(GRAVITY);
    let transfer = acceleration * p.cog_height;
    let front = p.cornering_front * (g * b - transfer);
    let rear = p.cornering_rear * (g * a + transfer);
    let imbalance = b * rear - a * front;
    let yaw_rate_over_speed = yaw_rate / speed;

    let yaw_acceleration = p.friction * p.mass / (p.yaw_inertia * p.wheelbase())
        * (a * front * steer + imbalance * slip
            - (a * a * front + b * b * rear) * yaw_rate_over_speed);
    let slip_rate = p.friction / (speed * p.wheelbase())
        * (front * steer - (rear + front) * slip + imbalance * yaw_rate_over_speed)
        - yaw_rate;
    (yaw_acceleration, slip_rate)
}

/// The kinematic model about the centre of gravity, which ST and STD use near standstill.
pub(super) struct LowSpeed<R> {
    pub(super) slip: R,
    pub(super) yaw_rate: R,
    pub(super) yaw_acceleration: R,
    pub(super) slip_rate: R,
}

/// `x` starts with x, y, steer, speed, heading, yaw rate, slip; `u` is already limited.
#[inline(always)]
pub(super) fn kinematic_about_centre<R: Real, const N: usize>(
    p: &Parameters<R>,
    x: &[R; N],
    u: [R; N_INPUTS],
) -> LowSpeed<R> {
    let (steer, speed, slip) = (x[2], x[3], x[6]);
    let wheelbase = p.wheelbase();
    let rear_share = p.rear_axle / wheelbase;
    let (sin_steer, cos_steer) = steer.sin_cos();
    let tan_steer = sin_steer / cos_steer;
    let cos_squared = cos_steer * cos_steer;

    let kinematic_slip = (tan_steer * rear_share).atan();
    let slip_rate = p.rear_axle * u[0]
        / (wheelbase * cos_squared * (R::one() + (tan_steer * tan_steer * rear_share).squared()));
    let (sin_slip, cos_slip) = slip.sin_cos();
    LowSpeed {
        slip: kinematic_slip,
        yaw_rate: speed * kinematic_slip.sin_cos().1 * tan_steer / wheelbase,
        yaw_acceleration: (u[1] * cos_slip * tan_steer - speed * sin_slip * slip_rate * tan_steer
            + speed * cos_slip * u[0] / cos_squared)
            / wheelbase,
        slip_rate,
    }
}
