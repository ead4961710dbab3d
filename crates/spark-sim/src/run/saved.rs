//! Drives as bytes and back: what one process drove, for another one's report.
//!
//! ```text
//! drives: u64, then for each
//!   index, replicate, seed: u64     name     family: 0, or 1 and a text
//!   0 and the metrics, in the order of their fields, or 1 and the text of the error
//! text = u64 and so many bytes of UTF-8    f64 = its bits    absent = 0, present = 1 and the value
//! ```
//!
//! Numbers are little-endian, and bits come back as they were, NaN's too. A report made of drives that were read
//! back says what the first one said: of an error the text is kept, as reports have no more of it.
//!
//! Deliberately absent: traces; checksums and versions, which whoever keeps the bytes has around them
//! ([`DRIVES_FORMAT`] is the version to keep).

use super::outcome::{ScenarioError, ScenarioResult};
use crate::SimError;
use crate::metric::{Collision, Metrics};

/// Changes with the bytes, and when a metric is added.
pub const DRIVES_FORMAT: u32 = 1;

/// Drives as bytes, but for their traces.
pub fn drives_to_bytes(results: &[ScenarioResult]) -> Vec<u8> {
    let mut bytes = Vec::new();
    results.len().put(&mut bytes);
    for result in results {
        result.index.put(&mut bytes);
        result.replicate.put(&mut bytes);
        result.seed.put(&mut bytes);
        result.name.put(&mut bytes);
        result.family.put(&mut bytes);
        match &result.outcome {
            Ok(metrics) => {
                bytes.push(0);
                metrics.put(&mut bytes);
            }
            Err(error) => {
                bytes.push(1);
                error.to_string().put(&mut bytes);
            }
        }
    }
    bytes
}

/// Drives that [`drives_to_bytes`] wrote.
///
/// # Errors
///
/// [`SimError::NoDrives`] for other bytes: too few, too many, or a mark that stands for nothing.
pub fn drives_from_bytes(bytes: &[u8]) -> Result<Vec<ScenarioResult>, SimError> {
    let mut rest = bytes;
    let mut read = || {
        let n_drives = usize::take(&mut rest)?;
        let mut results = Vec::new();
        for _ in 0..n_drives {
            results.push(drive(&mut rest)?);
        }
        rest.is_empty().then_some(results)
    };
    read().ok_or(SimError::NoDrives {
        n_bytes: bytes.len(),
    })
}

fn drive(rest: &mut &[u8]) -> Option<ScenarioResult> {
    Some(ScenarioResult {
        index: usize::take(rest)?,
        replicate: usize::take(rest)?,
        seed: u64::take(rest)?,
        name: String::take(rest)?,
        family: Value::take(rest)?,
        outcome: match mark(rest)? {
            false => Ok(Metrics::take(rest)?),
            true => Err(ScenarioError::ReadBack {
                text: String::take(rest)?,
            }),
        },
        trace: None,
    })
}

fn mark(rest: &mut &[u8]) -> Option<bool> {
    match rest.split_off_first()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// A value as bytes.
trait Value: Sized {
    fn put(&self, bytes: &mut Vec<u8>);

    /// Takes it from the beginning; nothing if the bytes are not one.
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

impl Value for u64 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let (value, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(Self::from_le_bytes(*value))
    }
}

impl Value for usize {
    fn put(&self, bytes: &mut Vec<u8>) {
        (*self as u64).put(bytes);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        u64::take(rest)?.try_into().ok()
    }
}

impl Value for f64 {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.to_bits().put(bytes);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        u64::take(rest).map(Self::from_bits)
    }
}

impl Value for String {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.len().put(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let n_bytes = usize::take(rest)?;
        let text = rest.split_off(..n_bytes)?;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(bytes);
        }
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        match mark(rest)? {
            false => Some(None),
            true => T::take(rest).map(Some),
        }
    }
}

/// All fields of a struct, one after the other; the compiler names one that is missing.
macro_rules! value {
    ($type:ident { $($field:ident,)* }) => {
        impl Value for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(bytes);)*
            }

            fn take(rest: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Value::take(rest)?),* })
            }
        }
    };
}

value!(Collision {
    time_s,
    closing_speed,
    actor_idx,
});

value!(Metrics {
    n_steps,
    duration_s,
    distance_m,
    duration_requested_s,
    distance_requested_m,
    lateral_error_rmse,
    lateral_error_mean,
    lateral_error_max,
    heading_error_rmse,
    speed_error_rmse,
    curvature_error_rmse,
    steer_smoothness,
    steer_std,
    accel_smoothness,
    lateral_acceleration_max,
    lateral_jerk_rms,
    lateral_jerk_max,
    acceleration_rms,
    deceleration_max,
    jerk_rms,
    jerk_max,
    discomfort_ratio,
    saturation_ratio,
    safety_margin_min,
    off_lane_ratio,
    off_road_ratio,
    grip_limit_ratio,
    ttc_min,
    gap_min,
    headway_min,
    collision,
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{LateralPid, LateralPidConfig, named};
    use crate::report::{run_json, run_markdown};
    use crate::run::{RunOptions, RunReport, Simulator};
    use crate::scenario::{Fuzzer, Scenario};

    fn driven() -> (Vec<Scenario>, RunReport) {
        let mut scenarios: Vec<Scenario> = Fuzzer::new(7).iter(9).collect();
        scenarios[2].duration_s = -1.0;
        scenarios[3].family = Some("f\u{e4}mily".to_owned());
        let simulator = Simulator::new(RunOptions::default()).expect("valid options");
        let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
        let report = simulator.run_replicates(&scenarios, 2, &pid);
        (scenarios, report)
    }

    #[test]
    fn a_report_of_drives_read_back_is_the_report() {
        let (_, mut report) = driven();
        let bytes = drives_to_bytes(&report.results);
        let results = drives_from_bytes(&bytes).expect("drives");
        assert_eq!(drives_to_bytes(&results), bytes);
        let back = RunReport::of_drives("pid", report.device.clone(), results);
        assert!(report.wall_s.take().is_some() && report.n_threads.take().is_some());
        assert_eq!(run_markdown(&back), run_markdown(&report));
        assert_eq!(run_json(&back).unwrap(), run_json(&report).unwrap());
        assert!(
            run_markdown(&back).contains("2 failed"),
            "one scenario, twice"
        );
    }

    #[test]
    fn bits_of_numbers_that_are_none_come_back() {
        let (_, mut report) = driven();
        let odd = [
            f64::from_bits(0x7ff8_0000_0000_1234),
            f64::NEG_INFINITY,
            -0.0,
        ];
        for (result, odd) in report.results.iter_mut().zip(odd) {
            let metrics = result.outcome.as_mut().expect("driven");
            (metrics.jerk_rms, metrics.ttc_min) = (odd, Some(odd));
        }
        let back = drives_from_bytes(&drives_to_bytes(&report.results)).expect("drives");
        for (result, odd) in back.iter().zip(odd) {
            let metrics = result.outcome.as_ref().expect("driven");
            assert_eq!(metrics.jerk_rms.to_bits(), odd.to_bits());
            assert_eq!(metrics.ttc_min.map(f64::to_bits), Some(odd.to_bits()));
        }
    }

    #[test]
    fn a_drive_read_back_with_a_figure_that_is_no_number_has_failed() {
        let (_, mut report) = driven();
        let metrics = report.results[6].outcome.as_mut().expect("driven");
        metrics.jerk_rms = f64::NAN;
        let back = drives_from_bytes(&drives_to_bytes(&report.results)).expect("drives");
        let back = RunReport::of_drives("pid", "cpu", back);
        let told = run_markdown(&back);
        assert!(
            told.contains("3 failed") && told.contains("jerk_rms is NaN"),
            "{told}"
        );
        assert!(run_json(&back).is_ok());
    }

    #[test]
    fn figures_that_no_drive_has_make_a_report_too() {
        let (_, mut report) = driven();
        for result in &mut report.results {
            if let Ok(metrics) = &mut result.outcome {
                (metrics.n_steps, metrics.jerk_rms) = (u64::MAX, f64::MAX);
            }
        }
        let back = drives_from_bytes(&drives_to_bytes(&report.results)).expect("drives");
        let back = RunReport::of_drives("pid", "cpu", back);
        assert_eq!(back.n_agent_steps, u64::MAX);
        assert!(run_markdown(&back).contains("jerk_rms"));
        assert!(run_json(&back).is_err(), "their mean is infinite");
    }

    #[test]
    fn parts_of_a_run_are_the_run() {
        let (scenarios, whole) = driven();
        let simulator = Simulator::new(RunOptions::default().with_chunk_size(4)).expect("valid");
        let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
        let part = |drives: Vec<usize>| {
            let report = simulator.run_drives(&scenarios, 2, drives, &pid, |_| {});
            drives_to_bytes(&report.results)
        };
        let want = |drives: std::ops::Range<usize>| drives_to_bytes(&whole.results[drives]);
        assert_eq!(part((0..18).collect()), want(0..18));
        for drive in 0..18 {
            assert_eq!(part(vec![drive]), want(drive..drive + 1));
        }
        assert_eq!(part((5..11).collect()), want(5..11));
        assert_eq!(
            part(vec![18, usize::MAX]),
            want(0..0),
            "there is no such drive"
        );
    }

    #[test]
    fn other_bytes_are_no_drives() {
        let (_, report) = driven();
        let bytes = drives_to_bytes(&report.results[..6]);
        for n in 0..bytes.len() {
            let refused = drives_from_bytes(&bytes[..n]);
            assert!(
                matches!(refused, Err(SimError::NoDrives { .. })),
                "{n} bytes"
            );
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(drives_from_bytes(&longer).is_err());
        for place in 0..bytes.len() {
            for byte in [2, 0xff] {
                let mut other = bytes.clone();
                other[place] = byte;
                // Some are other drives; none panic, or take memory that the bytes do not fill.
                if let Ok(drives) = drives_from_bytes(&other) {
                    assert_eq!(drives_to_bytes(&drives), other);
                }
            }
        }
    }
}
