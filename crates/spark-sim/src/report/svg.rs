//! A little SVG: shapes in a coordinate system, axes with round ticks.

use std::fmt::Write as _;

/// Text that is safe inside markup.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Colours: baseline, candidate, good, bad, ink, grid.
pub(super) const BASELINE: &str = "#4c6a92";
pub(super) const CANDIDATE: &str = "#d1683c";
pub(super) const GOOD: &str = "#2f8f5b";
pub(super) const BAD: &str = "#c23b3b";
pub(super) const INK: &str = "#26292e";
pub(super) const GRID: &str = "#dfe3e8";
pub(super) const MUTED: &str = "#7a828c";

/// A picture being drawn, in pixels.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    pub(super) fn rect(&mut self, at: [f64; 2], size: [f64; 2], fill: &str) {
        let [x, y] = at;
        let [w, h] = size;
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" fill="{fill}"/>"#
        );
    }

    pub(super) fn line(&mut self, from: [f64; 2], to: [f64; 2], stroke: &str, width: f64) {
        let _ = write!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{stroke}" stroke-width="{width}"/>"#,
            from[0], from[1], to[0], to[1]
        );
    }

    pub(super) fn circle(&mut self, at: [f64; 2], radius: f64, fill: &str, opacity: f64) {
        let _ = write!(
            self.body,
            r#"<circle cx="{:.1}" cy="{:.1}" r="{radius}" fill="{fill}" fill-opacity="{opacity}"/>"#,
            at[0], at[1]
        );
    }

    pub(super) fn polyline(
        &mut self,
        points: impl IntoIterator<Item = [f64; 2]>,
        stroke: &str,
        width: f64,
        dash: &str,
    ) {
        self.body.push_str("<polyline points=\"");
        for [x, y] in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        let _ = write!(
            self.body,
            r#"" fill="none" stroke="{stroke}" stroke-width="{width}" stroke-dasharray="{dash}" stroke-linejoin="round"/>"#
        );
    }

    pub(super) fn polygon(&mut self, points: &[[f64; 2]], fill: &str, opacity: f64) {
        self.body.push_str("<polygon points=\"");
        for [x, y] in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        let _ = write!(self.body, r#"" fill="{fill}" fill-opacity="{opacity}"/>"#);
    }

    /// `anchor` is start, middle or end.
    pub(super) fn text(&mut self, at: [f64; 2], size: f64, anchor: &str, fill: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text x="{:.1}" y="{:.1}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{}</text>"#,
            at[0],
            at[1],
            escape(text)
        );
    }

    pub(super) fn finish(self) -> String {
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="system-ui, sans-serif">{body}</svg>"#,
            w = self.width,
            h = self.height,
            body = self.body
        )
    }
}

/// A linear scale from values to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Covers all values, with a margin; a single value gets room on both sides.
    pub(super) fn covering(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let margin = (0.05 * (high - low)).max(1e-9 + 1e-3 * low.abs());
        Self {
            low: low - margin,
            high: high + margin,
            from,
            to,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// About `n` round values inside the scale.
    pub(super) fn ticks(&self, n: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / n.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last.min(first + 50))
            .map(|i| i as f64 * step)
            .collect()
    }
}
