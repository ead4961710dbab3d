//! Graphs as files.
//!
//! ```text
//! model.rs       graph -> messages, in memory
//! save.rs        the same in a file, large constants in a second one
//! graph.rs       nodes, and the bodies that they run
//! nodes.rs, attributes.rs    what operators write themselves with
//! ```

pub(crate) mod attributes;
mod graph;
mod model;
pub(crate) mod nodes;
mod save;

pub use model::to_bytes;
pub use save::{save, save_bytes};
