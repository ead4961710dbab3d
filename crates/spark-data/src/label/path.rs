//! Where the camera will be.
//!
//! ```text
//! path(now, t) = q(now)^-1 (p(now + t) - p(now)) q(now)        p: positions, on the line between two poses
//! ```
//!
//! Poses are recorded (comma2k19), or come from motion: p' = q v q^-1, q' = q (0, w) / 2, with velocity v and rate w in the camera's
//! frame, integrated by the midpoint rule. Their origin and heading are then arbitrary, and so drift is not seen; a path is short.

use std::array::from_fn;

/// Seconds at which driving models say where the car will be: 10 (i / 32)^2 s.
pub const MODEL_TIMES: [f64; 33] = {
    let mut times = [0.0; 33];
    let mut i = 0;
    while i < 33 {
        times[i] = 10.0 * (i * i) as f64 / 1024.0;
        i += 1;
    }
    times
};

/// A turn: a unit quaternion w, x, y, z.
type Turn = [f64; 4];

/// Poses of the camera, by time.
#[derive(Debug, Clone, PartialEq)]
pub struct Poses {
    /// Seconds, growing.
    times: Vec<f64>,
    positions: Vec<[f64; 3]>,
    turns: Vec<Turn>,
}

/// Why poses are none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PosesError {
    /// Lists of different lengths.
    #[error(
        "{times} times, {positions} positions or velocities, {turns} turns: there must be as many of each"
    )]
    Lengths {
        /// Times.
        times: usize,
        /// Positions or velocities.
        positions: usize,
        /// Orientations or rates.
        turns: usize,
    },
    /// A time that is not after the one before, or not finite.
    #[error("time {index} is not after the one before it")]
    Order {
        /// Which one, from 0.
        index: usize,
    },
    /// A quaternion that is no rotation, or a number that is not finite.
    #[error("pose {index} is not finite, or its quaternion has no direction")]
    NoPose {
        /// Which one, from 0.
        index: usize,
    },
}

impl Poses {
    /// From recorded positions and orientations: quaternions w, x, y, z that turn the camera's frame (forward, right,
    /// down) into that of the positions. They are normalised.
    ///
    /// # Errors
    ///
    /// [`PosesError`].
    pub fn recorded(
        times: &[f64],
        positions: &[[f64; 3]],
        orientations: &[[f64; 4]],
    ) -> Result<Self, PosesError> {
        check(times, positions.len(), orientations.len())?;
        let mut turns = Vec::with_capacity(times.len());
        for (index, (position, turn)) in positions.iter().zip(orientations).enumerate() {
            let turn = unit(*turn).filter(|_| position.iter().all(|it| it.is_finite()));
            turns.push(turn.ok_or(PosesError::NoPose { index })?);
        }
        Ok(Self {
            times: times.to_vec(),
            positions: positions.to_vec(),
            turns,
        })
    }

    /// From motion in the camera's frame: velocities in m/s, rates in rad/s, of the times in s. The first pose is at the
    /// origin and turned by nothing.
    ///
    /// # Errors
    ///
    /// [`PosesError`].
    pub fn integrated(
        times: &[f64],
        velocities: &[[f64; 3]],
        rates: &[[f64; 3]],
    ) -> Result<Self, PosesError> {
        check(times, velocities.len(), rates.len())?;
        let is_finite = |it: &[f64; 3]| it.iter().all(|it| it.is_finite());
        let broken = velocities
            .iter()
            .zip(rates)
            .position(|(v, w)| !is_finite(v) || !is_finite(w));
        if let Some(index) = broken {
            return Err(PosesError::NoPose { index });
        }
        let mut poses = Self {
            times: times.to_vec(),
            positions: Vec::with_capacity(times.len()),
            turns: Vec::with_capacity(times.len()),
        };
        let (mut position, mut turn) = ([0.0; 3], [1.0, 0.0, 0.0, 0.0]);
        for i in 0..times.len() {
            if i > 0 {
                let dt = times[i] - times[i - 1];
                let middle = |of: &[[f64; 3]], k: usize| (of[i - 1][k] + of[i][k]) / 2.0;
                let half = turn_by(from_fn(|k| middle(rates, k) * dt / 2.0));
                let at_middle = product(turn, half);
                let moved = turned(at_middle, from_fn(|k| middle(velocities, k) * dt));
                position = from_fn(|k| position[k] + moved[k]);
                turn = product(at_middle, half);
            }
            poses.positions.push(position);
            poses.turns.push(turn);
        }
        Ok(poses)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Their times, s.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Where the camera will be so many seconds after `now_s`, in its frame then: x forward, y right, z down, m. Between poses
    /// positions lie on a line, and turns on the shortest way.
    ///
    /// `None` where that is not known: before the first pose or behind the last one, where poses on the way are further apart than
    /// `most_gap_s`, and for times before now.
    pub fn path(&self, now_s: f64, after_s: &[f64], most_gap_s: f64) -> Option<Vec<[f64; 3]>> {
        let last = now_s + after_s.iter().copied().fold(0.0, f64::max);
        let is_ahead = after_s.iter().all(|it| *it >= 0.0);
        let (first, end) = (self.behind(now_s)?, self.behind(last)?);
        let is_whole = |pair: &[f64]| pair[1] - pair[0] <= most_gap_s;
        if !is_ahead
            || !self.times[first.saturating_sub(1)..=end]
                .windows(2)
                .all(is_whole)
        {
            return None;
        }
        let (origin, turn) = (self.position(now_s)?, self.turn(now_s)?);
        let back = [turn[0], -turn[1], -turn[2], -turn[3]];
        let point = |after: &f64| {
            let position = self.position(now_s + after)?;
            Some(turned(back, from_fn(|k| position[k] - origin[k])))
        };
        after_s.iter().map(point).collect()
    }

    /// The first pose that is not before a time; `None` outside the poses.
    fn behind(&self, time: f64) -> Option<usize> {
        let behind = self.times.partition_point(|it| *it < time);
        let is_inside = self.times.first().is_some_and(|first| *first <= time);
        (is_inside && behind < self.times.len()).then_some(behind)
    }

    /// The poses around a time, and how far it is from the first to the second of them.
    fn around(&self, time: f64) -> Option<(usize, usize, f64)> {
        let behind = self.behind(time)?;
        let Some(before) = behind.checked_sub(1) else {
            return Some((behind, behind, 0.0));
        };
        let (from, to) = (self.times[before], self.times[behind]);
        Some((before, behind, (time - from) / (to - from)))
    }

    fn position(&self, time: f64) -> Option<[f64; 3]> {
        let (before, behind, share) = self.around(time)?;
        let (p, q) = (self.positions[before], self.positions[behind]);
        Some(from_fn(|k| p[k] + (q[k] - p[k]) * share))
    }

    fn turn(&self, time: f64) -> Option<Turn> {
        let (before, behind, share) = self.around(time)?;
        let (p, q) = (self.turns[before], self.turns[behind]);
        // A quaternion and its negative are the same turn.
        let sign = if p.iter().zip(q).map(|(p, q)| p * q).sum::<f64>() < 0.0 {
            -1.0
        } else {
            1.0
        };
        unit(from_fn(|k| p[k] * (1.0 - share) + q[k] * sign * share))
    }
}

fn check(times: &[f64], positions: usize, turns: usize) -> Result<(), PosesError> {
    if times.len() != positions || times.len() != turns {
        return Err(PosesError::Lengths {
            times: times.len(),
            positions,
            turns,
        });
    }
    let grows = |pair: &[f64]| pair[0] < pair[1];
    if let Some(index) = times.iter().position(|it| !it.is_finite()) {
        return Err(PosesError::Order { index });
    }
    match times.windows(2).position(|pair| !grows(pair)) {
        Some(before) => Err(PosesError::Order { index: before + 1 }),
        None => Ok(()),
    }
}

/// A quaternion of length 1; `None` if it has none.
fn unit(turn: Turn) -> Option<Turn> {
    let length = turn.iter().map(|it| it * it).sum::<f64>().sqrt();
    (length > 0.0 && length.is_finite()).then(|| turn.map(|it| it / length))
}

/// The turn about an axis by its length, rad.
fn turn_by(about: [f64; 3]) -> Turn {
    let angle = about.iter().map(|it| it * it).sum::<f64>().sqrt();
    let (sin, cos) = (angle / 2.0).sin_cos();
    // sin(a / 2) / a tends to 1 / 2.
    let scale = if angle > 1e-12 { sin / angle } else { 0.5 };
    [cos, about[0] * scale, about[1] * scale, about[2] * scale]
}

/// First `b`, then `a` (Hamilton).
fn product([aw, ax, ay, az]: Turn, [bw, bx, by, bz]: Turn) -> Turn {
    [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
}

fn turned(turn: Turn, [x, y, z]: [f64; 3]) -> [f64; 3] {
    let [w, a, b, c] = turn;
    let [_, x, y, z] = product(product(turn, [0.0, x, y, z]), [w, -a, -b, -c]);
    [x, y, z]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Driving a circle to the right: v = 10 m/s, w = 0.2 rad/s about the axis that points down, so a radius of 50 m.
    #[test]
    fn a_circle_is_a_circle() {
        let times: Vec<f64> = (0..200).map(|i| f64::from(i) * 0.05).collect();
        let (velocities, rates) = (vec![[10.0, 0.0, 0.0]; 200], vec![[0.0, 0.0, 0.2]; 200]);
        let poses = Poses::integrated(&times, &velocities, &rates).unwrap();
        for now in [0.0, 57.0 * 0.05, 1.234] {
            let path = poses.path(now, &[0.0, 1.0, 5.0], 0.06).unwrap();
            for (point, t) in path.iter().zip([0.0, 1.0, 5.0f64]) {
                let angle = 0.2 * t;
                let want = [50.0 * angle.sin(), 50.0 * (1.0 - angle.cos()), 0.0];
                for k in 0..3 {
                    assert!((point[k] - want[k]).abs() < 2e-3, "{point:?}, not {want:?}");
                }
            }
        }
        assert_eq!(poses.path(0.0, &[10.0], 0.06), None, "behind the last pose");
        assert_eq!(poses.path(0.0, &[1.0], 0.04), None, "poses too far apart");
        assert_eq!(poses.path(-0.1, &[0.5], 1.0), None, "before the first pose");
        assert_eq!(poses.path(5.0, &[-1.0], 1.0), None, "the past");
        assert_eq!(poses.path(f64::NAN, &[0.0], 1.0), None);
        assert_eq!(poses.path(0.0, &[f64::NAN], 1.0), None);
    }

    #[test]
    fn what_are_no_poses_is_refused() {
        let turn = [[1.0, 0.0, 0.0, 0.0]; 2];
        let at = [[0.0; 3]; 2];
        let refused =
            |times: &[f64], turns: &[[f64; 4]]| Poses::recorded(times, &at, turns).unwrap_err();
        assert_eq!(refused(&[0.0, 0.0], &turn), PosesError::Order { index: 1 });
        assert_eq!(
            refused(&[0.0, f64::NAN], &turn),
            PosesError::Order { index: 1 }
        );
        assert_eq!(
            refused(&[0.0, 1.0], &[turn[0], [0.0; 4]]),
            PosesError::NoPose { index: 1 }
        );
        assert!(matches!(
            refused(&[0.0], &turn),
            PosesError::Lengths { times: 1, .. }
        ));
    }
}
