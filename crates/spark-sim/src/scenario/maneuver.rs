//! openpilot's fifteen longitudinal manoeuvres, its point-mass plant, and its pass rules.
//!
//! ```text
//! every 0.05 s:  a = planner(speed, leads, cruise, throttle probability, pitch)
//!                v += a dt;  lead += v_lead dt;  v <= 0 -> v = a = 0;  x += v dt
//!
//! pass: d_rel >= 0.4 m; a >= 1e-3 whenever the lead is faster (where asked);
//!       v <= 5.5 m/s at the end (where asked); stopped or a <= -0.04 when forced to decelerate
//! ```
//!
//! A planner is anything that turns a [`PlanInput`] into an acceleration; the built-in one
//! is [`GapPlanner`]. openpilot also runs each manoeuvre with its end-to-end model's plan;
//! there is no such model here, so that flag does not exist.
//!
//! Source: montge/openpilot 0450b81a, `selfdrive/test/longitudinal_maneuvers` (MIT).

use crate::Profile;
use crate::control::planner::{self, Personality};

/// Time step of the plant, s.
pub const DT: f64 = 0.05;
/// Distance reported without a lead, m.
const NO_LEAD: f64 = 200.0;

/// A car ahead, as the planner is told of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeadInput {
    /// m, bumper to bumper.
    pub gap: f64,
    /// Speed of that car, m/s.
    pub speed: f64,
    /// Acceleration of that car, m/s^2.
    pub acceleration: f64,
}

/// What a planner knows at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanInput {
    /// Speed of the car, m/s.
    pub speed: f64,
    /// Up to two cars ahead.
    pub leads: [Option<LeadInput>; 2],
    /// Speed to hold, m/s; may be NaN.
    pub cruise: f64,
    /// How sure the model is that accelerating is right, 0 to 1.
    pub throttle_probability: f64,
    /// Pitch of the car, rad, uphill positive.
    pub pitch: f64,
    /// Come to a stop now.
    pub force_decel: bool,
}

/// Turns what is known into an acceleration, m/s^2.
pub trait LongitudinalPlanner {
    /// The acceleration to command at this step, m/s^2.
    fn plan(&mut self, input: &PlanInput) -> f64;
}

/// The closed loop's own planner, on its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct GapPlanner {
    /// How closely to follow.
    pub personality: Personality,
}

/// Without throttle the car coasts; below twice this speed, m/s, the limit fades out.
const MIN_THROTTLE_SPEED: f64 = 2.5;

impl GapPlanner {
    /// Acceleration of a coasting car on a slope, m/s^2: drag and rolling, and a part of gravity.
    fn coasting(pitch: f64) -> f64 {
        -5.65 * pitch.sin() - 0.3
    }
}

impl LongitudinalPlanner for GapPlanner {
    fn plan(&mut self, input: &PlanInput) -> f64 {
        let v = input.speed;
        let cruise = if input.force_decel { 0.0 } else { input.cruise };
        let time_gap = self.personality.time_gap();
        let mut a = planner::cruise(v, cruise);
        for lead in input.leads.into_iter().flatten() {
            a = a.min(planner::follow(
                v,
                lead.gap,
                lead.speed,
                lead.acceleration,
                time_gap,
            ));
        }
        let mut most = planner::ACCEL_MAX;
        if input.throttle_probability <= 0.4 {
            let share = ((v - MIN_THROTTLE_SPEED) / MIN_THROTTLE_SPEED).clamp(0.0, 1.0);
            let coasting = Self::coasting(input.pitch).max(planner::ACCEL_MIN);
            most = most.min(most + share * (coasting - most));
        }
        a.clamp(planner::ACCEL_MIN, most)
    }
}

/// One manoeuvre. Times in s, speeds in m/s; profiles are linear between their points.
#[derive(Debug, Clone, PartialEq)]
pub struct Maneuver {
    /// What happens in it, in words for people.
    pub title: &'static str,
    /// How long it lasts, s.
    pub duration: f64,
    /// Speed of the car at the start, m/s.
    pub initial_speed: f64,
    /// Whether there is a car ahead.
    pub lead: bool,
    /// Free space to the lead at the start, m.
    pub initial_gap: f64,
    /// Speed of the lead over time, points of `[s, m/s]`.
    pub lead_speed: Vec<[f64; 2]>,
    /// How sure the model is of the lead; it counts above 0.5.
    pub lead_probability: Vec<[f64; 2]>,
    /// How sure the model is of accelerating.
    pub throttle_probability: Vec<[f64; 2]>,
    /// Speed to hold; NaN until a time may be given by a NaN point.
    pub cruise: Vec<[f64; 2]>,
    /// Pitch of the road over time, points of `[s, rad]`, uphill positive.
    pub pitch: Vec<[f64; 2]>,
    /// The lead is reported as the second one.
    pub only_second_lead: bool,
    /// The radar sees the lead whatever the model thinks.
    pub only_radar: bool,
    /// Must start when the lead does.
    pub ensure_start: bool,
    /// Must be slow at the end.
    pub ensure_slowdown: bool,
    /// Whether the system is engaged.
    pub enabled: bool,
}

impl Default for Maneuver {
    fn default() -> Self {
        let constant = |value: f64| vec![[0.0, value]];
        Self {
            title: "",
            duration: 20.0,
            initial_speed: 0.0,
            lead: false,
            initial_gap: NO_LEAD,
            lead_speed: constant(0.0),
            lead_probability: constant(1.0),
            throttle_probability: constant(1.0),
            cruise: constant(50.0),
            pitch: constant(0.0),
            only_second_lead: false,
            only_radar: false,
            ensure_start: false,
            ensure_slowdown: false,
            enabled: true,
        }
    }
}

/// One step of a manoeuvre.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ManeuverStep {
    /// Time since the start, s.
    pub time: f64,
    /// Speed of the car, m/s.
    pub speed: f64,
    /// Acceleration of the car, m/s^2.
    pub acceleration: f64,
    /// m; 200 without a lead.
    pub gap: f64,
    /// Speed of the lead, m/s.
    pub lead_speed: f64,
}

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenRule {
    /// Closer than 0.4 m.
    Crash,
    /// Did not accelerate behind a faster lead.
    DidNotStart,
    /// Faster than 5.5 m/s at the end.
    DidNotSlowDown,
    /// Neither stopped nor decelerating at the end of a forced deceleration.
    DidNotObeyForcedDeceleration,
}

/// How a manoeuvre went.
#[derive(Debug, Clone, PartialEq)]
pub struct ManeuverRun {
    /// Every step, in the order of time.
    pub steps: Vec<ManeuverStep>,
    /// Rules that were broken, each once.
    pub broken: Vec<BrokenRule>,
}

/// Drives a manoeuvre with a planner.
pub fn run(
    maneuver: &Maneuver,
    planner: &mut dyn LongitudinalPlanner,
    force_decel: bool,
) -> ManeuverRun {
    let value = |points: &[[f64; 2]], t: f64| interpolate(points, t);
    let mut run = ManeuverRun {
        steps: Vec::new(),
        broken: Vec::new(),
    };
    let (mut v, mut x, mut lead_x, mut last_lead_speed) =
        (maneuver.initial_speed, 0.0, maneuver.initial_gap, 0.0);
    let n_steps = (maneuver.duration / DT - 1e-9).ceil() as usize;
    for step_idx in 0..n_steps {
        let time = step_idx as f64 * DT;
        let lead_speed = value(&maneuver.lead_speed, time);
        let probability = value(&maneuver.lead_probability, time);
        let seen = maneuver.lead && (maneuver.only_radar || probability > 0.5);
        let lead = seen.then(|| LeadInput {
            gap: (lead_x - x).max(0.0),
            speed: lead_speed,
            acceleration: (lead_speed - last_lead_speed) / DT,
        });
        // A lead that appears is not one that accelerated from rest within a step.
        let lead = lead.map(|lead| LeadInput {
            acceleration: if step_idx == 0 {
                0.0
            } else {
                lead.acceleration
            },
            ..lead
        });
        last_lead_speed = lead_speed;
        let leads = if maneuver.only_second_lead {
            [None, lead]
        } else {
            [lead, None]
        };
        let mut a = planner.plan(&PlanInput {
            speed: v,
            leads,
            cruise: value(&maneuver.cruise, time),
            throttle_probability: value(&maneuver.throttle_probability, time),
            pitch: value(&maneuver.pitch, time),
            force_decel,
        });
        v += a * DT;
        lead_x += lead_speed * DT;
        if v <= 0.0 {
            v = 0.0;
            a = 0.0;
        }
        x += v * DT;

        let gap = if seen { lead_x - x } else { NO_LEAD };
        run.steps.push(ManeuverStep {
            time,
            speed: v,
            acceleration: a,
            gap,
            lead_speed,
        });
        if seen && (gap.is_nan() || gap < 0.4) {
            run.note(BrokenRule::Crash);
        }
        if maneuver.ensure_start && lead_speed - v > 0.0 && (a.is_nan() || a < 1e-3) {
            run.note(BrokenRule::DidNotStart);
        }
    }
    if let Some(last) = run.steps.last().copied() {
        if maneuver.ensure_slowdown && (last.speed.is_nan() || last.speed > 5.5) {
            run.note(BrokenRule::DidNotSlowDown);
        }
        if force_decel && !(last.speed <= 0.1 || last.acceleration <= -0.04) {
            run.note(BrokenRule::DidNotObeyForcedDeceleration);
        }
    }
    run
}

impl ManeuverRun {
    fn note(&mut self, rule: BrokenRule) {
        if !self.broken.contains(&rule) {
            self.broken.push(rule);
        }
    }
}

/// Linear interpolation where a NaN point makes everything up to the next point NaN.
fn interpolate(points: &[[f64; 2]], t: f64) -> f64 {
    let after = points.partition_point(|point| point[0] <= t);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (None, Some(first)) => first[1],
        (Some(last), None) => last[1],
        (Some(from), Some(to)) => from[1] + (to[1] - from[1]) * (t - from[0]) / (to[0] - from[0]),
        (None, None) => 0.0,
    }
}

/// The fifteen manoeuvres of openpilot's own test.
pub fn all() -> Vec<Maneuver> {
    let lead = |title, duration, initial_speed, initial_gap, lead_speed: &[[f64; 2]]| Maneuver {
        title,
        duration,
        initial_speed,
        lead: true,
        initial_gap,
        lead_speed: lead_speed.to_vec(),
        ..Maneuver::default()
    };
    let stopped = [[0.0, 0.0]];
    let fades = vec![[0.0, 1.0], [2.0, 0.0]];
    let pitches = |angle: f64| vec![[0.0, 0.0], [2.0, angle]];
    let hold_20 = vec![[0.0, 20.0]];
    let without_throttle = |title, angle| Maneuver {
        throttle_probability: fades.clone(),
        cruise: hold_20.clone(),
        pitch: pitches(angle),
        ..lead(title, 30.0, 20.0, 120.0, &stopped)
    };
    let braking = |title, until| lead(title, 50.0, 20.0, 35.0, &[[15.0, 20.0], [until, 0.0]]);
    vec![
        lead(
            "approach stopped car at 25 m/s, initial distance 120 m",
            20.0,
            25.0,
            120.0,
            &[[0.0, 30.0], [1.0, 0.0]],
        ),
        lead(
            "approach stopped car at 20 m/s, initial distance 90 m",
            20.0,
            20.0,
            90.0,
            &[[0.0, 20.0], [1.0, 0.0]],
        ),
        braking(
            "steady state following at 20 m/s, then lead brakes to 0 at 1 m/s^2",
            35.0,
        ),
        braking(
            "steady state following at 20 m/s, then lead brakes to 0 at 2 m/s^2",
            25.0,
        ),
        braking(
            "steady state following at 20 m/s, then lead brakes to 0 at 3 m/s^2",
            21.66,
        ),
        Maneuver {
            lead_probability: vec![[2.0, 0.0], [2.01, 1.0]],
            cruise: hold_20.clone(),
            ..lead(
                "lead seen late, brakes to 0 at 3+ m/s^2",
                40.0,
                20.0,
                35.0,
                &[[2.01, 20.0], [8.8, 0.0]],
            )
        },
        Maneuver {
            lead_probability: vec![[2.0, 0.0], [2.01, 1.0]],
            cruise: hold_20.clone(),
            ..lead(
                "approach stopped car at 20 m/s, lead probability 0 then 1",
                30.0,
                20.0,
                120.0,
                &stopped,
            )
        },
        without_throttle(
            "approach stopped car at 20 m/s, throttle probability 1 then 0, pitch -0.1",
            -0.1,
        ),
        without_throttle(
            "approach stopped car at 20 m/s, throttle probability 1 then 0, pitch +0.1",
            0.1,
        ),
        Maneuver {
            only_second_lead: true,
            ..lead(
                "approach slower cut-in car at 20 m/s",
                20.0,
                20.0,
                50.0,
                &[[0.0, 15.0]],
            )
        },
        Maneuver {
            lead_probability: vec![[0.0, 0.0]],
            only_radar: true,
            ..lead(
                "stay stopped behind radar-only lead",
                20.0,
                0.0,
                10.0,
                &stopped,
            )
        },
        Maneuver {
            cruise: vec![[1.0, f64::NAN], [1.01, 15.0]],
            ..lead("NaN recovery", 30.0, 15.0, 60.0, &stopped)
        },
        Maneuver {
            title: "cruising at 25 m/s while disabled",
            initial_speed: 25.0,
            enabled: false,
            ..Maneuver::default()
        },
        Maneuver {
            title: "slow to 5 m/s with throttle probability 0 and pitch +0.1",
            duration: 30.0,
            initial_speed: 20.0,
            throttle_probability: fades.clone(),
            cruise: hold_20.clone(),
            pitch: pitches(0.1),
            ensure_slowdown: true,
            ..Maneuver::default()
        },
        Maneuver {
            ensure_start: true,
            ..lead(
                "resume from a stop",
                20.0,
                0.0,
                6.0,
                &[[10.0, 0.0], [15.0, 2.0]],
            )
        },
    ]
}

/// Final gap, m, after following a lead of constant speed for 100 s from 100 m behind.
pub fn following_gap(lead_speed: f64, planner: &mut dyn LongitudinalPlanner) -> f64 {
    let maneuver = Maneuver {
        title: "steady following",
        duration: 100.0,
        initial_speed: lead_speed,
        lead: true,
        initial_gap: 100.0,
        lead_speed: Profile::constant(lead_speed).points().to_vec(),
        ..Maneuver::default()
    };
    run(&maneuver, planner, false)
        .steps
        .last()
        .map_or(NO_LEAD, |step| step.gap)
}
