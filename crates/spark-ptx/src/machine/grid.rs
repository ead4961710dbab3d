//! Runs all blocks of a launch over threads, in an order that the seed says.
//!
//! ```text
//! order    n -> (n * step + start) mod blocks      step coprime to the number of blocks
//! threads  each takes the next n until none is left
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::Sink;
use crate::memory::Shared;

use super::block;
use super::launch::Launch;
use super::random::Random;

/// Instructions of warps that were run, and what was found.
pub(crate) fn run(launch: &Launch<'_>, n_threads: usize) -> (u64, Sink) {
    let n_blocks = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    let (start, step) = order(launch.seed, n_blocks);
    let next = AtomicU64::new(0);
    let work = || {
        let mut shared = Shared::default();
        let mut sink = Sink::default();
        let mut instructions = 0;
        while !launch.stopped.load(Ordering::Relaxed) {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= n_blocks {
                break;
            }
            let number =
                (u128::from(turn) * u128::from(step) + u128::from(start)) % u128::from(n_blocks);
            instructions += block::run(launch, number as u64, &mut shared, &mut sink);
        }
        (instructions, sink)
    };
    let n_threads = n_threads.clamp(1, 256).min(n_blocks.min(256) as usize);
    if n_threads == 1 {
        return work();
    }
    let mut total = (0, Sink::default());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok((instructions, sink)) => {
                    total.0 += instructions;
                    total.1.join(sink);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total
}

fn order(seed: u64, n_blocks: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let limit = n_blocks.min(u64::from(u32::MAX)) as u32;
    let start = u64::from(random.below(limit));
    loop {
        let step = u64::from(random.below(limit)) | 1;
        if gcd(step, n_blocks) == 1 {
            return (start, step);
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
