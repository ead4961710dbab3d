//! A minute of comma2k19 as a drive.
//!
//! ```text
//! global_pose/frame_times        frames of the road camera, `video.hevc`, numbered from 0
//! global_pose/frame_*            recorded poses: paths
//! processed_log/CAN/{speed, steering_angle}
//! ```
//!
//! It has no calibration angles, no car ahead and no lane lines: data sets of such minutes ask for none
//! ([`DatasetOptions::with_calibration`](super::DatasetOptions::with_calibration)). Turning rates are not derived from its poses.

use super::frames::{Camera, Frame, Frames};
use super::signals::Drive;
use crate::comma2k19::Comma2k19;
use crate::label::{Poses, PosesError, Series};

impl Drive {
    /// A minute of the data set, its times as nanoseconds of the same clock.
    ///
    /// # Errors
    ///
    /// [`PosesError`] for poses that are none.
    pub fn of_comma2k19(minute: &Comma2k19) -> Result<Self, PosesError> {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        let series = |(times, values): &(Vec<f64>, Vec<f64>)| -> Series<f64> {
            let finite = times
                .iter()
                .zip(values)
                .filter(|(_, value)| value.is_finite());
            finite.map(|(time, value)| (ns(*time), *value)).collect()
        };
        // As the data set will ask for them: whole nanoseconds, so that the last frame has its own pose.
        let times = minute
            .frame_times
            .iter()
            .map(|time| ns(*time) as f64 * 1e-9);
        let times: Vec<f64> = times.collect();
        let poses = Poses::recorded(&times, &minute.positions, &minute.orientations)?;
        let frames = minute.frame_times.iter().zip(0..);
        let frames = frames.map(|(time, index)| Frame {
            id: index,
            index,
            end_of_frame: ns(*time),
            // Of the others only the video says it.
            is_key: index == 0,
        });
        let span = minute.frame_times.first().zip(minute.frame_times.last());
        let mut drive = Self {
            span: span.map(|(first, last)| (ns(*first), ns(*last))),
            speed: series(&minute.speed),
            steering_angle: series(&minute.steering_angle),
            recorded_poses: Some(poses),
            ..Self::default()
        };
        drive
            .frames
            .insert(Camera::Road, Frames::new(frames.collect()));
        Ok(drive)
    }
}
