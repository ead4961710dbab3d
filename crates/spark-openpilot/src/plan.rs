//! The plan a policy network gives, and the actions openpilot derives from it.
//!
//! ```text
//! means [33][15]:  position x y z | velocity x y z | acceleration x y z | euler r p y | rates r p y
//! row i is at time T_IDXS[i] = 10 (i / 32)^2 s from now
//!
//! curvature     = 2 yaw(t) / (v t) - yaw_rate(0) / v        v = max(1, v_ego)
//! acceleration  = 2 (speed(t) - speed(0)) / t - acceleration(0)
//! ```
//!
//! Both assume that curvature and acceleration change linearly until `t`, the time by
//! which an action takes effect. Frame of the calibrated device: x forward, y right,
//! z down, so yaw and curvature are positive to the right; metres, seconds, radians.
//!
//! Source: openpilot `selfdrive/controls/lib/drive_helpers.py` and
//! `selfdrive/modeld/constants.py`.

use crate::OpenpilotError;

/// Points of a path or plan.
pub const POINTS: usize = 33;
/// Numbers per point of a plan.
pub const COLUMNS: usize = 15;
/// Below this speed, in m/s, curvature is computed as at this speed.
pub const MIN_SPEED: f32 = 1.0;
/// A car about to be slower than this, in m/s, and still so a second later, should stop.
pub const STOPPING_SPEED: f32 = 0.05;

/// Times of the plan's points: `10 (i / 32)^2` s.
pub const T_IDXS: [f32; POINTS] = quadratic(10.0);
/// Distances of lane-line points: `192 (i / 32)^2` m.
pub const X_IDXS: [f32; POINTS] = quadratic(192.0);

const fn quadratic(end: f64) -> [f32; POINTS] {
    let mut points = [0.0; POINTS];
    let mut i = 0;
    while i < POINTS {
        let part = i as f64 / (POINTS - 1) as f64;
        points[i] = (end * part * part) as f32;
        i += 1;
    }
    points
}

/// Where the car is to go: [`POINTS`] states at the times [`T_IDXS`].
///
/// # Examples
///
/// ```
/// use spark_openpilot::plan::{COLUMNS, POINTS, Plan, T_IDXS};
///
/// // Straight on, 1 m/s faster every second: column 3 is the speed, column 6 the acceleration.
/// let mut values = vec![0.0; POINTS * COLUMNS];
/// for (row, t) in values.chunks_exact_mut(COLUMNS).zip(T_IDXS) {
///     (row[3], row[6]) = (10.0 + t, 1.0);
/// }
/// let plan = Plan::from_values(&values)?;
/// let (acceleration, should_stop) = plan.desired_acceleration(0.3);
/// assert!((acceleration - 1.0).abs() < 1e-4 && !should_stop);
/// # Ok::<(), spark_openpilot::OpenpilotError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Positions x, y, z from where the device is now, metres.
    pub position: [[f32; 3]; POINTS],
    /// Velocities along x, y, z, metres per second.
    pub velocity: [[f32; 3]; POINTS],
    /// Metres per second squared.
    pub acceleration: [[f32; 3]; POINTS],
    /// Roll, pitch, yaw, radians.
    pub orientation: [[f32; 3]; POINTS],
    /// Of roll, pitch, yaw, radians per second.
    pub orientation_rate: [[f32; 3]; POINTS],
}

impl Plan {
    /// A plan from `[33, 15]` values.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] unless there are 495 of them.
    pub fn from_values(values: &[f32]) -> Result<Self, OpenpilotError> {
        if values.len() != POINTS * COLUMNS {
            return Err(OpenpilotError::Length {
                what: "plan".to_owned(),
                got: values.len(),
                want: POINTS * COLUMNS,
            });
        }
        let triple = |first: usize| {
            std::array::from_fn(|point| {
                std::array::from_fn(|axis| values[point * COLUMNS + first + axis])
            })
        };
        Ok(Self {
            position: triple(0),
            velocity: triple(3),
            acceleration: triple(6),
            orientation: triple(9),
            orientation_rate: triple(12),
        })
    }

    /// The curvature to steer now, 1/m, for a car at `v_ego` m/s whose steering answers
    /// after `action_time` s (above zero).
    pub fn desired_curvature(&self, v_ego: f32, action_time: f32) -> f32 {
        let speed = v_ego.max(MIN_SPEED);
        let yaw = interpolate(action_time, &self.orientation.map(|angles| angles[2]));
        let yaw_rate = self.orientation_rate[0][2];
        2.0 * yaw / (speed * action_time) - yaw_rate / speed
    }

    /// The acceleration to command now, m/s^2, for actuators that answer after `action_time` s
    /// (above zero), and whether the car should come to or stay at a stop.
    pub fn desired_acceleration(&self, action_time: f32) -> (f32, bool) {
        let speeds = self.velocity.map(|v| v[0]);
        let target = interpolate(action_time, &speeds);
        let acceleration = 2.0 * (target - speeds[0]) / action_time - self.acceleration[0][0];
        let one_second_on = interpolate(action_time + 1.0, &speeds);
        let should_stop = target < STOPPING_SPEED && one_second_on < STOPPING_SPEED;
        (acceleration, should_stop)
    }
}

/// `values`, given at [`T_IDXS`], at time `t`: linear between points, constant beyond the ends.
pub fn interpolate(t: f32, values: &[f32; POINTS]) -> f32 {
    let after = T_IDXS.partition_point(|&point| point <= t);
    match after {
        0 => values[0],
        POINTS => values[POINTS - 1],
        _ => {
            let (t0, t1) = (T_IDXS[after - 1], T_IDXS[after]);
            let part = (t - t0) / (t1 - t0);
            values[after - 1] + part * (values[after] - values[after - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f32, want: f32) {
        assert!(
            (got - want).abs() <= 1e-5 * (1.0 + want.abs()),
            "got {got}, want {want}"
        );
    }

    /// A plan whose point `i` has the 15 values `row(T_IDXS[i])`.
    fn plan_of(row: impl Fn(f32) -> [f32; COLUMNS]) -> Plan {
        let values: Vec<f32> = T_IDXS.iter().flat_map(|&t| row(t)).collect();
        Plan::from_values(&values).expect("495 values")
    }

    #[test]
    fn points_lie_at_the_published_times_and_distances() {
        close(T_IDXS[1], 0.009_765_625);
        close(T_IDXS[16], 2.5);
        close(T_IDXS[32], 10.0);
        close(X_IDXS[1], 0.1875);
        close(X_IDXS[16], 48.0);
        close(X_IDXS[32], 192.0);
    }

    #[test]
    fn columns_come_in_the_published_order() {
        let plan = plan_of(|_| std::array::from_fn(|column| column as f32));
        assert_eq!(plan.position[0], [0.0, 1.0, 2.0]);
        assert_eq!(plan.velocity[7], [3.0, 4.0, 5.0]);
        assert_eq!(plan.acceleration[32], [6.0, 7.0, 8.0]);
        assert_eq!(plan.orientation[1], [9.0, 10.0, 11.0]);
        assert_eq!(plan.orientation_rate[1], [12.0, 13.0, 14.0]);
        assert!(Plan::from_values(&[0.0; 494]).is_err());
    }

    #[test]
    fn a_steady_turn_keeps_its_curvature() {
        // 20 m/s on a circle of 100 m: yaw rate 0.2 rad/s, yaw = 0.2 t, curvature 0.01 at any delay.
        let plan = plan_of(|t| {
            let mut row = [0.0; COLUMNS];
            (row[3], row[11], row[14]) = (20.0, 0.2 * t, 0.2);
            row
        });
        close(plan.desired_curvature(20.0, 0.25), 0.01);
        close(plan.desired_curvature(20.0, 3.0), 0.01);
    }

    #[test]
    fn slow_cars_are_taken_for_one_metre_per_second() {
        let plan = plan_of(|t| {
            let mut row = [0.0; COLUMNS];
            row[11] = 0.1 * t;
            row
        });
        // 2 * 0.05 / (1 * 0.5), with yaw(0.5) interpolated on a straight line.
        close(plan.desired_curvature(0.2, 0.5), 0.2);
    }

    #[test]
    fn acceleration_reaches_the_speed_in_time() {
        // speed 10 + t, acceleration now 0.5: 2 (10.5 - 10) / 0.5 - 0.5 = 1.5.
        let plan = plan_of(|t| {
            let mut row = [0.0; COLUMNS];
            (row[3], row[6]) = (10.0 + t, 0.5);
            row
        });
        let (acceleration, should_stop) = plan.desired_acceleration(0.5);
        close(acceleration, 1.5);
        assert!(!should_stop);
    }

    #[test]
    fn a_plan_that_stands_still_says_stop() {
        let plan = plan_of(|_| [0.0; COLUMNS]);
        assert_eq!(plan.desired_acceleration(0.3), (0.0, true));
        // Standing now but off within the second: do not stop.
        let plan = plan_of(|t| {
            let mut row = [0.0; COLUMNS];
            row[3] = if t > 1.0 { 1.0 } else { 0.0 };
            row
        });
        assert!(!plan.desired_acceleration(0.3).1);
    }

    #[test]
    fn interpolation_is_constant_beyond_the_ends() {
        let values = std::array::from_fn(|i| i as f32);
        close(interpolate(-1.0, &values), 0.0);
        close(interpolate(11.0, &values), 32.0);
        close(interpolate(10.0, &values), 32.0);
        close(interpolate((T_IDXS[4] + T_IDXS[5]) / 2.0, &values), 4.5);
    }
}
