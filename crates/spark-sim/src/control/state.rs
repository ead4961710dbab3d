//! What a controller sees, and what it answers.

use crate::columns::lane_columns;

lane_columns! {
    /// One lane of a [`StateBatch`].
    pub struct State;
    /// What every controller of a batch sees at one step. Flags are 0 or 1.
    pub struct StateBatch;
    {
        /// Time since the scenario's start, s.
        time,
        /// Length of a step, s.
        dt,
        /// Speed of the car, m/s.
        v_ego,
        /// Longitudinal acceleration of the car, m/s^2.
        a_ego,
        /// rad/s, to the left positive.
        yaw_rate,
        /// Steering wheel angle, degrees.
        steering_angle_deg,
        /// Steering wheel rate, degrees/s.
        steering_rate_deg,
        /// Bank of the road, rad, left side up positive.
        roll,
        /// Offset of the reference point from the centre of the lane, m.
        lateral_offset,
        /// Heading relative to the road, rad.
        heading_error,
        /// Curvature of the road here, 1/m.
        road_curvature,
        /// Curvature to drive, 1/m, after openpilot's limits on lateral acceleration and jerk.
        desired_curvature,
        /// Flag: those limits are active.
        curvature_limited,
        /// Speed to hold where nothing is in the way, m/s.
        v_target,
        /// Acceleration that the planner wants, m/s^2.
        a_target,
        /// Flag: come to or stay at a stop.
        should_stop,
        /// Flag: there is a car ahead in the lane.
        lead_present,
        /// Free space to it, m; 200 without one.
        lead_d_rel,
        /// Its speed minus one's own, m/s; 0 without one.
        lead_v_rel,
        /// Acceleration of the car ahead, m/s^2; 0 without one.
        lead_a_rel,
        /// Flag: the system is engaged.
        active,
        /// Flag: the driver turns the wheel.
        steering_pressed,
        /// Flag: the driver brakes.
        brake_pressed,
        /// Flag: the driver accelerates.
        gas_pressed,
        /// Flag: the steering command was limited outside the controller.
        steer_limited_by_safety,
        /// Flag: the car holds itself at standstill.
        cruise_standstill,
        /// Hardest braking allowed, m/s^2, negative.
        accel_min,
        /// Hardest acceleration allowed, m/s^2.
        accel_max,
    }
}

lane_columns! {
    /// One lane of an [`ActionBatch`].
    pub struct Action;
    /// What every controller of a batch answers at one step.
    pub struct ActionBatch;
    {
        /// Steering in the terms of the algorithm's [`SteerInterface`](crate::vehicle::SteerInterface).
        steer,
        /// Acceleration to command, m/s^2.
        accel,
        /// Flag: the controller is at its limit.
        saturated,
    }
}

impl<E: crate::real::Element> State<E> {
    /// A car at rest on a straight road with nothing asked of it, engaged, stepping by 10 ms.
    pub fn at_rest() -> Self {
        Self {
            dt: E::from_f64(0.01),
            active: E::from_f64(1.0),
            lead_d_rel: E::from_f64(200.0),
            accel_min: E::from_f64(-3.5),
            accel_max: E::from_f64(2.0),
            ..Self::default()
        }
    }
}
