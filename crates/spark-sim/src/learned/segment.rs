//! Recorded drives of the challenge: CSV with a header, ten rows per second.
//!
//! ```text
//! t, vEgo, aEgo, roll, targetLateralAcceleration, steerCommand
//! ```
//!
//! Roll becomes an acceleration, `9.81 sin(roll)`; the logged steering has its sign turned.

use super::CONTROL_START;
use crate::vehicle::GRAVITY;
use crate::{SimError, files};
use std::path::Path;

/// Largest file read, bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Largest magnitude of a figure, in m/s, m/s^2 or steering: far beyond any car, and far below what the
/// network's f32 and a sum of squares hold.
const LARGEST: f64 = 1000.0;

/// One row of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentRow {
    /// Lateral acceleration by the road's roll, m/s^2.
    pub roll_lataccel: f64,
    /// Speed of the car, m/s.
    pub v_ego: f64,
    /// Longitudinal acceleration of the car, m/s^2.
    pub a_ego: f64,
    /// Lateral acceleration to drive, m/s^2.
    pub target_lataccel: f64,
    /// What was steered when it was recorded; NaN where it is not known.
    pub steer: f64,
}

/// A recorded drive of the challenge.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Seeds its randomness; the challenge uses the file's path.
    pub name: String,
    /// In the order of time.
    pub rows: Vec<SegmentRow>,
}

impl Segment {
    /// Whether it can be driven.
    ///
    /// # Errors
    ///
    /// [`SimError::Segment`] for fewer than 102 rows, logged steering missing before step 100, or a
    /// value that is not finite or beyond 1000, which is no car's.
    pub fn check(&self) -> Result<(), SimError> {
        let fault = |reason| SimError::Segment {
            name: self.name.clone(),
            reason,
        };
        if self.rows.len() < CONTROL_START + 2 {
            return Err(fault("fewer than 102 rows"));
        }
        let logged = &self.rows[..CONTROL_START];
        if logged.iter().any(|row| !row.steer.is_finite()) {
            return Err(fault("logged steering is missing before step 100"));
        }
        let numbers =
            |row: &SegmentRow| [row.roll_lataccel, row.v_ego, row.a_ego, row.target_lataccel];
        if self.rows.iter().flat_map(numbers).any(|x| !x.is_finite()) {
            return Err(fault("a value is not finite"));
        }
        // Steering may be missing from here on; NaN is beyond nothing.
        let figures = self.rows.iter().flat_map(|row| {
            let [roll, speed, acceleration, target] = numbers(row);
            [roll, speed, acceleration, target, row.steer]
        });
        if figures.into_iter().any(|x| x.abs() > LARGEST) {
            return Err(fault("a value is beyond 1000, which is no car's"));
        }
        Ok(())
    }
}

const COLUMNS: [&str; 5] = [
    "vEgo",
    "aEgo",
    "roll",
    "targetLateralAcceleration",
    "steerCommand",
];

/// Reads a segment; `name` seeds its randomness.
///
/// # Errors
///
/// [`SimError::Io`], [`SimError::FileTooLarge`] above 16 MiB, [`SimError::Parse`] naming the
/// line and column of a missing column or a value that is not a number. An empty steering
/// command is NaN, as in the challenge's own files.
pub fn read_segment(path: &Path, name: &str) -> Result<Segment, SimError> {
    let text = files::read_text(path, MAX_BYTES)?;
    parse(&text, name).map_err(|reason| SimError::Parse {
        path: path.to_owned(),
        reason,
    })
}

pub(super) fn parse(text: &str, name: &str) -> Result<Segment, String> {
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines
        .next()
        .map(|(_, line)| line.split(',').map(str::trim).collect())
        .ok_or("the file is empty")?;
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header
            .iter()
            .position(|name| *name == column)
            .ok_or_else(|| format!("line 1: column `{column}` is missing"))?;
    }
    let mut rows = Vec::new();
    for (line_idx, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let mut values = [0.0; COLUMNS.len()];
        for ((value, place), column) in values.iter_mut().zip(places).zip(COLUMNS) {
            let cell = cells.get(place).copied().unwrap_or("");
            *value = match cell {
                "" if column == "steerCommand" => f64::NAN,
                cell => cell
                    .parse()
                    .ok()
                    .filter(|x: &f64| x.is_finite() || column == "steerCommand")
                    .ok_or_else(|| {
                        format!(
                            "line {}: column `{column}` holds `{cell}`, not a number",
                            line_idx + 1
                        )
                    })?,
            };
        }
        let [v_ego, a_ego, roll, target_lataccel, steer] = values;
        rows.push(SegmentRow {
            roll_lataccel: roll.sin() * GRAVITY,
            v_ego,
            a_ego,
            target_lataccel,
            steer: -steer,
        });
    }
    Ok(Segment {
        name: name.to_owned(),
        rows,
    })
}
