//! The plots of a comparison.

use super::number::{short, signed};
use super::svg::{BAD, BASELINE, GOOD, GRID, INK, MUTED, Scale, Svg};
use crate::compare::{Comparison, Verdict};

/// Change of every metric in per cent of the baseline, with its interval.
pub(super) fn intervals(comparison: &Comparison) -> String {
    let shown: Vec<_> = comparison
        .metrics
        .iter()
        .filter_map(|m| {
            let percent = m.change_percent?;
            let scale = 100.0 / m.baseline.abs();
            let ends = m.interval.map(|x| (x * scale).clamp(-150.0, 150.0));
            Some((m, percent.clamp(-150.0, 150.0), ends))
        })
        .collect();
    const ROW: f64 = 22.0;
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 860.0;
    let height = 50.0 + ROW * shown.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    let ends = shown.iter().flat_map(|(_, p, e)| [*p, e[0], e[1], 0.0]);
    let x = Scale::covering(ends, LEFT, WIDTH - 130.0);
    for tick in x.ticks(7) {
        svg.line([x.at(tick), 24.0], [x.at(tick), height - 12.0], GRID, 1.0);
        let label = format!("{} %", signed(tick));
        svg.text([x.at(tick), 16.0], 11.0, "middle", MUTED, &label);
    }
    svg.line([x.at(0.0), 24.0], [x.at(0.0), height - 12.0], INK, 1.2);
    for (i, (metric, percent, ends)) in shown.iter().enumerate() {
        let y = 40.0 + ROW * i as f64;
        let colour = match metric.verdict {
            Verdict::Better => GOOD,
            Verdict::Worse => BAD,
            Verdict::Undecided => MUTED,
        };
        svg.text([LEFT - 10.0, y + 4.0], 12.0, "end", INK, metric.metric);
        svg.line([x.at(ends[0]), y], [x.at(ends[1]), y], colour, 3.0);
        svg.circle([x.at(*percent), y], 4.5, colour, 1.0);
        let value = format!("{} {}", signed(metric.delta), metric.unit);
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
