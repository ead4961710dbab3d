//! Losses for driving networks, made of candle's operations whose gradients exist.
//!
//! ```text
//! laplace   centres with widths: negative log likelihood, winner takes all, divergence
//! distil    another network's outputs, head by head
//! metric    what to report besides the loss
//! ```

mod distil;
mod laplace;
mod metric;

pub use distil::{
    Head, HeadKind, MAX_LOG_WIDTH, distil, hypotheses_divergence, sigmoid_divergence, softened,
    split_mdn,
};
pub use laplace::{laplace_kl, laplace_nll, winner_takes_all};
pub use metric::{mean_absolute, within};
