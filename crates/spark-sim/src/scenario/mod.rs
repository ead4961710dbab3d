//! What a scenario is: a road, an ego, other road users, disturbances, and what is asked of the ego.
//!
//! ```text
//! Scenario = road + vehicle + start + requests + actors + environment + seed
//!
//! library    the algorithm harness's five          file      TOML and JSON
//! alks       UN R157 families                      table     the harness's 28-column recordings
//! ncap       Euro NCAP car-to-car rear             parquet   ... as Parquet files (feature)
//! maneuver   openpilot's longitudinal manoeuvres   sweep     products of parameter values
//! lateral    openpilot's lateral manoeuvres        fuzz      random scenarios from a seed
//! search     the worst case within bounds          noise     what sensors get wrong
//! ```
//!
//! Scenarios are plain data. Only `maneuver`, which drives openpilot's own point-mass
//! plant, `search`, which runs a simulator, and `table`, which replays a recording to a controller
//! open loop, run anything.

pub mod alks;
mod describe;
pub mod file;
mod fuzz;
pub mod lateral;
mod library;
pub mod maneuver;
pub mod ncap;
mod noise;
#[cfg(feature = "parquet")]
pub mod parquet;
mod search;
mod sweep;
pub mod table;
pub(crate) mod table_fault;
#[cfg(test)]
mod tests;

pub(crate) use describe::SIDE_FORCE;
pub use describe::{Difficulty, Environment, Requests, Scenario, ScenarioKind, Start, Vehicle};
pub use fuzz::Fuzzer;
pub use library::{beyond_the_car, built_in, road_from_curvature};
pub(crate) use noise::Frames;
pub use noise::{ChannelNoise, PresenceNoise, SensorNoise};
pub use search::{Search, SearchOutcome, badness, danger};
pub use sweep::{Axis, Parameter, Sweep};
