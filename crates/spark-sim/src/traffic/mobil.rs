//! MOBIL: change lane when it helps and hurts nobody behind too much.
//!
//! ```text
//! safe       a_new_follower' > -b_safe
//! worth it   a_self' - a_self + p (change of both followers) > a_threshold + bias
//! ```
//!
//! Source: Kesting, Treiber, Helbing, Transportation Research Record 1999 (2007).

use serde::{Deserialize, Serialize};

/// Parameters of one driver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mobil {
    /// How much others count, 0 to 1.
    pub politeness: f64,
    /// Hardest braking one may impose, m/s^2, positive.
    pub safe_deceleration: f64,
    /// Gain below which one stays, m/s^2.
    pub threshold: f64,
    /// Extra gain needed to leave towards the left, negative towards the right, m/s^2.
    pub keep_right_bias: f64,
}

impl Default for Mobil {
    fn default() -> Self {
        Self {
            politeness: 0.3,
            safe_deceleration: 4.0,
            threshold: 0.2,
            keep_right_bias: 0.2,
        }
    }
}

/// Accelerations, m/s^2, before and after a change that is being considered.
#[derive(Debug, Clone, Copy)]
pub struct LaneChange {
    /// The driver, staying and changing.
    pub own: [f64; 2],
    /// The car behind in the lane to leave, staying and changing.
    pub old_follower: [f64; 2],
    /// The car behind in the lane to enter, staying and changing.
    pub new_follower: [f64; 2],
    /// Whether the lane to enter is the left one.
    pub to_left: bool,
}

impl Mobil {
    /// Whether the new follower would not have to brake too hard.
    pub fn is_safe(&self, change: &LaneChange) -> bool {
        change.new_follower[1] > -self.safe_deceleration
    }

    /// By how much the incentive exceeds the threshold, m/s^2; change when positive and safe.
    pub fn incentive(&self, change: &LaneChange) -> f64 {
        let gain = |pair: [f64; 2]| pair[1] - pair[0];
        let bias = if change.to_left {
            self.keep_right_bias
        } else {
            -self.keep_right_bias
        };
        gain(change.own) + self.politeness * (gain(change.old_follower) + gain(change.new_follower))
            - self.threshold
            - bias
    }
}
