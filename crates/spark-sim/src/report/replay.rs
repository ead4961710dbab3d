//! A drive from above: the road, the cars every few seconds, and the signals over time.
//!
//! Road coordinates are straightened: distance to the right, offset upwards and
//! stretched. What bends is drawn by the curvature trace below, not by the road.

use crate::run::{Trace, TraceRow};
use crate::scenario::Scenario;
use spark_drawing::colour::{BLUE, Colour, INK, MUTED, ORANGE, RED, SHADE};
use spark_drawing::{Fill, Font, Scale, Stroke, Svg, axis};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 940.0;
const ROAD_HEIGHT: f64 = 150.0;
const PANEL_HEIGHT: f64 = 120.0;

/// A picture of a recorded drive, as SVG.
pub fn replay_svg(scenario: &Scenario, trace: &Trace) -> String {
    drawn(scenario, trace).finish()
}

pub(super) fn drawn(scenario: &Scenario, trace: &Trace) -> Svg {
    let panels = panels(trace);
    let height = 70.0 + ROAD_HEIGHT + PANEL_HEIGHT * panels.len() as f64;
    let mut svg = Svg::on_paper(WIDTH, height);
    svg.text([LEFT, 20.0], Font::new(14.0, INK), &scenario.name);
    draw_road(&mut svg, scenario, trace);
    let rows = &trace.rows;
    let t = Scale::linear(rows.iter().map(|r| r.time), [LEFT, RIGHT]);
    for (i, panel) in panels.iter().enumerate() {
        let top = 60.0 + ROAD_HEIGHT + PANEL_HEIGHT * i as f64;
        panel.draw(&mut svg, rows, &t, top);
    }
    svg
}

fn draw_road(svg: &mut Svg, scenario: &Scenario, trace: &Trace) {
    let rows = &trace.rows;
    let (top, bottom) = (34.0, 34.0 + ROAD_HEIGHT);
    let vehicle = scenario.vehicle.parameters();
    let half = 0.5 * scenario.road.lane_width;
    let width = scenario.road.lane_width;
    let left = half + width * f64::from(scenario.road.n_lanes_left);
    let right = -half - width * f64::from(scenario.road.n_lanes_right);
    let places = rows.iter().flat_map(|row| {
        let actors = row.actors.iter().map(|a| a.s);
        std::iter::once(row.s).chain(actors.filter(|s| (s - row.s).abs() < 120.0))
    });
    let x = Scale::linear(places, [LEFT, RIGHT]);
    let offsets = rows.iter().map(|r| r.d).chain([left + 0.5, right - 0.5]);
    let y = Scale::linear(offsets, [bottom, top]);
    svg.rect(
        [LEFT, y.at(left)],
        [RIGHT - LEFT, y.at(right) - y.at(left)],
        0.0,
        SHADE.into(),
    );
    for edge in [left, right] {
        svg.line(
            [LEFT, y.at(edge)],
            [RIGHT, y.at(edge)],
            Stroke::new(INK, 1.5),
        );
    }
    let n_lanes = u16::from(scenario.road.n_lanes_left) + u16::from(scenario.road.n_lanes_right);
    for i in 0..n_lanes {
        let marking = y.at(right + width * f64::from(i + 1));
        let dashes = Stroke::new(MUTED, 1.0).dashed(10.0, 8.0);
        svg.line([LEFT, marking], [RIGHT, marking], dashes);
    }
    svg.polyline(
        rows.iter().map(|r| [x.at(r.s), y.at(r.d)]),
        Stroke::new(ORANGE, 1.5),
    );
    let n_actors = rows.first().map_or(0, |row| row.actors.len());
    for actor in 0..n_actors {
        let visible = rows.iter().filter_map(|row| {
            let a = row.actors.get(actor)?;
            ((a.s - row.s).abs() < 120.0).then(|| [x.at(a.s), y.at(a.d)])
        });
        svg.polyline(visible, Stroke::new(BLUE, 1.0).dashed(3.0, 3.0));
    }
    // Cars at about ten moments, and at the end.
    let stride = (rows.len() / 10).max(1);
    let moments = rows
        .iter()
        .enumerate()
        .filter(|(i, _)| i % stride == 0 || *i == rows.len() - 1);
    for (i, row) in moments {
        let fade = 0.25 + 0.65 * i as f64 / rows.len().max(1) as f64;
        for (a, actor) in row.actors.iter().zip(&scenario.actors) {
            if (a.s - row.s).abs() < 120.0 {
                let size = [actor.shape.length, actor.shape.width];
                let car = outline([a.s, a.d], a.heading, size);
                svg.polygon(
                    &car.map(|[s, d]| [x.at(s), y.at(d)]),
                    Fill::faded(BLUE, fade),
                );
            }
        }
        let centre = [row.s + 0.5 * vehicle.wheelbase(), row.d];
        let car = outline(centre, row.heading, [vehicle.length, vehicle.width]);
        svg.polygon(
            &car.map(|[s, d]| [x.at(s), y.at(d)]),
            Fill::faded(ORANGE, fade),
        );
    }
    for tick in x.ticks(8) {
        let place = [x.at(tick.value), bottom + 14.0];
        let label = format!("{} m", tick.label);
        svg.text(place, Font::new(11.0, MUTED).centred(), &label);
    }
    for edge in [left, right] {
        let place = [LEFT - 6.0, y.at(edge) + 4.0];
        let label = format!("{edge:.1} m");
        svg.text(place, Font::new(11.0, MUTED).ending(), &label);
    }
    svg.text([RIGHT, 20.0], Font::new(11.0, ORANGE).ending(), "ego");
    if n_actors > 0 {
        let place = [RIGHT - 30.0, 20.0];
        svg.text(place, Font::new(11.0, BLUE).ending(), "others");
    }
}

fn outline(centre: [f64; 2], heading: f64, size: [f64; 2]) -> [[f64; 2]; 4] {
    let (sin, cos) = heading.sin_cos();
    let [half_length, half_width] = size.map(|x| 0.5 * x);
    [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)].map(|(a, b)| {
        let (along, across) = (a * half_length, b * half_width);
        [
            centre[0] + along * cos - across * sin,
            centre[1] + along * sin + across * cos,
        ]
    })
}

/// Label, colour, and what to read from a row.
type Curve = (&'static str, Colour, fn(&TraceRow) -> Option<f64>);

/// Curves over time that share an axis.
struct Panel {
    title: &'static str,
    curves: Vec<Curve>,
}

fn panels(trace: &Trace) -> Vec<Panel> {
    let mut panels = vec![
        Panel {
            title: "offset (m)",
            curves: vec![
                ("asked", MUTED, |r| Some(r.offset_target)),
                ("driven", ORANGE, |r| Some(r.d)),
            ],
        },
        Panel {
            title: "curvature (1/km)",
            curves: vec![
                ("asked", MUTED, |r| Some(1e3 * r.desired_curvature)),
                ("driven", ORANGE, |r| Some(1e3 * r.curvature)),
            ],
        },
        Panel {
            title: "speed (m/s)",
            curves: vec![
                ("asked", MUTED, |r| Some(r.v_target)),
                ("driven", ORANGE, |r| Some(r.speed)),
            ],
        },
        Panel {
            title: "acceleration (m/s²)",
            curves: vec![
                ("command", MUTED, |r| Some(r.accel_command)),
                ("driven", ORANGE, |r| Some(r.acceleration)),
            ],
        },
    ];
    if trace.rows.iter().any(|row| row.gap.is_some()) {
        panels.push(Panel {
            title: "gap (m)",
            curves: vec![("to the car ahead", RED, |r| r.gap)],
        });
    }
    panels
}

impl Panel {
    fn draw(&self, svg: &mut Svg, rows: &[TraceRow], t: &Scale, top: f64) {
        let (high, low) = (top + 18.0, top + PANEL_HEIGHT - 22.0);
        let values = self
            .curves
            .iter()
            .flat_map(|(_, _, get)| rows.iter().filter_map(get));
        let y = Scale::linear(values, [low, high]);
        axis::left(svg, &y, 4, [LEFT, RIGHT]);
        axis::below(svg, t, 10, [high, low], "s");
        svg.text([LEFT, top + 10.0], Font::new(12.0, INK), self.title);
        for (i, (label, colour, get)) in self.curves.iter().enumerate() {
            // A picture is a thousand points wide; more would only make the file larger.
            let stride = rows.len().div_ceil(1200).max(1);
            let points = rows
                .iter()
                .step_by(stride)
                .filter_map(|r| Some([t.at(r.time), y.at(get(r)?)]));
            svg.polyline(points, Stroke::new(*colour, 1.6));
            let place = [RIGHT - 90.0 * i as f64, top + 10.0];
            svg.text(place, Font::new(11.0, *colour).ending(), label);
        }
    }
}
