//! The scenario description and its validation.

use super::SensorNoise;
use crate::control::planner;
use crate::error::plausible;
use crate::integrate::Integrator;
use crate::random::Philox;
use crate::road::{Road, RoadDescription};
use crate::traffic::{Actor, Lateral, Longitudinal};
use crate::vehicle::{ActuatorParameters, VehicleModel, VehicleParameters, VehiclePreset};
use crate::{Profile, SimError};
use serde::{Deserialize, Serialize};

/// What happens in a scenario; the names are those of the algorithm harness's schema.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ScenarioKind {
    HighwayStraight,
    HighwayCurve,
    HighwayLaneChange,
    UrbanStraight,
    UrbanIntersection,
    LowSpeedManeuver,
    EmergencyStop,
    CutIn,
    CutOut,
    #[default]
    Custom,
}

/// How hard a scenario is meant to be.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Difficulty {
    Easy,
    #[default]
    Medium,
    Hard,
    Extreme,
}

/// The ego's vehicle and how it is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vehicle {
    /// Body type; gives what the fields below leave out.
    pub preset: VehiclePreset,
    /// Parameters other than the preset's.
    pub parameters: Option<VehicleParameters>,
    /// Actuators other than the preset's.
    pub actuators: Option<ActuatorParameters>,
    /// Equations of motion that the car follows.
    pub model: VehicleModel,
    /// Rule for a time step.
    pub integrator: Integrator,
}

impl Vehicle {
    /// The parameters in force.
    pub fn parameters(&self) -> VehicleParameters {
        self.parameters.unwrap_or_else(|| self.preset.parameters())
    }

    /// The actuators in force.
    pub fn actuators(&self) -> ActuatorParameters {
        self.actuators.unwrap_or_else(|| self.preset.actuators())
    }
}

/// Where the ego begins.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// Speed along the heading, m/s.
    pub speed: f64,
    /// Distance of the vehicle's reference point along the road, m.
    pub distance: f64,
    /// Offset from the centre of the lane, m, left positive.
    pub offset: f64,
    /// Heading relative to the road, rad.
    pub heading: f64,
}

/// What is asked of the ego.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// Speed to hold where nothing is in the way, m/s; the start speed when absent.
    pub cruise_speed: Option<Profile>,
    /// Offset from the lane's centre to hold, m.
    pub offset: Option<Profile>,
    /// Curvature to drive, 1/m, instead of following the road.
    pub curvature: Option<Profile>,
    /// Acceleration to drive, m/s^2, instead of holding speed and gap.
    pub acceleration: Option<Profile>,
    /// Hardest braking (negative) and acceleration that may be asked for, m/s^2; openpilot's -3.5 and 2 when absent.
    pub acceleration_limits: Option<[f64; 2]>,
}

/// Weather, road surface and sensors. Grade and bank belong to the road.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Environment {
    /// Road friction relative to dry asphalt; scales the tyres and limits acceleration.
    pub friction: f64,
    /// Wind from ahead, m/s; negative from behind.
    pub headwind: f64,
    /// Wind from the right, pushing left, positive, m/s. Its push grows with the car's speed, as the
    /// relative wind does ([`Environment::side_push`]). Kinematic models are not pushed aside.
    pub crosswind: f64,
    /// What is wrong with what planner and controllers are told.
    pub noise: SensorNoise,
}

/// Air density times area over two times the coefficient of side force per sine of the relative
/// wind's angle, kg/m: 1.2 kg/m^3 and 2.5 m^2.
pub(crate) const SIDE_FORCE: f64 = 0.5 * 1.2 * 2.5;

impl Environment {
    /// Acceleration, m/s^2, with which the wind pushes a car of a mass (kg) to the left at a speed
    /// (m/s): density/2 c A V w, with the relative wind V and its part w from the right.
    pub fn side_push(&self, mass: f64, speed: f64) -> f64 {
        let airspeed = (speed + self.headwind).hypot(self.crosswind);
        SIDE_FORCE / mass * airspeed * self.crosswind
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            friction: 1.0,
            headwind: 0.0,
            crosswind: 0.0,
            noise: SensorNoise::default(),
        }
    }
}

/// One closed-loop test case.
///
/// # Examples
///
/// ```
/// use spark_sim::Profile;
/// use spark_sim::scenario::Scenario;
///
/// let mut scenario = Scenario::straight("beside its path", 15.0, 10.0);
/// scenario.start.offset = 0.5; // m to the left
/// scenario.requests.cruise_speed = Some(Profile::new(vec![[0.0, 15.0], [10.0, 20.0]])?);
/// assert_eq!(scenario.n_steps(), 1000); // of 0.01 s
/// scenario.validate()?;
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique within a run: reports list scenarios by name, and a comparison counts scenarios of
    /// one name as one.
    pub name: String,
    /// What it is about, in words for people.
    #[serde(default)]
    pub description: String,
    /// Scenarios that resemble each other state the same family, such as the variants of one
    /// road: a comparison counts a family as one piece of evidence. Without one, a scenario is
    /// a family of its own, together with others of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// What happens in it: the kind of situation.
    #[serde(default)]
    pub kind: ScenarioKind,
    /// How hard it is meant to be.
    #[serde(default)]
    pub difficulty: Difficulty,
    /// How long it lasts, s.
    pub duration_s: f64,
    /// Length of a step, s; 0.01 when absent.
    #[serde(default = "default_dt")]
    pub dt_s: f64,
    /// Of noise and of drivers that dawdle.
    #[serde(default)]
    pub seed: u64,
    /// The car that is driven.
    #[serde(default)]
    pub vehicle: Vehicle,
    /// The road it drives on.
    #[serde(default)]
    pub road: RoadDescription,
    /// Where the ego begins.
    #[serde(default)]
    pub start: Start,
    /// What is asked of it.
    #[serde(default)]
    pub requests: Requests,
    /// The other road users.
    #[serde(default)]
    pub actors: Vec<Actor>,
    /// Weather, road surface and what sensors get wrong.
    #[serde(default)]
    pub environment: Environment,
}

fn default_dt() -> f64 {
    0.01
}

/// Most steps one scenario may take.
pub(crate) const MAX_STEPS: f64 = 1e7;
/// Most actors one scenario may have.
const MAX_ACTORS: usize = 256;

impl Scenario {
    /// A car on a straight road at a constant speed (m/s), to be changed into something interesting.
    pub fn straight(name: impl Into<String>, speed: f64, duration_s: f64) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            family: None,
            kind: ScenarioKind::Custom,
            difficulty: Difficulty::default(),
            duration_s,
            dt_s: default_dt(),
            seed: 0,
            vehicle: Vehicle::default(),
            road: RoadDescription::default(),
            start: Start {
                speed,
                ..Start::default()
            },
            requests: Requests::default(),
            actors: Vec::new(),
            environment: Environment::default(),
        }
    }

    /// Whether its seed changes anything: a sensor's error is drawn, or another driver dawdles. Without either
    /// every replicate is the same drive.
    pub fn is_random(&self) -> bool {
        let dawdles = |actor: &Actor| match &actor.longitudinal {
            Longitudinal::Krauss(driver) => driver.imperfection != 0.0,
            _ => false,
        };
        let noise = &self.environment.noise;
        noise.is_random(!self.actors.is_empty()) || self.actors.iter().any(dawdles)
    }

    /// The same scenario with the noise of a replicate: the scenario's own for replicate 0,
    /// another, drawn from its seed and the number, for each of the others. Where nothing is drawn
    /// ([`Scenario::is_random`]) that changes nothing.
    #[must_use]
    pub fn with_replicate_seed(&self, replicate: u64) -> Self {
        let mut scenario = self.clone();
        if replicate > 0 {
            let [a, b, ..] = Philox::new(self.seed, u64::MAX).at(replicate).block();
            scenario.seed = u64::from(a) << 32 | u64::from(b);
        }
        scenario
    }

    /// Number of steps that the duration takes.
    pub fn n_steps(&self) -> usize {
        (self.duration_s / self.dt_s).round() as usize
    }

    /// Distance that a car covers that does what is requested and that nothing is in the way of, m.
    ///
    /// The speed is the requested one; with a requested acceleration it is what that leads to
    /// from the start speed, within the limits of acceleration and not below a standstill.
    pub fn requested_distance_m(&self) -> f64 {
        let end = self.n_steps() as f64 * self.dt_s;
        let Some(acceleration) = &self.requests.acceleration else {
            let cruise = self.requests.cruise_speed.as_ref();
            return cruise.map_or(self.start.speed * end, |speed| speed.integral(end));
        };
        let [low, high] = self
            .requests
            .acceleration_limits
            .unwrap_or([planner::ACCEL_MIN, planner::ACCEL_MAX]);
        let (mut speed, mut distance) = (self.start.speed, 0.0);
        for step_idx in 0..self.n_steps() {
            let asked = acceleration.at(step_idx as f64 * self.dt_s);
            let next = (speed + asked.max(low).min(high) * self.dt_s).max(0.0);
            distance += 0.5 * (speed + next) * self.dt_s;
            speed = next;
        }
        distance
    }

    /// Refuses what cannot be simulated, and returns the road.
    ///
    /// # Errors
    ///
    /// The first problem found, naming the quantity and its value.
    pub fn validate(&self) -> Result<Road, SimError> {
        let range = |what: &'static str, got: f64, low: f64, high: f64, want: &'static str| {
            if (low..=high).contains(&got) {
                Ok(())
            } else {
                Err(SimError::OutOfRange { what, got, want })
            }
        };
        range(
            "time step (s)",
            self.dt_s,
            1e-5,
            1.0,
            "between 0.00001 and 1",
        )?;
        range(
            "duration (s)",
            self.duration_s,
            self.dt_s,
            1e6,
            "at least one step and at most 1e6",
        )?;
        range(
            "number of steps",
            self.duration_s / self.dt_s,
            0.5,
            MAX_STEPS,
            "at most ten million",
        )?;
        let vehicle = &self.vehicle;
        vehicle.parameters().validate()?;
        vehicle.actuators().validate()?;
        if vehicle.integrator == Integrator::ExactArc {
            // The exact step is for Cartesian axes; the closed loop runs along the road.
            return Err(SimError::NoExactStep {
                model: vehicle.model,
            });
        }
        if vehicle.model == VehicleModel::KinematicTrailer {
            return Err(SimError::OpenLoopOnly {
                model: vehicle.model,
            });
        }
        let longest = vehicle.model.longest_step_s();
        if self.dt_s > longest * 1.001 {
            return Err(SimError::StepTooLong {
                model: vehicle.model,
                dt_s: self.dt_s,
                longest_s: longest,
            });
        }
        let start = &self.start;
        plausible! {
            "start speed (m/s)": start.speed, 0.0, 100.0;
        }
        if start.speed > vehicle.parameters().speed_max {
            return Err(SimError::OutOfRange {
                what: "start speed (m/s)",
                got: start.speed,
                want: "at most the vehicle's top speed",
            });
        }
        range(
            "start distance (m)",
            start.distance,
            0.0,
            1e6,
            "between 0 and 1e6",
        )?;
        range(
            "start offset (m)",
            start.offset,
            -100.0,
            100.0,
            "between -100 and 100",
        )?;
        range(
            "start heading (rad)",
            start.heading,
            -1.5,
            1.5,
            "between -1.5 and 1.5",
        )?;
        let environment = &self.environment;
        range(
            "friction",
            environment.friction,
            0.01,
            2.0,
            "between 0.01 and 2",
        )?;
        range(
            "headwind (m/s)",
            environment.headwind,
            -60.0,
            60.0,
            "between -60 and 60",
        )?;
        range(
            "crosswind (m/s)",
            environment.crosswind,
            -60.0,
            60.0,
            "between -60 and 60",
        )?;
        environment.noise.validate()?;
        let requests = &self.requests;
        let plausible = [
            (
                "cruise speed (m/s)",
                &requests.cruise_speed,
                [0.0, 150.0],
                "between 0 and 150",
            ),
            (
                "offset to hold (m)",
                &requests.offset,
                [-100.0, 100.0],
                "between -100 and 100",
            ),
            (
                "curvature to drive (1/m)",
                &requests.curvature,
                [-1.0, 1.0],
                "between -1 and 1",
            ),
            (
                "acceleration to drive (m/s^2)",
                &requests.acceleration,
                [-20.0, 20.0],
                "between -20 and 20",
            ),
        ];
        for (what, profile, [low, high], want) in plausible {
            if let Some(profile) = profile {
                profile.validate(what)?;
                for &[_, value] in profile.points() {
                    range(what, value, low, high, want)?;
                }
            }
        }
        if let Some([low, high]) = self.requests.acceleration_limits {
            range(
                "lowest acceleration (m/s^2)",
                low,
                -12.0,
                -0.1,
                "between -12 and -0.1",
            )?;
            range(
                "highest acceleration (m/s^2)",
                high,
                0.1,
                12.0,
                "between 0.1 and 12",
            )?;
        }
        if self.actors.len() > MAX_ACTORS {
            return Err(SimError::OutOfRange {
                what: "number of actors",
                got: self.actors.len() as f64,
                want: "at most 256",
            });
        }
        for (actor_idx, actor) in self.actors.iter().enumerate() {
            validate_actor(actor).map_err(|reason| SimError::Actor { actor_idx, reason })?;
        }
        Road::new(&self.road)
    }
}

fn validate_actor(actor: &Actor) -> Result<(), &'static str> {
    let size = [actor.shape.length, actor.shape.width];
    if !size.iter().all(|x| x.is_finite() && *x > 0.0 && *x < 100.0) {
        return Err("length and width must be above 0 and below 100 m");
    }
    let place = [actor.distance, actor.offset, actor.speed];
    if !place.iter().all(|x| x.is_finite() && x.abs() <= 1e6) {
        return Err("distance, offset and speed must be finite");
    }
    if !(0.0..=150.0).contains(&actor.speed) {
        return Err("speed must be between 0 and 150 m/s");
    }
    let profile_is_bad = |profile: &Profile| profile.validate("actor").is_err();
    match &actor.longitudinal {
        Longitudinal::Hold => {}
        Longitudinal::Speed(profile) => {
            if profile_is_bad(profile) || profile.points().iter().any(|p| p[1] < 0.0) {
                return Err("speed over time must be ordered, finite and not negative");
            }
        }
        Longitudinal::Brake {
            deceleration,
            final_speed,
            ..
        } => {
            if !(*deceleration > 0.0 && *deceleration <= 20.0 && *final_speed >= 0.0) {
                return Err(
                    "deceleration must be above 0 and at most 20 m/s^2, final speed not negative",
                );
            }
        }
        Longitudinal::Idm(idm) => {
            let numbers = [idm.desired_speed, idm.acceleration, idm.deceleration];
            if !numbers.iter().all(|x| x.is_finite() && *x > 0.0) {
                return Err("desired speed, acceleration and deceleration of IDM must be above 0");
            }
        }
        Longitudinal::Krauss(krauss) => {
            let numbers = [
                krauss.desired_speed,
                krauss.acceleration,
                krauss.deceleration,
            ];
            if !numbers.iter().all(|x| x.is_finite() && *x > 0.0) {
                return Err(
                    "desired speed, acceleration and deceleration of Krauss must be above 0",
                );
            }
        }
        Longitudinal::Replay(points) => {
            let finite = points
                .iter()
                .all(|p| p.t.is_finite() && p.s.is_finite() && p.d.is_finite());
            if points.is_empty() || !finite || points.windows(2).any(|w| w[1].t <= w[0].t) {
                return Err("a replay needs finite points with increasing times");
            }
        }
    }
    match &actor.lateral {
        Lateral::Keep => Ok(()),
        Lateral::Offset(profile) if profile_is_bad(profile) => {
            Err("offset over time must be ordered and finite")
        }
        Lateral::Offset(_) => Ok(()),
        Lateral::Change { to, peak_speed, .. } => {
            if to.is_finite() && *peak_speed > 0.0 && *peak_speed < 20.0 {
                Ok(())
            } else {
                Err(
                    "a lane change needs a finite offset and a lateral speed above 0 and below 20 m/s",
                )
            }
        }
    }
}
