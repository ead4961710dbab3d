//! Where a clothoid goes: `x' = cos(heading)`, `y' = sin(heading)`, heading quadratic in s.
//!
//! Gauss-Legendre quadrature with five nodes on stretches that turn by at most 0.25 rad:
//! errors below 1e-12 m per stretch.

/// A place and a direction, m and rad.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pose {
    /// Coordinate x in the plane, m.
    pub x: f64,
    /// Coordinate y in the plane, m.
    pub y: f64,
    /// rad, counter-clockwise from x.
    pub heading: f64,
}

const NODES: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_08),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.906_179_845_938_664, 0.236_926_885_056_189_08),
];

/// Largest turn of one quadrature stretch, rad.
const STRETCH_TURN: f64 = 0.25;

/// Part of a segment, with the pose of its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) start: f64,
    pub(crate) length: f64,
    pub(crate) curvature: f64,
    pub(crate) curvature_rate: f64,
    pub(crate) grade: f64,
    pub(crate) bank: f64,
    pub(super) pose: Pose,
}

impl Piece {
    /// The centre line `along` metres into the piece.
    pub(super) fn pose_at(&self, along: f64) -> Pose {
        let heading =
            |t: f64| self.pose.heading + self.curvature * t + 0.5 * self.curvature_rate * t * t;
        let mut pose = Pose {
            heading: heading(along),
            ..self.pose
        };
        if self.curvature == 0.0 && self.curvature_rate == 0.0 {
            let (sin, cos) = heading(0.0).sin_cos();
            pose.x += along * cos;
            pose.y += along * sin;
            return pose;
        }
        let sharpest = self
            .curvature
            .abs()
            .max((self.curvature + self.curvature_rate * along).abs());
        let n_stretches = (sharpest * along.abs() / STRETCH_TURN).ceil().max(1.0);
        let half = 0.5 * along / n_stretches;
        for i in 0..n_stretches as usize {
            let middle = half * (2 * i + 1) as f64;
            for (node, weight) in NODES {
                let (sin, cos) = heading(middle + half * node).sin_cos();
                pose.x += weight * half * cos;
                pose.y += weight * half * sin;
            }
        }
        pose
    }
}
