//! Where the time of a run goes, layer by layer, against what the machine can do.
//!
//! ```text
//! profile of driving_vision in fp32, 21.6 ms in 171 steps; at most 187 GFLOP/s in f32 and 11.8 GB/s here
//!      us  share  GFLOP/s   peak    GB/s   peak  layer      kind
//!   812.4   3.8%    165.2    88%     1.2    10%  s2.b1.fc1  linear  2048x128 -> 2048x384, ...
//! ```
//!
//! Operations are two per multiply-accumulate; bytes are operands, results and
//! weights, each once, wherever they were. A step between two that share a cache can therefore
//! pass the peak of memory, and one on 16 bits or integers that of arithmetic, which is f32's.

use crate::layers::is_interpreted;
use crate::report::{BenchReport, LayerReport, PeaksReport, RunReport};

/// Layers listed; the JSON report has all.
const LISTED: usize = 30;

/// Lines for every run that was profiled.
pub(crate) fn rendered(report: &BenchReport) -> Vec<String> {
    let Some(peaks) = &report.peaks else {
        return Vec::new();
    };
    report.runs.iter().flat_map(|run| one(run, peaks)).collect()
}

fn one(run: &RunReport, peaks: &PeaksReport) -> Vec<String> {
    let mut timed: Vec<(&LayerReport, f64)> = run
        .layers
        .iter()
        .filter_map(|layer| Some((layer, layer.mean_us?)))
        .collect();
    if timed.is_empty() {
        return Vec::new();
    }
    let total: f64 = timed.iter().map(|(_, us)| us).sum();
    timed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut lines = vec![
        format!(
            "profile of {} in {}, {:.2} ms in {} steps; at most {:.0} GFLOP/s in f32 and {:.1} GB/s here",
            run.model,
            run.precision,
            total / 1e3,
            timed.len(),
            peaks.gflops,
            peaks.gigabytes_per_s
        ),
        "       us  share  GFLOP/s   peak     GB/s   peak  layer".to_owned(),
    ];
    for &(layer, us) in timed.iter().take(LISTED) {
        let gflops = 2.0 * layer.macs as f64 / us / 1e3;
        let gigabytes = layer.bytes as f64 / us / 1e3;
        lines.push(format!(
            "{us:9.1} {:5.1}% {gflops:8.1} {:5.0}% {gigabytes:8.1} {:5.0}%  {}  {}  {}",
            100.0 * us / total,
            100.0 * gflops / peaks.gflops,
            100.0 * gigabytes / peaks.gigabytes_per_s,
            layer.name,
            layer.kind,
            layer.detail
        ));
    }
    if timed.len() > LISTED {
        let rest: f64 = timed[LISTED..].iter().map(|(_, us)| us).sum();
        lines.push(format!(
            "{rest:9.1} {:5.1}%  in {} more steps",
            100.0 * rest / total,
            timed.len() - LISTED
        ));
    }
    let mut interpreted = timed.iter().filter(|(layer, _)| is_interpreted(layer));
    if let Some((first, us)) = interpreted.next() {
        let (n, us) = interpreted.fold((1, *us), |(n, sum), (_, us)| (n + 1, sum + us));
        let share = 100.0 * us / total;
        lines.push(format!(
            "{us:9.1} {share:5.1}%  in {n} operators that are interpreted, `{}` the slowest",
            first.name
        ));
    }
    lines
}
