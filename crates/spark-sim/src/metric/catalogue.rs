//! Every metric's name, unit, direction, margin and cap, in the order of reports; and the events.
//!
//! A margin of non-inferiority says how much worse a metric may become before anybody minds. It is
//! a judgement, written down before a comparison is run, mostly a tenth of a published limit or the
//! accuracy of test equipment; [`MetricInfo::margin_source`] says of what.
//! `CompareOptions::margins` sets others.
//!
//! A cap bounds what one drive can do to a mean: a car far off the road counts as 5 m beside its
//! path (and as an event), a car that never came near as the cap of its closest approach.
//!
//! Progress decides, because a car that stands still is comfortable, keeps its lane and comes near
//! nobody. It is the share of the requested distance that was missed, as nuPlan's closed-loop score
//! takes the share of an expert's. Distance and not the error of the speed: a car that brakes a
//! second earlier for the same obstacle ends at the same place, and is 0.4 m/s worse in speed.
//! Beyond the requested distance counts as much as short of it, so that nobody makes up in one
//! scenario, above the speed that was asked for, what was lost in another.

use super::Metrics;
use serde::Serialize;

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Less of it is better.
    Lower,
    /// More of it is better.
    Higher,
}

/// What a metric is for when two runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Decides whether a candidate passes.
    Primary,
    /// Is reported, and decides nothing.
    Secondary,
    /// Is counted as an event, see [`EVENTS`]; its mean is not compared.
    Event,
}

/// How much worse a metric may become: `absolute + relative * |mean of the baseline|`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Margin {
    /// In the metric's unit.
    pub absolute: f64,
    /// Part of the baseline's mean.
    pub relative: f64,
}

impl Margin {
    /// So many of the metric's unit, whatever the baseline.
    pub const fn absolute(absolute: f64) -> Self {
        Self {
            absolute,
            relative: 0.0,
        }
    }

    /// The margin beside this mean of the baseline.
    pub fn at(self, baseline: f64) -> f64 {
        self.absolute + self.relative * baseline.abs()
    }
}

/// One metric: what it is called, what it is for, how it is read.
#[derive(Debug, Clone, Copy)]
pub struct MetricInfo {
    /// Name, that of its field in [`Metrics`].
    pub name: &'static str,
    /// Unit; `1` for ratios.
    pub unit: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// What it is for in a comparison.
    pub role: Role,
    /// How much worse it may become.
    pub margin: Margin,
    /// Where the margin comes from.
    pub margin_source: &'static str,
    /// Larger values, and absent ones, count as this much in a comparison.
    pub cap: Option<f64>,
    /// Whether it speaks of how close others came: a collision then counts as 0. A drive that
    /// ended in a collision has no other metric in a comparison, because it is cut short.
    pub is_approach: bool,
    /// Reads it; `None` where it does not apply to the scenario.
    pub read: fn(&Metrics) -> Option<f64>,
}

macro_rules! catalogue {
    ($($name:literal, $unit:literal, $direction:ident, $role:ident,
       $absolute:literal + $relative:literal, $cap:expr, $read:expr, $source:literal;)*) => {
        &[$(MetricInfo {
            name: $name,
            unit: $unit,
            direction: Direction::$direction,
            role: Role::$role,
            margin: Margin { absolute: $absolute, relative: $relative },
            margin_source: $source,
            cap: $cap,
            is_approach: matches!(Direction::$direction, Direction::Higher) && $cap.is_some(),
            read: $read,
        }),*]
    };
}

const NO_CAP: Option<f64> = None;

/// Every metric. Margin: absolute part + part of the baseline.
pub const CATALOGUE: &[MetricInfo] = catalogue! {
    "lateral_error_rmse", "m", Lower, Primary, 0.03 + 0.0, Some(5.0), |m| Some(m.lateral_error_rmse),
        "position accuracy of Euro NCAP test equipment, 0.03 m";
    "lateral_error_mean", "m", Lower, Secondary, 0.03 + 0.0, Some(5.0), |m| Some(m.lateral_error_mean),
        "position accuracy of Euro NCAP test equipment, 0.03 m";
    "lateral_error_max", "m", Lower, Primary, 0.1 + 0.0, Some(5.0), |m| Some(m.lateral_error_max),
        "a third of Euro NCAP's 0.3 m over a marked lane edge";
    "heading_error_rmse", "rad", Lower, Secondary, 0.005 + 0.0, NO_CAP, |m| Some(m.heading_error_rmse),
        "0.1 m sideways in 20 m";
    "speed_error_rmse", "m/s", Lower, Secondary, 0.3 + 0.0, NO_CAP, |m| Some(m.speed_error_rmse),
        "speed window in which openpilot's manoeuvres start, 0.3 m/s";
    "progress_error", "1", Lower, Primary, 0.02 + 0.0, Some(1.0), |m| m.progress_error(),
        "0.3 m/s, in which openpilot's manoeuvres start, of 15 m/s; nuPlan for the measure";
    "curvature_error_rmse", "1/m", Lower, Secondary, 2e-4 + 0.0, NO_CAP, |m| Some(m.curvature_error_rmse),
        "0.1 m/s^2 sideways at 22 m/s";
    "steer_smoothness", "1/s", Lower, Secondary, 0.01 + 0.1, NO_CAP, |m| Some(m.steer_smoothness),
        "no published limit: 10 % of the baseline";
    "steer_std", "1", Lower, Secondary, 0.01 + 0.1, NO_CAP, |m| Some(m.steer_std),
        "no published limit: 10 % of the baseline";
    "accel_smoothness", "m/s^3", Lower, Secondary, 0.15 + 0.1, NO_CAP, |m| Some(m.accel_smoothness),
        "no published limit: as jerk, and 10 % of the baseline";
    "lateral_acceleration_max", "m/s^2", Lower, Secondary, 0.15 + 0.0, NO_CAP, |m| Some(m.lateral_acceleration_max),
        "a twentieth of ISO 11270's 3 m/s^2";
    "lateral_jerk_rms", "m/s^3", Lower, Primary, 0.1 + 0.0, Some(20.0), |m| Some(m.lateral_jerk_rms),
        "a tenth of 0.1 g/s, recommended for curves";
    "lateral_jerk_max", "m/s^3", Lower, Secondary, 0.5 + 0.0, NO_CAP, |m| Some(m.lateral_jerk_max),
        "a tenth of ISO 11270's 5 m/s^3";
    "acceleration_rms", "m/s^2", Lower, Secondary, 0.05 + 0.0, NO_CAP, |m| Some(m.acceleration_rms),
        "a sixth of ISO 2631-1's 0.315 m/s^2 (not uncomfortable)";
    "deceleration_max", "m/s^2", Lower, Secondary, 0.2 + 0.0, NO_CAP, |m| Some(m.deceleration_max),
        "6 % of ISO 15622's 3.5 m/s^2";
    "jerk_rms", "m/s^3", Lower, Primary, 0.15 + 0.0, Some(20.0), |m| Some(m.jerk_rms),
        "a tenth of 1.5 m/s^3, quoted for passengers of public transport";
    "jerk_max", "m/s^3", Lower, Secondary, 0.5 + 0.0, NO_CAP, |m| Some(m.jerk_max),
        "a tenth of ISO 15622's 5 m/s^3";
    "discomfort_ratio", "1", Lower, Primary, 0.01 + 0.0, NO_CAP, |m| Some(m.discomfort_ratio),
        "one second in a hundred";
    "saturation_ratio", "1", Lower, Secondary, 0.02 + 0.0, NO_CAP, |m| Some(m.saturation_ratio),
        "two seconds in a hundred";
    "safety_margin_min", "1", Higher, Secondary, 0.05 + 0.0, NO_CAP, |m| Some(m.safety_margin_min),
        "a twentieth of the command's range";
    "off_lane_ratio", "1", Lower, Primary, 0.01 + 0.0, NO_CAP, |m| Some(m.off_lane_ratio),
        "one second in a hundred";
    "off_road_ratio", "1", Lower, Event, 0.0 + 0.0, NO_CAP, |m| Some(m.off_road_ratio),
        "none: counted";
    "grip_limit_ratio", "1", Lower, Secondary, 0.01 + 0.0, NO_CAP, |m| Some(m.grip_limit_ratio),
        "one second in a hundred";
    "ttc_min", "s", Higher, Primary, 0.1 + 0.0, Some(10.0), |m| m.ttc_min,
        "one or two camera frames of 50 ms";
    "gap_min", "m", Higher, Secondary, 0.3 + 0.0, Some(100.0), |m| m.gap_min,
        "radar accuracy at long range, 0.1 to 0.4 m";
    "headway_min", "s", Higher, Primary, 0.1 + 0.0, Some(5.0), |m| m.headway_min,
        "a tenth of UN R157's least 1.0 s";
    "collision", "1", Lower, Event, 0.0 + 0.0, NO_CAP, |m| Some(f64::from(u8::from(m.collision.is_some()))),
        "none: counted";
};

/// Something that happens in a drive or does not.
#[derive(Debug, Clone, Copy)]
pub struct EventInfo {
    /// Name in reports and files.
    pub name: &'static str,
    /// What it means, in words for people.
    pub meaning: &'static str,
    /// Whether a single new one matters whatever the noise: such events come first in lists, and
    /// `compare::CompareOptions::new_events` speaks of them. Of the others, near misses and the limit
    /// of grip, `compare::CompareOptions::new_near_misses` speaks.
    pub is_severe: bool,
    /// The metric of which it is a threshold. A drive that crosses it within the metric's margin
    /// is counted and breaks no policy.
    pub metric: Option<&'static str>,
    /// Whether it happened in a finished drive; absent for the failure of a scenario.
    pub happened: Option<fn(&Metrics) -> bool>,
}

/// Time to collision below which a conflict counts as an event, s: the usual threshold of
/// traffic conflict studies.
const NEAR_TTC_S: f64 = 1.5;
/// Time gap below which following counts as an event, s: fined in Germany.
const NEAR_HEADWAY_S: f64 = 0.9;

/// Every event that is counted in a comparison, the gravest first.
pub const EVENTS: &[EventInfo] = &[
    EventInfo {
        name: "failure",
        meaning: "the scenario could not be driven to its end",
        is_severe: true,
        metric: None,
        happened: None,
    },
    EventInfo {
        name: "collision",
        meaning: "the ego hit another road user",
        is_severe: true,
        metric: None,
        happened: Some(|m| m.collision.is_some()),
    },
    EventInfo {
        name: "off_road",
        meaning: "the car's centre left the road",
        is_severe: true,
        metric: None,
        happened: Some(|m| m.off_road_ratio > 0.0),
    },
    EventInfo {
        name: "grip_limit",
        meaning: "the tyres were asked for all they hold",
        is_severe: false,
        metric: Some("grip_limit_ratio"),
        happened: Some(|m| m.grip_limit_ratio > 0.0),
    },
    EventInfo {
        name: "ttc_below_1.5_s",
        meaning: "less than 1.5 s to a collision",
        is_severe: false,
        metric: Some("ttc_min"),
        happened: Some(|m| m.collision.is_some() || m.ttc_min.is_some_and(|t| t < NEAR_TTC_S)),
    },
    EventInfo {
        name: "headway_below_0.9_s",
        meaning: "less than 0.9 s behind the car ahead",
        is_severe: false,
        metric: Some("headway_min"),
        happened: Some(|m| {
            m.collision.is_some() || m.headway_min.is_some_and(|t| t < NEAR_HEADWAY_S)
        }),
    },
];
