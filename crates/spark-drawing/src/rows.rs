//! Rows of a name and marks along one axis.
//!
//! ```text
//! name |----[==o==|==o==]-----| text      bar, dots, median
//! name |      |---o------|  <>|           spread, dot, diamond
//!      +--+--------+--------+-+
//!         1        2        5
//! ```

use crate::axis;
use crate::colour::{Colour, INK};
use crate::scale::Scale;
use crate::svg::{Fill, Font, Stroke, Svg};

/// Text size of names and values.
const SIZE: f64 = 12.0;
/// About so many ticks.
const N_TICKS: usize = 8;

/// Rows that are being drawn on a picture.
///
/// # Examples
///
/// ```
/// use spark_drawing::{Rows, Scale, Svg, colour};
///
/// let mut picture = Svg::new(400.0, Rows::height(2));
/// let scale = Scale::from_zero([1.5, 2.5], [100.0, 380.0]);
/// let mut rows = Rows::new(&mut picture, scale, 4.0, 2);
/// for (row, (name, ms)) in [("old", 2.5), ("new", 1.5)].into_iter().enumerate() {
///     rows.name(row, name);
///     rows.bar(row, [0.0, ms], 14.0, colour::BLUE.into());
/// }
/// assert!(picture.finish().contains("new"));
/// ```
#[derive(Debug)]
pub struct Rows<'a> {
    svg: &'a mut Svg,
    scale: Scale,
    top: f64,
    bottom: f64,
}

impl<'a> Rows<'a> {
    /// Height of a row.
    pub const ROW: f64 = 24.0;
    /// Height of the numbers below the rows.
    pub const FOOT: f64 = 24.0;
    /// From so many rows on, the numbers stand above them too.
    const TALL: usize = 12;
    /// Height of those numbers.
    const HEAD: f64 = 20.0;

    /// The axis of `n_rows` rows, all between `top` and [`Rows::height`] below it. Names end left of
    /// the scale's first pixel.
    pub fn new(svg: &'a mut Svg, scale: Scale, top: f64, n_rows: usize) -> Self {
        let top = top + Self::head(n_rows);
        let bottom = top + Self::ROW * n_rows as f64;
        if n_rows >= Self::TALL {
            axis::above(svg, &scale, N_TICKS, top);
        }
        axis::below(svg, &scale, N_TICKS, [top, bottom], "");
        Self {
            svg,
            scale,
            top,
            bottom,
        }
    }

    /// The height of `n_rows` rows with the numbers below them and, where they are many, above.
    pub fn height(n_rows: usize) -> f64 {
        Self::head(n_rows) + Self::ROW * n_rows as f64 + Self::FOOT
    }

    fn head(n_rows: usize) -> f64 {
        if n_rows >= Self::TALL {
            Self::HEAD
        } else {
            0.0
        }
    }

    fn middle(&self, row: usize) -> f64 {
        self.top + Self::ROW * (row as f64 + 0.5)
    }

    /// An upright line at `value` through all rows.
    pub fn rule(&mut self, value: f64, colour: Colour) {
        let x = self.scale.within(value);
        let stroke = Stroke::new(colour, 1.2);
        self.svg.line([x, self.top], [x, self.bottom], stroke);
    }

    /// What a row is about.
    pub fn name(&mut self, row: usize, text: &str) {
        self.named(row, text, INK);
    }

    /// As [`Rows::name`], in a colour.
    pub fn named(&mut self, row: usize, text: &str, colour: Colour) {
        let place = [self.scale.pixels()[0] - 10.0, self.middle(row) + 4.0];
        self.svg.text(place, Font::new(SIZE, colour).ending(), text);
    }

    /// A bar from the one value to the other, `thickness` pixels high.
    pub fn bar(&mut self, row: usize, [from, to]: [f64; 2], thickness: f64, fill: Fill) {
        let (from, to) = (self.scale.within(from), self.scale.within(to));
        // A bar of no length is seen too.
        let size = [(to - from).max(1.0), thickness];
        let corner = [from, self.middle(row) - 0.5 * thickness];
        self.svg.rect(corner, size, 2.0, fill);
    }

    /// A line from the one value to the other.
    pub fn spread(&mut self, row: usize, [from, to]: [f64; 2], colour: Colour) {
        let (from, to) = (self.scale.within(from), self.scale.within(to));
        let y = self.middle(row);
        self.svg.line([from, y], [to, y], Stroke::new(colour, 2.5));
    }

    /// A dot, `shift` pixels below the middle of its row.
    pub fn dot(&mut self, row: usize, value: f64, shift: f64, radius: f64, fill: Fill) {
        let place = [self.scale.within(value), self.middle(row) + shift];
        self.svg.circle(place, radius, fill);
    }

    /// An upright stroke: a median.
    pub fn median(&mut self, row: usize, value: f64, colour: Colour) {
        let (x, y) = (self.scale.within(value), self.middle(row));
        self.svg
            .line([x, y - 9.0], [x, y + 9.0], Stroke::new(colour, 2.5));
    }

    /// An empty diamond: what was before.
    pub fn diamond(&mut self, row: usize, value: f64) {
        let (x, y) = (self.scale.within(value), self.middle(row));
        let corners = [[x, y - 5.0], [x + 5.0, y], [x, y + 5.0], [x - 5.0, y]];
        self.svg.outline(&corners, Stroke::new(INK, 1.0));
    }

    /// Text right of all of `values`.
    pub fn beside(&mut self, row: usize, values: &[f64], colour: Colour, text: &str) {
        let ends = values.iter().map(|value| self.scale.within(*value));
        let x = ends.fold(self.scale.pixels()[0], f64::max);
        let place = [x + 10.0, self.middle(row) + 4.0];
        self.svg.text(place, Font::new(SIZE, colour), text);
    }

    /// Text right of the axis.
    pub fn at_end(&mut self, row: usize, colour: Colour, text: &str) {
        let place = [self.scale.pixels()[1] + 8.0, self.middle(row) + 4.0];
        self.svg.text(place, Font::new(SIZE, colour), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::BLUE;

    #[test]
    fn marks_stand_in_their_rows_and_on_the_scale() {
        let mut svg = Svg::new(300.0, Rows::height(2));
        let scale = Scale::from_zero([100.0], [100.0, 205.0]);
        let mut rows = Rows::new(&mut svg, scale, 0.0, 2);
        rows.name(0, "one");
        rows.dot(1, 100.0, 0.0, 4.0, BLUE.into());
        rows.dot(1, 1e9, 0.0, 4.0, BLUE.into());
        rows.dot(1, f64::NAN, 0.0, 4.0, BLUE.into());
        rows.dot(1, f64::INFINITY, 0.0, 4.0, BLUE.into());
        rows.bar(0, [0.0, 50.0], 10.0, BLUE.into());
        rows.beside(0, &[50.0, f64::NAN], INK, "fifty");
        let text = svg.finish();
        assert!(text.contains(r#"cx="200.0" cy="36.0""#), "{text}");
        assert!(text.contains(r#"cx="205.0" cy="36.0""#), "{text}");
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(
            text.contains(r#"x="100.0" y="7.0" width="50.0" height="10.0""#),
            "{text}"
        );
        assert!(text.contains(r#"x="160.0" y="16.0""#), "{text}");
    }
}
