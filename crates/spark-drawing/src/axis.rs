//! The grid behind marks: lines at round values, and the values beside them.

use crate::colour::{GRID, MUTED};
use crate::number;
use crate::scale::Scale;
use crate::svg::{Font, Stroke, Svg};

/// Upright lines from `top` to `bottom` at about `n` round values, which are written below, with
/// `unit` behind them.
pub fn below(svg: &mut Svg, scale: &Scale, n: usize, [top, bottom]: [f64; 2], unit: &str) {
    for tick in scale.ticks(n) {
        let x = scale.at(tick.value);
        svg.line([x, top], [x, bottom], Stroke::new(GRID, 1.0));
        let label = number::with_unit(&tick.label, unit);
        svg.text([x, bottom + 14.0], Font::new(11.0, MUTED).centred(), &label);
    }
}

/// The values that [`below`] writes, above `top`.
pub fn above(svg: &mut Svg, scale: &Scale, n: usize, top: f64) {
    for tick in scale.ticks(n) {
        let place = [scale.at(tick.value), top - 6.0];
        svg.text(place, Font::new(11.0, MUTED).centred(), &tick.label);
    }
}

/// Level lines from `start` to `end` at about `n` round values, which are written to the left.
pub fn left(svg: &mut Svg, scale: &Scale, n: usize, [start, end]: [f64; 2]) {
    for tick in scale.ticks(n) {
        let y = scale.at(tick.value);
        svg.line([start, y], [end, y], Stroke::new(GRID, 1.0));
        let place = [start - 6.0, y + 4.0];
        svg.text(place, Font::new(11.0, MUTED).ending(), &tick.label);
    }
}
