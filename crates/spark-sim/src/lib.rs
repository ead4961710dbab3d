//! Thousands of closed-loop driving scenarios at once.
//!
//! ```text
//! real      one lane type for f64 oracle, f32 and SIMD; bit-identical on every CPU
//! vehicle   single-track models, actuators, presets        } the plant
//! integrate Euler, RK4, exact arc                          }
//! ```
//!
//! State is kept as structures of arrays, one array element ("lane") per
//! scenario. A lane's arithmetic never looks at its neighbours, so a result does
//! not depend on the batch it was computed in.

pub mod collision;
mod columns;
pub mod compare;
pub mod control;
pub mod env;
mod error;
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
