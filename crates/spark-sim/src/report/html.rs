//! A comparison as one self-contained HTML file: no script, no font, no request.

use super::plot::{intervals, scatter};
use super::replay::drawn;
use super::tables;
use crate::SimError;
use crate::compare::{Comparison, Decision};
use crate::metric::{CATALOGUE, Role};
use crate::run::{RunReport, Trace};
use crate::scenario::Scenario;
use spark_drawing::number::short;
use spark_drawing::{Page, Tone};

/// Most regressions and names listed.
const MOST_LISTED: usize = 100;
/// Metrics drawn as scatter plots.
const SCATTERED: [&str; 3] = ["lateral_error_rmse", "steer_smoothness", "jerk_rms"];

/// A drive to show in a report.
pub struct Replay<'a> {
    /// The scenario that was driven.
    pub scenario: &'a Scenario,
    /// The baseline's drive, if it was recorded.
    pub baseline: Option<&'a Trace>,
    /// The candidate's drive of it.
    pub candidate: &'a Trace,
}

/// The report of a comparison, with pictures of some drives.
///
/// # Errors
///
/// [`SimError::NotTheSameScenarios`] if the runs are not those that were compared.
pub fn html(
    comparison: &Comparison,
    baseline: &RunReport,
    candidate: &RunReport,
    replays: &[Replay<'_>],
) -> Result<String, SimError> {
    if baseline.results.len() != comparison.n_drives
        || candidate.results.len() != comparison.n_drives
    {
        return Err(SimError::NotTheSameScenarios {
            baseline: baseline.results.len(),
            candidate: candidate.results.len(),
            first_difference: comparison.n_drives,
        });
    }
    let mut page = Page::new(&format!(
        "{} against {}",
        comparison.candidate, comparison.baseline
    ));
    decision(&mut page, comparison);
    page.paragraph(&format!(
        "{} scenarios in {} families, {} compared, {} drives of each.",
        comparison.n_scenarios, comparison.n_families, comparison.n_compared, comparison.n_drives
    ));
    let took = |run: &RunReport| {
        let time = run.wall_s.map(|s| format!(" in {} s", short(s)));
        format!("{} steps{}", run.n_agent_steps, time.unwrap_or_default())
    };
    page.remark(&match baseline.device == candidate.device {
        true => format!(
            "Baseline {}, candidate {}, on {}.",
            took(baseline),
            took(candidate),
            candidate.device
        ),
        false => format!(
            "Baseline {} on {}, candidate {} on {}.",
            took(baseline),
            baseline.device,
            took(candidate),
            candidate.device
        ),
    });
    page.heading("Events");
    page.table(&tables::events(comparison));
    let level = 100.0 * (1.0 - comparison.alpha);
    page.heading(&format!(
        "Mean worsening in margins, with its {level} % interval"
    ));
    page.remark(
        "Over families, paired; cut at ±3. Left of 0 is better. A metric passes if it is shown to \
         stay left of 1.",
    );
    page.picture(intervals(comparison));
    for (role, title) in [
        (Role::Primary, "Metrics that decide"),
        (Role::Secondary, "Other metrics"),
    ] {
        if let Some(table) = tables::metrics(comparison, role) {
            page.heading(title);
            page.table(&table);
        }
    }
    for (words, names) in tables::not_compared(comparison) {
        page.remark(&format!("{words}: {}.", names.join(", ")));
    }
    page.remark(&format!(
        "\u{201c}Worse by at most\u{201d} is the one-sided {level} % limit that is compared with the margin. \
         p is two-sided and for one metric alone; the adjusted p, which decides, allows for the number of metrics. \
         \u{201c}Families beyond\u{201d} are worse by more than the margin, with the largest share that this leaves possible: \
         where it is large, a mean says little about rare cases."
    ));
    page.heading("Scenario by scenario");
    let scattered = CATALOGUE
        .iter()
        .filter(|info| SCATTERED.contains(&info.name));
    page.pictures(scattered.map(|info| {
        let drives = baseline.results.iter().zip(&candidate.results);
        let pairs = drives.filter_map(|(b, c)| {
            let (b, c) = (b.outcome.as_ref().ok()?, c.outcome.as_ref().ok()?);
            Some(((info.read)(b)?, (info.read)(c)?))
        });
        scatter(info.name, info.unit, &pairs.collect::<Vec<_>>())
    }));
    lists(&mut page, comparison);
    if !replays.is_empty() {
        page.heading("Drives");
    }
    for replay in replays {
        if let Some(trace) = replay.baseline {
            page.paragraph(&comparison.baseline);
            page.picture(drawn(replay.scenario, trace));
        }
        page.paragraph(&comparison.candidate);
        page.picture(drawn(replay.scenario, replay.candidate));
    }
    Ok(page.finish())
}

fn decision(page: &mut Page, comparison: &Comparison) {
    let (tone, says) = match &comparison.decision {
        Decision::Pass => (
            Tone::Good,
            "Pass: no metric that decides is worse than its margin.",
        ),
        Decision::Fail { .. } => (Tone::Bad, "Fail."),
        Decision::Undecided { .. } => (Tone::Open, "Undecided: not enough evidence."),
    };
    page.verdict(says, tone);
    let mut reasons = comparison.decision.reasons();
    if let Decision::Undecided {
        families_needed: Some(n),
        ..
    } = &comparison.decision
    {
        reasons.push(format!("about {n} families would decide it"));
    }
    page.list(reasons);
}

fn lists(page: &mut Page, comparison: &Comparison) {
    for event in &comparison.events {
        for (cases, word) in [(&event.new, "New"), (&event.fixed, "Gone")] {
            let items = cases.iter().map(|case| {
                let reason = case
                    .reason
                    .as_deref()
                    .map_or_else(String::new, |reason| format!(": {reason}"));
                format!("{} (seed {}){reason}", case.scenario, case.seed)
            });
            list(page, &format!("{word}: {}", event.event), items);
        }
    }
    let failed = comparison.failed_in_both.iter().cloned();
    list(page, "Failed by both", failed);
    let n = comparison.regressions.len();
    if n > 0 {
        page.heading(&format!("Regressions, worst first ({n})"));
        page.table(&tables::regressions(comparison, MOST_LISTED));
        and_more(page, n);
    }
}

fn list(page: &mut Page, title: &str, items: impl ExactSizeIterator<Item = String>) {
    let n = items.len();
    if n > 0 {
        page.heading(&format!("{title} ({n})"));
        page.list(items.take(MOST_LISTED));
        and_more(page, n);
    }
}

fn and_more(page: &mut Page, n: usize) {
    if n > MOST_LISTED {
        page.remark(&format!("and {} more", n - MOST_LISTED));
    }
}
