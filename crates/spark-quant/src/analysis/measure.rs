//! Signal to quantization noise, cosine, largest error.
//!
//! ```text
//! SQNR   = 10 log10( sum want^2 / sum (want - got)^2 )    dB
//! cosine = sum want got / sqrt( sum want^2  sum got^2 )
//! ```
//!
//! All sums are in f64, in one fixed order.

use crate::error::QuantError;

/// How far `got` is from `want`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ErrorMeasure {
    /// Number of values that were compared.
    pub n_values: usize,
    /// Sum of the squared wanted values.
    pub signal: f64,
    /// Sum of the squared differences.
    pub noise: f64,
    /// Largest absolute difference; NaN if any difference is NaN.
    pub max_abs: f64,
    /// Cosine of the angle between the two, 1 if both are zero.
    pub cosine: f64,
}

impl ErrorMeasure {
    /// Compares two slices.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] if they differ in length.
    pub fn between(want: &[f32], got: &[f32]) -> Result<Self, QuantError> {
        QuantError::check_length("got", got.len(), want.len())?;
        let (mut signal, mut noise, mut product, mut got_square) = (0.0, 0.0, 0.0, 0.0);
        let mut max_abs = 0f64;
        for (&want, &got) in want.iter().zip(got) {
            let (want, got) = (f64::from(want), f64::from(got));
            let difference = want - got;
            signal += want * want;
            got_square += got * got;
            product += want * got;
            noise += difference * difference;
            // Written so that NaN stays.
            max_abs = if max_abs.is_nan() || difference.abs() <= max_abs {
                max_abs
            } else {
                difference.abs()
            };
        }
        let norm = (signal * got_square).sqrt();
        let cosine = if norm == 0.0 && signal == got_square {
            1.0
        } else {
            product / norm
        };
        Ok(Self {
            n_values: want.len(),
            signal,
            noise,
            max_abs,
            cosine,
        })
    }

    /// Signal to noise in decibels; infinite without any error.
    pub fn sqnr_db(&self) -> f64 {
        if self.noise == 0.0 {
            f64::INFINITY
        } else {
            10.0 * (self.signal / self.noise).log10()
        }
    }

    /// Root of the mean squared difference.
    pub fn rms(&self) -> f64 {
        if self.n_values == 0 {
            0.0
        } else {
            (self.noise / self.n_values as f64).sqrt()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_error_has_the_known_ratio() {
        let measure = ErrorMeasure::between(&[3.0, -4.0], &[3.0, -4.5]).expect("equal lengths");
        assert!(
            (measure.sqnr_db() - 20.0).abs() < 1e-9,
            "25 over 0.25 is 20 dB"
        );
        assert!((measure.max_abs - 0.5).abs() < 1e-12);
        assert!((measure.cosine - 27.0 / (5.0 * (9.0f64 + 20.25).sqrt())).abs() < 1e-12);
    }

    #[test]
    fn nan_is_never_hidden() {
        let measure =
            ErrorMeasure::between(&[1.0, 2.0, 3.0], &[1.0, f32::NAN, 3.5]).expect("equal lengths");
        assert!(measure.max_abs.is_nan() && measure.sqnr_db().is_nan() && measure.cosine.is_nan());
    }

    #[test]
    fn no_error_is_infinite_decibels() {
        let measure = ErrorMeasure::between(&[0.0, 0.0], &[0.0, -0.0]).expect("equal lengths");
        assert!(measure.sqnr_db().is_infinite());
        assert!((measure.cosine - 1.0).abs() < 1e-12);
    }
}
