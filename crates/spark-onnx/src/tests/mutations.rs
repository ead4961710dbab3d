//! Damaged ONNX files give an error or a graph: no panic, no hang, no huge allocation.
//!
//! ```text
//! damaged file -> load -> write, load again -> bind -> if it is small: lower, execute, interpret
//! each within its time and memory
//! ```
//!
//! `SPARK_MUTATIONS` sets the number of mutants; the default takes a few seconds. Every
//! mutant follows from its number, which a failure prints, and `SPARK_MUTATION` runs one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{StaticGraph, bind};
use spark_onnx::plan::lower;
use spark_onnx::{Tensor, file, reference};

use spark_onnx_graph::samples::{DamagedFiles, every_operator};
use spark_testing::{Watch, test_data};

/// No single request, and no sum of what is held at once, may pass this.
const MAX_BYTES: usize = 2 << 30;

/// No mutant may take longer, on a machine that does other work as well.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Mutants whose values hold more elements are not run: the interpreter is slow by design.
const MAX_RUN_ELEMENTS: usize = 20_000;

/// How far a mutant came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Refused,
    Loaded,
    Bound,
    Ran,
}

fn try_mutant(bytes: &[u8]) -> Outcome {
    let Ok(graph) = file::parse(bytes, None) else {
        return Outcome::Refused;
    };
    let again = file::to_bytes(&graph).map(|bytes| file::parse(&bytes, None));
    if let Ok(Err(error)) = again {
        panic!("what was read and written is refused: {error}");
    }
    let Ok(bound) = bind(&graph, &[]) else {
        return Outcome::Loaded;
    };
    if !is_small(&bound) {
        return Outcome::Bound;
    }
    let inputs: Vec<(&str, Tensor)> = bound
        .inputs()
        .iter()
        .filter_map(|&id| {
            let value = bound.value(id);
            let zeros = Tensor::zeros(value.ty.dtype, value.ty.shape.clone()).ok()?;
            Some((value.name.as_str(), zeros))
        })
        .collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (*n, t)).collect();
    execute(&bound, &inputs);
    match reference::run(&bound, &inputs) {
        Ok(_) => Outcome::Ran,
        Err(_) => Outcome::Bound,
    }
}

/// The same on the executor, whose unsafe code must hold for whatever was bound; that results
/// agree is shown elsewhere, with weights that are numbers.
fn execute(bound: &StaticGraph, inputs: &[(&str, &Tensor)]) {
    let Ok(plan) = lower(bound) else { return };
    let Ok(mut executor) = Executor::new(plan, Isa::detect(), Arc::new(Pool::new(1))) else {
        return;
    };
    for i in 0..executor.plan().inputs.len() {
        let name = executor.plan().inputs[i].name.clone();
        if let Some((_, tensor)) = inputs.iter().find(|(given, _)| *given == name) {
            executor
                .set_input(i, *tensor)
                .expect("zeros of the input's type");
        }
    }
    if executor.run().is_ok() {
        for i in 0..executor.plan().outputs.len() {
            executor.output(i).expect("an output of the plan");
        }
    }
}

fn is_small(graph: &StaticGraph) -> bool {
    let elements = graph
        .values()
        .iter()
        .map(|v| v.ty.shape.iter().product::<usize>());
    elements.sum::<usize>() <= MAX_RUN_ELEMENTS
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// Runs one mutant and holds it against its limits.
fn check(files: &DamagedFiles, number: u64) -> Outcome {
    let bytes = files.mutant(number);
    let start = Instant::now();
    let watch = Watch::start();
    let outcome = catch_unwind(AssertUnwindSafe(|| try_mutant(&bytes)));
    let (largest, peak) = (watch.largest(), watch.peak());
    let time = start.elapsed();
    let Ok(outcome) = outcome else {
        panic!("mutant {number} panics; SPARK_MUTATION={number} runs it alone");
    };
    assert!(
        largest <= MAX_BYTES,
        "mutant {number} asks for {largest} bytes at once"
    );
    assert!(
        peak <= MAX_BYTES + bytes.len(),
        "mutant {number} holds {peak} bytes"
    );
    assert!(time <= MAX_TIME, "mutant {number} takes {time:?}");
    outcome
}

/// Files of every operator, and the real models if they are there.
fn damaged_files() -> DamagedFiles {
    let real = [
        "dmonitoring_0_8_5.onnx",
        "dmonitoring_0_8_9.onnx",
        "supercombo_0_7_4_random_fp16.onnx",
    ];
    let real = real
        .iter()
        .filter_map(|file| test_data(&format!("data/models/{file}")))
        .map(|path| std::fs::read(path).expect("readable"));
    DamagedFiles::new(&every_operator(), real.collect())
}

#[test]
fn damaged_files_are_refused_or_load() {
    let files = damaged_files();
    if let Some(number) = setting("SPARK_MUTATION") {
        check(&files, number);
        return;
    }
    let n_mutants = setting("SPARK_MUTATIONS").unwrap_or(400);
    let mut counts = [0usize; 4];
    let start = Instant::now();
    for number in 0..n_mutants {
        counts[check(&files, number) as usize] += 1;
    }
    let [refused, loaded, bound, ran] = counts;
    eprintln!(
        "{n_mutants} mutants in {:.1} s: {refused} refused, {loaded} loaded, {bound} bound, {ran} ran",
        start.elapsed().as_secs_f64()
    );
    // A test in which everything fails at the first byte would prove nothing.
    assert!(
        n_mutants < 100 || ran * 20 > n_mutants as usize,
        "only {ran} ran"
    );
}
