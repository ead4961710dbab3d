//! Tests of `spark-data` on recorded drives and on what is no drive.

mod comma2k19;
mod drives;
mod expected;
mod hostile;
mod prefetch;
mod routes;
mod store;
mod video;
