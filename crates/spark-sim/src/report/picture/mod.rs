//! Recorded drives as pictures: one moment as PNG, the whole drive as an animated GIF.
//!
//! ```text
//! +--------------------------------------------+
//! |  the road from above, around the ego: lanes, |
//! |  cars, the way driven so far                 |
//! +--------------------------------------------+
//! |  speed and offset over time, and where we are|
//! +--------------------------------------------+
//! ```
//!
//! The map is in world coordinates, so that bends bend; north is up, the ego in the middle.

mod canvas;

use crate::SimError;
use crate::road::Road;
use crate::run::{Trace, TraceRow};
use crate::scenario::Scenario;
use canvas::{Canvas, Colour, PALETTE};

/// Size and scale of pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PictureOptions {
    /// Pixels, 64 to 4096.
    pub width: u16,
    /// Pixels, 64 to 4096; the lower third shows curves.
    pub height: u16,
    /// Scale of the map, 0.1 to 100.
    pub pixels_per_metre: f64,
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self {
            width: 960,
            height: 540,
            pixels_per_metre: 7.0,
        }
    }
}

impl PictureOptions {
    /// With this width and height in pixels.
    #[must_use]
    pub fn with_size(mut self, width: u16, height: u16) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// With a map of this scale.
    #[must_use]
    pub fn with_pixels_per_metre(mut self, pixels: f64) -> Self {
        self.pixels_per_metre = pixels;
        self
    }
}

/// Most frames of an animation; of a longer recording every n-th row is shown.
const MOST_FRAMES: usize = 1000;
/// How far from the ego road and cars are drawn, m, beyond what fits.
const MARGIN: f64 = 20.0;

/// The moment of a drive closest to `time_s`, as a PNG file's bytes.
///
/// # Errors
///
/// [`SimError::Picture`] for a recording without rows or options out of range; errors of the
/// scenario's road.
pub fn replay_png(
    scenario: &Scenario,
    trace: &Trace,
    time_s: f64,
    options: &PictureOptions,
) -> Result<Vec<u8>, SimError> {
    let painter = Painter::new(scenario, trace, options)?;
    let away = |row: &TraceRow| (row.time - time_s).abs();
    let order =
        |(_, a): &(usize, &TraceRow), (_, b): &(usize, &TraceRow)| away(a).total_cmp(&away(b));
    let closest = trace.rows.iter().enumerate().min_by(order);
    let canvas = painter.frame(closest.map_or(0, |(i, _)| i));
    let mut bytes = Vec::new();
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut encoder = png::Encoder::new(&mut bytes, size(canvas.width), size(canvas.height));
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(PALETTE.concat());
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&canvas.pixels));
    written.map_err(|error| SimError::Picture {
        reason: error.to_string(),
    })?;
    Ok(bytes)
}

/// A drive as an animated GIF file's bytes, in real time, forever from the start again.
///
/// One frame per recorded row, at most a thousand; GIF counts in hundredths of a second, and
/// viewers slow down below two of them.
///
/// # Errors
///
/// As [`replay_png`].
pub fn replay_gif(
    scenario: &Scenario,
    trace: &Trace,
    options: &PictureOptions,
) -> Result<Vec<u8>, SimError> {
    let painter = Painter::new(scenario, trace, options)?;
    let rows = &trace.rows;
    let stride = rows.len().div_ceil(MOST_FRAMES);
    let span_s = rows.last().map_or(0.0, |row| row.time) - rows[0].time;
    let step_s = span_s / (rows.len().max(2) - 1) as f64 * stride as f64;
    let mut bytes = Vec::new();
    let failed = |error: gif::EncodingError| SimError::Picture {
        reason: error.to_string(),
    };
    let palette = PALETTE.concat();
    let mut encoder =
        gif::Encoder::new(&mut bytes, options.width, options.height, &palette).map_err(failed)?;
    encoder.set_repeat(gif::Repeat::Infinite).map_err(failed)?;
    for row_idx in (0..rows.len()).step_by(stride) {
        let frame = gif::Frame {
            width: options.width,
            height: options.height,
            delay: (100.0 * step_s).round().clamp(2.0, 6000.0) as u16,
            buffer: painter.frame(row_idx).pixels.into(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&frame).map_err(failed)?;
    }
    drop(encoder);
    Ok(bytes)
}

struct Painter<'a> {
    scenario: &'a Scenario,
    trace: &'a Trace,
    road: Road,
    options: PictureOptions,
    /// Rows of pixels of the map.
    map_height: usize,
}

impl<'a> Painter<'a> {
    fn new(
        scenario: &'a Scenario,
        trace: &'a Trace,
        options: &PictureOptions,
    ) -> Result<Self, SimError> {
        let refuse = |reason: &str| {
            Err(SimError::Picture {
                reason: reason.to_owned(),
            })
        };
        let sizes = 64..=4096;
        if !sizes.contains(&options.width) || !sizes.contains(&options.height) {
            return refuse("width and height must be 64 to 4096 pixels");
        }
        if !(0.1..=100.0).contains(&options.pixels_per_metre) {
            return refuse("the scale must be 0.1 to 100 pixels per metre");
        }
        if trace.rows.is_empty() {
            return refuse("the recording has no rows");
        }
        Ok(Self {
            scenario,
            trace,
            road: Road::new(&scenario.road)?,
            options: *options,
            map_height: usize::from(options.height) * 2 / 3,
        })
    }

    fn frame(&self, row_idx: usize) -> Canvas {
        let (width, height) = (
            usize::from(self.options.width),
            usize::from(self.options.height),
        );
        let mut canvas = Canvas::new(width, height, Colour::Ground);
        self.map(&mut canvas, row_idx);
        let below = [0.0, self.map_height as f64];
        canvas.rectangle(below, [width as f64, height as f64], Colour::White);
        self.curves(&mut canvas, row_idx);
        canvas
    }

    fn map(&self, canvas: &mut Canvas, row_idx: usize) {
        let rows = &self.trace.rows;
        let row = &rows[row_idx];
        let scale = self.options.pixels_per_metre;
        let middle = self.road.to_world(row.s, row.d, 0.0);
        let centre = [0.5 * canvas.width as f64, 0.5 * self.map_height as f64];
        let on_canvas = |s: f64, d: f64| {
            let place = self.road.to_world(s, d, 0.0);
            [
                centre[0] + (place.x - middle.x) * scale,
                centre[1] - (place.y - middle.y) * scale,
            ]
        };
        let reach = centre[0].hypot(centre[1]) / scale + MARGIN;
        let step = (2.0_f64).max(2.0 / scale);
        let n = (2.0 * reach / step).ceil() as usize;
        // Whole steps of the road, so that it stands still while the car moves.
        let first = ((row.s - reach) / step).floor() * step;
        let stations: Vec<f64> = (0..=n).map(|i| first + i as f64 * step).collect();
        let (left, right) = (self.road.left_edge(), self.road.right_edge());
        for pair in stations.windows(2) {
            let quad = [
                on_canvas(pair[0], left),
                on_canvas(pair[1], left),
                on_canvas(pair[1], right),
                on_canvas(pair[0], right),
            ];
            canvas.polygon(&quad, Colour::Road);
        }
        let lane_width = self.road.lane_width();
        let n_lanes = ((left - right) / lane_width).round() as usize;
        for (i, pair) in stations.windows(2).enumerate() {
            let painted = ((first / step) as i64 + i as i64).rem_euclid(4) < 2;
            for marking in 0..=n_lanes {
                let d = right + marking as f64 * lane_width;
                let is_edge = marking == 0 || marking == n_lanes;
                if is_edge || painted {
                    let colour = if is_edge { Colour::Ink } else { Colour::Muted };
                    canvas.line(on_canvas(pair[0], d), on_canvas(pair[1], d), 2.0, colour);
                }
            }
        }
        let near = |r: &&TraceRow| (r.s - row.s).abs() < reach;
        let trail = rows[..=row_idx].iter().filter(near);
        let trail: Vec<[f64; 2]> = trail.map(|r| on_canvas(r.s, r.d)).collect();
        canvas.polyline(&trail, 3.0, Colour::Trail);
        for (actor, shape) in row.actors.iter().zip(&self.scenario.actors) {
            if (actor.s - row.s).abs() < reach {
                let size = [shape.shape.length, shape.shape.width];
                let corners = corners([actor.s, actor.d], actor.heading, size);
                canvas.polygon(&corners.map(|[s, d]| on_canvas(s, d)), Colour::Other);
            }
        }
        let vehicle = self.scenario.vehicle.parameters();
        let (sin, cos) = row.heading.sin_cos();
        let ahead = 0.5 * vehicle.wheelbase();
        let middle_of_car = [row.s + ahead * cos, row.d + ahead * sin];
        let size = [vehicle.length, vehicle.width];
        let car = corners(middle_of_car, row.heading, size);
        canvas.polygon(&car.map(|[s, d]| on_canvas(s, d)), Colour::Ego);
        let mut words = format!(
            "t {:.1} s  v {:.1} m/s  d {:.2} m",
            row.time, row.speed, row.d
        );
        if let Some(gap) = row.gap {
            words += &format!("  gap {gap:.1} m");
        }
        canvas.text([12.0, 12.0], &words, Colour::Ink);
    }

    fn curves(&self, canvas: &mut Canvas, row_idx: usize) {
        let width = canvas.width as f64;
        let top = self.map_height as f64;
        let height = 0.5 * (canvas.height as f64 - top);
        type Curve = (fn(&TraceRow) -> f64, Colour);
        let panels: [(&str, [Curve; 2]); 2] = [
            (
                "v m/s",
                [(|r| r.v_target, Colour::Muted), (|r| r.speed, Colour::Ego)],
            ),
            (
                "d m",
                [(|r| r.offset_target, Colour::Muted), (|r| r.d, Colour::Ego)],
            ),
        ];
        let rows = &self.trace.rows;
        let (start, end) = (
            rows[0].time,
            rows[rows.len() - 1].time.max(rows[0].time + 1e-9),
        );
        let x = |t: f64| 100.0 + (t - start) / (end - start) * (width - 110.0);
        for (i, (name, curves)) in panels.into_iter().enumerate() {
            let upper = top + height * i as f64;
            let values = rows.iter().flat_map(|r| curves.map(|(get, _)| get(r)));
            let values = values.filter(|v| v.is_finite());
            let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
                (a.min(v), b.max(v))
            });
            let spread = (high - low).max(0.1);
            let y = |v: f64| upper + height - 8.0 - (v - low) / spread * (height - 16.0);
            canvas.line([0.0, upper], [width, upper], 1.0, Colour::Grid);
            canvas.text([8.0, upper + 8.0], &format!("{high:.1}"), Colour::Muted);
            canvas.text([8.0, upper + 0.5 * height - 7.0], name, Colour::Ink);
            canvas.text(
                [8.0, upper + height - 20.0],
                &format!("{low:.1}"),
                Colour::Muted,
            );
            let stride = rows.len().div_ceil(canvas.width).max(1);
            for (get, colour) in curves {
                let points = rows.iter().step_by(stride).map(|r| [x(r.time), y(get(r))]);
                canvas.polyline(&points.collect::<Vec<_>>(), 2.0, colour);
            }
            let now = x(rows[row_idx].time);
            canvas.line([now, upper], [now, upper + height], 1.0, Colour::Bad);
        }
    }
}

/// Corners of a rectangle in road coordinates.
fn corners(centre: [f64; 2], heading: f64, size: [f64; 2]) -> [[f64; 2]; 4] {
    let (sin, cos) = heading.sin_cos();
    [(0.5, 0.5), (0.5, -0.5), (-0.5, -0.5), (-0.5, 0.5)].map(|(a, b)| {
        let (along, across) = (a * size[0], b * size[1]);
        [
            centre[0] + along * cos - across * sin,
            centre[1] + along * sin + across * cos,
        ]
    })
}

#[cfg(test)]
mod tests;
