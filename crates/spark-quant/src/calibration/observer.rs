//! [`Observer`]: what a tensor's activations look like, run after run, in memory that does not grow.
//!
//! ```text
//! rows [n, channels] --pieces of up to 256 rows--> exact sums per channel --\
//!                    \-----------------------------> one histogram ----------> Observer
//! a.observe(x); a.observe(y)  ==  a.observe(x then y)  ==  a.observe(x); b.observe(y); a.merge(b)      bit for bit
//! ```
//!
//! Everything that is kept is a count, an exact sum, or an extreme, so that order, chunks, threads and merges leave no trace.
//! Values that are not finite are counted per channel and enter nothing else.

use crate::error::QuantError;
use crate::simd::ExecutionPolicy;
use crate::threads::map_parts;

use super::columns::{AddRows, Column, Extremes, LANES, MAX_ROWS};
use super::exact::ExactSum;
use super::histogram::Histogram;

/// Values that are taken through all steps while they are in the L2 cache.
const PIECE_VALUES: usize = 1 << 16;

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
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
struct Channel {
    n_values: u64,
    n_nan: u64,
    n_infinite: u64,
    /// Smallest and largest value, if there is any.
    range: Option<[f32; 2]>,
    sum: ExactSum,
    absolute: ExactSum,
    square: ExactSum,
}

impl Channel {
    const EMPTY: Self = Self {
        n_values: 0,
        n_nan: 0,
        n_infinite: 0,
        range: None,
        sum: ExactSum::ZERO,
        absolute: ExactSum::ZERO,
        square: ExactSum::ZERO,
    };

    fn merge(&mut self, other: &Self) {
        self.n_values = self.n_values.saturating_add(other.n_values);
        self.n_nan = self.n_nan.saturating_add(other.n_nan);
        self.n_infinite = self.n_infinite.saturating_add(other.n_infinite);
        self.range = match (self.range, other.range) {
            (Some([min, max]), Some([other_min, other_max])) => {
                Some([min.min(other_min), max.max(other_max)])
            }
            (one, other) => one.or(other),
        };
        self.sum.merge(&other.sum);
        self.absolute.merge(&other.absolute);
        self.square.merge(&other.square);
    }

    fn add_column(&mut self, column: &Column, n_values: u64) {
        let range = (n_values > 0).then_some([column.min, column.max]);
        self.merge(&Self {
            n_values,
            range,
            sum: column.sum,
            absolute: column.absolute,
            square: column.square,
            ..Self::EMPTY
        });
    }

    fn statistics(&self) -> Statistics {
        let [min, max] = self.range.unwrap_or_default();
        let mean = |sum: &ExactSum| match self.n_values {
            0 => 0.0,
            n => sum.value() / n as f64,
        };
        Statistics {
            n_values: self.n_values,
            n_nan: self.n_nan,
            n_infinite: self.n_infinite,
            min,
            max,
            mean: mean(&self.sum),
            mean_magnitude: mean(&self.absolute),
            mean_square: mean(&self.square),
        }
    }
}

/// Statistics of a tensor's activations over any number of runs.
///
/// Memory is 64 KiB and some 270 bytes per channel. Two observers are equal if and only if they saw the same values per channel
/// as far as counts, sums, extremes and histogram can tell. They can be written and read with serde; what is read is checked.
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
    /// `rows` is `[n, channels]`, row-major, with any `n`. The channel of a value is its position modulo the number of channels.
    /// The result does not depend on how a tensor is cut into calls, nor on `policy`.
    ///
    /// NaN and infinities are counted in their channel ([`Statistics::n_nan`], [`Statistics::n_infinite`]) and enter nothing else.
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
        let granule = n_channels.saturating_mul(LANES);
        if policy.threads() == 1 || rows.len() < 4 * PIECE_VALUES {
            self.add(policy, rows);
            return Ok(());
        }
        let parts = map_parts(policy, rows, granule, |rows| {
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
        let n_rows = (PIECE_VALUES / width).clamp(1, MAX_ROWS);
        let mut columns = vec![Column::EMPTY; width];
        let mut n_whole = 0;
        for piece in rows.chunks(n_rows * width) {
            let extremes = policy.run(Extremes(piece));
            if extremes[0] >= f32::INFINITY.to_bits() {
                self.add_one_by_one(policy, piece);
                continue;
            }
            self.histogram.make_room(extremes[0]);
            self.histogram.count(policy, piece);
            let (whole, rest) = piece.split_at(piece.len() / width * width);
            if !whole.is_empty() {
                n_whole += (whole.len() / width) as u64;
                policy.run(AddRows {
                    rows: whole,
                    extremes,
                    columns: &mut columns,
                });
            }
            if !rest.is_empty() {
                // Zeros change no sum, and the columns that have nothing else are left out.
                let mut row = rest.to_vec();
                row.resize(width, 0.0);
                let mut last = vec![Column::EMPTY; width];
                policy.run(AddRows {
                    rows: &row,
                    extremes,
                    columns: &mut last,
                });
                self.add_columns(&last[..rest.len()], 1);
            }
        }
        if n_whole > 0 {
            self.add_columns(&columns, n_whole);
        }
    }

    /// Columns of `n_rows` values each; they lie as channels do, over and over.
    fn add_columns(&mut self, columns: &[Column], n_rows: u64) {
        for columns in columns.chunks(self.channels.len()) {
            for (channel, column) in self.channels.iter_mut().zip(columns) {
                channel.add_column(column, n_rows);
            }
        }
    }

    /// Rows some of whose values are not finite.
    fn add_one_by_one(&mut self, policy: ExecutionPolicy, rows: &[f32]) {
        let mut finite = Vec::with_capacity(rows.len());
        for row in rows.chunks(self.channels.len()) {
            for (channel, &value) in self.channels.iter_mut().zip(row) {
                if value.is_finite() {
                    let mut column = Column::EMPTY;
                    column.add(value);
                    channel.add_column(&column, 1);
                    finite.push(value);
                } else if value.is_nan() {
                    channel.n_nan = channel.n_nan.saturating_add(1);
                } else {
                    channel.n_infinite = channel.n_infinite.saturating_add(1);
                }
            }
        }
        let [largest, _] = policy.run(Extremes(&finite));
        self.histogram.make_room(largest);
        self.histogram.count(policy, &finite);
    }
}

/// An observer as a file has it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Parts {
    channels: Vec<Channel>,
    top: i32,
    /// Positive values, negative values, zeros.
    counts: Vec<u64>,
}

impl From<Observer> for Parts {
    fn from(observer: Observer) -> Self {
        let (top, counts) = observer.histogram.parts();
        Self {
            top,
            counts: counts.to_vec(),
            channels: observer.channels,
        }
    }
}

impl TryFrom<Parts> for Observer {
    type Error = QuantError;

    fn try_from(parts: Parts) -> Result<Self, QuantError> {
        let wrong = |what, got, want| Err(QuantError::Calibration { what, got, want });
        let histogram = Histogram::from_parts(parts.top, parts.counts)?;
        let mut n_values = Some(0u64);
        for channel in &parts.channels {
            n_values = n_values.and_then(|n| n.checked_add(channel.n_values));
            let is_empty = channel.n_values == 0;
            match channel.range {
                None if is_empty => {}
                Some([min, max])
                    if !is_empty && min <= max && f64::from(max.max(-min)) < histogram.range() => {}
                Some([_, max]) => {
                    return wrong(
                        "largest value of a channel",
                        f64::from(max),
                        "one of its values",
                    );
                }
                None => {
                    let n_values = channel.n_values as f64;
                    return wrong("number of values without a range", n_values, "0");
                }
            }
        }
        match (histogram.total(), n_values) {
            (Some(counted), Some(n_values)) if counted == n_values => {}
            (counted, _) => {
                let counted = counted.map_or(f64::INFINITY, |n| n as f64);
                return wrong(
                    "values in the histogram",
                    counted,
                    "as many as in the channels",
                );
            }
        }
        Ok(Self {
            channels: parts.channels,
            histogram,
        })
    }
}
