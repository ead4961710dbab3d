//! Recorded drives of openpilot.

pub mod log;
pub mod schema;
pub mod wire;
