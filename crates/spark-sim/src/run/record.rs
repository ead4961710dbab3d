//! Traces of drives: a row per interval, and one at a collision.

use super::cars::Cars;
use super::course::Course;
use super::outcome::{Trace, TraceActor, TraceRow};
use super::tables::Prepared;
use super::traffic::Traffic;
use crate::control::{ActionBatch, StateBatch};

/// What a row is read from.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) lanes: &'a [Prepared<'a>],
    pub(super) cars: &'a Cars,
    pub(super) course: &'a Course,
    pub(super) state: &'a StateBatch,
    pub(super) action: &'a ActionBatch,
    pub(super) traffic: &'a Traffic,
}

/// The traces of a block, if they are wanted.
pub(super) struct Recorder {
    interval_s: Option<f64>,
    traces: Vec<Trace>,
    /// Lanes that have not collided.
    recording: Vec<bool>,
}

impl Recorder {
    /// A row every `interval_s` seconds; none at all without an interval.
    pub(super) fn new(n_lanes: usize, interval_s: Option<f64>) -> Self {
        let n_traces = if interval_s.is_some() { n_lanes } else { 0 };
        Self {
            interval_s,
            traces: vec![Trace::default(); n_traces],
            recording: vec![true; n_traces],
        }
    }

    /// Records lanes that drove this step: at the interval, and the moment of a collision.
    pub(super) fn record(
        &mut self,
        scene: Scene<'_>,
        has_collided: impl Fn(usize) -> bool,
        step_idx: usize,
    ) {
        let Some(interval) = self.interval_s else {
            return;
        };
        for (lane, trace) in self.traces.iter_mut().enumerate() {
            let collided = has_collided(lane);
            let driving = scene.cars.is_alive(lane) || collided;
            if !driving || !self.recording[lane] {
                continue;
            }
            self.recording[lane] = !collided;
            let dt = scene.lanes[lane].scenario.dt_s;
            let every = ((interval / dt).round() as usize).max(1);
            if collided || step_idx.is_multiple_of(every) {
                trace.rows.push(scene.row(lane, step_idx));
            }
        }
    }

    /// The lane's trace, once.
    pub(super) fn take(&mut self, lane: usize) -> Option<Trace> {
        self.traces.get_mut(lane).map(std::mem::take)
    }
}

impl Scene<'_> {
    fn row(&self, lane: usize, step_idx: usize) -> TraceRow {
        let value = |column: &[f32]| f64::from(column[lane]);
        let vehicle = &self.cars.vehicle;
        let motion = self.cars.motion.get(lane);
        let start = self.course.piece_start(lane, &self.lanes[lane].road);
        let actors = self.traffic.states(lane).iter().map(|actor| TraceActor {
            s: actor.s,
            d: actor.d,
            heading: actor.heading(),
            speed: actor.speed,
        });
        TraceRow {
            time: (step_idx + 1) as f64 * self.lanes[lane].scenario.dt_s,
            s: start + value(vehicle.column(0)),
            d: value(vehicle.column(1)),
            heading: value(vehicle.column(4)),
            speed: value(vehicle.column(3)),
            acceleration: f64::from(motion.acceleration),
            steer: value(vehicle.column(2)),
            desired_curvature: value(&self.state.desired_curvature),
            curvature: f64::from(motion.curvature),
            steer_command: value(&self.action.steer),
            accel_command: value(&self.action.accel),
            v_target: value(&self.state.v_target),
            offset_target: f64::from(motion.offset_target),
            gap: (motion.lead_present > 0.5).then_some(f64::from(motion.lead_gap)),
            actors: actors.collect(),
        }
    }
}
