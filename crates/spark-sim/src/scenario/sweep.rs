//! Products of parameter values: one scenario per combination.

use super::{Scenario, SensorNoise};
use crate::SimError;
use crate::traffic::{Actor, Longitudinal};
use crate::vehicle::VehiclePreset;
use serde::{Deserialize, Serialize};

/// Something about a scenario that can be set to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Parameter {
    /// Start and cruise speed, m/s.
    Speed,
    /// Offset from the lane's centre at the start, m.
    StartOffset,
    /// Start heading relative to the road, rad.
    StartHeading,
    /// Factor on the road's curvature.
    CurvatureScale,
    /// rad, on every segment.
    Grade,
    /// rad, on every segment.
    Bank,
    /// Relative to dry asphalt.
    Friction,
    /// Wind from ahead, m/s.
    Headwind,
    /// Wind from the right, m/s.
    Crosswind,
    /// Factor on the vehicle's mass and yaw inertia.
    MassScale,
    /// Factor on the vehicle's cornering stiffness.
    StiffnessScale,
    /// Dead time of steering, s.
    SteerDelay,
    /// Dead time of acceleration, s.
    AccelerationDelay,
    /// Shift of every actor along the road, m.
    ActorDistance,
    /// Factor on every actor's start speed.
    ActorSpeedScale,
    /// Standard deviation of white noise of the offset that planner and controller are told, m.
    OffsetNoise,
    /// Standard deviation of white noise of the speed that planner and controller are told, m/s.
    SpeedNoise,
    /// Noise of all sensors: 0 is none, 1 typical; see [`SensorNoise::level`].
    NoiseLevel,
    /// Index of the vehicle preset, in the order of `VehiclePreset::ALL`.
    Preset,
}

impl Parameter {
    /// All of them, in the order above.
    pub const ALL: [Self; 19] = [
        Self::Speed,
        Self::StartOffset,
        Self::StartHeading,
        Self::CurvatureScale,
        Self::Grade,
        Self::Bank,
        Self::Friction,
        Self::Headwind,
        Self::Crosswind,
        Self::MassScale,
        Self::StiffnessScale,
        Self::SteerDelay,
        Self::AccelerationDelay,
        Self::ActorDistance,
        Self::ActorSpeedScale,
        Self::OffsetNoise,
        Self::SpeedNoise,
        Self::NoiseLevel,
        Self::Preset,
    ];

    /// Refuses a value that no scenario could be given; what makes a scenario invalid is found when it is run.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] for the index of a vehicle that there is not.
    pub fn check(self, value: f64) -> Result<(), SimError> {
        let last = VehiclePreset::ALL.len() - 1;
        let is_index = (0.0..=last as f64).contains(&value) && value.fract() == 0.0;
        match self {
            Self::Preset if !is_index => Err(SimError::OutOfRange {
                what: "index of a vehicle preset",
                got: value,
                want: PRESETS,
            }),
            _ => Ok(()),
        }
    }

    /// What files call it, such as `start_offset`.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        let name = name.as_ref().and_then(serde_json::Value::as_str);
        name.unwrap_or_default().to_owned()
    }

    /// Refuses a parameter that changes nothing about `scenario`, whatever its value.
    ///
    /// # Errors
    ///
    /// [`SimError::NothingToVary`] with what the scenario lacks.
    pub fn check_in(self, scenario: &Scenario) -> Result<(), SimError> {
        let lacks = match self.lacking_in(scenario) {
            None => return Ok(()),
            Some(lacks) => lacks,
        };
        let parameter = self.name();
        Err(SimError::NothingToVary { parameter, lacks })
    }

    fn lacking_in(self, scenario: &Scenario) -> Option<&'static str> {
        let (actors, segments) = (&scenario.actors, &scenario.road.segments);
        // Where a recording says where an actor is, its start says nothing.
        let is_replayed = |it: &Actor| matches!(it.longitudinal, Longitudinal::Replay(_));
        let stays = |it: &Actor| is_replayed(it) || it.speed == 0.0;
        let (is_empty, lacks) = match self {
            Self::ActorDistance => (
                actors.iter().all(is_replayed),
                "no other road user that starts where the scenario says",
            ),
            Self::ActorSpeedScale => (
                actors.iter().all(stays),
                "no other road user that starts with a speed",
            ),
            Self::Grade | Self::Bank => (
                segments.is_empty(),
                "no segment of road, which alone has grade and bank",
            ),
            Self::CurvatureScale => (
                segments
                    .iter()
                    .all(|it| it.curvature_start == 0.0 && it.curvature_end == 0.0),
                "no bend in the road",
            ),
            Self::Preset => (
                scenario.vehicle.parameters.is_some() && scenario.vehicle.actuators.is_some(),
                "nothing that a preset gives, as the vehicle's parameters and actuators are stated",
            ),
            _ => (false, ""),
        };
        is_empty.then_some(lacks)
    }

    /// The bounds of values that there are: whole numbers of an index.
    pub(super) fn within(self, [low, high]: [f64; 2]) -> [f64; 2] {
        match self {
            Self::Preset => [low.ceil(), high.floor()],
            _ => [low, high],
        }
    }

    /// The value that [`Parameter::apply`] gives: whole for an index, ties away from zero, any for the others.
    pub fn nearest(self, value: f64) -> f64 {
        match self {
            Self::Preset => value.round(),
            _ => value,
        }
    }

    /// Gives `scenario` all these values, whatever their order: a preset before what changes the vehicle, the level of noise before
    /// single noises, each of which it would undo.
    pub fn apply_all(scenario: &mut Scenario, values: &[(Self, f64)]) {
        let mut values = values.to_vec();
        values.sort_by_key(|(parameter, _)| !matches!(parameter, Self::Preset | Self::NoiseLevel));
        for (parameter, value) in values {
            parameter.apply(scenario, value);
        }
    }

    /// Gives `scenario` this value of the parameter, in its unit; [`Parameter::check`] has let it pass.
    pub fn apply(self, scenario: &mut Scenario, value: f64) {
        match self {
            Self::Speed => {
                scenario.start.speed = value;
                scenario.requests.cruise_speed = None;
            }
            Self::StartOffset => scenario.start.offset = value,
            Self::StartHeading => scenario.start.heading = value,
            Self::CurvatureScale => {
                for segment in &mut scenario.road.segments {
                    segment.curvature_start *= value;
                    segment.curvature_end *= value;
                }
            }
            Self::Grade => scenario
                .road
                .segments
                .iter_mut()
                .for_each(|s| s.grade = value),
            Self::Bank => scenario
                .road
                .segments
                .iter_mut()
                .for_each(|s| s.bank = value),
            Self::Friction => scenario.environment.friction = value,
            Self::Headwind => scenario.environment.headwind = value,
            Self::Crosswind => scenario.environment.crosswind = value,
            Self::MassScale => {
                let mut vehicle = scenario.vehicle.parameters();
                vehicle.mass *= value;
                vehicle.yaw_inertia *= value;
                scenario.vehicle.parameters = Some(vehicle);
            }
            Self::StiffnessScale => {
                let mut vehicle = scenario.vehicle.parameters();
                vehicle.cornering_front *= value;
                vehicle.cornering_rear *= value;
                scenario.vehicle.parameters = Some(vehicle);
            }
            Self::SteerDelay => {
                let mut actuators = scenario.vehicle.actuators();
                actuators.steer_delay_s = value;
                scenario.vehicle.actuators = Some(actuators);
            }
            Self::AccelerationDelay => {
                let mut actuators = scenario.vehicle.actuators();
                actuators.acceleration_delay_s = value;
                scenario.vehicle.actuators = Some(actuators);
            }
            Self::ActorDistance => scenario.actors.iter_mut().for_each(|a| a.distance += value),
            Self::ActorSpeedScale => scenario.actors.iter_mut().for_each(|a| a.speed *= value),
            Self::OffsetNoise => scenario.environment.noise.offset.white_sd = value,
            Self::SpeedNoise => scenario.environment.noise.speed.white_sd = value,
            Self::NoiseLevel => scenario.environment.noise = SensorNoise::level(value),
            Self::Preset => {
                let last = VehiclePreset::ALL.len() - 1;
                let index = self.nearest(value).clamp(0.0, last as f64) as usize;
                scenario.vehicle.preset = VehiclePreset::ALL[index];
            }
        }
    }
}

/// Indices of vehicles.
const PRESETS: &str = "a whole number, 0 to 5";

/// A parameter and the values it takes in a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The parameter that varies.
    pub parameter: Parameter,
    /// The values, in order.
    pub values: Vec<f64>,
}

/// A base scenario and the axes along which it varies.
///
/// # Examples
///
/// ```
/// use spark_sim::scenario::{Axis, Parameter, Scenario, Sweep};
///
/// let sweep = Sweep {
///     base: Scenario::straight("straight", 20.0, 5.0),
///     axes: vec![
///         Axis { parameter: Parameter::Speed, values: vec![10.0, 20.0, 30.0] },
///         Axis { parameter: Parameter::Friction, values: vec![1.0, 0.4] },
///     ],
/// };
/// assert_eq!(sweep.n_scenarios()?, 6);
/// assert_eq!(sweep.scenario(1).environment.friction, 0.4); // the last axis varies fastest
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The scenario whose other parameters stay as they are.
    pub base: Scenario,
    /// What varies; the last axis varies fastest.
    pub axes: Vec<Axis>,
}

impl Sweep {
    /// Number of combinations.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] above a thousand million, and for a value of [`Parameter::Preset`] that is no index of one;
    /// [`SimError::NothingToVary`] for an axis that changes nothing about the base; [`SimError::VariedTwice`] for two of one parameter.
    pub fn n_scenarios(&self) -> Result<usize, SimError> {
        for axis in &self.axes {
            let parameter = axis.parameter;
            parameter.check_in(&self.base)?;
            let mut values = axis.values.iter();
            values.try_for_each(|value| parameter.check(*value))?;
        }
        let mut axes = self.axes.iter().enumerate();
        if let Some((_, twice)) = axes.find(|(at, axis)| {
            let mut before = self.axes[..*at].iter();
            before.any(|other| other.parameter == axis.parameter)
        }) {
            let parameter = format!("{:?}", twice.parameter);
            return Err(SimError::VariedTwice { parameter });
        }
        let product = self
            .axes
            .iter()
            .try_fold(1_usize, |n, axis| n.checked_mul(axis.values.len()));
        product
            .filter(|&n| n <= 1_000_000_000)
            .ok_or(SimError::OutOfRange {
                what: "combinations of a sweep",
                got: f64::INFINITY,
                want: "at most 1e9",
            })
    }

    /// One combination; its name lists the values. Each gets its own seed. They are one family,
    /// named as the base if the base states none.
    pub fn scenario(&self, index: usize) -> Scenario {
        let mut scenario = self.base.clone();
        let family = || self.base.name.clone();
        scenario.family.get_or_insert_with(family);
        scenario.seed = self.base.seed.wrapping_add(index as u64);
        let mut rest = index;
        let mut chosen = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            let n = axis.values.len().max(1);
            chosen.push((axis.parameter, axis.values.get(rest % n).copied()));
            rest /= n;
        }
        let chosen = chosen.into_iter().rev();
        let chosen: Vec<(Parameter, f64)> = chosen
            .filter_map(|(parameter, value)| Some((parameter, value?)))
            .collect();
        Parameter::apply_all(&mut scenario, &chosen);
        for (parameter, value) in chosen {
            scenario.name.push_str(&format!(" {parameter:?}={value}"));
        }
        scenario
    }

    /// Every combination, made as it is asked for.
    ///
    /// # Errors
    ///
    /// As [`Sweep::n_scenarios`].
    pub fn iter(&self) -> Result<impl Iterator<Item = Scenario> + '_, SimError> {
        Ok((0..self.n_scenarios()?).map(|index| self.scenario(index)))
    }
}
