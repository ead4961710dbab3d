//! Reports as Markdown tables.

use super::not_compared;
use super::number::{beyond, interval, p_value, percent, short};
use crate::compare::{Comparison, Decision, summarise};
use crate::metric::Role;
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
        "# {} against {}\n\n**{}**. {} scenarios in {} families, {} compared, {} drives of each.\n",
        cell(&comparison.candidate),
        cell(&comparison.baseline),
        comparison.decision.word(),
        comparison.n_scenarios,
        comparison.n_families,
        comparison.n_compared,
        comparison.n_drives,
    );
    let reasons = comparison.decision.reasons();
    if !reasons.is_empty() {
        text.push('\n');
    }
    for reason in reasons {
        let _ = writeln!(text, "- {}", cell(&reason));
    }
    if let Decision::Undecided {
        families_needed: Some(n),
        ..
    } = &comparison.decision
    {
        let _ = writeln!(text, "- about {n} families would decide it");
    }
    events(&mut text, comparison);
    for (role, title) in [
        (Role::Primary, "Metrics that decide"),
        (Role::Secondary, "Other metrics"),
    ] {
        metrics(&mut text, comparison, role, title);
    }
    for (words, names) in not_compared(comparison) {
        let _ = writeln!(text, "\n{words}: {}.", names.join(", "));
    }
    for event in &comparison.events {
        for (cases, word) in [(&event.new, "New"), (&event.fixed, "Gone")] {
            let lines = cases.iter().map(|case| {
                let reason = case
                    .reason
                    .as_deref()
                    .map_or_else(String::new, |reason| format!(": {}", cell(reason)));
                format!("{} (seed {}){reason}", cell(&case.scenario), case.seed)
            });
            list(&mut text, &format!("{word}: {}", event.event), lines);
        }
    }
    let failed = comparison.failed_in_both.iter().map(|name| cell(name));
    list(&mut text, "Failed by both", failed);
    let regressions = comparison.regressions.iter().map(|r| {
        let margins = r.margins.map_or_else(String::new, |margins| {
            format!(", {} margins", short(margins))
        });
        format!(
            "{}: {} {} → {}{margins}",
            cell(&r.scenario),
            r.what,
            short(r.baseline),
            short(r.candidate)
        )
    });
    list(&mut text, "Regressions, worst first", regressions);
    text
}

fn events(text: &mut String, comparison: &Comparison) {
    text.push_str(
        "\n## Events\n\n| event | baseline | candidate | new | gone | p | adjusted p |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for event in &comparison.events {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            event.event,
            event.baseline,
            event.candidate,
            event.new.len(),
            event.fixed.len(),
            p_value(event.p),
            p_value(event.p_adjusted)
        );
    }
}

fn metrics(text: &mut String, comparison: &Comparison, role: Role, title: &str) {
    let shown = || comparison.metrics.iter().filter(|m| m.role == role);
    if shown().next().is_none() {
        return;
    }
    let level = 100.0 * (1.0 - comparison.alpha);
    let _ = write!(
        text,
        "\n## {title}\n\n| metric | unit | families | baseline | candidate | change | {level} % interval | worse by at most | margin | p | adjusted p | families beyond | verdict |\n\
         |---|---|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---|\n"
    );
    for m in shown() {
        let words = m.verdict.words();
        let verdict = if m.verdict.is_worse() {
            format!("**{words}**")
        } else {
            words.to_owned()
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {verdict} |",
            m.metric,
            m.unit,
            m.n_families,
            short(m.baseline),
            short(m.candidate),
            percent(m.change_percent),
            interval(m.interval),
            m.worse_by_at_most.map_or_else(|| "none".to_owned(), short),
            short(m.margin),
            p_value(m.p_difference),
            p_value(m.p_adjusted),
            beyond(m.n_families_beyond, m.share_beyond_at_most)
        );
    }
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
        "# {}\n\n{} drives, {n_failed} failed, {} steps in {} s on {}.\n\n",
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
