//! A road as a scenario file describes it.

use serde::{Deserialize, Serialize};

/// Sharpest bend accepted, 1/m: a radius of 1 m.
pub(super) const SHARPEST_CURVATURE: f64 = 1.0;

/// One stretch of road.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Length along the lane's centre, m.
    pub length: f64,
    /// Curvature at the start, 1/m.
    #[serde(default)]
    pub curvature_start: f64,
    /// Curvature at the end, 1/m.
    #[serde(default)]
    pub curvature_end: f64,
    /// Slope of the road, rad, uphill positive.
    #[serde(default)]
    pub grade: f64,
    /// rad, left side up positive.
    #[serde(default)]
    pub bank: f64,
}

impl Segment {
    /// A straight, level stretch, `length` in m.
    pub fn straight(length: f64) -> Self {
        Self::clothoid(length, 0.0, 0.0)
    }

    /// Constant curvature (1/m), level.
    pub fn arc(length: f64, curvature: f64) -> Self {
        Self::clothoid(length, curvature, curvature)
    }

    /// Curvature changing linearly, level.
    pub fn clothoid(length: f64, curvature_start: f64, curvature_end: f64) -> Self {
        Self {
            length,
            curvature_start,
            curvature_end,
            grade: 0.0,
            bank: 0.0,
        }
    }
}

/// A road as a scenario file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoadDescription {
    /// In the order of driving; none is a straight road.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// Width of every lane, m.
    #[serde(default = "default_lane_width")]
    pub lane_width: f64,
    /// Lanes to the left of the ego's.
    #[serde(default)]
    pub n_lanes_left: u8,
    /// Lanes to the right of the ego's.
    #[serde(default)]
    pub n_lanes_right: u8,
}

fn default_lane_width() -> f64 {
    3.5
}

impl Default for RoadDescription {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            lane_width: default_lane_width(),
            n_lanes_left: 0,
            n_lanes_right: 0,
        }
    }
}
