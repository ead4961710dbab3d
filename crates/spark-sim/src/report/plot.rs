//! The plots of a comparison.

use super::number::{short, signed};
use super::svg::{BAD, BASELINE, GOOD, GRID, INK, MUTED, Scale, Svg};
use crate::compare::{Comparison, Verdict};
use crate::metric::{CATALOGUE, Direction, Role};

/// Largest worsening drawn, in margins.
const MOST_MARGINS: f64 = 3.0;

/// Worsening of every metric in its margins, with its interval.
pub(super) fn intervals(comparison: &Comparison) -> String {
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
    const ROW: f64 = 22.0;
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 860.0;
    let height = 50.0 + ROW * shown.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    let ends = shown
        .iter()
        .flat_map(|(_, middle, ends)| ends.iter().flatten().copied().chain([*middle]))
        .chain([-1.0, 1.0]);
    let x = Scale::covering(ends, LEFT, WIDTH - 130.0);
    for tick in x.ticks(7) {
        svg.line([x.at(tick), 24.0], [x.at(tick), height - 12.0], GRID, 1.0);
        svg.text([x.at(tick), 16.0], 11.0, "middle", MUTED, &signed(tick));
    }
    svg.line([x.at(0.0), 24.0], [x.at(0.0), height - 12.0], INK, 1.2);
    svg.line([x.at(1.0), 24.0], [x.at(1.0), height - 12.0], BAD, 1.2);
    for (i, (metric, middle, ends)) in shown.iter().enumerate() {
        let y = 40.0 + ROW * i as f64;
        let colour = match metric.verdict {
            Verdict::Better => GOOD,
            Verdict::Worse | Verdict::WorseBeyondMargin => BAD,
            Verdict::WithinMargin => BASELINE,
            Verdict::NoDifferenceShown | Verdict::Undecided => MUTED,
        };
        let ink = match metric.role {
            Role::Primary => INK,
            Role::Secondary | Role::Event => MUTED,
        };
        svg.text([LEFT - 10.0, y + 4.0], 12.0, "end", ink, metric.metric);
        if let Some([low, high]) = ends {
            svg.line([x.at(*low), y], [x.at(*high), y], colour, 3.0);
        }
        svg.circle([x.at(*middle), y], 4.5, colour, 1.0);
        let unit = if metric.unit == "1" { "" } else { metric.unit };
        let value = format!("{} {unit}", signed(metric.delta));
        svg.text([WIDTH - 124.0, y + 4.0], 11.0, "start", colour, &value);
    }
    svg.finish()
}

/// Candidate over baseline, one point per scenario.
pub(super) fn scatter(title: &str, unit: &str, pairs: &[(f64, f64)]) -> String {
    const SIZE: f64 = 270.0;
    let mut svg = Svg::new(SIZE + 30.0, SIZE + 30.0);
    let all = || pairs.iter().flat_map(|(b, c)| [*b, *c]);
    let x = Scale::covering(all(), 52.0, SIZE + 20.0);
    let y = Scale::covering(all(), SIZE - 16.0, 26.0);
    for tick in x.ticks(4) {
        svg.line([x.at(tick), 26.0], [x.at(tick), SIZE - 16.0], GRID, 1.0);
        svg.line([52.0, y.at(tick)], [SIZE + 20.0, y.at(tick)], GRID, 1.0);
        svg.text(
            [x.at(tick), SIZE - 2.0],
            10.0,
            "middle",
            MUTED,
            &short(tick),
        );
        svg.text([48.0, y.at(tick) + 3.5], 10.0, "end", MUTED, &short(tick));
    }
    let ends = x.ticks(4);
    if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
        svg.line(
            [x.at(*first), y.at(*first)],
            [x.at(*last), y.at(*last)],
            INK,
            1.0,
        );
    }
    // A report stays readable, and loadable, with a few thousand points.
    let stride = pairs.len().div_ceil(3000).max(1);
    for (baseline, candidate) in pairs.iter().step_by(stride) {
        svg.circle([x.at(*baseline), y.at(*candidate)], 2.0, BASELINE, 0.45);
    }
    let unit = if unit == "1" {
        String::new()
    } else {
        format!(" ({unit})")
    };
    svg.text([52.0, 16.0], 12.0, "start", INK, &format!("{title}{unit}"));
    svg.text(
        [SIZE + 20.0, SIZE + 16.0],
        10.0,
        "end",
        MUTED,
        "baseline →  candidate ↑, below the line is less",
    );
    svg.finish()
}
