//! A record as a picture: one row per case, as SVG.
//!
//! ```text
//! case name  |      |--●-----|            dot = median, line = minimum to 95th percentile
//!            |       ◇                    diamond = median of the previous record
//!            1 ms      10      100        logarithmic, hence dots: a bar would start nowhere
//! ```
//!
//! Written out by hand: some lines and dots need no plotting library.

use std::fmt::Write as _;

use super::compare::{Change, Verdict};
use super::record::Record;

const ROW: f64 = 24.0;
const TOP: f64 = 56.0;
/// Wider than one character of the labels' font.
const CHARACTER: f64 = 7.0;
const PLOT: f64 = 480.0;
const RIGHT: f64 = 110.0;

/// Draws the cases of a record, with the change of each.
pub(super) fn draw(record: &Record, changes: &[Change], machine: &str) -> String {
    let axis = Axis::around(record, changes);
    let n_rows = record.cases.len() as f64;
    let (width, height) = (axis.left + PLOT + RIGHT, TOP + ROW * n_rows + 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" fill=\"#222222\">{} · {}</text>\n\
         <text x=\"10\" y=\"38\" fill=\"#555555\">dot: median · line: minimum to 95th percentile · \
         diamond: previous record · milliseconds, logarithmic</text>\n",
        escaped(&record.date),
        escaped(machine)
    );
    let bottom = TOP + ROW * n_rows;
    for ms in axis.ticks() {
        let x = axis.x(ms);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{ms}</text>",
            bottom + 16.0
        );
    }
    for (row, (case, change)) in record.cases.iter().zip(changes).enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        let colour = match change.verdict {
            Verdict::New | Verdict::Same => "#4477aa",
            Verdict::Slower => "#cc3311",
            Verdict::Faster => "#228833",
        };
        let label = axis.left - 8.0;
        let (from, to) = (axis.x(case.min_ms), axis.x(case.p95_ms));
        let _ = writeln!(
            svg,
            "<text x=\"{label:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\
             <line x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"{colour}\"/>",
            middle + 4.0,
            escaped(&case.name),
            axis.x(case.median_ms),
        );
        let mut text_start = to.max(axis.x(case.median_ms));
        if let Some(previous_ms) = change.previous_median_ms {
            let x = axis.x(previous_ms);
            text_start = text_start.max(x);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1} l5 5 l-5 5 l-5 -5 z\" fill=\"none\" stroke=\"#222222\"/>",
                middle - 5.0
            );
        }
        let ratio = change
            .ratio
            .map(|ratio| format!(" ×{ratio:.2}"))
            .unwrap_or_default();
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{:.3}{ratio}</text>",
            text_start + 10.0,
            middle + 4.0,
            case.median_ms
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Whole decades that hold every value, right of the longest label.
struct Axis {
    left: f64,
    first_decade: i32,
    last_decade: i32,
}

impl Axis {
    fn around(record: &Record, changes: &[Change]) -> Self {
        let longest = record
            .cases
            .iter()
            .map(|case| case.name.chars().count())
            .max();
        let left = 20.0 + CHARACTER * longest.unwrap_or(0) as f64;
        let times = record
            .cases
            .iter()
            .flat_map(|case| [case.min_ms, case.median_ms, case.p95_ms]);
        let previous = changes
            .iter()
            .filter_map(|change| change.previous_median_ms);
        let decades: Vec<f64> = times
            .chain(previous)
            .filter(|ms| *ms > 0.0)
            .map(f64::log10)
            .collect();
        let lowest = decades.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = decades.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !lowest.is_finite() || !highest.is_finite() {
            return Self {
                left,
                first_decade: 0,
                last_decade: 1,
            };
        }
        let first_decade = lowest.floor() as i32;
        let last_decade = (highest.ceil() as i32).max(first_decade + 1);
        Self {
            left,
            first_decade,
            last_decade,
        }
    }

    /// Where a time stands; times below the axis stand at its start.
    fn x(&self, ms: f64) -> f64 {
        let n_decades = f64::from(self.last_decade - self.first_decade);
        let position =
            (ms.max(f64::MIN_POSITIVE).log10() - f64::from(self.first_decade)) / n_decades;
        self.left + PLOT * position.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.first_decade..=self.last_decade).map(|decade| {
            // Dividing keeps 0.1 and its like exact enough to print shortly.
            if decade < 0 {
                1.0 / 10_f64.powi(-decade)
            } else {
                10_f64.powi(decade)
            }
        })
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare;
    use crate::bench::record::Case;

    #[test]
    fn the_axis_holds_every_value_in_whole_decades() {
        let case = Case {
            min_ms: 0.4,
            median_ms: 3.0,
            p95_ms: 30.0,
            ..Case::default()
        };
        let record = Record {
            date: String::new(),
            cases: vec![case],
        };
        let axis = Axis::around(&record, &[]);
        assert_eq!((axis.first_decade, axis.last_decade), (-1, 2));
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!((axis.x(0.1) - axis.left).abs() < 1e-9);
        assert!((axis.x(100.0) - axis.left - PLOT).abs() < 1e-9);
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let case = Case {
            name: "a<b>&c".to_owned(),
            median_ms: 1.0,
            ..Case::default()
        };
        let record = Record {
            date: "2026-11-20".to_owned(),
            cases: vec![case],
        };
        let svg = draw(&record, &compare::changes(&record, None), "x & y");
        assert!(svg.contains("a&lt;b&gt;&amp;c") && svg.contains("x &amp; y"));
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_record_without_cases_still_draws() {
        let svg = draw(&Record::default(), &[], "none");
        assert!(svg.starts_with("<svg"));
    }
}
