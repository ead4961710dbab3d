//! What a scenario is: a road, an ego, other road users, disturbances, and what is asked of the ego.
//!
//! ```text
//! Scenario = road + vehicle + start + requests + actors + environment + seed
//! ```
//!
//! Scenarios are plain data: built in code, by the families below, or read from TOML,
//! JSON and Parquet files. Nothing here runs them.

mod describe;

pub use describe::{
    Difficulty, Environment, Requests, Scenario, ScenarioKind, SensorNoise, Start, Vehicle,
};
