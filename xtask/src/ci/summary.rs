//! What `cargo xtask ci` prints at the end of a row of steps: how each ended, how long it took, and how much of the processors.
//!
//! Deliberately absent: the processors' time of what runs beside; it is another process's, which prints its own.

use std::fs;
use std::time::Duration;

use crate::error::{Error, LeftOut};

/// Ticks of the processors' time in a second, as Linux counts them for programs everywhere (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// What is printed at the end.
#[derive(Default)]
pub(super) struct Summary {
    lines: Vec<String>,
    total: Duration,
    busy_before: f64,
}

impl Summary {
    /// A step that is not asked for.
    pub(super) fn skip(&mut self, name: &str) {
        self.lines.push(format!("{name:14}  skipped"));
    }

    pub(super) fn add(&mut self, name: &str, duration: Duration, result: &Result<LeftOut, Error>) {
        let outcome = match result {
            Ok(left_out) if left_out.is_empty() => "ok".to_owned(),
            Ok(left_out) => format!("ok, left out: {}", left_out.join("; ")),
            Err(_) => "FAILED".to_owned(),
        };
        let busy = seconds_of_children().unwrap_or(self.busy_before);
        self.lines.push(format!(
            "{name:14}  {:7.1} s  {:7.1} s of processors  {outcome}",
            duration.as_secs_f64(),
            busy - self.busy_before,
        ));
        self.busy_before = busy;
        self.total += duration;
    }

    pub(super) fn text(&self) -> String {
        format!(
            "\n{}\n{:14}  {:7.1} s  {:7.1} s of processors",
            self.lines.join("\n"),
            "total",
            self.total.as_secs_f64(),
            self.busy_before,
        )
    }
}

/// What the processors have spent on children that have ended and been waited for, theirs too: `cutime` and `cstime` of proc(5).
fn seconds_of_children() -> Option<f64> {
    of_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn of_stat(stat: &str) -> Option<f64> {
    // The second field, a name in parentheses, may hold anything.
    let (_, behind) = stat.rsplit_once(')')?;
    let mut ticks = behind.split_whitespace().skip(13);
    let user: f64 = ticks.next()?.parse().ok()?;
    let system: f64 = ticks.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_failed() {
        let mut summary = Summary::default();
        summary.add("fmt", Duration::from_millis(1500), &Ok(LeftOut::new()));
        let failed = Err(Error::Usage("no".to_owned()));
        summary.add("clippy", Duration::from_secs(2), &failed);
        let text = summary.text();
        assert!(text.contains("fmt                 1.5 s"), "{text}");
        assert!(
            text.contains("FAILED") && text.contains("total               3.5 s"),
            "{text}"
        );
    }

    #[test]
    fn what_a_machine_lacks_is_said_to_a_person() {
        let mut summary = Summary::default();
        let lacking = Ok(vec!["threads: no rust-src".to_owned()]);
        summary.add("sanitize", Duration::ZERO, &lacking);
        let text = summary.text();
        assert!(
            text.contains("ok, left out: threads: no rust-src"),
            "{text}"
        );
    }

    #[test]
    fn time_of_children_stands_behind_a_name_of_any_kind() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 1 2 3 4 50 60 150 250 20 0 1 0 99";
        assert_eq!(of_stat(stat), Some(4.0));
        assert_eq!(of_stat("7 (a) S 1"), None);
    }
}
