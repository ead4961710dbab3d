//! Is a case slower or faster than in the previous record, beyond the noise?
//!
//! ```text
//! slower   the best run now is worse than the usual run then:   min_now > median_then
//! faster   the best run then is worse than the usual run now:   min_then > median_now
//!          and in both cases the medians differ by more than 5 percent
//! ```
//!
//! Minimum and median are used because the tail of a shared machine says more about its
//! other users than about the program. The rule gives the mirrored answer when the records
//! are swapped.

use std::fmt::Write as _;

use super::record::{Case, Record};

/// Medians closer than this are the same.
const SAME_WITHIN: f64 = 0.05;

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    New,
    Same,
    Slower,
    Faster,
}

/// A case against its counterpart in the previous record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    pub(crate) previous_median_ms: Option<f64>,
    /// Median now over median then.
    pub(crate) ratio: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// One change per case of `record`, in its order.
pub(crate) fn changes(record: &Record, previous: Option<&Record>) -> Vec<Change> {
    record
        .cases
        .iter()
        .map(
            |now| match previous.and_then(|previous| previous.case(&now.name)) {
                None => Change {
                    previous_median_ms: None,
                    ratio: None,
                    verdict: Verdict::New,
                },
                Some(then) => Change {
                    previous_median_ms: Some(then.median_ms),
                    ratio: (then.median_ms > 0.0).then(|| now.median_ms / then.median_ms),
                    verdict: verdict(now, then),
                },
            },
        )
        .collect()
}

fn verdict(now: &Case, then: &Case) -> Verdict {
    if now.median_ms > then.median_ms * (1.0 + SAME_WITHIN) && now.min_ms > then.median_ms {
        Verdict::Slower
    } else if then.median_ms > now.median_ms * (1.0 + SAME_WITHIN) && then.min_ms > now.median_ms {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

/// The table the command prints.
pub(crate) fn table(record: &Record, changes: &[Change]) -> String {
    let width = record
        .cases
        .iter()
        .map(|case| case.name.len())
        .max()
        .unwrap_or(4)
        .max(4);
    let mut table = format!(
        "{:width$}  {:>5}  {:>10}  {:>10}  {:>10}  {:>6}\n",
        "case", "runs", "min ms", "median ms", "p95 ms", "ratio"
    );
    for (case, change) in record.cases.iter().zip(changes) {
        let ratio = change
            .ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let note = match change.verdict {
            Verdict::New => "new",
            Verdict::Same => "",
            Verdict::Slower => "SLOWER",
            Verdict::Faster => "faster",
        };
        let line = format!(
            "{:width$}  {:>5}  {:>10.4}  {:>10.4}  {:>10.4}  {ratio:>6}  {note}",
            case.name, case.n_runs, case.min_ms, case.median_ms, case.p95_ms
        );
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(min_ms: f64, median_ms: f64) -> Record {
        let case = Case {
            name: "a".to_owned(),
            min_ms,
            median_ms,
            ..Case::default()
        };
        Record {
            date: String::new(),
            cases: vec![case],
        }
    }

    #[track_caller]
    fn check(now: (f64, f64), then: (f64, f64), want: Verdict) {
        let change = changes(&one(now.0, now.1), Some(&one(then.0, then.1)))[0];
        assert_eq!(change.verdict, want);
    }

    #[test]
    fn overlapping_runs_are_the_same() {
        check((9.0, 12.0), (9.5, 10.0), Verdict::Same);
        check((10.1, 10.3), (9.9, 10.0), Verdict::Same);
    }

    #[test]
    fn separated_runs_are_slower_or_faster() {
        check((11.0, 12.0), (9.5, 10.0), Verdict::Slower);
        check((9.5, 10.0), (11.0, 12.0), Verdict::Faster);
    }

    #[test]
    fn a_case_without_a_counterpart_is_new() {
        let change = changes(&one(1.0, 1.0), Some(&Record::default()))[0];
        assert_eq!((change.verdict, change.ratio), (Verdict::New, None));
    }

    #[test]
    fn the_table_flags_what_became_slower() {
        let (now, then) = (one(11.0, 12.0), one(9.5, 10.0));
        let table = table(&now, &changes(&now, Some(&then)));
        assert!(
            table.lines().nth(1).unwrap().ends_with("1.20  SLOWER"),
            "{table}"
        );
    }
}
