//! From values to pixels, with round ticks.
//!
//! ```text
//! linear        at(v) = from + (v - low) / (high - low) * (to - from)     ticks 1, 2, 5 times 10^n
//! logarithmic   the same of log v; ticks 1, 2, 5 times 10^n over few decades, powers of 10 over many
//! ```
//!
//! Every scale is made around the values that it will show, those that are not finite left out, and
//! is sound without any. Deliberately absent: dates, categories (see [`crate::Rows`]).

/// A round value on a scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where it stands on the scale, in the scale's unit.
    pub value: f64,
    /// As it is written: as many decimals as the ticks beside it need.
    pub label: String,
}

/// A stretch of values on a stretch of pixels, which may run to the left or upwards.
///
/// # Examples
///
/// ```
/// use spark_drawing::Scale;
///
/// let scale = Scale::from_zero([2.0, 8.0], [100.0, 300.0]);
/// assert_eq!(scale.at(0.0), 100.0);
/// let ticks: Vec<String> = scale.ticks(5).into_iter().map(|tick| tick.label).collect();
/// assert_eq!(ticks[0], "0");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

/// Most ticks of one scale.
const MOST_TICKS: i64 = 50;
/// A logarithmic scale of less than this, end over start, has ticks as a linear one.
const ALMOST_LINEAR: f64 = 10.0;

impl Scale {
    /// All of `values`, with a margin; a single one has room on both sides.
    pub fn linear(values: impl IntoIterator<Item = f64>, pixels: [f64; 2]) -> Self {
        let (low, high) = ends(values, |v| v.is_finite()).unwrap_or((0.0, 1.0));
        let margin = (0.05 * (high - low)).max(1e-9 + 1e-3 * low.abs());
        Self::between([low - margin, high + margin], pixels)
    }

    /// All of `values` and zero, at which bars begin.
    pub fn from_zero(values: impl IntoIterator<Item = f64>, pixels: [f64; 2]) -> Self {
        let (low, high) = ends(values, |v| v.is_finite()).unwrap_or((0.0, 0.0));
        let (low, high) = (1.05 * low.min(0.0), 1.05 * high.max(0.0));
        let high = if high > low { high } else { low + 1.0 };
        Self::between([low, high], pixels)
    }

    /// Those of `values` that are above zero, by their logarithms, with a margin.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>, pixels: [f64; 2]) -> Self {
        let (low, high) = positive_ends(values);
        Self {
            is_logarithmic: true,
            ..Self::between([low / 1.15, high * 1.15], pixels)
        }
    }

    /// Those of `values` that are above zero, by their logarithms, in whole decades.
    pub fn decades(values: impl IntoIterator<Item = f64>, pixels: [f64; 2]) -> Self {
        let (low, high) = positive_ends(values);
        let first = decade_of(low);
        let last =
            (decade_of(high) + i32::from(power_of_ten(decade_of(high)) < high)).max(first + 1);
        Self {
            is_logarithmic: true,
            ..Self::between([power_of_ten(first), power_of_ten(last)], pixels)
        }
    }

    fn between([low, high]: [f64; 2], [from, to]: [f64; 2]) -> Self {
        Self {
            low: low.max(f64::MIN),
            high: high.min(f64::MAX),
            from,
            to,
            is_logarithmic: false,
        }
    }

    /// The pixel of `value`, also of one that is not on the scale. On a logarithmic scale what is not
    /// above zero is far below its start.
    pub fn at(&self, value: f64) -> f64 {
        self.from + self.part(value) * (self.to - self.from)
    }

    /// As [`Scale::at`]; the nearest end for what is not on the scale. What is not finite has no
    /// place: NaN, which is not drawn.
    pub fn within(&self, value: f64) -> f64 {
        if !value.is_finite() {
            return f64::NAN;
        }
        self.from + self.part(value).clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// 0 at the start, 1 at the end; NaN stays.
    fn part(&self, value: f64) -> f64 {
        if !self.is_logarithmic {
            (value - self.low) / (self.high - self.low)
        } else if value <= 0.0 {
            f64::MIN
        } else {
            (value / self.low).ln() / (self.high / self.low).ln()
        }
    }

    /// First and last pixel.
    pub fn pixels(&self) -> [f64; 2] {
        [self.from, self.to]
    }

    /// About `n` round values on the scale, in order.
    pub fn ticks(&self, n: usize) -> Vec<Tick> {
        let ticks = if self.is_logarithmic && self.high / self.low >= ALMOST_LINEAR {
            self.logarithmic_ticks(n)
        } else {
            self.linear_ticks(n)
        };
        ticks.into_iter().filter(|t| t.value.is_finite()).collect()
    }

    fn linear_ticks(&self, n: usize) -> Vec<Tick> {
        let rough = (self.high - self.low) / n.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        // Dividing keeps 0.3 and its like exact enough to print shortly.
        let tick = |i: i64| match step {
            step if step < 1.0 => i as f64 / (1.0 / step),
            step => i as f64 * step,
        };
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        let last = last.min(first.saturating_add(MOST_TICKS));
        let largest = self.low.abs().max(self.high.abs());
        (first..=last)
            .map(|i| Tick {
                value: tick(i),
                label: linear_label(tick(i), step, largest),
            })
            .collect()
    }

    fn logarithmic_ticks(&self, n: usize) -> Vec<Tick> {
        let (first, last) = (decade_of(self.low), decade_of(self.high));
        let n_decades = (last - first).max(1) as usize;
        let factors: &[f64] = match (self.high / self.low).log10() {
            decades if decades < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let decades = (first..=last).step_by(n_decades.div_ceil(n.max(1)));
        let values = decades.flat_map(|decade| {
            let power = power_of_ten(decade);
            factors.iter().map(move |factor| (factor * power, decade))
        });
        let is_shown = |value: &f64| (self.low..=self.high).contains(value);
        values
            .filter(|(value, _)| is_shown(value))
            .map(|(value, decade)| Tick {
                value,
                label: logarithmic_label(value, decade),
            })
            .collect()
    }
}

/// Smallest and largest of what counts.
fn ends(
    values: impl IntoIterator<Item = f64>,
    counts: impl Fn(&f64) -> bool,
) -> Option<(f64, f64)> {
    values.into_iter().filter(counts).fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn positive_ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    ends(values, |v| v.is_finite() && *v >= f64::MIN_POSITIVE).unwrap_or((1.0, 10.0))
}

/// The power of ten at or below `value`, which is above zero.
fn decade_of(value: f64) -> i32 {
    let decade = value.log10().floor().clamp(-307.0, 308.0) as i32;
    // The logarithm of a power of ten may be just below it.
    decade + i32::from(power_of_ten(decade + 1) <= value)
}

/// Dividing keeps 0.1 and its like exact.
fn power_of_ten(decade: i32) -> f64 {
    match decade {
        decade if decade < 0 => 1.0 / 10f64.powi(-decade),
        decade => 10f64.powi(decade),
    }
}

fn linear_label(value: f64, step: f64, largest: f64) -> String {
    if !(1e-4..1e6).contains(&largest) || step < 1e-6 {
        return format!("{value:e}");
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

fn logarithmic_label(value: f64, decade: i32) -> String {
    match decade {
        -4..=5 => format!("{value:.*}", (-decade).max(0) as usize),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scale: Scale, n: usize, want: &[&str]) {
        let ticks = scale.ticks(n);
        let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, want);
        for pair in ticks.windows(2) {
            assert!(scale.at(pair[0].value) < scale.at(pair[1].value));
        }
    }

    const PIXELS: [f64; 2] = [100.0, 200.0];

    #[test]
    fn ticks_are_round_and_written_alike() {
        check(Scale::linear([0.0, 1.0], PIXELS), 4, &["0.0", "0.5", "1.0"]);
        check(
            Scale::linear([-0.3, 0.3], PIXELS),
            7,
            &["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"],
        );
        check(
            Scale::from_zero([420.0], PIXELS),
            5,
            &["0", "100", "200", "300", "400"],
        );
        check(
            Scale::from_zero([-3.0], PIXELS),
            4,
            &["-3", "-2", "-1", "0"],
        );
        check(
            Scale::logarithmic([2.0, 30.0], PIXELS),
            6,
            &["2", "5", "10", "20"],
        );
        check(
            Scale::logarithmic([100.0, 120.0], PIXELS),
            6,
            &["90", "100", "110", "120", "130"],
        );
        check(
            Scale::linear([1e9, 2e9], PIXELS),
            3,
            &["1e9", "1.5e9", "2e9"],
        );
    }

    #[test]
    fn decades_hold_every_value_whole() {
        let scale = Scale::decades([0.4, 3.0, 30.0], PIXELS);
        check(scale, 8, &["0.1", "1", "10", "100"]);
        assert_eq!((scale.at(0.1), scale.at(100.0)), (100.0, 200.0));
        // A power of ten stands at an end.
        check(Scale::decades([1.0], PIXELS), 8, &["1", "2", "5", "10"]);
        check(
            Scale::decades([1e-3, 1.0], PIXELS),
            8,
            &["0.001", "0.01", "0.1", "1"],
        );
        // Nothing is above zero.
        check(
            Scale::decades([0.0, -1.0, f64::NAN], PIXELS),
            8,
            &["1", "2", "5", "10"],
        );
    }

    #[test]
    fn no_values_and_absurd_ones_make_a_scale_too() {
        type Make = fn(Vec<f64>) -> Scale;
        let kinds: [Make; 4] = [
            |v| Scale::linear(v, PIXELS),
            |v| Scale::from_zero(v, PIXELS),
            |v| Scale::logarithmic(v, PIXELS),
            |v| Scale::decades(v, PIXELS),
        ];
        for make in kinds {
            for values in [
                vec![],
                vec![f64::NAN, f64::INFINITY],
                vec![7.0],
                vec![0.0],
                vec![1e18, 1e18 + 256.0],
                vec![f64::MIN, f64::MAX],
                vec![f64::MIN_POSITIVE, 5e-324],
            ] {
                let scale = make(values.clone());
                let ticks = scale.ticks(6);
                assert!(ticks.len() <= 51, "{values:?}: {}", ticks.len());
                assert!(ticks.iter().all(|tick| tick.value.is_finite()));
            }
        }
        assert!(Scale::linear([7.0], PIXELS).at(7.0) == 150.0);
    }

    #[test]
    fn what_is_outside_stands_at_an_end_where_asked() {
        let scale = Scale::decades([1.0, 10.0], PIXELS);
        assert_eq!((scale.within(0.0), scale.within(1e9)), (100.0, 200.0));
        assert!(scale.within(f64::INFINITY).is_nan() && scale.within(f64::NAN).is_nan());
        assert!(scale.at(100.0) > 299.0 && scale.at(f64::NAN).is_nan());
        let upwards = Scale::from_zero([10.0], [200.0, 100.0]);
        assert_eq!(upwards.at(0.0), 200.0);
        assert!(upwards.at(5.0) > upwards.at(6.0));
    }
}
