//! When entries were made, by what each boot had counted: a clock that is set late stamps a boot's first entries wrongly.
//!
//! ```text
//! entry       stamped              counted      by the entry after it
//! newest      2026-03-08 12:00     10 h         -
//!             2026-03-08 02:01     00:01 h      02:01: they agree
//! oldest      1970-01-01 00:00:09  9 s          02:00:09: it is that
//! ```
//!
//! Entries come newest first. What a boot counts stands still while the machine sleeps, so that before a sleep, of which the
//! kernel tells, stamps stand for themselves.

use std::collections::BTreeMap;

/// How far stamp and count may differ: less is a clock that was put right by minutes.
const CLOCK_US: u64 = 600_000_000;
/// Most boots that are kept, whatever a file says.
const BOOTS_LIMIT: usize = 4096;

/// The oldest entry so far of each boot: microseconds since 1970, and since the boot.
#[derive(Default)]
pub(super) struct Boots(BTreeMap<[u8; 16], (u64, u64)>);

impl Boots {
    /// Microseconds since 1970 of an entry of this boot, older than those before.
    pub(super) fn time_of(&mut self, boot: [u8; 16], stamped: u64, counted: u64) -> u64 {
        let later = self.0.get(&boot);
        // What was counted more in an older entry is no count.
        let by_count = later.and_then(|(later_stamped, later_counted)| {
            let before = later_counted.checked_sub(counted)?;
            later_stamped.checked_sub(before)
        });
        let time = by_count
            .filter(|by_count| by_count.abs_diff(stamped) > CLOCK_US)
            .unwrap_or(stamped);
        if self.0.len() < BOOTS_LIMIT || self.0.contains_key(&boot) {
            self.0.insert(boot, (time, counted));
        }
        time
    }

    /// The machine slept before what follows.
    pub(super) fn forget(&mut self, boot: [u8; 16]) {
        self.0.remove(&boot);
    }
}

/// Whether the kernel says by this that it begins to sleep.
pub(super) fn is_sleep(message: &str) -> bool {
    message.starts_with("PM: suspend entry")
        || message.starts_with("PM: hibernation: hibernation entry")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;
    const NOON: u64 = 1_772_971_200 * S;

    #[test]
    fn stamps_of_a_clock_that_was_set_late_are_those_of_the_count() {
        let mut boots = Boots::default();
        let (boot, other) = ([1; 16], [2; 16]);
        assert_eq!(boots.time_of(boot, NOON, 36_000 * S), NOON);
        // Minutes are left as they are, and are what the next one is held against.
        let early = NOON - 35_000 * S - 60 * S;
        assert_eq!(boots.time_of(boot, early, 1000 * S), early);
        // Decades and hours before, and hours after.
        let nine = early - 991 * S;
        for stamped in [9 * S, nine - 7200 * S, nine + 32_400 * S] {
            assert_eq!(boots.time_of(boot, stamped, 9 * S), nine);
        }
        assert_eq!(boots.time_of(other, 9 * S, 9 * S), 9 * S);
        // No count at all.
        assert_eq!(boots.time_of(boot, 5 * S, 10 * S), 5 * S);
        assert_eq!(boots.time_of(other, 0, u64::MAX), 0);
    }

    #[test]
    fn before_a_sleep_stamps_stand_for_themselves() {
        let mut boots = Boots::default();
        let boot = [1; 16];
        boots.time_of(boot, NOON, 7200 * S);
        boots.forget(boot);
        let before = NOON - 28_800 * S;
        assert_eq!(boots.time_of(boot, before, 7000 * S), before);
        assert!(is_sleep("PM: suspend entry (deep)") && !is_sleep("PM: suspend exit"));
    }
}
