//! One minute of the data set.

use std::path::{Path, PathBuf};

use super::npy::{Array, NpyError, Values};

/// Poses and signals of one minute.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Comma2k19 {
    /// When each frame was taken, s.
    pub frame_times: Vec<f64>,
    /// Where the camera was, m, ECEF.
    pub positions: Vec<[f64; 3]>,
    /// How fast, m/s, ECEF.
    pub velocities: Vec<[f64; 3]>,
    /// How it was turned: w, x, y, z, from its own frame (forward, right, down) to ECEF.
    pub orientations: Vec<[f64; 4]>,
    /// The car's speed: times in s, m/s.
    pub speed: (Vec<f64>, Vec<f64>),
    /// The steering wheel's angle, positive to the left: times in s, degrees.
    pub steering_angle: (Vec<f64>, Vec<f64>),
}

/// Why a folder is no minute of the data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Comma2k19Error {
    /// An array that cannot be read.
    #[error("`{}`: {source}", path.display())]
    Array {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: NpyError,
    },
    /// An array of another shape or type than the data set has there.
    #[error("`{}` has the shape {got:?} or a type other than numbers; expected {wanted}", path.display())]
    Shape {
        /// Its file.
        path: PathBuf,
        /// Its shape.
        got: Vec<usize>,
        /// What belongs there.
        wanted: String,
    },
    /// A time that is not finite, before 0, or beyond what nanoseconds of 64 bits hold.
    #[error("`{}`: {time} s at row {row} is no time of a clock", path.display())]
    Time {
        /// Its file.
        path: PathBuf,
        /// Which row.
        row: usize,
        /// What stands there.
        time: f64,
    },
    /// Times that do not grow.
    #[error("`{}`: times do not grow at row {row}", path.display())]
    Order {
        /// Its file.
        path: PathBuf,
        /// The first row whose time is not after the one before.
        row: usize,
    },
}

impl Comma2k19 {
    /// Reads the folder of one minute.
    ///
    /// # Errors
    ///
    /// [`Comma2k19Error`]: arrays that are missing, broken, of other lengths or out of order.
    pub fn open(folder: &Path) -> Result<Self, Comma2k19Error> {
        let pose = folder.join("global_pose");
        let can = folder.join("processed_log/CAN");
        let frame_times = times(&pose.join("frame_times"))?;
        let n = frame_times.len();
        let signal = |name: &str| {
            let times = times(&can.join(name).join("t"))?;
            let values = rows::<1>(&can.join(name).join("value"), times.len())?;
            Ok((times, values.into_iter().map(|[value]| value).collect()))
        };
        Ok(Self {
            positions: rows(&pose.join("frame_positions"), n)?,
            velocities: rows(&pose.join("frame_velocities"), n)?,
            orientations: rows(&pose.join("frame_orientations"), n)?,
            speed: signal("speed")?,
            steering_angle: signal("steering_angle")?,
            frame_times,
        })
    }
}

fn numbers(path: &Path) -> Result<(Vec<usize>, Option<Vec<f64>>), Comma2k19Error> {
    let array = Array::open(path).map_err(|source| Comma2k19Error::Array {
        path: path.to_owned(),
        source,
    })?;
    let values = match array.values {
        Values::F64(values) => Some(values),
        _ => None,
    };
    Ok((array.shape, values))
}

/// A column of times, which grow.
fn times(path: &Path) -> Result<Vec<f64>, Comma2k19Error> {
    match numbers(path)? {
        (shape, Some(values)) if shape.len() == 1 => {
            let is_time = |time: &f64| (0.0..9e9).contains(time);
            if let Some(row) = values.iter().position(|time| !is_time(time)) {
                return Err(Comma2k19Error::Time {
                    path: path.to_owned(),
                    row,
                    time: values[row],
                });
            }
            let grows = |pair: &[f64]| pair[0] < pair[1];
            match values.windows(2).position(|pair| !grows(pair)) {
                None => Ok(values),
                Some(before) => Err(Comma2k19Error::Order {
                    path: path.to_owned(),
                    row: before + 1,
                }),
            }
        }
        (got, _) => Err(Comma2k19Error::Shape {
            path: path.to_owned(),
            got,
            wanted: "a column of times".to_owned(),
        }),
    }
}

/// So many rows of `N` numbers.
fn rows<const N: usize>(path: &Path, n: usize) -> Result<Vec<[f64; N]>, Comma2k19Error> {
    let (shape, values) = numbers(path)?;
    let is_shape = shape == [n, N] || (N == 1 && shape == [n]);
    match values.filter(|_| is_shape) {
        Some(values) => {
            let rows = values.chunks_exact(N);
            Ok(rows
                .map(|row| row.try_into().unwrap_or([f64::NAN; N]))
                .collect())
        }
        None => Err(Comma2k19Error::Shape {
            path: path.to_owned(),
            got: shape,
            wanted: format!("{n} rows of {N} numbers"),
        }),
    }
}
