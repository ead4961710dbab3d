//! From statistics to the scale of a format, and what that choice costs.
//!
//! ```text
//! Observer --ScaleMethod--> clipping range [low, high] --StaticFormat--> scale, zero point
//!                                                     \----------------> expected error, SQNR
//!
//! E4M3, E5M2, INT8  scale = clip / 448, 57344, 127              value = code * scale
//! NVFP4             scale = clip / (6 * 448), of the tensor; each block of 16 has its own besides
//! asymmetric bytes  scale = (high - low) / 255                  value = (code - zero point) * scale
//!                   zero point = round(lowest code - low / scale)
//! ```
//!
//! Formulas: NVIDIA ModelOpt (`amax / maxbound`, `amax / (6 * 448)`), onnxruntime's `compute_scale_zp`; both
//! divide in such a way that zero is a code. The search looks at 64 clipping magnitudes per octave, 1.1 % apart,
//! from the largest down to 1/4096 of it (8 per octave for NVFP4), then at sixteenths of a step around the best. The
//! two ends of an asymmetric range are searched in turns, at most four times.

use crate::block::ScaleSearch;
use crate::block::nvfp4::tensor_scale;
use crate::block::plain::Element;
use crate::error::QuantError;
use crate::scalar::{MiniFormat, NanCode, Overflow};

use super::entropy;
use super::noise::{Cumulative, positive_levels};
use super::observer::{Observer, Statistics};

/// Octaves below the largest magnitude that searches look at.
const SEARCHED_OCTAVES: i32 = 12;
/// Parts of a step that are looked at around the best one.
const FINE_STEPS: i32 = 16;
/// Rounds in which the two ends of a range are searched in turns.
const MAX_ROUNDS: usize = 4;

/// A format whose scale is fixed before it sees the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum StaticFormat {
    /// FP8 E4M3, largest value 448.
    E4m3,
    /// FP8 E5M2, largest value 57344.
    E5m2,
    /// Signed bytes -127..=127, zero point 0.
    Int8,
    /// Signed bytes -128..=127 with a zero point.
    Int8Asymmetric,
    /// Unsigned bytes 0..=255 with a zero point.
    Uint8Asymmetric,
    /// NVFP4: the static scale is that of the tensor, blocks of 16 find their own E4M3 scale in it.
    Nvfp4,
}

/// How the range beyond which values are clipped is chosen.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum ScaleMethod {
    /// Nothing is clipped.
    MaxAbs,
    /// So many percent of the magnitudes are not clipped, from above 0 to 100; 99.99 is a usual choice. Of
    /// an asymmetric format, half of the rest is cut off at either end, as onnxruntime does. Exact to a
    /// bin, at most 1/2048 of the largest magnitude.
    Percentile(f64),
    /// The range with the smallest expected squared error.
    MeanSquaredError,
    /// TensorRT's choice for eight-bit integers: the smallest divergence between the values and themselves
    /// in 128 steps.
    Entropy,
}

/// A scale that was chosen, and what is to be expected of it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StaticScale {
    /// The format that the scale is for.
    pub format: StaticFormat,
    /// What a code, less the zero point, is multiplied by; above zero. For NVFP4 that of the tensor.
    pub scale: f32,
    /// The code that stands for zero; 0 for all formats but the asymmetric ones.
    pub zero_point: i32,
    /// The range that was chosen: what is outside is clipped. Zero lies in it.
    pub range: [f32; 2],
    /// Mean of the squares of the values that were observed.
    pub signal: f64,
    /// Expected mean squared error.
    pub noise: f64,
    /// Share of the values that lie outside of the range, to a bin.
    pub clipped: f64,
}

impl StaticScale {
    /// Expected signal to noise in decibels; infinite without any error, as when all values are zero.
    ///
    /// Within 0.1 dB of what every sample gives where the largest magnitude is up to some hundred times the
    /// deviation. An outlier beyond that leaves the others in a few bins, and formats seem worse than they are: by 1 dB at
    /// 3000 times, by 9 to 13 dB at 30,000.
    pub fn sqnr_db(&self) -> f64 {
        if self.noise == 0.0 {
            f64::INFINITY
        } else {
            10.0 * (self.signal / self.noise).log10()
        }
    }

    /// A value after the round trip through the format, under this scale.
    ///
    /// # Conversion
    ///
    /// To nearest, ties to the even code; beyond the largest code the largest; NaN as the format has it,
    /// which is NaN for FP8 and the zero point for integers. For [`StaticFormat::Nvfp4`], whose values are
    /// not converted one by one, a block that holds this value alone.
    pub fn round_trip(&self, value: f32) -> f32 {
        let float = |format: MiniFormat, scale: f32| {
            let code = format.encode(value / scale, Overflow::Saturate, NanCode::default());
            format.decode(code) * scale
        };
        match self.format {
            StaticFormat::E4m3 => float(MiniFormat::E4m3, self.scale),
            StaticFormat::E5m2 => float(MiniFormat::E5m2, self.scale),
            StaticFormat::Nvfp4 => {
                let (low, _) =
                    crate::block::nvfp4::scale_limits(crate::block::Nvfp4Formula::ModelOpt);
                let block = (value.abs() / (6.0 * self.scale)).clamp(low, 448.0);
                let code = MiniFormat::E4m3.encode(block, Overflow::Saturate, NanCode::default());
                float(MiniFormat::E2m1, MiniFormat::E4m3.decode(code) * self.scale)
            }
            StaticFormat::Int8 | StaticFormat::Int8Asymmetric | StaticFormat::Uint8Asymmetric => {
                let [lowest, highest] = self.format.codes().map(|code| code as f32);
                let zero_point = self.zero_point as f32;
                let code = (value / self.scale).round_ties_even() + zero_point;
                let code = if code.is_nan() {
                    zero_point
                } else {
                    code.clamp(lowest, highest)
                };
                (code - zero_point) * self.scale
            }
        }
    }
}

impl StaticFormat {
    /// All formats.
    pub const ALL: [Self; 6] = [
        Self::E4m3,
        Self::E5m2,
        Self::Int8,
        Self::Int8Asymmetric,
        Self::Uint8Asymmetric,
        Self::Nvfp4,
    ];

    /// Whether the two ends of the range are chosen apart.
    pub const fn is_asymmetric(self) -> bool {
        matches!(self, Self::Int8Asymmetric | Self::Uint8Asymmetric)
    }

    /// Smallest and largest code of an integer format.
    const fn codes(self) -> [i32; 2] {
        match self {
            Self::Uint8Asymmetric => [0, 255],
            Self::Int8Asymmetric => [-128, 127],
            _ => [-127, 127],
        }
    }

    /// Scale and zero point for a range.
    ///
    /// The range is widened to hold zero; symmetric formats take the larger of its magnitudes. A range of
    /// nothing but zero has scale 1. The scale is never zero: at least the smallest normal f32 (`2^-112`
    /// for NVFP4; asymmetric formats then have scale 1 and zero point 0, as onnxruntime has it).
    ///
    /// # Errors
    ///
    /// [`QuantError::NotFinite`] with the position of the end that is not.
    pub fn parameters(self, range: [f32; 2]) -> Result<(f32, i32), QuantError> {
        if let Some(index) = range.iter().position(|end| !end.is_finite()) {
            return Err(QuantError::NotFinite {
                index,
                value: range[index],
            });
        }
        let [low, high] = [range[0].min(0.0), range[1].max(0.0)];
        let clip = high.max(-low);
        Ok(match self {
            Self::E4m3 => (Element::Float(MiniFormat::E4m3).scale(clip), 0),
            Self::E5m2 => (Element::Float(MiniFormat::E5m2).scale(clip), 0),
            Self::Int8 => (Element::Int8.scale(clip), 0),
            Self::Nvfp4 => (tensor_scale(clip, ScaleSearch::Amax), 0),
            Self::Int8Asymmetric | Self::Uint8Asymmetric => {
                let [lowest, highest] = self.codes().map(f64::from);
                let scale = (f64::from(high) - f64::from(low)) / (highest - lowest);
                if scale < f64::from(f32::MIN_POSITIVE) {
                    (1.0, 0)
                } else {
                    let zero_point = (lowest - f64::from(low) / scale).round_ties_even();
                    (scale as f32, zero_point.clamp(lowest, highest) as i32)
                }
            }
        })
    }
}

impl ScaleMethod {
    /// The range that this method chooses for a format, with its scale and expected error.
    ///
    /// # Errors
    ///
    /// [`QuantError::Calibration`] if no finite value was observed, or for a percentile that is not above 0
    /// and at most 100.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_quant::ExecutionPolicy;
    /// use spark_quant::calibration::{Observer, ScaleMethod, StaticFormat};
    ///
    /// let mut values: Vec<f32> = (0..10_000).map(|i| (i as f32 * 0.7).sin()).collect();
    /// values[77] = 100.0;
    /// let mut observer = Observer::new(1);
    /// observer.observe(ExecutionPolicy::detect(), &values)?;
    /// let all = ScaleMethod::MaxAbs.choose(&observer, StaticFormat::Int8)?;
    /// let most = ScaleMethod::Percentile(99.9).choose(&observer, StaticFormat::Int8)?;
    /// assert_eq!(all.scale, 100.0 / 127.0);
    /// assert!(most.range[1] < 1.1);
    /// # Ok::<(), spark_quant::QuantError>(())
    /// ```
    pub fn choose(
        self,
        observer: &Observer,
        format: StaticFormat,
    ) -> Result<StaticScale, QuantError> {
        let expectation = Expectation::new(observer, format)?;
        let all = expectation.all();
        let range = match self {
            Self::MaxAbs => all,
            Self::Percentile(percent) => expectation.percentile(percent)?,
            Self::MeanSquaredError => expectation.search()?,
            Self::Entropy => expectation.entropy(),
        };
        expectation.of_range(range)
    }
}

impl StaticScale {
    /// What is to be expected of a range that was chosen elsewhere.
    ///
    /// # Errors
    ///
    /// [`QuantError::Calibration`] if no finite value was observed, [`QuantError::NotFinite`] if an end of
    /// the range is not.
    pub fn of_range(
        observer: &Observer,
        format: StaticFormat,
        range: [f32; 2],
    ) -> Result<Self, QuantError> {
        Expectation::new(observer, format)?.of_range(range)
    }
}

/// What one format makes of what was observed.
struct Expectation<'a> {
    format: StaticFormat,
    observer: &'a Observer,
    tensor: Statistics,
    /// Magnitudes of negative and positive values; of a symmetric format, all of them in one.
    sides: Vec<Cumulative>,
    width: f64,
}

impl<'a> Expectation<'a> {
    fn new(observer: &'a Observer, format: StaticFormat) -> Result<Self, QuantError> {
        let tensor = observer.tensor();
        if tensor.n_values == 0 {
            return Err(QuantError::Calibration {
                what: "number of finite values that were observed",
                got: 0.0,
                want: "at least one",
            });
        }
        let histogram = observer.histogram();
        let [negative, positive] = [histogram.negative(), histogram.positive()];
        let sides = if format.is_asymmetric() {
            vec![
                Cumulative::new(negative.iter().copied(), 0),
                Cumulative::new(positive.iter().copied(), 0),
            ]
        } else {
            vec![Cumulative::new(
                magnitudes(observer).into_iter(),
                histogram.zeros(),
            )]
        };
        Ok(Self {
            format,
            observer,
            tensor,
            sides,
            width: histogram.width(),
        })
    }

    /// The range in which every value lies.
    fn all(&self) -> [f32; 2] {
        self.within(f64::INFINITY)
    }

    /// The part of the range that lies within a magnitude.
    fn within(&self, clip: f64) -> [f32; 2] {
        let [low, high] = if self.format.is_asymmetric() {
            [self.tensor.min.min(0.0), self.tensor.max.max(0.0)]
        } else {
            [-self.tensor.max_abs(), self.tensor.max_abs()]
        };
        let at_most = |end: f32| f64::from(end).min(clip) as f32;
        [-at_most(-low) + 0.0, at_most(high)]
    }

    fn percentile(&self, percent: f64) -> Result<[f32; 2], QuantError> {
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(QuantError::Calibration {
                what: "percentile",
                got: percent,
                want: "a number above 0 and at most 100",
            });
        }
        let n_values = self.tensor.n_values as f64;
        let [all_low, all_high] = self.all();
        if let [both] = self.sides.as_slice() {
            let clip = both.quantile(n_values * percent / 100.0) * self.width;
            return Ok(self.within(clip));
        }
        let cut = n_values * (100.0 - percent) / 200.0;
        let end = |side: &Cumulative| {
            // Less than none: all values of this sign are cut off.
            side.quantile((side.total() - cut).max(0.0)) * self.width
        };
        let low = -(end(&self.sides[0]).min(f64::from(-all_low)) as f32) + 0.0;
        Ok([low, end(&self.sides[1]).min(f64::from(all_high)) as f32])
    }

    fn entropy(&self) -> [f32; 2] {
        match entropy::clipping_edge(&magnitudes(self.observer)) {
            Some(edge) => self.within(edge as f64 * self.width),
            None => self.all(),
        }
    }

    /// The range with the smallest expected error.
    fn search(&self) -> Result<[f32; 2], QuantError> {
        let steps_per_octave = if self.format == StaticFormat::Nvfp4 {
            8
        } else {
            64
        };
        let power =
            |step: i32, per_octave: i32| (-f64::from(step) / f64::from(per_octave)).exp2() as f32;
        let coarse: Vec<f32> = (0..=SEARCHED_OCTAVES * steps_per_octave)
            .map(|step| power(step, steps_per_octave))
            .collect();
        let fine: Vec<f32> = (-FINE_STEPS..=FINE_STEPS)
            .map(|step| power(step, steps_per_octave * FINE_STEPS))
            .collect();
        let all = self.all();
        let mut best = (self.error_of_range(all)?, all);
        let ends: &[[bool; 2]] = if self.format.is_asymmetric() {
            &[[false, true], [true, false]]
        } else {
            &[[true, true]]
        };
        for _ in 0..if self.format.is_asymmetric() {
            MAX_ROUNDS
        } else {
            1
        } {
            let before = best.0;
            for &moved in ends {
                self.try_factors(&mut best, all, moved, &coarse)?;
            }
            if best.0 >= before {
                break;
            }
        }
        for &moved in ends {
            let around = best.1;
            self.try_factors(&mut best, around, moved, &fine)?;
        }
        Ok(best.1)
    }

    /// Moves the ends that are said to the multiples of `base` that are in the list, and keeps the best range.
    fn try_factors(
        &self,
        best: &mut (f64, [f32; 2]),
        base: [f32; 2],
        moved: [bool; 2],
        factors: &[f32],
    ) -> Result<(), QuantError> {
        let (start, all) = (best.1, self.all());
        for factor in factors {
            let mut range = start;
            for end in [0, 1].into_iter().filter(|&end| moved[end]) {
                range[end] = (base[end] * factor).clamp(all[0], all[1]);
            }
            let error = self.error_of_range(range)?;
            if error < best.0 {
                *best = (error, range);
            }
        }
        Ok(())
    }

    fn error_of_range(&self, range: [f32; 2]) -> Result<f64, QuantError> {
        let (scale, zero_point) = self.format.parameters(range)?;
        Ok(self.error(scale, zero_point))
    }

    /// Expected sum of squared errors, in squares of a bin's width.
    fn error(&self, scale: f32, zero_point: i32) -> f64 {
        let scale = f64::from(scale) / self.width;
        let float = |format| {
            self.sides[0].error_of_levels(positive_levels(format).map(|level| level * scale))
        };
        let integer = |side: &Cumulative, largest: i32| {
            side.error_of_levels((0..=largest).map(|level| f64::from(level) * scale))
        };
        match self.format {
            StaticFormat::E4m3 => float(MiniFormat::E4m3),
            StaticFormat::E5m2 => float(MiniFormat::E5m2),
            StaticFormat::Nvfp4 => self.sides[0].error_of_nvfp4(scale),
            StaticFormat::Int8 => integer(&self.sides[0], 127),
            StaticFormat::Int8Asymmetric | StaticFormat::Uint8Asymmetric => {
                let [lowest, highest] = self.format.codes();
                integer(&self.sides[0], zero_point - lowest)
                    + integer(&self.sides[1], highest - zero_point)
            }
        }
    }

    fn of_range(&self, range: [f32; 2]) -> Result<StaticScale, QuantError> {
        let (scale, zero_point) = self.format.parameters(range)?;
        let range = [range[0].min(0.0), range[1].max(0.0)];
        let clip = range[1].max(-range[0]);
        let all = self.all();
        let above = |side: &Cumulative, end: f32, all: f32| {
            if end >= all {
                0.0
            } else {
                side.above(f64::from(end) / self.width)
            }
        };
        let clipped = match self.sides.as_slice() {
            [negative, positive] => {
                above(negative, -range[0], -all[0]) + above(positive, range[1], all[1])
            }
            sides => above(&sides[0], clip, all[1]),
        };
        let n_values = self.tensor.n_values as f64;
        Ok(StaticScale {
            format: self.format,
            scale,
            zero_point,
            range,
            signal: self.tensor.mean_square,
            noise: self.error(scale, zero_point) / n_values * self.width * self.width,
            clipped: clipped / n_values,
        })
    }
}

/// Counts of magnitudes, whatever their sign.
fn magnitudes(observer: &Observer) -> Vec<u64> {
    let histogram = observer.histogram();
    let both = histogram.positive().iter().zip(histogram.negative());
    both.map(|(positive, negative)| positive.saturating_add(*negative))
        .collect()
}
