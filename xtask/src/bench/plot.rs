//! A record as a picture: one panel per unit, one row per case, as SVG.
//!
//! ```text
//! ms
//! case name  |      |--●-----|            dot = median, line = smallest to largest but outliers
//!            |       ◇                    diamond = median of the previous record
//!            1       10      100          logarithmic, hence dots: a bar would start nowhere
//! steps/s
//! …
//! ```
//!
//! Written out by hand: some lines and dots need no plotting library.

use std::fmt::Write as _;

use super::compare::{Change, Verdict};
use super::record::{Case, Record, significant};

const ROW: f64 = 24.0;
const TITLE: f64 = 52.0;
/// A panel's unit above its rows, and the numbers of its axis below them.
const PANEL_HEAD: f64 = 26.0;
const PANEL_FOOT: f64 = 34.0;
const PLOT: f64 = 480.0;
const RIGHT: f64 = 130.0;
/// Wider than one character of the labels' font.
const CHARACTER: f64 = 7.0;

/// Draws the cases of a record, with the change of each.
pub(super) fn draw(record: &Record, changes: &[Change], machine: &str) -> String {
    let rows: Vec<(&Case, &Change)> = record.cases.iter().zip(changes).collect();
    let mut units: Vec<&str> = Vec::new();
    for (case, _) in &rows {
        if !units.contains(&case.unit.as_str()) {
            units.push(&case.unit);
        }
    }
    let longest = rows.iter().map(|(case, _)| case.name.chars().count()).max();
    let left = 20.0 + CHARACTER * longest.unwrap_or(0) as f64;
    let mut panels = String::new();
    let mut top = TITLE;
    for unit in units {
        let of_unit: Vec<(&Case, &Change)> = rows
            .iter()
            .filter(|(case, _)| case.unit == unit)
            .copied()
            .collect();
        draw_panel(&mut panels, unit, &of_unit, left, top);
        top += PANEL_HEAD + ROW * of_unit.len() as f64 + PANEL_FOOT;
    }
    let width = left + PLOT + RIGHT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" \
         viewBox=\"0 0 {width} {top}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" fill=\"#222222\">{} · {}</text>\n\
         <text x=\"10\" y=\"38\" fill=\"#555555\">dot: median · line: smallest to 95th percentile \
         or largest · diamond: previous record · ×: cost now over cost then</text>\n\
         {panels}</svg>\n",
        escaped(&record.date),
        escaped(machine)
    )
}

fn draw_panel(svg: &mut String, unit: &str, rows: &[(&Case, &Change)], left: f64, top: f64) {
    let axis = Axis::around(rows, left);
    let first_row = top + PANEL_HEAD;
    let bottom = first_row + ROW * rows.len() as f64;
    let is_rate = rows.iter().any(|(case, _)| case.is_rate());
    let better = if is_rate { "larger" } else { "smaller" };
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{:.1}\" fill=\"#222222\" font-weight=\"bold\">{} ({better} is better)</text>",
        top + 16.0,
        escaped(unit)
    );
    for value in axis.ticks() {
        let x = axis.x(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{first_row}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>",
            bottom + 16.0,
            tick_label(value)
        );
    }
    for (row, (case, change)) in rows.iter().enumerate() {
        draw_row(
            svg,
            &axis,
            case,
            change,
            first_row + ROW * (row as f64 + 0.5),
        );
    }
}

fn draw_row(svg: &mut String, axis: &Axis, case: &Case, change: &Change, middle: f64) {
    let colour = match change.verdict {
        Verdict::New | Verdict::Same => "#4477aa",
        Verdict::Slower => "#cc3311",
        Verdict::Faster => "#228833",
    };
    let label = axis.left - 8.0;
    let text_base = middle + 4.0;
    let (from, to) = (axis.x(case.min), axis.x(upper(case)));
    let dot = axis.x(case.median);
    let _ = writeln!(
        svg,
        "<text x=\"{label:.1}\" y=\"{text_base:.1}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\
         <line x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
         <circle cx=\"{dot:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"{colour}\"/>",
        escaped(&case.name),
    );
    let mut text_start = to.max(dot);
    if let Some(previous) = change.previous_median {
        let x = axis.x(previous);
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
        "<text x=\"{:.1}\" y=\"{text_base:.1}\" fill=\"{colour}\">{}{ratio}</text>",
        text_start + 10.0,
        significant(case.median)
    );
}

/// Where a row's line ends: the 95th percentile hides the outliers of a shared machine.
fn upper(case: &Case) -> f64 {
    case.p95.unwrap_or(case.max)
}

/// Whole decades that hold every value of a panel.
struct Axis {
    left: f64,
    first_decade: i32,
    last_decade: i32,
}

impl Axis {
    fn around(rows: &[(&Case, &Change)], left: f64) -> Self {
        let shown = rows.iter().flat_map(|(case, change)| {
            [
                Some(case.min),
                Some(case.median),
                Some(upper(case)),
                change.previous_median,
            ]
        });
        let decades: Vec<f64> = shown
            .flatten()
            .filter(|value| *value > 0.0)
            .map(f64::log10)
            .collect();
        let lowest = decades.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = decades.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first_decade = if lowest.is_finite() {
            lowest.floor() as i32
        } else {
            0
        };
        let last_decade = if highest.is_finite() {
            highest.ceil() as i32
        } else {
            1
        };
        Self {
            left,
            first_decade,
            last_decade: last_decade.max(first_decade + 1),
        }
    }

    /// Where a value stands; values below the axis stand at its start.
    fn x(&self, value: f64) -> f64 {
        let n_decades = f64::from(self.last_decade - self.first_decade);
        let decade = value.max(f64::MIN_POSITIVE).log10();
        let position = (decade - f64::from(self.first_decade)) / n_decades;
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

fn tick_label(value: f64) -> String {
    if (1e-4..1e5).contains(&value) {
        value.to_string()
    } else {
        format!("{value:.0e}")
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

    fn case(name: &str, unit: &str, min: f64, median: f64, max: f64) -> Case {
        Case {
            name: name.to_owned(),
            unit: unit.to_owned(),
            min,
            median,
            max,
            ..Case::default()
        }
    }

    fn drawn(cases: Vec<Case>) -> String {
        let record = Record {
            date: "2026-11-20".to_owned(),
            cases,
        };
        draw(&record, &compare::changes(&record, None), "x & y")
    }

    #[test]
    fn the_axis_holds_every_value_in_whole_decades() {
        let case = case("a", "ms", 0.4, 3.0, 30.0);
        let change = Change {
            previous_median: None,
            ratio: None,
            verdict: Verdict::New,
        };
        let axis = Axis::around(&[(&case, &change)], 100.0);
        assert_eq!((axis.first_decade, axis.last_decade), (-1, 2));
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!((axis.x(0.1) - 100.0).abs() < 1e-9);
        assert!((axis.x(100.0) - 100.0 - PLOT).abs() < 1e-9);
    }

    #[test]
    fn each_unit_has_a_panel() {
        let svg = drawn(vec![
            case("a", "ms", 1.0, 2.0, 3.0),
            case("b", "agent_steps", 1e8, 2e8, 3e8),
            case("c", "ms", 1.0, 2.0, 3.0),
        ]);
        assert_eq!(svg.matches("smaller is better").count(), 1);
        assert_eq!(svg.matches("larger is better").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 3);
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let svg = drawn(vec![case("a<b>&c", "ms", 1.0, 1.0, 1.0)]);
        assert!(svg.contains("a&lt;b&gt;&amp;c") && svg.contains("x &amp; y"));
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_record_without_cases_still_draws() {
        assert!(drawn(Vec::new()).starts_with("<svg"));
    }
}
