//! The plots of a comparison.

use crate::compare::{Comparison, Verdict};
use crate::metric::{CATALOGUE, Direction, Role};
use spark_drawing::colour::{BLUE, GREEN, INK, MUTED, RED};
use spark_drawing::number::{signed, with_unit};
use spark_drawing::{Fill, Font, Rows, Scale, Stroke, Svg, axis};

/// Largest worsening drawn, in margins.
const MOST_MARGINS: f64 = 3.0;

/// Worsening of every metric in its margins, with its interval.
pub(super) fn intervals(comparison: &Comparison) -> Svg {
    let shown: Vec<_> = comparison
        .metrics
        .iter()
        .filter(|m| m.margin > 0.0)
        .map(|m| {
            let direction = CATALOGUE.iter().find(|info| info.name == m.metric);
            let sign = match direction.map(|info| info.direction) {
                Some(Direction::Higher) => -1.0,
                _ => 1.0,
            };
            let scaled = |x: f64| (sign * x / m.margin).clamp(-MOST_MARGINS, MOST_MARGINS);
            (m, scaled(m.delta), m.interval.map(|ends| ends.map(scaled)))
        })
        .collect();
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 860.0;
    let mut svg = Svg::new(WIDTH, Rows::height(shown.len()));
    let ends = shown
        .iter()
        .flat_map(|(_, middle, ends)| ends.iter().flatten().copied().chain([*middle]))
        .chain([-1.0, 1.0]);
    let scale = Scale::linear(ends, [LEFT, WIDTH - 130.0]);
    let mut rows = Rows::new(&mut svg, scale, 4.0, shown.len());
    rows.rule(0.0, INK);
    rows.rule(1.0, RED);
    for (row, (metric, middle, ends)) in shown.iter().enumerate() {
        let colour = match metric.verdict {
            Verdict::Better => GREEN,
            Verdict::Worse | Verdict::WorseBeyondMargin => RED,
            Verdict::WithinMargin => BLUE,
            Verdict::NoDifferenceShown | Verdict::Undecided => MUTED,
        };
        let ink = match metric.role {
            Role::Primary => INK,
            Role::Secondary | Role::Event => MUTED,
        };
        rows.named(row, metric.metric, ink);
        if let Some(ends) = ends {
            rows.spread(row, *ends, colour);
        }
        rows.dot(row, *middle, 0.0, 4.5, colour.into());
        rows.at_end(row, colour, &with_unit(&signed(metric.delta), metric.unit));
    }
    svg
}

/// Candidate over baseline, one point per scenario.
pub(super) fn scatter(title: &str, unit: &str, pairs: &[(f64, f64)]) -> Svg {
    const SIZE: f64 = 270.0;
    const LEFT: f64 = 52.0;
    const RIGHT: f64 = SIZE + 20.0;
    const TOP: f64 = 26.0;
    const BOTTOM: f64 = SIZE - 16.0;
    let mut svg = Svg::new(SIZE + 30.0, SIZE + 30.0);
    let all = || pairs.iter().flat_map(|(b, c)| [*b, *c]);
    let x = Scale::linear(all(), [LEFT, RIGHT]);
    let y = Scale::linear(all(), [BOTTOM, TOP]);
    axis::below(&mut svg, &x, 4, [TOP, BOTTOM], "");
    axis::left(&mut svg, &y, 4, [LEFT, RIGHT]);
    // Both scales are of the same values: where they are equal is the diagonal.
    svg.line([LEFT, BOTTOM], [RIGHT, TOP], Stroke::new(INK, 1.0));
    // A report stays readable, and loadable, with a few thousand points.
    let stride = pairs.len().div_ceil(3000).max(1);
    for (baseline, candidate) in pairs.iter().step_by(stride) {
        let place = [x.at(*baseline), y.at(*candidate)];
        svg.circle(place, 2.0, Fill::faded(BLUE, 0.45));
    }
    let title = match unit {
        "1" => title.to_owned(),
        unit => format!("{title} ({unit})"),
    };
    svg.text([LEFT, 16.0], Font::new(12.0, INK), &title);
    let words = "baseline →  candidate ↑, below the line is less";
    let place = [RIGHT, SIZE + 16.0];
    svg.text(place, Font::new(10.0, MUTED).ending(), words);
    svg
}
