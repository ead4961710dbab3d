//! The numbers that a drive amounts to.
//!
//! Deliberately absent: which way is better, and how they come about (`catalogue`, `accumulate`).

use serde::{Deserialize, Serialize};

/// A collision of the ego.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collision {
    /// When it happened, s from the start.
    pub time_s: f64,
    /// Speed difference along the road, m/s.
    pub closing_speed: f64,
    /// Place of the actor in the scenario's list.
    pub actor_idx: usize,
}

/// What one scenario's drive amounts to. [`CATALOGUE`](super::CATALOGUE) says which way is better.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Number of steps driven until the end or a collision.
    pub n_steps: u64,
    /// Time driven until the end or a collision, s.
    pub duration_s: f64,
    /// Distance driven along the road, m.
    pub distance_m: f64,
    /// How long the scenario lasts, s; absent if nobody said so. A drive that ends earlier ended
    /// in a collision.
    #[serde(default)]
    pub duration_requested_s: Option<f64>,
    /// Distance that a car covers in that time at the speed or acceleration that the scenario
    /// requests, m; absent if nobody said so.
    #[serde(default)]
    pub distance_requested_m: Option<f64>,
    /// Root mean square offset from the requested offset, m.
    pub lateral_error_rmse: f64,
    /// Mean size of that offset, m.
    pub lateral_error_mean: f64,
    /// Largest size of that offset, m.
    pub lateral_error_max: f64,
    /// Root mean square heading relative to the road, rad.
    pub heading_error_rmse: f64,
    /// Root mean square difference of speed and target speed, m/s.
    pub speed_error_rmse: f64,
    /// Root mean square difference of driven and desired curvature, 1/m.
    pub curvature_error_rmse: f64,
    /// Root mean square rate of the steering command, command units per s.
    pub steer_smoothness: f64,
    /// Standard deviation of the steering command.
    pub steer_std: f64,
    /// Root mean square rate of the acceleration command, m/s^3.
    pub accel_smoothness: f64,
    /// Largest lateral acceleration, m/s^2.
    pub lateral_acceleration_max: f64,
    /// Root mean square lateral jerk, m/s^3.
    pub lateral_jerk_rms: f64,
    /// Largest lateral jerk, m/s^3.
    pub lateral_jerk_max: f64,
    /// Root mean square longitudinal acceleration, m/s^2.
    pub acceleration_rms: f64,
    /// Hardest braking, m/s^2, positive.
    pub deceleration_max: f64,
    /// Root mean square longitudinal jerk, m/s^3.
    pub jerk_rms: f64,
    /// Largest longitudinal jerk, m/s^3.
    pub jerk_max: f64,
    /// Share of the time outside ISO 11270 / openpilot comfort: 3 m/s^2 and 5 m/s^3
    /// sideways, -3.5 to 2 m/s^2 and 5 m/s^3 along.
    pub discomfort_ratio: f64,
    /// Share of the time the controller called itself saturated.
    pub saturation_ratio: f64,
    /// Least distance of the steering command from its limits, command units.
    pub safety_margin_min: f64,
    /// Share of the time some part of the car was outside its lane.
    pub off_lane_ratio: f64,
    /// Share of the time the car's centre was off the road.
    pub off_road_ratio: f64,
    /// Share of the time at or beyond the grip of the tyres, `a_x^2 + a_y^2 >= (mu g)^2`. A kinematic
    /// car then turns less than it is steered; linear tyres go beyond, which no real one does.
    pub grip_limit_ratio: f64,
    /// Least time to collision, s; absent if none came within 10 s.
    pub ttc_min: Option<f64>,
    /// Least free space to the car ahead, m; absent without one.
    pub gap_min: Option<f64>,
    /// Least time gap to the car ahead, s; absent without one.
    pub headway_min: Option<f64>,
    /// The collision that ended the scenario.
    pub collision: Option<Collision>,
}

/// Shorter requests count as this distance, m: a car that is told to stand may roll a little.
const LEAST_REQUESTED_M: f64 = 2.0;

impl Metrics {
    /// Share of the requested distance by which the drive fell short of it or went beyond; absent
    /// if nobody said what was requested.
    pub fn progress_error(&self) -> Option<f64> {
        let requested = self.distance_requested_m?;
        Some((self.distance_m - requested).abs() / requested.max(LEAST_REQUESTED_M))
    }
}
