//! Gains over speed: straight lines between points, constant outside.

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Points `(speed m/s, value)` with increasing speeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub struct Table {
    points: Vec<(f64, f64)>,
    first: f64,
    stretches: Vec<Stretch>,
}

/// From one point to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    from: f64,
    width: f64,
    slope: f64,
}

impl From<Vec<(f64, f64)>> for Table {
    fn from(points: Vec<(f64, f64)>) -> Self {
        Self::new(points)
    }
}

impl From<Table> for Vec<(f64, f64)> {
    fn from(table: Table) -> Self {
        table.points
    }
}

impl Table {
    /// One value at every speed.
    pub fn constant(value: f64) -> Self {
        Self::new(vec![(0.0, value)])
    }

    /// The given points; they are put in the order of speed. Without points the value is 0.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stretches = points.windows(2).map(|pair| {
            let width = pair[1].0 - pair[0].0;
            Stretch {
                from: pair[0].0,
                width,
                slope: (pair[1].1 - pair[0].1) / width.max(1e-9),
            }
        });
        Self {
            first: points.first().map_or(0.0, |point| point.1),
            stretches: stretches.collect(),
            points,
        }
    }

    /// The first value, then start, width and slope of every stretch.
    pub(crate) fn stretches(&self) -> (f64, Vec<[f64; 3]>) {
        let figures = |s: &Stretch| [s.from, s.width, s.slope];
        (self.first, self.stretches.iter().map(figures).collect())
    }

    /// Value at a speed.
    #[inline(always)]
    pub(crate) fn at<R: Real>(&self, speed: R) -> R {
        // Each stretch adds its slope times the part of it that lies below `speed`.
        let mut value = R::splat(self.first);
        for stretch in &self.stretches {
            let along = (speed - R::splat(stretch.from)).clamp(R::zero(), R::splat(stretch.width));
            value = value + R::splat(stretch.slope) * along;
        }
        value
    }
}
