//! Packing, clocks, and addresses of the state spaces.

use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::memory::{KERNEL_PARAM_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_MASK};
use crate::program::{Clock, List, P, R64, Slot, Window};

/// The window of a space; none for constants and global memory, which have all other addresses.
fn base(window: Window) -> Option<u64> {
    match window {
        Window::Global | Window::Const => None,
        Window::Shared => Some(SHARED_WINDOW),
        Window::Local => Some(LOCAL_WINDOW),
        Window::Param => Some(KERNEL_PARAM_WINDOW),
    }
}

impl Warp {
    pub(crate) fn pack(&mut self, launch: &Launch<'_>, d: Slot, list: List, bits: u8, mask: u32) {
        let elements = launch.program.list(list);
        let mut values = [0u64; 32];
        for (idx, element) in elements.iter().enumerate() {
            let shift = u32::from(bits) * idx as u32;
            let low = u64::MAX >> (64 - u32::from(bits));
            let row = self.wide_row(launch, *element);
            for lane in 0..32 {
                values[lane] |= (row[lane] & low) << shift;
            }
        }
        self.write_slot(d, &values, mask);
    }

    pub(crate) fn unpack(&mut self, launch: &Launch<'_>, a: Slot, list: List, bits: u8, mask: u32) {
        let row = self.wide_row(launch, a);
        for (idx, element) in launch.program.list(list).iter().enumerate() {
            let shift = u32::from(bits) * idx as u32;
            let low = u64::MAX >> (64 - u32::from(bits));
            self.write_slot(*element, &row.map(|value| value >> shift & low), mask);
        }
    }

    pub(crate) fn frame_address(&mut self, d: R64, offset: u32, mask: u32) {
        let address = u64::from(self.frame.local + offset);
        self.write_64(d, &[address; 32], mask);
    }

    pub(crate) fn read_clock(&mut self, d: Slot, clock: Clock, mask: u32) {
        // A clock only has to go forward.
        let now = self.n_instructions * 4;
        let value = match clock {
            Clock::Low => now & 0xffff_ffff,
            Clock::High => now >> 32,
            Clock::Whole => now,
        };
        self.write_slot(d, &[value; 32], mask);
    }

    pub(crate) fn make_generic(
        &mut self,
        launch: &Launch<'_>,
        window: Window,
        d: R64,
        a: R64,
        mask: u32,
    ) {
        let base = base(window).unwrap_or(0);
        let values = self
            .row_64(launch, a)
            .map(|offset| offset.wrapping_add(base));
        self.write_64(d, &values, mask);
    }

    pub(crate) fn leave_generic(
        &mut self,
        launch: &Launch<'_>,
        window: Window,
        d: R64,
        a: R64,
        mask: u32,
    ) {
        let base = base(window).unwrap_or(0);
        let values = self
            .row_64(launch, a)
            .map(|address| address.wrapping_sub(base));
        self.write_64(d, &values, mask);
    }

    pub(crate) fn is_space(
        &mut self,
        launch: &Launch<'_>,
        window: Window,
        p: P,
        a: R64,
        mask: u32,
    ) {
        let row = *self.row_64(launch, a);
        let windows = [SHARED_WINDOW, LOCAL_WINDOW, KERNEL_PARAM_WINDOW];
        let mut holds = 0;
        for lane in lanes_of(mask) {
            let top = row[lane] & WINDOW_MASK;
            let is_inside = match (window, base(window)) {
                (_, Some(base)) => top == base,
                (Window::Const, _) => launch.is_constant(row[lane]),
                _ => !windows.contains(&top) && !launch.is_constant(row[lane]),
            };
            holds |= u32::from(is_inside) << lane;
        }
        self.write_predicate(p, holds, mask);
    }
}
