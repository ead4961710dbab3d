//! Readings with times.

/// Readings of one signal, sorted by time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<T> {
    times: Vec<u64>,
    values: Vec<T>,
}

/// A reading for a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<T> {
    /// What it is.
    pub value: T,
    /// How far the nearest reading that it is made of lies from the time, ns.
    pub away_ns: u64,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self {
            times: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<T> FromIterator<(u64, T)> for Series<T> {
    /// Sorts by time; of readings at the same time the first stays first.
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(readings: I) -> Self {
        let mut all: Vec<(u64, T)> = readings.into_iter().collect();
        all.sort_by_key(|(time, _)| *time);
        let (times, values) = all.into_iter().unzip();
        Self { times, values }
    }
}

impl<T> Series<T> {
    /// How many readings there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// When they were taken, ns, growing.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// What they are, in order of time.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The reading nearest to a time, the earlier of two as near; `None` if it lies further off than `most_ns`.
    pub fn nearest(&self, time: u64, most_ns: u64) -> Option<Reading<&T>> {
        let behind = self.times.partition_point(|it| *it < time);
        let candidates = [behind.checked_sub(1), Some(behind)];
        let found = candidates
            .into_iter()
            .flatten()
            .filter(|index| *index < self.len());
        let found = found.min_by_key(|index| (self.times[*index].abs_diff(time), *index))?;
        let away_ns = self.times[found].abs_diff(time);
        (away_ns <= most_ns).then(|| Reading {
            value: &self.values[found],
            away_ns,
        })
    }
}

impl Series<f64> {
    /// The value at a time on the line between the readings before and behind it; `None` outside them, and between readings
    /// further apart than `most_ns`.
    pub fn between(&self, time: u64, most_ns: u64) -> Option<Reading<f64>> {
        let behind = self.times.partition_point(|it| *it < time);
        if self.times.get(behind) == Some(&time) {
            return Some(Reading {
                value: self.values[behind],
                away_ns: 0,
            });
        }
        let before = behind.checked_sub(1)?;
        let (t0, t1) = (self.times[before], *self.times.get(behind)?);
        if t1 - t0 > most_ns {
            return None;
        }
        let share = (time - t0) as f64 / (t1 - t0) as f64;
        let (v0, v1) = (self.values[before], self.values[behind]);
        Some(Reading {
            value: v0 + (v1 - v0) * share,
            away_ns: (time - t0).min(t1 - time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_found_by_time() {
        let series: Series<f64> = [(30, 3.0), (10, 1.0), (20, 5.0)].into_iter().collect();
        assert_eq!(series.times(), [10, 20, 30]);
        let at = |time| series.between(time, 10).map(|it| (it.value, it.away_ns));
        assert_eq!(at(10), Some((1.0, 0)));
        assert_eq!(at(12), Some((1.8, 2)));
        assert_eq!(at(30), Some((3.0, 0)));
        assert_eq!((at(9), at(31)), (None, None));
        assert_eq!(series.between(12, 9), None);
        let near = |time, most| series.nearest(time, most).map(|it| *it.value);
        assert_eq!(
            (near(15, 5), near(16, 5), near(0, 9), near(99, 100)),
            (Some(1.0), Some(5.0), None, Some(3.0))
        );
        assert_eq!(Series::<f64>::default().nearest(0, u64::MAX), None);
    }
}
