//! Intelligent Driver Model.
//!
//! ```text
//! a = a_max (1 - (v/v0)^4 - (s*/s)^2)
//! s* = s0 + max(0, v T + v (v - v_lead) / (2 sqrt(a_max b)))
//! equilibrium: s = (s0 + v T) / sqrt(1 - (v/v0)^4)
//! ```
//!
//! Source: Treiber, Hennecke, Helbing, Physical Review E 62 (2000). The exponent is
//! the usual 4; other exponents are not offered.

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Parameters of one driver, SI units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idm {
    /// Desired speed v0, m/s.
    pub desired_speed: f64,
    /// Time gap T, s.
    pub time_gap: f64,
    /// Gap at standstill s0, bumper to bumper, m.
    pub standstill_gap: f64,
    /// Largest acceleration a, m/s^2.
    pub acceleration: f64,
    /// Comfortable deceleration b, m/s^2, positive.
    pub deceleration: f64,
}

impl Default for Idm {
    /// A driver in light motorway traffic.
    fn default() -> Self {
        Self {
            desired_speed: 33.3,
            time_gap: 1.6,
            standstill_gap: 2.0,
            acceleration: 1.5,
            deceleration: 2.0,
        }
    }
}

impl Idm {
    /// Acceleration, m/s^2, at `speed` behind a leader `gap` m ahead (bumper to bumper).
    ///
    /// `closing_speed` is own speed minus the leader's. A gap below 0.1 m counts as
    /// 0.1 m, so the answer is finite for cars that touch; it is not limited to what
    /// a car can do.
    #[inline(always)]
    pub fn acceleration_at<R: Real>(&self, speed: R, closing_speed: R, gap: R) -> R {
        self.acceleration_towards(
            R::splat(1.0 / self.desired_speed),
            speed,
            closing_speed,
            gap,
        )
    }

    /// As [`Idm::acceleration_at`], for a driver whose desired speed is `1 / inverse_desired`.
    #[inline(always)]
    pub fn acceleration_towards<R: Real>(
        &self,
        inverse_desired: R,
        speed: R,
        closing_speed: R,
        gap: R,
    ) -> R {
        let c = R::splat;
        let ratio = (speed * inverse_desired).squared();
        let braking = c(self.braking_share());
        let dynamic = speed * c(self.time_gap) + speed * closing_speed * braking;
        let wanted = c(self.standstill_gap) + dynamic.maximum(R::zero());
        let interaction = (wanted / gap.maximum(c(0.1))).squared();
        c(self.acceleration) * (R::one() - ratio * ratio - interaction)
    }

    /// What `v (v - v_lead)` is multiplied by in the wanted gap, s^2/m.
    #[inline(always)]
    pub(crate) fn braking_share(&self) -> f64 {
        0.5 / (self.acceleration * self.deceleration).sqrt()
    }

    /// Gap, m, at which a driver follows a leader of the same constant speed, below the desired speed.
    pub fn equilibrium_gap(&self, speed: f64) -> f64 {
        let ratio = (speed / self.desired_speed).powi(4);
        (self.standstill_gap + speed * self.time_gap) / (1.0 - ratio).sqrt()
    }
}
