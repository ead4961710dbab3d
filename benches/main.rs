//! All benchmarks in one binary; every answer is checked before it is timed.
//!
//! Run: `cargo bench --bench spark -- [FILTER]`. Under `cargo test` each case runs once.

mod models;

criterion::criterion_group!(benches, models::load, models::run, models::real);
criterion::criterion_main!(benches);
