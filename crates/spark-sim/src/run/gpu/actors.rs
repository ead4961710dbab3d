//! Other road users of a block's scenarios as the tables that kernels read; `kernels/traffic.cuh` says what is where.
//!
//! ```text
//! scenarios ranked by their number of actors, most first      actors  3 2 1
//! place of actor i = slots[i] + rank                          slot 0  0 1 2   slot 1  3 4   slot 2  5
//! ```
//!
//! So neighbouring threads read neighbouring places, and a scenario with many actors costs nobody else memory.

use super::super::tables::Prepared;
use super::lines::Lines;
use crate::traffic::{Actor, ActorState, Lateral, Longitudinal, Trigger, Way};

/// Figures of an actor: size and offset at the start, six of its speed's rule, five of its offset's.
const N_FIGURES: usize = 3 + 6 + 5;
/// Parts of a rule: which one for speed and offset, then the first of its lines and their number, for each.
const N_PARTS: usize = 6;
/// Where an actor is and how it moves.
const N_VALUES: usize = 7;

/// Tables `[field][place]` of the actors of all lanes.
#[derive(Default)]
pub(super) struct Actors {
    pub(super) figures: Vec<f64>,
    pub(super) rules: Vec<u32>,
    pub(super) slots: Vec<u32>,
    /// As they are at the start.
    pub(super) moving: Vec<f64>,
    pub(super) n_places: usize,
    /// Rank of every lane.
    pub(super) ranks: Vec<u32>,
}

impl Actors {
    /// `None` if there are more actors or lines than 32 bits count.
    pub(super) fn new(lanes: &[Prepared<'_>], lines: &mut Lines) -> Option<Self> {
        let n_actors = |lane: usize| lanes[lane].scenario.actors.len();
        let mut by_rank: Vec<usize> = (0..lanes.len()).collect();
        // Stable: lanes with as many actors stay neighbours.
        by_rank.sort_by_key(|&lane| std::cmp::Reverse(n_actors(lane)));
        let n_slots = by_rank.first().map_or(0, |&lane| n_actors(lane));
        let mut actors = Self {
            ranks: vec![0; lanes.len()],
            ..Self::default()
        };
        for (rank, &lane) in by_rank.iter().enumerate() {
            actors.ranks[lane] = u32::try_from(rank).ok()?;
        }
        for slot in 0..n_slots {
            actors.slots.push(u32::try_from(actors.n_places).ok()?);
            actors.n_places += by_rank.partition_point(|&lane| n_actors(lane) > slot);
        }
        u32::try_from(actors.n_places).ok()?;
        actors.figures = vec![0.0; N_FIGURES * actors.n_places];
        actors.rules = vec![0; N_PARTS * actors.n_places];
        actors.moving = vec![0.0; N_VALUES * actors.n_places];
        for (lane, prepared) in lanes.iter().enumerate() {
            for (slot, actor) in prepared.scenario.actors.iter().enumerate() {
                let place = (actors.slots[slot] + actors.ranks[lane]) as usize;
                actors.put(place, actor, lines)?;
            }
        }
        Some(actors)
    }

    fn put(&mut self, place: usize, actor: &Actor, lines: &mut Lines) -> Option<()> {
        let n = self.n_places;
        let (speed_rule, speed_figures, speed_lines) = speed_rule(actor, lines)?;
        let (offset_rule, offset_figures, offset_lines) = offset_rule(actor, lines)?;
        let own = [actor.shape.length, actor.shape.width, actor.offset];
        let figures = own.into_iter().chain(speed_figures).chain(offset_figures);
        for (field, figure) in figures.enumerate() {
            self.figures[field * n + place] = figure;
        }
        let rules = [speed_rule, offset_rule].into_iter();
        for (field, part) in rules.chain(speed_lines).chain(offset_lines).enumerate() {
            self.rules[field * n + place] = part;
        }
        let start = ActorState::new(actor);
        let neither_brakes_nor_changes = [0.0, -1.0];
        let motion = [
            start.s,
            start.d,
            start.speed,
            start.acceleration,
            start.lateral_speed,
        ];
        let values = motion.into_iter().chain(neither_brakes_nor_changes);
        for (field, value) in values.enumerate() {
            self.moving[field * n + place] = value;
        }
        Some(())
    }
}

/// A trigger's number, from that of the rule that begins at a time on, and its figure.
fn triggered(at_a_time: u32, trigger: &Trigger) -> (u32, f64) {
    match *trigger {
        Trigger::At(time) => (at_a_time, time),
        Trigger::GapBelow(gap) => (at_a_time + 1, gap),
    }
}

/// A rule: its number, its figures, the first of its lines and how many there are.
type Rule<const N: usize> = (u32, [f64; N], [u32; 2]);

/// In the order of `sim::Traffic::SpeedRule`.
fn speed_rule(actor: &Actor, lines: &mut Lines) -> Option<Rule<6>> {
    let none = [0, 0];
    Some(match &actor.longitudinal {
        Longitudinal::Hold => (0, [0.0; 6], none),
        Longitudinal::Speed(profile) => (1, [0.0; 6], lines.push_profile(profile)?),
        Longitudinal::Brake {
            trigger,
            deceleration,
            final_speed,
        } => {
            let (rule, trigger) = triggered(2, trigger);
            let figures = [trigger, *deceleration, *final_speed, 0.0, 0.0, 0.0];
            (rule, figures, none)
        }
        Longitudinal::Idm(idm) => {
            let figures = [
                1.0 / idm.desired_speed,
                idm.time_gap,
                idm.standstill_gap,
                idm.acceleration,
                idm.braking_share(),
                0.0,
            ];
            (4, figures, none)
        }
        Longitudinal::Krauss(krauss) => {
            let figures = [
                krauss.acceleration,
                krauss.deceleration,
                krauss.imperfection,
                krauss.reaction_time,
                krauss.standstill_gap,
                krauss.desired_speed,
            ];
            (5, figures, none)
        }
        Longitudinal::Replay(points) => {
            let rows = points.iter().map(|point| [point.t, point.s, point.d, 0.0]);
            (6, [0.0; 6], lines.push(rows)?)
        }
    })
}

/// In the order of `sim::Traffic::OffsetRule`.
fn offset_rule(actor: &Actor, lines: &mut Lines) -> Option<Rule<5>> {
    Some(match &actor.lateral {
        Lateral::Keep => (0, [0.0; 5], [0, 0]),
        Lateral::Change {
            trigger,
            to,
            peak_speed,
            acceleration,
            speed_goal,
        } => {
            let (rule, trigger) = triggered(1, trigger);
            let Way { way, duration } = Way::new(actor.offset, *to, *peak_speed);
            let figures = [trigger, way, duration, *acceleration, *speed_goal];
            (rule, figures, [0, 0])
        }
        Lateral::Offset(profile) => (3, [0.0; 5], lines.push_profile(profile)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_actor_has_a_place_of_its_own_and_none_is_left_free() {
        let counts = [1, 3, 0, 2, 3, 1];
        let scenarios: Vec<Scenario> = counts
            .iter()
            .map(|&n| {
                let mut scenario = Scenario::straight("places", 20.0, 1.0);
                for i in 0..n {
                    scenario.actors.push(Actor {
                        shape: crate::traffic::Shape::CAR,
                        distance: f64::from(i),
                        offset: 0.0,
                        speed: 0.0,
                        longitudinal: Longitudinal::Hold,
                        lateral: Lateral::Keep,
                    });
                }
                scenario
            })
            .collect();
        let lanes: Vec<Prepared<'_>> = scenarios
            .iter()
            .map(|scenario| Prepared {
                scenario,
                road: scenario.validate().expect("valid"),
            })
            .collect();
        let actors = Actors::new(&lanes, &mut Lines::default()).expect("few");
        assert_eq!(actors.slots, [0, 5, 8]);
        assert_eq!(actors.n_places, 10);
        assert_eq!(actors.ranks, [3, 0, 5, 2, 1, 4]);
        let mut places = Vec::new();
        for (lane, &n) in counts.iter().enumerate() {
            for slot in 0..n as usize {
                let place = actors.slots[slot] + actors.ranks[lane];
                assert_eq!(actors.moving[place as usize], slot as f64);
                places.push(place);
            }
        }
        places.sort_unstable();
        assert_eq!(places, (0..10).collect::<Vec<u32>>());
    }

    /// The header's lists are this module's.
    #[test]
    fn actors_have_as_many_figures_on_both_sides() {
        let header = include_str!("../../../kernels/traffic.cuh");
        for line in [
            "enum Figure { LENGTH, WIDTH, START_OFFSET, OF_SPEED, OF_OFFSET = OF_SPEED + 6, N_FIGURES = OF_OFFSET + 5 };",
            "enum Part { SPEED_RULE, OFFSET_RULE, SPEED_LINE, N_SPEED_LINES, OFFSET_LINE, N_OFFSET_LINES, N_PARTS };",
            "enum SpeedRule { HOLD, SPEED_OVER_TIME, BRAKE_AT, BRAKE_BELOW_GAP, IDM, KRAUSS, REPLAY };",
            "enum OffsetRule { KEEP, CHANGE_AT, CHANGE_BELOW_GAP, OFFSET_OVER_TIME };",
            "enum Value { S, D, SPEED, ACCELERATION, LATERAL_SPEED, IS_BRAKING, CHANGES_SINCE, N_VALUES };",
        ] {
            assert!(header.contains(line), "{line}");
        }
    }
}
