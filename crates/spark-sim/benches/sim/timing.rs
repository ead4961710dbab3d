//! Repetition, statistics and printing.

use std::time::Instant;

const N_RUNS: usize = 21;
const SHORTEST_RUN_S: f64 = 0.05;

/// What to run, and whether to time it.
pub(crate) struct Timing {
    filter: Option<String>,
    timed: bool,
}

impl Timing {
    /// `cargo bench` passes `--bench`; `cargo test` does not. The first plain word is a filter.
    pub(crate) fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let timed = arguments.iter().any(|a| a == "--bench");
        if timed {
            println!("case,unit,runs,min,median,max,median_cpu");
        }
        Self {
            filter: arguments.into_iter().find(|a| !a.starts_with('-')),
            timed,
        }
    }

    /// Whether a case of this name is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|f| name.contains(f.as_str()))
    }

    /// Times two ways of doing the same in turns, and prints how many times as fast the first
    /// is. Each does its number of units per call.
    pub(crate) fn compare<'a>(
        &self,
        name: &str,
        fast: (f64, &'a mut dyn FnMut()),
        slow: (f64, &'a mut dyn FnMut()),
    ) {
        let mut ways = [fast, slow];
        let mut n_calls = [1.0, 1.0];
        for ((_, work), n) in ways.iter_mut().zip(&mut n_calls) {
            work();
            let start = Instant::now();
            work();
            *n = (SHORTEST_RUN_S / start.elapsed().as_secs_f64()).ceil();
        }
        if !self.timed {
            return;
        }
        let mut ratios: Vec<[f64; 2]> = (0..N_RUNS)
            .map(|_| {
                let seconds = [0, 1].map(|i| {
                    let (n_units, work) = &mut ways[i];
                    let (start, cpu_start) = (Instant::now(), thread_cpu_s());
                    for _ in 0..n_calls[i] as usize {
                        work();
                    }
                    let wall = start.elapsed().as_secs_f64();
                    let cpu = cpu_start.zip(thread_cpu_s());
                    let cpu = cpu.map_or(f64::NAN, |(start, end)| end - start);
                    [wall, cpu].map(|s| s / (*n_units * n_calls[i]))
                });
                [0, 1].map(|clock| seconds[1][clock] / seconds[0][clock])
            })
            .collect();
        let mut sorted = |clock: usize| {
            ratios.sort_by(|a, b| a[clock].total_cmp(&b[clock]));
            [0, N_RUNS / 2, N_RUNS - 1].map(|i| ratios[i][clock])
        };
        let ([min, median, max], [_, cpu, _]) = (sorted(0), sorted(1));
        println!("{name},times,{N_RUNS},{min:.2},{median:.2},{max:.2},{cpu:.2}");
    }

    /// Times `work`, which does `n_units` units per call, and prints units per second.
    pub(crate) fn measure(&self, name: &str, unit: &str, n_units: f64, mut work: impl FnMut()) {
        if !self.timed {
            work();
            return;
        }
        work();
        let once = {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        let n_calls = (SHORTEST_RUN_S / once.max(1e-9)).ceil().max(1.0) as usize;
        let n_done = n_units * n_calls as f64;
        let (mut rates, mut cpu_rates) = (Vec::new(), Vec::new());
        for _ in 0..N_RUNS {
            let (start, cpu_start) = (Instant::now(), thread_cpu_s());
            for _ in 0..n_calls {
                work();
            }
            rates.push(n_done / start.elapsed().as_secs_f64());
            if let (Some(start), Some(end)) = (cpu_start, thread_cpu_s()) {
                cpu_rates.push(n_done / (end - start));
            }
        }
        rates.sort_by(f64::total_cmp);
        cpu_rates.sort_by(f64::total_cmp);
        let (min, median, max) = (rates[0], rates[N_RUNS / 2], rates[N_RUNS - 1]);
        let cpu = cpu_rates
            .get(N_RUNS / 2)
            .map_or_else(|| "n/a".to_owned(), |rate| format!("{rate:.4e}"));
        println!("{name},{unit},{N_RUNS},{min:.4e},{median:.4e},{max:.4e},{cpu}");
    }
}

/// Processor time of this thread, s, to a scheduler tick; Linux only.
fn thread_cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns * 1e-9)
}
