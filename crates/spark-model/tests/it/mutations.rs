//! Damaged ONNX files give an error or a graph: no panic, no hang, no huge allocation.
//!
//! ```text
//! damaged file -> load -> write, load again -> bind -> run, if it is small
//! each within its time and memory
//! ```
//!
//! `SPARK_MUTATIONS` sets the number of mutants; the default takes a few seconds. Every
//! mutant follows from its number, which a failure prints, and `SPARK_MUTATION` runs one.

#![allow(
    unsafe_code,
    reason = "a global allocator that measures is unsafe to implement"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use spark_model::graph::{StaticGraph, bind};
use spark_model::{Tensor, onnx, reference};

use crate::onnx_damage::Seeds;

/// No single request, and no sum of what is held at once, may pass this.
const MAX_BYTES: usize = 2 << 30;

/// No mutant may take longer, on a machine that does other work as well.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Mutants whose values hold more elements are not run: the interpreter is slow by design.
const MAX_RUN_ELEMENTS: usize = 20_000;

/// Counts what one thread allocates.
struct Measuring;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note_allocated(size: usize) {
    // Threads that end may allocate after their counters are gone.
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(size);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
    });
}

fn note_freed(size: usize) {
    // Memory another thread has allocated was not counted here.
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(size)));
}

// SAFETY: every method hands its arguments unchanged to the system's allocator, whose
// contract is the caller's; the counters only touch constant-initialised thread-local
// cells without destructors, so they neither allocate nor unwind.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: `layout` is the caller's, as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: `layout` is the caller's, as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may both be there while the elements are copied.
        note_allocated(new_size);
        note_freed(layout.size());
        // SAFETY: `ptr` came from this allocator, that is from the system's, with `layout`;
        // `new_size` is the caller's.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note_freed(layout.size());
        // SAFETY: `ptr` came from the system's allocator with `layout`, as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// How far a mutant came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Refused,
    Loaded,
    Bound,
    Ran,
}

fn try_mutant(bytes: &[u8]) -> Outcome {
    let Ok(graph) = onnx::parse(bytes, None) else {
        return Outcome::Refused;
    };
    let again = onnx::to_bytes(&graph).map(|bytes| onnx::parse(&bytes, None));
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
        .inputs
        .iter()
        .filter_map(|&id| {
            let value = bound.value(id);
            let zeros = Tensor::zeros(value.ty.dtype, value.ty.shape.clone()).ok()?;
            Some((value.name.as_str(), zeros))
        })
        .collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (*n, t)).collect();
    match reference::run(&bound, &inputs) {
        Ok(_) => Outcome::Ran,
        Err(_) => Outcome::Bound,
    }
}

fn is_small(graph: &StaticGraph) -> bool {
    let elements = graph
        .values
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
fn check(seeds: &Seeds, number: u64) -> Outcome {
    let bytes = seeds.mutant(number);
    let start = Instant::now();
    let held = HELD.get();
    PEAK.set(held);
    LARGEST.set(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| try_mutant(&bytes)));
    let (largest, peak) = (LARGEST.get(), PEAK.get() - held);
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

#[test]
fn damaged_files_are_refused_or_load() {
    let seeds = Seeds::new();
    if let Some(number) = setting("SPARK_MUTATION") {
        check(&seeds, number);
        return;
    }
    let n_mutants = setting("SPARK_MUTATIONS").unwrap_or(400);
    let mut counts = [0usize; 4];
    let start = Instant::now();
    for number in 0..n_mutants {
        counts[check(&seeds, number) as usize] += 1;
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

#[test]
fn the_allocator_sees_what_this_thread_takes() {
    PEAK.set(HELD.get());
    LARGEST.set(0);
    let held = HELD.get();
    let list = vec![1u8; 1 << 20];
    assert_eq!(LARGEST.get(), 1 << 20);
    assert!(PEAK.get() - held >= list.len());
    drop(list);
    assert_eq!(HELD.get(), held);
}
