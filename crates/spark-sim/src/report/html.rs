//! A comparison as one self-contained HTML file: no script, no font, no request.

use super::number::{percent, short, signed};
use super::plot::{intervals, scatter};
use super::replay::replay_svg;
use super::svg::escape;
use crate::SimError;
use crate::compare::Comparison;
use crate::metric::CATALOGUE;
use crate::run::{RunReport, Trace};
use crate::scenario::Scenario;
use std::fmt::Write as _;

/// Most regressions and names listed.
const MOST_LISTED: usize = 100;
/// Metrics drawn as scatter plots.
const SCATTERED: [&str; 3] = ["lateral_error_rmse", "steer_smoothness", "jerk_rms"];

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#26292e;max-width:980px;margin:32px auto;padding:0 20px}\
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}table{border-collapse:collapse;width:100%;font-size:13px}\
th,td{text-align:right;padding:4px 8px;border-bottom:1px solid #dfe3e8;font-variant-numeric:tabular-nums}\
th:first-child,td:first-child,.l{text-align:left}.better{color:#2f8f5b;font-weight:600}.worse{color:#c23b3b;font-weight:600}\
.undecided{color:#7a828c}.muted{color:#7a828c}svg{max-width:100%;height:auto}.plots{display:flex;flex-wrap:wrap;gap:8px}";

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
    if baseline.results.len() != comparison.n_scenarios
        || candidate.results.len() != comparison.n_scenarios
    {
        return Err(SimError::NotTheSameScenarios {
            baseline: baseline.results.len(),
            candidate: candidate.results.len(),
            first_difference: comparison.n_scenarios,
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
    let verdict = if comparison.passes() {
        "<span class=\"better\">Nothing got worse beyond chance.</span>"
    } else {
        "<span class=\"worse\">Something got worse.</span>"
    };
    let _ = write!(
        page,
        "<p>{} scenarios, {} compared. {verdict}<br><span class=\"muted\">Baseline {} steps in {} s, candidate {} steps in {} s, on {}.</span></p>",
        comparison.n_scenarios,
        comparison.n_compared,
        baseline.n_agent_steps,
        short(baseline.wall_s),
        candidate.n_agent_steps,
        short(candidate.wall_s),
        escape(&candidate.device)
    );
    table(&mut page, comparison);
    page.push_str("<h2>Mean change with its 95 % interval</h2><p class=\"muted\">Per cent of the baseline, cut at ±150; over scenarios, paired.</p>");
    page.push_str(&intervals(comparison));
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

fn table(page: &mut String, comparison: &Comparison) {
    page.push_str(
        "<table><tr><th>metric</th><th class=\"l\">unit</th><th>n</th><th>baseline</th><th>candidate</th>\
         <th>change</th><th>interval of the mean</th><th>verdict</th><th>regressions</th></tr>",
    );
    for m in &comparison.metrics {
        let percent = percent(m.change_percent);
        let verdict = m.verdict.name();
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{percent}</td>\
             <td>{} … {}</td><td class=\"{verdict}\">{verdict}</td><td>{}</td></tr>",
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
    page.push_str("</table>");
}

fn lists(page: &mut String, comparison: &Comparison) {
    list(
        page,
        "New collisions",
        comparison.new_collisions.iter().map(|n| escape(n)),
    );
    list(
        page,
        "Collisions avoided",
        comparison.fixed_collisions.iter().map(|n| escape(n)),
    );
    let failures = comparison.new_failures.iter();
    list(
        page,
        "New failures",
        failures.map(|(n, why)| format!("{}: {}", escape(n), escape(why))),
    );
    list(
        page,
        "Failures gone",
        comparison.fixed_failures.iter().map(|n| escape(n)),
    );
    if comparison.regressions.is_empty() {
        return;
    }
    let n = comparison.regressions.len();
    let _ = write!(
        page,
        "<h2>Regressions, worst first ({n})</h2><table><tr><th>scenario</th><th class=\"l\">metric</th>\
         <th>baseline</th><th>candidate</th><th>thresholds</th></tr>"
    );
    for r in comparison.regressions.iter().take(MOST_LISTED) {
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&r.scenario),
            r.metric,
            short(r.baseline),
            short(r.candidate),
            short(r.severity)
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
