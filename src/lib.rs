//! Facade: one name for every crate of the workspace.

pub use spark_hal as hal;
pub use spark_model as model;
