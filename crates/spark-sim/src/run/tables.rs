//! What a block knows of its lanes: one table per subject, one lane per scenario.
//!
//! ```text
//! fixed     what does not change          motion   what the car is doing
//! road      piece under the car, and      requests lines of the four requests
//!           under its preview point                that hold now
//! ```
//!
//! Tables only: what fills and reads them are the phases of a step.

use crate::columns::lane_tiles;
use crate::control::LaneSetup;
use crate::road::Road;
use crate::scenario::Scenario;

/// Gap that is told without a car ahead, m.
pub(super) const NO_LEAD_GAP: f64 = 200.0;

/// A scenario that passed validation, with its road.
pub(super) struct Prepared<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) road: Road,
}

lane_tiles! {
    /// The piece of road under one lane's car, or under its preview point.
    pub(super) struct RoadLane;
    /// The pieces of road of many lanes.
    pub(super) struct RoadLanes;
    {
        /// From the start of the car's piece to the start of this one, m; 0 for the car's own.
        ahead,
        length,
        curvature,
        curvature_rate,
        grade,
        bank,
    }
}

lane_tiles! {
    /// A line of a profile: value + slope (t - start), until `next`.
    pub(super) struct LineLane;
    /// Lines of many lanes.
    pub(super) struct LineLanes;
    { value, slope, start, next }
}

lane_tiles! {
    /// What does not change during a scenario.
    pub(super) struct FixedLane;
    /// Fixed figures of many lanes.
    pub(super) struct FixedLanes;
    {
        dt,
        /// Steps per second: one over `dt`.
        per_second,
        steer_ratio_deg,
        has_curvature_request,
        has_acceleration_request,
        /// Drag and side force of the relative wind over the car's mass, per squared airspeed, 1/m.
        drag,
        side_force,
        headwind,
        crosswind,
        half_width,
        half_lane,
        left_edge,
        right_edge,
        /// Friction circle's radius squared, m^2/s^4.
        grip_squared,
    }
}

/// The four requests over time, as lines.
pub(super) struct RequestLanes {
    pub(super) cruise: LineLanes,
    pub(super) offset: LineLanes,
    pub(super) curvature: LineLanes,
    pub(super) acceleration: LineLanes,
}

lane_tiles! {
    /// What a lane's car is doing, beyond its vehicle model's state.
    pub(super) struct MotionLane;
    /// Motion of many lanes.
    pub(super) struct Motion;
    {
        /// 1 while the scenario runs.
        alive,
        acceleration,
        /// Acceleration that the powertrain delivers, m/s^2.
        applied,
        /// Of the path, 1/m. Of kinematic cars within their grip exactly [`crate::vehicle::path_curvature`] of the
        /// steering angle.
        curvature,
        /// Sine and cosine of the heading relative to the road.
        sin_heading,
        cos_heading,
        yaw_rate,
        lateral_acceleration,
        steer_rate,
        desired_curvature,
        offset_target,
        lead_present,
        lead_gap,
        lead_speed,
        lead_acceleration,
        /// Time at which the first of the requests' lines ends, s.
        next_line,
    }
}

/// What a controller and a car are told of a scenario before it starts.
pub(super) fn lane_setup(scenario: &Scenario) -> LaneSetup {
    LaneSetup {
        vehicle: scenario.vehicle.parameters(),
        actuators: scenario.vehicle.actuators(),
        model: scenario.vehicle.model,
        dt_s: scenario.dt_s,
    }
}
