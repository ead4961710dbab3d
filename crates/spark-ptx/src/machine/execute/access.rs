//! Loads and stores: addresses, checks, bytes.
//!
//! ```text
//! addresses of 32 lanes -> side by side?  one check, one copy          the rule
//!                       -> else           lane by lane
//! generic addresses     -> the spaces that their windows say, one after the other
//! ```

use crate::check::AccessKind;
use crate::machine::block_state::BlockState;
use crate::machine::global_races::Touch;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::memory::{KERNEL_PARAM_WINDOW, LOCAL_WINDOW, SHARED_BASE, SHARED_WINDOW, WINDOW_MASK};
use crate::program::{Access, AccessSpace, AddressBase, AddressOperand, List, Slot};

use super::checks::element;

/// The most that a lane loads or stores.
const MAX_LANE_BYTES: usize = 32;

/// The space of a generic address, and its address there.
fn resolve(launch: &Launch<'_>, address: u64) -> (AccessSpace, u64) {
    let offset = address & !WINDOW_MASK;
    match address & WINDOW_MASK {
        SHARED_WINDOW => (AccessSpace::Shared, offset),
        LOCAL_WINDOW => (AccessSpace::Local, offset),
        KERNEL_PARAM_WINDOW => (AccessSpace::KernelParam, offset),
        _ if launch.is_constant(address) => (AccessSpace::Const, address),
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
    pub(super) fn spaces(
        launch: &Launch<'_>,
        addresses: &mut [u64; 32],
        mask: u32,
    ) -> Vec<(AccessSpace, u32)> {
        let mut found: Vec<(AccessSpace, u32)> = Vec::new();
        for lane in lanes_of(mask) {
            let (space, address) = resolve(launch, addresses[lane]);
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
        for (space, lanes) in Self::spaces(launch, &mut addresses, mask) {
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
            AccessSpace::Shared => self.load_shared(block, access.is_strong(), address, lane, to),
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
        let (offsets, actor) = (offsets_of(addresses), self.actor(access.is_strong()));
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
        let Some(touch) = self.touch_of(launch, block, addresses[0], 32 * bytes, access.scope)
        else {
            return false;
        };
        let touch = side_by_side(touch, bytes);
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
        for (space, lanes) in Self::spaces(launch, &mut addresses, mask) {
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
            let touch = self.touch_of(launch, block, addresses[0], all, access.scope);
            if let Some(touch) = touch {
                let touch = side_by_side(touch, bytes as u64);
                let from = &buffer[..32 * bytes];
                self.check_write(launch, block, touch, Some(from), 0);
                launch.memory.store(addresses[0], from);
                return;
            }
        }
        if access.space == AccessSpace::Shared && bytes <= 16 {
            let (offsets, actor) = (offsets_of(addresses), self.actor(access.is_strong()));
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
                self.store_shared(block, access.is_strong(), address, lane, from);
                continue;
            }
            if access.space == AccessSpace::KernelParam {
                self.out_of_bounds(block, AccessKind::Write, access, address, lane);
                continue;
            }
            let kind = AccessKind::Write;
            if let Some(touch) = self.touch(launch, block, kind, access, address, lane) {
                self.check_write(launch, block, touch, Some(from), lane);
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

/// A stretch that 32 lanes touch, so many bytes each.
fn side_by_side(touch: Touch, bytes: u64) -> Touch {
    let lane_shift = bytes.trailing_zeros();
    Touch {
        lane_shift,
        ..touch
    }
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
