//! What steering and powertrain can do, applied before a model uses its inputs.
//!
//! ```text
//! steering rate  0 at a stop when pushing outward, else clipped
//! acceleration   0 at a speed limit when pushing outward, else clipped to
//!                [-a_max, a_max]                   up to v_switch
//!                [-a_max, a_max v_switch / v]      above it (engine power)
//! ```

use super::Parameters;
use crate::real::Real;

/// The steering rate the vehicle follows, rad/s.
#[inline(always)]
pub fn limited_steering_rate<R: Real>(p: &Parameters<R>, steer: R, rate: R) -> R {
    let zero = R::zero();
    let blocked = (steer.le(p.steer_min) & rate.le(zero)) | (steer.ge(p.steer_max) & rate.ge(zero));
    R::select(
        blocked,
        zero,
        rate.clamp(p.steer_rate_min, p.steer_rate_max),
    )
}

/// The acceleration the vehicle follows, m/s^2.
#[inline(always)]
pub fn limited_acceleration<R: Real>(p: &Parameters<R>, speed: R, acceleration: R) -> R {
    let zero = R::zero();
    let blocked = (speed.le(p.speed_min) & acceleration.le(zero))
        | (speed.ge(p.speed_max) & acceleration.ge(zero));
    let clipped = acceleration.clamp(-p.acceleration_max, p.acceleration_max);
    let free = R::select(blocked, zero, clipped);
    // The quotient is worth its division only where power really limits.
    let power = p.acceleration_max * p.switch_speed;
    let power_limited = speed.gt(p.switch_speed) & (free * speed).gt(power);
    if !R::any(power_limited) {
        return free;
    }
    let divisor = R::select(power_limited, speed, R::one());
    R::select(power_limited, power / divisor, free)
}
