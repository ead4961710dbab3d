//! Speed and turning rate: scaled for training, judged, drawn.

use std::fmt::Write as _;

use spark_drawing::{Font, Scale as Axis, Stroke, Svg, axis, colour};

const NAMES: [&str; 2] = ["speed, m/s", "turning rate, rad/s"];

/// Means and standard deviations of the training part.
pub(crate) struct Scale {
    mean: [f64; 2],
    deviation: [f64; 2],
}

impl Scale {
    pub(crate) fn of(motions: impl Iterator<Item = [f64; 2]> + Clone) -> Self {
        let n = motions.clone().count().max(1) as f64;
        let sum = |of: &dyn Fn([f64; 2]) -> [f64; 2]| {
            let add = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
            motions
                .clone()
                .map(of)
                .fold([0.0; 2], add)
                .map(|sum| sum / n)
        };
        let mean = sum(&|motion| motion);
        let variance = sum(&|motion| [0, 1].map(|i| (motion[i] - mean[i]).powi(2)));
        // What never changes has no scale.
        let deviation = variance.map(|variance| match variance > 0.0 {
            true => variance.sqrt(),
            false => 1.0,
        });
        Self { mean, deviation }
    }

    pub(crate) fn scaled(&self, motion: [f64; 2]) -> [f64; 2] {
        [0, 1].map(|i| (motion[i] - self.mean[i]) / self.deviation[i])
    }

    pub(crate) fn unscaled(&self, scaled: [f64; 2]) -> [f64; 2] {
        [0, 1].map(|i| scaled[i] * self.deviation[i] + self.mean[i])
    }
}

/// A frame: what the car did, and what the network says.
pub(crate) struct Row {
    pub(crate) is_held_back: bool,
    pub(crate) truth: [f64; 2],
    pub(crate) said: [f64; 2],
}

/// Roots of mean squared errors of both parts, beside those of the training part's means.
pub(crate) fn table(rows: &[Row], scale: &Scale) -> String {
    let mut text = String::new();
    for (part, is_held_back) in [("training", false), ("held back", true)] {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.is_held_back == is_held_back)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let error = |of: &dyn Fn(&Row) -> f64| {
            let sum: f64 = rows.iter().map(|row| of(row).powi(2)).sum();
            (sum / rows.len() as f64).sqrt()
        };
        for (i, name) in NAMES.iter().enumerate() {
            let constant = error(&|row| row.truth[i] - scale.mean[i]);
            let trained = error(&|row| row.truth[i] - row.said[i]);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{part:10} {name:20} constant {constant:8.4}  trained {trained:8.4}  ratio {:.2}",
                trained / constant
            );
        }
    }
    text
}

/// Both quantities over the frames.
pub(crate) fn picture(rows: &[Row], scale: &Scale) -> String {
    let (width, height) = (860.0, 220.0);
    let mut svg = Svg::on_paper(width, 2.0 * height);
    for (i, name) in NAMES.iter().enumerate() {
        let (top, bottom) = (height * i as f64 + 34.0, height * (i + 1) as f64 - 24.0);
        let values = rows.iter().flat_map(|row| [row.truth[i], row.said[i]]);
        let down = Axis::linear(values, [bottom, top]);
        let across = Axis::linear([0.0, rows.len().max(2) as f64 - 1.0], [60.0, width - 16.0]);
        axis::left(&mut svg, &down, 6, across.pixels());
        let points = |of: &dyn Fn(&Row) -> f64| -> Vec<[f64; 2]> {
            let rows = rows.iter().enumerate();
            rows.map(|(at, row)| [across.at(at as f64), down.at(of(row))])
                .collect()
        };
        svg.polyline(points(&|row| row.truth[i]), Stroke::new(colour::BLUE, 2.0));
        svg.polyline(points(&|row| row.said[i]), Stroke::new(colour::ORANGE, 1.2));
        let mean = down.at(scale.mean[i]);
        let ends = across.pixels();
        svg.line(
            [ends[0], mean],
            [ends[1], mean],
            Stroke::new(colour::MUTED, 1.0).dashed(4.0, 3.0),
        );
        if let Some(first) = rows.iter().position(|row| row.is_held_back) {
            let x = across.at(first as f64);
            svg.line([x, top], [x, bottom], Stroke::new(colour::MUTED, 1.0));
            svg.text(
                [x + 4.0, bottom - 4.0],
                Font::new(11.0, colour::MUTED),
                "held back",
            );
        }
        let title = format!(
            "{name}: the car (blue), the network (orange), mean of the training part (dashed)"
        );
        svg.text([60.0, top - 12.0], Font::new(12.0, colour::MUTED), &title);
    }
    svg.finish()
}
