//! Actors of a scenario: scripted, following or replayed cars on the ego's road.
//!
//! ```text
//!            speed: hold | over time | brake on a trigger | IDM | Krauss | replay
//! actor  ----+
//!            offset: keep | change lane on a trigger, half a cosine | over time
//! ```
//!
//! Positions are centres of outlines in road coordinates. Those that follow (IDM, Krauss)
//! see each other and the ego; actors do not avoid collisions sideways.
//!
//! `kernels/traffic.cuh` does the same operations in the same order on a GPU. So that they have the same bits there
//! too, whatever figures an actor has, minima and maxima here are [`Real`]'s, whose answer for NaN and for zeros of both signs is
//! stated, and sines those of this crate.

use super::{Idm, Krauss};
use crate::Profile;
use crate::random::Philox;
use crate::real::{Real, double};
use serde::{Deserialize, Serialize};

/// When something begins, once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Trigger {
    /// At this time, s.
    At(f64),
    /// When the free space between the ego's front and this actor's rear falls below this, m.
    GapBelow(f64),
}

/// Length and width, m.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Extent along the direction of travel, m.
    pub length: f64,
    /// Extent across it, m.
    pub width: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self::CAR
    }
}

impl Shape {
    /// A passenger car, 4.6 by 1.8 m.
    pub const CAR: Self = Self::new(4.6, 1.8);
    /// A lorry, 8.4 by 2.5 m.
    pub const TRUCK: Self = Self::new(8.4, 2.5);
    /// A delivery van, 5.2 by 2.0 m.
    pub const VAN: Self = Self::new(5.2, 2.0);
    /// A bus, 12.0 by 2.5 m.
    pub const BUS: Self = Self::new(12.0, 2.5);
    /// A motorcycle with its rider, 2.2 by 0.8 m.
    pub const MOTORBIKE: Self = Self::new(2.2, 0.8);
    /// A person on foot, 0.5 by 0.6 m.
    pub const PEDESTRIAN: Self = Self::new(0.5, 0.6);

    /// Length and width, m.
    pub const fn new(length: f64, width: f64) -> Self {
        Self { length, width }
    }
}

/// Where an actor was at one time of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayPoint {
    /// Time since the scenario's start, s.
    pub t: f64,
    /// Distance along the road, m.
    pub s: f64,
    /// Offset from the centre of the ego's lane, m, left positive.
    pub d: f64,
}

/// How an actor chooses its speed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Longitudinal {
    /// Keeps the speed of the start.
    #[default]
    Hold,
    /// Speed over time, m/s.
    Speed(Profile),
    /// Constant speed, then a constant deceleration down to a final speed.
    Brake {
        /// When the braking begins.
        trigger: Trigger,
        /// Strength of the braking, m/s^2, positive.
        deceleration: f64,
        /// Speed at which the braking ends, m/s.
        final_speed: f64,
    },
    /// Follows with the Intelligent Driver Model.
    Idm(Idm),
    /// Follows with Krauss's model.
    Krauss(Krauss),
    /// Follows recorded positions, straight lines between them; the last one is held.
    Replay(Vec<ReplayPoint>),
}

/// How an actor chooses its offset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Lateral {
    /// Stays at its offset.
    #[default]
    Keep,
    /// Moves to another offset along half a cosine, once.
    Change {
        /// When the change begins.
        trigger: Trigger,
        /// Offset to end at, m.
        to: f64,
        /// Largest lateral speed, m/s.
        peak_speed: f64,
        /// Acceleration while moving over, m/s^2.
        #[serde(default)]
        acceleration: f64,
        /// Speed at which that acceleration ends, m/s.
        #[serde(default)]
        speed_goal: f64,
    },
    /// Offset over time, m.
    Offset(Profile),
}

/// A road user other than the ego.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Length and width; a passenger car's when absent.
    #[serde(default)]
    pub shape: Shape,
    /// Distance of its centre along the road at the start, m.
    pub distance: f64,
    /// Offset of its centre at the start, m, left positive.
    #[serde(default)]
    pub offset: f64,
    /// m/s at the start.
    #[serde(default)]
    pub speed: f64,
    /// How it chooses its speed.
    #[serde(default)]
    pub longitudinal: Longitudinal,
    /// How it chooses its offset.
    #[serde(default)]
    pub lateral: Lateral,
}

/// The ego as actors see it: its outline's centre in road coordinates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ego {
    pub(crate) s: f64,
    pub(crate) d: f64,
    pub(crate) speed: f64,
    pub(crate) shape: Shape,
}

/// Where an actor is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ActorState {
    pub(crate) s: f64,
    pub(crate) d: f64,
    pub(crate) speed: f64,
    pub(crate) acceleration: f64,
    pub(crate) lateral_speed: f64,
    brake_since: Option<f64>,
    change_since: Option<f64>,
}

impl ActorState {
    pub(crate) fn new(actor: &Actor) -> Self {
        let (s, d) = match &actor.longitudinal {
            Longitudinal::Replay(points) => replayed(points, 0.0),
            _ => (actor.distance, actor.offset),
        };
        Self {
            s,
            d,
            speed: actor.speed,
            acceleration: 0.0,
            lateral_speed: 0.0,
            brake_since: None,
            change_since: None,
        }
    }

    /// Direction of travel relative to the road, rad.
    pub(crate) fn heading(&self) -> f64 {
        double::atan(self.lateral_speed / Real::maximum(self.speed, 0.1))
    }
}

/// The car an actor or the ego follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lead {
    pub(crate) actor_idx: usize,
    pub(crate) gap: f64,
    pub(crate) speed: f64,
    pub(crate) acceleration: f64,
}

/// How far, in m, a car must reach into the ego's lane to count as being in it. UN R157, 5.2.5.1.
const INTRUSION: f64 = 0.3;

/// The nearest actor ahead whose side reaches into the ego's lane.
pub(crate) fn find_lead(
    actors: &[Actor],
    states: &[ActorState],
    ego: &Ego,
    lane_width: f64,
) -> Option<Lead> {
    let mut nearest: Option<Lead> = None;
    for (actor_idx, (actor, state)) in actors.iter().zip(states).enumerate() {
        let inside = state.d.abs() - 0.5 * actor.shape.width < 0.5 * lane_width - INTRUSION;
        if !inside || state.s <= ego.s {
            continue;
        }
        let gap = state.s - ego.s - 0.5 * (actor.shape.length + ego.shape.length);
        if nearest.is_none_or(|lead| gap < lead.gap) {
            nearest = Some(Lead {
                actor_idx,
                gap,
                speed: state.speed,
                acceleration: state.acceleration,
            });
        }
    }
    nearest
}

/// Moves every actor of one scenario on by `dt` s, from time `t`.
pub(crate) fn advance(
    actors: &[Actor],
    states: &mut [ActorState],
    ego: &Ego,
    clock: Clock,
    random: Philox,
) {
    for actor_idx in 0..actors.len() {
        let leader = leader_of(actor_idx, actors, states, ego);
        let mut draw = random.at(clock.step_idx * actors.len() as u64 + actor_idx as u64);
        let dawdle = match &actors[actor_idx].longitudinal {
            Longitudinal::Krauss(_) => draw.next_uniform(),
            _ => 0.0,
        };
        advance_one(
            &actors[actor_idx],
            &mut states[actor_idx],
            ego,
            leader,
            clock,
            dawdle,
        );
    }
}

/// The step being made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) step_idx: u64,
    pub(crate) t: f64,
    pub(crate) dt: f64,
}

fn advance_one(
    actor: &Actor,
    state: &mut ActorState,
    ego: &Ego,
    leader: Option<(f64, f64)>,
    clock: Clock,
    dawdle: f64,
) {
    let Clock { t, dt, .. } = clock;
    let next_t = t + dt;
    if let Longitudinal::Replay(points) = &actor.longitudinal {
        let (s, d) = replayed(points, next_t);
        let speed = (s - state.s) / dt;
        state.acceleration = (speed - state.speed) / dt;
        state.lateral_speed = (d - state.d) / dt;
        (state.s, state.d, state.speed) = (s, d, speed);
        return;
    }

    let gap_to_ego = state.s - ego.s - 0.5 * (actor.shape.length + ego.shape.length);
    let fires = |trigger: &Trigger| match *trigger {
        Trigger::At(time) => t >= time,
        Trigger::GapBelow(gap) => gap_to_ego < gap,
    };
    let speed = state.speed;
    let mut next_speed = match &actor.longitudinal {
        Longitudinal::Hold | Longitudinal::Replay(_) => speed,
        Longitudinal::Speed(profile) => profile.at(next_t),
        Longitudinal::Brake {
            trigger,
            deceleration,
            final_speed,
        } => {
            if state.brake_since.is_none() && fires(trigger) {
                state.brake_since = Some(t);
            }
            match state.brake_since {
                Some(_) if speed > *final_speed => {
                    Real::maximum(speed - deceleration * dt, *final_speed)
                }
                _ => speed,
            }
        }
        Longitudinal::Idm(idm) => {
            let (lead_speed, gap) = leader.unwrap_or((speed, 1e6));
            let wanted = idm.acceleration_at(speed, speed - lead_speed, gap);
            speed + Real::maximum(wanted, -HARDEST_BRAKING) * dt
        }
        Longitudinal::Krauss(krauss) => krauss.next_speed(speed, leader, dawdle, dt),
    };

    let offset = match &actor.lateral {
        Lateral::Keep => state.d,
        Lateral::Offset(profile) => profile.at(next_t),
        Lateral::Change {
            trigger,
            to,
            peak_speed,
            acceleration,
            speed_goal,
        } => {
            if state.change_since.is_none() && fires(trigger) {
                state.change_since = Some(t);
            }
            match state.change_since {
                None => actor.offset,
                Some(since) => {
                    let Way { way, duration } = Way::new(actor.offset, *to, *peak_speed);
                    let done = Real::minimum((next_t - since) / duration, 1.0);
                    let moving = done < 1.0;
                    if moving && (speed_goal - next_speed) * acceleration > 0.0 {
                        let changed = next_speed + acceleration * dt;
                        next_speed = match *acceleration > 0.0 {
                            true => Real::minimum(changed, *speed_goal),
                            false => Real::maximum(changed, *speed_goal),
                        };
                    }
                    let (_, cos) = double::sin_cos(std::f64::consts::PI * done);
                    actor.offset + 0.5 * way * (1.0 - cos)
                }
            }
        }
    };

    next_speed = Real::maximum(next_speed, 0.0);
    state.acceleration = (next_speed - speed) / dt;
    state.lateral_speed = (offset - state.d) / dt;
    state.s += 0.5 * (speed + next_speed) * dt;
    state.d = offset;
    state.speed = next_speed;
}

/// A change of offset: how far, m, and for how long, s.
pub(crate) struct Way {
    pub(crate) way: f64,
    pub(crate) duration: f64,
}

impl Way {
    /// From one offset to another along half a cosine, whose steepest slope is the peak speed.
    pub(crate) fn new(from: f64, to: f64, peak_speed: f64) -> Self {
        let way = to - from;
        let duration = std::f64::consts::PI * way.abs() / (2.0 * peak_speed);
        Self {
            way,
            duration: Real::maximum(duration, 1e-9),
        }
    }
}

/// What a following driver can brake at most, m/s^2.
const HARDEST_BRAKING: f64 = 9.0;

/// Speed of and gap to the nearest car, ego included, ahead of an actor and beside less than a car's width.
fn leader_of(
    actor_idx: usize,
    actors: &[Actor],
    states: &[ActorState],
    ego: &Ego,
) -> Option<(f64, f64)> {
    let follows = matches!(
        actors[actor_idx].longitudinal,
        Longitudinal::Idm(_) | Longitudinal::Krauss(_)
    );
    if !follows {
        return None;
    }
    let (own, own_shape) = (&states[actor_idx], actors[actor_idx].shape);
    let others = actors
        .iter()
        .zip(states)
        .enumerate()
        .filter(|(i, _)| *i != actor_idx)
        .map(|(_, (actor, state))| (state.s, state.d, state.speed, actor.shape))
        .chain([(ego.s, ego.d, ego.speed, ego.shape)]);
    others
        .filter(|(s, d, _, shape)| {
            *s > own.s && (d - own.d).abs() < 0.5 * (shape.width + own_shape.width)
        })
        .map(|(s, _, speed, shape)| (speed, s - own.s - 0.5 * (shape.length + own_shape.length)))
        .reduce(|nearest, next| if next.1 < nearest.1 { next } else { nearest })
}

fn replayed(points: &[ReplayPoint], t: f64) -> (f64, f64) {
    let after = points.partition_point(|point| point.t <= t);
    let (Some(from), to) = (
        points.get(after.saturating_sub(1)).or(points.first()),
        points.get(after),
    ) else {
        return (0.0, 0.0);
    };
    match to {
        Some(to) if after > 0 => {
            let share = (t - from.t) / (to.t - from.t);
            (
                from.s + share * (to.s - from.s),
                from.d + share * (to.d - from.d),
            )
        }
        _ => (from.s, from.d),
    }
}
