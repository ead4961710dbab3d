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

mod columns;
mod error;
pub mod integrate;
pub mod real;
pub mod vehicle;

pub use error::SimError;
