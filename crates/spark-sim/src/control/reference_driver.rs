//! The reference drivers of UN R157: what a careful driver, or the regulation, would brake.
//!
//! ```text
//!              critical when                                reacts after   brakes
//! regulation   ttc < dv/12 + 0.35 + 0.1                     0.35 s         6 m/s^2 at once
//! careful      ttc < 2 s, or headway < 2 s behind a lead    0.75 s         0.774 g within 0.6 s,
//!              that brakes harder than 5 m/s^2                             0.85 g when ttc < 1.5 s
//! ```
//!
//! Otherwise they hold the cruise speed. A car counts as cutting in when it reaches
//! 0.3 m into the lane, which is when the simulation reports it as a lead; the
//! careful driver's own perception (0.375 m of wandering, 0.4 s) is 0.4 s after that.
//!
//! Source: figures of UN R157 as in esmini 77028d83, ControllerALKS_R157SM (MPL-2.0).
//! Its RSS and FSM drivers are not here.

use super::{Action, LaneAlgorithm, LaneSetup, State};
use serde::{Deserialize, Serialize};

/// Which of the regulation's drivers brakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceDriverKind {
    /// The regulation's own braking requirement.
    Regulation,
    /// The careful and competent human driver.
    Careful,
}

/// Brakes as the regulation describes; does not steer.
#[derive(Debug, Clone)]
pub struct ReferenceDriver {
    kind: ReferenceDriverKind,
    seen_since: Option<f32>,
    critical_since: Option<f32>,
}

impl ReferenceDriver {
    /// A driver of the given kind.
    pub fn new(kind: ReferenceDriverKind) -> Self {
        Self {
            kind,
            seen_since: None,
            critical_since: None,
        }
    }

    fn is_critical(&self, state: &State<f32>) -> bool {
        let closing = -state.lead_v_rel;
        let ttc = if closing > 0.0 {
            state.lead_d_rel.max(0.0) / closing
        } else {
            f32::INFINITY
        };
        match self.kind {
            ReferenceDriverKind::Regulation => ttc < closing / 12.0 + 0.35 + 0.1,
            ReferenceDriverKind::Careful => {
                let perceived = self.seen_since.is_some_and(|t| state.time - t >= 0.4);
                let headway = state.lead_d_rel / state.v_ego.max(0.1);
                perceived && (ttc < 2.0 || (headway < 2.0 && state.lead_a_rel < -5.0))
            }
        }
    }
}

impl LaneAlgorithm for ReferenceDriver {
    fn reset(&mut self, _setup: &LaneSetup) {
        self.seen_since = None;
        self.critical_since = None;
    }

    fn update(&mut self, state: &State<f32>) -> Action<f32> {
        let now = state.time;
        let lead = state.lead_present > 0.5;
        self.seen_since = lead.then(|| self.seen_since.unwrap_or(now));
        // Once braking, the driver goes on until the danger is over: no closing any more.
        let danger = lead
            && (self.is_critical(state)
                || (self.critical_since.is_some() && state.lead_v_rel < 0.0));
        self.critical_since = danger.then(|| self.critical_since.unwrap_or(now));

        let (reaction, ramp, hardest) = match self.kind {
            ReferenceDriverKind::Regulation => (0.35, 0.0, 6.0),
            ReferenceDriverKind::Careful => (0.75, 0.6, 0.774 * 9.81),
        };
        let braking = self.critical_since.map_or(0.0, |since| {
            let braked_for = now - since - reaction;
            if braked_for < 0.0 {
                return 0.0;
            }
            let ttc = state.lead_d_rel.max(0.0) / (-state.lead_v_rel).max(1e-3);
            if self.kind == ReferenceDriverKind::Careful && ttc < 1.5 {
                return 0.85 * 9.81;
            }
            let share = if ramp > 0.0 {
                (braked_for / ramp).min(1.0)
            } else {
                1.0
            };
            share * hardest
        });
        let accel = if self.critical_since.is_some() {
            -braking
        } else {
            ((state.v_target - state.v_ego) * 0.5).clamp(-0.4, 1.0)
        };
        Action {
            steer: 0.0,
            accel,
            saturated: 0.0,
        }
    }
}

/// Smallest distance, m, to keep to the car ahead at a speed in m/s: UN R157, 5.2.3.3.
///
/// `max(2, v t)` with `t = 1 + (v in km/h) / 100` from 10 km/h on; below, `t` rises
/// linearly from 1 s at 2 m/s.
pub fn minimum_following_distance(speed: f64) -> f64 {
    let kph = 3.6 * speed;
    let time = if kph < 10.0 {
        1.0 + (speed.max(2.0) - 2.0) / 7.8
    } else {
        1.0 + kph / 100.0
    };
    (speed * time).max(2.0)
}
