//! A comparison as one self-contained HTML file: no script, no font, no request.

use super::not_compared;
use super::number::{beyond, interval, p_value, percent, short};
use super::plot::{intervals, scatter};
use super::replay::replay_svg;
use super::svg::escape;
use crate::SimError;
use crate::compare::{Comparison, Decision, Verdict};
use crate::metric::{CATALOGUE, Role};
use crate::run::{RunReport, Trace};
use crate::scenario::Scenario;
use std::fmt::Write as _;

/// Most regressions and names listed.
const MOST_LISTED: usize = 100;
/// Metrics drawn as scatter plots.
const SCATTERED: [&str; 3] = ["lateral_error_rmse", "steer_smoothness", "jerk_rms"];

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#26292e;max-width:1180px;margin:32px auto;padding:0 20px}\
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}table{border-collapse:collapse;width:100%;font-size:13px}\
th,td{text-align:right;padding:4px 8px;border-bottom:1px solid #dfe3e8;font-variant-numeric:tabular-nums}\
th:first-child,td:first-child,.l{text-align:left}.good{color:#2f8f5b;font-weight:600}.bad{color:#c23b3b;font-weight:600}.open{color:#9a6b00}\
.muted{color:#7a828c}.decision{font-size:20px}td{white-space:nowrap}td.l{white-space:normal;min-width:150px}td.u{min-width:0}svg{max-width:100%;height:auto}.plots{display:flex;flex-wrap:wrap;gap:8px}";

/// A drive to show in a report.
pub struct Replay<'a> {
    /// What was driven.
    pub scenario: &'a Scenario,
    /// The baseline's drive, if it was recorded.
    pub baseline: Option<&'a Trace>,
    /// The candidate's drive.
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
    let title = format!(
        "{} against {}",
        escape(&comparison.candidate),
        escape(&comparison.baseline)
    );
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><h1>{title}</h1>"
    );
    decision(&mut page, comparison);
    let _ = write!(
        page,
        "<p>{} scenarios in {} families, {} compared, {} drives of each.<br><span class=\"muted\">Baseline {} steps in {} s, candidate {} steps in {} s, on {}.</span></p>",
        comparison.n_scenarios,
        comparison.n_families,
        comparison.n_compared,
        comparison.n_drives,
        baseline.n_agent_steps,
        short(baseline.wall_s),
        candidate.n_agent_steps,
        short(candidate.wall_s),
        escape(&candidate.device)
    );
    events(&mut page, comparison);
    let level = 100.0 * (1.0 - comparison.alpha);
    let _ = write!(
        page,
        "<h2>Mean worsening in margins, with its {level} % interval</h2><p class=\"muted\">Over families, paired; cut at ±3. \
         Left of 0 is better. A metric passes if it is shown to stay left of 1.</p>"
    );
    page.push_str(&intervals(comparison));
    for (role, title) in [
        (Role::Primary, "Metrics that decide"),
        (Role::Secondary, "Other metrics"),
    ] {
        table(&mut page, comparison, role, title);
    }
    for (words, names) in not_compared(comparison) {
        let _ = write!(
            page,
            "<p class=\"muted\">{words}: {}.</p>",
            names.join(", ")
        );
    }
    let _ = write!(
        page,
        "<p class=\"muted\">\u{201c}Worse by at most\u{201d} is the one-sided {level} % limit that is compared with the margin. \
         p is two-sided and for one metric alone; the adjusted p, which decides, allows for the number of metrics. \
         \u{201c}Families beyond\u{201d} are worse by more than the margin, with the largest share that this leaves possible: \
         where it is large, a mean says little about rare cases.</p>"
    );
    page.push_str("<h2>Scenario by scenario</h2><div class=\"plots\">");
    for info in CATALOGUE
        .iter()
        .filter(|info| SCATTERED.contains(&info.name))
    {
        let pairs: Vec<(f64, f64)> = baseline
            .results
            .iter()
            .zip(&candidate.results)
            .filter_map(|(b, c)| {
                let (b, c) = (b.outcome.as_ref().ok()?, c.outcome.as_ref().ok()?);
                Some(((info.read)(b)?, (info.read)(c)?))
            })
            .collect();
        page.push_str(&scatter(info.name, info.unit, &pairs));
    }
    page.push_str("</div>");
    lists(&mut page, comparison);
    if !replays.is_empty() {
        page.push_str("<h2>Drives</h2>");
    }
    for replay in replays {
        if let Some(trace) = replay.baseline {
            let _ = write!(page, "<p>{}</p>", escape(&comparison.baseline));
            page.push_str(&replay_svg(replay.scenario, trace));
        }
        let _ = write!(page, "<p>{}</p>", escape(&comparison.candidate));
        page.push_str(&replay_svg(replay.scenario, replay.candidate));
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn decision(page: &mut String, comparison: &Comparison) {
    let (class, says) = match &comparison.decision {
        Decision::Pass => (
            "good",
            "Pass: no metric that decides is worse than its margin.",
        ),
        Decision::Fail { .. } => ("bad", "Fail."),
        Decision::Undecided { .. } => ("open", "Undecided: not enough evidence."),
    };
    let _ = write!(page, "<p class=\"decision {class}\">{says}</p>");
    let mut reasons = comparison.decision.reasons();
    if let Decision::Undecided {
        families_needed: Some(n),
        ..
    } = &comparison.decision
    {
        reasons.push(format!("about {n} families would decide it"));
    }
    if !reasons.is_empty() {
        page.push_str("<ul>");
        for reason in reasons {
            let _ = write!(page, "<li>{}</li>", escape(&reason));
        }
        page.push_str("</ul>");
    }
}

fn events(page: &mut String, comparison: &Comparison) {
    page.push_str(
        "<h2>Events</h2><table><tr><th>event</th><th class=\"l\">meaning</th><th>baseline drives</th><th>candidate drives</th>\
         <th>new in scenarios</th><th>gone from scenarios</th><th>p</th><th>adjusted p</th></tr>",
    );
    for event in &comparison.events {
        let class = if event.p_adjusted <= comparison.alpha {
            " class=\"bad\""
        } else {
            ""
        };
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td{class}>{}</td></tr>",
            event.event,
            event.meaning,
            event.baseline,
            event.candidate,
            event.new.len(),
            event.fixed.len(),
            escape(&p_value(event.p)),
            escape(&p_value(event.p_adjusted))
        );
    }
    page.push_str("</table>");
}

/// Colour class of a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "good",
        Verdict::Worse | Verdict::WorseBeyondMargin => "bad",
        Verdict::Undecided => "open",
        Verdict::WithinMargin | Verdict::NoDifferenceShown => "muted",
    }
}

fn table(page: &mut String, comparison: &Comparison, role: Role, title: &str) {
    let shown = || comparison.metrics.iter().filter(|m| m.role == role);
    if shown().next().is_none() {
        return;
    }
    let _ = write!(
        page,
        "<h2>{title}</h2><table><tr><th>metric</th><th class=\"l\">unit</th><th>families</th><th>baseline</th><th>candidate</th>\
         <th>change</th><th>interval of the change</th><th>worse by at most</th><th>margin</th><th>p</th><th>adjusted p</th>\
         <th>families beyond</th><th class=\"l\">verdict</th></tr>",
    );
    for m in shown() {
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"l u\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"l {}\">{}</td></tr>",
            m.metric,
            m.unit,
            m.n_families,
            short(m.baseline),
            short(m.candidate),
            percent(m.change_percent),
            interval(m.interval),
            m.worse_by_at_most.map_or_else(|| "none".to_owned(), short),
            short(m.margin),
            escape(&p_value(m.p_difference)),
            escape(&p_value(m.p_adjusted)),
            beyond(m.n_families_beyond, m.share_beyond_at_most),
            class(m.verdict),
            m.verdict.words()
        );
    }
    page.push_str("</table>");
}

fn lists(page: &mut String, comparison: &Comparison) {
    for event in &comparison.events {
        for (cases, word) in [(&event.new, "New"), (&event.fixed, "Gone")] {
            let items = cases.iter().map(|case| {
                let reason = case
                    .reason
                    .as_deref()
                    .map_or_else(String::new, |reason| format!(": {}", escape(reason)));
                format!("{} (seed {}){reason}", escape(&case.scenario), case.seed)
            });
            list(page, &format!("{word}: {}", event.event), items);
        }
    }
    let failed = comparison.failed_in_both.iter().map(|name| escape(name));
    list(page, "Failed by both", failed);
    if comparison.regressions.is_empty() {
        return;
    }
    let n = comparison.regressions.len();
    let _ = write!(
        page,
        "<h2>Regressions, worst first ({n})</h2><table><tr><th>scenario</th><th class=\"l\">what</th>\
         <th>baseline</th><th>candidate</th><th>margins</th></tr>"
    );
    for r in comparison.regressions.iter().take(MOST_LISTED) {
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&r.scenario),
            r.what,
            short(r.baseline),
            short(r.candidate),
            r.margins.map_or_else(|| "event".to_owned(), short)
        );
    }
    page.push_str("</table>");
    if n > MOST_LISTED {
        let _ = write!(page, "<p class=\"muted\">and {} more</p>", n - MOST_LISTED);
    }
}

fn list(page: &mut String, title: &str, items: impl ExactSizeIterator<Item = String>) {
    let n = items.len();
    if n == 0 {
        return;
    }
    let _ = write!(page, "<h2>{title} ({n})</h2><ul>");
    for item in items.take(MOST_LISTED) {
        let _ = write!(page, "<li>{item}</li>");
    }
    page.push_str("</ul>");
    if n > MOST_LISTED {
        let _ = write!(page, "<p class=\"muted\">and {} more</p>", n - MOST_LISTED);
    }
}
