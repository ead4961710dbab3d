//! What the warps of a block share: shared memory, barriers, findings.

use crate::check::{FindingKind, Place, Sink};
use crate::memory::Shared;

use super::global_races::MOST_PHASES;
use super::launch::Launch;
use super::warp::Warp;

/// Barriers that a program numbers.
pub(crate) const N_NUMBERED: usize = 16;
/// The barrier of the cluster, behind the others.
pub(crate) const OF_CLUSTER: usize = 16;
/// All barriers of a block.
pub(crate) const N_BARRIERS: usize = 17;

/// A barrier of the block while some have arrived.
#[derive(Debug, Clone)]
pub(crate) struct BarrierState {
    /// Threads that it is for; none where it is for the whole block.
    pub(crate) threads: Option<u32>,
    /// Warps that wait, and warps that only arrived.
    pub(crate) waiting: u32,
    pub(crate) arrived: u32,
    /// What those who arrived know of each warp.
    pub(crate) joined: [u32; 32],
    /// Where the first arrived, and whether somebody arrived by an `.aligned` instruction.
    pub(crate) pc: u32,
    pub(crate) aligned: bool,
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
}

impl BarrierState {
    /// Nobody has arrived.
    pub(crate) const NONE: BarrierState = BarrierState {
        threads: None,
        waiting: 0,
        arrived: 0,
        joined: [0; 32],
        pc: 0,
        aligned: false,
        count: 0,
        all: true,
        any: false,
    };
}

/// The state of a block.
pub(crate) struct BlockState {
    /// Number of the block, x fastest.
    pub(crate) number: u64,
    pub(crate) shared: Shared,
    pub(crate) barriers: [BarrierState; N_BARRIERS],
    /// Barriers that are complete, for those who wait.
    pub(crate) complete: Vec<BarrierState>,
    /// The last phase that was given to a warp.
    pub(crate) phase: u32,
    /// The phase that words of global memory count from.
    pub(crate) phase_base: u32,
    pub(crate) sink: Sink,
    /// Whether an atomic on global memory gave the block a value that it may look at: other blocks may have
    /// told it by one that they are done.
    pub(crate) has_learned: bool,
    /// Whether the block cannot go on.
    pub(crate) is_stopped: bool,
}

impl BlockState {
    /// Begins a phase: its number.
    pub(crate) fn next_phase(&mut self, launch: &Launch<'_>) -> u32 {
        self.phase += 1;
        if self.phase - self.phase_base > MOST_PHASES {
            // Words of global memory count from a later one; what was before that is over for everybody.
            let by = MOST_PHASES / 2;
            launch.races.shift_phases(self.number, by);
            self.phase_base += by;
        }
        self.phase
    }

    /// Reports what is wrong at the warp's instruction.
    pub(crate) fn report(&mut self, warp: &Warp, lane: usize, kind: FindingKind) {
        self.report_at(warp, warp.pc, lane, kind);
    }

    pub(crate) fn report_at(&mut self, warp: &Warp, pc: u32, lane: usize, kind: FindingKind) {
        let place = Place {
            pc,
            block: self.number,
            warp: warp.number,
            lane: lane as u32,
        };
        self.sink.add(place, kind);
    }
}
