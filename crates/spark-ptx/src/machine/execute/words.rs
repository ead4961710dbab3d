//! Loads and stores of local memory and of parameters of calls.

use crate::check::{AccessKind, FindingKind, MissedAllocation};
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::program::{Access, AccessSpace, Slot};

use super::checks::{distance, element, space_name};

impl Warp {
    pub(super) fn load_words(
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
        // What a function that has returned left behind the frame is no part of it.
        let is_inside =
            addresses[0] < 1 << 30 && addresses[0] + access.bytes() <= self.stack_end(is_param);
        let in_word = access.size == 4 && addresses[0].is_multiple_of(access.bytes()) && is_inside;
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
        if !is_written {
            let (space, address) = (space_name(access.space), address + skip);
            block.report(self, lane, FindingKind::Uninitialised { space, address });
        }
        element(
            &value.to_le_bytes()[..usize::from(access.size)],
            access.signed,
        )
    }

    /// The end of the frame's local memory, from the thread's first byte, or of its parameters.
    fn stack_end(&self, is_param: bool) -> u64 {
        match is_param {
            true => u64::from(self.frame.param_bytes),
            false => u64::from(self.frame.local + self.frame.local_bytes),
        }
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
        let end = self.stack_end(is_param);
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

    pub(super) fn store_words(
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
}
