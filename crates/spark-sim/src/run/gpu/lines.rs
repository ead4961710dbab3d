//! Values over time, of all lanes behind each other: requests, speeds and offsets of other road users, replays.

use crate::profile::Profile;

/// Values over time, `[line][4]`: from when, value, slope, start; of a replay: time, distance, offset, 0.
#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<f64>);

impl Lines {
    /// The place of the first of these rows, and how many they are, if 32 bits count them.
    pub(super) fn push(&mut self, rows: impl Iterator<Item = [f64; 4]>) -> Option<[u32; 2]> {
        let first = self.0.len() / 4;
        self.0.extend(rows.flatten());
        let n_rows = self.0.len() / 4 - first;
        Some([u32::try_from(first).ok()?, u32::try_from(n_rows).ok()?])
    }

    /// The same of a profile's lines.
    pub(super) fn push_profile(&mut self, profile: &Profile) -> Option<[u32; 2]> {
        let lines = profile.lines().into_iter();
        self.push(lines.map(|(from, line)| [from, line.value, line.slope, line.start]))
    }
}
