//! How long a load is, and how large its work.

use std::time::Duration;

/// How long a load is to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    pub(crate) duration: Duration,
    pub(crate) size: Size,
}

/// How large pieces of work are on a device that is fast enough for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes that are read, and copied: ten times the cache of a GB10.
    pub(crate) bytes: usize,
    /// Rows, columns and depth of products: few rows, as of a network that runs for one frame, and many.
    pub(crate) products: Vec<[usize; 3]>,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            products: vec![[64, 4096, 4096], [2048, 2048, 2048]],
        }
    }
}

impl LoadOptions {
    /// Shortest load: below it clocks have not risen.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// Longest load.
    pub const LONGEST: Duration = Duration::from_secs(600);

    /// A load of about this long, between [`Self::SHORTEST`] and [`Self::LONGEST`].
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        Self {
            duration: duration.clamp(Self::SHORTEST, Self::LONGEST),
            size: Size::default(),
        }
    }
}
