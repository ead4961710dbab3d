//! What is looked at before and after an access: bounds, alignment, shadows, races.

use crate::check::{AccessKind, FindingKind, MissedAllocation};
use crate::machine::block_state::BlockState;
use crate::machine::global_races::{ONE_LANE, Race, Touch};
use crate::machine::launch::Launch;
use crate::machine::warp::Warp;
use crate::memory::{Allocation, Conflict, SHARED_BASE};
use crate::program::{Access, AccessSpace, Scope};

/// Name of a space for findings.
pub(super) fn space_name(space: AccessSpace) -> &'static str {
    match space {
        AccessSpace::Generic => "generic",
        AccessSpace::Global => "global",
        AccessSpace::Const => "constant",
        AccessSpace::Shared => "shared",
        AccessSpace::Local => "local",
        AccessSpace::KernelParam | AccessSpace::FrameParam => "parameter",
    }
}

/// Bytes as a value, extended to 64 bits.
pub(super) fn element(bytes: &[u8], signed: bool) -> u64 {
    let mut whole = [0u8; 8];
    let n = bytes.len().min(8);
    whole[..n].copy_from_slice(&bytes[..n]);
    let value = u64::from_le_bytes(whole);
    if !signed || n == 8 {
        return value;
    }
    let unused = 64 - 8 * n;
    ((value << unused) as i64 >> unused) as u64
}

/// How far an access misses a stretch: beyond its end, or, negative, before its beginning.
pub(super) fn distance(address: u64, bytes: u64, base: u64, len: u64) -> i64 {
    if address < base {
        return (address as i64).wrapping_sub(base as i64);
    }
    address
        .wrapping_add(bytes)
        .wrapping_sub(base)
        .wrapping_sub(len) as i64
}

/// The allocation next to an address.
pub(super) fn nearest(launch: &Launch<'_>, address: u64, bytes: u64) -> Option<MissedAllocation> {
    let after = launch.allocations.partition_point(|it| it.base <= address);
    let before = after.checked_sub(1).map(|idx| &launch.allocations[idx]);
    let next = launch.allocations.get(after);
    let missed = |it: &Allocation| MissedAllocation {
        base: it.base,
        len: it.len,
        name: it.name.clone(),
        distance: distance(address, bytes, it.base, it.len),
    };
    let candidates = before.into_iter().chain(next).map(missed);
    candidates.min_by_key(|missed| missed.distance.unsigned_abs())
}

impl Warp {
    pub(super) fn is_aligned(
        &self,
        block: &mut BlockState,
        access: Access,
        address: u64,
        lane: usize,
    ) -> bool {
        let align = access.bytes();
        if address.is_multiple_of(align) {
            return true;
        }
        let space = space_name(access.space);
        block.report(
            self,
            lane,
            FindingKind::Misaligned {
                space,
                address,
                align,
            },
        );
        false
    }

    pub(super) fn out_of_bounds(
        &self,
        block: &mut BlockState,
        kind: AccessKind,
        access: Access,
        address: u64,
        lane: usize,
    ) {
        let finding = FindingKind::OutOfBounds {
            access: kind,
            space: space_name(access.space),
            address,
            bytes: access.bytes(),
            missed: None,
        };
        block.report(self, lane, finding);
    }

    /// The place of an address in shared memory, if the access is inside.
    pub(super) fn shared_offset(
        &self,
        block: &mut BlockState,
        kind: AccessKind,
        (address, len): (u64, usize),
        lane: usize,
    ) -> Option<usize> {
        let offset = address.wrapping_sub(u64::from(SHARED_BASE));
        let size = block.shared.len() as u64;
        if offset < size && len as u64 <= size - offset {
            return Some(offset as usize);
        }
        let base = u64::from(SHARED_BASE);
        let missed = MissedAllocation {
            base,
            len: size,
            name: None,
            distance: distance(address, len as u64, base, size),
        };
        let finding = FindingKind::OutOfBounds {
            access: kind,
            space: "shared",
            address,
            bytes: len as u64,
            missed: Some(missed),
        };
        block.report(self, lane, finding);
        None
    }

    pub(super) fn report_conflict(
        &self,
        block: &mut BlockState,
        conflict: Conflict,
        address: u64,
        lane: usize,
        strong: bool,
    ) {
        let race = |access, other, warp: u16, other_lane: u16| FindingKind::SharedRace {
            access: if strong { AccessKind::Atomic } else { access },
            other,
            address,
            other_warp: warp.into(),
            other_lane: other_lane.into(),
        };
        let (read, write) = (AccessKind::Read, AccessKind::Write);
        let finding = match conflict {
            Conflict::Uninitialised => FindingKind::Uninitialised {
                space: "shared",
                address,
            },
            Conflict::Pending => FindingKind::CopyNotAwaited { address },
            Conflict::ReadAfterWrite { warp, lane } => race(read, write, warp, lane),
            Conflict::WriteAfterWrite { warp, lane } => race(write, write, warp, lane),
            Conflict::WriteAfterRead { warp, lane } => race(write, read, warp, lane),
        };
        block.report(self, lane, finding);
    }

    /// Finds the allocation of an access; reports what is outside.
    pub(super) fn touch(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        kind: AccessKind,
        access: Access,
        address: u64,
        lane: usize,
    ) -> Option<Touch> {
        let bytes = access.bytes();
        if let Some(touch) = self.touch_of(launch, block, address, bytes, access.scope) {
            let lane = lane as u32;
            return Some(Touch { lane, ..touch });
        }
        let finding = FindingKind::OutOfBounds {
            access: kind,
            space: space_name(access.space),
            address,
            bytes,
            missed: nearest(launch, address, bytes),
        };
        block.report(self, lane, finding);
        None
    }

    /// The part of an allocation that so many bytes of lane 0 are, if they are in one.
    pub(super) fn touch_of(
        &mut self,
        launch: &Launch<'_>,
        block: &BlockState,
        address: u64,
        bytes: u64,
        scope: Option<Scope>,
    ) -> Option<Touch> {
        let idx = launch.find(address, self.hint)?;
        self.hint = idx;
        let allocation = &launch.allocations[idx];
        let offset = address - allocation.base;
        (bytes <= allocation.len - offset).then_some(Touch {
            allocation: idx,
            offset: offset as usize,
            len: bytes as usize,
            block: block.number,
            phase_base: block.phase_base,
            scope,
            has_learned: block.has_learned,
            lane: 0,
            lane_shift: ONE_LANE,
        })
    }

    pub(super) fn check_read(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        touch: Touch,
        lane: usize,
    ) {
        let allocation = &launch.allocations[touch.allocation];
        let unwritten = allocation.shadow.as_ref();
        let unwritten = unwritten.and_then(|it| it.first_unwritten(touch.offset, touch.len));
        if let Some(offset) = unwritten {
            let address = allocation.base + offset as u64;
            let space = space_name(access.space);
            block.report(self, lane, FindingKind::Uninitialised { space, address });
        }
        let address = allocation.base + touch.offset as u64;
        if allocation.is_read_only != (access.space == AccessSpace::Const) {
            let (access, space) = (AccessKind::Read, space_name(access.space));
            let finding = FindingKind::WrongSpace {
                access,
                space,
                address,
            };
            block.report(self, lane, finding);
        }
        if access.read_only && launch.races.read_unchanging(touch) {
            block.report(self, lane, FindingKind::ReadOnlyWritten { address });
        }
        if let Some(race) = launch.races.read(touch, &self.actor(false)) {
            self.report_race(launch, block, AccessKind::Read, (touch, lane), race);
        }
    }

    #[cold]
    fn report_race(
        &self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: AccessKind,
        (touch, lane): (Touch, usize),
        race: Race,
    ) {
        let base = launch.allocations[touch.allocation].base;
        match race {
            Race::Block(other_block) => {
                let address = base + touch.offset as u64;
                let finding = FindingKind::GlobalRace {
                    access,
                    address,
                    other_block,
                };
                block.report(self, lane, finding);
            }
            Race::Thread(threads) => {
                let other = match threads.other_is_atomic {
                    true => AccessKind::Atomic,
                    false => AccessKind::Write,
                };
                let finding = FindingKind::GlobalRaceInBlock {
                    access,
                    other,
                    address: base + 4 * threads.word as u64,
                    other_warp: threads.other_warp,
                    other_lane: threads.other_lane,
                };
                block.report(self, threads.lane as usize & 31, finding);
            }
        }
    }

    /// Looks at a write before it happens; `from` are its bytes, none for an atomic.
    pub(super) fn check_write(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        touch: Touch,
        from: Option<&[u8]>,
        lane: usize,
    ) {
        let kind = match from {
            Some(_) => AccessKind::Write,
            None => AccessKind::Atomic,
        };
        let allocation = &launch.allocations[touch.allocation];
        let address = allocation.base + touch.offset as u64;
        if let Some(shadow) = &allocation.shadow {
            shadow.mark(touch.offset, touch.len);
        }
        if allocation.is_read_only {
            block.report(self, lane, FindingKind::ConstantWritten { address });
        }
        if launch.races.is_unchanging(touch) {
            block.report(self, lane, FindingKind::ReadOnlyWritten { address });
        }
        // Two writes of the same value are no race.
        let changes = |word: usize| {
            let Some(from) = from else {
                return true;
            };
            let begin = (4 * word).max(touch.offset);
            let end = (4 * word + 4).min(touch.offset + touch.len);
            let mut now = [0; 4];
            let now = &mut now[..end - begin];
            launch.memory.load(allocation.base + begin as u64, now);
            *now != from[begin - touch.offset..end - touch.offset]
        };
        // What was learned before excuses no atomic: it is how blocks tell each other.
        let has_learned = touch.has_learned && kind != AccessKind::Atomic;
        let noted = Touch {
            has_learned,
            ..touch
        };
        let race = launch.races.write(noted, &self.actor(false), changes);
        if let Some(race) = race {
            self.report_race(launch, block, kind, (touch, lane), race);
        }
    }
}
