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
//! Scale, shapes and colours are those of `spark-drawing`.

use spark_drawing::colour::{BLUE, Colour, GREEN, INK, MUTED, RED};
use spark_drawing::{Font, Rows, Scale, Svg};

use super::compare::{Change, Verdict};
use super::record::{Case, Record, significant};

const TITLE: f64 = 52.0;
/// A panel's unit above its rows.
const PANEL_HEAD: f64 = 26.0;
/// What is left between panels.
const PANEL_GAP: f64 = 10.0;
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
    let height = |n_rows: usize| PANEL_HEAD + Rows::height(n_rows) + PANEL_GAP;
    let panels: Vec<(&str, Vec<(&Case, &Change)>)> = units
        .into_iter()
        .map(|unit| {
            let of_unit = rows.iter().filter(|(case, _)| case.unit == unit);
            (unit, of_unit.copied().collect())
        })
        .collect();
    let below: f64 = panels.iter().map(|(_, rows)| height(rows.len())).sum();
    let mut svg = Svg::on_paper(left + PLOT + RIGHT, TITLE + below);
    let title = format!("{} · {machine}", record.date);
    svg.text([10.0, 20.0], Font::new(14.0, INK), &title);
    let legend = "dot: median · line: smallest to 95th percentile or largest · diamond: previous \
                  record · ×: cost now over cost then";
    svg.text([10.0, 38.0], Font::new(12.0, MUTED), legend);
    let mut top = TITLE;
    for (unit, rows) in panels {
        draw_panel(&mut svg, unit, &rows, left, top);
        top += height(rows.len());
    }
    svg.finish() + "\n"
}

fn draw_panel(svg: &mut Svg, unit: &str, rows: &[(&Case, &Change)], left: f64, top: f64) {
    let is_rate = rows.iter().any(|(case, _)| case.is_rate());
    let better = if is_rate { "larger" } else { "smaller" };
    let heading = format!("{unit} ({better} is better)");
    svg.text([left, top + 16.0], Font::new(12.0, INK).bold(), &heading);
    let scale = Scale::decades(shown(rows), [left, left + PLOT]);
    let mut drawn = Rows::new(svg, scale, top + PANEL_HEAD, rows.len());
    for (row, (case, change)) in rows.iter().enumerate() {
        draw_row(&mut drawn, row, case, change);
    }
}

fn draw_row(drawn: &mut Rows<'_>, row: usize, case: &Case, change: &Change) {
    let colour = colour(change.verdict);
    drawn.name(row, &case.name);
    drawn.spread(row, [case.min, upper(case)], colour);
    drawn.dot(row, case.median, 0.0, 5.0, colour.into());
    let mut marks = vec![upper(case), case.median];
    if let Some(previous) = change.previous_median {
        drawn.diamond(row, previous);
        marks.push(previous);
    }
    let ratio = change
        .ratio
        .map(|ratio| format!(" ×{ratio:.2}"))
        .unwrap_or_default();
    let text = significant(case.median) + &ratio;
    drawn.beside(row, &marks, colour, &text);
}

fn colour(verdict: Verdict) -> Colour {
    match verdict {
        Verdict::New | Verdict::Same => BLUE,
        Verdict::Slower => RED,
        Verdict::Faster => GREEN,
    }
}

/// Every value of a panel.
fn shown(rows: &[(&Case, &Change)]) -> impl Iterator<Item = f64> {
    rows.iter().flat_map(|(case, change)| {
        let previous = change.previous_median.unwrap_or(case.median);
        [case.min, case.median, upper(case), previous]
    })
}

/// Where a row's line ends: the 95th percentile hides the outliers of a shared machine.
fn upper(case: &Case) -> f64 {
    case.p95.unwrap_or(case.max)
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
