//! Krauss's car-following model: the fastest speed from which one can still stop in time.
//!
//! ```text
//! v_safe = -b tau + sqrt((b tau)^2 + v_lead^2 + 2 b gap)
//! v'     = min(v_safe, v + a dt, v_max), then less a random part of sigma a dt
//! ```
//!
//! Source: Krauss, *Microscopic modeling of traffic flow* (1998), in the form of
//! SUMO's `KraussOrig1`.

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Parameters of one driver, SI units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Krauss {
    /// Largest acceleration a, m/s^2.
    pub acceleration: f64,
    /// Deceleration b that it brakes with, m/s^2, positive.
    pub deceleration: f64,
    /// Imperfection sigma in [0, 1]; 0 does not dawdle.
    pub imperfection: f64,
    /// Reaction time tau, s.
    pub reaction_time: f64,
    /// Gap at standstill, m.
    pub standstill_gap: f64,
    /// Speed that it drives when free, m/s.
    pub desired_speed: f64,
}

impl Default for Krauss {
    /// The passenger car of SUMO's defaults.
    fn default() -> Self {
        Self {
            acceleration: 2.6,
            deceleration: 4.5,
            imperfection: 0.5,
            reaction_time: 1.0,
            standstill_gap: 2.5,
            desired_speed: 33.3,
        }
    }
}

impl Krauss {
    /// The fastest safe speed behind a leader at `lead_speed`, `gap` m ahead bumper to bumper.
    pub fn safe_speed(&self, lead_speed: f64, gap: f64) -> f64 {
        let room = Real::maximum(gap - self.standstill_gap, 0.0);
        let bt = self.deceleration * self.reaction_time;
        -bt + (bt * bt + lead_speed * lead_speed + 2.0 * self.deceleration * room).sqrt()
    }

    /// The speed after `dt` s. `lead` is (speed, gap); `dawdle` is uniform in [0, 1).
    pub fn next_speed(&self, speed: f64, lead: Option<(f64, f64)>, dawdle: f64, dt: f64) -> f64 {
        let free = Real::minimum(speed + self.acceleration * dt, self.desired_speed);
        let safe = lead.map_or(free, |(lead_speed, gap)| {
            Real::minimum(self.safe_speed(lead_speed, gap), free)
        });
        // Braking is limited to what the driver can do, as a late cut-in leaves no safe speed.
        let wanted = Real::maximum(safe, speed - self.deceleration * dt);
        let dawdled = wanted - dt * self.imperfection * self.acceleration * dawdle;
        Real::maximum(dawdled, 0.0)
    }
}
