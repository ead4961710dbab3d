//! Normalisations and softmax, and the sums over rows that they share.

pub(crate) mod norm;
pub(crate) mod rows;
pub(crate) mod softmax;
