//! Shapes as SVG, in pixels from the upper left corner.
//!
//! ```text
//! Svg::new(width, height)   rect  line  polyline  polygon  circle  text   -->  finish: "<svg …>…</svg>"
//! ```
//!
//! A shape of which a coordinate is not finite is left out, of a line of many points those points
//! are: the file stays valid whatever was measured.
//!
//! Source: Scalable Vector Graphics 1.1 (second edition). Deliberately absent: curves, gradients, groups.

use std::fmt::Write as _;

use crate::colour::{Colour, PAPER};
use crate::markup;

/// How an area is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// The colour the area is filled with.
    pub colour: Colour,
    /// 0 (not to be seen) to 1.
    pub opacity: f64,
}

impl Fill {
    /// `colour`, through which what is behind it is seen.
    pub fn faded(colour: Colour, opacity: f64) -> Self {
        Self { colour, opacity }
    }
}

impl From<Colour> for Fill {
    fn from(colour: Colour) -> Self {
        Self::faded(colour, 1.0)
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// The colour the line is drawn in.
    pub colour: Colour,
    /// Its width in pixels.
    pub width: f64,
    /// Pixels drawn and pixels left out, in turn; none for a whole line.
    pub dash: Option<[f64; 2]>,
}

impl Stroke {
    /// A line without gaps, `width` pixels wide.
    pub fn new(colour: Colour, width: f64) -> Self {
        Self {
            colour,
            width,
            dash: None,
        }
    }

    /// A line of dashes.
    pub fn dashed(self, drawn: f64, left_out: f64) -> Self {
        Self {
            dash: Some([drawn, left_out]),
            ..self
        }
    }
}

/// How text is set. It begins at its place unless it is said to be around or to end there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Font {
    size: f64,
    colour: Colour,
    anchor: &'static str,
    weight: &'static str,
}

impl Font {
    /// Text of `size` pixels.
    pub fn new(size: f64, colour: Colour) -> Self {
        Self {
            size,
            colour,
            anchor: "start",
            weight: "normal",
        }
    }

    /// Text around its place.
    pub fn centred(self) -> Self {
        Self {
            anchor: "middle",
            ..self
        }
    }

    /// Text that ends at its place.
    pub fn ending(self) -> Self {
        Self {
            anchor: "end",
            ..self
        }
    }

    /// The same text in bold letters.
    pub fn bold(self) -> Self {
        Self {
            weight: "bold",
            ..self
        }
    }
}

/// A picture being drawn.
///
/// # Examples
///
/// ```
/// use spark_drawing::{Stroke, Svg, colour};
///
/// let mut picture = Svg::new(100.0, 50.0); // pixels, y downwards
/// picture.line([0.0, 0.0], [100.0, 50.0], Stroke::new(colour::BLUE, 2.0));
/// picture.circle([50.0, 25.0], 4.0, colour::ORANGE.into());
/// assert!(picture.finish().starts_with("<svg"));
/// ```
#[derive(Debug, Clone)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

fn finite(coordinates: &[f64]) -> bool {
    coordinates.iter().all(|c| c.is_finite())
}

// Writing to a string cannot fail, here and below.
impl Svg {
    /// An empty picture, through which the page behind it is seen.
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    /// A picture on paper, for a file of its own.
    pub fn on_paper(width: f64, height: f64) -> Self {
        let mut svg = Self::new(width, height);
        svg.rect([0.0, 0.0], [width, height], 0.0, PAPER.into());
        svg
    }

    /// A rectangle from its upper left corner, with corners of radius `round`.
    pub fn rect(&mut self, [x, y]: [f64; 2], [w, h]: [f64; 2], round: f64, fill: Fill) {
        if finite(&[x, y, w, h]) {
            let Fill { colour, opacity } = fill;
            let _ = writeln!(
                self.body,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="{round}" fill="{colour}" fill-opacity="{opacity}"/>"#,
                w.max(0.0),
                h.max(0.0)
            );
        }
    }

    /// Draws a straight line between two points in pixels; nothing if one is not finite.
    pub fn line(&mut self, from: [f64; 2], to: [f64; 2], stroke: Stroke) {
        if finite(&[from[0], from[1], to[0], to[1]]) {
            let _ = writeln!(
                self.body,
                r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"{}/>"#,
                from[0],
                from[1],
                to[0],
                to[1],
                attributes(stroke)
            );
        }
    }

    /// A line through `points`.
    pub fn polyline(&mut self, points: impl IntoIterator<Item = [f64; 2]>, stroke: Stroke) {
        let points = joined(points);
        let _ = writeln!(
            self.body,
            r#"<polyline points="{points}" fill="none" stroke-linejoin="round"{}/>"#,
            attributes(stroke)
        );
    }

    /// The area inside `points`.
    pub fn polygon(&mut self, points: &[[f64; 2]], fill: Fill) {
        if points.iter().all(|point| finite(point)) {
            let points = joined(points.iter().copied());
            let Fill { colour, opacity } = fill;
            let _ = writeln!(
                self.body,
                r#"<polygon points="{points}" fill="{colour}" fill-opacity="{opacity}"/>"#
            );
        }
    }

    /// The line around `points`.
    pub fn outline(&mut self, points: &[[f64; 2]], stroke: Stroke) {
        if points.iter().all(|point| finite(point)) {
            let points = joined(points.iter().copied());
            let _ = writeln!(
                self.body,
                r#"<polygon points="{points}" fill="none"{}/>"#,
                attributes(stroke)
            );
        }
    }

    /// Draws a filled disc, all in pixels; nothing if a number is not finite.
    pub fn circle(&mut self, [x, y]: [f64; 2], radius: f64, fill: Fill) {
        if finite(&[x, y, radius]) {
            let Fill { colour, opacity } = fill;
            let _ = writeln!(
                self.body,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}" fill-opacity="{opacity}"/>"#
            );
        }
    }

    /// `text` on the line at `y`.
    pub fn text(&mut self, at: [f64; 2], font: Font, text: &str) {
        self.label(at, font, "", text);
    }

    /// `text` that reads upwards.
    pub fn text_upwards(&mut self, [x, y]: [f64; 2], font: Font, text: &str) {
        let turned = format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#);
        self.label([x, y], font, &turned, text);
    }

    fn label(&mut self, [x, y]: [f64; 2], font: Font, more: &str, text: &str) {
        if finite(&[x, y]) {
            let Font {
                size,
                colour,
                anchor,
                weight,
            } = font;
            let _ = writeln!(
                self.body,
                r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}"{more}>{}</text>"#,
                markup::escape(text)
            );
        }
    }

    /// The picture as a file's text or a page's element, without a line break at its end.
    pub fn finish(self) -> String {
        let Self {
            width,
            height,
            body,
        } = self;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="system-ui, sans-serif" role="img">
{body}</svg>"#
        )
    }
}

fn attributes(stroke: Stroke) -> String {
    let Stroke {
        colour,
        width,
        dash,
    } = stroke;
    let mut text = format!(r#" stroke="{colour}" stroke-width="{width}""#);
    if let Some([drawn, left_out]) = dash {
        let _ = write!(text, r#" stroke-dasharray="{drawn} {left_out}""#);
    }
    text
}

fn joined(points: impl IntoIterator<Item = [f64; 2]>) -> String {
    let finite = points.into_iter().filter(|point| finite(point));
    let points: Vec<String> = finite.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::{BLUE, INK};

    #[test]
    fn what_is_not_finite_is_not_drawn() {
        let mut svg = Svg::new(100.0, 50.0);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            svg.rect([bad, 0.0], [1.0, 1.0], 0.0, BLUE.into());
            svg.line([0.0, 0.0], [bad, 1.0], Stroke::new(INK, 1.0));
            svg.polygon(&[[0.0, 0.0], [bad, 0.0]], BLUE.into());
            svg.outline(&[[0.0, bad]], Stroke::new(INK, 1.0));
            svg.circle([0.0, bad], 1.0, BLUE.into());
            svg.text([bad, 0.0], Font::new(12.0, INK), "lost");
        }
        let empty = Svg::new(100.0, 50.0).finish();
        assert_eq!(svg.clone().finish(), empty);
        svg.polyline(
            [[0.0, 0.0], [f64::NAN, 1.0], [2.0, 2.0]],
            Stroke::new(INK, 1.0).dashed(3.0, 2.0),
        );
        assert!(svg.finish().contains(r#"points="0.0,0.0 2.0,2.0""#));
    }

    #[test]
    fn text_is_escaped_and_turned() {
        let mut svg = Svg::on_paper(10.0, 10.0);
        svg.text(
            [1.0, 2.0],
            Font::new(12.0, INK).ending().bold(),
            "</text><script>",
        );
        svg.text_upwards([3.0, 4.0], Font::new(9.0, INK).centred(), "up");
        let text = svg.finish();
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;") && !text.contains("<script"));
        assert!(text.contains(r#"transform="rotate(-90 3.0 4.0)">up<"#));
        assert!(text.starts_with("<svg") && text.ends_with("</svg>"));
    }
}
