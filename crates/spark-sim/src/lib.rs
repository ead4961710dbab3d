//! Thousands of closed-loop driving scenarios at once, and which controller does better in them.
//!
//! ```text
//! scenario   what happens: families, sweeps, fuzzing, search, files        report   HTML, Markdown,
//!    |                                                                        ^     JSON, pictures
//!    v                                                                        |
//! run        lanes of scenarios on threads: --> metric --> compare -----------+
//!    |         sense, algorithm, actuators, vehicle
//!    +-- control   planner, openpilot's controllers, path followers, reference drivers
//!    +-- vehicle   single-track models, actuators, presets; integrate: Euler, RK4, exact arc
//!    +-- road      straights, arcs, clothoids, lanes
//!    +-- traffic   scripted, IDM, Krauss, MOBIL, replayed; collision: outlines, time to collision
//!
//! real       one lane type for the f64 oracle, f32 and vector registers, whose f32 has the same bits everywhere
//! env        vector environments for reinforcement learning
//! learned    the controls challenge: a learned model as the car
//! ```
//!
//! State is kept as structures of arrays, one element ("lane") per scenario. A lane's arithmetic
//! never looks at its neighbours, so a result does not depend on the batch it was computed in.
//!
//! ```
//! use spark_sim::control::{LateralPid, LateralPidConfig, named};
//! use spark_sim::run::{RunOptions, Simulator};
//! use spark_sim::scenario::built_in;
//!
//! let simulator = Simulator::new(RunOptions::default())?;
//! let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
//! let report = simulator.run(&built_in(1), &pid);
//! let straight = report.results[0].outcome.as_ref().expect("finished");
//! assert!(straight.lateral_error_max < 0.5);
//! # Ok::<(), spark_sim::SimError>(())
//! ```

pub mod collision;
mod columns;
pub mod compare;
pub mod control;
pub mod env;
mod error;
mod files;
pub mod integrate;
pub mod learned;
pub mod metric;
pub mod profile;
pub mod random;
pub mod real;
pub mod report;
pub mod road;
pub mod run;
pub mod scenario;
pub mod traffic;
pub mod vehicle;

pub use error::SimError;
pub use profile::Profile;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The guide's examples, so that they are compiled and run with the others; one needs a network.
#[cfg(all(doctest, feature = "model"))]
#[doc = include_str!("../../../docs/sim-guide.md")]
struct Guide;
