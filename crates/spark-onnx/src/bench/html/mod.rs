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
//! Deliberately absent: scripts, fonts and pictures from elsewhere.

mod plots;

use std::fmt::Write as _;
use std::path::Path;

use super::driving::{AHEAD_S, Distance, DrivingReport};
use super::report::{BenchReport, RunReport};
use super::{BenchError, write_file};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#26292e;max-width:1020px;\
margin:32px auto;padding:0 20px}h1{font-size:24px}h2{font-size:18px;margin-top:36px}\
h3{font-size:15px;margin:22px 0 4px}table{border-collapse:collapse;width:100%;font-size:14px}\
th,td{text-align:right;padding:4px 8px;border-bottom:1px solid #dfe3e8;\
font-variant-numeric:tabular-nums}th:first-child,td:first-child,th:nth-child(2),td:nth-child(2)\
{text-align:left}.muted{color:#7a828c}svg{max-width:100%;height:auto}.wide{overflow-x:auto}\
.key{display:inline-block;margin-right:18px}.key i{display:inline-block;width:11px;height:11px;\
border-radius:6px;margin-right:6px}";

/// Precisions in the order of the page, each with its colour.
const COLOURS: [(&str, &str); 6] = [
    ("fp32", "#4c6a92"),
    ("fp16", "#2f8f5b"),
    ("bf16", "#c99a1b"),
    ("fp8", "#d1683c"),
    ("fp4", "#c23b3b"),
    ("mixed", "#7d5ba6"),
];

fn colour(precision: &str) -> &'static str {
    let found = COLOURS.iter().find(|(name, _)| *name == precision);
    found.map_or("#26292e", |(_, colour)| colour)
}

/// Text as it may stand in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Writes the page to `path`, in one step.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if the file cannot be written; no partial file stays behind.
pub fn write(report: &BenchReport, path: &Path) -> Result<(), BenchError> {
    write_file(path, render(report).as_bytes())
}

/// The page.
pub fn render(report: &BenchReport) -> String {
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Models by precision</title>\
         <style>{STYLE}</style></head><body><h1>Models by precision</h1>"
    );
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        page,
        "<p class=\"muted\">{} {}, {}, {} usable cores. {} timed runs after {} to warm up, seed \
         {}.</p><p>",
        report.machine.os,
        report.machine.arch,
        escape(&report.machine.summary),
        report.machine.usable_cores,
        report.settings.runs,
        report.settings.warmup,
        report.settings.seed
    );
    let used = |name: &str| report.runs.iter().any(|run| run.precision == name);
    for (name, colour) in COLOURS.into_iter().filter(|(name, _)| used(name)) {
        let _ = write!(
            page,
            "<span class=\"key\"><i style=\"background:{colour}\"></i>{name}</span>"
        );
    }
    page.push_str("</p>");
    overview(&mut page, report);
    latencies(&mut page, report);
    slices(&mut page, report);
    driving(&mut page, &report.driving);
    last_words(&mut page, report);
    page.push_str("</body></html>\n");
    page
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

fn overview(page: &mut String, report: &BenchReport) {
    page.push_str(
        "<h2>What ran</h2><div class=\"wide\"><table><tr><th>model</th><th>precision</th><th>p50, ms</th>\
         <th>p95, ms</th><th>per s</th><th>time / fp32</th><th>weights, MB</th><th>cosine</th>\
         <th>signal to error, dB</th><th>largest error of scale</th></tr>",
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
            let name = if i == 0 { escape(model) } else { String::new() };
            let _ = write!(
                page,
                "<tr><td>{name}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.1}</td>\
                 <td>{ratio}</td><td>{:.1}</td><td>{cosine}</td><td>{sqnr}</td><td>{largest}</td></tr>",
                run.precision,
                run.latency.p50_ms,
                run.latency.p95_ms,
                run.latency.throughput_per_s,
                run.memory.weight_bytes as f64 / 1e6
            );
        }
    }
    page.push_str(
        "</table></div><p class=\"muted\">Error figures are the worst over outputs, against fp32 on the \
         same inputs.</p><h3>Weights as they are held, MB</h3>",
    );
    page.push_str(&plots::weights(&by_model(report)));
}

fn latencies(page: &mut String, report: &BenchReport) {
    page.push_str(
        "<h2>Latency</h2><p class=\"muted\">Every timed run is a dot; the bar spans p5 to p95, the \
         stroke is the median. Milliseconds; each model has its own logarithmic scale.</p>",
    );
    for (model, runs) in by_model(report) {
        let _ = write!(page, "<h3>{}</h3>", escape(model));
        page.push_str(&plots::latency(&runs));
    }
}

fn slices(page: &mut String, report: &BenchReport) {
    let models = by_model(report);
    if report.runs.iter().all(|run| run.slices.is_empty()) {
        return;
    }
    page.push_str(
        "<h2>Error per output slice</h2><p class=\"muted\">Signal to error in dB against fp32: more \
         is better, 20 dB is an error of a tenth.</p>",
    );
    for (model, runs) in models {
        if runs.iter().any(|run| !run.slices.is_empty()) {
            let _ = write!(page, "<h3>{}</h3>", escape(model));
            page.push_str(&plots::slices(&runs));
        }
    }
    page.push_str(
        "<h3>Cosine per slice</h3><p class=\"muted\">A slice of one value \
         has a cosine of 1 or -1.</p><div class=\"wide\"><table><tr><th>model</th><th>slice</th>",
    );
    let names: Vec<&str> = COLOURS.iter().map(|(name, _)| *name).collect();
    let shown = |name: &&&str| {
        let with = |run: &&RunReport| run.precision == **name && !run.slices.is_empty();
        report.runs.iter().any(|run| with(&run))
    };
    let shown: Vec<&str> = names.iter().filter(shown).copied().collect();
    for name in &shown {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr>");
    for (model, runs) in by_model(report) {
        let Some(first) = runs.iter().find(|run| !run.slices.is_empty()) else {
            continue;
        };
        for (i, slice) in first.slices.iter().enumerate() {
            let model = if i == 0 { escape(model) } else { String::new() };
            let _ = write!(page, "<tr><td>{model}</td><td>{}</td>", escape(&slice.name));
            for name in &shown {
                let run = runs.iter().find(|run| run.precision == *name);
                let cell = run.and_then(|run| run.slices.get(i));
                let cell = cell.map_or(String::new(), |s| format!("{:.6}", s.accuracy.cosine));
                let _ = write!(page, "<td>{cell}</td>");
            }
            page.push_str("</tr>");
        }
    }
    page.push_str("</table></div>");
}

fn driving(page: &mut String, driving: &[DrivingReport]) {
    let Some(first) = driving.first() else {
        return;
    };
    let _ = write!(
        page,
        "<h2>Driving, against fp32</h2><p class=\"muted\">{} frames of synthetic camera pictures at 20 \
         Hz through vision and policy with their histories; mean over frames, largest in \
         brackets.</p>",
        first.frames
    );
    page.push_str("<h3>Position of the plan, metres from fp32's</h3>");
    page.push_str(&plots::plan(driving));
    page.push_str("<div class=\"wide\"><table><tr><th>precision</th><th></th>");
    for t in AHEAD_S {
        let _ = write!(page, "<th>plan at {t} s, m</th>");
    }
    page.push_str(
        "<th>lane lines, m</th><th>lead, m</th><th>curvature, 1/m</th><th>acceleration, \
         m/s&sup2;</th></tr>",
    );
    for run in driving {
        let _ = write!(page, "<tr><td>{}</td><td></td>", run.precision);
        let others = [
            run.lane_lines_m,
            run.lead_m,
            run.curvature_per_m,
            run.acceleration_m_s2,
        ];
        for Distance { mean, max } in run.plan_m.into_iter().chain(others) {
            let _ = write!(page, "<td>{} ({})</td>", small(mean), small(max));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

fn last_words(page: &mut String, report: &BenchReport) {
    for (heading, refusals) in [("Refused", &report.refused), ("Failed", &report.failed)] {
        if refusals.is_empty() {
            continue;
        }
        let _ = write!(page, "<h2>{heading}</h2><ul>");
        for refused in refusals {
            let (model, reason) = (escape(&refused.model), escape(&refused.reason));
            let _ = write!(page, "<li>{model} in {}: {reason}</li>", refused.precision);
        }
        page.push_str("</ul>");
    }
    page.push_str("<h2>Notes</h2><ul>");
    for note in &report.notes {
        let _ = write!(page, "<li>{}</li>", escape(note));
    }
    for run in &report.runs {
        let steps: Vec<String> = run
            .steps
            .iter()
            .map(|(what, n)| format!("{n} on {what}"))
            .collect();
        let _ = write!(
            page,
            "<li>{} {}, {} threads: {}</li>",
            escape(&run.model),
            run.precision,
            run.threads,
            escape(&steps.join(", "))
        );
    }
    page.push_str("</ul>");
}

fn decibels(value: f64) -> String {
    match value {
        v if v == f64::INFINITY => "exact".to_owned(),
        v => format!("{v:.1}"),
    }
}

/// Three digits, whatever the size.
fn small(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.001 => format!("{value:.1e}"),
        v if v < 10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}
