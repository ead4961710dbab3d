//! Which kind of memory shared buffers get on a device, and how that was decided.
//!
//! ```text
//! 1  DeviceOptions::with_shared_kind     the program's word; a kind it cannot have is an error
//! 2  SPARK_MEMORY_KIND                   the user's word; a kind it cannot have is a warning
//! 3  a GPU that shares the machine's memory, has several kinds, and a cache folder:
//!      kept   figures of an earlier run ──┐
//!      measure  a round trip per kind  ───┴──> rule: by attributes, unless another is a tenth faster
//! 4  otherwise                           the hardware's attributes
//! ```
//!
//! It is decided while the device is opened. Nothing of the program runs on the device then, which
//! would disturb the figures, and everything later has one plain answer: asking for the kind never
//! waits for a GPU, inside a recording neither. Without a cache folder nothing is measured: a choice
//! that is not kept could change from run to run.
//!
//! Deliberately absent: memory of the device alone (`private_kind`), copies, several GPUs.
//! Not yet run on a GB10: what the kinds reach there nobody has published.

mod choice;
#[cfg(feature = "cuda")]
mod choose;
#[cfg(feature = "cuda")]
mod kept;
#[cfg(feature = "cuda")]
mod measure;
#[cfg(feature = "cuda")]
mod rule;

pub use choice::{KindChoice, KindEvidence, KindMeasurement, KindSpeed, NotMeasured};
#[cfg(feature = "cuda")]
pub(crate) use choose::{Wanted, choose};
