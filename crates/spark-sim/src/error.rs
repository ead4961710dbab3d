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
}
