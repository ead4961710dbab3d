//! How much a format costs, tensor by tensor, and which format each tensor should get.
//!
//! ```text
//! weights --every candidate--> Sensitivity: bytes and error of each choice
//!                                  --budget--> PrecisionPlan --apply--> Checkpoint
//! ```
//!
//! [`measure`](mod@measure) compares values, [`sensitivity`] tries candidates on named weights, [`plan`]
//! chooses under a budget, [`plot`] draws what was found. What an error in a weight does to the output of
//! the network is for the caller to say: see [`sensitivity::Sensitivity::with`].

pub mod measure;
pub mod plan;
pub mod plot;
pub mod sensitivity;

pub use measure::ErrorMeasure;
pub use plan::{ParetoPoint, PlanBudget, PrecisionPlan};
pub use sensitivity::{Candidate, Choice, Kept, Layer, NamedWeight, Sensitivity};

#[cfg(test)]
mod tests;
