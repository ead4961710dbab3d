//! Is a case slower or faster than in the previous record, beyond the noise?
//!
//! ```text
//! cost     time per run, or 1 / rate
//! slower   the best run now costs more than the usual run then:   best_now > usual_then
//! faster   the best run then costs more than the usual run now:   best_then > usual_now
//!          and in both cases the usual costs differ by more than 5 percent
//! ```
//!
//! Best and median are used because the tail of a shared machine says more about its other
//! users than about the program. The rule gives the mirrored answer when the records are
//! swapped.

use std::fmt::Write as _;

use super::record::{Case, Record, significant};

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
    /// In the case's unit.
    pub(crate) previous_median: Option<f64>,
    /// Cost now over cost then: above 1 is slower, for times and for rates.
    pub(crate) ratio: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// One change per case of `record`, in its order.
pub(crate) fn changes(record: &Record, previous: Option<&Record>) -> Vec<Change> {
    record
        .cases
        .iter()
        .map(
            |now| match previous.and_then(|previous| previous.counterpart(now)) {
                None => Change {
                    previous_median: None,
                    ratio: None,
                    verdict: Verdict::New,
                },
                Some(then) => Change {
                    previous_median: Some(then.median),
                    ratio: Some(now.usual_cost() / then.usual_cost())
                        .filter(|ratio| ratio.is_finite()),
                    verdict: verdict(now, then),
                },
            },
        )
        .collect()
}

fn verdict(now: &Case, then: &Case) -> Verdict {
    let costs_more = |a: &Case, b: &Case| {
        a.usual_cost() > b.usual_cost() * (1.0 + SAME_WITHIN) && a.best_cost() > b.usual_cost()
    };
    if costs_more(now, then) {
        Verdict::Slower
    } else if costs_more(then, now) {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

/// The table the command prints.
pub(crate) fn table(record: &Record, changes: &[Change]) -> String {
    let width = |column: &dyn Fn(&Case) -> usize, title: &str| {
        record
            .cases
            .iter()
            .map(column)
            .max()
            .unwrap_or(0)
            .max(title.len())
    };
    let name_width = width(&|case| case.name.len(), "case");
    let unit_width = width(&|case| case.unit.len(), "unit");
    let mut table = format!(
        "{:name_width$}  {:unit_width$}  {:>5}  {:>10}  {:>10}  {:>10}  {:>6}\n",
        "case", "unit", "runs", "min", "median", "max", "ratio"
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
            "{:name_width$}  {:unit_width$}  {:>5}  {:>10}  {:>10}  {:>10}  {ratio:>6}  {note}",
            case.name,
            case.unit,
            case.n_runs,
            significant(case.min),
            significant(case.median),
            significant(case.max)
        );
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(unit: &str, min: f64, median: f64, max: f64) -> Record {
        let case = Case {
            name: "a".to_owned(),
            unit: unit.to_owned(),
            min,
            median,
            max,
            ..Case::default()
        };
        Record {
            date: String::new(),
            cases: vec![case],
        }
    }

    #[track_caller]
    fn check(now: (f64, f64), then: (f64, f64), want: Verdict) {
        let (now, then) = (
            one("ms", now.0, now.1, 99.0),
            one("ms", then.0, then.1, 99.0),
        );
        assert_eq!(changes(&now, Some(&then))[0].verdict, want);
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
    fn a_smaller_rate_is_slower() {
        let (now, then) = (
            one("steps/s", 70.0, 80.0, 90.0),
            one("steps/s", 95.0, 100.0, 101.0),
        );
        let change = changes(&now, Some(&then))[0];
        assert_eq!(change.verdict, Verdict::Slower);
        assert!(
            change
                .ratio
                .is_some_and(|ratio| (ratio - 1.25).abs() < 1e-12)
        );
        assert_eq!(changes(&then, Some(&now))[0].verdict, Verdict::Faster);
    }

    #[test]
    fn a_case_without_a_counterpart_is_new() {
        let now = one("ms", 1.0, 1.0, 1.0);
        let change = changes(&now, Some(&one("steps/s", 1.0, 1.0, 1.0)))[0];
        assert_eq!((change.verdict, change.ratio), (Verdict::New, None));
    }

    #[test]
    fn the_table_flags_what_became_slower() {
        let (now, then) = (one("ms", 11.0, 12.0, 13.0), one("ms", 9.5, 10.0, 11.0));
        let table = table(&now, &changes(&now, Some(&then)));
        assert!(
            table.lines().nth(1).unwrap().ends_with("1.20  SLOWER"),
            "{table}"
        );
    }
}
