//! Runs one block: its warps take turns in an order that the seed says.

use std::sync::atomic::Ordering;

use crate::check::{FindingKind, Sink};
use crate::memory::{SHARED_BASE, Shared, TURN_BITS};
use crate::program::{
    DYNAMIC_SHARED, DYNAMIC_SHARED_64, GRID_ID_64, N_ROWS_32, N_ROWS_64, row_number,
};

use super::barriers::{release, save_phases, set_of};
use super::block_state::{BarrierState, BlockState, N_BARRIERS};
use super::launch::Launch;
use super::random::Random;
use super::step;
use super::warp::{Status, Warp, lanes_of};

/// Lengths of turns in instructions: short ones mix warps, long ones keep registers in the cache.
const TURNS: [u64; 4] = [48, 400, 3000, 20_000];

/// Instructions of a block, and what was found in it.
pub(super) fn run(launch: &Launch<'_>, number: u64, shared: &mut Shared, sink: &mut Sink) -> u64 {
    let size = (launch.shared_end - SHARED_BASE) as usize;
    shared.reset(size, launch.entry.shared_grain);
    let mut block = BlockState {
        number,
        shared: std::mem::take(shared),
        barriers: [const { BarrierState::NONE }; N_BARRIERS],
        complete: Vec::new(),
        phase: 1,
        phase_base: 0,
        sink: std::mem::take(sink),
        has_learned: false,
        is_stopped: false,
    };
    let n_warps = launch.n_threads.div_ceil(32);
    let mut warps: Vec<Warp> = (0..n_warps)
        .map(|warp| {
            let mut warp = Warp::new(launch, warp);
            warp.time = 1 << TURN_BITS;
            set_special(launch, &mut warp, number);
            warp
        })
        .collect();
    let mut random = Random::new(launch.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    while !block.is_stopped && !launch.stopped.load(Ordering::Relaxed) {
        let ready = set_of(&warps, |warp| warp.status == Status::Ready);
        if ready == 0 {
            if release(&mut warps, &mut block, launch) {
                continue;
            }
            report_deadlock(&warps, &mut block);
            break;
        }
        let chosen = nth_set(ready, random.below(ready.count_ones()));
        let turns = TURNS[random.below(TURNS.len() as u32) as usize];
        let warp = &mut warps[chosen];
        let before = warp.n_instructions;
        step::run(warp, &mut block, launch, turns);
        let spent = warp.n_instructions - before;
        spend(launch, &mut block, &mut warps, (chosen, spent));
        let status = warps[chosen].status;
        if status != Status::Ready || !block.complete.is_empty() {
            release(&mut warps, &mut block, launch);
        }
        save_phases(&mut warps, &mut block, launch);
    }
    *shared = block.shared;
    *sink = block.sink;
    warps.iter().map(|warp| warp.n_instructions).sum()
}

/// Takes what was run from the budget; a kernel that has none left hangs.
fn spend(
    launch: &Launch<'_>,
    block: &mut BlockState,
    warps: &mut [Warp],
    (chosen, spent): (usize, u64),
) {
    let left = launch.budget.load(Ordering::Relaxed);
    if spent <= left {
        launch.budget.fetch_sub(spent, Ordering::Relaxed);
        return;
    }
    if !launch.stopped.swap(true, Ordering::Relaxed) {
        let at_barriers = set_of(warps, |warp| matches!(warp.status, Status::AtBarrier(_)));
        let warp = &mut warps[chosen];
        if warp.active == 0 {
            // Between two groups of lanes: the next is as good as the last.
            warp.pick();
        }
        let waiting = warp.live & !warp.active;
        let line_of = |lane: usize| launch.program.origins[warp.lane_pc[lane] as usize].line;
        let finding = FindingKind::Budget {
            limit: launch.budget_limit,
            running: warp.active,
            waiting,
            waiting_line: lanes_of(waiting).next().map_or(0, line_of),
            at_barriers,
        };
        let lane = warp.active.trailing_zeros() as usize & 31;
        block.report(warp, lane, finding);
    }
    block.is_stopped = true;
}

fn report_deadlock(warps: &[Warp], block: &mut BlockState) {
    let done = set_of(warps, |warp| warp.status == Status::Done);
    let waiting = set_of(warps, |warp| warp.status != Status::Done);
    let Some(first) = warps.iter().find(|warp| warp.status != Status::Done) else {
        return;
    };
    block.report(first, 0, FindingKind::Deadlock { waiting, done });
}

fn nth_set(mut set: u32, n: u32) -> usize {
    for _ in 0..n {
        set &= set - 1;
    }
    set.trailing_zeros() as usize & 31
}

/// `%tid`, `%ctaid` and their like.
fn set_special(launch: &Launch<'_>, warp: &mut Warp, number: u64) {
    let mut rows = vec![[0u32; 32]; N_ROWS_32];
    let mut set = |name: &str, f: &dyn Fn(u32) -> u32| {
        rows[row_number(name)] = std::array::from_fn(|lane| f(lane as u32));
    };
    let [x, y, _] = launch.block;
    let first = 32 * warp.number;
    set("%tid.x", &|lane| (first + lane) % x);
    set("%tid.y", &|lane| (first + lane) / x % y);
    set("%tid.z", &|lane| (first + lane) / x / y);
    let (grid_x, grid_y) = (u64::from(launch.grid[0]), u64::from(launch.grid[1]));
    let index = [
        (number % grid_x) as u32,
        (number / grid_x % grid_y) as u32,
        (number / grid_x / grid_y) as u32,
    ];
    for (axis, name) in ["x", "y", "z"].iter().enumerate() {
        set(&format!("%ntid.{name}"), &|_| launch.block[axis]);
        set(&format!("%ctaid.{name}"), &|_| index[axis]);
        set(&format!("%nctaid.{name}"), &|_| launch.grid[axis]);
        // Every block is a cluster of its own.
        set(&format!("%clusterid.{name}"), &|_| index[axis]);
        set(&format!("%nclusterid.{name}"), &|_| launch.grid[axis]);
        set(&format!("%cluster_nctaid.{name}"), &|_| 1);
    }
    let n_processors = launch.limits.n_multiprocessors;
    set("%laneid", &|lane| lane);
    set("%warpid", &|_| warp.number);
    set("%nwarpid", &|_| 48);
    set("%smid", &|_| (number % u64::from(n_processors)) as u32);
    set("%nsmid", &|_| n_processors);
    set("%gridid", &|_| 1);
    set("%lanemask_eq", &|lane| 1 << lane);
    set("%lanemask_le", &|lane| u32::MAX >> (31 - lane));
    set("%lanemask_lt", &|lane| (1 << lane) - 1);
    set("%lanemask_ge", &|lane| u32::MAX << lane);
    set("%lanemask_gt", &|lane| u32::MAX << lane << 1);
    set("%cluster_nctarank", &|_| 1);
    set("%dynamic_smem_size", &|_| launch.dynamic_shared_bytes);
    set("%total_smem_size", &|_| launch.shared_end);
    set("%aggr_smem_size", &|_| launch.shared_end);
    let dynamic = launch.entry.dynamic_shared_offset;
    rows[DYNAMIC_SHARED as usize] = [dynamic; 32];
    warp.special_32 = rows;
    warp.special_64 = vec![[0; 32]; N_ROWS_64];
    warp.special_64[DYNAMIC_SHARED_64 as usize] = [dynamic.into(); 32];
    warp.special_64[GRID_ID_64 as usize] = [1; 32];
}
