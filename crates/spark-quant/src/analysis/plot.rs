//! Signal to noise against size, as an SVG file.
//!
//! ```text
//! dB |            o f32     line: mixed plans, from the cheapest to the most exact
//!    |      ____/           dots: one format for all weights
//!    | o__/
//!    +------------ MB
//! ```

use spark_drawing::colour::{BLUE, INK, MUTED, RED};
use spark_drawing::{Font, Scale, Stroke, Svg, axis, number};

/// A format or a plan, as a labelled dot in the plot of size against error.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Text that is written beside the dot.
    pub label: String,
    /// Size in bytes; the axis shows MB.
    pub bytes: f64,
    /// Signal to noise in dB.
    pub sqnr_db: f64,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 96.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = HEIGHT - 52.0;
/// Less than this is no signal at all; the plot would be empty above it.
const LOWEST_DB: f64 = -200.0;
/// Labels closer than this overlap.
const LABEL: [f64; 2] = [110.0, 13.0];

/// A plot of dots and of a line through `line` (bytes, dB). Points that are not finite are left out.
pub fn sqnr_against_bytes(title: &str, dots: &[Dot], line: &[(f64, f64)]) -> String {
    let finite = |&(bytes, db): &(f64, f64)| bytes.is_finite() && db.is_finite();
    let line: Vec<(f64, f64)> = line.iter().copied().filter(finite).collect();
    let mut dots: Vec<&Dot> = dots
        .iter()
        .filter(|dot| finite(&(dot.bytes, dot.sqnr_db)))
        .collect();
    let all = || {
        let of_dots = dots.iter().map(|dot| (dot.bytes, dot.sqnr_db));
        of_dots.chain(line.iter().copied())
    };
    let (unit, unit_name) = number::byte_unit(all().map(|point| point.0).fold(0.0, f64::max));
    let x = Scale::from_zero(all().map(|point| point.0 / unit), [LEFT, RIGHT]);
    let y = Scale::from_zero(all().map(|point| point.1.max(LOWEST_DB)), [BOTTOM, TOP]);
    let at = |bytes: f64, db: f64| [x.within(bytes / unit), y.within(db)];

    let mut svg = Svg::on_paper(WIDTH, HEIGHT);
    svg.text([LEFT, 24.0], Font::new(15.0, INK), title);
    axis::left(&mut svg, &y, 7, [LEFT, RIGHT]);
    axis::below(&mut svg, &x, 8, [TOP, BOTTOM], "");
    let corner = [[LEFT, TOP], [LEFT, BOTTOM], [RIGHT, BOTTOM]];
    svg.polyline(corner, Stroke::new(INK, 1.0));
    let names = Font::new(12.0, MUTED).centred();
    let below = [0.5 * (LEFT + RIGHT), HEIGHT - 14.0];
    svg.text(below, names, &format!("size, {unit_name}"));
    svg.text_upwards([18.0, 0.5 * (TOP + BOTTOM)], names, "signal to noise, dB");
    svg.polyline(
        line.iter().map(|&(bytes, db)| at(bytes, db)),
        Stroke::new(BLUE, 2.0),
    );
    // Labels side by side would overlap, so each moves down until it is clear of those before it.
    let mut taken: Vec<[f64; 2]> = Vec::new();
    dots.sort_by(|a, b| {
        b.sqnr_db
            .total_cmp(&a.sqnr_db)
            .then(a.bytes.total_cmp(&b.bytes))
    });
    for dot in dots {
        let [dot_x, dot_y] = at(dot.bytes, dot.sqnr_db);
        let mut label = [dot_x + 8.0, dot_y + 4.0];
        while taken.iter().any(|other| {
            (label[0] - other[0]).abs() < LABEL[0] && (label[1] - other[1]).abs() < LABEL[1]
        }) {
            label[1] += 3.0;
        }
        taken.push(label);
        svg.circle([dot_x, dot_y], 4.0, RED.into());
        svg.text(label, Font::new(12.0, INK), &dot.label);
    }
    svg.finish() + "\n"
}
