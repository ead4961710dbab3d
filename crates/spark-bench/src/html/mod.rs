//! The report as one HTML page that needs nothing else.
//!
//! ```text
//! what ran where          a table: latency, against fp32, weights, error
//! latency                 per model: every run a dot, p5 to p95 a bar, the median a stroke
//! error per output slice  signal to error in dB, one dot per precision
//! driving                 the plan's distance from fp32, and what a driver would notice
//! refused, failed, notes
//! ```
//!
//! Precisions keep one colour each through the page; the legend stands once at the top.

mod colours;
mod plots;

use std::path::Path;

use spark_drawing::number::significant;
use spark_drawing::{Align, Page, Table};

use crate::driving::{AHEAD_S, Distance, DrivingReport};
use crate::error::BenchError;
use crate::output::write_file;
use crate::report::{BenchReport, RunReport};
use colours::COLOURS;

/// Writes the page to `path`, in one step.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if the file cannot be written; no partial file stays behind.
pub fn write(report: &BenchReport, path: &Path) -> Result<(), BenchError> {
    write_file(path, render(report).as_bytes())
}

/// The whole page as HTML, which needs no other file.
pub fn render(report: &BenchReport) -> String {
    let mut page = Page::new("Models by precision");
    page.remark(&format!(
        "{} {}, {}, {} usable cores. {} timed runs after {} to warm up, seed {}.",
        report.machine.os,
        report.machine.arch,
        report.machine.summary,
        report.machine.usable_cores,
        report.settings.runs,
        report.settings.warmup,
        report.settings.seed
    ));
    let used = |name: &str| report.runs.iter().any(|run| run.precision == name);
    page.legend(COLOURS.into_iter().filter(|(name, _)| used(name)));
    overview(&mut page, report);
    latencies(&mut page, report);
    slices(&mut page, report);
    driving(&mut page, &report.driving);
    last_words(&mut page, report);
    page.finish()
}

/// Runs of one model, in the order of the report.
fn by_model(report: &BenchReport) -> Vec<(&str, Vec<&RunReport>)> {
    let mut models: Vec<(&str, Vec<&RunReport>)> = Vec::new();
    for run in &report.runs {
        match models.iter_mut().find(|(name, _)| *name == run.model) {
            Some((_, runs)) => runs.push(run),
            None => models.push((&run.model, vec![run])),
        }
    }
    models
}

/// A table of two columns of words, then of numbers.
fn table<'h>(words: [&'h str; 2], numbers: impl IntoIterator<Item = &'h str>) -> Table {
    let words = words.map(|heading| (heading, Align::Left));
    let numbers = numbers.into_iter().map(|heading| (heading, Align::Right));
    Table::new(words.into_iter().chain(numbers))
}

fn overview(page: &mut Page, report: &BenchReport) {
    let mut table = table(
        ["model", "precision"],
        [
            "p50, ms",
            "p95, ms",
            "per s",
            "time / fp32",
            "weights, MB",
            "cosine",
            "signal to error, dB",
            "largest error of scale",
        ],
    );
    for (model, runs) in by_model(report) {
        let fp32 = runs.iter().find(|run| run.precision == "fp32");
        for (i, run) in runs.iter().enumerate() {
            let ratio = fp32.map_or("".to_owned(), |fp32| {
                format!("{:.2}", run.latency.p50_ms / fp32.latency.p50_ms)
            });
            let accuracy = run
                .accuracy
                .as_ref()
                .map_or([const { String::new() }; 3], |a| {
                    [
                        format!("{:.6}", a.cosine),
                        decibels(a.sqnr_db),
                        format!("{:.1e}", a.max_rel),
                    ]
                });
            let [cosine, sqnr, largest] = accuracy;
            table.row([
                if i == 0 { model } else { "" }.to_owned(),
                run.precision.to_owned(),
                format!("{:.3}", run.latency.p50_ms),
                format!("{:.3}", run.latency.p95_ms),
                format!("{:.1}", run.latency.throughput_per_s),
                ratio,
                format!("{:.1}", run.memory.weight_bytes as f64 / 1e6),
                cosine,
                sqnr,
                largest,
            ]);
        }
    }
    page.heading("What ran");
    page.table(&table);
    page.remark("Error figures are the worst over outputs, against fp32 on the same inputs.");
    page.subheading("Weights as they are held, MB");
    page.picture(plots::weights(&by_model(report)));
}

fn latencies(page: &mut Page, report: &BenchReport) {
    page.heading("Latency");
    page.remark(
        "Every timed run is a dot; the bar spans p5 to p95, the stroke is the median. \
         Milliseconds; each model has its own logarithmic scale.",
    );
    for (model, runs) in by_model(report) {
        page.subheading(model);
        page.picture(plots::latency(&runs));
    }
}

fn slices(page: &mut Page, report: &BenchReport) {
    let has_slices = |run: &&RunReport| !run.slices.is_empty();
    if !report.runs.iter().any(|run| has_slices(&run)) {
        return;
    }
    page.heading("Error per output slice");
    page.remark(
        "Signal to error in dB against fp32: more is better, 20 dB is an error of a tenth.",
    );
    for (model, runs) in by_model(report) {
        if let Some(picture) = plots::slices(&runs) {
            page.subheading(model);
            page.picture(picture);
        }
    }
    page.subheading("Cosine per slice");
    page.remark("A slice of one value has a cosine of 1 or -1.");
    let is_shown = |name: &&str| {
        let mut with_slices = report.runs.iter().filter(has_slices);
        with_slices.any(|run| run.precision == *name)
    };
    let names = COLOURS.iter().map(|(name, _)| *name);
    let shown: Vec<&str> = names.filter(is_shown).collect();
    let mut table = table(["model", "slice"], shown.iter().copied());
    for (model, runs) in by_model(report) {
        let Some(first) = runs.iter().copied().find(has_slices) else {
            continue;
        };
        for (i, slice) in first.slices.iter().enumerate() {
            let cosine = |name: &&str| {
                let run = runs.iter().find(|run| run.precision == *name);
                let slice = run.and_then(|run| run.slices.get(i));
                slice.map_or(String::new(), |s| format!("{:.6}", s.accuracy.cosine))
            };
            let model = if i == 0 { model } else { "" };
            let words = [model.to_owned(), slice.name.clone()];
            table.row(words.into_iter().chain(shown.iter().map(cosine)));
        }
    }
    page.table(&table);
}

fn driving(page: &mut Page, driving: &[DrivingReport]) {
    let Some(first) = driving.first() else {
        return;
    };
    page.heading("Driving, against fp32");
    page.remark(&format!(
        "{} frames of synthetic camera pictures at 20 Hz through vision and policy with their \
         histories; mean over frames, largest in brackets.",
        first.frames
    ));
    page.subheading("Position of the plan, metres from fp32's");
    page.picture(plots::plan(driving));
    let ahead = AHEAD_S.map(|t| format!("plan at {t} s, m"));
    let others = [
        "lane lines, m",
        "lead, m",
        "curvature, 1/m",
        "acceleration, m/s²",
    ];
    let numbers = ahead.iter().map(String::as_str).chain(others);
    let numbers = numbers.map(|heading| (heading, Align::Right));
    let mut table = Table::new([("precision", Align::Left)].into_iter().chain(numbers));
    for run in driving {
        let others = [
            run.lane_lines_m,
            run.lead_m,
            run.curvature_per_m,
            run.acceleration_m_s2,
        ];
        let small = |value| significant(value, 3);
        let distances = run.plan_m.into_iter().chain(others);
        let cells =
            distances.map(|Distance { mean, max }| format!("{} ({})", small(mean), small(max)));
        table.row([run.precision.to_owned()].into_iter().chain(cells));
    }
    page.table(&table);
}

fn last_words(page: &mut Page, report: &BenchReport) {
    for (heading, refusals) in [("Refused", &report.refused), ("Failed", &report.failed)] {
        if !refusals.is_empty() {
            page.heading(heading);
            page.list(refusals.iter().map(|refused| {
                format!(
                    "{} in {}: {}",
                    refused.model, refused.precision, refused.reason
                )
            }));
        }
    }
    page.heading("Notes");
    let ran_where = report.runs.iter().map(|run| {
        let steps: Vec<String> = run
            .steps
            .iter()
            .map(|(what, n)| format!("{n} on {what}"))
            .collect();
        format!(
            "{} {}, {} threads: {}",
            run.model,
            run.precision,
            run.threads,
            steps.join(", ")
        )
    });
    page.list(report.notes.iter().cloned().chain(ran_where));
}

fn decibels(value: f64) -> String {
    match value {
        v if v == f64::INFINITY => "exact".to_owned(),
        v => format!("{v:.1}"),
    }
}
