//! Atomics on global and shared memory, lane after lane.
//!
//! The order of the lanes is that of their numbers; a program may rely on none.

use crate::check::{AccessKind, FindingKind};
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::program::{Access, AccessSpace, AddressOperand, AtomicOp, List, Scope};

use super::checks::space_name;
use super::float::{canonical, canonical_64};

/// f32 added in global memory, where subnormals count as zero.
fn add_flushed(a: f32, b: f32) -> f32 {
    let flush = |x: f32| {
        if x.is_subnormal() {
            0f32.copysign(x)
        } else {
            x
        }
    };
    flush(flush(a) + flush(b))
}

fn add_half(a: u16, b: u16) -> u16 {
    // The sum of two f16 is exact in f32 or lies within what rounding it once more keeps.
    narrow(widen(a) + widen(b))
}

fn widen(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (
        bits >> 15,
        u32::from(bits >> 10 & 31),
        u32::from(bits & 1023),
    );
    let magnitude = match exponent {
        0 => fraction as f32 * 2f32.powi(-24),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if sign != 0 { -magnitude } else { magnitude }
}

/// To f16, to nearest, ties to even.
fn narrow(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = ((value.to_bits() >> 16) & 0x8000) as u16;
    let magnitude = value.abs();
    if magnitude >= 65_520.0 {
        return sign | 0x7c00;
    }
    if magnitude < 2f32.powi(-14) {
        // Adding half of the spacing's own power of two rounds at the last bit of a subnormal.
        return sign | (magnitude * 2f32.powi(24)).round_ties_even() as u16;
    }
    let bits = magnitude.to_bits() - (112 << 23);
    let rounded = bits + 0xfff + (bits >> 13 & 1);
    sign | (rounded >> 13) as u16
}

fn add_brain(a: u16, b: u16) -> u16 {
    let sum = f32::from_bits(u32::from(a) << 16) + f32::from_bits(u32::from(b) << 16);
    if sum.is_nan() {
        return 0x7fff;
    }
    let bits = sum.to_bits();
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn in_halves(a: u64, b: u64, add: impl Fn(u16, u16) -> u16) -> u64 {
    let low = add(a as u16, b as u16);
    let high = add((a >> 16) as u16, (b >> 16) as u16);
    u64::from(high) << 16 | u64::from(low)
}

/// What memory holds afterwards; `is_global` is where f32 is flushed.
fn changed(op: AtomicOp, bytes: u8, is_global: bool, old: u64, a: u64, b: u64) -> u64 {
    let is_64 = bytes == 8;
    let signed = |value: u64| {
        if is_64 {
            value as i64
        } else {
            i64::from(value as u32 as i32)
        }
    };
    let new = match op {
        AtomicOp::Add => old.wrapping_add(a),
        AtomicOp::AddF32 => {
            let (x, y) = (f32::from_bits(old as u32), f32::from_bits(a as u32));
            let sum = if is_global { add_flushed(x, y) } else { x + y };
            u64::from(canonical(sum))
        }
        AtomicOp::AddF64 => canonical_64(f64::from_bits(old) + f64::from_bits(a)),
        AtomicOp::AddF16 => u64::from(add_half(old as u16, a as u16)),
        AtomicOp::AddBf16 => u64::from(add_brain(old as u16, a as u16)),
        AtomicOp::AddF16x2 => in_halves(old, a, add_half),
        AtomicOp::AddBf16x2 => in_halves(old, a, add_brain),
        AtomicOp::MinS => {
            if signed(old) < signed(a) {
                old
            } else {
                a
            }
        }
        AtomicOp::MaxS => {
            if signed(old) > signed(a) {
                old
            } else {
                a
            }
        }
        AtomicOp::MinU => old.min(a),
        AtomicOp::MaxU => old.max(a),
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomicOp::Exch => a,
        AtomicOp::Cas => {
            if old == a {
                b
            } else {
                old
            }
        }
    };
    match bytes {
        8 => new,
        _ => new & ((1 << (8 * u32::from(bytes))) - 1),
    }
}

impl Warp {
    pub(crate) fn atomic(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        (op, access, is_result_read): (AtomicOp, Access, bool),
        operand: AddressOperand,
        list: List,
        mask: u32,
    ) {
        let mut addresses = self.addresses(launch, operand);
        let spaces = match access.space {
            AccessSpace::Generic => Self::spaces(launch, &mut addresses, mask),
            space => vec![(space, mask)],
        };
        let slots = launch.program.list(list);
        let count = usize::from(access.count);
        let (results, sources) = slots.split_at(count.min(slots.len()));
        for (space, lanes) in spaces {
            let access = Access { space, ..access };
            block.has_learned |= is_result_read
                && space != AccessSpace::Shared
                && access.scope == Some(Scope::Device);
            for lane in lanes_of(lanes) {
                let address = addresses[lane];
                if !self.atomic_is_possible(launch, block, access, address, lane) {
                    continue;
                }
                for idx in 0..count {
                    let a = self.lane_value(launch, sources[idx], lane);
                    let b = match sources.get(count + idx) {
                        Some(slot) => self.lane_value(launch, *slot, lane),
                        None => 0,
                    };
                    let address = address + idx as u64 * u64::from(access.size);
                    let change = |old| {
                        let is_global = space == AccessSpace::Global;
                        changed(op, access.size, is_global, old, a, b)
                    };
                    let old = match space {
                        AccessSpace::Shared => {
                            self.change_shared(block, address, access.size, lane, change)
                        }
                        _ => change_global(launch, address, access.size, change),
                    };
                    self.write_lane(results[idx], lane, old);
                }
            }
        }
    }

    fn atomic_is_possible(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        access: Access,
        address: u64,
        lane: usize,
    ) -> bool {
        let (space, align) = (space_name(access.space), access.bytes());
        if !address.is_multiple_of(align) {
            block.report(
                self,
                lane,
                FindingKind::Misaligned {
                    space,
                    address,
                    align,
                },
            );
            return false;
        }
        match access.space {
            AccessSpace::Shared => {
                let place = (address, access.bytes() as usize);
                self.shared_offset(block, AccessKind::Atomic, place, lane)
                    .is_some()
            }
            AccessSpace::Global | AccessSpace::Const => {
                let kind = AccessKind::Atomic;
                let Some(touch) = self.touch(launch, block, kind, access, address, lane) else {
                    return false;
                };
                let shadow = launch.allocations[touch.allocation].shadow.as_ref();
                let unwritten = shadow.and_then(|it| it.first_unwritten(touch.offset, touch.len));
                if unwritten.is_some() {
                    block.report(self, lane, FindingKind::Uninitialised { space, address });
                }
                self.check_write(launch, block, touch, None, lane);
                true
            }
            _ => {
                self.out_of_bounds(block, AccessKind::Atomic, access, address, lane);
                false
            }
        }
    }

    fn change_shared(
        &mut self,
        block: &mut BlockState,
        address: u64,
        size: u8,
        lane: usize,
        change: impl Fn(u64) -> u64,
    ) -> u64 {
        let mut bytes = [0u8; 8];
        let n = usize::from(size);
        self.load_shared(block, true, address, lane, &mut bytes[..n]);
        let old = u64::from_le_bytes(bytes);
        let new = change(old).to_le_bytes();
        self.store_shared(block, true, address, lane, &new[..n]);
        old
    }
}

fn change_global(launch: &Launch<'_>, address: u64, size: u8, change: impl Fn(u64) -> u64) -> u64 {
    match size {
        8 => launch.memory.update_64(address, &mut |old| change(old)),
        4 => {
            let old = launch
                .memory
                .update_32(address, &mut |old| change(old.into()) as u32);
            u64::from(old)
        }
        _ => {
            // Two bytes change inside of their word.
            let (word, shift) = (address & !3, 8 * (address & 3) as u32);
            let keep = !(0xffffu32 << shift);
            let old = launch.memory.update_32(word, &mut |old| {
                let half = u64::from(old >> shift & 0xffff);
                old & keep | (change(half) as u32 & 0xffff) << shift
            });
            u64::from(old >> shift & 0xffff)
        }
    }
}
