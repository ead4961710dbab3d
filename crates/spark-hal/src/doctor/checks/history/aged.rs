//! What was found, judged by its age.
//!
//! ```text
//! in the running boot                       warning or error
//! in the last seven days, an earlier boot   a warning at most: the machine was booted since
//! earlier                                   a note with its dates
//! without a date                            a warning at most, that says so
//! nothing found, and the logs reach from a week ago to now   passed
//! nothing found, and they do not                             not examined
//! ```

use crate::doctor::facts::Facts;
use crate::doctor::history::{Age, Kind, Moment, OF_A_KIND_LIMIT, Tally};
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_examined, seen};

use super::super::applies::no_gpu;

/// Most findings quoted.
pub(super) const QUOTED: usize = 5;

pub(super) type Found<'a> = Vec<(&'a Kind, &'a Tally)>;

/// Looks for some kinds of events; `judge` says what those of one age mean.
pub(super) fn examine(
    facts: &Facts,
    is_wanted: impl Fn(&Kind) -> bool,
    judge: impl Fn(&Found<'_>) -> Judgement,
) -> Verdict {
    if let Some(verdict) = no_gpu(facts).filter(|_| !facts.is_spark()) {
        return verdict;
    }
    if facts.machine.platform.is_container {
        return not_examined("needs the kernel's log, which a container does not hold");
    }
    let history = facts.history();
    let mut worst: Option<Judgement> = None;
    let mut evidence = Vec::new();
    for age in Age::ALL {
        let of_age = history.tallies.iter().filter(|((of, _), _)| *of == age);
        let mut found: Found<'_> = of_age
            .map(|((_, kind), tally)| (kind, tally))
            .filter(|(kind, _)| is_wanted(kind))
            .collect();
        if found.is_empty() {
            continue;
        }
        found.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.last));
        evidence.extend(found.iter().map(|(_, tally)| quoted(tally)));
        let judgement = judge(&found).at(age, found[0].1.last);
        if worst
            .as_ref()
            .is_none_or(|worst| worst.severity < judgement.severity)
        {
            worst = Some(judgement);
        }
    }
    match (worst, &history.missing) {
        (None, None) => Verdict::Passed,
        (None, Some(missing)) => not_examined(missing.clone()),
        (Some(judgement), missing) => {
            evidence.truncate(QUOTED);
            let mut message = judgement.message;
            if let Some(missing) = missing {
                message.push_str(&format!("; what else happened is not known: {missing}"));
            }
            found(judgement.severity, message, evidence, judgement.fix)
        }
    }
}

/// What a check makes of what it found, as if it were of the running boot.
pub(super) struct Judgement {
    pub(super) severity: Severity,
    pub(super) message: String,
    pub(super) fix: String,
}

impl Judgement {
    /// What it comes to at this age.
    fn at(self, age: Age, last: Option<Moment>) -> Self {
        let last = last.map_or_else(String::new, |last| format!(" {last}"));
        let (most, since) = match age {
            Age::Boot => (Severity::Error, String::new()),
            Age::Week => (
                Severity::Warning,
                format!("; last{last}, before the machine was booted"),
            ),
            Age::Undated => (
                Severity::Warning,
                "; the log has no dates that tell when, so this may be long ago".to_owned(),
            ),
            Age::Old => (
                Severity::Note,
                format!("; not since{last}, neither in this boot nor in the last seven days"),
            ),
        };
        Self {
            severity: self.severity.min(most),
            message: self.message + &since,
            fix: self.fix,
        }
    }
}

pub(super) fn count_of(found: &Found<'_>) -> usize {
    found.iter().map(|(_, tally)| tally.count).sum()
}

pub(super) fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n if n >= OF_A_KIND_LIMIT => format!("{n} times or more"),
        n => format!("{n} times"),
    }
}

/// The words of the newest event of a kind, with its dates.
fn quoted(tally: &Tally) -> Seen {
    let dates = match (tally.first, tally.last) {
        (Some(first), Some(last)) if first != last => {
            format!("{}, {first} to {last}", times(tally.count))
        }
        (_, Some(last)) => last.to_string(),
        (_, None) => format!("{}, without a date", times(tally.count)),
    };
    seen(format!("{} ({dates})", tally.source), &tally.said)
}
