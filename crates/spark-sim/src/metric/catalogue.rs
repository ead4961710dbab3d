//! Every metric's name, unit and direction, in the order of reports.

use super::Metrics;

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricInfo {
    /// As in [`Metrics`].
    pub name: &'static str,
    /// Unit; `1` for ratios.
    pub unit: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// Reads it; `None` where it does not apply to the scenario.
    pub read: fn(&Metrics) -> Option<f64>,
}

macro_rules! catalogue {
    ($($name:literal, $unit:literal, $direction:ident, $read:expr;)*) => {
        &[$(MetricInfo {
            name: $name,
            unit: $unit,
            direction: Direction::$direction,
            read: $read,
        }),*]
    };
}

/// Every metric that is compared.
pub const CATALOGUE: &[MetricInfo] = catalogue! {
    "lateral_error_rmse", "m", Lower, |m| Some(m.lateral_error_rmse);
    "lateral_error_mean", "m", Lower, |m| Some(m.lateral_error_mean);
    "lateral_error_max", "m", Lower, |m| Some(m.lateral_error_max);
    "heading_error_rmse", "rad", Lower, |m| Some(m.heading_error_rmse);
    "speed_error_rmse", "m/s", Lower, |m| Some(m.speed_error_rmse);
    "curvature_error_rmse", "1/m", Lower, |m| Some(m.curvature_error_rmse);
    "steer_smoothness", "1/s", Lower, |m| Some(m.steer_smoothness);
    "steer_std", "1", Lower, |m| Some(m.steer_std);
    "accel_smoothness", "m/s^3", Lower, |m| Some(m.accel_smoothness);
    "lateral_acceleration_max", "m/s^2", Lower, |m| Some(m.lateral_acceleration_max);
    "lateral_jerk_rms", "m/s^3", Lower, |m| Some(m.lateral_jerk_rms);
    "lateral_jerk_max", "m/s^3", Lower, |m| Some(m.lateral_jerk_max);
    "acceleration_rms", "m/s^2", Lower, |m| Some(m.acceleration_rms);
    "deceleration_max", "m/s^2", Lower, |m| Some(m.deceleration_max);
    "jerk_rms", "m/s^3", Lower, |m| Some(m.jerk_rms);
    "jerk_max", "m/s^3", Lower, |m| Some(m.jerk_max);
    "discomfort_ratio", "1", Lower, |m| Some(m.discomfort_ratio);
    "saturation_ratio", "1", Lower, |m| Some(m.saturation_ratio);
    "safety_margin_min", "1", Higher, |m| Some(m.safety_margin_min);
    "off_lane_ratio", "1", Lower, |m| Some(m.off_lane_ratio);
    "off_road_ratio", "1", Lower, |m| Some(m.off_road_ratio);
    "ttc_min", "s", Higher, |m| m.ttc_min;
    "gap_min", "m", Higher, |m| m.gap_min;
    "headway_min", "s", Higher, |m| m.headway_min;
    "collision", "1", Lower, |m| Some(f64::from(u8::from(m.collision.is_some())));
};
