//! Loads and stores: addresses, checks, bytes.
//!
//! ```text
//! addresses of 32 lanes -> side by side?  one check, one copy          the rule
//!                       -> else           lane by lane
//! generic addresses     -> the spaces that their windows say, one after the other
//! ```

use crate::check::{AccessKind, FindingKind, MissedAllocation};
use crate::machine::block_state::BlockState;
use crate::machine::global_races::Touch;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::memory::{
    Conflict, KERNEL_PARAM_WINDOW, LOCAL_WINDOW, SHARED_BASE, SHARED_WINDOW, WINDOW_MASK,
};
use crate::program::{Access, AccessSpace, AddressBase, AddressOperand, List, Slot};

/// The most that a lane loads or stores.
const MAX_LANE_BYTES: usize = 32;

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

/// The space of a generic address, and its address there.
fn resolve(address: u64) -> (AccessSpace, u64) {
    let offset = address & !WINDOW_MASK;
    match address & WINDOW_MASK {
        SHARED_WINDOW => (AccessSpace::Shared, offset),
        LOCAL_WINDOW => (AccessSpace::Local, offset),
        KERNEL_PARAM_WINDOW => (AccessSpace::KernelParam, offset),
        _ => (AccessSpace::Global, address),
    }
}

impl Warp {
    /// Addresses of all lanes in the space of the access.
    #[inline]
    pub(crate) fn addresses(&self, launch: &Launch<'_>, operand: AddressOperand) -> [u64; 32] {
        let mut addresses = [operand.offset as u64; 32];
        match operand.base {
            AddressBase::None => {}
            AddressBase::W32(r) => {
                let row = self.row_32(launch, r);
                for lane in 0..32 {
                    addresses[lane] = u64::from(row[lane]).wrapping_add(operand.offset as u64);
                }
            }
            AddressBase::W64(r) => {
                let row = self.row_64(launch, r);
                for lane in 0..32 {
                    addresses[lane] = row[lane].wrapping_add(operand.offset as u64);
                }
            }
            AddressBase::Frame => {
                let base = u64::from(self.frame.local).wrapping_add(operand.offset as u64);
                addresses = [base; 32];
            }
        }
        addresses
    }

    /// Splits lanes by the space of their generic addresses.
    pub(super) fn spaces(addresses: &mut [u64; 32], mask: u32) -> Vec<(AccessSpace, u32)> {
        let mut found: Vec<(AccessSpace, u32)> = Vec::new();
        for lane in lanes_of(mask) {
            let (space, address) = resolve(addresses[lane]);
            addresses[lane] = address;
            match found.iter_mut().find(|(known, _)| *known == space) {
                Some((_, lanes)) => *lanes |= 1 << lane,
                None => found.push((space, 1 << lane)),
            }
        }
        found
    }

    pub(crate) fn load(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        operand: AddressOperand,
        list: List,
        mask: u32,
    ) {
        let mut addresses = self.addresses(launch, operand);
        if access.space != AccessSpace::Generic {
            self.load_from(launch, block, access, &addresses, list, mask);
            return;
        }
        for (space, lanes) in Self::spaces(&mut addresses, mask) {
            let access = Access { space, ..access };
            self.load_from(launch, block, access, &addresses, list, lanes);
        }
    }

    fn load_from(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        list: List,
        mask: u32,
    ) {
        let slots = launch.program.list(list);
        let bytes = access.bytes() as usize;
        match access.space {
            AccessSpace::FrameParam => {
                self.load_words(block, access, addresses, slots, mask, true);
                return;
            }
            AccessSpace::Local => {
                self.load_words(block, access, addresses, slots, mask, false);
                return;
            }
            AccessSpace::Global | AccessSpace::Const => {
                if self.load_side_by_side(launch, block, access, addresses, slots, mask) {
                    return;
                }
            }
            AccessSpace::KernelParam => {
                if self.load_parameter(launch, block, access, addresses, slots, mask) {
                    return;
                }
            }
            AccessSpace::Shared => {
                if self.load_shared_lanes(block, access, addresses, slots, mask) {
                    return;
                }
            }
            AccessSpace::Generic => {}
        }
        let mut buffer = [0u8; MAX_LANE_BYTES];
        for lane in lanes_of(mask) {
            let to = &mut buffer[..bytes];
            to.fill(0);
            self.load_lane(launch, block, access, addresses[lane], lane, to);
            self.spread(access, slots, lane, to);
        }
    }

    /// Elements of one lane's bytes into its registers.
    fn spread(&mut self, access: Access, slots: &[Slot], lane: usize, bytes: &[u8]) {
        let size = usize::from(access.size);
        for (slot, bytes) in slots.iter().zip(bytes.chunks_exact(size)) {
            let value = element(bytes, access.signed);
            // A signed byte in a register of 16 bits would not fit it; ld.s8 has wider ones.
            self.write_lane(*slot, lane, value);
        }
    }

    /// Checks and loads the bytes of one lane.
    pub(super) fn load_lane(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        address: u64,
        lane: usize,
        to: &mut [u8],
    ) {
        if !self.is_aligned(block, access, address, lane) {
            return;
        }
        match access.space {
            AccessSpace::Shared => self.load_shared(block, access.strong, address, lane, to),
            AccessSpace::KernelParam => {
                let end = address.saturating_add(to.len() as u64);
                if end > launch.params.len() as u64 {
                    self.out_of_bounds(block, AccessKind::Read, access, address, lane);
                    return;
                }
                to.copy_from_slice(&launch.params[address as usize..end as usize]);
            }
            _ => self.load_unaligned(launch, block, access, address, lane, to),
        }
    }

    /// Checks and loads bytes of global memory, whatever their alignment.
    pub(super) fn load_unaligned(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        address: u64,
        lane: usize,
        to: &mut [u8],
    ) {
        let kind = AccessKind::Read;
        if let Some(touch) = self.touch(launch, block, kind, access, address, lane) {
            self.check_read(launch, block, access, touch, lane);
            launch.memory.load(address, to);
        }
    }

    fn is_aligned(
        &self,
        block: &mut BlockState,
        access: Access,
        address: u64,
        lane: usize,
    ) -> bool {
        let align = access.bytes();
        if address % align == 0 {
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

    // Shared ---------------------------------------------------------------------------------

    /// All lanes at once, if nothing about them is out of order.
    fn load_shared_lanes(
        &mut self,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        slots: &[Slot],
        mask: u32,
    ) -> bool {
        let len = access.bytes() as usize;
        let mut buffer = [0u8; 32 * 16];
        let (offsets, actor) = (offsets_of(addresses), self.actor(access.strong));
        if len > 16
            || !block
                .shared
                .read_lanes(&offsets, &mut buffer, (mask, len), &actor)
        {
            return false;
        }
        self.spread_lanes(access, slots, &buffer[..32 * len], mask);
        true
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

    #[inline]
    pub(super) fn load_shared(
        &mut self,
        block: &mut BlockState,
        strong: bool,
        address: u64,
        lane: usize,
        to: &mut [u8],
    ) {
        let place = (address, to.len());
        let Some(offset) = self.shared_offset(block, AccessKind::Read, place, lane) else {
            return;
        };
        let conflict = block
            .shared
            .read(offset, to, lane as u16, &self.actor(strong));
        if let Some(conflict) = conflict {
            self.report_conflict(block, conflict, address, lane, strong);
        }
    }

    pub(super) fn store_shared(
        &mut self,
        block: &mut BlockState,
        strong: bool,
        address: u64,
        lane: usize,
        from: &[u8],
    ) {
        let place = (address, from.len());
        let Some(offset) = self.shared_offset(block, AccessKind::Write, place, lane) else {
            return;
        };
        let conflict = block
            .shared
            .write(offset, from, lane as u16, &self.actor(strong));
        if let Some(conflict) = conflict {
            self.report_conflict(block, conflict, address, lane, strong);
        }
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

    // Global ---------------------------------------------------------------------------------

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
        if let Some(touch) = self.touch_of(launch, block, address, bytes, access.strong) {
            return Some(touch);
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

    /// The part of an allocation that so many bytes are, if they are in one.
    pub(super) fn touch_of(
        &mut self,
        launch: &Launch<'_>,
        block: &BlockState,
        address: u64,
        bytes: u64,
        strong: bool,
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
            strong,
        })
    }

    fn check_read(
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
        if access.read_only && launch.races.read_unchanging(touch) {
            block.report(self, lane, FindingKind::ReadOnlyWritten { address });
        }
        // Who took part in an atomic may have learned that the other block is done.
        if !self.took_part {
            if let Some(other_block) = launch.races.read(touch) {
                let access = AccessKind::Read;
                let finding = FindingKind::GlobalRace {
                    access,
                    address,
                    other_block,
                };
                block.report(self, lane, finding);
            }
        }
    }

    pub(super) fn check_write(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        kind: AccessKind,
        touch: Touch,
        lane: usize,
    ) {
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
        if let Some(other_block) = launch.races.write(touch) {
            if !self.took_part || kind == AccessKind::Atomic {
                let finding = FindingKind::GlobalRace {
                    access: kind,
                    address,
                    other_block,
                };
                block.report(self, lane, finding);
            }
        }
    }

    /// All 32 lanes side by side in one allocation: one check, one copy.
    #[inline]
    fn load_side_by_side(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        slots: &[Slot],
        mask: u32,
    ) -> bool {
        let bytes = access.bytes();
        if mask != u32::MAX || !are_side_by_side(addresses, bytes) {
            return false;
        }
        let Some(touch) = self.touch_of(launch, block, addresses[0], 32 * bytes, access.strong)
        else {
            return false;
        };
        self.check_read(launch, block, access, touch, 0);
        let mut buffer = [0u8; 32 * MAX_LANE_BYTES];
        let buffer = &mut buffer[..32 * bytes as usize];
        launch.memory.load(addresses[0], buffer);
        self.spread_lanes(access, slots, buffer, mask);
        true
    }

    /// Elements of all lanes' bytes into their registers.
    #[inline]
    fn spread_lanes(&mut self, access: Access, slots: &[Slot], buffer: &[u8], mask: u32) {
        let (size, stride) = (usize::from(access.size), access.bytes() as usize);
        for (idx, slot) in slots.iter().enumerate() {
            if let (Slot::W32(d), 4) = (*slot, size) {
                let mut values = [0u32; 32];
                for (value, lane) in values.iter_mut().zip(buffer.chunks_exact(stride)) {
                    let bytes = &lane[4 * idx..4 * idx + 4];
                    *value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                self.write_32(d, &values, mask);
                continue;
            }
            let mut values = [0u64; 32];
            for (value, lane) in values.iter_mut().zip(buffer.chunks_exact(stride)) {
                *value = element(&lane[size * idx..size * (idx + 1)], access.signed);
            }
            self.write_slot(*slot, &values, mask);
        }
    }

    /// The same parameter for every lane.
    fn load_parameter(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        slots: &[Slot],
        mask: u32,
    ) -> bool {
        if addresses.iter().any(|address| *address != addresses[0]) || mask == 0 {
            return false;
        }
        let mut buffer = [0u8; MAX_LANE_BYTES];
        let to = &mut buffer[..access.bytes() as usize];
        let lane = mask.trailing_zeros() as usize;
        self.load_lane(launch, block, access, addresses[0], lane, to);
        let size = usize::from(access.size);
        for (slot, bytes) in slots.iter().zip(to.chunks_exact(size)) {
            self.write_slot(*slot, &[element(bytes, access.signed); 32], mask);
        }
        true
    }

    // Memory of a lane -----------------------------------------------------------------------

    fn load_words(
        &mut self,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        slots: &[Slot],
        mask: u32,
        is_param: bool,
    ) {
        let base = if is_param { self.frame.param } else { 0 };
        let is_uniform = addresses.iter().all(|address| *address == addresses[0]);
        let in_word = access.size == 4 && addresses[0] % 4 == 0 && addresses[0] < 1 << 30;
        for (idx, slot) in slots.iter().enumerate() {
            let skip = u64::from(access.size) * idx as u64;
            if let (true, true, Slot::W32(d)) = (is_uniform, in_word, *slot) {
                let offset = base + (addresses[0] + skip) as u32;
                let words = if is_param { &self.params } else { &self.local };
                if let Some(row) = words.row(offset, mask) {
                    let row = *row;
                    self.write_32(d, &row, mask);
                    continue;
                }
            }
            for lane in lanes_of(mask) {
                let value = self.load_word(block, access, addresses[lane], skip, lane, is_param);
                self.write_lane(*slot, lane, value);
            }
        }
    }

    fn load_word(
        &mut self,
        block: &mut BlockState,
        access: Access,
        address: u64,
        skip: u64,
        lane: usize,
        is_param: bool,
    ) -> u64 {
        if !self.is_aligned(block, access, address, lane)
            || !self.is_in_stack(block, AccessKind::Read, access, address, lane, is_param)
        {
            return 0;
        }
        let base = if is_param { self.frame.param } else { 0 };
        let words = if is_param { &self.params } else { &self.local };
        let (value, is_written) = words.load(lane, base + (address + skip) as u32, access.size);
        if !is_written && !is_param {
            let (space, address) = ("local", address + skip);
            block.report(self, lane, FindingKind::Uninitialised { space, address });
        }
        element(
            &value.to_le_bytes()[..usize::from(access.size)],
            access.signed,
        )
    }

    fn is_in_stack(
        &self,
        block: &mut BlockState,
        kind: AccessKind,
        access: Access,
        address: u64,
        lane: usize,
        is_param: bool,
    ) -> bool {
        let end = match is_param {
            true => u64::from(self.frame.param_bytes),
            false => u64::from(self.frame.local + self.frame.local_bytes),
        };
        if address < end && access.bytes() <= end - address {
            return true;
        }
        let missed = MissedAllocation {
            base: 0,
            len: end,
            name: None,
            distance: distance(address, access.bytes(), 0, end),
        };
        let finding = FindingKind::OutOfBounds {
            access: kind,
            space: space_name(access.space),
            address,
            bytes: access.bytes(),
            missed: Some(missed),
        };
        block.report(self, lane, finding);
        false
    }

    fn store_words(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        slots: &[Slot],
        mask: u32,
    ) {
        let is_param = access.space == AccessSpace::FrameParam;
        let base = if is_param { self.frame.param } else { 0 };
        let is_uniform = addresses.iter().all(|address| *address == addresses[0]);
        let first = mask.trailing_zeros() as usize & 31;
        for (idx, slot) in slots.iter().enumerate() {
            let skip = u64::from(access.size) * idx as u64;
            if let (true, 4, Slot::W32(a)) = (is_uniform, access.size, *slot) {
                let fits = self.is_aligned(block, access, addresses[0], first)
                    && self.is_in_stack(
                        block,
                        AccessKind::Write,
                        access,
                        addresses[0],
                        first,
                        is_param,
                    );
                if fits {
                    let row = *self.row_32(launch, a);
                    let words = if is_param {
                        &mut self.params
                    } else {
                        &mut self.local
                    };
                    words.set_row(base + (addresses[0] + skip) as u32, &row, mask);
                }
                continue;
            }
            for lane in lanes_of(mask) {
                let address = addresses[lane];
                if self.is_aligned(block, access, address, lane)
                    && self.is_in_stack(block, AccessKind::Write, access, address, lane, is_param)
                {
                    let value = self.lane_value(launch, *slot, lane);
                    let words = if is_param {
                        &mut self.params
                    } else {
                        &mut self.local
                    };
                    words.store(lane, base + (address + skip) as u32, access.size, value);
                }
            }
        }
    }

    // Stores ---------------------------------------------------------------------------------

    pub(crate) fn store(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        operand: AddressOperand,
        list: List,
        mask: u32,
    ) {
        let mut addresses = self.addresses(launch, operand);
        if access.space != AccessSpace::Generic {
            self.store_to(launch, block, access, &addresses, list, mask);
            return;
        }
        for (space, lanes) in Self::spaces(&mut addresses, mask) {
            let access = Access { space, ..access };
            self.store_to(launch, block, access, &addresses, list, lanes);
        }
    }

    fn store_to(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        addresses: &[u64; 32],
        list: List,
        mask: u32,
    ) {
        let slots = launch.program.list(list);
        let bytes = access.bytes() as usize;
        if let AccessSpace::Local | AccessSpace::FrameParam = access.space {
            self.store_words(launch, block, access, addresses, slots, mask);
            return;
        }
        let mut buffer = [0u8; 32 * MAX_LANE_BYTES];
        let size = usize::from(access.size);
        for (idx, slot) in slots.iter().enumerate() {
            if let (Slot::W32(a), 4) = (*slot, size) {
                let row = self.row_32(launch, a);
                for (value, lane) in row.iter().zip(buffer.chunks_exact_mut(bytes)) {
                    lane[4 * idx..4 * idx + 4].copy_from_slice(&value.to_le_bytes());
                }
                continue;
            }
            let row = self.wide_row(launch, *slot);
            for (value, lane) in row.iter().zip(buffer.chunks_exact_mut(bytes)) {
                lane[size * idx..size * (idx + 1)].copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        let is_global = access.space == AccessSpace::Global;
        if is_global && mask == u32::MAX && are_side_by_side(addresses, bytes as u64) {
            let all = 32 * bytes as u64;
            let touch = self.touch_of(launch, block, addresses[0], all, access.strong);
            if let Some(touch) = touch {
                self.check_write(launch, block, AccessKind::Write, touch, 0);
                launch.memory.store(addresses[0], &buffer[..32 * bytes]);
                return;
            }
        }
        if access.space == AccessSpace::Shared && bytes <= 16 {
            let (offsets, actor) = (offsets_of(addresses), self.actor(access.strong));
            if block
                .shared
                .write_lanes(&offsets, &buffer, (mask, bytes), &actor)
            {
                return;
            }
        }
        for lane in lanes_of(mask) {
            let from = &buffer[bytes * lane..bytes * (lane + 1)];
            let address = addresses[lane];
            if !self.is_aligned(block, access, address, lane) {
                continue;
            }
            if access.space == AccessSpace::Shared {
                self.store_shared(block, access.strong, address, lane, from);
                continue;
            }
            if access.space == AccessSpace::KernelParam {
                self.out_of_bounds(block, AccessKind::Write, access, address, lane);
                continue;
            }
            let kind = AccessKind::Write;
            if let Some(touch) = self.touch(launch, block, kind, access, address, lane) {
                self.check_write(launch, block, kind, touch, lane);
                launch.memory.store(address, from);
            }
        }
    }
}

/// Addresses of shared memory as offsets from its beginning; those that are none are too large.
#[inline]
fn offsets_of(addresses: &[u64; 32]) -> [u32; 32] {
    let base = u64::from(SHARED_BASE);
    let mut offsets = [0u32; 32];
    for (offset, address) in offsets.iter_mut().zip(addresses) {
        let from_base = address.wrapping_sub(base);
        *offset = if from_base < 1 << 31 {
            from_base as u32
        } else {
            u32::MAX
        };
    }
    offsets
}

/// Whether lanes follow each other without a gap, from an aligned address on.
#[inline]
fn are_side_by_side(addresses: &[u64; 32], bytes: u64) -> bool {
    let mut difference = addresses[0] & (bytes - 1);
    for (lane, address) in addresses.iter().enumerate() {
        difference |= address ^ addresses[0].wrapping_add(bytes * lane as u64);
    }
    difference == 0
}

/// Bytes as a value, extended to 64 bits.
fn element(bytes: &[u8], signed: bool) -> u64 {
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
fn distance(address: u64, bytes: u64, base: u64, len: u64) -> i64 {
    if address < base {
        return (address as i64).wrapping_sub(base as i64);
    }
    address
        .wrapping_add(bytes)
        .wrapping_sub(base)
        .wrapping_sub(len) as i64
}

/// The allocation next to an address.
fn nearest(launch: &Launch<'_>, address: u64, bytes: u64) -> Option<MissedAllocation> {
    let after = launch.allocations.partition_point(|it| it.base <= address);
    let before = after.checked_sub(1).map(|idx| &launch.allocations[idx]);
    let next = launch.allocations.get(after);
    let missed = |it: &crate::memory::Allocation| MissedAllocation {
        base: it.base,
        len: it.len,
        name: it.name.clone(),
        distance: distance(address, bytes, it.base, it.len),
    };
    let candidates = before.into_iter().chain(next).map(missed);
    candidates.min_by_key(|missed| missed.distance.unsigned_abs())
}
