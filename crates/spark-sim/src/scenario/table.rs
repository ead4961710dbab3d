//! The algorithm harness's recordings: 28 columns, one row per step.
//!
//! ```text
//! timestamp_ns frame_id | v_ego a_ego yaw_rate steering_angle_deg ... | active ...
//! | desired_curvature a_target v_target ... | lead_present lead_d_rel ... | gt_steer_cmd ...
//! ```
//!
//! Required are timestamp_ns, v_ego, a_ego and active; the others have defaults. Schema
//! 1.0.0 of montge/openpilot 0450b81a. A recording can be replayed *open loop*, where the
//! controller's answers change nothing ([`replay_open_loop`]), or turned into a closed-loop
//! scenario on the road that its curvature describes ([`DriveTable::to_scenario`]).

pub use super::table_fault::{ColumnKind, TableFault};

use super::{Difficulty, Scenario, ScenarioKind, road_from_curvature};
use crate::control::{Action, ActionBatch, Algorithm, LaneSetup, State, StateBatch};
use crate::run::Trace;
use crate::traffic::{Actor, Lateral, Longitudinal, ReplayPoint, Shape};
use crate::vehicle::{VehicleModel, VehiclePreset};
use crate::{Profile, SimError};
use serde::{Deserialize, Serialize};

/// Version of the schema written.
pub const SCHEMA_VERSION: &str = "1.0.0";

/// One column of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// As in the file.
    pub name: &'static str,
    /// Type of its values.
    pub kind: ColumnKind,
    /// Whether a file must have it.
    pub required: bool,
    /// Value where it is missing; NaN where missing means unknown.
    pub default: f64,
    /// Reads it from a row as a number; flags are 0 or 1, unknown is NaN.
    pub get: fn(&DriveRow) -> f64,
    /// Writes it to a row.
    pub set: fn(&mut DriveRow, f64),
}

macro_rules! drive_rows {
    ($( $(#[$doc:meta])* $name:ident: $type:ident, $kind:ident, $required:literal, $default:expr; )*) => {
        /// One step of a recording.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct DriveRow { $( $(#[$doc])* pub $name: $type, )* }

        impl Default for DriveRow {
            fn default() -> Self {
                Self { $( $name: <$type as Cell>::from_number($default), )* }
            }
        }

        /// The columns in the order of the schema.
        pub const COLUMNS: [Column; 28] = [$( Column {
            name: stringify!($name),
            kind: ColumnKind::$kind,
            required: $required,
            default: $default,
            get: |row| row.$name.to_number(),
            set: |row, value| row.$name = <$type as Cell>::from_number(value),
        } ),*];
    };
}

/// A value of a column, as a number.
trait Cell {
    fn to_number(self) -> f64;
    fn from_number(value: f64) -> Self;
}
impl Cell for f64 {
    fn to_number(self) -> f64 {
        self
    }
    fn from_number(value: f64) -> Self {
        value
    }
}
impl Cell for i64 {
    // Exact below 2^53 ns = 104 days; times since 1970 are rounded to 256 ns.
    fn to_number(self) -> f64 {
        self as f64
    }
    fn from_number(value: f64) -> Self {
        value as i64
    }
}
impl Cell for bool {
    fn to_number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn from_number(value: f64) -> Self {
        value != 0.0
    }
}

drive_rows! {
    /// Time of the row, ns; increases from row to row.
    timestamp_ns: i64, Integer, true, 0.0;
    /// Number of the frame.
    frame_id: i64, Integer, false, 0.0;
    /// Speed of the car, m/s.
    v_ego: f64, Number, true, 0.0;
    /// Longitudinal acceleration of the car, m/s^2.
    a_ego: f64, Number, true, 0.0;
    /// Yaw rate of the car, rad/s.
    yaw_rate: f64, Number, false, 0.0;
    /// Degrees at the steering wheel.
    steering_angle_deg: f64, Number, false, 0.0;
    /// Rate of the steering wheel, degrees/s.
    steering_rate_deg: f64, Number, false, 0.0;
    /// Bank of the road, rad.
    roll: f64, Number, false, 0.0;
    /// Whether the system is engaged.
    active: bool, Flag, true, 0.0;
    /// Whether the driver steers.
    steering_pressed: bool, Flag, false, 0.0;
    /// Whether the driver brakes.
    brake_pressed: bool, Flag, false, 0.0;
    /// Whether the driver accelerates.
    gas_pressed: bool, Flag, false, 0.0;
    /// Curvature that is to be driven, 1/m.
    desired_curvature: f64, Number, false, 0.0;
    /// Change of that curvature over time, 1/(m s).
    curvature_rate: f64, Number, false, 0.0;
    /// Whether steering was limited outside the controller.
    steer_limited_by_safety: bool, Flag, false, 0.0;
    /// Whether the desired curvature was limited.
    curvature_limited: bool, Flag, false, 0.0;
    /// Acceleration that the planner wants, m/s^2.
    a_target: f64, Number, false, 0.0;
    /// Speed that the planner wants, m/s.
    v_target: f64, Number, false, 0.0;
    /// Whether the car is to come to or stay at a stop.
    should_stop: bool, Flag, false, 0.0;
    /// Whether the car holds itself.
    cruise_standstill: bool, Flag, false, 0.0;
    /// Whether there is a car ahead.
    lead_present: bool, Flag, false, 0.0;
    /// Distance to the car ahead, m.
    lead_d_rel: f64, Number, false, 100.0;
    /// Speed of the car ahead minus one's own, m/s.
    lead_v_rel: f64, Number, false, 0.0;
    /// Acceleration of the car ahead, m/s^2.
    lead_a_rel: f64, Number, false, 0.0;
    /// Recorded steering command; NaN if unknown.
    gt_steer_cmd: f64, Number, false, f64::NAN;
    /// Recorded acceleration command, m/s^2; NaN if unknown.
    gt_accel_cmd: f64, Number, false, f64::NAN;
    /// Recorded position, m; NaN if unknown.
    gt_trajectory_x: f64, Number, false, f64::NAN;
    /// Recorded position, m; NaN if unknown.
    gt_trajectory_y: f64, Number, false, f64::NAN;
}

/// What is known about a recording besides its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveMetadata {
    /// Name of the recording, which its scenario takes over.
    pub name: String,
    /// What it is about, in words for people.
    #[serde(default)]
    pub description: String,
    /// What happens in it: the kind of situation.
    #[serde(default)]
    pub scenario_type: ScenarioKind,
    /// How hard it is meant to be.
    #[serde(default)]
    pub difficulty: Difficulty,
    /// How long it lasts, s.
    #[serde(default)]
    pub duration_s: f64,
    /// Time between two rows, s.
    #[serde(default)]
    pub dt_s: f64,
    /// Number of rows, as the recorder says.
    #[serde(default)]
    pub num_steps: usize,
    /// Version of the schema that the columns follow.
    #[serde(default = "schema_version")]
    pub schema_version: String,
    /// Where it comes from.
    #[serde(default)]
    pub source: Option<String>,
    /// Identifier of the recorded route, if it was recorded on a road.
    #[serde(default)]
    pub route_id: Option<String>,
    /// Start of the segment within its route, s.
    #[serde(default)]
    pub segment_start_s: Option<f64>,
    /// End of the segment within its route, s.
    #[serde(default)]
    pub segment_end_s: Option<f64>,
    /// Weather, in words for people.
    #[serde(default)]
    pub weather: Option<String>,
    /// Time of day, in words for people.
    #[serde(default)]
    pub time_of_day: Option<String>,
    /// Type of road, in words for people.
    #[serde(default)]
    pub road_type: Option<String>,
}

fn schema_version() -> String {
    SCHEMA_VERSION.to_owned()
}

impl DriveMetadata {
    /// Metadata with a name only.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            scenario_type: ScenarioKind::Custom,
            difficulty: Difficulty::Medium,
            duration_s: 0.0,
            dt_s: 0.0,
            num_steps: 0,
            schema_version: schema_version(),
            source: None,
            route_id: None,
            segment_start_s: None,
            segment_end_s: None,
            weather: None,
            time_of_day: None,
            road_type: None,
        }
    }
}

/// A recorded drive as a table: one row per time step.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveTable {
    /// What is known about it besides the rows.
    pub metadata: DriveMetadata,
    /// In the order of time.
    pub rows: Vec<DriveRow>,
}

impl DriveTable {
    /// Checks rows against the schema: at least one, times increasing, speeds in 0 to 100 m/s,
    /// nothing NaN but unknown ground truth, which must be unknown in all rows.
    ///
    /// # Errors
    ///
    /// The first fault, with its column and row (from 0).
    pub fn validate(&self) -> Result<(), (TableFault, &'static str, Option<usize>)> {
        if self.rows.is_empty() {
            return Err((TableFault::Empty, "timestamp_ns", None));
        }
        for (row_idx, row) in self.rows.iter().enumerate() {
            let at = Some(row_idx);
            if row_idx > 0 {
                let (got, last) = (row.timestamp_ns, self.rows[row_idx - 1].timestamp_ns);
                if got <= last {
                    return Err((
                        TableFault::TimeNotIncreasing { got, last },
                        "timestamp_ns",
                        at,
                    ));
                }
            }
            for column in &COLUMNS {
                let got = (column.get)(row);
                if !got.is_finite() && !column.default.is_nan() {
                    return Err((TableFault::NotFinite { got }, column.name, at));
                }
            }
            if !(0.0..=100.0).contains(&row.v_ego) {
                let fault = TableFault::OutOfRange {
                    got: row.v_ego,
                    want: "between 0 and 100 m/s",
                };
                return Err((fault, "v_ego", at));
            }
        }
        let n_rows = self.rows.len();
        for column in COLUMNS.iter().filter(|column| column.default.is_nan()) {
            let known = self
                .rows
                .iter()
                .filter(|row| (column.get)(row).is_finite())
                .count();
            if known != 0 && known != n_rows {
                return Err((TableFault::Incomplete { known, n_rows }, column.name, None));
            }
        }
        Ok(())
    }

    /// Time of a row since the first one, s.
    pub fn time(&self, row_idx: usize) -> f64 {
        seconds_between(self.rows[0].timestamp_ns, self.rows[row_idx].timestamp_ns)
    }

    /// The recording of a simulated drive. The lead is the one the controller saw.
    pub fn from_trace(scenario: &Scenario, trace: &Trace) -> Self {
        let mut metadata = DriveMetadata {
            description: scenario.description.clone(),
            scenario_type: scenario.kind,
            difficulty: scenario.difficulty,
            num_steps: trace.rows.len(),
            source: Some("simulation".to_owned()),
            ..DriveMetadata::named(&scenario.name)
        };
        let ratio = scenario.vehicle.parameters().steer_ratio;
        let rows: Vec<DriveRow> = trace
            .rows
            .iter()
            .enumerate()
            .map(|(i, row)| DriveRow {
                timestamp_ns: (row.time * 1e9).round() as i64,
                frame_id: i as i64,
                v_ego: row.speed,
                a_ego: row.acceleration,
                yaw_rate: row.curvature * row.speed,
                steering_angle_deg: (row.steer * ratio).to_degrees(),
                active: true,
                desired_curvature: row.desired_curvature,
                a_target: row.accel_command,
                v_target: row.v_target,
                lead_present: row.gap.is_some(),
                lead_d_rel: row.gap.unwrap_or(100.0),
                gt_steer_cmd: row.steer_command,
                gt_accel_cmd: row.accel_command,
                ..DriveRow::default()
            })
            .collect();
        if let [first, second, ..] = rows.as_slice() {
            metadata.dt_s = seconds_between(first.timestamp_ns, second.timestamp_ns);
            metadata.duration_s = metadata.dt_s * rows.len() as f64;
        }
        Self { metadata, rows }
    }

    /// A closed loop from a recording: the road that its desired curvature describes at its
    /// speeds, its target speed (or speed) to hold, and its lead as a replayed car.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] for fewer than two rows or a mean step outside 0.1 ms to 1 s.
    pub fn to_scenario(&self) -> Result<Scenario, SimError> {
        let n = self.rows.len();
        let duration = if n < 2 { 0.0 } else { self.time(n - 1) };
        let dt = duration / (n.max(2) - 1) as f64;
        if !(1e-4..=1.0).contains(&dt) {
            return Err(SimError::OutOfRange {
                what: "mean step of a recording (s)",
                got: dt,
                want: "between 0.0001 and 1, from two rows or more",
            });
        }
        let column = |get: fn(&DriveRow) -> f64| {
            let points = (0..n).map(|i| [self.time(i), get(&self.rows[i])]).collect();
            Profile::new(points)
        };
        let speed = column(|row| row.v_ego)?;
        let curvature = column(|row| row.desired_curvature)?;
        let has_target = self.rows.iter().any(|row| row.v_target != 0.0);
        let wanted = if has_target {
            column(|row| row.v_target)?
        } else {
            speed.clone()
        };
        let mut scenario = Scenario {
            description: self.metadata.description.clone(),
            kind: self.metadata.scenario_type,
            difficulty: self.metadata.difficulty,
            road: road_from_curvature(duration, dt, |t| curvature.at(t), |t| speed.at(t)),
            ..Scenario::straight(&self.metadata.name, self.rows[0].v_ego, duration)
        };
        scenario.dt_s = dt.min(0.01);
        scenario.requests.cruise_speed = Some(wanted);
        scenario.actors.extend(self.lead(&scenario));
        Ok(scenario)
    }

    /// The recorded lead as an actor, if there ever was one.
    fn lead(&self, scenario: &Scenario) -> Option<Actor> {
        let vehicle = scenario.vehicle.parameters();
        let to_front = 0.5 * (vehicle.wheelbase() + vehicle.length);
        let (mut travelled, mut last_t) = (0.0, 0.0);
        let mut points = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let t = self.time(i);
            travelled += row.v_ego * (t - last_t);
            last_t = t;
            if row.lead_present {
                points.push(ReplayPoint {
                    t,
                    s: travelled + to_front + row.lead_d_rel + 0.5 * Shape::CAR.length,
                    d: 0.0,
                });
            }
        }
        let first = *points.first()?;
        Some(Actor {
            shape: Shape::CAR,
            distance: first.s,
            offset: 0.0,
            speed: self.rows[0].v_ego,
            longitudinal: Longitudinal::Replay(points),
            lateral: Lateral::Keep,
        })
    }
}

/// What a controller answers to a recording, step by step. Open loop: the recorded states
/// come whatever it answers.
pub fn replay_open_loop(table: &DriveTable, algorithm: &mut dyn Algorithm) -> Vec<Action<f32>> {
    let n = table.rows.len();
    let dt = if n < 2 {
        0.01
    } else {
        table.time(n - 1) / (n - 1) as f64
    };
    algorithm.reset(&[LaneSetup {
        vehicle: VehiclePreset::Sedan.parameters(),
        actuators: VehiclePreset::Sedan.actuators(),
        model: VehicleModel::Kinematic,
        dt_s: dt,
    }]);
    let mut states = StateBatch::filled(1, State::at_rest());
    let mut actions = ActionBatch::filled(1, Action::default());
    let mut answers = Vec::with_capacity(n);
    for (i, row) in table.rows.iter().enumerate() {
        let flag = |on: bool| if on { 1.0 } else { 0.0 };
        states.set(
            0,
            State {
                time: table.time(i) as f32,
                dt: dt as f32,
                v_ego: row.v_ego as f32,
                a_ego: row.a_ego as f32,
                yaw_rate: row.yaw_rate as f32,
                steering_angle_deg: row.steering_angle_deg as f32,
                steering_rate_deg: row.steering_rate_deg as f32,
                roll: row.roll as f32,
                desired_curvature: row.desired_curvature as f32,
                curvature_limited: flag(row.curvature_limited),
                v_target: row.v_target as f32,
                a_target: row.a_target as f32,
                should_stop: flag(row.should_stop),
                lead_present: flag(row.lead_present),
                lead_d_rel: row.lead_d_rel as f32,
                lead_v_rel: row.lead_v_rel as f32,
                lead_a_rel: row.lead_a_rel as f32,
                active: flag(row.active),
                steering_pressed: flag(row.steering_pressed),
                brake_pressed: flag(row.brake_pressed),
                gas_pressed: flag(row.gas_pressed),
                steer_limited_by_safety: flag(row.steer_limited_by_safety),
                cruise_standstill: flag(row.cruise_standstill),
                ..State::at_rest()
            },
        );
        algorithm.update(&states, &mut actions);
        answers.push(actions.get(0));
    }
    answers
}

/// From one time stamp to a later one. Any two of 64 bits are taken: files hold what somebody wrote.
fn seconds_between(first_ns: i64, second_ns: i64) -> f64 {
    match second_ns.checked_sub(first_ns) {
        Some(between) => between as f64 * 1e-9,
        None => (second_ns as f64 - first_ns as f64) * 1e-9,
    }
}
