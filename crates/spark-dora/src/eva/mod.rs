//! EVA: A of each linear layer begins as the directions in which its inputs vary most.
//!
//! ```text
//! observe(layer, x)    batch by batch: mean and products of the inputs, in f64              moments
//! ranks(adapter)       more ranks where they explain more, as many in all                   ranks
//! begin(adapter)       A = the first `rank` principal directions; B stays zero              beginning
//! ```
//!
//! F. Paischer et al., "One Initialization to Rule them All: Fine-tuning via Explained Variance Adaptation",
//! arXiv 2410.07170, as `peft/tuners/lora/eva.py` of PEFT 0.21.2 has it.
//!
//! Otherwise than there, directions are those of all inputs that were observed: PEFT updates an approximation by batches, and stops
//! where it moves little (`tau`). A layer gets no more ranks than its weight has, and a row of A for which the inputs vary
//! in no further direction stays as it began.
//!
//! Deliberately absent: convolutions, as in PEFT, also those of one tap; masks of labels, which are for whoever
//! observes to apply.

mod beginning;
mod directions;
mod moments;
mod ranks;
mod variance;

pub use beginning::{Begun, BegunLayer};
pub use directions::Directions;
pub use variance::{EvaSettings, ExplainedVariance, MOST_COLUMNS};
