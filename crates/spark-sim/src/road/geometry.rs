//! A road ready to be driven on: where its segments lie.

use super::description::{RoadDescription, SHARPEST_CURVATURE, Segment};
use super::pose::{Piece, Pose};
use crate::SimError;

/// Most segments one road may have.
pub const MAX_SEGMENTS: usize = 1_000_000;
/// Pieces are cut to this length, so that distances within one keep their precision in f32.
const LONGEST_PIECE: f64 = 256.0;

/// A road ready to be driven on.
///
/// # Examples
///
/// ```
/// use spark_sim::road::{Road, RoadDescription, Segment};
///
/// let bend = RoadDescription {
///     segments: vec![Segment::straight(100.0), Segment::arc(50.0, 0.01)],
///     ..RoadDescription::default()
/// };
/// let road = Road::new(&bend)?;
/// assert_eq!(road.length(), 150.0);
/// assert_eq!(road.curvature_at(120.0), 0.01); // 1/m, to the left
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Road {
    pieces: Vec<Piece>,
    lane_width: f64,
    left_edge: f64,
    right_edge: f64,
}

impl Road {
    /// Checks a description and computes where its segments lie. The road starts at the
    /// origin, heading along x.
    ///
    /// # Errors
    ///
    /// [`SimError::Road`] naming the first segment that is too long, too sharp, too
    /// steep or not finite; [`SimError::OutOfRange`] for a lane width outside 2 to 10 m.
    pub fn new(description: &RoadDescription) -> Result<Self, SimError> {
        let width = description.lane_width;
        if !(2.0..=10.0).contains(&width) {
            return Err(SimError::OutOfRange {
                what: "lane width (m)",
                got: width,
                want: "between 2 and 10",
            });
        }
        if description.segments.len() > MAX_SEGMENTS {
            return Err(SimError::Road {
                segment_idx: MAX_SEGMENTS,
                reason: "more than a million segments",
            });
        }
        let mut road = Self {
            pieces: Vec::with_capacity(description.segments.len() + 1),
            lane_width: width,
            left_edge: width * (0.5 + f64::from(description.n_lanes_left)),
            right_edge: -width * (0.5 + f64::from(description.n_lanes_right)),
        };
        for (segment_idx, segment) in description.segments.iter().enumerate() {
            if let Some(reason) = fault(segment) {
                return Err(SimError::Road {
                    segment_idx,
                    reason,
                });
            }
            road.append(segment);
        }
        let (start, pose) = road.end();
        road.pieces.push(Piece {
            start,
            length: f64::INFINITY,
            curvature: 0.0,
            curvature_rate: 0.0,
            grade: 0.0,
            bank: 0.0,
            pose,
        });
        Ok(road)
    }

    fn append(&mut self, segment: &Segment) {
        let n_pieces = (segment.length / LONGEST_PIECE).ceil().max(1.0);
        let length = segment.length / n_pieces;
        let rate = (segment.curvature_end - segment.curvature_start) / segment.length;
        for i in 0..n_pieces as usize {
            let (start, pose) = self.end();
            self.pieces.push(Piece {
                start,
                length,
                curvature: segment.curvature_start + rate * length * i as f64,
                curvature_rate: rate,
                grade: segment.grade,
                bank: segment.bank,
                pose,
            });
        }
    }

    fn end(&self) -> (f64, Pose) {
        self.pieces.last().map_or((0.0, Pose::default()), |piece| {
            (piece.start + piece.length, piece.pose_at(piece.length))
        })
    }

    /// Length of the described part, m.
    pub fn length(&self) -> f64 {
        self.pieces.last().map_or(0.0, |last| last.start)
    }

    /// m.
    pub fn lane_width(&self) -> f64 {
        self.lane_width
    }

    /// Offset of the left edge from the centre line, m.
    pub fn left_edge(&self) -> f64 {
        self.left_edge
    }

    /// Offset of the right edge, m, negative.
    pub fn right_edge(&self) -> f64 {
        self.right_edge
    }

    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tables for a GPU"))]
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn piece(&self, piece_idx: usize) -> &Piece {
        &self.pieces[piece_idx.min(self.pieces.len() - 1)]
    }

    pub(crate) fn piece_idx_at(&self, s: f64) -> usize {
        self.pieces
            .partition_point(|piece| piece.start <= s)
            .saturating_sub(1)
    }

    /// Curvature at a distance, 1/m.
    pub fn curvature_at(&self, s: f64) -> f64 {
        if s < 0.0 {
            return 0.0;
        }
        let piece = self.piece(self.piece_idx_at(s));
        piece.curvature + piece.curvature_rate * (s - piece.start)
    }

    /// Where a point at distance `s`, offset `d` and relative heading `heading` lies in the world.
    pub fn to_world(&self, s: f64, d: f64, heading: f64) -> Pose {
        let centre = self.centre_at(s);
        let (sin, cos) = centre.heading.sin_cos();
        Pose {
            x: centre.x - d * sin,
            y: centre.y + d * cos,
            heading: centre.heading + heading,
        }
    }

    /// The centre line at a distance.
    pub fn centre_at(&self, s: f64) -> Pose {
        if s < 0.0 {
            return Pose {
                x: s,
                y: 0.0,
                heading: 0.0,
            };
        }
        let piece = self.piece(self.piece_idx_at(s));
        piece.pose_at(s - piece.start)
    }

    /// Distance and offset of a world point, near a first guess of the distance.
    ///
    /// Newton's method on the distance to the centre line; `None` when it does not
    /// converge, as for a point near the centre of a bend.
    pub fn from_world(&self, x: f64, y: f64, guess_s: f64) -> Option<(f64, f64)> {
        let mut s = guess_s;
        for _ in 0..50 {
            let centre = self.centre_at(s);
            let (sin, cos) = centre.heading.sin_cos();
            let (dx, dy) = (x - centre.x, y - centre.y);
            let along = dx * cos + dy * sin;
            let d = dy * cos - dx * sin;
            let scale = 1.0 - self.curvature_at(s) * d;
            if scale <= 0.05 {
                return None;
            }
            let step = (along / scale).clamp(-20.0, 20.0);
            s += step;
            if step.abs() < 1e-10 {
                return Some((s, d));
            }
        }
        None
    }
}

fn fault(segment: &Segment) -> Option<&'static str> {
    let numbers = [
        segment.length,
        segment.curvature_start,
        segment.curvature_end,
        segment.grade,
        segment.bank,
    ];
    if numbers.iter().any(|x| !x.is_finite()) {
        return Some("not a finite number");
    }
    if !(segment.length > 0.0 && segment.length <= 1e6) {
        return Some("length outside 0 to 1000 km");
    }
    if segment.curvature_start.abs() > SHARPEST_CURVATURE
        || segment.curvature_end.abs() > SHARPEST_CURVATURE
    {
        return Some("radius below 1 m");
    }
    if segment.grade.abs() > 0.5 || segment.bank.abs() > 0.5 {
        return Some("grade or bank beyond 0.5 rad");
    }
    None
}
