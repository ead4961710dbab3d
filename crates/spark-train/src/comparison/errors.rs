//! What a comparison comes to.

/// How far the four are from the targets of samples that were held back.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All taught numbers: root of the mean square.
    pub all: Errors,
    /// The loss: the weighted sum of the heads'.
    pub loss: Errors,
    /// By head, in their order.
    pub heads: Vec<HeadComparison>,
}

/// The same of one head.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadComparison {
    /// The head's name.
    pub name: String,
    /// Its numbers: root of the mean square.
    pub all: Errors,
    /// Its loss, unweighted.
    pub loss: Errors,
}

/// One measure of the four.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Of the network without adapter.
    pub untouched: f64,
    /// Of the same with mean errors taken off.
    pub bias: f64,
    /// Of the mean targets.
    pub constant: f64,
    /// Of the network with adapter.
    pub trained: f64,
}

impl Errors {
    /// The best that is had without training.
    pub fn best_without(&self) -> f64 {
        self.untouched.min(self.bias).min(self.constant)
    }

    /// The trained network's error for a best of 1.
    pub fn ratio(&self) -> f64 {
        self.trained / self.best_without()
    }

    pub(super) fn of([untouched, bias, constant, trained]: [f64; 4]) -> Self {
        Self {
            untouched,
            bias,
            constant,
            trained,
        }
    }
}
