//! One run as a self-contained HTML file.

use spark_drawing::colour::{BLUE, INK, ORANGE};
use spark_drawing::number::{short, with_unit};
use spark_drawing::{Align, Page, Rows, Scale, Svg, Table, Tone};

use super::tables;
use crate::compare::{MetricSummary, summarise};
use crate::metric::{CATALOGUE, Direction, MetricInfo, Role};
use crate::run::RunReport;

/// Most failed drives listed.
const MOST_FAILED: usize = 100;
/// Worst drives of each metric.
const N_WORST: usize = 3;

/// What one run amounts to, as a page: its metrics in a table and as spreads, the worst drives by each metric that
/// decides comparisons, and what failed. Of a report that was read back it is the page of the run itself.
pub fn run_html(report: &RunReport) -> String {
    let mut page = Page::new(&report.algorithm);
    let failed = || {
        report
            .results
            .iter()
            .filter_map(|it| Some((it, it.outcome.as_ref().err()?)))
    };
    let (n_drives, n_failed) = (report.results.len(), failed().count());
    let tone = if n_failed == 0 { Tone::Good } else { Tone::Bad };
    page.verdict(&format!("{n_drives} drives, {n_failed} failed"), tone);
    page.paragraph(&format!(
        "{} steps on {}.",
        report.n_agent_steps, report.device
    ));
    if let Some(wall_s) = report.wall_s {
        let threads = report.n_threads.map(|n| format!(", threads: {n}"));
        page.remark(&format!(
            "Took {} s{}.",
            short(wall_s),
            threads.unwrap_or_default()
        ));
    }
    let summary = summarise(report);
    if !summary.is_empty() {
        page.heading("Metrics");
        page.table(&tables::summary(&summary));
        page.heading("Spread over drives");
        page.remark(
            "From the smallest value to the largest, with the median (blue) and the value that nineteen of twenty \
             drives stay below (orange). Each line has a scale of its own.",
        );
        page.picture(spreads(&summary));
        page.heading("Worst drives");
        page.table(&worst(report));
    }
    if n_failed > 0 {
        page.heading("Failed");
        page.list(
            failed()
                .take(MOST_FAILED)
                .map(|(it, why)| format!("{}: {why}", it.name)),
        );
        if n_failed > MOST_FAILED {
            page.remark(&format!("And {} more.", n_failed - MOST_FAILED));
        }
    }
    page.finish()
}

fn spreads(summary: &[MetricSummary]) -> Svg {
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 860.0;
    let mut svg = Svg::new(WIDTH, Rows::height(summary.len()));
    let scale = Scale::linear([0.0, 1.0], [LEFT, WIDTH - 200.0]);
    let mut rows = Rows::new(&mut svg, scale, 4.0, summary.len());
    for (row, metric) in summary.iter().enumerate() {
        let width = metric.max - metric.min;
        // Of a metric that all drives have alike, and of one whose width no number holds, the middle.
        let at = |value: f64| match width > 0.0 && width.is_finite() {
            true => (value - metric.min) / width,
            false => 0.5,
        };
        rows.named(row, metric.metric, INK);
        rows.spread(row, [at(metric.min), at(metric.max)], BLUE);
        rows.dot(row, at(metric.median), 0.0, 4.5, BLUE.into());
        rows.dot(row, at(metric.p95), 0.0, 3.5, ORANGE.into());
        let ends = format!("{} to {}", short(metric.min), short(metric.max));
        rows.at_end(row, INK, &with_unit(&ends, metric.unit));
    }
    svg
}

/// The drives that each deciding metric is worst in.
fn worst(report: &RunReport) -> Table {
    let headings = [
        ("metric", Align::Left),
        ("drive", Align::Left),
        ("value", Align::Right),
    ];
    let mut table = Table::new(headings);
    let deciding = |info: &&MetricInfo| matches!(info.role, Role::Primary | Role::Event);
    for info in CATALOGUE.iter().filter(deciding) {
        let measured = report.results.iter().filter_map(|it| {
            let value = (info.read)(it.outcome.as_ref().ok()?)?;
            Some((value, &it.name))
        });
        let mut measured: Vec<(f64, &String)> = measured.collect();
        // A drive in which it is as good as can be is none of the worst.
        let is_event = info.role == Role::Event;
        measured.retain(|(value, _)| !is_event || *value != 0.0);
        measured.sort_by(|(a, _), (b, _)| match info.direction {
            Direction::Lower => b.total_cmp(a),
            Direction::Higher => a.total_cmp(b),
        });
        for (value, name) in measured.into_iter().take(N_WORST) {
            table.row([
                info.name.to_owned(),
                name.clone(),
                with_unit(&short(value), info.unit),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{PerfectTracking, named};
    use crate::report::{read_run_json, run_json};
    use crate::run::{RunOptions, Simulator};
    use crate::scenario::{Fuzzer, Scenario};

    #[test]
    fn the_page_names_what_failed_and_is_the_same_of_a_run_read_back() {
        let mut scenarios: Vec<Scenario> = Fuzzer::new(3).iter(8).collect();
        scenarios[4].duration_s = -1.0;
        scenarios[4].name = "<b>broken</b>".to_owned();
        let simulator = Simulator::new(RunOptions::default()).expect("valid options");
        let report = simulator.run(&scenarios, &named("perfect", || PerfectTracking));
        let page = run_html(&report);
        for words in [
            "8 drives, 1 failed",
            "&lt;b&gt;broken",
            "lateral_error_rmse",
            "<svg",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<b>broken") && !page.contains("NaN"));
        let back = read_run_json(&run_json(&report).expect("expressible")).expect("a run");
        assert_eq!(run_html(&back), page);
        let none = simulator.run(&[], &named("perfect", || PerfectTracking));
        assert!(run_html(&none).contains("0 drives, 0 failed"));
    }
}
