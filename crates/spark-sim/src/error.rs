//! Why a simulation input was refused.

/// Why a simulation input was refused. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Two arrays that describe the same lanes differ in length.
    #[error("`{what}` holds {got} lanes, expected {want}")]
    LengthMismatch {
        /// Which argument is wrong.
        what: &'static str,
        /// Lanes given.
        got: usize,
        /// Lanes needed.
        want: usize,
    },
    /// A number is outside the range in which it has a meaning.
    #[error("`{what}` is {got}, expected {want}")]
    OutOfRange {
        /// Name of the quantity, with its unit.
        what: &'static str,
        /// The number given.
        got: f64,
        /// The range it must lie in.
        want: &'static str,
    },
    /// Only the kinematic model has a closed-form step.
    #[error("vehicle model {model:?} has no exact step; use Euler or RK4")]
    NoExactStep {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
    },
    /// A profile over time cannot be used.
    #[error("{what}, point {point_idx}: {reason}")]
    Profile {
        /// What the profile describes.
        what: &'static str,
        /// The first offending point.
        point_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A road cannot be built.
    #[error("road segment {segment_idx}: {reason}")]
    Road {
        /// The first offending segment.
        segment_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The time step is too long for the model.
    #[error("a step of {dt_s} s is too long for vehicle model {model:?}: at most {longest_s} s")]
    StepTooLong {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
        /// Step asked for, s.
        dt_s: f64,
        /// Longest stable step, s.
        longest_s: f64,
    },
    /// The closed loop does not offer the model.
    #[error("vehicle model {model:?} can be stepped on its own but not in the closed loop")]
    OpenLoopOnly {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
    },
    /// An actor of a scenario makes no sense.
    #[error("actor {actor_idx}: {reason}")]
    Actor {
        /// The first offending actor.
        actor_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The GPU was asked for.
    #[error(
        "scenarios cannot run on a GPU in this version; leave `use_gpu` unset or set it to false"
    )]
    NoGpu,
}
