//! Adapted layers: candle modules whose base is frozen.

pub(crate) mod composed;
mod conv;
pub(crate) mod embedding;
pub(crate) mod factors;
pub(crate) mod initial;
mod linear;
pub(crate) mod operation;
pub(crate) mod saved;
mod train;
pub(crate) mod with_base;

pub use conv::{DoraConv1d, DoraConv2d};
pub use embedding::DoraEmbedding;
pub use factors::{A_NAME, B_NAME, Factors, MAGNITUDE_NAME};
pub use linear::DoraLinear;
pub use saved::{SavedLayer, SavedTensors, WholeLayer};
pub use train::TrainModule;
