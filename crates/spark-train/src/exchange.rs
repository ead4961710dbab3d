//! What the processes of one run of training tell each other: bytes of every rank for every rank, and nothing of what they mean.
//!
//! ```text
//! rank 0   begin(a0) ─────────┐   computes on   ┌─> finish() = [a0, a1, ..]
//! rank 1      begin(a1) ──────┴─ on its way ────┴─> finish() = [a0, a1, ..]        in the order of ranks, whoever was first
//! ```
//!
//! What is begun travels while the next batch is computed. Sums are made by whoever reads the answer, in one order on all ranks
//! ([`Trainer`](crate::Trainer)); [`GradientExchange::fast_sum`] alone leaves the order to the network.
//!
//! Deliberately absent: networks. [`Single`] is a process by itself; one over MPI is a program of its own, as it links what the main
//! program must not need.

use std::collections::VecDeque;
use std::error::Error;

/// Why ranks could not tell each other something.
pub type ExchangeError = Box<dyn Error + Send + Sync>;

/// How a rank reaches the others. All ranks call the same methods in the same order.
pub trait GradientExchange {
    /// Which rank this is, the first being 0: the one that writes files.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// From now on ranks meet at least once in each step.
    fn steps_begin(&mut self) {}

    /// Gives bytes to every rank, as many as every other one gives, and does not wait for them.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being sent; training ends with it.
    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError>;

    /// Waits for what all ranks gave in the oldest call of [`GradientExchange::begin`] that has no answer yet: by rank.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from arriving, and a call for which nothing was begun.
    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError>;

    /// The sum over all ranks, number by number, in whatever order is fastest: its last bits hang on how many ranks there are. All ranks get
    /// the same bits. Called when nothing that was begun is without its answer.
    ///
    /// # Errors
    ///
    /// As [`GradientExchange::finish`].
    fn fast_sum(&mut self, own: Vec<f32>) -> Result<Vec<f32>, ExchangeError>;

    /// The last call: nobody waits for this rank any more.
    ///
    /// # Errors
    ///
    /// As [`GradientExchange::finish`], if others are not that far.
    fn leave(&mut self) -> Result<(), ExchangeError> {
        Ok(())
    }

    /// Bytes of every rank, of whatever length, by rank.
    ///
    /// # Errors
    ///
    /// As [`GradientExchange::finish`].
    fn gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        self.begin((own.len() as u64).to_le_bytes().to_vec())?;
        let lengths = finish_all(self)?;
        let lengths: Vec<usize> = lengths.iter().map(|bytes| length(bytes)).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest > MOST_GATHERED {
            return Err(format!("a rank gives {longest} bytes, more than {MOST_GATHERED}").into());
        }
        let mut padded = own.to_vec();
        padded.resize(longest, 0);
        self.begin(padded)?;
        let mut all = finish_all(self)?;
        for (bytes, length) in all.iter_mut().zip(lengths) {
            bytes.truncate(length);
        }
        Ok(all)
    }

    /// What rank 0 gives, on all ranks; what others give is not looked at.
    ///
    /// # Errors
    ///
    /// As [`GradientExchange::finish`].
    fn share(&mut self, of_the_first: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let own = match self.rank() {
            0 => of_the_first,
            _ => &[],
        };
        Ok(self.gather(own)?.swap_remove(0))
    }
}

/// Most bytes that a rank gives to [`GradientExchange::gather`]: checkpoints and lists of options are shorter.
const MOST_GATHERED: usize = i32::MAX as usize;

/// An answer of [`GradientExchange::finish`] that has something of every rank.
pub(crate) fn finish_all<E: GradientExchange + ?Sized>(
    exchange: &mut E,
) -> Result<Vec<Vec<u8>>, ExchangeError> {
    let (all, n_ranks) = (exchange.finish()?, exchange.size());
    match all.len() == n_ranks {
        true => Ok(all),
        false => Err(format!("{} of {n_ranks} ranks answer", all.len()).into()),
    }
}

fn length(bytes: &[u8]) -> usize {
    let first = bytes.first_chunk().copied().unwrap_or_default();
    usize::try_from(u64::from_le_bytes(first)).unwrap_or(usize::MAX)
}

/// A process by itself.
#[derive(Debug, Default)]
pub struct Single(VecDeque<Vec<u8>>);

impl Single {
    /// The only rank of its run.
    pub fn new() -> Self {
        Self::default()
    }
}

impl GradientExchange for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError> {
        self.0.push_back(own);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let own = self.0.pop_front().ok_or("nothing was begun")?;
        Ok(vec![own])
    }

    fn fast_sum(&mut self, own: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        Ok(own)
    }
}
