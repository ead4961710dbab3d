//! Do two cars touch, and when will they?
//!
//! ```text
//! separating axes: two convex shapes are apart iff some edge normal separates them
//! moving apart at constant velocity, each axis separates until t_enter and from t_leave on
//! ```
//!
//! Cars are rectangles; they translate without turning while time to collision is computed. `kernels/traffic.cuh`
//! does the same operations in the same order.

use crate::real::{Real, double};

/// A car's outline as seen from above: a rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outline {
    /// Coordinate x of the centre, m.
    pub x: f64,
    /// Coordinate y of the centre, m.
    pub y: f64,
    /// Direction in which it points, rad, counter-clockwise from x.
    pub heading: f64,
    /// Extent along the heading, m.
    pub length: f64,
    /// Extent across the heading, m.
    pub width: f64,
}

impl Outline {
    fn axes(&self) -> [[f64; 2]; 2] {
        let (sin, cos) = double::sin_cos(self.heading);
        [[cos, sin], [-sin, cos]]
    }

    /// Half the extent along a unit vector.
    fn reach(&self, axis: [f64; 2]) -> f64 {
        let [along, across] = self.axes();
        let dot = |a: [f64; 2]| (a[0] * axis[0] + a[1] * axis[1]).abs();
        0.5 * (self.length * dot(along) + self.width * dot(across))
    }

    /// Whether the two outlines share a point.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        self.axes()
            .into_iter()
            .chain(other.axes())
            .all(|axis| (dx * axis[0] + dy * axis[1]).abs() <= self.reach(axis) + other.reach(axis))
    }

    /// Seconds until the outlines first touch at constant velocities (m/s); 0 when they
    /// touch now, `None` when they will not within `horizon_s`.
    pub fn time_to_collision(
        &self,
        velocity: [f64; 2],
        other: &Self,
        other_velocity: [f64; 2],
        horizon_s: f64,
    ) -> Option<f64> {
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        let relative = [
            other_velocity[0] - velocity[0],
            other_velocity[1] - velocity[1],
        ];
        let (mut enter, mut leave) = (0.0_f64, horizon_s);
        for axis in self.axes().into_iter().chain(other.axes()) {
            let distance = dx * axis[0] + dy * axis[1];
            let speed = relative[0] * axis[0] + relative[1] * axis[1];
            let reach = self.reach(axis) + other.reach(axis);
            if speed.abs() < 1e-12 {
                if distance.abs() > reach {
                    return None;
                }
                continue;
            }
            let (a, b) = ((-reach - distance) / speed, (reach - distance) / speed);
            enter = Real::maximum(Real::minimum(a, b), enter);
            leave = Real::minimum(Real::maximum(a, b), leave);
            if enter > leave {
                return None;
            }
        }
        Some(enter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn car(x: f64, y: f64, heading: f64) -> Outline {
        Outline {
            x,
            y,
            heading,
            length: 4.0,
            width: 2.0,
        }
    }

    #[test]
    fn bumper_to_bumper_touches_and_a_hair_more_does_not() {
        assert!(car(0.0, 0.0, 0.0).overlaps(&car(4.0, 0.0, 0.0)));
        assert!(!car(0.0, 0.0, 0.0).overlaps(&car(4.001, 0.0, 0.0)));
        assert!(!car(0.0, 0.0, 0.0).overlaps(&car(0.0, 2.001, 0.0)));
    }

    #[test]
    fn a_turned_corner_reaches_further() {
        let turned = car(3.9, 1.9, std::f64::consts::FRAC_PI_4);
        assert!(car(0.0, 0.0, 0.0).overlaps(&turned));
        assert!(!car(0.0, 0.0, 0.0).overlaps(&car(4.3, 2.4, std::f64::consts::FRAC_PI_4)));
    }

    #[test]
    fn time_to_collision_agrees_with_small_steps() {
        let mut random = crate::random::Philox::new(3, 0);
        let mut n_hits = 0;
        for _ in 0..300 {
            let a = car(0.0, 0.0, random.next_in(-3.0, 3.0));
            let b = car(
                random.next_in(-20.0, 20.0),
                random.next_in(-20.0, 20.0),
                random.next_in(-3.0, 3.0),
            );
            let v = [random.next_in(-8.0, 8.0), random.next_in(-8.0, 8.0)];
            let stepped = (0..10_000).map(|i| f64::from(i) * 1e-3).find(|t| {
                let moved = Outline {
                    x: b.x + v[0] * t,
                    y: b.y + v[1] * t,
                    ..b
                };
                a.overlaps(&moved)
            });
            let exact = a.time_to_collision([0.0, 0.0], &b, v, 10.0);
            match (stepped, exact) {
                (Some(s), Some(e)) => {
                    assert!((s - e).abs() <= 1.1e-3, "{s} {e}");
                    n_hits += 1;
                }
                // A graze shorter than a step is seen by the exact answer only.
                (None, Some(_)) | (None, None) => {}
                (Some(s), None) => panic!("missed a collision at {s}"),
            }
        }
        assert!(n_hits > 20);
    }
}
