//! What was chosen, what decided it, and the figures.
//!
//! ```text
//! KindChoice ──> kind, by_attributes
//!            ──> KindEvidence      caller | environment | kept | measured | attributes: NotMeasured
//!            ──> KindMeasurement   one KindSpeed for each kind
//! ```

use std::fmt;
use std::time::Duration;

use crate::backend::info::{DeviceInfo, DeviceKind};
use crate::kind::BufferKind;

/// The kind of memory that shared buffers get on a device, and why.
///
/// # Examples
///
/// ```
/// use spark_mem::{BufferKind, Device, KindEvidence, NotMeasured};
///
/// let device = Device::host();
/// let choice = device.shared_kind_choice();
/// assert_eq!(choice.kind, BufferKind::Host);
/// assert_eq!(choice.evidence, KindEvidence::Attributes(NotMeasured::NothingToChoose));
/// println!("shared buffers: {choice}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindChoice {
    /// The kind that they get.
    pub kind: BufferKind,
    /// The kind that the hardware's attributes say, which `kind` is unless somebody said otherwise,
    /// another was measured to be faster, or the measurement read wrong values.
    pub by_attributes: BufferKind,
    /// What decided.
    pub evidence: KindEvidence,
    /// The figures, where there are some.
    pub measurement: Option<KindMeasurement>,
}

/// What decided about the kind of shared buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KindEvidence {
    /// [`DeviceOptions::shared_kind`](crate::DeviceOptions::shared_kind).
    Caller,
    /// `SPARK_MEMORY_KIND`.
    Environment,
    /// Figures that an earlier run measured and kept.
    Kept,
    /// Figures measured when the device was opened.
    Measured,
    /// What the hardware says of itself, as there are no figures.
    Attributes(NotMeasured),
}

/// Why there are no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotMeasured {
    /// The device shares no memory with the CPU, may not, or has one kind only.
    NothingToChoose,
    /// [`DeviceOptions::measures_memory`](crate::DeviceOptions::measures_memory) is off.
    NotAsked,
    /// There is no folder to keep them in.
    NoCacheFolder,
    /// `SPARK_MEMORY_KIND` named this kind, which the device does not have.
    Unavailable(BufferKind),
    /// The measurement failed, in its own words.
    Failed(String),
    /// Memory of this kind gave the CPU other values than the GPU wrote. Shared buffers are then
    /// [`BufferKind::Device`], whatever the attributes say.
    WrongValues(BufferKind),
}

/// How long a round trip took in each kind of memory: the host writes every byte, a kernel reads and
/// changes each, the host reads them again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindMeasurement {
    /// Bytes of a round trip.
    pub len_bytes: usize,
    /// Round trips of each kind, which took turns.
    pub n_rounds: usize,
    /// One for each kind, the one by attributes first.
    pub speeds: Vec<KindSpeed>,
}

/// How long a round trip took in one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindSpeed {
    /// The kind.
    pub kind: BufferKind,
    /// The host's writes, in the median of the rounds.
    pub host_writes: Duration,
    /// Launching the kernel, its reads and writes, and waiting for it, in the median.
    pub device_updates: Duration,
    /// The host's reads, in the median.
    pub host_reads: Duration,
    /// The whole round, in the median.
    pub round: Duration,
    /// The whole round, the fastest.
    pub fastest_round: Duration,
}

/// The kind for data that both sides use, by what the hardware says of itself; see
/// [`Device::shared_kind`](crate::Device::shared_kind).
fn kind_by_attributes(info: &DeviceInfo) -> BufferKind {
    match info.kind {
        DeviceKind::Host => BufferKind::Host,
        _ if info.is_unified && info.shares_page_tables => BufferKind::System,
        _ if info.is_unified => BufferKind::Pinned,
        _ => BufferKind::Device,
    }
}

impl KindChoice {
    /// What the hardware says, as there are no figures.
    pub(crate) fn by_attributes(info: &DeviceInfo, why: NotMeasured) -> Self {
        let kind = kind_by_attributes(info);
        Self {
            kind,
            by_attributes: kind,
            evidence: KindEvidence::Attributes(why),
            measurement: None,
        }
    }
}

impl fmt::Display for KindChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {}", self.kind, self.evidence)?;
        if let Some(measurement) = &self.measurement {
            write!(f, " ({measurement})")?;
        }
        Ok(())
    }
}

impl fmt::Display for KindEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("given by the caller"),
            Self::Environment => f.write_str("from the environment"),
            Self::Kept => f.write_str("kept from an earlier run"),
            Self::Measured => f.write_str("measured now"),
            Self::Attributes(why) => write!(f, "by attributes: {why}"),
        }
    }
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToChoose => f.write_str("there is nothing to choose between"),
            Self::NotAsked => f.write_str("no measurement was asked for"),
            Self::NoCacheFolder => f.write_str("there is no folder to keep a measurement in"),
            Self::Unavailable(kind) => write!(f, "the environment asked for {kind:?} memory"),
            Self::Failed(why) => write!(f, "the measurement failed because {why}"),
            Self::WrongValues(kind) => {
                write!(f, "{kind:?} memory gave other values than the GPU wrote")
            }
        }
    }
}

/// Microseconds of a round trip, for each kind.
impl fmt::Display for KindMeasurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        for (idx, speed) in self.speeds.iter().enumerate() {
            let comma = if idx == 0 { "" } else { ", " };
            write!(f, "{comma}{:?} {:.1} us", speed.kind, us(speed.round))?;
        }
        write!(
            f,
            " for {} KiB there and back, median of {}",
            self.len_bytes >> 10,
            self.n_rounds
        )
    }
}
