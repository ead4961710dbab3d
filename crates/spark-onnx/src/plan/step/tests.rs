//! Every step says what it reads and writes.

use crate::graph::bind;
use crate::tests::networks::attentive;

#[test]
fn every_step_says_what_it_reads_and_writes() {
    let bound = bind(&attentive(), &[]).expect("fixed shapes");
    let plan = crate::plan::lower(&bound).expect("lowers");
    let lines: Vec<String> = plan.steps.iter().map(|s| s.step.describe()).collect();
    assert!(lines.iter().all(|line| line.contains(" -> ")), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("+bias")),
        "{lines:#?}"
    );
    let scores = |line: &String| line.contains("scores *0.25");
    assert!(lines.iter().any(scores), "{lines:#?}");
}
