//! What sets A of an adapter's layers before training sees of them.

use serde_json::Value;

use super::Adapter;
use crate::config::LayerConfig;
use crate::layer::Factors;

impl Adapter {
    /// The layers under the adapter, by name.
    pub(crate) fn adapted_layers(&self) -> impl Iterator<Item = (&str, &LayerConfig, &Factors)> {
        self.layers.iter().filter_map(|(name, entry)| {
            let (config, factors) = entry.adapted()?;
            Some((name.as_str(), config, factors))
        })
    }

    /// Whether a layer of this name was offered.
    pub(crate) fn was_offered(&self, name: &str) -> bool {
        self.layers.contains_key(name)
    }

    /// Sets a setting of PEFT's that this crate writes and does not act on.
    pub(crate) fn note_setting(&mut self, name: &str, value: Value) {
        self.config.other.insert(name.to_owned(), value);
    }
}
