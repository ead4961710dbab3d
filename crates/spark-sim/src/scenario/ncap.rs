//! Euro NCAP car-to-car rear tests: standing, moving and braking targets.
//!
//! ```text
//! CCRs   target stands             overlap (2023) or impact location (2026) moves it
//! CCRm   target drives slower      sideways; the ego drives straight on
//! CCRb   target brakes
//! ```
//!
//! What a comparison counts is a kind of test at one speed of the ego: that is the family of a
//! scenario. Overlaps, headways and decelerations vary within it (9 families of the 45 standing
//! tests of 2023).
//!
//! Ranges and set-up: vectorgrp OSC-NCAP-scenarios ee7aa111 (MPL-2.0), numbers only.

use super::{Difficulty, Scenario, ScenarioKind};
use crate::traffic::{Actor, Lateral, Longitudinal, Shape, Trigger};
use crate::vehicle::VehiclePreset;

const KPH: f64 = 1.0 / 3.6;
/// Width of the test's ego, m.
pub const EGO_WIDTH: f64 = 1.815;
/// Width of the target, m.
pub const TARGET_WIDTH: f64 = 1.712;
const TARGET_LENGTH: f64 = 4.0;

/// Edition of the protocol, which decides speeds and offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 2023: overlap in per cent.
    V2023,
    /// 2026, standard range: impact location in per cent of the ego's width.
    V2026,
    /// 2026, extended range: impact locations beyond the edges of the ego.
    V2026Extended,
}

/// One test: speeds in km/h, offset in m, braking as (headway in m, deceleration m/s^2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CarToCarRear {
    /// Speed of the ego, km/h.
    pub ego_kph: f64,
    /// Target's speed at the start, km/h.
    pub target_kph: f64,
    /// Lateral offset of the target, m.
    pub offset: f64,
    /// Free space at the start (m) and deceleration (m/s^2) of a braking target.
    pub braking: Option<[f64; 2]>,
}

/// Offset of the target, m, for an overlap in per cent of the ego's width (2023).
pub fn offset_for_overlap(overlap: f64) -> f64 {
    let size = overlap.abs();
    let sign = if overlap < 0.0 { -1.0 } else { 1.0 };
    sign * (100.0 - size).min(1.0) * (0.5 * TARGET_WIDTH - EGO_WIDTH * (size - 50.0) / 100.0)
}

/// Offset of the target, m, for an impact location in per cent of the ego's width (2026).
pub fn offset_for_location(location: f64) -> f64 {
    location / 100.0 * EGO_WIDTH - 0.5 * EGO_WIDTH
}

fn range(low: i32, high: i32, step: i32) -> impl Iterator<Item = f64> + Clone {
    (low..=high).step_by(step as usize).map(f64::from)
}

fn product(speeds: impl IntoIterator<Item = (f64, f64)>, offsets: &[f64]) -> Vec<CarToCarRear> {
    let mut all = Vec::new();
    for (ego_kph, target_kph) in speeds {
        for &offset in offsets {
            all.push(CarToCarRear {
                ego_kph,
                target_kph,
                offset,
                braking: None,
            });
        }
    }
    all
}

/// Target's speed in the 2026 CCRm for each ego speed from 30 to 130 km/h.
fn moving_2026() -> impl Iterator<Item = (f64, f64)> {
    range(30, 130, 10).map(|ego| (ego, (ego - 60.0).max(20.0)))
}

fn offsets(protocol: Protocol) -> Vec<f64> {
    match protocol {
        Protocol::V2023 => [-50.0, -75.0, 100.0, 75.0, 50.0]
            .map(offset_for_overlap)
            .to_vec(),
        Protocol::V2026 => [100.0, 75.0, 50.0, 25.0, 0.0]
            .map(offset_for_location)
            .to_vec(),
        Protocol::V2026Extended => [125.0, -25.0].map(offset_for_location).to_vec(),
    }
}

/// Tests with a target that stands still (CCRs).
pub fn standing(protocol: Protocol) -> Vec<CarToCarRear> {
    let step = if protocol == Protocol::V2023 { 5 } else { 10 };
    product(range(10, 50, step).map(|v| (v, 0.0)), &offsets(protocol))
}

/// Standing targets, warning tests (CCRs FCW).
pub fn standing_warning(protocol: Protocol) -> Vec<CarToCarRear> {
    let (low, step) = if protocol == Protocol::V2023 {
        (55, 5)
    } else {
        (60, 10)
    };
    product(range(low, 80, step).map(|v| (v, 0.0)), &offsets(protocol))
}

/// Targets at constant speed (CCRm).
pub fn moving(protocol: Protocol) -> Vec<CarToCarRear> {
    match protocol {
        Protocol::V2023 => product(range(30, 80, 5).map(|v| (v, 20.0)), &offsets(protocol)),
        _ => product(moving_2026(), &offsets(protocol)),
    }
}

/// Tests with a target that brakes (CCRb).
pub fn braking(protocol: Protocol) -> Vec<CarToCarRear> {
    let with = |mut test: CarToCarRear, headway: f64, deceleration: f64| {
        test.braking = Some([headway, deceleration]);
        test
    };
    let mut all = Vec::new();
    match protocol {
        Protocol::V2023 => {
            for headway in [12.0, 40.0] {
                for deceleration in [2.0, 6.0] {
                    let test = product([(50.0, 50.0)], &[offset_for_overlap(100.0)])[0];
                    all.push(with(test, headway, deceleration));
                }
            }
        }
        Protocol::V2026 => {
            for test in product(range(30, 80, 10).map(|v| (v, v)), &offsets(protocol)) {
                all.push(with(test, test.ego_kph * KPH, 4.0));
            }
        }
        Protocol::V2026Extended => {
            let outside = offsets(protocol);
            let mut everywhere = offsets(Protocol::V2026);
            everywhere.extend(&outside);
            let slow = product(range(30, 80, 10).map(|v| (v, v)), &outside);
            let fast = product(range(90, 130, 10).map(|v| (v, v)), &everywhere);
            for test in slow.into_iter().chain(fast) {
                all.push(with(test, test.ego_kph * KPH, 4.0));
            }
        }
    }
    all
}

impl CarToCarRear {
    /// The scenario: a sedan of the test's width, 5 s away from the target.
    pub fn scenario(&self) -> Scenario {
        let kind = match (self.braking, self.target_kph > 0.0) {
            (Some(_), _) => "ccrb",
            (None, true) => "ccrm",
            (None, false) => "ccrs",
        };
        let (ego, target) = (self.ego_kph * KPH, self.target_kph * KPH);
        let mut scenario = Scenario {
            kind: ScenarioKind::EmergencyStop,
            difficulty: Difficulty::Hard,
            family: Some(format!("ncap_{kind} {}kph", self.ego_kph)),
            ..Scenario::straight(
                format!(
                    "ncap_{kind} {}kph target {}kph offset {:.3}{}",
                    self.ego_kph,
                    self.target_kph,
                    self.offset,
                    self.braking
                        .map_or_else(String::new, |[h, d]| format!(" headway {h:.1} decel {d}"))
                ),
                ego,
                20.0,
            )
        };
        let mut vehicle = VehiclePreset::Sedan.parameters();
        vehicle.width = EGO_WIDTH;
        scenario.vehicle.parameters = Some(vehicle);
        let shape = Shape::new(TARGET_LENGTH, TARGET_WIDTH);
        let (distance, longitudinal) = match self.braking {
            None => (5.0 * ego, Longitudinal::Hold),
            Some([headway, deceleration]) => (
                headway + 0.5 * (shape.length + vehicle.length + vehicle.wheelbase()),
                Longitudinal::Brake {
                    trigger: Trigger::At(3.0),
                    deceleration,
                    final_speed: 2.0 * KPH,
                },
            ),
        };
        scenario.actors.push(Actor {
            shape,
            distance,
            offset: self.offset,
            speed: target,
            longitudinal,
            lateral: Lateral::Keep,
        });
        scenario
    }
}
