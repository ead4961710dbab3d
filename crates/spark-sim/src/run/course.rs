//! What lies before the cars of a block: the pieces of road under them, and the lines of their requests.
//!
//! ```text
//! road   |--- piece ---|--- piece ---|       a car has the piece it is on and the one under its preview
//! line   value + slope (t - start), until `next`: one of each request holds at a time
//! ```

use super::tables::{LineLane, LineLanes, Prepared, RequestLanes, RoadLane, RoadLanes};
use crate::profile::Profile;
use crate::road::{Piece, Road};
use crate::scenario::Scenario;

/// Roads and requests, lane by lane.
pub(super) struct Course {
    pub(super) road: RoadLanes,
    pub(super) preview: RoadLanes,
    pub(super) requests: RequestLanes,
    /// Whether any lane's curvature, or acceleration, is asked for outright.
    pub(super) has_curvature_requests: bool,
    pub(super) has_acceleration_requests: bool,
    /// How far ahead of a car its preview point lies, in time.
    preview_s: f64,
    /// Piece of road under each car, and under its preview point.
    pub(super) piece_idx: Vec<usize>,
    preview_idx: Vec<usize>,
}

impl Course {
    /// The pieces on which the cars start. Lines are those of [`Course::change_lines`].
    pub(super) fn new(lanes: &[Prepared<'_>], preview_s: f64) -> Self {
        let n = lanes.len();
        let endless = RoadLane {
            length: f32::INFINITY,
            ..RoadLane::default()
        };
        let flat = LineLane {
            next: f32::INFINITY,
            ..LineLane::default()
        };
        let requests = || lanes.iter().map(|lane| &lane.scenario.requests);
        let starts = |lane: &Prepared<'_>| lane.road.piece_idx_at(lane.scenario.start.distance);
        let piece_idx: Vec<usize> = lanes.iter().map(starts).collect();
        let mut course = Self {
            road: RoadLanes::filled(n, endless),
            preview: RoadLanes::filled(n, endless),
            requests: RequestLanes {
                cruise: LineLanes::filled(n, flat),
                offset: LineLanes::filled(n, flat),
                curvature: LineLanes::filled(n, flat),
                acceleration: LineLanes::filled(n, flat),
            },
            has_curvature_requests: requests().any(|r| r.curvature.is_some()),
            has_acceleration_requests: requests().any(|r| r.acceleration.is_some()),
            preview_s,
            preview_idx: piece_idx.clone(),
            piece_idx,
        };
        for (lane, prepared) in lanes.iter().enumerate() {
            course.load_pieces(lane, &prepared.road);
        }
        course
    }

    /// Where the piece under the lane's car starts, m along the road.
    pub(super) fn piece_start(&self, lane: usize, road: &Road) -> f64 {
        road.piece(self.piece_idx[lane]).start
    }

    /// Whether the car at `s` m of its piece, or its preview point, is beyond its piece. As
    /// `Drive` asks for all lanes: what other lanes need must not change this one.
    fn has_left_piece(&self, lane: usize, s: f32, v: f32) -> bool {
        let (road, preview) = (self.road.get(lane), self.preview.get(lane));
        let ahead = s + v * self.preview_s as f32 - preview.ahead;
        s >= road.length || s < 0.0 || ahead >= preview.length || ahead < 0.0
    }

    /// Moves a lane whose car at `s` m of its piece, or whose preview point, left its piece of
    /// road to the right one; the position along that, if it is another.
    pub(super) fn change_pieces(
        &mut self,
        lane: usize,
        road: &Road,
        mut s: f32,
        v: f32,
    ) -> Option<f32> {
        if !self.has_left_piece(lane, s, v) {
            return None;
        }
        let mut car = self.piece_idx[lane];
        while s >= road.piece(car).length as f32 {
            s -= road.piece(car).length as f32;
            car += 1;
        }
        while s < 0.0 && car > 0 {
            car -= 1;
            s += road.piece(car).length as f32;
        }
        let ahead = v.max(0.0) * self.preview_s as f32;
        let point = road.piece(car).start + f64::from(s) + f64::from(ahead);
        let mut preview = self.preview_idx[lane];
        while point >= road.piece(preview).start + road.piece(preview).length {
            preview += 1;
        }
        while preview > 0 && point < road.piece(preview).start {
            preview -= 1;
        }
        if (car, preview) == (self.piece_idx[lane], self.preview_idx[lane]) {
            return None;
        }
        (self.piece_idx[lane], self.preview_idx[lane]) = (car, preview);
        self.load_pieces(lane, road);
        Some(s)
    }

    /// Copies the current pieces of one lane's road into its columns.
    fn load_pieces(&mut self, lane: usize, road: &Road) {
        let car = road.piece(self.piece_idx[lane]);
        let lane_of = |piece: &Piece| RoadLane {
            ahead: (piece.start - car.start) as f32,
            length: piece.length as f32,
            curvature: piece.curvature as f32,
            curvature_rate: piece.curvature_rate as f32,
            grade: piece.grade.sin() as f32,
            bank: piece.bank as f32,
        };
        self.road.set(lane, lane_of(car));
        self.preview
            .set(lane, lane_of(road.piece(self.preview_idx[lane])));
    }

    /// Takes the lines that hold at `t` seconds; the time at which the first of them ends.
    pub(super) fn change_lines(&mut self, lane: usize, scenario: &Scenario, t: f64) -> f32 {
        let requests = &scenario.requests;
        let line = |profile: &Option<Profile>, absent: f64| {
            let constant = Profile::constant(absent);
            // Half a step early, so that rounding of f32 times cannot skip a point.
            let (line, next) = profile
                .as_ref()
                .unwrap_or(&constant)
                .line_at(t + 0.25 * scenario.dt_s);
            LineLane {
                value: line.value as f32,
                slope: line.slope as f32,
                start: line.start as f32,
                next: next as f32,
            }
        };
        let lines = [
            line(&requests.cruise_speed, scenario.start.speed),
            line(&requests.offset, 0.0),
            line(&requests.curvature, 0.0),
            line(&requests.acceleration, 0.0),
        ];
        let tables = &mut self.requests;
        tables.cruise.set(lane, lines[0]);
        tables.offset.set(lane, lines[1]);
        tables.curvature.set(lane, lines[2]);
        tables.acceleration.set(lane, lines[3]);
        let ends = lines.iter().map(|line| line.next);
        ends.fold(f32::INFINITY, f32::min)
    }
}
