//! Results that no cache can hold, written past the caches.
//!
//! ```text
//! vectors     |   v0   |   v1   |   v2   |         as the kernel makes them
//! memory    ..|..h |  line  |  line  |  ...        lines start h values later
//! line k = last 16 - h values of v_k, first h values of v_k+1
//! ```
//!
//! A plain store first reads the line it changes; a streamed one does not, but must write whole lines
//! at their own addresses. Large allocations rarely start at a line, so one vector is held back and
//! joined with the next.

use super::lanes::Simd;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Values of `dst` before its first whole line; nothing if lines do not begin between values.
pub(crate) fn values_before_line<T>(dst: &[T]) -> Option<usize> {
    let bytes = dst.as_ptr().addr().wrapping_neg() % LINE_BYTES;
    let is_between = bytes.is_multiple_of(size_of::<T>());
    is_between.then(|| (bytes / size_of::<T>()).min(dst.len()))
}

/// Takes vectors in order and writes them to a slice.
pub(crate) struct Sink<'a, S: Simd> {
    dst: &'a mut [f32],
    /// Vectors taken so far.
    n_vectors: usize,
    /// Values before the first line.
    head: usize,
    held: S::F,
    streams: bool,
}

impl<'a, S: Simd> Sink<'a, S> {
    /// A sink into `dst`; streams if asked to and if the level can.
    #[inline(always)]
    pub(crate) fn new(s: S, dst: &'a mut [f32], stream: bool) -> Self {
        let head = dst.as_ptr().addr().wrapping_neg() % LINE_BYTES / size_of::<f32>();
        Self {
            dst,
            n_vectors: 0,
            head,
            held: s.splat(0.0),
            streams: stream && S::STREAMS,
        }
    }

    /// The next sixteen values.
    #[inline(always)]
    pub(crate) fn put(&mut self, s: S, value: S::F) {
        if self.streams && self.n_vectors > 0 {
            let at = self.head + 16 * (self.n_vectors - 1);
            let line = self.dst[at..]
                .first_chunk_mut()
                .expect("room for every vector");
            s.stream(s.join(self.held, value, self.head), line);
        } else {
            let at = 16 * self.n_vectors;
            s.store(
                value,
                self.dst[at..]
                    .first_chunk_mut()
                    .expect("room for every vector"),
            );
        }
        self.held = value;
        self.n_vectors += 1;
    }

    /// Writes what is held back; returns the part of the slice that no vector went to.
    #[inline(always)]
    pub(crate) fn finish(self, s: S) -> &'a mut [f32] {
        let (done, rest) = self.dst.split_at_mut(16 * self.n_vectors);
        if self.streams {
            // Some of these values are in the last line already; they are the same.
            if let Some(last) = done.last_chunk_mut() {
                s.store(self.held, last);
            }
            s.fence();
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{ExecutionPolicy, Kernel};

    struct Count<'a>(&'a mut [f32], bool);

    impl Kernel for Count<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let n_vectors = self.0.len() / 16;
            let mut sink = Sink::new(s, self.0, self.1);
            for first in (0..n_vectors).map(|vector| 16 * vector) {
                let values: [f32; 16] = std::array::from_fn(|lane| (first + lane) as f32);
                sink.put(s, s.load(&values));
            }
            let rest = sink.finish(s);
            rest.iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = (16 * n_vectors + i) as f32);
        }
    }

    #[test]
    fn every_value_arrives_at_every_alignment() {
        for policy in ExecutionPolicy::every_level() {
            for stream in [false, true] {
                for offset in 0..17 {
                    for n in [0, 1, 15, 16, 17, 31, 32, 33, 64, 250] {
                        let mut memory = vec![-1.0; offset + n + 3];
                        policy.run(Count(&mut memory[offset..offset + n], stream));
                        let inside = memory[offset..offset + n]
                            .iter()
                            .enumerate()
                            .all(|(i, x)| *x == i as f32);
                        let outside = memory[..offset]
                            .iter()
                            .chain(&memory[offset + n..])
                            .all(|x| *x == -1.0);
                        assert!(
                            inside && outside,
                            "{n} values at offset {offset} on {}",
                            policy.level().name()
                        );
                    }
                }
            }
        }
    }
}
