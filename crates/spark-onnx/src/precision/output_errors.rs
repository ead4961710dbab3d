//! How far the outputs of a network in fewer bits are from those in f32, part by part.
//!
//! ```text
//! part p:   noise[p] = sum (got - want)^2     signal[p] = sum want^2      over all values and runs
//! total     sum of all signals / sum of all noises       what large values decide
//! mean      1 / mean over p of (noise[p] / signal[p])     every part counts the same, however small its values
//! ```

use std::ops::Range;

use super::OutputParts;

/// Sums of squares by part of the outputs, over any number of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputErrors {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    /// Which output, and where in it.
    output: usize,
    range: Range<usize>,
    noise: f64,
    signal: f64,
}

impl OutputErrors {
    /// Of outputs with these names and lengths. `parts` are those of every output that has as many values as they were
    /// made for; any other output, and without `parts` every output, is one part.
    pub fn new<'a>(
        outputs: impl IntoIterator<Item = (&'a str, usize)>,
        parts: Option<&OutputParts>,
    ) -> Self {
        let mut all = Vec::new();
        for (output, (name, len)) in outputs.into_iter().enumerate() {
            let named = parts.filter(|parts| parts.output_len() == len);
            let whole = [(name.to_owned(), 0..len)];
            let parts = named.map_or(&whole[..], |parts| parts.parts());
            all.extend(parts.iter().map(|(name, range)| Part {
                name: name.clone(),
                output,
                range: range.clone(),
                noise: 0.0,
                signal: 0.0,
            }));
        }
        Self { parts: all }
    }

    /// Adds one run: by output, what came out and what should have. Values that either lacks are left out.
    pub fn add(&mut self, got: &[Vec<f32>], want: &[Vec<f32>]) {
        for part in &mut self.parts {
            let values = |of: &'_ [Vec<f32>]| -> Vec<f32> {
                let output = of.get(part.output).map_or(&[][..], Vec::as_slice);
                let end = part.range.end.min(output.len());
                output[part.range.start.min(end)..end].to_vec()
            };
            let (mut noise, mut signal) = (0.0f64, 0.0f64);
            for (g, w) in values(got).into_iter().zip(values(want)) {
                let (g, w) = (f64::from(g), f64::from(w));
                noise += (g - w) * (g - w);
                signal += w * w;
            }
            part.noise += noise;
            part.signal += signal;
        }
    }

    /// Mean over parts of noise to signal, as a ratio; a part of zeros counts by its noise alone.
    pub fn mean_ratio(&self) -> f64 {
        let ratios = self.parts.iter().map(Part::ratio);
        ratios.sum::<f64>() / self.parts.len().max(1) as f64
    }

    /// The same as signal to noise in decibels.
    pub fn mean_db(&self) -> f64 {
        decibels(self.mean_ratio())
    }

    /// Signal to noise of all values together, in decibels.
    pub fn total_db(&self) -> f64 {
        let sum = |of: fn(&Part) -> f64| self.parts.iter().map(of).sum::<f64>();
        decibels(sum(|part| part.noise) / sum(|part| part.signal))
    }

    /// Name and signal to noise in decibels of every part.
    pub fn by_part(&self) -> impl Iterator<Item = (&str, f64)> {
        let parts = self.parts.iter();
        parts.map(|part| (part.name.as_str(), decibels(part.ratio())))
    }
}

impl Part {
    fn ratio(&self) -> f64 {
        match self.signal > 0.0 {
            true => self.noise / self.signal,
            false => self.noise,
        }
    }
}

/// A ratio of noise to signal as decibels of signal to noise.
pub(crate) fn decibels(ratio: f64) -> f64 {
    -10.0 * ratio.log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts_the_same_in_the_mean_and_by_its_size_in_the_total() {
        let parts = vec![("small".to_owned(), 0..1), ("large".to_owned(), 1..3)];
        let parts = OutputParts::new(3, parts).expect("inside");
        let mut errors = OutputErrors::new([("y", 3)], Some(&parts));
        errors.add(&[vec![0.5, 10.0, 0.0]], &[vec![1.0, 10.0, 0.0]]);
        errors.add(&[vec![1.0, 10.0, 1.0]], &[vec![1.0, 10.0, 0.0]]);
        // small: 0.25 / 2, large: 1 / 200
        let mean = (0.125 + 0.005) / 2.0;
        assert!((errors.mean_ratio() - mean).abs() < 1e-12);
        let total = -10.0 * f64::log10(1.25 / 202.0);
        assert!((errors.total_db() - total).abs() < 1e-9);
        let names: Vec<_> = errors.by_part().map(|(name, _)| name).collect();
        assert_eq!(names, ["small", "large"]);
    }

    #[test]
    fn outputs_of_another_length_are_one_part_and_nan_is_never_good() {
        let parts = OutputParts::new(3, vec![("a".to_owned(), 0..3)]).expect("inside");
        let mut errors = OutputErrors::new([("y", 2), ("z", 3)], Some(&parts));
        errors.add(
            &[vec![f32::NAN, 1.0], vec![0.0; 3]],
            &[vec![1.0, 1.0], vec![0.0; 3]],
        );
        let names: Vec<_> = errors.by_part().map(|(name, _)| name).collect();
        assert_eq!(names, ["y", "a"]);
        assert!(errors.mean_db().is_nan() && errors.total_db().is_nan());
    }
}
