//! Which of a drive's numbers cannot be, by the catalogue.

use super::catalogue::{CATALOGUE, Direction};
use super::metrics::Metrics;

impl Metrics {
    /// The first number that is not finite, with its name. Such metrics say nothing about a
    /// drive, so a run reports them as the scenario's failure.
    pub fn not_finite(&self) -> Option<(&'static str, f64)> {
        let beside = [
            ("duration_s", self.duration_s),
            ("distance_m", self.distance_m),
        ];
        let requested = [
            ("duration_requested_s", self.duration_requested_s),
            ("distance_requested_m", self.distance_requested_m),
        ];
        let requested = requested
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let hit = self.collision.iter().flat_map(|c| {
            [
                ("collision.time_s", c.time_s),
                ("collision.closing_speed", c.closing_speed),
            ]
        });
        CATALOGUE
            .iter()
            .filter_map(|info| Some((info.name, (info.read)(self)?)))
            .chain(beside)
            .chain(requested)
            .chain(hit)
            .find(|(_, value)| !value.is_finite())
    }

    /// The first number that no drive can have, with its name: one that is not finite, a request
    /// of no time, or an error, a share or a size below zero.
    pub(crate) fn impossible(&self) -> Option<(&'static str, f64)> {
        let sizes = CATALOGUE
            .iter()
            .filter(|info| info.direction == Direction::Lower)
            .filter_map(|info| Some((info.name, (info.read)(self)?)));
        let requested = self.duration_requested_s.filter(|&s| s <= 0.0);
        let below_zero = sizes
            .chain([("duration_s", self.duration_s)])
            .find(|&(_, value)| value < 0.0);
        self.not_finite()
            .or(below_zero)
            .or(requested.map(|s| ("duration_requested_s", s)))
    }
}
