//! Learning rates over time, as factors of the groups' rates.
//!
//! ```text
//! constant        1 ────────────────
//! linear, cosine  0 ╱‾‾‾╲___            warm-up, then down to the floor
//! plateau         1 ‾‾‾|__|__           lower each time a measured value stops falling
//! ```

/// A factor for every step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    warm_up: u64,
    total: u64,
    shape: Shape,
    floor: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Constant,
    Linear,
    Cosine,
}

impl Schedule {
    /// 1 at every step.
    pub fn constant() -> Self {
        Self {
            warm_up: 0,
            total: 0,
            shape: Shape::Constant,
            floor: 0.0,
        }
    }

    /// Falls in a straight line to 0 at step `total`.
    pub fn linear(total: u64) -> Self {
        Self {
            total,
            shape: Shape::Linear,
            ..Self::constant()
        }
    }

    /// Falls along half a cosine to 0 at step `total`.
    pub fn cosine(total: u64) -> Self {
        Self {
            total,
            shape: Shape::Cosine,
            ..Self::constant()
        }
    }

    /// Rises in a straight line over the first `steps` steps, which count towards the total.
    #[must_use]
    pub fn warm_up(mut self, steps: u64) -> Self {
        self.warm_up = steps;
        self
    }

    /// Ends at `factor` instead of 0.
    #[must_use]
    pub fn floor(mut self, factor: f64) -> Self {
        self.floor = factor;
        self
    }

    /// The factor of step `step`, the first being 0.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return (step as f64 + 1.0) / (self.warm_up as f64 + 1.0);
        }
        let span = self.total.saturating_sub(self.warm_up).max(1) as f64;
        let part = ((step - self.warm_up) as f64 / span).min(1.0);
        let down = match self.shape {
            Shape::Constant => return 1.0,
            Shape::Linear => 1.0 - part,
            Shape::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * part).cos()),
        };
        self.floor + (1.0 - self.floor) * down
    }
}

/// Lowers its factor when a value that should fall does not.
///
/// # Examples
///
/// ```
/// use spark_dora::optim::Plateau;
///
/// let mut plateau = Plateau::new(0.5, 1, 0.01);
/// assert_eq!(plateau.observe(1.0), 1.0);
/// assert_eq!(plateau.observe(1.0), 1.0); // borne once
/// assert_eq!(plateau.observe(0.995), 0.5); // less than the threshold
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// What the factor is multiplied by.
    pub drop: f64,
    /// Values without improvement that are borne.
    pub patience: u32,
    /// Improvements smaller than this are none.
    pub threshold: f64,
    factor: f64,
    best: f64,
    waited: u32,
}

impl Plateau {
    /// Multiplies by `drop` after more than `patience` values that were not below the best by `threshold`.
    pub fn new(drop: f64, patience: u32, threshold: f64) -> Self {
        Self {
            drop,
            patience,
            threshold,
            factor: 1.0,
            best: f64::INFINITY,
            waited: 0,
        }
    }

    /// Takes a measured value and gives the factor from here on. NaN counts as no improvement.
    pub fn observe(&mut self, value: f64) -> f64 {
        if value < self.best - self.threshold {
            (self.best, self.waited) = (value, 0);
        } else {
            self.waited += 1;
            if self.waited > self.patience {
                (self.factor, self.waited) = (self.factor * self.drop, 0);
            }
        }
        self.factor
    }

    /// What rates are multiplied by now; 1 until [`Plateau::observe`] lowers it.
    pub fn factor(&self) -> f64 {
        self.factor
    }
}
