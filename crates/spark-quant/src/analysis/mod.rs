//! How much a format costs, tensor by tensor, and which format each tensor should get.
//!
//! ```text
//! weights --each candidate recipe--> error and bytes --budget--> PrecisionPlan
//! ```
//!
//! [`measure`](mod@measure) compares values, [`sensitivity`] tries recipes on named weights, [`plan`]
//! chooses under a budget. What a layer's error does to the network's output is for the caller to say:
//! `spark-model` passes its own error function to [`sensitivity::Sensitivity::with`].

pub mod measure;

pub use measure::ErrorMeasure;
