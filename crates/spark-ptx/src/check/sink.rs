//! Collects findings: one for each kind and instruction, that of the first block, with a count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::Discriminant;

use super::finding::FindingKind;

/// Findings that are kept; the rest is counted with its like.
const MAX_KEPT: usize = 256;

/// Where something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pc: u32,
    /// Number of the block, x fastest.
    pub(crate) block: u64,
    pub(crate) warp: u32,
    pub(crate) lane: u32,
}

/// What one thread of the interpreter has found.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    found: HashMap<(u32, Discriminant<FindingKind>), (Place, FindingKind, u64)>,
}

impl Sink {
    pub(crate) fn add(&mut self, place: Place, kind: FindingKind) {
        self.add_counted(place, kind, 1);
    }

    fn add_counted(&mut self, place: Place, kind: FindingKind, count: u64) {
        let n_kept = self.found.len();
        match self.found.entry((place.pc, std::mem::discriminant(&kind))) {
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut();
                kept.2 += count;
                if place.block < kept.0.block {
                    (kept.0, kept.1) = (place, kind);
                }
            }
            Entry::Vacant(entry) if n_kept < MAX_KEPT => {
                entry.insert((place, kind, count));
            }
            Entry::Vacant(_) => {}
        }
    }

    pub(crate) fn join(&mut self, other: Sink) {
        for (place, kind, count) in other.found.into_values() {
            self.add_counted(place, kind, count);
        }
    }

    /// All that was found, in the order of the code.
    pub(crate) fn into_sorted(self) -> Vec<(Place, FindingKind, u64)> {
        let mut found: Vec<_> = self.found.into_values().collect();
        found.sort_by_key(|(place, kind, _)| (place.pc, format!("{kind:?}")));
        found
    }
}
