//! Pacejka's magic formula for combined slip, as the drift model uses it.
//!
//! ```text
//! F = D sin(C atan(B x - E (B x - atan(B x))))          pure slip
//! G = cos(C atan(B x - E (B x - atan(B x))))            weighting by the other slip
//! ```
//!
//! Camber is zero throughout, so the terms that carry it are not here. The
//! longitudinal formula adds the vertical shift inside the sine, as the
//! published code does.
//!
//! Source: Althoff, Wuersching, *CommonRoad: Vehicle Models* (2020a), after
//! Pacejka, *Tire and Vehicle Dynamics*, chapter 4.

use crate::real::Real;

/// Tyre coefficients, dimensionless unless a comment says otherwise. The names are Pacejka's.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(
    missing_docs,
    reason = "coefficients without a meaning of their own, named as in the literature"
)]
pub struct Tyre {
    pub p_cx1: f64,
    pub p_dx1: f64,
    pub p_ex1: f64,
    pub p_kx1: f64,
    pub p_hx1: f64,
    pub p_vx1: f64,
    pub r_bx1: f64,
    pub r_bx2: f64,
    pub r_cx1: f64,
    pub r_ex1: f64,
    pub r_hx1: f64,
    pub p_cy1: f64,
    pub p_dy1: f64,
    pub p_ey1: f64,
    pub p_ky1: f64,
    pub r_by1: f64,
    pub r_by2: f64,
    pub r_by3: f64,
    pub r_cy1: f64,
    pub r_ey1: f64,
    pub r_hy1: f64,
    pub r_vy1: f64,
    pub r_vy4: f64,
    pub r_vy5: f64,
    pub r_vy6: f64,
}

impl Tyre {
    /// The tyre of all CommonRoad vehicles.
    pub const COMMONROAD: Self = Self {
        p_cx1: 1.6411,
        p_dx1: 1.1739,
        p_ex1: 0.46403,
        p_kx1: 22.303,
        p_hx1: 0.001_229_7,
        p_vx1: -8.8098e-6,
        r_bx1: 13.276,
        r_bx2: -13.778,
        r_cx1: 1.2568,
        r_ex1: 0.65225,
        r_hx1: 0.005_072_2,
        p_cy1: 1.3507,
        p_dy1: 1.0489,
        p_ey1: -0.007_472_2,
        p_ky1: -21.92,
        r_by1: 7.1433,
        r_by2: 9.1916,
        r_by3: -0.027_856,
        r_cy1: 1.0719,
        r_ey1: -0.27572,
        r_hy1: 5.7448e-6,
        r_vy1: -0.027_825,
        r_vy4: 12.12,
        r_vy5: 1.9,
        r_vy6: -10.704,
    };

    /// Longitudinal and lateral force, N, of an axle under load `load` (N).
    ///
    /// `kappa` is the longitudinal slip (positive when braking), `alpha` the slip angle (rad).
    #[inline(always)]
    pub(super) fn forces<R: Real>(&self, kappa: R, alpha: R, load: R) -> (R, R) {
        let c = R::splat;
        let longitudinal = {
            let peak = c(self.p_dx1) * load;
            let stiffness = load * c(self.p_kx1) / (c(self.p_cx1) * peak);
            let slip = stiffness * (c(self.p_hx1) - kappa);
            let shift = load * c(self.p_vx1);
            peak * (c(self.p_cx1) * curve(slip, c(self.p_ex1)) + shift)
                .sin_cos()
                .0
        };
        let lateral = {
            let peak = c(self.p_dy1) * load;
            let stiffness = load * c(self.p_ky1) / (c(self.p_cy1) * peak);
            peak * (c(self.p_cy1) * curve(stiffness * alpha, c(self.p_ey1)))
                .sin_cos()
                .0
        };
        let weighted_longitudinal = {
            let b = c(self.r_bx1) * (c(self.r_bx2) * kappa).atan().sin_cos().1;
            let (shape, e, shift) = (c(self.r_cx1), c(self.r_ex1), c(self.r_hx1));
            longitudinal / weight(b, shape, e, shift) * weight(b, shape, e, alpha + shift)
        };
        let weighted_lateral = {
            let b = c(self.r_by1) * (c(self.r_by2) * (alpha - c(self.r_by3))).atan().sin_cos().1;
            let (shape, e, shift) = (c(self.r_cy1), c(self.r_ey1), c(self.r_hy1));
            let ply_steer = c(self.p_dy1)
                * load
                * c(self.r_vy1)
                * (c(self.r_vy4) * alpha).atan().sin_cos().1
                * (c(self.r_vy5) * (c(self.r_vy6) * kappa).atan()).sin_cos().0;
            lateral / weight(b, shape, e, shift) * weight(b, shape, e, kappa + shift) + ply_steer
        };
        (weighted_longitudinal, weighted_lateral)
    }
}

/// How much of a force is left under slip in the other direction.
#[inline(always)]
fn weight<R: Real>(b: R, shape: R, e: R, slip: R) -> R {
    (shape * curve(b * slip, e)).sin_cos().1
}

/// `atan(x - e (x - atan x))`, the inside of every magic formula.
#[inline(always)]
fn curve<R: Real>(x: R, e: R) -> R {
    (x - e * (x - x.atan())).atan()
}
