//! How far results are from a reference.
//!
//! ```text
//! per output tensor   d = result - reference, in f64
//!   max_abs  = max |d|
//!   max_rel  = max |d| / max |reference|
//!   cosine   = <result, reference> / (|result| |reference|)
//!   sqnr_db  = 10 log10( sum reference^2 / sum d^2 )
//! over outputs and cases the worst of each is kept
//! ```
//!
//! `max_rel` is relative to the scale of the whole tensor, not to each value, since an
//! output near zero is not a large error. A reference of zeros has `max_rel` 0 if the
//! result is zeros too, else infinity. Values that are not finite are counted and make
//! every figure infinitely bad, so a NaN never passes for agreement; so does another number of
//! values, as where a detector finds a box more.

/// Distance of results from a reference; the worst over what was compared.
///
/// # Examples
///
/// ```
/// use spark_bench::Accuracy;
///
/// let accuracy = Accuracy::of(&[0.0, 2.5, 4.0], &[0.0, 2.0, 4.0]);
/// assert_eq!(accuracy.max_abs, 0.5);
/// assert_eq!(accuracy.max_rel, 0.125); // of 4, the largest value of the reference
/// assert!(Accuracy::of(&[f64::NAN], &[1.0]).max_abs.is_infinite());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// Largest absolute difference, in the unit of the tensor.
    pub max_abs: f64,
    /// Largest absolute difference over the largest absolute value of that reference tensor.
    pub max_rel: f64,
    /// Smallest cosine between a result and its reference.
    pub cosine: f64,
    /// Smallest ratio of signal to error, in decibels; infinite where all agree exactly.
    pub sqnr_db: f64,
    /// Values of results that are NaN or infinite.
    pub non_finite: usize,
}

impl Accuracy {
    /// What comparing nothing gives; the start of [`Accuracy::worst`].
    pub const EXACT: Self = Self {
        max_abs: 0.0,
        max_rel: 0.0,
        cosine: 1.0,
        sqnr_db: f64::INFINITY,
        non_finite: 0,
    };

    /// Compares one tensor; `reference` is finite.
    pub fn of(result: &[f64], reference: &[f64]) -> Self {
        let non_finite = result.iter().filter(|v| !v.is_finite()).count();
        if non_finite > 0 || result.len() != reference.len() {
            return Self {
                max_abs: f64::INFINITY,
                max_rel: f64::INFINITY,
                cosine: -1.0,
                sqnr_db: f64::NEG_INFINITY,
                non_finite,
            };
        }
        let pairs = || result.iter().zip(reference);
        let max_abs = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let scale = reference.iter().map(|v| v.abs()).fold(0.0, f64::max);
        let energy = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
        let product: f64 = pairs().map(|(a, b)| a * b).sum();
        let error: f64 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
        let norms = (energy(result) * energy(reference)).sqrt();
        Self {
            max_abs,
            max_rel: if max_abs == 0.0 { 0.0 } else { max_abs / scale },
            cosine: if max_abs == 0.0 {
                1.0
            } else if norms == 0.0 {
                0.0
            } else {
                product / norms
            },
            sqnr_db: if max_abs == 0.0 {
                f64::INFINITY
            } else {
                10.0 * (energy(reference) / error).log10()
            },
            non_finite: 0,
        }
    }

    /// The worse of both, figure by figure.
    pub fn worst(self, other: Self) -> Self {
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            max_rel: self.max_rel.max(other.max_rel),
            cosine: self.cosine.min(other.cosine),
            sqnr_db: self.sqnr_db.min(other.sqnr_db),
            non_finite: self.non_finite + other.non_finite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, want: f64) {
        assert!(
            (got - want).abs() < 1e-9 * (1.0 + want.abs()),
            "got {got}, want {want}"
        );
    }

    #[test]
    fn figures_match_a_hand_calculation() {
        // d = (0, 0.5, 0); reference scale 4; energies 21 and 23.25; product 22.
        let accuracy = Accuracy::of(&[1.0, 2.5, -4.0], &[1.0, 2.0, -4.0]);
        close(accuracy.max_abs, 0.5);
        close(accuracy.max_rel, 0.125);
        close(accuracy.cosine, 22.0 / (23.25f64 * 21.0).sqrt());
        close(accuracy.sqnr_db, 10.0 * 84.0f64.log10());
    }

    #[test]
    fn equal_tensors_are_exact() {
        assert_eq!(Accuracy::of(&[1.0, -2.0], &[1.0, -2.0]), Accuracy::EXACT);
        assert_eq!(Accuracy::of(&[0.0], &[0.0]), Accuracy::EXACT);
        assert_eq!(Accuracy::of(&[], &[]), Accuracy::EXACT);
    }

    #[test]
    fn an_error_against_zeros_is_infinite() {
        let accuracy = Accuracy::of(&[0.5], &[0.0]);
        assert_eq!(accuracy.max_rel, f64::INFINITY);
        assert_eq!(accuracy.cosine, 0.0);
        assert_eq!(accuracy.sqnr_db, f64::NEG_INFINITY);
    }

    #[test]
    fn nan_never_passes_for_agreement() {
        let accuracy = Accuracy::of(&[f64::NAN, 1.0], &[1.0, 1.0]);
        assert_eq!(accuracy.non_finite, 1);
        assert_eq!(accuracy.max_abs, f64::INFINITY);
        let worst = Accuracy::EXACT.worst(accuracy);
        assert_eq!((worst.max_rel, worst.cosine), (f64::INFINITY, -1.0));
    }

    #[test]
    fn another_number_of_values_never_passes_for_agreement() {
        for (result, reference) in [(&[1.0, 2.0][..], &[1.0][..]), (&[], &[1.0]), (&[0.0], &[])] {
            let accuracy = Accuracy::of(result, reference);
            assert_eq!((accuracy.max_rel, accuracy.cosine), (f64::INFINITY, -1.0));
            assert_eq!(accuracy.non_finite, 0);
        }
    }

    #[test]
    fn the_worst_is_taken_figure_by_figure() {
        let a = Accuracy {
            max_abs: 1.0,
            max_rel: 0.1,
            ..Accuracy::EXACT
        };
        let b = Accuracy {
            max_abs: 0.5,
            max_rel: 0.2,
            cosine: 0.9,
            ..Accuracy::EXACT
        };
        let worst = a.worst(b);
        assert_eq!(
            (worst.max_abs, worst.max_rel, worst.cosine),
            (1.0, 0.2, 0.9)
        );
    }
}
