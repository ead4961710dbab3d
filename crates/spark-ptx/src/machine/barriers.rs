//! Barriers of a block: who arrives, and what those who waited know afterwards.
//!
//! ```text
//! arrive   the barrier learns what the warp knows; a warp that only arrives goes on in a new phase
//! enough   the barrier is empty again at once, for the next use; everybody who waited learns what it
//!          knew, and begins a new phase
//! ```
//!
//! A barrier of a number of threads is complete when so many have arrived, whether they wait or not, and a
//! warp counts as 32. A barrier of the whole block is complete when all warps that run wait at it.
//!
//! An `.aligned` instruction, and every `bar`, is executed by all lanes of a warp at once; `barrier.sync`
//! without it by lane after lane, at one instruction or at several.

use crate::check::FindingKind;
use crate::memory::TURN_BITS;
use crate::program::{BarrierResult, Instruction, Op, Slot};

use super::block_state::{BarrierState, BlockState, N_BARRIERS, N_NUMBERED, OF_CLUSTER};
use super::convergence;
use super::launch::Launch;
use super::warp::{Status, Warp, lanes_of};

/// Phases that times have room for, less those that begin within a warp's longest turn.
const MOST_PHASES_OF_A_BLOCK: u32 = (1 << (u32::BITS - TURN_BITS)) - (1 << 15);

/// The warp's lanes reach a barrier.
pub(super) fn arrive(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    instruction: &Instruction,
    mask: u32,
) {
    let aligned = is_aligned(&instruction.op);
    if aligned {
        convergence::check(warp, block, launch);
    } else if mask != warp.active {
        // Lanes whose guard does not hold go on.
        warp.suspend_at(mask);
        warp.active = mask;
    }
    if !warp.gather(warp.live) {
        return;
    }
    let lane = mask.trailing_zeros() as usize & 31;
    let Some((id, threads, waits)) = operands(warp, launch, &instruction.op, lane) else {
        return;
    };
    if mask != warp.active {
        let lanes = warp.active & !mask;
        block.report(warp, lane, FindingKind::DivergentAligned { lanes });
    }
    let is_other = |lane: &usize| {
        let own = operands(warp, launch, &instruction.op, *lane);
        own != Some((id, threads, waits))
    };
    if let Some(other) = lanes_of(mask).find(is_other) {
        block.report(warp, other, FindingKind::DivergentBarrier { barrier: id });
        block.is_stopped = true;
        return;
    }
    let is_cluster = instruction.op.is_cluster_wait();
    if !is_possible(warp, block, launch, (id, threads, is_cluster), lane) {
        return;
    }
    let votes = match instruction.op {
        Op::Barrier { condition, .. } => warp.condition(condition) & warp.live,
        _ => 0,
    };
    let arrival = Arrival {
        id,
        threads,
        waits,
        aligned,
        votes,
    };
    join(warp, block, launch, &arrival, (warp.pc, lane));
    if waits {
        warp.status = Status::AtBarrier(id as usize);
        return;
    }
    warp.time = block.next_phase(launch) << TURN_BITS;
    warp.advance();
}

/// A warp's arrival at a barrier.
struct Arrival {
    id: u32,
    threads: Option<u32>,
    waits: bool,
    aligned: bool,
    votes: u32,
}

/// Whether all lanes of a warp have to execute a barrier together.
fn is_aligned(op: &Op) -> bool {
    matches!(
        op,
        Op::Barrier { aligned: true, .. }
            | Op::Arrive { aligned: true, .. }
            | Op::ClusterWait { aligned: true }
    )
}

/// The barrier's number, its threads, and whether those who arrive wait, as a lane gives them.
fn operands(
    warp: &Warp,
    launch: &Launch<'_>,
    op: &Op,
    lane: usize,
) -> Option<(u32, Option<u32>, bool)> {
    let number = |row| warp.row_32(launch, row)[lane];
    Some(match *op {
        Op::Barrier { id, threads, .. } => {
            let threads = match threads {
                Slot::W32(row) => Some(number(row)),
                _ => None,
            };
            (number(id), threads, true)
        }
        Op::Arrive { id, threads, .. } => (number(id), Some(number(threads)), false),
        Op::ClusterWait { .. } => (OF_CLUSTER as u32, None, true),
        _ => return None,
    })
}

/// Whether there is such a barrier for so many threads; if not, the block ends.
fn is_possible(
    warp: &Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    (id, threads, is_cluster): (u32, Option<u32>, bool),
    lane: usize,
) -> bool {
    let is_wrong = |threads: u32| {
        threads == 0
            || !threads.is_multiple_of(32)
            || threads > launch.n_threads.next_multiple_of(32)
    };
    let is_numbered = is_cluster || (id as usize) < N_NUMBERED;
    if is_numbered && !threads.is_some_and(is_wrong) {
        return true;
    }
    let finding = FindingKind::BarrierOperands {
        barrier: id,
        threads: threads.unwrap_or(0),
    };
    block.report(warp, lane, finding);
    block.is_stopped = true;
    false
}

/// Lets a warp arrive whose lanes all wait at `barrier.sync`, each at its own; false if one of them
/// waits for something else, or at another barrier.
pub(super) fn arrive_one_by_one(
    warp: &mut Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
) -> bool {
    let own = warp.frame;
    let arrival = common_arrival(warp, launch);
    warp.frame = own;
    let Some(arrival) = arrival else {
        return false;
    };
    let lane = warp.parked.trailing_zeros() as usize & 31;
    let pc = warp.lane_pc[lane];
    if is_possible(
        warp,
        block,
        launch,
        (arrival.id, arrival.threads, false),
        lane,
    ) {
        join(warp, block, launch, &arrival, (pc, lane));
        warp.status = Status::AtBarrier(arrival.id as usize);
    }
    true
}

/// The arrival of lanes that wait at `barrier.sync` of one barrier, each at its own; the frame is that of one of them
/// afterwards.
fn common_arrival(warp: &mut Warp, launch: &Launch<'_>) -> Option<Arrival> {
    let mut arrival: Option<Arrival> = None;
    for lane in lanes_of(warp.parked & warp.live) {
        let op = launch.program.instructions[warp.lane_pc[lane] as usize].op;
        let Op::Barrier {
            aligned: false,
            condition,
            ..
        } = op
        else {
            return None;
        };
        warp.frame = *warp.frame_of(lane);
        let (id, threads, waits) = operands(warp, launch, &op, lane)?;
        let votes = warp.condition(condition) & 1 << lane;
        match &mut arrival {
            None => {
                arrival = Some(Arrival {
                    id,
                    threads,
                    waits,
                    aligned: false,
                    votes,
                });
            }
            Some(first) if (first.id, first.threads) == (id, threads) => first.votes |= votes,
            Some(_) => return None,
        }
    }
    arrival
}

/// Adds the warp to those who have arrived.
fn join(
    warp: &Warp,
    block: &mut BlockState,
    launch: &Launch<'_>,
    arrival: &Arrival,
    (pc, lane): (u32, usize),
) {
    let bit = 1u32 << warp.number;
    let Arrival {
        id,
        threads,
        waits,
        aligned,
        votes,
    } = *arrival;
    let barrier = &mut block.barriers[id as usize];
    let is_first = (barrier.waiting | barrier.arrived) == 0;
    if is_first {
        *barrier = BarrierState {
            threads,
            pc,
            ..BarrierState::NONE
        };
    }
    let finding = if (barrier.waiting | barrier.arrived) & bit != 0 {
        Some(FindingKind::SurplusArrival { barrier: id })
    } else if barrier.threads != threads {
        Some(FindingKind::BarrierOperands {
            barrier: id,
            threads: threads.unwrap_or(launch.n_threads),
        })
    } else if barrier.pc != pc && threads.is_none() && (aligned || barrier.aligned) {
        Some(FindingKind::DivergentBarrier { barrier: id })
    } else {
        None
    };
    barrier.aligned |= aligned;
    if waits {
        barrier.waiting |= bit;
    } else {
        barrier.arrived |= bit;
    }
    for (joined, seen) in barrier.joined.iter_mut().zip(&warp.seen) {
        *joined = (*joined).max(*seen);
    }
    let own = &mut barrier.joined[warp.number as usize];
    *own = (*own).max(warp.time >> TURN_BITS);
    barrier.count += votes.count_ones();
    barrier.all &= votes == warp.live;
    barrier.any |= votes != 0;
    let n_threads = 32 * (barrier.waiting | barrier.arrived).count_ones();
    let is_complete = barrier.threads.is_some_and(|threads| n_threads >= threads);
    let is_alone = is_complete && barrier.waiting == 0;
    if is_complete {
        let complete = std::mem::replace(barrier, BarrierState::NONE);
        block.complete.push(complete);
    }
    if let Some(finding) = finding {
        block.report_at(warp, pc, lane, finding);
    }
    if is_alone {
        let barrier = id;
        block.report_at(warp, pc, lane, FindingKind::ArrivalsAlone { barrier });
    }
}

/// Lets warps go on whose barriers are complete; whether there were any.
pub(super) fn release(warps: &mut [Warp], block: &mut BlockState, launch: &Launch<'_>) -> bool {
    let mut released = false;
    for barrier in std::mem::take(&mut block.complete) {
        released |= barrier.waiting != 0;
        complete(warps, block, launch, barrier);
    }
    let done = set_of(warps, |warp| warp.status == Status::Done);
    for id in 0..N_BARRIERS {
        let barrier = &mut block.barriers[id];
        let here = (barrier.waiting | barrier.arrived | done).count_ones() as usize;
        if barrier.waiting == 0 || barrier.threads.is_some() || here != warps.len() {
            continue;
        }
        let mut barrier = std::mem::replace(barrier, BarrierState::NONE);
        // Threads that have ended count as arrived.
        for warp in warps.iter().filter(|warp| warp.status == Status::Done) {
            let joined = &mut barrier.joined[warp.number as usize];
            *joined = (*joined).max(warp.time >> TURN_BITS);
        }
        complete(warps, block, launch, barrier);
        released = true;
    }
    released
}

/// Warps that a test holds for.
pub(super) fn set_of(warps: &[Warp], test: impl Fn(&Warp) -> bool) -> u32 {
    warps
        .iter()
        .filter(|warp| test(warp))
        .fold(0, |set, warp| set | 1 << warp.number)
}

/// Forgets who did what before, which only lets races pass, if there are few phases left.
pub(super) fn save_phases(warps: &mut [Warp], block: &mut BlockState, launch: &Launch<'_>) {
    if block.phase < MOST_PHASES_OF_A_BLOCK {
        return;
    }
    (block.phase, block.phase_base) = (1, 0);
    block.shared.forget_times();
    launch.races.shift_phases(block.number, u32::MAX);
    for barrier in block.barriers.iter_mut().chain(&mut block.complete) {
        barrier.joined = [0; 32];
    }
    for warp in warps {
        (warp.seen, warp.seen_of_all) = ([0; 32], 0);
        warp.time = 1 << TURN_BITS;
    }
}

fn complete(
    warps: &mut [Warp],
    block: &mut BlockState,
    launch: &Launch<'_>,
    barrier: BarrierState,
) {
    let phase = block.next_phase(launch);
    let n_warps = warps.len();
    for warp in warps.iter_mut() {
        if barrier.waiting >> warp.number & 1 == 0 {
            continue;
        }
        for (seen, joined) in warp.seen.iter_mut().zip(&barrier.joined) {
            *seen = (*seen).max(*joined);
        }
        let others = (0..n_warps).filter(|other| *other != warp.number as usize);
        warp.seen_of_all = others
            .map(|other| warp.seen[other])
            .min()
            .unwrap_or(phase - 1);
        warp.time = phase << TURN_BITS;
        warp.status = Status::Ready;
        if warp.active == 0 {
            // Its lanes came one by one, each by its own instruction.
            for lane in lanes_of(std::mem::take(&mut warp.parked) & warp.live) {
                warp.frame = *warp.frame_of(lane);
                write_result(warp, launch, &barrier, warp.lane_pc[lane], 1 << lane);
                warp.lane_pc[lane] += 1;
            }
            continue;
        }
        write_result(warp, launch, &barrier, warp.pc, warp.active);
        warp.advance();
    }
}

fn write_result(warp: &mut Warp, launch: &Launch<'_>, barrier: &BarrierState, pc: u32, mask: u32) {
    let Op::Barrier { result, .. } = launch.program.instructions[pc as usize].op else {
        return;
    };
    let bits = |holds: bool| if holds { u32::MAX } else { 0 };
    match result {
        BarrierResult::None => {}
        BarrierResult::Count(d) => warp.write_32(d, &[barrier.count; 32], mask),
        BarrierResult::And(p) => warp.write_predicate(p, bits(barrier.all), mask),
        BarrierResult::Or(p) => warp.write_predicate(p, bits(barrier.any), mask),
    }
}
