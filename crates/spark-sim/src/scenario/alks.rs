//! UN R157 (automated lane keeping) scenario families and its avoidance criterion.
//!
//! ```text
//! cut-in         car ahead in the next lane, slower; moves over when dx0 ahead
//! cut-out        lead moves over and uncovers something standing
//! brake          lead brakes at 6 m/s^2 from the distance that R157 prescribes
//! blocking       something stands in the lane, on five roads
//! swerving       lead weaves within its lane
//! free driving   nothing ahead
//! ```
//!
//! What a comparison counts is a manoeuvre on one road at one pair of speeds, the ego's and the
//! other's: that is the family of a scenario. Within it distances, sideways speeds, accelerations,
//! sides and vehicle types vary, which ask the same of the ego a little earlier or later.
//!
//! ```text
//! cut-in         15 families of 5,950 scenarios    ego and closing speed
//! cut-out        12 of 1,440                       ego speed
//! brake           7 of 56                          ego speed, which sets the headway
//! blocking       60 of 360                         road and ego speed
//! swerving       60 of 60                          road and ego speed
//! free driving   12 of 12                          ego speed
//! ```
//!
//! Parameter ranges: ASAM OSC-ALKS-scenarios de21f223 (MPL-2.0), numbers only. What those
//! files leave to the simulator (lane width 3.5 m, a cut-out lead followed at R157's
//! minimum distance, how a swerving lead swerves) is this crate's choice.

use super::{Difficulty, Scenario, ScenarioKind};
use crate::Profile;
use crate::control::minimum_following_distance;
use crate::road::{RoadDescription, Segment};
use crate::traffic::{Actor, Lateral, Longitudinal, Shape, Trigger};

/// The family of a scenario: what happens, on which road, at which speeds.
fn family(what: impl std::fmt::Display, ego_kph: f64) -> Option<String> {
    Some(format!("alks_{what} ve{ego_kph}"))
}

const KPH: f64 = 1.0 / 3.6;
const LANE: f64 = 3.5;
/// Length of the ego's outline that distances are laid out for; runs use the vehicle's own.
const EGO_LENGTH: f64 = 4.7;

/// Vehicle types of the families, with their names.
pub const VEHICLES: [(&str, Shape); 5] = [
    ("car", Shape::CAR),
    ("truck", Shape::TRUCK),
    ("van", Shape::VAN),
    ("bus", Shape::BUS),
    ("motorbike", Shape::MOTORBIKE),
];

/// Radii of the five roads, m, left positive; the first is straight.
pub const ROADS: [(&str, f64); 5] = [
    ("straight", f64::INFINITY),
    ("left_250", 250.0),
    ("right_250", -250.0),
    ("left_1000", 1000.0),
    ("right_1000", -1000.0),
];

/// Parameters of one cut-in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CutIn {
    /// Speed of the ego, km/h.
    pub ego_kph: f64,
    /// Other's speed minus the ego's, km/h, negative.
    pub relative_kph: f64,
    /// Free space at which it starts to move over, m.
    pub gap: f64,
    /// Largest lateral speed, m/s.
    pub lateral_speed: f64,
    /// Acceleration towards 40 km/h while moving over, m/s^2.
    pub acceleration: f64,
    /// Whether it comes from the left.
    pub from_left: bool,
}

impl CutIn {
    /// Every combination of the published ranges for one side, admissible or not.
    pub fn raw() -> Vec<Self> {
        let mut all = Vec::new();
        for ego_kph in [20.0, 30.0, 40.0, 50.0, 60.0] {
            for relative_kph in [-50.0, -40.0, -30.0, -20.0, -10.0] {
                for gap in (0..7).map(|i| f64::from(i) * 10.0) {
                    for lateral_speed in (1..7).map(|i| f64::from(i) * 0.5) {
                        for acceleration in (-2..3).map(|i| f64::from(i) * 1.5) {
                            all.push(Self {
                                ego_kph,
                                relative_kph,
                                gap,
                                lateral_speed,
                                acceleration,
                                from_left: true,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    /// The published constraints: the other car moves forward, and faster than sideways.
    pub fn is_admissible(&self) -> bool {
        self.relative_kph > -self.ego_kph
            && self.lateral_speed < (self.ego_kph + self.relative_kph) * KPH
    }

    /// The scenario, with a vehicle from [`VEHICLES`].
    pub fn scenario(&self, vehicle: (&str, Shape)) -> Scenario {
        let side = if self.from_left { 1.0 } else { -1.0 };
        let closing = -self.relative_kph * KPH;
        let shape = vehicle.1;
        let speed = (self.ego_kph + self.relative_kph) * KPH;
        let ahead = self.gap + 10.0 * closing + 0.5 * (shape.length + EGO_LENGTH);
        let moving_over = std::f64::consts::PI * LANE / (2.0 * self.lateral_speed);
        let what = format!("cut_in dv{}", self.relative_kph);
        let mut scenario = Scenario {
            kind: ScenarioKind::CutIn,
            family: family(what, self.ego_kph),
            difficulty: if self.gap <= 10.0 {
                Difficulty::Extreme
            } else {
                Difficulty::Hard
            },
            ..Scenario::straight(
                format!(
                    "alks_cut_in ve{} dv{} dx{} vy{} a{} {} {}",
                    self.ego_kph,
                    self.relative_kph,
                    self.gap,
                    self.lateral_speed,
                    self.acceleration,
                    if self.from_left { "left" } else { "right" },
                    vehicle.0
                ),
                self.ego_kph * KPH,
                10.0 + moving_over + 10.0,
            )
        };
        scenario.road.n_lanes_left = 1;
        scenario.road.n_lanes_right = 1;
        scenario.actors.push(Actor {
            shape,
            distance: ahead,
            offset: side * LANE,
            speed,
            longitudinal: Longitudinal::Hold,
            lateral: Lateral::Change {
                trigger: Trigger::GapBelow(self.gap),
                to: 0.0,
                peak_speed: self.lateral_speed,
                acceleration: self.acceleration,
                speed_goal: 40.0 * KPH,
            },
        });
        scenario
    }
}

/// Every admissible cut-in, from both sides, by a passenger car.
pub fn cut_in() -> Vec<Scenario> {
    let admissible = CutIn::raw().into_iter().filter(CutIn::is_admissible);
    admissible
        .flat_map(|cut_in| {
            [true, false].map(|from_left| {
                CutIn {
                    from_left,
                    ..cut_in
                }
                .scenario(VEHICLES[0])
            })
        })
        .collect()
}

/// Whether R157 demands that a cut-in be survived: the time to collision when the
/// other car's front wheel is 0.3 m inside the lane leaves 0.35 s and 6 m/s^2.
///
/// `closing_speed` in m/s, `time_to_collision` in s.
pub fn must_be_avoided(closing_speed: f64, time_to_collision: f64) -> bool {
    time_to_collision > closing_speed / (2.0 * 6.0) + 0.35
}

/// A lead brakes at 6 m/s^2 from each of the regulation's speeds and headways, at eight
/// lateral offsets.
pub fn lead_brake() -> Vec<Scenario> {
    let pairs = [
        (7.2, 1.0),
        (10.0, 1.1),
        (20.0, 1.2),
        (30.0, 1.3),
        (40.0, 1.4),
        (50.0, 1.5),
        (60.0, 1.6),
    ];
    let mut all = Vec::new();
    for (kph, headway) in pairs {
        for offset in (0..8).map(|i| -1.75 + 0.5 * f64::from(i)) {
            let speed = kph * KPH;
            let mut scenario = Scenario {
                kind: ScenarioKind::EmergencyStop,
                difficulty: Difficulty::Hard,
                family: family("lead_brake", kph),
                ..Scenario::straight(format!("alks_lead_brake ve{kph} d{offset}"), speed, 20.0)
            };
            scenario.actors.push(Actor {
                shape: Shape::CAR,
                distance: headway * speed + 0.5 * (Shape::CAR.length + EGO_LENGTH) + 1.35,
                offset,
                speed,
                longitudinal: Longitudinal::Brake {
                    trigger: Trigger::At(5.0),
                    deceleration: 6.0,
                    final_speed: 0.0,
                },
                lateral: Lateral::Keep,
            });
            all.push(scenario);
        }
    }
    all
}

fn ego_speeds() -> impl Iterator<Item = f64> {
    (1..=12).map(|i| f64::from(i) * 5.0)
}

/// A lead moves over and uncovers a standing car 10 to 100 m ahead of itself, to both sides.
pub fn cut_out() -> Vec<Scenario> {
    const AT: f64 = 5.0;
    let mut all = Vec::new();
    for kph in ego_speeds() {
        for gap in (1..=10).map(|i| f64::from(i) * 10.0) {
            for lateral_speed in (1..7).map(|i| f64::from(i) * 0.5) {
                for (side_name, side) in [("left", 1.0), ("right", -1.0)] {
                    let speed = kph * KPH;
                    let mut scenario = Scenario {
                        kind: ScenarioKind::CutOut,
                        family: family("cut_out", kph),
                        difficulty: Difficulty::Hard,
                        ..Scenario::straight(
                            format!("alks_cut_out ve{kph} dx{gap} vy{lateral_speed} {side_name}"),
                            speed,
                            30.0,
                        )
                    };
                    scenario.road.n_lanes_left = 1;
                    scenario.road.n_lanes_right = 1;
                    let lead = minimum_following_distance(speed) + EGO_LENGTH + 1.35;
                    scenario.actors.push(Actor {
                        shape: Shape::CAR,
                        distance: lead,
                        offset: 0.0,
                        speed,
                        longitudinal: Longitudinal::Hold,
                        lateral: Lateral::Change {
                            trigger: Trigger::At(AT),
                            to: side * LANE,
                            peak_speed: lateral_speed,
                            acceleration: 0.0,
                            speed_goal: speed,
                        },
                    });
                    scenario.actors.push(standing(
                        Shape::CAR,
                        lead + speed * AT + gap + Shape::CAR.length,
                        0.0,
                    ));
                    all.push(scenario);
                }
            }
        }
    }
    all
}

fn standing(shape: Shape, distance: f64, offset: f64) -> Actor {
    Actor {
        shape,
        distance,
        offset,
        speed: 0.0,
        longitudinal: Longitudinal::Hold,
        lateral: Lateral::Keep,
    }
}

fn road(radius: f64) -> RoadDescription {
    let segments = if radius.is_finite() {
        vec![Segment::arc(2000.0, 1.0 / radius)]
    } else {
        Vec::new()
    };
    RoadDescription {
        segments,
        n_lanes_left: 1,
        n_lanes_right: 1,
        ..RoadDescription::default()
    }
}

/// Something stands in the lane 10 s and 50 m ahead: five vehicle types and a person, five roads.
pub fn blocking_target() -> Vec<Scenario> {
    let mut all = Vec::new();
    let targets = VEHICLES
        .into_iter()
        .chain([("pedestrian", Shape::PEDESTRIAN)]);
    for (name, shape) in targets {
        for (road_name, radius) in ROADS {
            for kph in ego_speeds() {
                let speed = kph * KPH;
                let mut scenario = Scenario {
                    kind: ScenarioKind::EmergencyStop,
                    family: family(format_args!("blocking {road_name}"), kph),
                    ..Scenario::straight(
                        format!("alks_blocking {name} {road_name} ve{kph}"),
                        speed,
                        30.0,
                    )
                };
                scenario.road = road(radius);
                scenario
                    .actors
                    .push(standing(shape, 10.0 * speed + 50.0, 0.0));
                all.push(scenario);
            }
        }
    }
    all
}

/// A lead at the ego's speed weaves half a metre to either side every 6 s, on five roads.
pub fn swerving_lead() -> Vec<Scenario> {
    let weave: Vec<[f64; 2]> = (0..=300)
        .map(|i| f64::from(i) * 0.1)
        .map(|t| [t, 0.5 * (std::f64::consts::TAU * t / 6.0).sin()])
        .collect();
    let weave = Profile::new(weave).expect("ordered, finite points");
    let mut all = Vec::new();
    for (road_name, radius) in ROADS {
        for kph in ego_speeds() {
            let speed = kph * KPH;
            let mut scenario =
                Scenario::straight(format!("alks_swerving {road_name} ve{kph}"), speed, 30.0);
            scenario.family = family(format_args!("swerving {road_name}"), kph);
            scenario.road = road(radius);
            scenario.actors.push(Actor {
                shape: Shape::CAR,
                distance: minimum_following_distance(speed) + 10.0,
                offset: 0.0,
                speed,
                longitudinal: Longitudinal::Hold,
                lateral: Lateral::Offset(weave.clone()),
            });
            all.push(scenario);
        }
    }
    all
}

/// Nothing ahead, twelve speeds.
pub fn free_driving() -> Vec<Scenario> {
    ego_speeds()
        .map(|kph| Scenario {
            family: family("free", kph),
            ..Scenario::straight(format!("alks_free ve{kph}"), kph * KPH, 30.0)
        })
        .collect()
}
