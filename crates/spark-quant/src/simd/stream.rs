//! Results that no cache can hold, written past the caches.
//!
//! ```text
//! fill --> scratch (4 KiB, stays in the first cache) --whole aligned lines--> memory
//! ```
//!
//! A plain store first reads the line it changes; a streamed one does not, but must write whole lines
//! at their own addresses. Large allocations rarely start at a line, so what a line is missing waits in
//! the scratch for the next piece.

use super::{Cpu, Kernel, Simd};

/// Values filled at a time.
const PIECE: usize = 1024;
/// Values of a cache line.
const LINE: usize = 16;

/// Fills `dst` through `fill(first index, piece)`, streaming. Pieces start at multiples of 1024 and
/// are 1024 long, except the last.
pub(crate) fn stream_out(cpu: Cpu, dst: &mut [f32], mut fill: impl FnMut(usize, &mut [f32])) {
    let mut scratch = [0.0; PIECE + LINE];
    // Values before the first line of `dst` go out plainly.
    let mut to_line = dst.as_ptr().addr().wrapping_neg() % (4 * LINE) / 4;
    let (mut waiting, mut written) = (0, 0);
    for first in (0..dst.len()).step_by(PIECE) {
        let n = PIECE.min(dst.len() - first);
        fill(first, &mut scratch[waiting..waiting + n]);
        let n_held = waiting + n;
        let head = to_line.min(n_held);
        dst[written..written + head].copy_from_slice(&scratch[..head]);
        to_line -= head;
        let n_lines = (n_held - head) / LINE * LINE;
        let src = &scratch[head..head + n_lines];
        cpu.run(Copy {
            src,
            dst: &mut dst[written + head..written + head + n_lines],
        });
        scratch.copy_within(head + n_lines..n_held, 0);
        waiting = n_held - head - n_lines;
        written += head + n_lines;
    }
    dst[written..].copy_from_slice(&scratch[..waiting]);
}

struct Copy<'a> {
    src: &'a [f32],
    dst: &'a mut [f32],
}

impl Kernel for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (src, dst) in self
            .src
            .as_chunks::<16>()
            .0
            .iter()
            .zip(self.dst.as_chunks_mut::<16>().0)
        {
            s.stream(s.load(src), dst);
        }
        s.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_arrives_at_every_alignment() {
        for cpu in Cpu::every_level() {
            for offset in 0..17 {
                for n in [0, 1, 15, 16, 17, 1023, 1024, 1025, 2048 + 5, 5000] {
                    let mut memory = vec![-1.0; offset + n + 3];
                    stream_out(cpu, &mut memory[offset..offset + n], |first, piece| {
                        assert!(first.is_multiple_of(PIECE) && piece.len() == PIECE.min(n - first));
                        piece
                            .iter_mut()
                            .enumerate()
                            .for_each(|(i, x)| *x = (first + i) as f32);
                    });
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
                        cpu.level().name()
                    );
                }
            }
        }
    }
}
