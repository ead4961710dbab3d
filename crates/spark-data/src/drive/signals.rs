//! Reading a log once.

use std::collections::BTreeMap;

use super::frames::{Camera, Frame, Frames};
use crate::label::{Poses, Series};
use crate::log::{Body, Event, LogError, LogReader};
use crate::schema::{CalibrationStatus, EncodeIndex};
use crate::wire::WireError;

/// Flag of a frame that can be decoded by itself (V4L2).
const KEY_FRAME: u32 = 8;

/// Motion in the device's frame: x forward, y right, z down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// m/s.
    pub velocity: [f64; 3],
    /// rad/s.
    pub rate: [f64; 3],
}

/// A car ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lead {
    /// How far, m.
    pub distance: f64,
    /// How far to the left, m.
    pub left: f64,
    /// Its speed less ours, m/s.
    pub relative_speed: f64,
}

/// A lane line beside the car, as the driving model of the time saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lane {
    /// How far to the right of the camera, m.
    pub right: f64,
    /// How likely it is there.
    pub probability: f64,
}

/// What a segment's log, or a minute of comma2k19, says.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Drive {
    /// Events by name; those without one by `tag N`.
    pub counts: BTreeMap<String, u64>,
    /// First and last time, ns; `None` without events.
    pub span: Option<(u64, u64)>,
    /// Speed by the car, m/s.
    pub speed: Series<f64>,
    /// The steering wheel's angle, positive to the left, degrees.
    pub steering_angle: Series<f64>,
    /// Whether openpilot drove.
    pub engaged: Series<bool>,
    /// Motion by the camera (`cameraOdometry`).
    pub odometry: Series<Motion>,
    /// Motion by all sensors (`livePose`).
    pub pose: Series<Motion>,
    /// The camera's roll, pitch and yaw against the car's direction, rad; only while they are known.
    pub calibration: Series<[f64; 3]>,
    /// The nearest car ahead; `None` where there is none.
    pub lead: Series<Option<Lead>>,
    /// The lane lines to the left and right of the car.
    pub lanes: Series<[Lane; 2]>,
    /// Where the camera was, where that was recorded: comma2k19 has it, logs have not.
    pub recorded_poses: Option<Poses>,
    /// Frames by camera.
    pub frames: BTreeMap<Camera, Frames>,
    /// Broken values that were left out.
    pub n_broken: u64,
    /// Why the log ended before its end, if it did. What stands before is whole.
    pub ended: Option<LogError>,
}

/// Readings as they come.
#[derive(Default)]
struct Readings {
    speed: Vec<(u64, f64)>,
    steering_angle: Vec<(u64, f64)>,
    engaged: Vec<(u64, bool)>,
    odometry: Vec<(u64, Motion)>,
    pose: Vec<(u64, Motion)>,
    calibration: Vec<(u64, [f64; 3])>,
    lead: Vec<(u64, Option<Lead>)>,
    lanes: Vec<(u64, [Lane; 2])>,
    frames: BTreeMap<Camera, Vec<Frame>>,
}

impl Drive {
    /// Reads a log to its end, or to where it is broken: [`Drive::ended`] says so then.
    pub fn read(log: &mut LogReader<'_>) -> Self {
        let (mut drive, mut readings) = (Self::default(), Readings::default());
        while let Some(event) = log.next_event() {
            match event {
                Ok(event) => {
                    drive.count(&event);
                    if readings.add(&event).is_err() {
                        drive.n_broken += 1;
                    }
                }
                Err(LogError::Event { .. }) => drive.n_broken += 1,
                Err(error) => drive.ended = Some(error),
            }
        }
        if drive.counts.is_empty() && drive.n_broken == 0 {
            drive.ended = drive.ended.or(Some(LogError::Empty));
        }
        drive.speed = readings.speed.into_iter().collect();
        drive.steering_angle = readings.steering_angle.into_iter().collect();
        drive.engaged = readings.engaged.into_iter().collect();
        drive.odometry = readings.odometry.into_iter().collect();
        drive.pose = readings.pose.into_iter().collect();
        drive.calibration = readings.calibration.into_iter().collect();
        drive.lead = readings.lead.into_iter().collect();
        drive.lanes = readings.lanes.into_iter().collect();
        let frames = readings.frames.into_iter();
        drive.frames = frames
            .map(|(camera, frames)| (camera, Frames::new(frames)))
            .collect();
        drive
    }

    fn count(&mut self, event: &Event<'_>) {
        let time = event.log_mono_time();
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        let name = match event.name() {
            Some(name) => name.to_owned(),
            None => format!("tag {}", event.tag()),
        };
        *self.counts.entry(name).or_default() += 1;
    }

    /// Frames of a camera; none if it recorded none.
    pub fn frames_of(&self, camera: Camera) -> &[Frame] {
        self.frames.get(&camera).map_or(&[], Frames::all)
    }
}

impl Readings {
    fn add(&mut self, event: &Event<'_>) -> Result<(), WireError> {
        let time = event.log_mono_time();
        match event.body()? {
            Body::CarState(car) => {
                self.speed.extend(finite(time, f64::from(car.v_ego())));
                self.steering_angle
                    .extend(finite(time, f64::from(car.steering_angle_deg())));
            }
            Body::CarControl(control) => self.engaged.push((time, control.enabled())),
            Body::CameraOdometry(odometry) if event.is_valid() => {
                let at = odometry.timestamp_eof();
                let motion = motion(&odometry.trans()?.to_vec(), &odometry.rot()?.to_vec());
                // Older logs do not say which frame it is of.
                let at = if at > 0 { at } else { time };
                self.odometry.extend(motion.map(|motion| (at, motion)));
            }
            Body::LivePose(pose) if event.is_valid() => {
                let (v, w) = (pose.velocity_device()?, pose.angular_velocity_device()?);
                if v.valid() && w.valid() {
                    let motion = motion(&[v.x(), v.y(), v.z()], &[w.x(), w.y(), w.z()]);
                    self.pose.extend(motion.map(|motion| (time, motion)));
                }
            }
            Body::LiveCalibration(calibration) => {
                let is_known = calibration.cal_status() == CalibrationStatus::Calibrated
                    // Before the status had names it was a number, 1 for calibrated.
                    || calibration.cal_status_old() == 1;
                let angles = three(&calibration.rpy_calib()?.to_vec());
                self.calibration
                    .extend(angles.filter(|_| is_known).map(|angles| (time, angles)));
            }
            Body::RadarState(radar) if event.is_valid() => {
                let lead = radar.lead_one()?;
                let lead = lead.status().then(|| Lead {
                    distance: f64::from(lead.d_rel()),
                    left: f64::from(lead.y_rel()),
                    relative_speed: f64::from(lead.v_rel()),
                });
                self.lead.push((time, lead));
            }
            Body::ModelV2(model) => {
                let (lines, probabilities) = (model.lane_lines()?, model.lane_line_probs()?);
                let lane = |index: usize| {
                    let right = lines.get(index)?.y().ok()?.get(0)?;
                    let probability = probabilities.get(index)?;
                    let lane = Lane {
                        right: f64::from(right),
                        probability: f64::from(probability),
                    };
                    (lane.right.is_finite() && lane.probability.is_finite()).then_some(lane)
                };
                // Of four lines, left to right, those beside the car.
                if let (Some(left), Some(right)) = (lane(1), lane(2)) {
                    let at = model.timestamp_eof();
                    self.lanes
                        .push((if at > 0 { at } else { time }, [left, right]));
                }
            }
            Body::RoadEncodeIdx(index) => self.frame(Camera::Road, index),
            Body::WideRoadEncodeIdx(index) => self.frame(Camera::WideRoad, index),
            Body::DriverEncodeIdx(index) => self.frame(Camera::Driver, index),
            Body::QRoadEncodeIdx(index) => self.frame(Camera::RoadPreview, index),
            _ => {}
        }
        Ok(())
    }

    fn frame(&mut self, camera: Camera, index: EncodeIndex<'_>) {
        self.frames.entry(camera).or_default().push(Frame {
            id: index.frame_id(),
            index: index.segment_id(),
            end_of_frame: index.timestamp_eof(),
            is_key: index.flags() & KEY_FRAME != 0,
        });
    }
}

fn finite(time: u64, value: f64) -> Option<(u64, f64)> {
    value.is_finite().then_some((time, value))
}

fn three(values: &[f32]) -> Option<[f64; 3]> {
    let values: [f32; 3] = values.try_into().ok()?;
    values
        .iter()
        .all(|it| it.is_finite())
        .then(|| values.map(f64::from))
}

fn motion(velocity: &[f32], rate: &[f32]) -> Option<Motion> {
    Some(Motion {
        velocity: three(velocity)?,
        rate: three(rate)?,
    })
}
