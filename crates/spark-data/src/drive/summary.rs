//! A drive in few figures and a picture.

use spark_drawing::colour::{BLUE, GREEN, INK};
use spark_drawing::{Font, Scale, Stroke, Svg, axis};

use super::signals::Drive;

/// A drive in few figures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// How many events there are.
    pub events: u64,
    /// From the first event to the last, s.
    pub duration_s: f64,
    /// Least, mean and greatest speed, m/s; `None` without readings. The mean is over time.
    pub speed: Option<[f64; 3]>,
    /// The way driven between the first reading of speed and the last, m.
    pub distance_m: f64,
    /// Which share of readings said that openpilot drove.
    pub engaged: Option<f64>,
    /// Values that were broken.
    pub n_broken: u64,
}

impl Drive {
    /// The drive in few figures.
    pub fn summary(&self) -> Summary {
        let (times, speeds) = (self.speed.times(), self.speed.values());
        let seconds = |from: usize, to: usize| (times[to] - times[from]) as f64 * 1e-9;
        // By trapezoids.
        let distance_m: f64 = (1..times.len())
            .map(|i| (speeds[i - 1] + speeds[i]) / 2.0 * seconds(i - 1, i))
            .sum();
        let distance_m = distance_m + 0.0; // a sum of nothing is -0
        let driven_s = times
            .len()
            .checked_sub(1)
            .map_or(0.0, |last| seconds(0, last));
        let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = speeds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = match driven_s > 0.0 {
            true => distance_m / driven_s,
            // One reading, or all at once.
            false => speeds.iter().sum::<f64>() / speeds.len().max(1) as f64,
        };
        let engaged = self.engaged.values();
        let n_engaged = engaged.iter().filter(|it| **it).count();
        Summary {
            events: self.counts.values().sum(),
            duration_s: self
                .span
                .map_or(0.0, |(first, last)| (last - first) as f64 * 1e-9),
            speed: (!speeds.is_empty()).then_some([least, mean, most]),
            distance_m,
            engaged: (!engaged.is_empty()).then(|| n_engaged as f64 / engaged.len() as f64),
            n_broken: self.n_broken,
        }
    }

    /// Speed over time as a picture (SVG); `None` with fewer than two readings of speed. The times at which openpilot drove are
    /// marked below the curve.
    pub fn speed_picture(&self) -> Option<Svg> {
        const WIDTH: f64 = 760.0;
        const HEIGHT: f64 = 240.0;
        const PLOT: [f64; 4] = [56.0, 744.0, 34.0, 200.0]; // left, right, top, bottom
        let [left, right, top, bottom] = PLOT;
        let start = *self.speed.times().first()?;
        if self.speed.len() < 2 {
            return None;
        }
        let after = |time: u64| time.saturating_sub(start) as f64 * 1e-9;
        let points = self
            .speed
            .times()
            .iter()
            .map(|time| after(*time))
            .zip(self.speed.values().iter().copied());
        let points: Vec<(f64, f64)> = points.collect();
        let mut svg = Svg::new(WIDTH, HEIGHT);
        let across = Scale::linear(points.iter().map(|(time, _)| *time), [left, right]);
        let up = Scale::from_zero(points.iter().map(|(_, speed)| *speed), [bottom, top]);
        svg.text([left, 18.0], Font::new(12.0, INK), "speed, m/s");
        if self.engaged.values().contains(&true) {
            svg.text(
                [right, 18.0],
                Font::new(12.0, GREEN).ending(),
                "openpilot drives",
            );
        }
        axis::left(&mut svg, &up, 5, [left, right]);
        axis::below(&mut svg, &across, 8, [top, bottom], "s");
        for [from, to] in self.engaged_spans() {
            let [from, to] = [from, to].map(|time| across.within(after(time)));
            svg.line(
                [from, bottom - 2.0],
                [to, bottom - 2.0],
                Stroke::new(GREEN, 4.0),
            );
        }
        let places = points
            .iter()
            .map(|(time, speed)| [across.at(*time), up.at(*speed)]);
        svg.polyline(places, Stroke::new(BLUE, 1.5));
        Some(svg)
    }

    /// From when to when openpilot drove, ns.
    fn engaged_spans(&self) -> Vec<[u64; 2]> {
        let (times, engaged) = (self.engaged.times(), self.engaged.values());
        let mut spans: Vec<[u64; 2]> = Vec::new();
        for index in 1..times.len() {
            match spans.last_mut() {
                _ if !engaged[index - 1] => {}
                Some([_, to]) if *to == times[index - 1] => *to = times[index],
                _ => spans.push([times[index - 1], times[index]]),
            }
        }
        spans
    }
}
