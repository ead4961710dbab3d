//! Routes: drives, in segments of a minute, and their files.
//!
//! ```text
//! on a device        <log id>--<n>/rlog.zst
//! downloaded         <dongle id>/<log id>/<n>/rlog.bz2       also <dongle id>|<log id>/<n>/
//! flat               <dongle id>_<log id>--<n>--rlog.bz2
//! data sets          comma2k19, commaCarSegments and CI's segments are nested like downloads
//! ```

mod find;
mod name;

pub use find::{FindError, Segment, SegmentFile, find_segments};
pub use name::{RouteName, SegmentName};
