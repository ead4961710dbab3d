//! How far a benchmark is, for whoever waits.

/// How far one model's measurement is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Model and precision.
    pub label: &'a str,
    /// Runs done.
    pub done: usize,
    /// Runs to do.
    pub total: usize,
}
