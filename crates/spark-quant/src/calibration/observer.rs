//! [`Observer`]: what a tensor's activations look like, run after run, in memory that does not grow.
//!
//! ```text
//! rows [n, channels] --pieces of up to 256 rows--> exact sums per channel --\
//!                    \-----------------------------> one histogram ----------> Observer
//! a.observe(x); a.observe(y)  ==  a.observe(x then y)  ==  a.observe(x); b.observe(y); a.merge(b)      bit for bit
//! ```
//!
//! Everything that is kept is a count, an exact sum, or an extreme, so that order, chunks, threads and
//! merges leave no trace. Values that are not finite are counted per channel and enter nothing else.

use std::borrow::Cow;

use crate::error::QuantError;
use crate::simd::ExecutionPolicy;
use crate::threads::map_parts;

use super::columns::{AddRows, Column, Extremes, LANES, MAX_ROWS};
use super::exact::ExactSum;
use super::histogram::Histogram;

/// Values that are taken through all steps while they are in the L2 cache.
const PIECE_VALUES: usize = 1 << 16;

/// Rows of columns side by side below which values are added one by one.
const FEWEST_ROWS: usize = 4;
/// Most values that a file may claim: merging any number of files that exist then overflows no count.
const MOST_VALUES: u64 = 1 << 48;

/// Counts, extremes and moments of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// Number of finite values; all that follows but the other counts is about them.
    pub n_values: u64,
    /// Number of values that were NaN.
    pub n_nan: u64,
    /// Number of values that were infinite.
    pub n_infinite: u64,
    /// Smallest value; 0 of none.
    pub min: f32,
    /// Largest value; 0 of none.
    pub max: f32,
    /// Mean; 0 of none.
    pub mean: f64,
    /// Mean of the magnitudes; 0 of none.
    pub mean_magnitude: f64,
    /// Mean of the squares; 0 of none.
    pub mean_square: f64,
}

impl Statistics {
    /// Largest magnitude.
    pub fn max_abs(&self) -> f32 {
        self.max.max(-self.min)
    }

    /// Mean squared difference from the mean. Its error is at most some `2^-52` of [`Statistics::mean_square`].
    pub fn variance(&self) -> f64 {
        (self.mean_square - self.mean * self.mean).max(0.0)
    }
}

/// What is kept of one channel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Channel {
    n_values: u64,
    n_nan: u64,
    n_infinite: u64,
    values: Column,
}

impl Channel {
    const EMPTY: Self = Self {
        n_values: 0,
        n_nan: 0,
        n_infinite: 0,
        values: Column::EMPTY,
    };

    fn add(&mut self, value: f32) {
        if value.is_finite() {
            self.n_values = self.n_values.saturating_add(1);
            self.values.add(value);
        } else if value.is_nan() {
            self.n_nan = self.n_nan.saturating_add(1);
        } else {
            self.n_infinite = self.n_infinite.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.n_values = self.n_values.saturating_add(other.n_values);
        self.n_nan = self.n_nan.saturating_add(other.n_nan);
        self.n_infinite = self.n_infinite.saturating_add(other.n_infinite);
        self.values.merge(&other.values);
    }

    fn statistics(&self) -> Statistics {
        let is_empty = self.n_values == 0;
        let mean = |sum: &ExactSum| {
            if is_empty {
                0.0
            } else {
                sum.value() / self.n_values as f64
            }
        };
        Statistics {
            n_values: self.n_values,
            n_nan: self.n_nan,
            n_infinite: self.n_infinite,
            min: if is_empty { 0.0 } else { self.values.min },
            max: if is_empty { 0.0 } else { self.values.max },
            mean: mean(&self.values.sum),
            mean_magnitude: mean(&self.values.absolute),
            mean_square: mean(&self.values.square),
        }
    }
}

/// Statistics of a tensor's activations over any number of runs.
///
/// Memory is 64 KiB and some 270 bytes per channel. Two observers are equal if and only if they saw the
/// same values per channel as far as counts, sums, extremes and histogram can tell. They can be written and
/// read with serde; what is read is checked.
///
/// # Examples
///
/// ```
/// use spark_quant::ExecutionPolicy;
/// use spark_quant::calibration::Observer;
///
/// let rows: Vec<f32> = (0..600).map(|i| (i as f32 * 0.7).sin()).collect();
/// let mut all = Observer::new(3);
/// all.observe(ExecutionPolicy::detect(), &rows)?;
/// let (mut one, mut other) = (Observer::new(3), Observer::new(3));
/// one.observe(ExecutionPolicy::detect(), &rows[..150])?;
/// other.observe(ExecutionPolicy::detect(), &rows[150..])?;
/// other.merge(&one)?;
/// assert_eq!(all, other);
/// assert_eq!(all.tensor().n_values, 600);
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Observer {
    channels: Vec<Channel>,
    histogram: Histogram,
}

impl Observer {
    /// An observer of tensors with `n_channels` channels, the last axis; 1 for the tensor as a whole.
    ///
    /// With 0 channels only empty tensors can be observed.
    pub fn new(n_channels: usize) -> Self {
        Self {
            channels: vec![Channel::EMPTY; n_channels],
            histogram: Histogram::new(),
        }
    }

    /// Takes in rows of a tensor.
    ///
    /// # Shapes
    ///
    /// `rows` is `[n, channels]`, row-major, with any `n`. The channel of a value is its position modulo
    /// the number of channels. The result does not depend on how a tensor is cut into calls, nor on
    /// `policy`.
    ///
    /// NaN and infinities are counted in their channel ([`Statistics::n_nan`], [`Statistics::n_infinite`])
    /// and enter nothing else.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotAMultiple`] unless `rows` is whole rows; nothing is then taken in.
    pub fn observe(&mut self, policy: ExecutionPolicy, rows: &[f32]) -> Result<(), QuantError> {
        let n_channels = self.channels.len();
        if rows.is_empty() {
            return Ok(());
        }
        if n_channels == 0 {
            return Err(QuantError::NotAMultiple {
                what: "rows",
                got: rows.len(),
                multiple: 0,
            });
        }
        QuantError::check_multiple("rows", rows.len(), n_channels)?;
        if policy.threads() == 1 || rows.len() < 4 * PIECE_VALUES {
            self.add(policy, rows);
            return Ok(());
        }
        let parts = map_parts(policy, rows, n_channels * LANES, |rows| {
            let mut part = Self::new(n_channels);
            part.add(policy, rows);
            part
        });
        parts.iter().for_each(|part| self.merge_equal(part));
        Ok(())
    }

    /// Takes in what another observer saw.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] if the numbers of channels differ; `self` is then as it was.
    pub fn merge(&mut self, other: &Self) -> Result<(), QuantError> {
        QuantError::check_length("channels", other.channels.len(), self.channels.len())?;
        self.merge_equal(other);
        Ok(())
    }

    fn merge_equal(&mut self, other: &Self) {
        for (channel, other) in self.channels.iter_mut().zip(&other.channels) {
            channel.merge(other);
        }
        self.histogram.merge(&other.histogram);
    }

    /// Number of channels.
    pub fn n_channels(&self) -> usize {
        self.channels.len()
    }

    /// Statistics of one channel; nothing if there is no such channel.
    pub fn channel(&self, index: usize) -> Option<Statistics> {
        self.channels.get(index).map(Channel::statistics)
    }

    /// Statistics of every channel, in order.
    pub fn channels(&self) -> impl ExactSizeIterator<Item = Statistics> {
        self.channels.iter().map(Channel::statistics)
    }

    /// Statistics of the tensor: of all channels together.
    pub fn tensor(&self) -> Statistics {
        let mut all = Channel::EMPTY;
        self.channels.iter().for_each(|channel| all.merge(channel));
        all.statistics()
    }

    /// How often each magnitude occurs in the tensor, all channels together.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Rows on this thread. Some rows side by side are one row of as many times the columns, which is whole vectors whatever the
    /// number of channels is.
    fn add(&mut self, policy: ExecutionPolicy, rows: &[f32]) {
        let n_channels = self.channels.len();
        let side_by_side = LANES >> n_channels.trailing_zeros().min(LANES.trailing_zeros());
        let width = n_channels * side_by_side;
        let (whole, rest) = rows.split_at(match rows.len() / width {
            // What the columns take to set up is more than they save.
            0..FEWEST_ROWS => 0,
            n => n * width,
        });
        self.add_one_by_one(policy, rest);
        if whole.is_empty() {
            return;
        }
        let n_rows = (PIECE_VALUES / width).clamp(1, MAX_ROWS);
        let mut columns = vec![Column::EMPTY; width];
        let mut n_added = 0;
        for rows in whole.chunks(n_rows * width) {
            let extremes = policy.run(Extremes(rows));
            if extremes[0] >= f32::INFINITY.to_bits() {
                self.add_one_by_one(policy, rows);
                continue;
            }
            self.histogram.make_room(extremes[0]);
            self.histogram.count(policy, rows);
            n_added += (rows.len() / width) as u64;
            policy.run(AddRows {
                rows,
                extremes,
                columns: &mut columns,
            });
        }
        // Columns lie as channels do, over and over.
        for columns in columns.chunks_exact(n_channels) {
            for (channel, &values) in self.channels.iter_mut().zip(columns) {
                channel.merge(&Channel {
                    n_values: n_added,
                    values,
                    ..Channel::EMPTY
                });
            }
        }
    }

    /// Few rows, or rows some of whose values are not finite.
    fn add_one_by_one(&mut self, policy: ExecutionPolicy, rows: &[f32]) {
        for row in rows.chunks_exact(self.channels.len()) {
            self.channels
                .iter_mut()
                .zip(row)
                .for_each(|(channel, &value)| channel.add(value));
        }
        let mut finite = Cow::Borrowed(rows);
        if policy.run(Extremes(rows))[0] >= f32::INFINITY.to_bits() {
            finite.to_mut().retain(|value| value.is_finite());
        }
        let [largest, _] = policy.run(Extremes(&finite));
        self.histogram.make_room(largest);
        self.histogram.count(policy, &finite);
    }
}

/// An observer as a file has it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Parts {
    channels: Vec<ChannelParts>,
    top: i32,
    /// Positive values, negative values, zeros.
    counts: Vec<u64>,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct ChannelParts {
    n_values: u64,
    n_nan: u64,
    n_infinite: u64,
    /// Smallest and largest value, if there is any.
    range: Option<[f32; 2]>,
    sum: ExactSum,
    absolute: ExactSum,
    square: ExactSum,
}

impl From<Observer> for Parts {
    fn from(observer: Observer) -> Self {
        let (top, counts) = observer.histogram.parts();
        let channels = observer.channels.iter().map(|channel| ChannelParts {
            n_values: channel.n_values,
            n_nan: channel.n_nan,
            n_infinite: channel.n_infinite,
            range: (channel.n_values > 0).then_some([channel.values.min, channel.values.max]),
            sum: channel.values.sum,
            absolute: channel.values.absolute,
            square: channel.values.square,
        });
        Self {
            top,
            counts: counts.to_vec(),
            channels: channels.collect(),
        }
    }
}

impl From<ChannelParts> for Channel {
    fn from(parts: ChannelParts) -> Self {
        let [min, max] = parts.range.unwrap_or([f32::INFINITY, f32::NEG_INFINITY]);
        let (sum, absolute, square) = (parts.sum, parts.absolute, parts.square);
        Self {
            n_values: parts.n_values,
            n_nan: parts.n_nan,
            n_infinite: parts.n_infinite,
            values: Column {
                sum,
                absolute,
                square,
                min,
                max,
            },
        }
    }
}

impl TryFrom<Parts> for Observer {
    type Error = QuantError;

    /// Refuses numbers that no values give, so that whoever reads them need not look again.
    fn try_from(parts: Parts) -> Result<Self, QuantError> {
        let wrong = |what, got, want| Err(QuantError::Calibration { what, got, want });
        let histogram = Histogram::from_parts(parts.top, parts.counts)?;
        let channels: Vec<Channel> = parts.channels.into_iter().map(Channel::from).collect();
        let mut n_values = Some(0u64);
        for channel in &channels {
            n_values = n_values.and_then(|n| n.checked_add(channel.n_values));
            let seen = channel.statistics();
            if seen.n_values == 0 {
                if channel.values != Column::EMPTY {
                    return wrong(
                        "number of values of a channel",
                        0.0,
                        "as many as its sums have",
                    );
                }
                continue;
            }
            let largest = f64::from(seen.max_abs());
            // The means are rounded.
            let at_most = |mean: f64, bound: f64| mean <= bound * (1.0 + 1e-12);
            if !(seen.min <= seen.max && largest < histogram.range()) {
                return wrong("largest value of a channel", largest, "one of its values");
            }
            if !(at_most(seen.mean_magnitude, largest)
                && at_most(seen.mean.abs(), seen.mean_magnitude)
                && at_most(seen.mean_square, largest * largest)
                && at_most(seen.mean_magnitude * seen.mean_magnitude, seen.mean_square))
            {
                return wrong(
                    "mean square of a channel",
                    seen.mean_square,
                    "that of its values",
                );
            }
        }
        let counted = histogram.total();
        if counted != n_values || counted.is_none_or(|counted| counted > MOST_VALUES) {
            let counted = counted.map_or(f64::INFINITY, |n| n as f64);
            return wrong(
                "number of values in the histogram",
                counted,
                "as many as the channels have",
            );
        }
        Ok(Self {
            channels,
            histogram,
        })
    }
}
