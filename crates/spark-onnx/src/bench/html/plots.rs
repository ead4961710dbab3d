//! The page's plots as SVG: rows of a label and marks along one axis.
//!
//! ```text
//! label |----o--o-----x---------|
//! label |      o--o-----x-------|
//!       +--+--------+--------+--+
//! ```

use std::fmt::Write as _;

use super::super::driving::{AHEAD_S, DrivingReport};
use super::super::report::RunReport;
use super::{colour, escape};

const WIDTH: f64 = 980.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 70.0;
const ROW: f64 = 24.0;
const INK: &str = "#26292e";
const GRID: &str = "#dfe3e8";
const MUTED: &str = "#7a828c";
/// Dots drawn of one run's samples.
const DOTS: usize = 400;

/// How values become positions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// One axis under rows of marks.
struct Plot {
    svg: String,
    scale: Scale,
    low: f64,
    high: f64,
    rows: usize,
}

impl Plot {
    /// A plot over what is finite in `values`.
    fn new(rows: usize, scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let usable = |v: &f64| v.is_finite() && (scale == Scale::Linear || *v > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(usable) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            Scale::Linear => {
                low = if low < 0.0 { low * 1.05 } else { 0.0 };
                high = if high > low { high * 1.05 } else { low + 1.0 };
            }
            Scale::Logarithmic => {
                low /= 1.15;
                high *= 1.15;
            }
        }
        let height = rows as f64 * ROW + 30.0;
        let svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui,sans-serif\" \
             font-size=\"12\" role=\"img\">"
        );
        let mut plot = Self {
            svg,
            scale,
            low,
            high,
            rows,
        };
        plot.axis();
        plot
    }

    fn x(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn ticks(&self) -> Vec<f64> {
        let steps = |step: f64| {
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step).floor() as i64;
            (first..=last.min(first + 40))
                .map(|i| i as f64 * step)
                .collect::<Vec<_>>()
        };
        let round = |span: f64| {
            let power = 10f64.powf((span / 6.0).log10().floor());
            let fits = |f: &f64| span / (f * power) <= 8.0;
            [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0) * power
        };
        if self.scale == Scale::Linear || self.high / self.low < 4.0 {
            return steps(round(self.high - self.low));
        }
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = match decades {
            d if d < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = powers.flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
        all.filter(|v| (self.low..=self.high).contains(v)).collect()
    }

    fn axis(&mut self) {
        let bottom = self.rows as f64 * ROW + 6.0;
        for tick in self.ticks() {
            let x = self.x(tick);
            let text = label(tick);
            let _ = write!(
                self.svg,
                "<line x1=\"{x:.1}\" y1=\"4\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{GRID}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{MUTED}\">{text}</text>",
                bottom + 15.0
            );
        }
    }

    fn name(&mut self, row: usize, text: &str) {
        let _ = write!(
            self.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{INK}\">{}</text>",
            LEFT - 10.0,
            middle(row) + 4.0,
            escape(text)
        );
    }

    fn dot(
        &mut self,
        row: usize,
        value: f64,
        shift: f64,
        (radius, opacity): (f64, f64),
        fill: &str,
    ) {
        if value.is_finite() {
            let _ = write!(
                self.svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{fill}\" opacity=\"{opacity}\"/>",
                self.x(value),
                middle(row) + shift
            );
        }
    }

    fn bar(&mut self, row: usize, (from, to): (f64, f64), height: f64, fill: &str, opacity: f64) {
        let (a, b) = (self.x(from), self.x(to));
        let _ = write!(
            self.svg,
            "<rect x=\"{a:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height}\" rx=\"2\" fill=\"{fill}\" \
             opacity=\"{opacity}\"/>",
            middle(row) - height / 2.0,
            (b - a).max(1.0)
        );
    }

    fn stroke(&mut self, row: usize, value: f64, colour: &str) {
        let x = self.x(value);
        let _ = write!(
            self.svg,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"2.5\"/>",
            middle(row) - 9.0,
            middle(row) + 9.0
        );
    }

    fn beside(&mut self, row: usize, value: f64, text: &str) {
        let _ = write!(
            self.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{MUTED}\">{text}</text>",
            self.x(value) + 8.0,
            middle(row) + 4.0
        );
    }

    fn done(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

fn middle(row: usize) -> f64 {
    (row as f64 + 0.5) * ROW + 4.0
}

fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if !(0.001..1e5).contains(&v) => format!("{value:.0e}"),
        v if v < 10.0 => format!("{}", (value * 1e3).round() / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// A row per precision: all samples, p5 to p95, the median.
pub(super) fn latency(runs: &[&RunReport]) -> String {
    let all = runs.iter().flat_map(|run| run.samples_ms.iter().copied());
    let mut plot = Plot::new(runs.len(), Scale::Logarithmic, all);
    for (row, run) in runs.iter().enumerate() {
        let fill = colour(run.precision);
        plot.name(row, run.precision);
        let mut sorted = run.samples_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted.get((part * (sorted.len() as f64 - 1.0)).round() as usize);
        if let (Some(&low), Some(&high)) = (at(0.05), at(0.95)) {
            plot.bar(row, (low, high), 14.0, fill, 0.25);
        }
        let every = run.samples_ms.len().div_ceil(DOTS).max(1);
        for (i, &sample) in run.samples_ms.iter().enumerate().step_by(every) {
            // Spread over the row in a fixed pattern, so that dots do not hide each other.
            let shift = ((i * 7) % 13) as f64 - 6.0;
            plot.dot(row, sample, shift, (1.8, 0.55), fill);
        }
        plot.stroke(row, run.latency.p50_ms, fill);
    }
    plot.done()
}

/// A row per model and precision.
pub(super) fn weights(models: &[(&str, Vec<&RunReport>)]) -> String {
    let rows: Vec<(&str, &RunReport)> = models
        .iter()
        .flat_map(|(model, runs)| {
            runs.iter()
                .enumerate()
                .map(move |(i, run)| (if i == 0 { *model } else { "" }, *run))
        })
        .collect();
    let megabytes = |run: &RunReport| run.memory.weight_bytes as f64 / 1e6;
    let mut plot = Plot::new(
        rows.len(),
        Scale::Linear,
        rows.iter().map(|(_, run)| megabytes(run)),
    );
    for (row, (model, run)) in rows.iter().enumerate() {
        plot.name(row, model);
        let size = megabytes(run);
        plot.bar(row, (0.0, size), 14.0, colour(run.precision), 0.9);
        plot.beside(row, size, &format!("{size:.1} {}", run.precision));
    }
    plot.done()
}

/// A row per slice, a dot per precision.
pub(super) fn slices(runs: &[&RunReport]) -> String {
    let Some(first) = runs.iter().find(|run| !run.slices.is_empty()) else {
        return String::new();
    };
    let all = runs
        .iter()
        .flat_map(|run| run.slices.iter().map(|s| s.accuracy.sqnr_db));
    let mut plot = Plot::new(first.slices.len(), Scale::Linear, all);
    for (row, slice) in first.slices.iter().enumerate() {
        plot.name(row, &slice.name);
        for run in runs {
            if let Some(slice) = run.slices.get(row) {
                plot.dot(
                    row,
                    slice.accuracy.sqnr_db,
                    0.0,
                    (5.0, 0.9),
                    colour(run.precision),
                );
            }
        }
    }
    plot.done()
}

/// A row per time ahead, a dot per precision.
pub(super) fn plan(driving: &[DrivingReport]) -> String {
    let all = driving
        .iter()
        .flat_map(|run| run.plan_m.iter().map(|d| d.mean));
    let mut plot = Plot::new(AHEAD_S.len(), Scale::Logarithmic, all);
    for (row, t) in AHEAD_S.iter().enumerate() {
        plot.name(row, &format!("{t} s ahead"));
        for run in driving.iter().filter(|run| run.plan_m[row].mean > 0.0) {
            plot.dot(
                row,
                run.plan_m[row].mean,
                0.0,
                (5.0, 0.9),
                colour(run.precision),
            );
        }
    }
    plot.done()
}
