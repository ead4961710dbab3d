//! A quantity over time: straight lines between points, constant outside them.
//!
//! ```text
//! value        ____
//!        _____/    \______      points (time s, value)
//! ```

use crate::SimError;
use serde::{Deserialize, Serialize};

/// Points `[time, value]` in the order of time.
///
/// # Examples
///
/// ```
/// use spark_sim::Profile;
///
/// let ramp = Profile::new(vec![[0.0, 0.0], [2.0, 10.0]])?;
/// assert_eq!(ramp.at(1.0), 5.0);
/// assert_eq!(ramp.at(9.0), 10.0); // the last value holds
/// assert!(Profile::new(vec![[1.0, 0.0], [0.0, 1.0]]).is_err()); // times must increase
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Profile(Vec<[f64; 2]>);

impl Profile {
    /// One value for all times.
    pub fn constant(value: f64) -> Self {
        Self(vec![[0.0, value]])
    }

    /// The given points.
    ///
    /// # Errors
    ///
    /// See [`Profile::validate`].
    pub fn new(points: Vec<[f64; 2]>) -> Result<Self, SimError> {
        let profile = Self(points);
        profile.validate("profile")?;
        Ok(profile)
    }

    /// The points as `[time, value]`, in the order of time.
    pub fn points(&self) -> &[[f64; 2]] {
        &self.0
    }

    /// Refuses an empty list, a number that is not finite, or times that run backwards.
    ///
    /// # Errors
    ///
    /// [`SimError::Profile`] with `what` and the index of the first offending point.
    pub fn validate(&self, what: &'static str) -> Result<(), SimError> {
        if self.0.is_empty() {
            return Err(SimError::Profile {
                what,
                point_idx: 0,
                reason: "there is no point",
            });
        }
        for (point_idx, pair) in self.0.iter().enumerate() {
            let reason = if !pair.iter().all(|x| x.is_finite()) {
                "not a finite number"
            } else if point_idx > 0 && pair[0] < self.0[point_idx - 1][0] {
                "earlier than the point before it"
            } else {
                continue;
            };
            return Err(SimError::Profile {
                what,
                point_idx,
                reason,
            });
        }
        Ok(())
    }

    /// The value at time `t`, s. An empty profile (refused by [`Profile::validate`]) is 0.
    pub fn at(&self, t: f64) -> f64 {
        let (line, _) = self.line_at(t);
        line.value + line.slope * (t - line.start)
    }

    /// Its integral from time 0 to `end`, s.
    pub fn integral(&self, end: f64) -> f64 {
        let (mut t, mut sum) = (0.0, 0.0);
        while t < end {
            let (line, next) = self.line_at(t);
            let until = next.min(end);
            let middle = 0.5 * (t + until);
            sum += (line.value + line.slope * (middle - line.start)) * (until - t);
            t = until;
        }
        sum
    }

    /// The straight line that holds at `t`, and the time at which the next one begins.
    pub(crate) fn line_at(&self, t: f64) -> (Line, f64) {
        let flat = |value| Line {
            value,
            slope: 0.0,
            start: t,
        };
        let Some(first) = self.0.first() else {
            return (flat(0.0), f64::INFINITY);
        };
        let after = self.0.partition_point(|point| point[0] <= t);
        if after == 0 {
            return (flat(first[1]), first[0]);
        }
        let from = self.0[after - 1];
        match self.0.get(after) {
            None => (flat(from[1]), f64::INFINITY),
            Some(to) => {
                let line = Line {
                    value: from[1],
                    slope: (to[1] - from[1]) / (to[0] - from[0]),
                    start: from[0],
                };
                (line, to[0])
            }
        }
    }
}

impl Profile {
    /// All straight lines, each with the time from which it holds; the first one holds since ever.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tables for a GPU"))]
    pub(crate) fn lines(&self) -> Vec<(f64, Line)> {
        let value = self.0.first().map_or(0.0, |point| point[1]);
        let (slope, start) = (0.0, 0.0);
        let first = Line {
            value,
            slope,
            start,
        };
        let later = self.0.iter().map(|&[t, _]| (t, self.line_at(t).0));
        std::iter::once((f64::NEG_INFINITY, first))
            .chain(later)
            .collect()
    }
}

/// `value + slope * (t - start)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) value: f64,
    pub(crate) slope: f64,
    pub(crate) start: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_linear_between_points_and_constant_outside() {
        let profile = Profile::new(vec![[1.0, 10.0], [3.0, 20.0], [3.0, 5.0]]).expect("valid");
        let values: Vec<f64> = [0.0, 1.0, 2.0, 3.0, 9.0]
            .into_iter()
            .map(|t| profile.at(t))
            .collect();
        assert_eq!(values, [10.0, 10.0, 15.0, 5.0, 5.0]);
    }

    #[test]
    fn an_integral_adds_up_trapezoids_and_what_lies_outside_the_points() {
        let profile = Profile::new(vec![[1.0, 10.0], [3.0, 20.0], [3.0, 5.0]]).expect("valid");
        // 1 s of 10, 2 s from 10 to 20, 4 s of 5.
        for (end, want) in [
            (0.0, 0.0),
            (1.0, 10.0),
            (2.0, 22.5),
            (3.0, 40.0),
            (7.0, 60.0),
        ] {
            assert!((profile.integral(end) - want).abs() < 1e-12, "{end}");
        }
        assert_eq!(Profile::constant(4.0).integral(2.5), 10.0);
    }

    #[test]
    fn points_out_of_order_or_not_finite_are_refused() {
        assert!(Profile::new(vec![]).is_err());
        assert!(Profile::new(vec![[1.0, 0.0], [0.5, 0.0]]).is_err());
        assert!(Profile::new(vec![[0.0, f64::NAN]]).is_err());
    }
}
