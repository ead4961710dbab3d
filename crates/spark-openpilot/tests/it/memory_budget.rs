//! The budget of memory that a caller sets for a whole network.

use spark_onnx::{ModelError, ModelRunner, RunOptions};
use spark_openpilot::zoo;

#[test]
fn the_budget_that_is_set_decides() {
    let run = |budget: usize| {
        let options = RunOptions::new().with_threads(1).with_memory_budget(budget);
        ModelRunner::from_graph(zoo::driving_policy(0), &options)
    };
    let memory = run(1 << 30).expect("fits").memory();
    let needed = memory.arena_bytes + memory.weight_bytes;
    let error = run(needed / 2).expect_err("half of it is too little");
    let ModelError::OverBudget { budget, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(budget, needed / 2);
    assert!(run(2 * needed + (1 << 20)).is_ok());
}
