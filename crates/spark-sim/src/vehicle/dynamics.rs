//! What a vehicle model is: a right-hand side `dx/dt = f(x, u)`, written once for every kind of number.

use super::parameters::Parameters;
use crate::real::Real;

/// Number of control inputs: steering rate and acceleration.
pub const N_INPUTS: usize = 2;

/// A vehicle model with `N` state variables.
pub trait Dynamics<const N: usize> {
    /// Time derivative of the state.
    ///
    /// `u` is `[steering rate rad/s, acceleration m/s^2]`; it is limited to what
    /// the vehicle can do before it is used.
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; N], u: [R; N_INPUTS]) -> [R; N];

    /// The same bits, for a caller that has the state's [`Direction`] at hand. Models whose
    /// derivative is not made of it do not look at it.
    #[inline(always)]
    fn derivative_toward<R: Real>(
        p: &Parameters<R>,
        x: &[R; N],
        u: [R; N_INPUTS],
        _direction: &Direction<R>,
    ) -> [R; N] {
        Self::derivative(p, x, u)
    }
}

/// Where a car without slip is going, from its heading and steering angle.
#[derive(Debug, Clone, Copy)]
pub struct Direction<R> {
    /// Sine of the heading.
    pub sin_heading: R,
    /// Cosine of the heading.
    pub cos_heading: R,
    /// Curvature of its path, 1/m; see [`path_curvature`].
    pub path_curvature: R,
}

/// Curvature of the path of a car without slip, `tan(steer) / wheelbase`, 1/m.
#[inline(always)]
pub fn path_curvature<R: Real>(p: &Parameters<R>, steer: R) -> R {
    let (sin, cos) = steer.sin_cos();
    sin / (cos * p.wheelbase())
}
