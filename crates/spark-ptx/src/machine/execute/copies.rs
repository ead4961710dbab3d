//! Copies in the background: begun, closed in groups, waited for.
//!
//! A copy happens when its thread waits for it and not before. Until then its destination holds
//! a pattern that no program wants, and whoever touches it is reported.

use crate::check::{AccessKind, FindingKind};
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::{Copy, Warp, lanes_of};
use crate::program::{Access, AccessSpace, AddressBase, AddressOperand, CopySource, R64};

/// Copies of a warp that nobody has waited for; of more the oldest end, as they may on a card.
const MOST_COPIES: usize = 1 << 16;

/// Of a copy that no group holds yet.
const OPEN: u32 = u32::MAX;

/// Operands of a copy.
pub(crate) struct CopyOperands {
    pub(crate) n: u8,
    pub(crate) to: AddressBase,
    pub(crate) to_offset: i32,
    pub(crate) from: R64,
    pub(crate) from_offset: i32,
    pub(crate) source: CopySource,
}

impl Warp {
    pub(crate) fn copy_async(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        operands: &CopyOperands,
        mask: u32,
    ) {
        let n = operands.n;
        let to = AddressOperand {
            base: operands.to,
            offset: operands.to_offset.into(),
        };
        let from = AddressOperand {
            base: AddressBase::W64(operands.from),
            offset: operands.from_offset.into(),
        };
        let (to, from) = (self.addresses(launch, to), self.addresses(launch, from));
        let asked = match operands.source {
            CopySource::All => [u32::from(n); 32],
            CopySource::Bytes(r) => *self.row_32(launch, r),
            CopySource::IgnoredIf(condition) => {
                let ignored = self.condition(condition);
                std::array::from_fn(|lane| {
                    if ignored >> lane & 1 != 0 {
                        0
                    } else {
                        n.into()
                    }
                })
            }
        };
        for lane in lanes_of(mask) {
            let (to, from, asked) = (to[lane], from[lane], asked[lane]);
            if asked > u32::from(n) {
                let copies = n.into();
                block.report(self, lane, FindingKind::CopySize { asked, copies });
                continue;
            }
            self.begin_copy(launch, block, [to, from], [n, asked as u8], lane);
        }
    }

    fn begin_copy(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        [to, from]: [u64; 2],
        [n, n_read]: [u8; 2],
        lane: usize,
    ) {
        let align = u64::from(n);
        for (space, address) in [("shared", to), ("global", from)] {
            if address % align != 0 && (space == "shared" || n_read > 0) {
                block.report(
                    self,
                    lane,
                    FindingKind::Misaligned {
                        space,
                        address,
                        align,
                    },
                );
                return;
            }
        }
        // Shared addresses have 32 bits; a generic one may have been given whole.
        let to = to & 0xffff_ffff;
        let place = (to, usize::from(n));
        let Some(offset) = self.shared_offset(block, AccessKind::Write, place, lane) else {
            return;
        };
        let mut copy = Copy {
            lane: lane as u16,
            group: OPEN,
            to: offset,
            from,
            n,
            n_read,
            source: [0; 16],
            pc: self.pc,
        };
        if n_read > 0 {
            let access = Access {
                space: AccessSpace::Global,
                size: n_read,
                count: 1,
                signed: false,
                scope: None,
                read_only: false,
            };
            let source = &mut copy.source[..usize::from(n_read)];
            self.load_unaligned(launch, block, access, from, lane, source);
        }
        let actor = self.actor(false);
        let conflict = block
            .shared
            .begin_copy(offset, usize::from(n), lane as u16, &actor);
        if let Some(conflict) = conflict {
            self.report_conflict(block, conflict, to, lane, false);
        }
        if self.copies.len() >= MOST_COPIES {
            let kept = self.copies.split_off(MOST_COPIES / 2);
            for old in std::mem::replace(&mut self.copies, kept) {
                self.end_copy(launch, block, &old);
            }
        }
        self.copies.push(copy);
    }

    pub(crate) fn commit_copies(&mut self, mask: u32) {
        for copy in &mut self.copies {
            if copy.group == OPEN && mask >> copy.lane & 1 != 0 {
                copy.group = self.groups[usize::from(copy.lane)];
            }
        }
        for lane in lanes_of(mask) {
            self.groups[lane] += 1;
        }
    }

    /// Ends copies until each lane has at most so many groups left; all of them for `u32::MAX`.
    pub(crate) fn wait_copies(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        pending: u32,
        mask: u32,
    ) {
        let all = pending == u32::MAX;
        if all {
            self.commit_copies(mask);
        }
        let left = if all { 0 } else { pending };
        let copies = std::mem::take(&mut self.copies);
        for copy in copies {
            let lane = usize::from(copy.lane);
            let is_over = mask >> lane & 1 != 0
                && copy.group != OPEN
                && copy.group < self.groups[lane].saturating_sub(left);
            if is_over {
                self.end_copy(launch, block, &copy);
            } else {
                self.copies.push(copy);
            }
        }
    }

    fn end_copy(&mut self, launch: &Launch<'_>, block: &mut BlockState, copy: &Copy) {
        let mut bytes = [0u8; 16];
        let source = &mut bytes[..usize::from(copy.n_read)];
        let is_readable = copy.n_read > 0
            && self
                .touch_of(launch, block, copy.from, copy.n_read.into(), None)
                .is_some();
        if is_readable {
            launch.memory.load(copy.from, source);
            if *source != copy.source[..usize::from(copy.n_read)] {
                let address = copy.from;
                let finding = FindingKind::CopySourceChanged { address };
                block.report_at(self, copy.pc, usize::from(copy.lane), finding);
            }
        }
        let from = &bytes[..usize::from(copy.n)];
        block
            .shared
            .end_copy(copy.to, from, copy.lane, &self.actor(false));
    }
}
