//! Adapted layers: a training pass and inference, beside LoRA, the bare layer and candle's own.
//!
//! ```text
//! dora/<layer>/{dora,lora}   forward and backward for a given output gradient; A and B change every
//!                            fourth pass, as when gradients are accumulated over four micro-batches
//! dora/<layer>/base          the same for the frozen layer alone, by this workspace's kernels
//! dora/<layer>/candle        the same for candle's module
//! dora/<layer>/{dora,lora}_eval   forward only, nothing changes
//! dora/<layer>/dora{,_eval}_threads   on as many threads as the process may use; all others use one
//! ```
//!
//! Kinds take turns, one round of four passes each after one that is not timed, so that a clock or a
//! neighbour that changes changes all of them. `to_lora` is the median over rounds of a round's time over that of LoRA's in the same turn.
//!
//! Run: `cargo bench -p spark-dora --bench dora -- [--seconds S] [FILTER]`; under `cargo test` each answer is
//! checked and each case runs once. `--serve` answers lines `<layer> <kind> <rounds>` with a time in ms per
//! round, for `benches/rivals/peft`, whose layers these are. Run with `RAYON_NUM_THREADS=1` to compare one
//! thread with one thread.

#![allow(clippy::print_stdout, reason = "a program whose result is its output")]

mod cases;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cases::{CASES, KINDS, Made};
use spark_testing::Measuring;

/// Counts memory, so that peaks can be shown beside times.
#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut time = Duration::from_secs(4);
    let (mut filter, mut serving, mut timing) = (String::new(), false, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => timing = true,
            "--serve" => serving = true,
            "--seconds" => {
                let given = arguments.next().and_then(|s| s.parse().ok());
                let Some(Ok(given)) = given.map(Duration::try_from_secs_f64) else {
                    println!("--seconds takes a number from 0 on");
                    return ExitCode::from(2);
                };
                time = given;
            }
            other if !other.starts_with('-') => filter = other.to_owned(),
            _ => {} // Options of cargo's own test harness.
        }
    }
    if serving {
        serve();
        return ExitCode::SUCCESS;
    }
    if !timing {
        time = Duration::ZERO;
    }
    println!("case,unit,runs,min,median,max,p10,p90,to_lora,peak_kib");
    for case in CASES {
        if format!("dora/{}/", case.name()).contains(&filter) {
            let made = case.make().expect("layers of the list");
            report(&made, time);
        }
    }
    ExitCode::SUCCESS
}

/// Times all kinds in turns and prints them.
fn report(made: &Made, time: Duration) {
    let peaks = made.peaks();
    let mut times = [const { Vec::new() }; KINDS.len()];
    let start = Instant::now();
    let mut turn = |index: usize| times[index].push(1e3 * made.round(KINDS[index]).as_secs_f64());
    let mut turns = 0;
    while turns < 2 && !time.is_zero() || start.elapsed() < time || turns == 0 {
        // Forwards and backwards, so that no kind always follows the same one.
        match turns % 2 {
            0 => (0..KINDS.len()).for_each(&mut turn),
            _ => (0..KINDS.len()).rev().for_each(&mut turn),
        }
        turns += 1;
    }
    let [_, lora, _, _, _, lora_eval, ..] = times.clone();
    for (index, (kind, times)) in KINDS.iter().zip(&mut times).enumerate() {
        let lora = if kind.contains("eval") {
            &lora_eval
        } else {
            &lora
        };
        let ratios = times.iter().zip(lora).map(|(t, lora)| t / lora);
        let to_lora = quantile(&mut ratios.collect::<Vec<f64>>(), 0.5);
        let peak = peaks
            .get(index)
            .map(|bytes| bytes.div_ceil(1024).to_string());
        println!(
            "dora/{}/{kind},ms,{},{:.3},{:.3},{:.3},{:.3},{:.3},{to_lora:.3},{}",
            made.name,
            times.len(),
            quantile(times, 0.0),
            quantile(times, 0.5),
            quantile(times, 1.0),
            quantile(times, 0.1),
            quantile(times, 0.9),
            peak.unwrap_or_default(),
        );
    }
}

/// The value below which this part of `values` lies; sorts them.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(part * (values.len() - 1) as f64).round() as usize]
}

/// Answers requests until there are no more.
fn serve() {
    let mut made: Option<Made> = None;
    for line in std::io::stdin().lines() {
        let Ok(line) = line else {
            println!("expected: text");
            return;
        };
        let mut words = line.split_whitespace();
        let (Some(name), Some(kind), Some(Ok(rounds))) = (
            words.next(),
            words.next(),
            words.next().map(str::parse::<usize>),
        ) else {
            println!("expected: layer kind rounds");
            continue;
        };
        if made.as_ref().is_none_or(|made| made.name != name) {
            let case = CASES.iter().find(|case| case.name() == name);
            made = case.map(|case| case.make().expect("layers of the list"));
        }
        let Some(made) = made.as_ref().filter(|_| KINDS.contains(&kind)) else {
            println!("no such case");
            continue;
        };
        let times = (0..rounds).map(|_| format!("{:.5}", 1e3 * made.round(kind).as_secs_f64()));
        println!("{}", times.collect::<Vec<_>>().join(" "));
    }
}
