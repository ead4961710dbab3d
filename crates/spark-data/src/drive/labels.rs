//! Labels of one frame.

use super::signals::{Drive, Lane, Lead, Motion};
use crate::label::{Poses, Series};

/// Where a label comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The car's own speed.
    CarState,
    /// The camera's motion.
    CameraOdometry,
    /// The device's motion, by all sensors.
    LivePose,
    /// The radar and the model, joined.
    RadarState,
    /// The driving model of the time: no measurement.
    ModelV2,
    /// Poses that comma2k19 computed afterwards, by all sensors.
    GlobalPose,
}

/// A label, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sourced<T> {
    /// What it is.
    pub value: T,
    /// By whom.
    pub source: Source,
}

/// What is known of a moment; `None` where no reading is near enough.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Labels {
    /// m/s.
    pub speed: Option<Sourced<f64>>,
    /// Turning to the right, rad/s.
    pub yaw_rate: Option<Sourced<f64>>,
    /// The nearest car ahead, or that there is none.
    pub lead: Option<Sourced<Option<Lead>>>,
    /// The lane lines to the left and right.
    pub lanes: Option<Sourced<[Lane; 2]>>,
    /// The camera's roll, pitch and yaw against the car's direction, rad: the newest that was known by then.
    pub calibration: Option<[f64; 3]>,
}

/// Readings of the car, ten a second in a qlog, may be this far apart.
const CAR_GAP_NS: u64 = 250_000_000;
/// The camera's motion, at least two a second in a qlog.
const MOTION_GAP_NS: u64 = 600_000_000;
/// What is taken from the nearest reading, at most so far away: half of the time between two in a qlog.
const LEAD_AWAY_NS: u64 = 150_000_000;
const LANES_AWAY_NS: u64 = 50_000_000;

impl Drive {
    /// Labels of a moment, ns of the log's clock, such as the end of a frame's exposure.
    pub fn labels(&self, time: u64) -> Labels {
        let speed = self.speed.between(time, CAR_GAP_NS);
        let nearest = self.lead.nearest(time, LEAD_AWAY_NS);
        let lanes = self.lanes.nearest(time, LANES_AWAY_NS);
        let by_then = self.calibration.times().partition_point(|it| *it <= time);
        let calibration = by_then
            .checked_sub(1)
            .map(|index| self.calibration.values()[index]);
        Labels {
            speed: speed.map(|it| sourced(it.value, Source::CarState)),
            yaw_rate: self.yaw_rate(time),
            lead: nearest.map(|it| sourced(*it.value, Source::RadarState)),
            lanes: lanes.map(|it| sourced(*it.value, Source::ModelV2)),
            calibration,
        }
    }

    fn yaw_rate(&self, time: u64) -> Option<Sourced<f64>> {
        let at = |motions: &Series<Motion>| between(motions, time);
        let by_pose = at(&self.pose).map(|rate| sourced(rate, Source::LivePose));
        by_pose.or_else(|| at(&self.odometry).map(|rate| sourced(rate, Source::CameraOdometry)))
    }

    /// Poses: those that were recorded, else by motion, of all sensors where the log has that, of the camera otherwise. `None`
    /// without any. Times are seconds of the log's clock.
    pub fn poses(&self) -> Option<(Poses, Source)> {
        if let Some(poses) = &self.recorded_poses {
            return Some((poses.clone(), Source::GlobalPose));
        }
        let (motions, source) = match (self.pose.len(), self.odometry.len()) {
            (0 | 1, 0 | 1) => return None,
            (0 | 1, _) => (&self.odometry, Source::CameraOdometry),
            _ => (&self.pose, Source::LivePose),
        };
        let mut rows: Vec<(u64, Motion)> = Vec::with_capacity(motions.len());
        for (time, motion) in motions.times().iter().zip(motions.values()) {
            // Of readings at the same time the first counts.
            if rows.last().is_none_or(|(before, _)| before < time) {
                rows.push((*time, *motion));
            }
        }
        let seconds: Vec<f64> = rows.iter().map(|(time, _)| *time as f64 * 1e-9).collect();
        let velocities: Vec<[f64; 3]> = rows.iter().map(|(_, motion)| motion.velocity).collect();
        let rates: Vec<[f64; 3]> = rows.iter().map(|(_, motion)| motion.rate).collect();
        Poses::integrated(&seconds, &velocities, &rates)
            .ok()
            .map(|poses| (poses, source))
    }
}

fn sourced<T>(value: T, source: Source) -> Sourced<T> {
    Sourced { value, source }
}

/// The turning rate between two readings.
fn between(motions: &Series<Motion>, time: u64) -> Option<f64> {
    let times = motions.times();
    let behind = times.partition_point(|it| *it < time);
    let first = behind.saturating_sub(1);
    let rates = (first..=behind)
        .filter_map(|index| Some((*times.get(index)?, motions.values()[index].rate[2])));
    let rates: Series<f64> = rates.collect();
    rates.between(time, MOTION_GAP_NS).map(|it| it.value)
}
