//! Kinematic single-track model (KS), and the same with a trailer (KST).
//!
//! ```text
//! x' = v cos psi     y' = v sin psi     psi' = v tan(steer) / (a + b)
//! hitch' = -v (sin(hitch) / l_trailer + tan(steer) / (a + b))
//! ```
//!
//! No tyre slip: good below about 0.3 g lateral. The hitch angle stops at +-pi/2.

use super::{
    Direction, Dynamics, N_INPUTS, Parameters, limited_acceleration, limited_steering_rate,
    path_curvature,
};
use crate::real::Real;

/// Kinematic single-track model, reference point on the rear axle.
#[derive(Debug, Clone, Copy)]
pub struct KinematicSingleTrack;

impl Dynamics<5> for KinematicSingleTrack {
    #[inline(always)]
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; 5], u: [R; N_INPUTS]) -> [R; 5] {
        let (sin_heading, cos_heading) = x[4].sin_cos();
        let direction = Direction {
            sin_heading,
            cos_heading,
            path_curvature: path_curvature(p, x[2]),
        };
        Self::derivative_toward(p, x, u, &direction)
    }

    #[inline(always)]
    fn derivative_toward<R: Real>(
        p: &Parameters<R>,
        x: &[R; 5],
        u: [R; N_INPUTS],
        direction: &Direction<R>,
    ) -> [R; 5] {
        let [_, _, steer, speed, _] = *x;
        [
            speed * direction.cos_heading,
            speed * direction.sin_heading,
            limited_steering_rate(p, steer, u[0]),
            limited_acceleration(p, speed, u[1]),
            speed * direction.path_curvature,
        ]
    }
}

/// Kinematic single-track model with an on-axle trailer.
#[derive(Debug, Clone, Copy)]
pub struct KinematicTrailer;

impl Dynamics<6> for KinematicTrailer {
    #[inline(always)]
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; 6], u: [R; N_INPUTS]) -> [R; 6] {
        let [px, py, steer, speed, heading, hitch] = *x;
        let car = KinematicSingleTrack::derivative(p, &[px, py, steer, speed, heading], u);
        let limit = R::splat(std::f64::consts::FRAC_PI_2);
        let limited = hitch.clamp(-limit, limit);
        let rate =
            -speed * (limited.sin_cos().0 / p.trailer_wheelbase + steer.tan() / p.wheelbase());
        let blocked =
            (hitch.le(-limit) & rate.le(R::zero())) | (hitch.ge(limit) & rate.ge(R::zero()));
        let [dx, dy, dsteer, dspeed, dheading] = car;
        [
            dx,
            dy,
            dsteer,
            dspeed,
            dheading,
            R::select(blocked, R::zero(), rate),
        ]
    }
}
