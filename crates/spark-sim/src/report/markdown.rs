//! Reports as Markdown tables.

use super::number::{percent, short, signed};
use crate::compare::{Comparison, Verdict, summarise};
use crate::run::RunReport;
use std::fmt::Write as _;

/// Most regressions and names listed.
const MOST_LISTED: usize = 20;

/// Names that cannot break a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A comparison for a pull request.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!(
        "# {} against {}\n\n{} scenarios, {} compared. {}\n\n",
        cell(&comparison.candidate),
        cell(&comparison.baseline),
        comparison.n_scenarios,
        comparison.n_compared,
        if comparison.passes() {
            "Nothing got worse beyond chance."
        } else {
            "**Something got worse.**"
        }
    );
    text.push_str("| metric | unit | n | baseline | candidate | change | 95 % interval | verdict | regressions |\n");
    text.push_str("|---|---|---:|---:|---:|---:|---|---|---:|\n");
    for m in &comparison.metrics {
        let percent = percent(m.change_percent);
        let verdict = match m.verdict {
            Verdict::Worse => format!("**{}**", m.verdict.name()),
            _ => m.verdict.name().to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {percent} | {} … {} | {verdict} | {} |",
            m.metric,
            m.unit,
            m.n,
            short(m.baseline),
            short(m.candidate),
            signed(m.interval[0]),
            signed(m.interval[1]),
            m.n_regressions
        );
    }
    list(
        &mut text,
        "New collisions",
        comparison.new_collisions.iter().map(|n| cell(n)),
    );
    list(
        &mut text,
        "Collisions avoided",
        comparison.fixed_collisions.iter().map(|n| cell(n)),
    );
    let failures = comparison.new_failures.iter();
    list(
        &mut text,
        "New failures",
        failures.map(|(n, why)| format!("{}: {}", cell(n), cell(why))),
    );
    list(
        &mut text,
        "Failures gone",
        comparison.fixed_failures.iter().map(|n| cell(n)),
    );
    let regressions = comparison.regressions.iter().map(|r| {
        format!(
            "{}: {} {} → {}",
            cell(&r.scenario),
            r.metric,
            short(r.baseline),
            short(r.candidate)
        )
    });
    list(&mut text, "Regressions, worst first", regressions);
    text
}

fn list(text: &mut String, title: &str, items: impl ExactSizeIterator<Item = String>) {
    let n = items.len();
    if n == 0 {
        return;
    }
    let _ = write!(text, "\n## {title} ({n})\n\n");
    for item in items.take(MOST_LISTED) {
        let _ = writeln!(text, "- {item}");
    }
    if n > MOST_LISTED {
        let _ = writeln!(text, "- and {} more", n - MOST_LISTED);
    }
}

/// One run's summary.
pub fn run_markdown(report: &RunReport) -> String {
    let n_failed = report.results.iter().filter(|r| r.outcome.is_err()).count();
    let mut text = format!(
        "# {}\n\n{} scenarios, {n_failed} failed, {} steps in {} s on {}.\n\n",
        cell(&report.algorithm),
        report.results.len(),
        report.n_agent_steps,
        short(report.wall_s),
        report.device
    );
    text.push_str("| metric | unit | n | mean | std | min | median | p95 | max |\n");
    text.push_str("|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for m in summarise(report) {
        let figures = [m.mean, m.std, m.min, m.median, m.p95, m.max].map(short);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            m.metric,
            m.unit,
            m.n,
            figures.join(" | ")
        );
    }
    if let (Some(p50), Some(p99)) = (
        report.latency.percentile_ms(50.0),
        report.latency.percentile_ms(99.0),
    ) {
        let _ = write!(
            text,
            "\nUpdate per scenario: p50 {} ms, p99 {} ms.\n",
            short(p50),
            short(p99)
        );
    }
    let failed = report.results.iter().filter_map(|r| {
        let error = r.outcome.as_ref().err()?;
        Some(format!("{}: {}", cell(&r.name), cell(&error.to_string())))
    });
    list(&mut text, "Failed", failed.collect::<Vec<_>>().into_iter());
    text
}
