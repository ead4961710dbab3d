//! Random scenarios: number `i` of a seed is always the same one.
//!
//! A car that is steered by torque can hold less than most roads could ask. Bends are drawn from what the
//! drawn car holds, so that leaving the road is the controller's doing:
//!
//! ```text
//! |a| + lag |a'| <= 0.7 held - wind        a = k v^2 + g bank, what the tyres carry
//! ```
//!
//! `held` is [`ActuatorParameters::held_lateral_acceleration`](crate::vehicle::ActuatorParameters), `lag` the wheel's
//! by torque at this speed, `a'` the change over the shortest clothoid from a bend into the sharpest one the other way. A
//! bank changes at once where its segment begins, and meets the bend before it there: in one of ten scenarios that asks for more,
//! in one of a thousand for more than `held`.

use super::{Difficulty, Environment, Scenario, ScenarioKind, SensorNoise, Vehicle};
use crate::random::Philox;
use crate::road::{RoadDescription, Segment};
use crate::traffic::{Actor, Idm, Lateral, Longitudinal, Shape, Trigger};
use crate::vehicle::{GRAVITY, VehicleModel, VehiclePreset};

/// Draws scenarios: winding roads, wind, slippery surfaces, noise, a car that brakes,
/// cuts in or follows.
///
/// # Examples
///
/// ```
/// use spark_sim::scenario::Fuzzer;
///
/// let fuzzer = Fuzzer::new(1);
/// assert_eq!(fuzzer.scenario(7), fuzzer.iter(8).last().expect("eight of them"));
/// assert!(fuzzer.scenario(7).validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Fuzzer {
    seed: u64,
}

/// Share of the lateral acceleration that steering by torque holds which bends, bank and wind
/// together ask for at most; the rest is for coming back to the lane.
const TORQUE_SHARE: f64 = 0.7;
/// Largest lateral acceleration a drawn bend asks for, m/s^2.
const BEND_ACCELERATION: f64 = 2.0;
/// Curvature of the sharpest bend, 1/m.
const SHARPEST: f64 = 0.03;
/// Largest bank either way, rad.
const BANK: f64 = 0.03;
/// Shortest time from one bend into the next, s.
const SHORTEST_TURN_S: f64 = 2.0;

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
            speed: random.next_in(0.0, 0.2).into(),
            yaw_rate: random.next_in(0.0, 0.005).into(),
            offset: random.next_in(0.0, 0.05).into(),
            heading: random.next_in(0.0, 0.003).into(),
            lead_distance: random.next_in(0.0, 0.5).into(),
            lead_speed: random.next_in(0.0, 0.3).into(),
            ..SensorNoise::default()
        };
        let held = usable(&scenario.vehicle, environment, speed);
        scenario.road = draw_road(&mut random, speed, held);
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

/// Lateral acceleration, m/s^2, that bends and bank may ask of this car.
fn usable(vehicle: &Vehicle, environment: &Environment, speed: f64) -> f64 {
    let (car, actuators) = (vehicle.parameters(), vehicle.actuators());
    let held = actuators.held_lateral_acceleration();
    let lag_s = actuators.torque_lag_s(car.wheelbase(), speed);
    let wind = environment.side_push(car.mass, speed).abs();
    // From as much to one side to as much to the other.
    let per_turn = 1.0 + 2.0 * lag_s / SHORTEST_TURN_S;
    (TORQUE_SHARE * held - wind).max(0.0) / per_turn
}

fn draw_road(random: &mut Philox, speed: f64, usable: f64) -> RoadDescription {
    let square = speed * speed;
    // A bank is never more than a car can hold on a straight.
    let steepest = BANK.min(usable / GRAVITY);
    let mut segments = vec![Segment::straight(random.next_in(20.0, 60.0))];
    let mut curvature = 0.0;
    for _ in 0..random.next_index(5) + 2 {
        let grade = random.next_in(-0.05, 0.05);
        let bank = random.next_in(-steepest, steepest);
        let carried = random.next_in(-usable, usable) - GRAVITY * bank;
        let bend = carried.clamp(-BEND_ACCELERATION, BEND_ACCELERATION) / square;
        let next = bend.clamp(-SHARPEST, SHARPEST);
        for segment in [
            Segment::clothoid(
                random.next_in(SHORTEST_TURN_S, 4.0) * speed,
                curvature,
                next,
            ),
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
