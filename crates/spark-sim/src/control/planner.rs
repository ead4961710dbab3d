//! Between the world and the controller: which curvature and acceleration to ask for.
//!
//! ```text
//! lateral   k = k_road(preview) - (w^2 offset + 2 z w v sin(heading)) / v^2
//!           then openpilot's limits: 3 m/s^2, 5 m/s^3, |k| <= 0.2
//! speed     the speed from which a comfortable stop behind the lead is still possible:
//!             v^2/(2 B) + T v = gap - 6 + v_lead^2/(2 B)          solved for v
//!           follow it exactly: a = dv/dt + (v_wanted - v) / tau
//!           and never exceed the cruise speed
//! ```
//!
//! The gap condition is that of openpilot's longitudinal MPC with its constants
//! (B = 2.5 m/s^2, 6 m, T = 1.75/1.45/1.25 s); solving it in closed form instead of
//! optimising over ten seconds is this crate's choice. In steady following the gap
//! is exactly 6 m + T v.

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// How closely to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Personality {
    /// 1.75 s.
    Relaxed,
    /// 1.45 s.
    #[default]
    Standard,
    /// 1.25 s.
    Aggressive,
}

impl Personality {
    /// Time gap T, s.
    pub fn time_gap(self) -> f64 {
        match self {
            Self::Relaxed => 1.75,
            Self::Standard => 1.45,
            Self::Aggressive => 1.25,
        }
    }
}

/// How the planner plans.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlannerConfig {
    /// How fast an offset is corrected, rad/s.
    pub path_frequency: f64,
    /// How little it overshoots; 1 is critical.
    pub path_damping: f64,
    /// How far ahead, in s, the road's curvature is read, to make up for the actuators.
    pub preview_s: f64,
    /// How closely to follow.
    pub personality: Personality,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            path_frequency: 0.6,
            path_damping: 1.0,
            preview_s: 0.2,
            personality: Personality::Standard,
        }
    }
}

/// Deceleration that counts as comfortable, m/s^2.
pub const COMFORT_BRAKE: f64 = 2.5;
/// Gap at standstill, m.
pub const STOP_DISTANCE: f64 = 6.0;
/// Hardest braking, m/s^2.
pub const ACCEL_MIN: f64 = -3.5;
/// Hardest acceleration, m/s^2.
pub const ACCEL_MAX: f64 = 2.0;
/// Hardest braking to a lower cruise speed, m/s^2.
pub const CRUISE_MIN_ACCEL: f64 = -1.2;
/// Time in which a speed error is corrected, s.
const SPEED_TIME_S: f64 = 1.0;
/// Time in which a cruise speed is approached, s.
const CRUISE_TIME_S: f64 = 2.0;
/// Below this speed, m/s, offsets are corrected as at it: gains grow with 1/v^2.
const SLOWEST_STEERING: f64 = 3.0;

/// Curvature that leads back to the lane's centre, 1/m, before limits.
#[inline(always)]
pub fn path_curvature<R: Real>(
    config: &PlannerConfig,
    road_curvature: R,
    offset: R,
    sin_heading: R,
    v: R,
) -> R {
    let w = config.path_frequency;
    let v = v.maximum(R::splat(SLOWEST_STEERING));
    let correction =
        R::splat(w * w) * offset + R::splat(2.0 * config.path_damping * w) * v * sin_heading;
    road_curvature - correction / (v * v)
}

/// openpilot's limits on curvature: 5 m/s^3 from the last one, 3 m/s^2 (more or less
/// with the road's bank, `g roll`), and 0.2 1/m. Speeds below 1 m/s count as 1 m/s.
#[inline(always)]
pub fn clip_curvature<R: Real>(wanted: R, last: R, v: R, gravity_share: R, dt: R) -> R {
    let v = v.maximum(R::one());
    let per_v_squared = R::one() / (v * v);
    let step = R::splat(5.0) * dt * per_v_squared;
    let jerk_limited = wanted.clamp(last - step, last + step);
    let a = R::splat(3.0);
    let limited = jerk_limited.clamp(
        (gravity_share - a) * per_v_squared,
        (gravity_share + a) * per_v_squared,
    );
    limited.clamp(R::splat(-0.2), R::splat(0.2))
}

/// Fastest speed, m/s, from which stopping comfortably behind a lead is possible.
#[inline(always)]
pub fn speed_for_gap<R: Real>(gap: R, v_lead: R, time_gap: R) -> R {
    let b = R::splat(COMFORT_BRAKE);
    let room = (gap - R::splat(STOP_DISTANCE) + v_lead * v_lead / (b + b)).maximum(R::zero());
    let bt = b * time_gap;
    (bt * bt + (b + b) * room).sqrt() - bt
}

/// Acceleration, m/s^2, that keeps the wanted gap to a lead. Not limited.
#[inline(always)]
pub fn follow<R: Real>(v: R, gap: R, v_lead: R, a_lead: R, time_gap: R) -> R {
    let b = R::splat(COMFORT_BRAKE);
    let wanted = speed_for_gap(gap, v_lead, time_gap);
    let change = (v_lead - v + v_lead * a_lead / b) / (wanted / b + time_gap);
    change + (wanted - v) / R::splat(SPEED_TIME_S)
}

/// Acceleration, m/s^2, towards a cruise speed, within openpilot's cruise limits. A cruise
/// speed that is NaN asks for none.
#[inline(always)]
pub fn cruise<R: Real>(v: R, v_cruise: R) -> R {
    // 1.6, 1.2, 0.8, 0.6 m/s^2 at 0, 10, 25, 40 m/s
    let c = R::splat;
    let zero = R::zero();
    let most = c(1.6)
        - c(0.04) * v.clamp(zero, c(10.0))
        - c(0.4 / 15.0) * (v - c(10.0)).clamp(zero, c(15.0))
        - c(0.2 / 15.0) * (v - c(25.0)).clamp(zero, c(15.0));
    let wanted = ((v_cruise - v) / c(CRUISE_TIME_S)).clamp(c(CRUISE_MIN_ACCEL), most);
    R::select(v_cruise.le(v_cruise), wanted, zero)
}

/// Whether the plan is to stand still.
#[inline(always)]
pub fn should_stop<R: Real>(v: R, v_wanted: R) -> R::Mask {
    v.lt(R::splat(0.3)) & v_wanted.lt(R::splat(0.15))
}
