//! How long updates took: a histogram of fixed size, whatever the number of updates.
//!
//! Buckets are a sixteenth of an octave wide, so a percentile is within 4.5 %.

use serde::{Deserialize, Serialize};

const BUCKETS_PER_OCTAVE: f64 = 16.0;
const N_BUCKETS: usize = 16 * 40;

/// Wall-clock time of one update, divided by the scenarios in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Latency {
    counts: Vec<u64>,
    n_updates: u64,
    sum_ns: f64,
    max_ns: f64,
}

/// As it is written: buckets that are empty are left out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    n_updates: u64,
    sum_ns: f64,
    max_ns: f64,
    /// Place and count.
    buckets: Vec<(usize, u64)>,
}

impl From<Latency> for Written {
    fn from(latency: Latency) -> Self {
        let filled = latency.counts.into_iter().enumerate();
        Self {
            n_updates: latency.n_updates,
            sum_ns: latency.sum_ns,
            max_ns: latency.max_ns,
            buckets: filled.filter(|&(_, count)| count > 0).collect(),
        }
    }
}

impl TryFrom<Written> for Latency {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let mut latency = Self {
            n_updates: written.n_updates,
            sum_ns: written.sum_ns,
            max_ns: written.max_ns,
            ..Self::default()
        };
        let mut n_updates = Some(0_u64);
        for (bucket, n) in written.buckets {
            let count = latency.counts.get_mut(bucket);
            let count = count.filter(|count| **count == 0 && n > 0);
            *count.ok_or("a bucket of update times is none, or there twice")? = n;
            n_updates = n_updates.and_then(|sum| sum.checked_add(n));
        }
        match n_updates == Some(latency.n_updates) {
            true => Ok(latency),
            false => Err("the buckets hold another number of update times"),
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            counts: vec![0; N_BUCKETS],
            n_updates: 0,
            sum_ns: 0.0,
            max_ns: 0.0,
        }
    }
}

impl Latency {
    pub(super) fn record(&mut self, ns: f64) {
        let bucket = (ns.max(1.0).log2() * BUCKETS_PER_OCTAVE) as usize;
        self.counts[bucket.min(N_BUCKETS - 1)] += 1;
        self.n_updates += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.n_updates += other.n_updates;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of updates that were timed.
    pub fn n_updates(&self) -> u64 {
        self.n_updates
    }

    /// ms; `None` before the first update.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.n_updates > 0).then(|| self.sum_ns / self.n_updates as f64 * 1e-6)
    }

    /// The longest update, ms; `None` before the first.
    pub fn max_ms(&self) -> Option<f64> {
        (self.n_updates > 0).then_some(self.max_ns * 1e-6)
    }

    /// ms, for a percentile in 0 to 100.
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        let wanted = (percentile / 100.0 * self.n_updates as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && self.n_updates > 0 {
                let middle = (bucket as f64 + 0.5) / BUCKETS_PER_OCTAVE;
                return Some((middle.exp2() * 1e-6).min(self.max_ns * 1e-6));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bucket() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile_ms(50.0), None);
        for i in 1..=1000 {
            latency.record(f64::from(i) * 1e3);
        }
        let p50 = latency.percentile_ms(50.0).expect("updates");
        let p99 = latency.percentile_ms(99.0).expect("updates");
        assert!((p50 / 0.5 - 1.0).abs() < 0.05, "{p50}");
        assert!((p99 / 0.99 - 1.0).abs() < 0.05, "{p99}");
        assert_eq!(latency.max_ms(), Some(1.0));
    }

    #[test]
    fn times_are_read_back_and_counts_that_cannot_be_are_refused() {
        let mut latency = Latency::default();
        for ns in [1.0, 1e3, 1.1e3, 5e8] {
            latency.record(ns);
        }
        let text = serde_json::to_string(&latency).expect("expressible");
        assert!(text.len() < 200, "empty buckets are left out: {text}");
        let back: Latency = serde_json::from_str(&text).expect("times");
        assert_eq!(back, latency);
        let half = 1_u64 << 63;
        for (n, buckets) in [
            (2, "[[0,1]]".to_owned()),
            (2, "[[0,1],[0,1]]".to_owned()),
            (1, format!("[[{N_BUCKETS},1]]")),
            (0, "[[0,0]]".to_owned()),
            (u64::MAX, format!("[[0,{half}],[1,{half}]]")),
        ] {
            let text =
                format!(r#"{{"n_updates":{n},"sum_ns":1.0,"max_ns":1.0,"buckets":{buckets}}}"#);
            assert!(serde_json::from_str::<Latency>(&text).is_err(), "{text}");
        }
    }
}
