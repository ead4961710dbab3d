//! The actors of a block's scenarios, one scenario after the other: they are few.

use super::tables::{Motion, NO_LEAD_GAP, Prepared};
use crate::collision::Outline;
use crate::integrate::VehicleBatch;
use crate::metric::{Accumulator, Collision};
use crate::random::Philox;
use crate::real::{Real, double};
use crate::scenario::Scenario;
use crate::traffic::{ActorState, Clock, Ego, Shape, advance, find_lead};
use crate::vehicle::VehicleModel;

/// Stream of random numbers for drivers that dawdle.
const DRIVER_STREAM: u64 = 0x6472_6976;
/// Actors further away than this, m, are not looked at for collisions.
const NEAR: f64 = 150.0;
/// Times to collision beyond this, s, do not count.
const HORIZON_S: f64 = 10.0;

/// The ego's length and width, and how far its outline's middle lies before its vehicle's reference point, m.
pub(super) fn outline(scenario: &Scenario) -> (Shape, f64) {
    let vehicle = scenario.vehicle.parameters();
    let to_centre = match scenario.vehicle.model {
        VehicleModel::Kinematic | VehicleModel::KinematicTrailer => 0.5 * vehicle.wheelbase(),
        VehicleModel::SingleTrack | VehicleModel::Drift => {
            0.5 * (vehicle.front_axle - vehicle.rear_axle)
        }
    };
    (Shape::new(vehicle.length, vehicle.width), to_centre)
}

/// Actors of every lane that has some.
pub(super) struct Traffic {
    lanes: Vec<LaneTraffic>,
    /// For each lane of the block, its place in `lanes`.
    place: Vec<Option<usize>>,
}

struct LaneTraffic {
    lane: usize,
    actors: Vec<crate::traffic::Actor>,
    states: Vec<ActorState>,
    shape: Shape,
    /// From the vehicle's reference point forward to the middle of its outline, m.
    to_centre: f64,
    lane_width: f64,
    random: Philox,
    dt: f64,
}

impl Traffic {
    pub(super) fn new(block: &[Prepared<'_>]) -> Self {
        let mut traffic = Self {
            lanes: Vec::new(),
            place: vec![None; block.len()],
        };
        for (lane, Prepared { scenario, road }) in block.iter().enumerate() {
            if scenario.actors.is_empty() {
                continue;
            }
            let (shape, to_centre) = outline(scenario);
            traffic.place[lane] = Some(traffic.lanes.len());
            traffic.lanes.push(LaneTraffic {
                lane,
                actors: scenario.actors.clone(),
                states: scenario.actors.iter().map(ActorState::new).collect(),
                shape,
                to_centre,
                lane_width: road.lane_width(),
                random: Philox::new(scenario.seed, DRIVER_STREAM),
                dt: scenario.dt_s,
            });
        }
        traffic
    }

    /// Whether no lane has actors.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The actors of one lane.
    pub(super) fn states(&self, lane: usize) -> &[ActorState] {
        self.place[lane].map_or(&[], |place| &self.lanes[place].states)
    }

    /// Tells every lane about its lead without moving anybody.
    pub(super) fn look(&self, motion: &mut Motion, vehicle: &VehicleBatch, starts: &[f64]) {
        for lane in 0..self.place.len() {
            *motion.lead_gap(lane) = NO_LEAD_GAP as f32;
        }
        for traffic in &self.lanes {
            let (ego, _) = traffic.ego(vehicle, starts);
            traffic.report_lead(&ego, motion);
        }
    }

    /// Moves the actors of running lanes, reports leads, and ends lanes that collided.
    pub(super) fn advance(
        &mut self,
        motion: &mut Motion,
        accumulator: &mut Accumulator,
        vehicle: &VehicleBatch,
        starts: &[f64],
        step_idx: usize,
    ) {
        for traffic in &mut self.lanes {
            let lane = traffic.lane;
            if *motion.alive(lane) == 0.0 {
                continue;
            }
            let (ego, heading) = traffic.ego(vehicle, starts);
            let clock = Clock {
                step_idx: step_idx as u64,
                t: step_idx as f64 * traffic.dt,
                dt: traffic.dt,
            };
            advance(
                &traffic.actors,
                &mut traffic.states,
                &ego,
                clock,
                traffic.random,
            );
            traffic.report_lead(&ego, motion);
            traffic.judge(&ego, heading, clock, motion, accumulator);
        }
    }
}

impl LaneTraffic {
    fn ego(&self, vehicle: &VehicleBatch, starts: &[f64]) -> (Ego, f64) {
        let state = |i: usize| f64::from(vehicle.column(i)[self.lane]);
        let (sin, cos) = double::sin_cos(state(4));
        let ego = Ego {
            s: starts[self.lane] + state(0) + self.to_centre * cos,
            d: state(1) + self.to_centre * sin,
            speed: state(3),
            shape: self.shape,
        };
        (ego, state(4))
    }

    fn report_lead(&self, ego: &Ego, motion: &mut Motion) {
        let lane = self.lane;
        let lead = find_lead(&self.actors, &self.states, ego, self.lane_width);
        *motion.lead_present(lane) = if lead.is_some() { 1.0 } else { 0.0 };
        *motion.lead_gap(lane) = lead.map_or(NO_LEAD_GAP as f32, |lead| lead.gap as f32);
        *motion.lead_speed(lane) = lead.map_or(ego.speed, |lead| lead.speed) as f32;
        *motion.lead_acceleration(lane) = lead.map_or(0.0, |lead| lead.acceleration) as f32;
    }

    /// Gap, headway, time to collision and collision of this step.
    fn judge(
        &self,
        ego: &Ego,
        heading: f64,
        clock: Clock,
        motion: &mut Motion,
        accumulator: &mut Accumulator,
    ) {
        let lane = self.lane;
        let lower = |least: &mut f32, value: f64| *least = Real::minimum(value as f32, *least);
        let extremes = &mut accumulator.extremes;
        if *motion.lead_present(lane) > 0.5 {
            let gap = f64::from(*motion.lead_gap(lane));
            lower(extremes.gap(lane), gap);
            if ego.speed > 0.5 {
                lower(extremes.headway(lane), gap / ego.speed);
            }
        }
        let own = Outline {
            x: ego.s,
            y: ego.d,
            heading,
            length: ego.shape.length,
            width: ego.shape.width,
        };
        let (sin, cos) = double::sin_cos(heading);
        let velocity = [ego.speed * cos, ego.speed * sin];
        for (actor_idx, (actor, state)) in self.actors.iter().zip(&self.states).enumerate() {
            if (state.s - ego.s).abs() > NEAR {
                continue;
            }
            let other = Outline {
                x: state.s,
                y: state.d,
                heading: state.heading(),
                length: actor.shape.length,
                width: actor.shape.width,
            };
            let other_velocity = [state.speed, state.lateral_speed];
            let Some(ttc) = own.time_to_collision(velocity, &other, other_velocity, HORIZON_S)
            else {
                continue;
            };
            lower(extremes.ttc(lane), ttc);
            if own.overlaps(&other) && accumulator.collisions[lane].is_none() {
                accumulator.collisions[lane] = Some(Collision {
                    time_s: clock.t + clock.dt,
                    closing_speed: velocity[0] - state.speed,
                    actor_idx,
                });
                *motion.alive(lane) = 0.0;
            }
        }
    }
}
