//! Every step says what it reads and writes.

use crate::graph::bind;
use crate::zoo;

#[test]
fn every_step_of_the_zoo_says_what_it_reads_and_writes() {
    let bound = bind(&zoo::driving_policy(0), &[]).expect("fixed shapes");
    let plan = crate::plan::lower(&bound).expect("lowers");
    let lines: Vec<String> = plan.steps.iter().map(|s| s.step.describe()).collect();
    assert!(lines.iter().all(|line| line.contains(" -> ")), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("+bias")),
        "{lines:#?}"
    );
    let scores = |line: &String| line.contains("scores *0.125");
    assert!(lines.iter().any(scores), "{lines:#?}");
}
