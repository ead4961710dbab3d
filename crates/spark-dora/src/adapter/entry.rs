//! What an adapter keeps of a layer that was offered to it.

use super::size::LayerSize;
use crate::config::LayerConfig;
use crate::layer::factors::Factors;

/// A layer of an adapter.
pub(super) struct Entry {
    /// Nothing for plain layers, as for the other two.
    pub(super) config: Option<LayerConfig>,
    pub(super) factors: Option<Factors>,
    pub(super) fingerprint: Option<u64>,
    pub(super) size: LayerSize,
}
