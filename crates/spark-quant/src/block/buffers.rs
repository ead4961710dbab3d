//! Memory that one tensor hands to the next.

/// Memory to write codes and byte scales into; whatever it holds is overwritten.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) codes: Vec<u8>,
    pub(crate) scales: Vec<u8>,
}
