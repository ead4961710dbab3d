//! What is wrong between the machines of a cluster: two DGX Sparks and a cable, or more of them.
//!
//! ```text
//! records of machines ──> Host ───┐
//! measurements ───> Measurement ──┴─> Cluster ──> every check ──> doctor's Report
//! ```
//!
//! The doctor looks at one machine; this looks at what only several tell: whether both ends of a link agree, and how fast it is. Its checks
//! (`cluster.*`) are the doctor's own kind, and so are findings, text and JSON. A check passes only what it has looked at, on every host and between
//! every two of them.
//!
//! Pure: it starts nothing and sends nothing. Rates are measured by `sparkpilot-mpi measure`, whose file is read here. Addresses are not
//! in records that may be published; [`record`] keeps those that matter.
//!
//! Sources: NVIDIA/dgx-spark-playbooks and what owners of two Sparks have reported; each check names its own. Not yet run on two Sparks.

mod checks;
mod examine;
mod facts;
mod host;
mod measurement;
mod netplan;
mod record;

pub use crate::spread::Spread;
pub use examine::{checks, examine};
pub use facts::Cluster;
pub use host::Host;
pub use measurement::{Clock, ENVIRONMENT, Measurement, MeasurementError, Pair, Rank};
pub use netplan::{Netplan, NetplanError};
pub use record::record;
