//! From where on a machine is in trouble: what the doctor's checks and the monitor's alarm hold figures against.
//!
//! Sources stand with the checks that use them (`doctor::checks`); limits without one are this crate's choice.

/// Percent of time with a kernel running from which a GPU counts as busy.
pub(crate) const BUSY_PERCENT: u32 = 90;
/// Degrees Celsius above which a GPU counts as too hot.
pub(crate) const HOT_C: u32 = 85;
/// Clock in MHz under which a busy GB10 counts as stuck (sparkview's limit).
pub(crate) const STUCK_MHZ: u32 = 1400;
/// Available memory below which a GB10's host is near its end; tools keep 8 to 10 GiB.
pub(crate) const LOW_MEMORY_BYTES: u64 = 8 << 30;
/// Percent of time in which every task waits for memory, from which on a freeze is near. This crate's choice: files that are read and
/// pages that come back from swap give shares of a percent to a few, and `systemd-oomd` ends programs at 60 (`DefaultMemoryPressureLimit`,
/// oomd.conf(5)), which is too late for a machine that freezes.
pub(crate) const STALLED_PERCENT: f32 = 10.0;
