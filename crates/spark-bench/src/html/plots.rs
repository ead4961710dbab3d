//! The page's plots: rows of a label and marks along one axis.

use spark_drawing::colour::MUTED;
use spark_drawing::{Fill, Rows, Scale, Svg};

use super::colours::colour;
use crate::driving::{AHEAD_S, DrivingReport};
use crate::report::RunReport;

const WIDTH: f64 = 980.0;
/// First and last pixel of the axis.
const AXIS: [f64; 2] = [190.0, WIDTH - 110.0];
/// Pixel at which the rows begin.
const TOP: f64 = 4.0;
/// Dots drawn of one run's samples.
const DOTS: usize = 400;

fn empty(n_rows: usize) -> Svg {
    Svg::new(WIDTH, TOP + Rows::height(n_rows))
}

/// A row per precision: all samples, p5 to p95, the median.
pub(super) fn latency(runs: &[&RunReport]) -> Svg {
    let mut svg = empty(runs.len());
    let all = runs.iter().flat_map(|run| run.samples_ms.iter().copied());
    let mut rows = Rows::new(&mut svg, Scale::logarithmic(all, AXIS), TOP, runs.len());
    for (row, run) in runs.iter().enumerate() {
        let colour = colour(run.precision);
        rows.name(row, run.precision);
        let mut sorted = run.samples_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted.get((part * (sorted.len() as f64 - 1.0)).round() as usize);
        if let (Some(&low), Some(&high)) = (at(0.05), at(0.95)) {
            rows.bar(row, [low, high], 14.0, Fill::faded(colour, 0.25));
        }
        let every = run.samples_ms.len().div_ceil(DOTS).max(1);
        for (i, &sample) in run.samples_ms.iter().enumerate().step_by(every) {
            // Spread over the row in a fixed pattern, so that dots do not hide each other.
            let shift = ((i * 7) % 13) as f64 - 6.0;
            rows.dot(row, sample, shift, 1.8, Fill::faded(colour, 0.55));
        }
        rows.median(row, run.latency.p50_ms, colour);
    }
    svg
}

/// A row per model and precision.
pub(super) fn weights(models: &[(&str, Vec<&RunReport>)]) -> Svg {
    let runs: Vec<(&str, &RunReport)> = models
        .iter()
        .flat_map(|(model, runs)| {
            runs.iter()
                .enumerate()
                .map(move |(i, run)| (if i == 0 { *model } else { "" }, *run))
        })
        .collect();
    let megabytes = |run: &RunReport| run.memory.weight_bytes as f64 / 1e6;
    let mut svg = empty(runs.len());
    let scale = Scale::from_zero(runs.iter().map(|(_, run)| megabytes(run)), AXIS);
    let mut rows = Rows::new(&mut svg, scale, TOP, runs.len());
    for (row, (model, run)) in runs.iter().enumerate() {
        rows.name(row, model);
        let size = megabytes(run);
        let fill = Fill::faded(colour(run.precision), 0.9);
        rows.bar(row, [0.0, size], 14.0, fill);
        rows.beside(row, &[size], MUTED, &format!("{size:.1} {}", run.precision));
    }
    svg
}

/// A row per slice, a dot per precision; nothing if no run has slices.
pub(super) fn slices(runs: &[&RunReport]) -> Option<Svg> {
    let first = runs.iter().find(|run| !run.slices.is_empty())?;
    let mut svg = empty(first.slices.len());
    let all = runs
        .iter()
        .flat_map(|run| run.slices.iter().map(|s| s.accuracy.sqnr_db));
    let scale = Scale::from_zero(all, AXIS);
    let mut rows = Rows::new(&mut svg, scale, TOP, first.slices.len());
    for (row, slice) in first.slices.iter().enumerate() {
        rows.name(row, &slice.name);
        for run in runs {
            if let Some(slice) = run.slices.get(row) {
                let fill = Fill::faded(colour(run.precision), 0.9);
                rows.dot(row, slice.accuracy.sqnr_db, 0.0, 5.0, fill);
            }
        }
    }
    Some(svg)
}

/// A row per time ahead, a dot per precision.
pub(super) fn plan(driving: &[DrivingReport]) -> Svg {
    let mut svg = empty(AHEAD_S.len());
    let all = driving
        .iter()
        .flat_map(|run| run.plan_m.iter().map(|d| d.mean));
    let scale = Scale::logarithmic(all, AXIS);
    let mut rows = Rows::new(&mut svg, scale, TOP, AHEAD_S.len());
    for (row, t) in AHEAD_S.iter().enumerate() {
        rows.name(row, &format!("{t} s ahead"));
        for run in driving.iter().filter(|run| run.plan_m[row].mean > 0.0) {
            let fill = Fill::faded(colour(run.precision), 0.9);
            rows.dot(row, run.plan_m[row].mean, 0.0, 5.0, fill);
        }
    }
    svg
}
