//! Roads from ASAM OpenDRIVE files: a subset.
//!
//! ```text
//! <road>  planView     line, arc, spiral            --> segments, shifted from the reference line
//!         elevationProfile, superelevation          --> grade and bank, constant over 10 m
//!         lanes        widths, laneOffset, types    --> the lane to drive in, its neighbours
//!
//!         left lanes   +2   ------------------  against s
//!                      +1   ------------------
//!         reference line    ==================> s
//!         right lanes  -1   ------------------> along s
//!                      -2   ------------------>        (left-hand traffic: the other way round)
//! ```
//!
//! One road at a time: junctions and links to other roads are not followed. Lanes of varying
//! width, several lane sections with different lanes, `poly3` and `paramPoly3` are refused by
//! name. Signals, objects, crossfalls and everything else are passed over.
//!
//! Element and attribute names: ASAM OpenDRIVE 1.4 to 1.7.

use super::description::{RoadDescription, SHARPEST_CURVATURE, Segment};
use super::pose::Pose;
use crate::{SimError, files};
use roxmltree::{Document, Node};
use std::path::Path;

/// Largest file that is read, bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Grade, bank and the curvature of shifted clothoids are constant or linear over this length, m.
const LONGEST_PIECE: f64 = 10.0;
/// Longest road, m: bounds what a file can make us compute.
const LONGEST_ROAD: f64 = 1e6;
/// How far, in m and rad, the end of a geometry may lie from the start of the next one.
const GAP: f64 = 0.1;
const KINK: f64 = 0.01;

/// A road of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenDriveRoad {
    /// Its id in the file.
    pub id: String,
    /// Its name in the file, for people; may be empty.
    pub name: String,
    /// Along the reference line, m.
    pub length: f64,
    /// Lanes of type `driving`, from left to right.
    pub lanes: Vec<OpenDriveLane>,
    geometry: Vec<Geometry>,
    elevation: Vec<Cubic>,
    superelevation: Vec<Cubic>,
}

/// A lane that cars drive in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenDriveLane {
    /// Positive to the left of the reference line, negative to the right.
    pub id: i32,
    /// Width of the lane, m.
    pub width: f64,
    /// Of its middle from the reference line, m, to the left positive.
    pub offset: f64,
    /// Whether cars drive along the reference line.
    pub is_along: bool,
}

/// A stretch of the reference line: curvature linear over its length.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Geometry {
    start: f64,
    length: f64,
    pose: Pose,
    curvature_start: f64,
    curvature_end: f64,
}

/// `a + b t + c t^2 + d t^3`, `t` from `start` on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cubic {
    start: f64,
    a: f64,
    b: f64,
    c: f64,
    d: f64,
}

impl Cubic {
    fn value(&self, s: f64) -> f64 {
        let t = s - self.start;
        self.a + t * (self.b + t * (self.c + t * self.d))
    }

    fn slope(&self, s: f64) -> f64 {
        let t = s - self.start;
        self.b + t * (2.0 * self.c + t * 3.0 * self.d)
    }
}

/// The last of the cubics that begin at or before `s`.
fn at(cubics: &[Cubic], s: f64) -> Option<&Cubic> {
    let after = cubics.partition_point(|cubic| cubic.start <= s);
    cubics.get(after.checked_sub(1)?)
}

/// Reads all roads of a file.
///
/// # Errors
///
/// [`SimError::Io`] or [`SimError::FileTooLarge`] if it cannot be read; [`SimError::Parse`] for what
/// is not XML; [`SimError::OpenDrive`] naming the road and what is wrong with it, or what of it
/// is beyond the subset.
pub fn read_open_drive(path: &Path) -> Result<Vec<OpenDriveRoad>, SimError> {
    let text = files::read_text(path, MOST_BYTES)?;
    parse(&text).map_err(|fault| match fault {
        Fault::Xml(error) => SimError::Parse {
            path: path.to_owned(),
            reason: error.to_string(),
        },
        Fault::Road { road, reason } => SimError::OpenDrive {
            path: path.to_owned(),
            road,
            reason,
        },
    })
}

/// Why a text is no file of the subset.
#[derive(Debug)]
enum Fault {
    Xml(roxmltree::Error),
    Road { road: String, reason: String },
}

fn parse(text: &str) -> Result<Vec<OpenDriveRoad>, Fault> {
    let document = Document::parse(text).map_err(Fault::Xml)?;
    let roads = children(document.root_element(), "road").map(|node| {
        let id = node.attribute("id").unwrap_or("?").to_owned();
        read_road(node).map_err(|reason| Fault::Road { road: id, reason })
    });
    let roads: Vec<_> = roads.collect::<Result<_, _>>()?;
    match roads.is_empty() {
        true => Err(Fault::Road {
            road: "any".to_owned(),
            reason: "the file has no road".to_owned(),
        }),
        false => Ok(roads),
    }
}

fn children<'a, 'i: 'a>(node: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn child<'a, 'i: 'a>(node: Node<'a, 'i>, name: &'a str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

/// An attribute as a number, which must be there and finite.
fn number(node: Node<'_, '_>, name: &str) -> Result<f64, String> {
    let tag = node.tag_name().name();
    let text = node.attribute(name);
    let text = text.ok_or_else(|| format!("<{tag}> has no attribute `{name}`"))?;
    let value = text.trim().parse().ok().filter(|x: &f64| x.is_finite());
    value.ok_or_else(|| format!("`{name}` of <{tag}> is `{text:.40}`, not a finite number"))
}

fn read_road(node: Node<'_, '_>) -> Result<OpenDriveRoad, String> {
    let geometry = read_geometry(node)?;
    let profile = |parent: &str, name: &str| match child(node, parent) {
        Some(parent) => read_cubics(children(parent, name), "s"),
        None => Ok(Vec::new()),
    };
    let length = geometry.iter().map(|g| g.length).sum();
    Ok(OpenDriveRoad {
        id: node.attribute("id").unwrap_or("?").to_owned(),
        name: node.attribute("name").unwrap_or_default().to_owned(),
        length,
        lanes: read_lanes(node)?,
        geometry,
        elevation: profile("elevationProfile", "elevation")?,
        superelevation: profile("lateralProfile", "superelevation")?,
    })
}

fn read_cubics<'a, 'i: 'a>(
    nodes: impl Iterator<Item = Node<'a, 'i>>,
    start: &str,
) -> Result<Vec<Cubic>, String> {
    let cubics: Vec<Cubic> = nodes
        .map(|node| {
            Ok(Cubic {
                start: number(node, start)?,
                a: number(node, "a")?,
                b: number(node, "b")?,
                c: number(node, "c")?,
                d: number(node, "d")?,
            })
        })
        .collect::<Result<_, String>>()?;
    match cubics.is_sorted_by(|a, b| a.start <= b.start) {
        true => Ok(cubics),
        false => Err("its polynomials are not in the order of s".to_owned()),
    }
}

fn read_geometry(road: Node<'_, '_>) -> Result<Vec<Geometry>, String> {
    let plan = child(road, "planView").ok_or("it has no <planView>")?;
    let mut all: Vec<Geometry> = Vec::new();
    let mut total = 0.0;
    for node in children(plan, "geometry") {
        let kind = node.children().find(Node::is_element);
        let kind = kind.ok_or("a <geometry> without a kind")?;
        let (curvature_start, curvature_end) = match kind.tag_name().name() {
            "line" => (0.0, 0.0),
            "arc" => {
                let curvature = number(kind, "curvature")?;
                (curvature, curvature)
            }
            "spiral" => (number(kind, "curvStart")?, number(kind, "curvEnd")?),
            other => {
                return Err(format!(
                    "<{other}> is outside the subset: line, arc, spiral"
                ));
            }
        };
        let geometry = Geometry {
            start: number(node, "s")?,
            length: number(node, "length")?,
            pose: Pose {
                x: number(node, "x")?,
                y: number(node, "y")?,
                heading: number(node, "hdg")?,
            },
            curvature_start,
            curvature_end,
        };
        if geometry.length < 0.0 {
            return Err(format!("a geometry is {} m long", geometry.length));
        }
        total += geometry.length;
        if total > LONGEST_ROAD {
            return Err(format!("longer than {LONGEST_ROAD} m"));
        }
        if curvature_start.abs().max(curvature_end.abs()) > SHARPEST_CURVATURE {
            return Err(format!("a radius below 1 m at s = {} m", geometry.start));
        }
        if let Some(last) = all.last() {
            check_joint(last, &geometry)?;
        }
        // Exporters leave empty stretches at joints.
        if geometry.length > 1e-9 {
            all.push(geometry);
        }
    }
    match all.is_empty() {
        true => Err("its <planView> is empty".to_owned()),
        false => Ok(all),
    }
}

/// A file that says where a stretch begins must not contradict the one before.
fn check_joint(last: &Geometry, next: &Geometry) -> Result<(), String> {
    let end = last.pose_at(last.length);
    let apart = (end.x - next.pose.x).hypot(end.y - next.pose.y);
    // Whole turns are the same heading; half a turn, whose sine is as small, is a way back.
    let (sin, cos) = (end.heading - next.pose.heading).sin_cos();
    let turned = sin.atan2(cos).abs();
    let missing = (next.start - last.start - last.length).abs();
    // Written so that NaN, from headings beyond all sense, does not pass.
    if apart <= GAP && turned <= KINK && missing <= GAP {
        return Ok(());
    }
    Err(format!(
        "the geometry at s = {} m begins {apart:.3} m and {turned:.4} rad away from the end of the one before, \
         and {missing:.3} m of s",
        next.start
    ))
}

impl Geometry {
    fn curvature_at(&self, along: f64) -> f64 {
        self.curvature_start + (self.curvature_end - self.curvature_start) * along / self.length
    }

    fn pose_at(&self, along: f64) -> Pose {
        super::pose::Piece {
            start: 0.0,
            length: self.length,
            curvature: self.curvature_start,
            curvature_rate: (self.curvature_end - self.curvature_start) / self.length.max(1e-9),
            grade: 0.0,
            bank: 0.0,
            pose: self.pose,
        }
        .pose_at(along)
    }
}

/// A constant width, or why it is none.
fn width_of(lane: Node<'_, '_>, id: i32) -> Result<f64, String> {
    let widths = read_cubics(children(lane, "width"), "sOffset")?;
    let first = widths.first();
    let first = first.ok_or_else(|| format!("lane {id} has no <width>"))?;
    let varies = |w: &Cubic| [w.b, w.c, w.d] != [0.0; 3] || (w.a - first.a).abs() > 1e-6;
    match widths.iter().any(varies) {
        true => Err(format!("the width of lane {id} varies")),
        false => Ok(first.a),
    }
}

fn read_lanes(road: Node<'_, '_>) -> Result<Vec<OpenDriveLane>, String> {
    let lanes = child(road, "lanes").ok_or("it has no <lanes>")?;
    let offsets = read_cubics(children(lanes, "laneOffset"), "s")?;
    let shift = offsets.first().map_or(0.0, |offset| offset.a);
    let moves = |o: &Cubic| [o.b, o.c, o.d] != [0.0; 3] || (o.a - shift).abs() > 1e-6;
    if offsets.iter().any(moves) {
        return Err("its <laneOffset> varies".to_owned());
    }
    let left_hand = road.attribute("rule") == Some("LHT");
    let mut known: Option<Vec<OpenDriveLane>> = None;
    for section in children(lanes, "laneSection") {
        let found = read_section(section, shift, left_hand)?;
        match &known {
            Some(known) if *known != found => {
                return Err("its lane sections have different lanes".to_owned());
            }
            _ => known = Some(found),
        }
    }
    known.ok_or_else(|| "it has no <laneSection>".to_owned())
}

fn read_section(
    section: Node<'_, '_>,
    shift: f64,
    left_hand: bool,
) -> Result<Vec<OpenDriveLane>, String> {
    let mut found = Vec::new();
    for (side, sign) in [("left", 1), ("right", -1)] {
        let Some(side) = child(section, side) else {
            continue;
        };
        let mut lanes = Vec::new();
        for lane in children(side, "lane") {
            let id = lane.attribute("id").and_then(|id| id.trim().parse().ok());
            let id: i32 = id.ok_or("a lane without an id")?;
            if id.signum() != sign {
                return Err(format!("lane {id} is on the wrong side"));
            }
            lanes.push((id, lane));
        }
        lanes.sort_by_key(|(id, _)| id.unsigned_abs());
        if let Some(pair) = lanes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("two lanes of a section have the id {}", pair[0].0));
        }
        let mut edge = shift;
        for (id, lane) in lanes {
            let width = width_of(lane, id)?;
            let outer = edge + f64::from(sign) * width;
            if lane.attribute("type") == Some("driving") {
                found.push(OpenDriveLane {
                    id,
                    width,
                    offset: 0.5 * (edge + outer),
                    is_along: (sign < 0) != left_hand,
                });
            }
            edge = outer;
        }
    }
    found.sort_by(|a, b| b.offset.total_cmp(&a.offset));
    Ok(found)
}

impl OpenDriveRoad {
    /// The road as seen from one of its lanes, in the direction in which cars drive there.
    ///
    /// Neighbouring lanes that touch it count as lanes of its width, oncoming ones included.
    ///
    /// # Errors
    ///
    /// [`SimError::NoLane`] for a lane that is not there or not for driving; [`SimError::Road`]
    /// if the lane's middle bends more sharply than roads may.
    pub fn description(&self, lane_id: i32) -> Result<RoadDescription, SimError> {
        let place = self.lanes.iter().position(|lane| lane.id == lane_id);
        let place = place.ok_or_else(|| SimError::NoLane {
            road: self.id.clone(),
            lane: lane_id,
        })?;
        let lane = self.lanes[place];
        let mut segments = Vec::new();
        for geometry in &self.geometry {
            self.push_segments(geometry, lane.offset, &mut segments);
        }
        let touching = |lanes: &[OpenDriveLane]| {
            let pairs = lanes.windows(2);
            let touch = |pair: &&[OpenDriveLane]| {
                let apart = (pair[0].offset - pair[1].offset).abs();
                apart < 0.5 * (pair[0].width + pair[1].width) + 0.3
            };
            pairs.take_while(touch).count()
        };
        let to_right = touching(&self.lanes[place..]);
        let reversed: Vec<OpenDriveLane> = self.lanes[..=place].iter().rev().copied().collect();
        let to_left = touching(&reversed);
        let count = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let (mut left, mut right) = (count(to_left), count(to_right));
        if !lane.is_along {
            segments.reverse();
            for segment in &mut segments {
                let (start, end) = (segment.curvature_start, segment.curvature_end);
                (segment.curvature_start, segment.curvature_end) = (-end, -start);
                segment.grade = -segment.grade;
                segment.bank = -segment.bank;
            }
            (left, right) = (right, left);
        }
        let description = RoadDescription {
            segments,
            lane_width: lane.width,
            n_lanes_left: left,
            n_lanes_right: right,
        };
        super::geometry::Road::new(&description)?;
        Ok(description)
    }

    /// The parallel to a stretch, `offset` to its left: shorter in left bends, and sharper.
    fn push_segments(&self, geometry: &Geometry, offset: f64, segments: &mut Vec<Segment>) {
        let is_plain = self.elevation.is_empty() && self.superelevation.is_empty();
        let is_exact = geometry.curvature_start == geometry.curvature_end || offset == 0.0;
        let n_pieces = match is_plain && is_exact {
            true => 1.0,
            false => (geometry.length / LONGEST_PIECE).ceil().max(1.0),
        };
        let step = geometry.length / n_pieces;
        for i in 0..n_pieces as usize {
            let (from, to) = (step * i as f64, step * (i + 1) as f64);
            let (k_from, k_to) = (geometry.curvature_at(from), geometry.curvature_at(to));
            let length = step * (1.0 - 0.5 * (k_from + k_to) * offset);
            let shifted = |k: f64| k / (1.0 - k * offset);
            // Between the ends the parallel's curvature is not quite linear; its turn is exact.
            let missing =
                0.5 * ((k_from + k_to) * step - (shifted(k_from) + shifted(k_to)) * length);
            let correction = missing / length;
            let middle = geometry.start + 0.5 * (from + to);
            let slope = at(&self.elevation, middle).map_or(0.0, |e| e.slope(middle));
            let bank = at(&self.superelevation, middle).map_or(0.0, |e| e.value(middle));
            segments.push(Segment {
                length,
                curvature_start: shifted(k_from) + correction,
                curvature_end: shifted(k_to) + correction,
                grade: slope.atan(),
                // Superelevation is positive where the road falls to the right.
                bank,
            });
        }
    }
}

#[cfg(test)]
mod tests;
