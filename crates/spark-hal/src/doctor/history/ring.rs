//! The kernel's ring buffer, `/dev/kmsg`: what it said since it started, the last megabyte or so.
//!
//! ```text
//! 4,1043,67543120,-;NVRM: Xid (PCI:000f:01:00): 31, ...
//! level and facility, number, microseconds since boot, flags; message
//!  SUBSYSTEM=pci                                        more about it, on lines that begin with a blank
//! ```
//!
//! Reading it takes nothing away from other readers; a record is one `read`, and without a new one the file says
//! "try again" and not "wait". Only root reads it where `kernel.dmesg_restrict` is 1, as on Ubuntu. Source: Linux
//! `Documentation/ABI/testing/dev-kmsg`. Below another root than `/` it is a plain file of such records.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use crate::reading::Reading;
use crate::root::Root;

use super::log::Log;
use super::when::Clock;

const PATH: &str = "/dev/kmsg";
const RECORDS_LIMIT: usize = 65_536;
const RECORD_BYTES: usize = 8 << 10;
/// `O_NONBLOCK` of Linux on x86-64 and Arm.
const NON_BLOCKING: i32 = 0o4000;

/// The records that are there now, or what hinders.
pub(super) fn read(root: &Root, clock: Clock) -> Result<Log, Option<String>> {
    let is_device =
        std::fs::metadata(root.path(PATH)).is_ok_and(|at| at.file_type().is_char_device());
    let text = if is_device && root.is_host() {
        records().map_err(|error| Some(format!("cannot read {PATH}: {error}")))?
    } else {
        match root.text(PATH) {
            Reading::Value(text) => text,
            Reading::NotSupported => return Err(None),
            Reading::Failed(why) => return Err(Some(why.to_string())),
        }
    };
    let mut log = Log::new(PATH, clock);
    for record in text.lines().rev() {
        if let Some((microseconds, message)) = record_of(record) {
            let when = clock.boot.map(|boot| boot.plus(microseconds / 1_000_000));
            log.add(when, Some(microseconds), message);
        }
    }
    if log.n_read == 0 {
        return Err(Some(format!("{PATH} holds no message")));
    }
    log.alive = clock.now;
    Ok(log)
}

fn records() -> std::io::Result<String> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).custom_flags(NON_BLOCKING).open(PATH)?;
    let mut text = String::new();
    let mut record = vec![0; RECORD_BYTES];
    for _ in 0..RECORDS_LIMIT {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&record[..length])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The record to be read was overwritten meanwhile: the next read is of the oldest one left.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// Time and message of a record of the kernel or of systemd's journal.
fn record_of(record: &str) -> Option<(i64, &str)> {
    let (prefix, message) = record.split_once(';')?;
    let mut fields = prefix.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let microseconds: u64 = fields.nth(1)?.parse().ok()?;
    let is_kernel = priority >> 3 == 0;
    let is_journal = message.starts_with("systemd-journald[");
    (is_kernel || is_journal).then_some((i64::try_from(microseconds).ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_of_the_kernel_or_the_journal() {
        assert_eq!(
            record_of("4,7,67543120,-;NVRM: x"),
            Some((67_543_120, "NVRM: x"))
        );
        assert_eq!(record_of("30,7,1,-;app: NVRM: x"), None);
        assert_eq!(
            record_of("30,7,1,-;systemd-journald[1]: x"),
            Some((1, "systemd-journald[1]: x"))
        );
        for text in [
            "",
            " SUBSYSTEM=pci",
            "x,1,2,-;y",
            "4,1;y",
            "4,1,-3,-;y",
            "4,1,2",
        ] {
            assert_eq!(record_of(text), None, "{text}");
        }
    }
}
