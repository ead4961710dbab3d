//! Path followers that answer with a curvature: LQR and pure pursuit.
//!
//! ```text
//! along the path, for small angles:  d/ds [offset, heading] = [heading, k - k_road]
//!
//! LQR           k = k_road - (g1 offset + g2 heading),  g1 = sqrt(q1/r), g2 = sqrt(q2/r + 2 g1)
//! pure pursuit  k = 2 y / D^2, y the lateral place of the path point D = max(D_min, t v) ahead
//! ```
//!
//! The LQR gains solve the Riccati equation of the double integrator in closed form.
//! Pure pursuit: Coulter, CMU-RI-TR-92-01 (1992).

use super::{ActionBatch, Algorithm, LaneSetup, StateBatch};
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::SteerInterface;
use serde::{Deserialize, Serialize};

/// Weights of the LQR's cost, integrated over distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LqrConfig {
    /// Of the squared offset, 1/m^2.
    pub offset_weight: f64,
    /// Of the squared heading error, 1/rad^2.
    pub heading_weight: f64,
    /// Of the squared curvature beyond the road's, m^2.
    pub curvature_weight: f64,
}

impl Default for LqrConfig {
    fn default() -> Self {
        Self {
            offset_weight: 1.0,
            heading_weight: 100.0,
            curvature_weight: 1e6,
        }
    }
}

impl LqrConfig {
    /// Curvature per metre of offset and per rad of heading error.
    pub fn gains(&self) -> [f64; 2] {
        let offset = (self.offset_weight / self.curvature_weight).sqrt();
        let heading = (self.heading_weight / self.curvature_weight + 2.0 * offset).sqrt();
        [offset, heading]
    }
}

/// Path follower with the gains of a linear-quadratic regulator.
#[derive(Debug, Clone, Copy)]
pub struct Lqr {
    gains: [f64; 2],
}

impl Lqr {
    /// A controller with the optimal gains for these weights.
    pub fn new(config: LqrConfig) -> Self {
        Self {
            gains: config.gains(),
        }
    }
}

/// How far ahead pure pursuit looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PurePursuitConfig {
    /// Least distance to look ahead, m.
    pub shortest: f64,
    /// s. Wheels take time to turn: with 0.9 s a truck far beside its path (3 m at 6 m/s) swings for ever, as its
    /// wheels are still turned one way when they should be turned the other. 1.5 s is enough for every
    /// preset from 10 m beside, also with a dead time 0.1 s longer.
    pub time: f64,
}

impl Default for PurePursuitConfig {
    fn default() -> Self {
        Self {
            shortest: 6.0,
            time: 1.5,
        }
    }
}

/// Pure pursuit of a point on the lane's centre.
#[derive(Debug, Clone, Copy)]
pub struct PurePursuit {
    config: PurePursuitConfig,
}

impl PurePursuit {
    /// A controller that looks as far ahead as told.
    pub fn new(config: PurePursuitConfig) -> Self {
        Self { config }
    }
}

macro_rules! curvature_algorithm {
    ($type:ident, $kernel:ident) => {
        impl Algorithm for $type {
            fn reset(&mut self, _lanes: &[LaneSetup]) {}
            fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
                f32::dispatch($kernel {
                    controller: *self,
                    state,
                    action,
                });
            }
            fn steer_interface(&self) -> Option<SteerInterface> {
                Some(SteerInterface::Curvature)
            }
            fn controls_speed(&self) -> bool {
                false
            }
        }

        struct $kernel<'a> {
            controller: $type,
            state: &'a StateBatch,
            action: &'a mut ActionBatch,
        }
    };
}

curvature_algorithm!(Lqr, LqrUpdate);
curvature_algorithm!(PurePursuit, PursuitUpdate);

impl Kernel for LqrUpdate<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let [offset_gain, heading_gain] = self.controller.gains;
        for first in (0..self.state.n_lanes()).step_by(L::N) {
            let offset = L::load(&self.state.lateral_offset, first);
            let heading = L::load(&self.state.heading_error, first);
            let road = L::load(&self.state.road_curvature, first);
            let correction = L::splat(offset_gain) * offset + L::splat(heading_gain) * heading;
            (road - correction).store(&mut self.action.steer, first);
        }
    }
}

impl Kernel for PursuitUpdate<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let PurePursuitConfig { shortest, time } = self.controller.config;
        for first in (0..self.state.n_lanes()).step_by(L::N) {
            let offset = L::load(&self.state.lateral_offset, first);
            let (sin, cos) = L::load(&self.state.heading_error, first).sin_cos();
            let road = L::load(&self.state.road_curvature, first);
            let v = L::load(&self.state.v_ego, first);
            let ahead = (v * L::splat(time)).maximum(L::splat(shortest));
            // The path point in road axes is (ahead, k ahead^2 / 2); the car is at (0, offset).
            let across = L::splat(0.5) * road * ahead * ahead - offset;
            let y = across * cos - ahead * sin;
            let distance_squared = ahead * ahead + across * across;
            (L::splat(2.0) * y / distance_squared).store(&mut self.action.steer, first);
        }
    }
}
