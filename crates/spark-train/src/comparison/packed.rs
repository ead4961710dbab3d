//! Answers of one chunk as bytes.
//!
//! ```text
//! n: u64, and so many bytes   answers of samples that were trained on      groups: targets, a network without adapter ..
//! all that is left            of ones that were held back                  the same, and behind them the trained network
//! ```
//!
//! Each part as `packed` has records.

use super::answer::Answer;
use crate::error::{Result, TrainError};
use crate::layout::Named;
use crate::packed::{Packed, Packer, Rest, VERSION, add_u64};

/// The format of [`answers_to_bytes`]. Programs read their own alone.
pub const ANSWERS_FORMAT: u32 = VERSION;

/// Answers as bytes that another process reads as [`PackedAnswers`]; those of samples that were trained on come first.
///
/// # Errors
///
/// [`TrainError::UnlikeSamples`] for one whose outputs are not those of the first of its kind.
pub fn answers_to_bytes(answers: &[Answer]) -> Result<Vec<u8>> {
    let mut of_both = [Packer::default(), Packer::default()];
    for answer in answers {
        let mut groups: Vec<&[Named]> = vec![&answer.targets];
        groups.extend(answer.untouched.iter().map(Vec::as_slice));
        groups.extend(answer.trained.as_deref());
        of_both[usize::from(answer.trained.is_some())].push(&groups)?;
    }
    let [training, held_back] = of_both;
    let (mut first, mut bytes) = (Vec::new(), Vec::new());
    training.append_to(&mut first);
    add_u64(&mut bytes, first.len() as u64);
    bytes.append(&mut first);
    held_back.append_to(&mut bytes);
    Ok(bytes)
}

/// Answers that [`answers_to_bytes`] put together; each is made when it is asked for.
#[derive(Debug)]
pub struct PackedAnswers {
    training: Packed,
    held_back: Packed,
}

impl PackedAnswers {
    /// Reads bytes that may be anybody's.
    ///
    /// # Errors
    ///
    /// [`TrainError::Packed`] for bytes that [`answers_to_bytes`] does not give.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = Rest(bytes);
        let n = rest.u64("length")?;
        let training = Packed::read(Rest(rest.take(n, "length")?))?;
        let held_back = Packed::read(rest)?;
        let is_short = |packed: &Packed, n: usize| packed.len() > 0 && packed.n_groups() < n;
        match is_short(&training, 1) || is_short(&held_back, 2) {
            true => Err(TrainError::Packed {
                what: "number of groups",
            }),
            false => Ok(Self {
                training,
                held_back,
            }),
        }
    }

    /// Answers of samples that were trained on, and of ones that were held back.
    pub fn lens(&self) -> [usize; 2] {
        [self.training.len(), self.held_back.len()]
    }

    /// All of them, those of samples that were trained on first.
    pub fn answers(&self) -> impl Iterator<Item = Result<Answer>> + '_ {
        let of = |packed: &'_ Packed, index, is_held_back: bool| {
            let what = "record";
            let mut groups = packed.record(index)?;
            let trained = groups.pop_if(|_| is_held_back);
            let mut groups = groups.into_iter();
            Ok(Answer {
                targets: groups.next().ok_or(TrainError::Packed { what })?,
                untouched: groups.collect(),
                trained,
            })
        };
        let training = (0..self.training.len()).map(move |index| of(&self.training, index, false));
        let held_back = 0..self.held_back.len();
        training.chain(held_back.map(move |index| of(&self.held_back, index, true)))
    }
}
