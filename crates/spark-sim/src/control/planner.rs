//! Between the world and the controller: which curvature and acceleration to ask for.
//!
//! ```text
//! lateral   q = min(w / v, 1 / l)                        path frequency per metre
//!           k = k_road(preview) - 2 z q (sin(heading) + clip(q offset / (2 z), +-approach))
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
//!
//! # Why a slow car comes back slowly, and at a small angle
//!
//! For small angles `offset'' = v^2 k`, so the return is a critically damped one of `w` rad/s from
//! `w l` on, and of `1/l` rad per metre below it. With `w` alone, a wheel turned by torque swings at full
//! torque at 4 to 6 m/s from an offset of 1 m on. Three lags add up in the loop of a torque controller, at an
//! angular frequency `W` and a demand for torque that swings by `B`:
//!
//! ```text
//! column          atan(W tau)                  tau = c (L + K v^2) / v^2: 2 to 4 s at 5 m/s
//! safety code     acos(pi R / (2 W B))         torque changes by R per s: a triangle wave whose tips
//!                                              touch the demand; none for small B, 90 degrees for large
//! return to path  atan(2 z w W / (W^2 - w^2))  what the plan adds to the controller's error
//! ```
//!
//! Column and dead time `D` alone lag by 90 degrees at `W^2 tau D = 1`; what is left of 180 is shared by the
//! other two. For the saloon at 5 m/s that is at 2.1 rad/s, where the return takes 31 degrees with `w = 0.6` and 15
//! with `w = 5/18`. No gain of the controller buys that back: the larger the swing, the later the torque. `W` falls
//! as `v`; a `w` that falls as `v` keeps its lag the same, hence a length. The angle bounds the swing that an
//! offset starts, however large it is. The rate limiter's lag is that of Duda, *Effects of rate limiting elements in flight control systems*, AIAA 95-3204 (1995).
//!
//! Three nonlinear elements in a row have no exact criterion; length and angle are those with which no
//! preset swings in simulations of all speeds and offsets, also when the dead time is 50 ms longer and the torque 1.3 times
//! as strong, and as fast to grow, as believed (`tests/it/return_to_path.rs`). A car whose torque only acts 1.3 times as strongly, and one
//! that is the slowest of its class, do swing near 10.8 m/s, where length and frequency meet. What it costs: below 10.8 m/s a car comes back later than it could by
//! angle or curvature, and friction holds an offset of up to 0.4 m, whose correction is too small to move the wheel.

use crate::SimError;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// How closely to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Personality {
    /// A time gap of 1.75 s.
    Relaxed,
    /// A time gap of 1.45 s.
    #[default]
    Standard,
    /// A time gap of 1.25 s.
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
    /// How fast an offset is corrected, rad/s, at most.
    pub path_frequency: f64,
    /// Over which length of road an offset is corrected, m, at least: one over the path frequency per
    /// metre. It holds below the speed `path_frequency * path_length`, 10.8 m/s.
    pub path_length: f64,
    /// At which angle, rad, a path is approached at most.
    pub approach_angle: f64,
    /// How little it overshoots; 1 is critical.
    pub path_damping: f64,
    /// How far ahead, in s, the road's curvature is read, to make up for the actuators.
    pub preview_s: f64,
    /// How closely to follow.
    pub personality: Personality,
}

impl PlannerConfig {
    /// Whether every figure is one that a car can be led by: above zero (the preview from zero on) and at
    /// most 1,000 rad/s, 1,000,000 m, 100 rad, a damping of 1,000, 60 s.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] naming the first that is not.
    pub fn check(&self) -> Result<(), SimError> {
        for (what, got, least, most, want) in [
            (
                "path frequency (rad/s)",
                self.path_frequency,
                f64::MIN_POSITIVE,
                1e3,
                "above 0, at most 1000",
            ),
            (
                "path length (m)",
                self.path_length,
                f64::MIN_POSITIVE,
                1e6,
                "above 0, at most 1000000",
            ),
            (
                "approach angle (rad)",
                self.approach_angle,
                f64::MIN_POSITIVE,
                100.0,
                "above 0, at most 100",
            ),
            (
                "path damping",
                self.path_damping,
                f64::MIN_POSITIVE,
                1e3,
                "above 0, at most 1000",
            ),
            ("preview (s)", self.preview_s, 0.0, 60.0, "between 0 and 60"),
        ] {
            if !(least..=most).contains(&got) {
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        Ok(())
    }
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            path_frequency: 0.6,
            path_length: 18.0,
            approach_angle: 0.1,
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
/// Hardest braking that may be asked for, m/s^2.
pub const ACCEL_MIN: f64 = -3.5;
/// Hardest acceleration that may be asked for, m/s^2.
pub const ACCEL_MAX: f64 = 2.0;
/// Hardest braking to a lower cruise speed, m/s^2.
pub const CRUISE_MIN_ACCEL: f64 = -1.2;
/// Time in which a speed error is corrected, s.
const SPEED_TIME_S: f64 = 1.0;
/// Time in which a cruise speed is approached, s.
const CRUISE_TIME_S: f64 = 2.0;
/// Curvature that leads back to the lane's centre, 1/m, before limits. Speeds below 1 m/s count as
/// 1 m/s.
#[inline(always)]
pub fn path_curvature<R: Real>(
    config: &PlannerConfig,
    road_curvature: R,
    offset: R,
    sin_heading: R,
    v: R,
) -> R {
    let c = R::splat;
    let v = v.maximum(R::one());
    let per_metre = (c(config.path_frequency) / v).minimum(c(1.0 / config.path_length));
    let turn = c(2.0 * config.path_damping) * per_metre;
    let steepest = turn * c(config.approach_angle);
    let back = (per_metre * per_metre * offset).clamp(-steepest, steepest);
    road_curvature - (back + turn * sin_heading)
}

/// openpilot's limits on curvature: 5 m/s^3 from the last one, 3 m/s^2 more than the
/// `gravity_share` with which the road's bank pulls to the left (`-g roll`, m/s^2), and 0.2 1/m.
/// Speeds below 1 m/s count as 1 m/s.
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
