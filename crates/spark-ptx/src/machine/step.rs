//! Runs a warp: one instruction for all of its active lanes, again and again.
//!
//! ```text
//! while there is a turn:
//!   nobody is active?  choose the lanes that go on       none can: done, or they wait for ever
//!   mask = active lanes whose guard holds
//!   do it; pc + 1; lanes that waited at the new pc join
//! ```

use std::sync::atomic::Ordering;

use crate::check::FindingKind;
use crate::memory::TURN_BITS;
use crate::program::{Callee, FUNCTION_WINDOW, Instruction, Op, P, R32, RegisterId};

use super::block_state::BlockState;
use super::convergence;
use super::execute::{CopyOperands, Test, mask_row};
use super::launch::Launch;
use super::warp::{Status, Warp, lanes_of, lanes_where};

/// Instructions of the whole warp: a member mask of all lanes.
const ALL_LANES: u32 = u32::MAX;
/// Number of a warp's own barrier in findings: above those of a block.
const OF_A_WARP: u32 = 16;

/// Runs a warp for so many instructions, or until it waits for others or is done.
pub(crate) fn run(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>, turns: u64) {
    for _ in 0..turns {
        if warp.active == 0 && !next_group(warp, block, launch) {
            return;
        }
        let instruction = &launch.program.instructions[warp.pc as usize];
        warp.n_instructions += 1;
        let mut mask = warp.active;
        if instruction.guard.register != P::NONE || instruction.guard.negated {
            mask &= warp.condition(instruction.guard);
        }
        if instruction.is_watched {
            watch(warp, block, launch, mask);
        }
        if mask == 0 {
            warp.advance();
            continue;
        }
        step(warp, block, launch, instruction, mask);
        if warp.status != Status::Ready || block.is_stopped {
            return;
        }
    }
}

/// Chooses lanes that go on; false if the warp is done or cannot go on.
fn next_group(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>) -> bool {
    if warp.pick() {
        return true;
    }
    if warp.live == 0 {
        warp.status = Status::Done;
        return false;
    }
    // All that live wait. If they wait at one place, those they waited for have exited.
    if warp.parked_at_one_place() {
        warp.parked = 0;
        return warp.pick();
    }
    let waits = |lane: usize| launch.program.instructions[warp.lane_pc[lane] as usize].op;
    let at_warp_barriers =
        lanes_of(warp.parked).all(|lane| matches!(waits(lane), Op::WarpBarrier { .. }));
    if at_warp_barriers {
        for lane in lanes_of(warp.parked) {
            warp.lane_pc[lane] += 1;
        }
        warp.parked = 0;
        begin_turn(warp, block, launch);
        return warp.pick();
    }
    if warp.together_apart(launch, block) {
        return warp.pick();
    }
    if super::barriers::arrive_one_by_one(warp, block, launch) {
        return false;
    }
    let lane = warp.parked.trailing_zeros() as usize & 31;
    let barrier = OF_A_WARP;
    block.report_at(
        warp,
        warp.lane_pc[lane],
        lane,
        FindingKind::DivergentBarrier { barrier },
    );
    block.is_stopped = true;
    false
}

/// After a barrier of the warp, what its lanes did before is over for all of them.
///
/// A barrier of some lanes counts as one of all: races with the others pass then.
fn begin_turn(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>) {
    warp.time += 1;
    if warp.time & ((1 << TURN_BITS) - 1) == 0 {
        // The turns of this phase are used up: a phase that nobody else knows goes on.
        warp.time = block.next_phase(launch) << TURN_BITS;
    }
}

/// Reports registers that are read and were not written, and notes those that are written.
fn watch(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>, mask: u32) {
    let Some(watch) = launch.program.watches.get(&warp.pc) else {
        return;
    };
    let instruction = &launch.program.instructions[warp.pc as usize];
    for (number, id) in &watch.reads {
        // The guard itself is read by all lanes, everything else by those that it lets through.
        let is_guard = *id == RegisterId::Predicate(instruction.guard.register.0);
        let readers = if is_guard { warp.active } else { mask };
        let missing = readers & !warp.written(*number);
        if missing != 0 {
            let lane = missing.trailing_zeros() as usize;
            block.report(warp, lane, FindingKind::UninitialisedRegister);
        }
    }
    for number in &watch.writes {
        warp.note_written(*number, mask, mask);
    }
    // A shuffle carries when its members are there.
    let is_at_once = !matches!(instruction.op, Op::Shuffle { .. });
    if let Some(carry) = watch.carries.filter(|_| is_at_once) {
        warp.note_written(carry.to, warp.written(carry.from), mask);
    }
}

/// The members of an instruction of several lanes, once they all stand here.
fn members(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    row: R32,
    mask: u32,
) -> Option<u32> {
    let masks = *warp.row_32(launch, row);
    let first = mask.trailing_zeros() as usize & 31;
    let wanted = masks[first];
    let alike = lanes_where(mask, |lane| masks[lane] == wanted);
    if alike != warp.active {
        // Lanes with another mask stay here, lanes whose guard does not hold go on.
        let staying = mask & !alike;
        warp.suspend_at(mask);
        warp.active = alike;
        warp.meet_at = warp.meet_at.min(warp.pc + u32::from(staying == 0));
    }
    if alike & !wanted != 0 {
        let lane = (alike & !wanted).trailing_zeros() as usize;
        block.report(warp, lane, FindingKind::OutsideOfMask { mask: wanted });
    }
    // Lanes that have exited are not waited for.
    let wanted = wanted | alike;
    warp.gather(wanted).then_some(wanted & warp.live)
}

/// Whether all lanes of the warp stand at an instruction of the whole warp.
fn whole_warp(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>, mask: u32) -> bool {
    convergence::check(warp, block, launch);
    if !warp.gather(ALL_LANES) {
        return false;
    }
    let lane = mask.trailing_zeros() as usize & 31;
    if warp.active != ALL_LANES {
        let lanes = !warp.active;
        block.report(warp, lane, FindingKind::ExitedLanes { lanes });
    }
    if mask != warp.active {
        let lanes = warp.active & !mask;
        block.report(warp, lane, FindingKind::DivergentAligned { lanes });
    }
    true
}

fn stop(warp: &Warp, block: &mut BlockState, launch: &Launch<'_>, lane: usize, kind: FindingKind) {
    block.report(warp, lane, kind);
    block.is_stopped = true;
    launch.stopped.store(true, Ordering::Relaxed);
}

/// One instruction for the lanes of the mask, which is not empty.
fn step(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    instruction: &Instruction,
    mask: u32,
) {
    match instruction.op {
        Op::Branch { target } => return warp.branch(mask, target),
        Op::Goto { target } => {
            // Nothing that somebody wrote.
            warp.n_instructions -= 1;
            return warp.branch(mask, target);
        }
        Op::Int32 { op, d, a, b, c } => warp.int_32(launch, op, d, [a, b, c], mask),
        Op::Int64 { op, d, a, b, c } => warp.int_64(launch, op, d, [a, b, c], mask),
        Op::Float32 { op, d, a, b, c } => warp.float_32(launch, op, d, [a, b, c], mask),
        Op::Float64 { op, d, a, b, c } => warp.float_64(launch, op, d, [a, b, c], mask),
        Op::Move32 { d, a } => {
            let row = *warp.row_32(launch, a);
            warp.write_32(d, &row, mask);
        }
        Op::Move64 { d, a } => {
            let row = *warp.row_64(launch, a);
            warp.write_64(d, &row, mask);
        }
        Op::Load {
            access,
            address,
            elements,
        } => {
            warp.load(launch, block, access, address, elements, mask);
        }
        Op::Store {
            access,
            address,
            elements,
        } => {
            warp.store(launch, block, access, address, elements, mask);
        }
        Op::Compare {
            comparison,
            scalar,
            p,
            q,
            a,
            b,
            logic,
            condition,
        } => {
            let test = Test {
                comparison,
                scalar,
                logic,
                condition,
            };
            warp.compare(launch, &test, [p, q], [a, b], mask);
        }
        Op::Select32 { d, a, b, condition } => warp.select_32(launch, d, [a, b], condition, mask),
        Op::Select64 { d, a, b, condition } => warp.select_64(launch, d, [a, b], condition, mask),
        Op::MulWide { signed, d, a, b, c } => warp.mul_wide(launch, signed, d, [a, b], c, mask),
        Op::Shift64 { op, d, a, b, c } => warp.shift_64(launch, op, d, a, [b, c], mask),
        Op::QuickConvert { conversion, d, a } => {
            warp.quick_convert(launch, conversion, d, a, mask);
        }
        Op::Mma { form, operands } => {
            if !whole_warp(warp, block, launch, mask) {
                return;
            }
            warp.mma(launch, block, form, operands, mask);
        }
        Op::LoadMatrix {
            form,
            address,
            elements,
            generic,
        } => {
            if !whole_warp(warp, block, launch, mask) {
                return;
            }
            warp.load_matrix(launch, block, form, (address, generic), elements, mask);
        }
        Op::StoreMatrix {
            form,
            address,
            elements,
            generic,
        } => {
            if !whole_warp(warp, block, launch, mask) {
                return;
            }
            warp.store_matrix(launch, block, form, (address, generic), elements);
        }
        Op::MoveMatrix { d, a } => {
            if !whole_warp(warp, block, launch, mask) {
                return;
            }
            warp.move_matrix(launch, d, a, mask);
        }
        Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::MatchAny { .. }
        | Op::MatchAll { .. }
        | Op::Reduce { .. }
        | Op::Elect { .. } => {
            let Some(row) = mask_row(launch, &instruction.op) else {
                return warp.advance();
            };
            let Some(members) = members(warp, block, launch, row, mask) else {
                return;
            };
            warp.together(launch, block, &instruction.op, members);
        }
        Op::WarpBarrier { mask: row } => {
            if members(warp, block, launch, row, mask).is_none() {
                return;
            }
            begin_turn(warp, block, launch);
        }
        Op::Barrier { .. } | Op::Arrive { .. } | Op::ClusterWait { .. } => {
            return super::barriers::arrive(warp, block, launch, instruction, mask);
        }
        Op::Call { site } => return call(warp, block, launch, site, mask),
        Op::Return => {
            let passing = warp.active & !mask;
            warp.active = mask;
            warp.leave(launch.program, mask);
            for lane in lanes_of(passing) {
                warp.lane_pc[lane] = warp.pc;
            }
            return;
        }
        Op::Exit => {
            warp.exit(mask);
            if warp.active == 0 {
                return;
            }
        }
        Op::Trap => {
            let lane = mask.trailing_zeros() as usize;
            return stop(warp, block, launch, lane, FindingKind::Trap);
        }
        Op::BranchIndexed { index, targets } => {
            return branch_indexed(warp, block, launch, index, targets, mask);
        }
        Op::Atomic {
            op,
            access,
            address,
            operands,
        } => {
            let what = (op, access, instruction.is_result_read);
            warp.atomic(launch, block, what, address, operands, mask);
        }
        _ => rare(warp, block, launch, instruction, mask),
    }
    warp.advance();
}

/// Instructions that no loop is made of.
#[inline(never)]
fn rare(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    instruction: &Instruction,
    mask: u32,
) {
    match instruction.op {
        Op::Int16 {
            op,
            signed,
            d,
            a,
            b,
            c,
        } => {
            warp.int_16(launch, op, signed, d, [a, b, c], mask);
        }
        Op::Int16x2 {
            op,
            signed,
            d,
            a,
            b,
        } => {
            warp.int_16x2(launch, op, signed, d, [a, b], mask);
        }
        Op::Count64 { op, d, a } => warp.count_64(launch, op, d, a, mask),
        Op::MulWide16 { signed, d, a, b, c } => {
            warp.mul_wide_16(launch, signed, d, [a, b, c], mask);
        }
        Op::InsertField {
            d,
            a,
            b,
            position,
            len,
        } => {
            warp.insert_field(launch, d, [a, b, position, len], mask);
        }
        Op::InsertField64 {
            d,
            a,
            b,
            position,
            len,
        } => {
            warp.insert_field_64(launch, d, [a, b], [position, len], mask);
        }
        Op::Lop3 { d, a, b, c, table } => warp.lop3(launch, d, [a, b, c], table, mask),
        Op::Lop3Test {
            d,
            p,
            sources,
            table,
            logic,
            condition,
        } => warp.lop3_test(launch, (d, p), (sources, table), (logic, condition), mask),
        Op::Permute { mode, d, a, b, c } => warp.permute(launch, mode, d, [a, b, c], mask),
        Op::Funnel {
            left,
            wrap,
            d,
            a,
            b,
            c,
        } => {
            warp.funnel(launch, (left, wrap), d, [a, b, c], mask);
        }
        Op::Carry32 {
            op,
            reads,
            writes,
            d,
            a,
            b,
            c,
        } => {
            warp.carry_32(launch, op, (reads, writes), d, [a, b, c], mask);
        }
        Op::Carry64 {
            op,
            reads,
            writes,
            d,
            a,
            b,
            c,
        } => {
            warp.carry_64(launch, op, (reads, writes), d, [a, b, c], mask);
        }
        Op::Bytes { op, d, a, b, c } => warp.bytes(launch, op, d, [a, b, c], mask),
        Op::FloatForm { form, operands } => warp.float_form(launch, form, operands, mask),
        Op::ConvertForm { form, operands } => warp.convert_form(launch, form, operands, mask),
        Op::CompareHalves {
            comparison,
            scalar,
            p,
            q,
            a,
            b,
            logic,
            condition,
        } => {
            let test = Test {
                comparison,
                scalar,
                logic,
                condition,
            };
            warp.compare_halves(launch, &test, [p, q], [a, b], mask);
        }
        Op::Set {
            comparison,
            scalar,
            d,
            a,
            b,
            one,
            logic,
            condition,
        } => {
            let test = Test {
                comparison,
                scalar,
                logic,
                condition,
            };
            warp.set(launch, &test, d, [a, b], one, mask);
        }
        Op::SetHalves {
            comparison,
            scalar,
            d,
            a,
            b,
            one,
            logic,
            condition,
        } => {
            let test = Test {
                comparison,
                scalar,
                logic,
                condition,
            };
            warp.set_halves(launch, &test, d, [a, b], one, mask);
        }
        Op::SelectBySign {
            is_float,
            d,
            a,
            b,
            c,
        } => {
            warp.select_by_sign(launch, is_float, d, [a, b], c, mask);
        }
        Op::Logic { op, d, a, b } => warp.logic(op, d, [a, b], mask),
        Op::SetPredicate { d, value } => {
            warp.write_predicate(d, if value { u32::MAX } else { 0 }, mask);
        }
        Op::Pack { d, elements, bits } => warp.pack(launch, d, elements, bits, mask),
        Op::Unpack { a, elements, bits } => warp.unpack(launch, a, elements, bits, mask),
        Op::FrameAddress { d, offset } => warp.frame_address(d, offset, mask),
        Op::ReadClock { d, clock } => warp.read_clock(d, clock, mask),
        Op::ActiveMask { d } => warp.write_32(d, &[mask; 32], mask),
        Op::ToGeneric { window, d, a } => warp.make_generic(launch, window, d, a, mask),
        Op::FromGeneric { window, d, a } => warp.leave_generic(launch, window, d, a, mask),
        Op::IsSpace { window, p, a } => warp.is_space(launch, window, p, a, mask),
        Op::CopyAsync {
            n,
            to,
            to_offset,
            from,
            from_offset,
            source,
        } => {
            let operands = CopyOperands {
                n,
                to,
                to_offset,
                from,
                from_offset,
                source,
            };
            warp.copy_async(launch, block, &operands, mask);
        }
        Op::CommitCopies => warp.commit_copies(mask),
        Op::WaitCopies { pending } => warp.wait_copies(launch, block, pending, mask),
        _ => {}
    }
}

fn branch_indexed(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    index: R32,
    targets: u32,
    mask: u32,
) {
    let row = *warp.row_32(launch, index);
    let targets = &launch.program.branch_tables[targets as usize];
    warp.suspend_at(mask);
    for lane in lanes_of(mask) {
        match targets.get(row[lane] as usize) {
            Some(target) => warp.lane_pc[lane] = *target,
            None => {
                let target = row[lane].into();
                return stop(warp, block, launch, lane, FindingKind::BadTarget { target });
            }
        }
    }
}

fn call(warp: &mut Warp, block: &mut BlockState, launch: &Launch<'_>, site: u32, mask: u32) {
    let program = launch.program;
    let callee = program.calls[site as usize].callee;
    let function = match callee {
        Callee::Direct(function) => function,
        Callee::Print => {
            // What would be printed is dropped; the number of arguments is not worth failing for.
            for result in &program.calls[site as usize].results {
                let offset = warp.frame.param + result.offset;
                warp.params.set_row(offset, &[0; 32], mask);
            }
            return warp.advance();
        }
        Callee::Indirect(register) => {
            let row = *warp.row_64(launch, register);
            let first = mask.trailing_zeros() as usize & 31;
            let alike = lanes_where(mask, |lane| row[lane] == row[first]);
            if alike != mask {
                // One function after the other.
                warp.suspend_at(mask);
                warp.active = alike;
                return call(warp, block, launch, site, alike);
            }
            let number = row[first] ^ FUNCTION_WINDOW;
            let fits = usize::try_from(number)
                .ok()
                .and_then(|it| program.functions.get(it));
            let site = &program.calls[site as usize];
            let fits = fits.is_some_and(|code| {
                code.is_defined
                    && !code.is_kernel
                    && code.parameters.len() == site.arguments.len()
                    && code.results.len() == site.results.len()
            });
            if !fits {
                let target = row[first];
                return stop(
                    warp,
                    block,
                    launch,
                    first,
                    FindingKind::BadTarget { target },
                );
            }
            number as u32
        }
    };
    if !warp.enter(program, function, site, mask) {
        let depth = warp.frame.depth;
        let lane = mask.trailing_zeros() as usize;
        return stop(
            warp,
            block,
            launch,
            lane,
            FindingKind::StackOverflow { depth },
        );
    }
    warp.suspend_at(mask);
    for lane in lanes_of(mask) {
        warp.lane_pc[lane] = program.functions[function as usize].first;
    }
}
