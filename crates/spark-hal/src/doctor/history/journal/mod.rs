//! systemd's journal, read from its files without starting a process.
//!
//! ```text
//! /var/log/journal/<machine>/system.journal                              being written
//!                           /system@<id>-<number>-<first, us>.journal    full ones, put away
//!                           /system@<when, us>-<random>.journal~         found not closed at a boot: dated evidence
//! /run/log/journal/...                                                   the same, of a machine that keeps none
//! ```
//!
//! Newest files first, at most 24 files and 50 000 messages of the kernel, and no longer than 0.8 s. Files are for
//! root and the groups adm and systemd-journal; their names anybody may list. Of a journal that is larger, only so much is known, which
//! is said.

mod boots;
mod file;

use std::time::{Duration, Instant};

use boots::Boots;
use file::JournalFile;

use crate::root::Root;

use super::event::{Event, Kind};
use super::log::Log;
use super::when::{Clock, Moment};

const PLACES: [&str; 2] = ["/var/log/journal", "/run/log/journal"];
const FILES_LIMIT: usize = 24;
const MESSAGES_LIMIT: usize = 50_000;
const TIME_LIMIT: Duration = Duration::from_millis(800);

/// What the journal gives.
pub(super) struct Journal {
    /// The kernel's messages; `None` if no file has any that can be read.
    pub(super) log: Option<Log>,
    /// Boots that found a journal which nobody had closed.
    pub(super) unclean: Vec<Event>,
    /// How much was read, if that is not all.
    pub(super) cut: Option<String>,
    /// What could not be read.
    pub(super) hindrances: Vec<String>,
}

/// A file of the journal.
struct Place {
    path: String,
    /// Microseconds since 1970 that stand in its name; the file that is being written has the latest.
    microseconds: u64,
    is_unclean: bool,
}

/// Reads the journal's files.
pub(super) fn read(root: &Root, clock: Clock) -> Journal {
    let deadline = Instant::now() + TIME_LIMIT;
    let in_time = || format!("in {} s", TIME_LIMIT.as_secs_f32());
    let mut journal = Journal {
        log: None,
        unclean: Vec::new(),
        cut: None,
        hindrances: Vec::new(),
    };
    for folder in PLACES {
        let files = files(root, folder);
        journal
            .unclean
            .extend(files.iter().filter(|file| file.is_unclean).map(unclean));
        let mut log = Log::new(folder, clock);
        // A full file ends where the next one begins.
        let mut newer_begins = u64::MAX;
        let mut boots = Boots::default();
        let mut cut = None;
        for (number, file) in files.iter().enumerate() {
            let left = MESSAGES_LIMIT.saturating_sub(log.n_read);
            cut = if Instant::now() >= deadline {
                Some(in_time())
            } else if left == 0 {
                Some(format!("of {MESSAGES_LIMIT} at most"))
            } else if number >= FILES_LIMIT {
                Some(format!("of {FILES_LIMIT} files"))
            } else {
                None
            };
            if cut.is_some() {
                break;
            }
            let end = if file.is_unclean {
                file.microseconds
            } else {
                newer_begins
            };
            // What is wrong with an old file hides nothing recent.
            let is_recent = clock.recent_from().is_none_or(|from| moment(end) >= from);
            let was_damaged = log.is_damaged;
            match JournalFile::open(&root.path(&file.path)) {
                Ok(mut open) => {
                    if !open.read_kernel(&mut log, &mut boots, left, deadline) {
                        cut = Some(in_time());
                        break;
                    }
                }
                Err(why) => {
                    log.is_damaged = true;
                    journal
                        .hindrances
                        .push(format!("cannot read a file in {folder}: {why}"));
                }
            }
            log.is_damaged = was_damaged || (log.is_damaged && is_recent);
            if !file.is_unclean {
                newer_begins = file.microseconds;
            }
        }
        // One says why.
        journal.hindrances.truncate(1);
        if let Some(cut) = cut {
            journal.cut.get_or_insert(format!(
                "of {folder} only the newest {} messages of the kernel were read, {cut}",
                log.n_read
            ));
        }
        if log.n_read > 0 {
            journal.log = Some(log);
            return journal;
        }
    }
    journal
}

/// The files of this machine's journal, newest first.
fn files(root: &Root, folder: &str) -> Vec<Place> {
    let own = root.line("/etc/machine-id").value();
    let is_machine = |name: &str| {
        let is_id = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id && own.as_deref().is_none_or(|own| own == name)
    };
    let machines = root
        .entries_where(folder, is_machine)
        .value()
        .unwrap_or_default();
    let mut files = Vec::new();
    for machine in machines.iter().take(4) {
        let directory = format!("{folder}/{machine}");
        let names = root.entries_where(&directory, |name| name.starts_with("system"));
        let names = names.value().unwrap_or_default();
        files.extend(names.iter().filter_map(|name| place(&directory, name)));
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.microseconds));
    files
}

fn place(directory: &str, name: &str) -> Option<Place> {
    let path = format!("{directory}/{name}");
    if name == "system.journal" {
        return Some(Place {
            path,
            microseconds: u64::MAX,
            is_unclean: false,
        });
    }
    let numbers = name.strip_prefix("system@")?;
    let (numbers, is_unclean) = match numbers.strip_suffix(".journal") {
        Some(numbers) => (numbers, false),
        None => (numbers.strip_suffix(".journal~")?, true),
    };
    let parts: Vec<&str> = numbers.split('-').collect();
    let time = match (parts.as_slice(), is_unclean) {
        ([_, _, time], false) | ([time, _], true) => time,
        _ => return None,
    };
    let is_hexadecimal = time.bytes().all(|byte| byte.is_ascii_hexdigit());
    let microseconds = is_hexadecimal.then(|| u64::from_str_radix(time, 16).ok())??;
    Some(Place {
        path,
        microseconds,
        is_unclean,
    })
}

fn moment(microseconds: u64) -> Moment {
    Moment(i64::try_from(microseconds / 1_000_000).unwrap_or(i64::MAX))
}

fn unclean(file: &Place) -> Event {
    Event {
        kind: Kind::Unclean,
        when: Some(moment(file.microseconds)),
        since_boot_us: None,
        said: "a file of the journal that nobody had closed (system@….journal~)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_when() {
        let read =
            |name: &str| place("/d", name).map(|place| (place.microseconds, place.is_unclean));
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(read("system.journal"), Some((u64::MAX, false)));
        let full = format!("system@{id}-0000000000000001-00064c6de8bb5005.journal");
        assert_eq!(read(&full), Some((0x6_4c6d_e8bb_5005, false)));
        let unclean = "system@00064c6de8bb5005-94dae81dda9bbd50.journal~";
        assert_eq!(read(unclean), Some((0x6_4c6d_e8bb_5005, true)));
        for name in [
            "system@.journal",
            "system@x-y-z.journal",
            "system@1-2.journal",
            "system@1-2-3.journal~",
            "system@1-2-3",
            "system@+1-2.journal~",
            "system@11111111111111111-2.journal~",
            "systemd",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
