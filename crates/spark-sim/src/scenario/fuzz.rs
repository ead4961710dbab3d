//! Random scenarios: number `i` of a seed is always the same one.

use super::{Difficulty, Scenario, ScenarioKind, SensorNoise};
use crate::random::Philox;
use crate::road::{RoadDescription, Segment};
use crate::traffic::{Actor, Idm, Lateral, Longitudinal, Shape, Trigger};
use crate::vehicle::{VehicleModel, VehiclePreset};

/// Draws scenarios: winding roads, wind, slippery surfaces, noise, a car that brakes,
/// cuts in or follows.
#[derive(Debug, Clone, Copy)]
pub struct Fuzzer {
    seed: u64,
}

/// Largest lateral acceleration a drawn bend asks for, m/s^2.
const BEND_ACCELERATION: f64 = 2.0;

impl Fuzzer {
    /// Scenarios of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Scenario number `index`; valid by construction.
    pub fn scenario(&self, index: u64) -> Scenario {
        let mut random = Philox::new(self.seed, index);
        let speed = random.next_in(5.0, 35.0);
        let mut scenario = Scenario {
            kind: ScenarioKind::Custom,
            difficulty: Difficulty::Hard,
            seed: self.seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            ..Scenario::straight(format!("fuzz {} {index}", self.seed), speed, 20.0)
        };
        scenario.road = draw_road(&mut random, speed);
        let preset = random.next_index(VehiclePreset::ALL.len());
        scenario.vehicle.preset = VehiclePreset::ALL[preset];
        if random.next_uniform() < 0.5 {
            scenario.vehicle.model = VehicleModel::SingleTrack;
        }
        scenario.start.offset = random.next_in(-0.8, 0.8);
        scenario.start.heading = random.next_in(-0.03, 0.03);
        let environment = &mut scenario.environment;
        environment.friction = random.next_in(0.4, 1.0);
        environment.headwind = random.next_in(-15.0, 15.0);
        environment.crosswind = random.next_in(-10.0, 10.0);
        environment.noise = SensorNoise {
            speed: random.next_in(0.0, 0.2),
            yaw_rate: random.next_in(0.0, 0.005),
            offset: random.next_in(0.0, 0.05),
            heading: random.next_in(0.0, 0.003),
            lead_distance: random.next_in(0.0, 0.5),
            lead_speed: random.next_in(0.0, 0.3),
        };
        if random.next_uniform() < 0.7 {
            let actor = draw_actor(&mut random, speed);
            scenario.kind = match actor.lateral {
                Lateral::Change { .. } => ScenarioKind::CutIn,
                _ => ScenarioKind::Custom,
            };
            scenario.actors.push(actor);
        }
        scenario
    }

    /// The first `n` scenarios, made as they are asked for.
    pub fn iter(&self, n: u64) -> impl Iterator<Item = Scenario> + '_ {
        (0..n).map(|index| self.scenario(index))
    }
}

fn draw_road(random: &mut Philox, speed: f64) -> RoadDescription {
    let sharpest = (BEND_ACCELERATION / (speed * speed)).min(0.03);
    let mut segments = vec![Segment::straight(random.next_in(20.0, 60.0))];
    let mut curvature = 0.0;
    for _ in 0..random.next_index(5) + 2 {
        let next = random.next_in(-sharpest, sharpest);
        let grade = random.next_in(-0.05, 0.05);
        let bank = random.next_in(-0.03, 0.03);
        for segment in [
            Segment::clothoid(random.next_in(2.0, 4.0) * speed, curvature, next),
            Segment::arc(random.next_in(1.0, 4.0) * speed, next),
        ] {
            segments.push(Segment {
                grade,
                bank,
                ..segment
            });
        }
        curvature = next;
    }
    RoadDescription {
        segments,
        lane_width: random.next_in(3.0, 3.8),
        n_lanes_left: 1,
        n_lanes_right: 1,
    }
}

fn draw_actor(random: &mut Philox, speed: f64) -> Actor {
    let shapes = [Shape::CAR, Shape::TRUCK, Shape::VAN, Shape::MOTORBIKE];
    let shape = shapes[random.next_index(shapes.len())];
    let gap = 6.0 + random.next_in(1.2, 2.5) * speed;
    let mut actor = Actor {
        shape,
        distance: gap + 0.5 * shape.length + 4.0,
        offset: 0.0,
        speed: speed * random.next_in(0.7, 1.0),
        longitudinal: Longitudinal::Hold,
        lateral: Lateral::Keep,
    };
    match random.next_index(3) {
        0 => {
            actor.longitudinal = Longitudinal::Brake {
                trigger: Trigger::At(random.next_in(1.0, 8.0)),
                deceleration: random.next_in(1.0, 6.0),
                final_speed: random.next_in(0.0, 0.5) * speed,
            };
        }
        1 => {
            actor.offset = if random.next_uniform() < 0.5 {
                3.5
            } else {
                -3.5
            };
            actor.lateral = Lateral::Change {
                trigger: Trigger::At(random.next_in(1.0, 6.0)),
                to: 0.0,
                peak_speed: random.next_in(0.5, 2.5),
                acceleration: 0.0,
                speed_goal: 0.0,
            };
        }
        _ => {
            actor.longitudinal = Longitudinal::Idm(Idm {
                desired_speed: speed * random.next_in(0.6, 1.2),
                ..Idm::default()
            });
        }
    }
    actor
}
