//! Conversions, block quantizers and packed GEMM: answers first, then speed.
//!
//! ```text
//! case,unit,runs,min,median,max,gb_per_s,memory_fraction,wall_median
//! ```
//!
//! Run: `cargo bench -p spark-quant --bench quant [-- [--quick] [FILTER]]`. Without `--bench`, as
//! `cargo test` starts it, it only checks answers.
//!
//! Rates count f32 values (weights for GEMM). There are three sizes: 96 Mi values, 384 MiB, which
//! no cache holds; names with `16mi`, 64 MiB, far beyond an L2 cache but within the last one
//! of large processors; names with `cache`, 128 Ki values or 1 Mi weights. The clock covers the call and
//! nothing else: inputs and outputs are allocated and touched before, and cases in caches make one call
//! before the clock starts. Cases take turns, so that a slow moment of a shared machine hits them all.
//! `gb_per_s` counts every byte that has to cross the memory bus once (the NVFP4 quantizer has to read
//! its input twice); `memory_fraction` is the time those bytes would take at the read and write speeds
//! measured at that size in the same turns, over the time taken; medians.
//!
//! One-thread figures are per second of processor time, as other programs on a shared machine would
//! otherwise be measured instead; `wall_median` is the rate by the clock on the wall. Figures of
//! several threads are by the wall.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(
    unsafe_code,
    reason = "the measured memory speed needs stores past the caches; the thread's own clock is libc's"
)]

mod cases;
mod memory;

use std::time::Instant;

use cases::{Case, Place};

/// Values of the large cases.
const N_LARGE: usize = 96 << 20;
/// Values when only answers are checked.
const N_CHECK: usize = 1 << 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filter = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let timed = has("--bench");
    let mut cases = cases::all(if timed { N_LARGE } else { N_CHECK });
    cases.retain(|case| {
        case.is_reference || filter.is_none_or(|filter| case.name.contains(filter.as_str()))
    });
    println!("checking {} cases", cases.len());
    for case in &mut cases {
        (case.check)();
    }
    if timed {
        time(&mut cases, if has("--quick") { 3 } else { 11 });
    }
}

/// Seconds of one run.
struct Run {
    /// What the rates come from.
    counted: f64,
    wall: f64,
}

/// Processor time of this thread in seconds; nothing where the system does not tell.
fn thread_seconds() -> Option<f64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a whole `timespec` that the call may write to.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (status == 0).then_some(time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64)
}

fn run(case: &mut Case) -> Run {
    if case.place != Place::Memory {
        (case.work)();
    }
    let (clock, policy) = (Instant::now(), thread_seconds());
    for _ in 0..case.repeats {
        (case.work)();
    }
    let wall = clock.elapsed().as_secs_f64();
    let processor = policy
        .zip(thread_seconds())
        .map(|(before, after)| after - before);
    let counted = processor
        .filter(|&seconds| case.name.ends_with("/1t") && seconds > 0.0)
        .unwrap_or(wall);
    let per_call = |seconds: f64| seconds / case.repeats as f64;
    Run {
        counted: per_call(counted),
        wall: per_call(wall),
    }
}

/// Times every case, runs of all cases interleaved, and prints the table.
fn time(cases: &mut [Case], n_runs: usize) {
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for turn in 0..=n_runs {
        for (case, runs) in cases.iter_mut().zip(&mut runs) {
            let timed = run(case);
            // The first turn only warms up.
            if turn > 0 {
                runs.push(timed);
            }
        }
    }
    let sorted = |index: usize, which: fn(&Run) -> f64| {
        let mut seconds: Vec<f64> = runs[index].iter().map(which).collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    };
    let per_byte = |name: &str| {
        let index = cases
            .iter()
            .position(|case| case.name == name)
            .expect("reference cases always run");
        sorted(index, |run| run.counted)[n_runs / 2] / cases[index].n_bytes()
    };
    let memory = [per_byte("memory_read/1t"), per_byte("memory_write/1t")];
    let last_level = [
        per_byte("memory_read_16mi/1t"),
        per_byte("memory_write_16mi/1t"),
    ];
    println!("case,unit,runs,min,median,max,gb_per_s,memory_fraction,wall_median");
    for (index, case) in cases.iter().enumerate() {
        let seconds = sorted(index, |run| run.counted);
        let middle = seconds[n_runs / 2];
        let rate = |seconds: f64| case.n_units as f64 / seconds / 1e9;
        let [min, median, max] = [seconds[n_runs - 1], middle, seconds[0]].map(rate);
        let wall = rate(sorted(index, |run| run.wall)[n_runs / 2]);
        let gb_per_s = case.n_bytes() / middle / 1e9;
        let fraction_of = |[read, write]: [f64; 2]| {
            let at_memory_speed = case.bytes_read * read + case.bytes_written * write;
            format!("{:.2}", at_memory_speed / middle)
        };
        let fraction = match case.place {
            Place::Memory => fraction_of(memory),
            Place::LastLevel => fraction_of(last_level),
            Place::Cache => "n/a".to_owned(),
        };
        let (name, unit) = (&case.name, case.unit);
        println!(
            "{name},{unit},{n_runs},{min:.3},{median:.3},{max:.3},{gb_per_s:.1},{fraction},{wall:.3}"
        );
    }
}
