//! Which kind the figures speak for.
//!
//! ```text
//! the kind by attributes stays, unless the median round of another is shorter than nine tenths
//! of its fastest round; of several such the one with the shortest median
//! ```
//!
//! What is decided is kept for every later run, so a single slow moment must not decide it: the
//! other's ordinary round has to beat the best that the kind by attributes did, and by a tenth.

use crate::kind::BufferKind;

use super::choice::KindSpeed;

/// Tenths of the fastest round that another kind's median must stay below.
const TENTHS: u32 = 9;

/// The kind that shared buffers get.
pub(super) fn decide(by_attributes: BufferKind, speeds: &[KindSpeed]) -> BufferKind {
    let find = |kind| speeds.iter().find(|speed| speed.kind == kind);
    let Some(usual) = find(by_attributes) else {
        return by_attributes;
    };
    let is_faster = |other: &&KindSpeed| other.round * 10 < usual.fastest_round * TENTHS;
    let others = speeds.iter().filter(is_faster);
    others
        .min_by_key(|speed| speed.round)
        .map_or(by_attributes, |speed| speed.kind)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Speeds of these kinds: the median and the fastest round in microseconds.
    fn speeds(rounds: &[(BufferKind, u64, u64)]) -> Vec<KindSpeed> {
        let us = Duration::from_micros;
        let speed = |&(kind, median, fastest): &(BufferKind, u64, u64)| KindSpeed {
            kind,
            host_writes: us(median / 2),
            device_updates: us(median / 4),
            host_reads: us(median / 4),
            round: us(median),
            fastest_round: us(fastest),
        };
        rounds.iter().map(speed).collect()
    }

    #[track_caller]
    fn check(rounds: &[(BufferKind, u64, u64)], wanted: BufferKind) {
        assert_eq!(decide(BufferKind::System, &speeds(rounds)), wanted);
    }

    use BufferKind::{Pinned, System, Unified};

    #[test]
    fn the_kind_by_attributes_stays_within_a_tenth() {
        check(&[(System, 1000, 1000), (Pinned, 901, 890)], System);
        check(&[(System, 1000, 1000), (Pinned, 900, 890)], System);
        check(&[(System, 1000, 1000), (Pinned, 899, 890)], Pinned);
    }

    #[test]
    fn a_slow_moment_of_the_usual_kind_decides_nothing() {
        // Its median doubled, its fastest round is as ever.
        check(&[(System, 2000, 1000), (Pinned, 1000, 990)], System);
        // One lucky round of another says nothing either.
        check(&[(System, 1000, 990), (Pinned, 1000, 300)], System);
    }

    #[test]
    fn the_fastest_of_several_is_taken() {
        let all = [(System, 1000, 990), (Unified, 700, 690), (Pinned, 500, 490)];
        check(&all, Pinned);
        check(&[all[0], all[2], all[1]], Pinned);
        check(&[(System, 300, 290), all[1], all[2]], System);
    }

    #[test]
    fn figures_that_say_nothing_change_nothing() {
        check(&[], System);
        check(&[(Pinned, 1, 1)], System);
        check(&[(System, 0, 0), (Pinned, 0, 0)], System);
        check(
            &[(System, u64::MAX / 1_000_000, 1000), (Pinned, 2000, 1000)],
            System,
        );
    }
}
