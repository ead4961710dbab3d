//! An error with the rank that it happened to, and what kind of error it is: exit codes hang on it.

use std::error::Error;
use std::fmt;

use spark_program::{Usage, with_causes};

/// An error of one rank among several.
#[derive(Debug)]
struct OfRank {
    rank: usize,
    source: Box<dyn Error>,
}

impl fmt::Display for OfRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {}: {}",
            self.rank,
            with_causes(self.source.as_ref())
        )
    }
}

impl Error for OfRank {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// Names the rank, where there are others.
pub(crate) fn of_rank<T>(
    result: Result<T, Box<dyn Error>>,
    (rank, is_lone): (usize, bool),
) -> Result<T, Box<dyn Error>> {
    result.map_err(|error| match (is_lone, error.downcast_ref()) {
        (true, _) => error,
        (false, Some(Usage(why))) => Box::new(Usage(format!("rank {rank}: {why}"))),
        (false, None) => Box::new(OfRank {
            rank,
            source: error,
        }),
    })
}
