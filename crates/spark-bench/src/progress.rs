//! How far a benchmark is, for whoever waits.

/// How far one model's measurement is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Name of the model and of the precision, for people.
    pub label: &'a str,
    /// Runs that are done, those to warm up included.
    pub done: usize,
    /// Runs that will be done in all, those to warm up included.
    pub total: usize,
}
