//! Reports as Markdown tables.

use super::tables;
use crate::compare::{Comparison, Decision, summarise};
use crate::metric::Role;
use crate::run::RunReport;
use spark_drawing::markdown::cell;
use spark_drawing::number::short;
use std::fmt::Write as _;

/// Most regressions and names listed.
const MOST_LISTED: usize = 20;

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
    text.push_str("\n## Events\n\n");
    text.push_str(&tables::events(comparison).markdown());
    for (role, title) in [
        (Role::Primary, "Metrics that decide"),
        (Role::Secondary, "Other metrics"),
    ] {
        if let Some(table) = tables::metrics(comparison, role) {
            let _ = write!(text, "\n## {title}\n\n{}", table.markdown());
        }
    }
    for (words, names) in tables::not_compared(comparison) {
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

/// What one run amounts to, as Markdown: its metrics, what failed, and the slowest updates. How long it took
/// stands in a paragraph of its own.
pub fn run_markdown(report: &RunReport) -> String {
    let n_failed = report.results.iter().filter(|r| r.outcome.is_err()).count();
    let mut text = format!(
        "# {}\n\n{} drives, {n_failed} failed, {} steps on {}.\n\n",
        cell(&report.algorithm),
        report.results.len(),
        report.n_agent_steps,
        cell(&report.device)
    );
    if let Some(wall_s) = report.wall_s {
        let threads = report.n_threads.map(|n| format!(", threads: {n}"));
        let threads = threads.unwrap_or_default();
        let _ = writeln!(text, "Took {} s{threads}.\n", short(wall_s));
    }
    text.push_str(&tables::summary(&summarise(report)).markdown());
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
