//! Signal to noise against size, as an SVG file.
//!
//! ```text
//! dB |            o f32     line: mixed plans, from the cheapest to the most exact
//!    |      ____/           dots: one format for all weights
//!    | o__/
//!    +------------ MB
//! ```

use std::fmt::Write as _;

/// A labelled dot.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Text beside it.
    pub label: String,
    /// Size in bytes.
    pub bytes: f64,
    /// Signal to noise in dB.
    pub sqnr_db: f64,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;

/// Steps of 1, 2 or 5 times a power of ten, about `n` of them over `span`.
fn tick_step(span: f64, n: f64) -> f64 {
    let raw = (span / n).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= raw)
        .unwrap_or(raw)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A plot of dots and of a line through `line` (bytes, dB). Points that are not finite are left out.
pub fn sqnr_against_bytes(title: &str, dots: &[Dot], line: &[(f64, f64)]) -> String {
    let finite = |&(bytes, db): &(f64, f64)| bytes.is_finite() && db.is_finite();
    let line: Vec<(f64, f64)> = line.iter().copied().filter(finite).collect();
    let dots: Vec<&Dot> = dots
        .iter()
        .filter(|dot| finite(&(dot.bytes, dot.sqnr_db)))
        .collect();
    let all = || {
        dots.iter()
            .map(|dot| (dot.bytes, dot.sqnr_db))
            .chain(line.iter().copied())
    };
    let max_bytes = all().map(|point| point.0).fold(1.0, f64::max) * 1.02;
    let min_db = all().map(|point| point.1).fold(0.0, f64::min).max(-200.0);
    let max_db = all().map(|point| point.1).fold(1.0, f64::max) * 1.06;
    let x = |bytes: f64| LEFT + bytes / max_bytes * (WIDTH - LEFT - RIGHT);
    let y = |db: f64| HEIGHT - BOTTOM - (db - min_db) / (max_db - min_db) * (HEIGHT - TOP - BOTTOM);
    let (unit, unit_name) = if max_bytes >= 4e6 {
        (1e6, "MB")
    } else {
        (1e3, "kB")
    };

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    // Writing to a String cannot fail.
    let mut put = |text: std::fmt::Arguments<'_>| {
        let _ = svg.write_fmt(text);
        svg.push('\n');
    };
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let step = tick_step(max_db - min_db, 7.0);
    let mut db = (min_db / step).ceil() * step;
    while db <= max_db {
        let at = y(db);
        put(format_args!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"
        ));
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{db:.0}</text>",
            LEFT - 8.0,
            at + 4.0
        ));
        db += step;
    }
    let step = tick_step(max_bytes / unit, 8.0);
    let decimals = if step < 1.0 { 1 } else { 0 };
    let mut at_unit = 0.0;
    while at_unit * unit <= max_bytes {
        let at = x(at_unit * unit);
        put(format_args!(
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/>"
        ));
        put(format_args!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at_unit:.decimals$}</text>",
            bottom + 18.0
        ));
        at_unit += step;
    }
    put(format_args!(
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#333\"/>"
    ));
    put(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">size, {unit_name}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 14.0
    ));
    let middle = (TOP + bottom) / 2.0;
    put(format_args!(
        "<text x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle:.1})\">signal to noise, dB</text>"
    ));
    let path: Vec<String> = line
        .iter()
        .map(|&(bytes, db)| format!("{:.1},{:.1}", x(bytes), y(db)))
        .collect();
    put(format_args!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\"/>",
        path.join(" ")
    ));
    // Labels side by side would overlap, so each moves down until it is clear of those before it.
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut ordered = dots.clone();
    ordered.sort_by(|a, b| {
        b.sqnr_db
            .total_cmp(&a.sqnr_db)
            .then(a.bytes.total_cmp(&b.bytes))
    });
    for dot in ordered {
        let (cx, cy) = (x(dot.bytes), y(dot.sqnr_db));
        let (label_x, mut label_y) = (cx + 8.0, cy + 4.0);
        while taken.iter().any(|&(other_x, other_y)| {
            (label_x - other_x).abs() < 110.0 && (label_y - other_y).abs() < 13.0
        }) {
            label_y += 3.0;
        }
        taken.push((label_x, label_y));
        put(format_args!(
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"#d1495b\"/>"
        ));
        put(format_args!(
            "<text x=\"{label_x:.1}\" y=\"{label_y:.1}\">{}</text>",
            escape(&dot.label)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}
