//! Which looks are kept, and the files they become.
//!
//! ```text
//! anomaly-20260301T070509.040Z.jsonl
//!   {"schema":"sparkpilot-anomaly/1","time":…,"crossed":[{"limit":"low_memory","gpu":null,"words":…}],…}
//!   {"schema":"sparkpilot-monitor/1",…}     looks of up to five minutes before, as `monitor --form json` writes them
//!   {"schema":"sparkpilot-monitor/1",…}     looks of half a minute after, appended one by one
//! ```
//!
//! Bounded: the ring in bytes; a file in what follows; files in number and bytes, the oldest of them give way; a limit
//! is recorded once in five minutes, whatever GPU crosses it. A file that cannot be written is tried again every ten
//! seconds while the ring still holds what it is about.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;
use spark_program::{output, printable, with_causes};
use sparkpilot::hal::monitor::{Alarm, Crossing, Limit, Look, utc};

/// What a recording's own lines are.
const SCHEMA: &str = "sparkpilot-anomaly/1";

/// Looks older than this are forgotten.
const BEFORE_MS: u64 = 5 * 60_000;
/// So long looks are appended.
const AFTER_MS: u64 = 30_000;
/// A limit is recorded no more often.
const BETWEEN_MS: u64 = 5 * 60_000;
/// Between two tries to write.
const AGAIN_MS: u64 = 10_000;
/// Crossings that one recording names at its head.
const MOST_CROSSINGS: usize = 64;

/// What a folder may hold; tests have less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of looks in memory, and so in a file before its limit was crossed.
    pub(super) ring_bytes: usize,
    /// Bytes of a file behind that.
    pub(super) after_bytes: usize,
    /// Recordings in the folder.
    pub(super) n_files: usize,
    /// Bytes of them together.
    pub(super) folder_bytes: u64,
}

const BOUNDS: Bounds = Bounds {
    ring_bytes: 8 << 20,
    after_bytes: 4 << 20,
    n_files: 20,
    folder_bytes: 64 << 20,
};

/// A recording that the moments after are appended to.
struct Open {
    path: PathBuf,
    file: File,
    until_ms: u64,
    n_bytes: usize,
}

/// A recording that is to be made.
struct Wanted {
    time: SystemTime,
    since_ms: u64,
    crossed: Vec<Crossing>,
    next_try_ms: u64,
}

/// The ring of the last minutes and the folder of recordings.
pub(super) struct Recordings {
    folder: PathBuf,
    bounds: Bounds,
    alarm: Alarm,
    ring: VecDeque<(u64, String)>,
    ring_bytes: usize,
    open: Option<Open>,
    wanted: Option<Wanted>,
    /// When a limit was recorded last.
    recorded: BTreeMap<Limit, u64>,
    words: String,
}

impl Recordings {
    pub(super) fn of(folder: &Path) -> Self {
        Self::within(folder, BOUNDS)
    }

    pub(super) fn within(folder: &Path, bounds: Bounds) -> Self {
        Self {
            folder: folder.to_owned(),
            bounds,
            alarm: Alarm::default(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            open: None,
            wanted: None,
            recorded: BTreeMap::new(),
            words: String::new(),
        }
    }

    /// What was recorded last, or why it cannot be.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Keeps a look, and records it with those before where it crosses a limit.
    pub(super) fn take(&mut self, look: &Look) {
        let now = look.host.at_ms;
        let news = self.alarm.news(look);
        let line = look.to_json() + "\n";
        if self.open.is_some() {
            self.append(look, &news, &line);
            self.push(now, line);
            return;
        }
        self.push(now, line);
        let is_due = |crossing: &Crossing| {
            let before = self.recorded.get(&crossing.limit);
            before.is_none_or(|before| now.saturating_sub(*before) >= BETWEEN_MS)
        };
        let due: Vec<Crossing> = news.into_iter().filter(is_due).collect();
        if !due.is_empty() {
            let wanted = self.wanted.get_or_insert_with(|| Wanted {
                time: look.time,
                since_ms: now,
                crossed: Vec::new(),
                next_try_ms: now,
            });
            wanted.crossed.extend(due);
            wanted.crossed.truncate(MOST_CROSSINGS);
        }
        if self
            .wanted
            .as_ref()
            .is_some_and(|wanted| now >= wanted.next_try_ms)
        {
            self.record(look);
        }
    }

    fn push(&mut self, now: u64, line: String) {
        self.ring_bytes += line.len();
        self.ring.push_back((now, line));
        let is_old = |at: u64| now.saturating_sub(at) > BEFORE_MS;
        while self
            .ring
            .front()
            .is_some_and(|(at, _)| is_old(*at) || self.ring_bytes > self.bounds.ring_bytes)
        {
            if let Some((_, line)) = self.ring.pop_front() {
                self.ring_bytes -= line.len();
            }
        }
    }

    /// Writes the ring as a file, or says why not.
    fn record(&mut self, look: &Look) {
        let Some(mut wanted) = self.wanted.take() else {
            return;
        };
        let now = look.host.at_ms;
        let names: Vec<&str> = wanted.crossed.iter().map(|it| it.limit.name()).collect();
        match self.write(&wanted, look) {
            Ok(open) => {
                self.words = format!(
                    "{}: recorded in {}",
                    names.join(", "),
                    printable(&open.path.display().to_string())
                );
                self.recorded
                    .extend(wanted.crossed.iter().map(|it| (it.limit, now)));
                self.open = Some(open);
                self.clear_away();
            }
            Err(why) => {
                self.words = format!("{}: not recorded: {}", names.join(", "), in_words(&*why));
                wanted.next_try_ms = now.saturating_add(AGAIN_MS);
                if now.saturating_sub(wanted.since_ms) < BEFORE_MS {
                    self.wanted = Some(wanted);
                }
            }
        }
    }

    fn write(&self, wanted: &Wanted, look: &Look) -> Result<Open, Box<dyn std::error::Error>> {
        let stamp: String = utc(wanted.time)
            .chars()
            .filter(|c| !['-', ':'].contains(c))
            .collect();
        let path = self.folder.join(format!("anomaly-{stamp}.jsonl"));
        let mut text = head(wanted.time, &wanted.crossed, &look.gpus.known.machine);
        text.reserve(self.ring_bytes);
        self.ring.iter().for_each(|(_, line)| text.push_str(line));
        output::folder(&self.folder)?;
        output::write(&path, text)?;
        let file = File::options().append(true).open(&path)?;
        Ok(Open {
            path,
            file,
            until_ms: look.host.at_ms.saturating_add(AFTER_MS),
            n_bytes: 0,
        })
    }

    /// Appends one of the moments after, and what else was crossed meanwhile.
    fn append(&mut self, look: &Look, news: &[Crossing], line: &str) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let now = look.host.at_ms;
        let mut text = String::new();
        if !news.is_empty() {
            text = head(look.time, news, &look.gpus.known.machine);
            self.recorded.extend(news.iter().map(|it| (it.limit, now)));
        }
        text.push_str(line);
        open.n_bytes += text.len();
        let written = open
            .file
            .write_all(text.as_bytes())
            .and_then(|()| open.file.sync_data());
        if let Err(why) = written {
            let path = printable(&open.path.display().to_string());
            self.words = format!("{path} ends early: {why}");
            return;
        }
        if now < open.until_ms && open.n_bytes < self.bounds.after_bytes {
            self.open = Some(open);
        }
    }

    /// Takes the oldest recordings away where there are too many, never the newest.
    fn clear_away(&mut self) {
        let Ok(mut all) = recordings_in(&self.folder) else {
            return;
        };
        all.sort();
        let mut n_bytes: u64 = all.iter().map(|(_, n_bytes)| n_bytes).sum();
        let n_files = all.len();
        for (idx, (path, its_bytes)) in all.into_iter().enumerate() {
            let n_left = n_files - idx;
            let is_little = n_left <= self.bounds.n_files && n_bytes <= self.bounds.folder_bytes;
            if is_little || n_left == 1 {
                return;
            }
            if let Err(why) = fs::remove_file(&path) {
                let path = printable(&path.display().to_string());
                self.words = format!("{}; `{path}` cannot be taken away: {why}", self.words);
                return;
            }
            n_bytes = n_bytes.saturating_sub(its_bytes);
        }
    }
}

/// Files of recordings in a folder and their sizes.
fn recordings_in(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(is_recording);
        let metadata = entry.metadata()?;
        if is_one && metadata.is_file() {
            all.push((entry.path(), metadata.len()));
        }
    }
    Ok(all)
}

/// Whether a file has the name that this gives: `anomaly-20260301T070509.040Z.jsonl`. All others are somebody's.
fn is_recording(name: &str) -> bool {
    const PATTERN: &str = "anomaly-00000000T000000.000Z.jsonl";
    let fits = |(pattern, byte): (u8, u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        pattern => pattern == byte,
    };
    name.len() == PATTERN.len() && PATTERN.bytes().zip(name.bytes()).all(fits)
}

/// The line that says what was crossed.
fn head(time: SystemTime, crossed: &[Crossing], machine: &str) -> String {
    let crossed: Vec<_> = crossed
        .iter()
        .map(|it| json!({ "limit": it.limit.name(), "gpu": it.gpu, "words": it.words }))
        .collect();
    let head = json!({
        "schema": SCHEMA,
        "time": utc(time),
        "crossed": crossed,
        "machine": machine,
        "program": concat!("sparkpilot ", env!("CARGO_PKG_VERSION")),
    });
    format!("{head}\n")
}

fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    printable(&with_causes(error))
}

#[cfg(test)]
mod tests;
