//! Gains over speed: straight lines between points, constant outside.

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Points `(speed m/s, value)` with increasing speeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(Vec<(f64, f64)>);

impl Table {
    /// One value at every speed.
    pub fn constant(value: f64) -> Self {
        Self(vec![(0.0, value)])
    }

    /// The given points; they are put in the order of speed.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(points)
    }

    /// Value at a speed; 0 for a table without points.
    #[inline(always)]
    pub(crate) fn at<R: Real>(&self, speed: R) -> R {
        let Some(first) = self.0.first() else {
            return R::zero();
        };
        // Each stretch adds its slope times the part of it that lies below `speed`.
        let mut value = R::splat(first.1);
        for pair in self.0.windows(2) {
            let width = pair[1].0 - pair[0].0;
            let slope = (pair[1].1 - pair[0].1) / width.max(1e-9);
            let part = (speed - R::splat(pair[0].0)).clamp(R::zero(), R::splat(width));
            value = value + R::splat(slope) * part;
        }
        value
    }
}
