//! All benchmarks in one binary; every answer is checked before it is timed.
//!
//! Run: `cargo bench --bench spark -- [FILTER]`. Under `cargo test` each case runs once.

mod machine;
mod models;

criterion::criterion_group!(
    benches,
    machine::detect,
    models::load,
    models::run,
    models::real
);
criterion::criterion_main!(benches);
