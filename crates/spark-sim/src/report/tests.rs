//! Reports: the three forms agree, names are escaped, an empty run has one too.

use super::*;
use crate::compare::{CompareOptions, compare};
use crate::control::{DoNothing, PerfectTracking, named};
use crate::run::{RunOptions, Simulator};
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
    assert!(text.contains("**Something got worse.**") && text.contains("\\| pipe"));
    let value: serde_json::Value =
        serde_json::from_str(&json(&comparison).expect("expressible")).expect("JSON");
    assert_eq!(
        value["metrics"].as_array().expect("a list").len(),
        comparison.metrics.len()
    );
    let run: serde_json::Value =
        serde_json::from_str(&run_json(&baseline).expect("expressible")).expect("JSON");
    assert_eq!(run["scenarios"].as_array().expect("a list").len(), 12);
    assert!(run_markdown(&baseline).contains("lateral_error_rmse"));
}

#[test]
fn an_empty_run_still_makes_reports() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let empty = simulator.run(&[], &named("perfect", || PerfectTracking));
    let comparison = compare(&empty, &empty, &CompareOptions::default()).expect("comparable");
    assert!(html(&comparison, &empty, &empty, &[]).is_ok());
    assert!(markdown(&comparison).contains("0 scenarios"));
}
