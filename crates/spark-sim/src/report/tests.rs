//! Reports: the three forms agree, names are escaped, an empty run has one too.

use super::*;
use crate::SimError;
use crate::compare::{CompareOptions, compare};
use crate::control::{DoNothing, PerfectTracking, named};
use crate::run::{RunOptions, RunReport, Simulator};
use crate::scenario::{Fuzzer, Scenario};

fn runs() -> (Vec<Scenario>, RunReport, RunReport) {
    let mut scenarios: Vec<Scenario> = Fuzzer::new(4).iter(12).collect();
    scenarios[0].name = "<script>alert(1)</script> | pipe".to_owned();
    let options = RunOptions {
        record_interval_s: Some(0.1),
        ..RunOptions::default()
    };
    let simulator = Simulator::new(options).expect("valid options");
    let baseline = simulator.run(&scenarios, &named("perfect", || PerfectTracking));
    let candidate = simulator.run(&scenarios, &named("<nothing>", || DoNothing));
    (scenarios, baseline, candidate)
}

#[test]
fn html_is_self_contained_and_escapes_names() {
    let (scenarios, baseline, candidate) = runs();
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    let replay = Replay {
        scenario: &scenarios[0],
        baseline: baseline.results[0].trace.as_ref(),
        candidate: candidate.results[0].trace.as_ref().expect("recorded"),
    };
    let page = html(&comparison, &baseline, &candidate, &[replay]).expect("a page");
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(!page.contains("src=") && !page.contains("href="));
    assert!(page.matches("<svg").count() >= 6);
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert_eq!(
        page.matches("<table").count(),
        page.matches("</table>").count()
    );
}

#[test]
fn markdown_and_json_tell_the_same_story() {
    let (_, baseline, candidate) = runs();
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    let text = markdown(&comparison);
    assert!(text.contains("**fail**") && text.contains("\\| pipe"));
    let value: serde_json::Value =
        serde_json::from_str(&json(&comparison).expect("expressible")).expect("JSON");
    assert_eq!(
        value["metrics"].as_array().expect("a list").len(),
        comparison.metrics.len()
    );
    let run: serde_json::Value =
        serde_json::from_str(&run_json(&baseline).expect("expressible")).expect("JSON");
    assert_eq!(run["drives"].as_array().expect("a list").len(), 12);
    assert!(run_markdown(&baseline).contains("lateral_error_rmse"));
}

#[test]
fn no_name_breaks_a_line_of_markdown() {
    let (_, mut baseline, mut candidate) = runs();
    let name = "a|b `c`\n| d | **e** \\";
    for report in [&mut baseline, &mut candidate] {
        for result in &mut report.results {
            result.name = name.to_owned();
        }
        report.algorithm = name.to_owned();
        report.device = name.to_owned();
    }
    let safe = "a\\|b \\`c\\` \\| d \\| \\*\\*e\\*\\* \\\\";
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    for text in [markdown(&comparison), run_markdown(&baseline)] {
        assert!(text.starts_with(&format!("# {safe}")), "{text}");
        assert!(!text.contains("a|b") && !text.contains("\n| d |"), "{text}");
        // Every row of a table has as many bars as the line below its headings.
        let mut n_bars = 0;
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        for line in text.lines().filter(|line| line.starts_with('|')) {
            if line.starts_with("|---") {
                n_bars = bars(line);
            } else if n_bars > 0 && !line.starts_with("| metric") && !line.starts_with("| event |")
            {
                assert_eq!(bars(line), n_bars, "{line}");
            }
        }
        assert!(n_bars > 0);
    }
}

#[test]
fn the_reports_show_p_before_and_after_adjusting() {
    use number::p_value;
    let (_, baseline, candidate) = runs();
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    let text = markdown(&comparison);
    let page = html(&comparison, &baseline, &candidate, &[]).expect("a page");
    let mut n_adjusted = 0;
    for m in &comparison.metrics {
        let start = format!("| {} |", m.metric);
        let Some(row) = text.lines().find(|line| line.starts_with(&start)) else {
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [raw, adjusted] = [m.p_difference, m.p_adjusted].map(p_value);
        assert_eq!(cells[10..12], [raw.as_str(), adjusted.as_str()], "{row}");
        n_adjusted += usize::from(raw != adjusted);
        let [raw, adjusted] = [raw, adjusted].map(|p| spark_drawing::markup::escape(&p));
        let cells = format!("<td>{raw}</td><td>{adjusted}</td>");
        assert!(page.contains(&cells), "{}: {cells}", m.metric);
    }
    assert!(n_adjusted > 0, "an adjusted p is another number");
}

#[test]
fn an_empty_run_still_makes_reports() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let empty = simulator.run(&[], &named("perfect", || PerfectTracking));
    let comparison = compare(&empty, &empty, &CompareOptions::default()).expect("comparable");
    assert!(html(&comparison, &empty, &empty, &[]).is_ok());
    assert!(markdown(&comparison).contains("0 scenarios"));
}

#[test]
fn what_json_cannot_express_is_an_error_and_what_is_absent_is_null() {
    use crate::metric::Metrics;
    let (_, mut baseline, candidate) = runs();
    let written = run_json(&baseline).expect("expressible");
    let value: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let mut n_absent = 0;
    for (drive, result) in value["drives"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(&baseline.results)
    {
        let read: Metrics = serde_json::from_value(drive["metrics"].clone()).expect("metrics");
        let metrics = result.outcome.as_ref().expect("finished");
        assert_eq!(&read, metrics);
        assert_eq!(
            drive["metrics"]["ttc_min"].is_null(),
            metrics.ttc_min.is_none()
        );
        n_absent += usize::from(metrics.ttc_min.is_none());
    }
    assert!(n_absent > 0);
    if let Ok(metrics) = &mut baseline.results[2].outcome {
        metrics.jerk_rms = f64::NAN;
    }
    let error = run_json(&baseline).expect_err("no such number in JSON");
    assert!(
        error.to_string().contains("jerk_rms of fuzz 4 2"),
        "{error}"
    );
    // In a comparison that drive is a failure, so its numbers are all finite.
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    assert!(json(&comparison).is_ok());
    let mut broken = comparison;
    broken.metrics[0].delta = f64::INFINITY;
    assert!(matches!(json(&broken), Err(SimError::NotFinite { .. })));
}

#[test]
fn a_page_of_two_devices_names_both() {
    let (_, mut baseline, candidate) = runs();
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    let page = |baseline: &_| html(&comparison, baseline, &candidate, &[]).expect("a page");
    let one = format!(", on {}.", candidate.device);
    assert!(page(&baseline).contains(&one));
    baseline.device = "another one".to_owned();
    let page = page(&baseline);
    let other = format!(" on {}.", candidate.device);
    assert!(page.contains(" on another one, candidate ") && page.contains(&other));
    assert!(!page.contains(&one));
}

#[test]
fn reports_say_what_the_gate_decided_and_why() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let few: Vec<Scenario> = Fuzzer::new(4).iter(3).collect();
    let run = simulator.run(&few, &named("perfect", || PerfectTracking));
    let comparison = compare(&run, &run, &CompareOptions::default()).expect("comparable");
    let page = html(&comparison, &run, &run, &[]).expect("a page");
    for text in [markdown(&comparison), page] {
        assert!(text.to_lowercase().contains("undecided"));
        assert!(text.contains("3 independent families of scenarios, at least 5 are needed"));
    }
    let (_, baseline, candidate) = runs();
    let comparison =
        compare(&baseline, &candidate, &CompareOptions::default()).expect("comparable");
    let text = markdown(&comparison);
    assert!(text.contains("worse beyond the margin") && text.contains("## Events"));
}
