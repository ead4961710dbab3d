//! Rows of a picture of bytes, laid so that what one tap reads for a row of results is one run of bytes.
//!
//! ```text
//! stride 1   | zero points | pixel 0 | pixel 1 | ... | zero points |    tap kx of result x: pixel x + kx
//! stride 2   even pixels, then odd ones                                  tap kx of result x: pixel x + kx / 2
//!                                                                        of phase kx % 2
//! ```
//!
//! Bytes are u8 here: signed ones have their highest bit turned over on the way. Channels are padded to `pitch`.

/// How rows are laid.
pub(super) struct RowLayout {
    /// Channels of a pixel.
    pub(super) channels: usize,
    /// Bytes from one pixel to the next.
    pub(super) pitch: usize,
    /// Pixels of a row of the picture.
    width: usize,
    /// Zero points before the first pixel.
    pad: usize,
    stride: usize,
    /// Which pixels of every `stride` are read at all.
    phases: Vec<usize>,
    /// Pixels of one phase.
    phase_len: usize,
    /// Where every tap of a row of the window begins, in bytes.
    pub(super) tap_offsets: Vec<usize>,
    /// Bytes behind the last phase that whole blocks read and nobody uses.
    slack: usize,
}

impl RowLayout {
    /// For a window of `taps` taps along a row, `dilation` apart, at `stride`, over a row of `width` pixels with
    /// `pad` more before it, and results of `result_width` pixels; blocks of `slack` bytes.
    pub(super) fn new(
        (channels, pitch): (usize, usize),
        (width, result_width): (usize, usize),
        (taps, dilation, stride, pad): (usize, usize, usize, usize),
        slack: usize,
    ) -> Self {
        let mut phases: Vec<usize> = (0..taps).map(|tap| tap * dilation % stride).collect();
        phases.sort_unstable();
        phases.dedup();
        let farthest = taps.saturating_sub(1) * dilation / stride;
        let phase_len = result_width + farthest;
        let offset = |tap: usize| {
            let at = tap * dilation;
            let phase = phases.iter().position(|&phase| phase == at % stride);
            (phase.unwrap_or(0) * phase_len + at / stride) * pitch
        };
        Self {
            channels,
            pitch,
            width,
            pad,
            stride,
            tap_offsets: (0..taps).map(offset).collect(),
            phases,
            phase_len,
            slack,
        }
    }

    /// Bytes of a row.
    pub(super) fn size_bytes(&self) -> usize {
        let pixels = self.phases.len().saturating_mul(self.phase_len);
        pixels.saturating_mul(self.pitch).saturating_add(self.slack)
    }

    /// Lays the row of pixels at `from`, `apart` bytes from one to the next, at `to`; `flip` turns bits over, `zero`
    /// stands for zero then.
    ///
    /// # Safety
    ///
    /// The channels of every pixel of the row must be readable, and `to` writable for [`RowLayout::size_bytes`].
    pub(super) unsafe fn lay(
        &self,
        from: *const u8,
        apart: isize,
        to: *mut u8,
        flip: u8,
        zero: u8,
    ) {
        // SAFETY: the caller vouches for the row.
        let row = unsafe { std::slice::from_raw_parts_mut(to, self.size_bytes()) };
        let of_phase = self.phase_len * self.pitch;
        for (phase, row) in self
            .phases
            .iter()
            .zip(row.chunks_exact_mut(of_phase.max(1)))
        {
            // Positions of this phase that lie on pixels of the picture: pad <= position < pad + width.
            let before = |end: usize| end.saturating_sub(*phase).div_ceil(self.stride);
            let first = before(self.pad).min(self.phase_len);
            let last = before(self.pad + self.width).min(self.phase_len);
            let (head, rest) = row.split_at_mut(first * self.pitch);
            let (pixels, tail) = rest.split_at_mut((last - first) * self.pitch);
            head.fill(zero);
            tail.fill(zero);
            let x = (first * self.stride + phase) as isize - self.pad as isize;
            let from = from.wrapping_offset(x * apart);
            let is_dense = apart == self.pitch as isize && self.channels == self.pitch;
            if is_dense && self.stride == 1 {
                // SAFETY: pixels of the picture that lie side by side.
                let from = unsafe { std::slice::from_raw_parts(from, pixels.len()) };
                turned(pixels, from, flip);
                continue;
            }
            let apart = self.stride as isize * apart;
            for (at, pixel) in pixels.chunks_exact_mut(self.pitch).enumerate() {
                let from = from.wrapping_offset(at as isize * apart);
                // SAFETY: a pixel of the picture.
                let from = unsafe { std::slice::from_raw_parts(from, self.channels) };
                turned(&mut pixel[..self.channels], from, flip);
                pixel[self.channels..].fill(zero);
            }
        }
    }
}

/// `to = from ^ flip`.
fn turned(to: &mut [u8], from: &[u8], flip: u8) {
    if flip == 0 {
        to.copy_from_slice(from);
        return;
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = from ^ flip;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tap `tap` reads for result `x`, by the definition of a convolution.
    fn expected(
        row: &[u8],
        tap: usize,
        x: usize,
        dilation: usize,
        stride: usize,
        pad: usize,
    ) -> u8 {
        let at = (x * stride + tap * dilation).checked_sub(pad);
        at.and_then(|at| row.get(at))
            .map_or(77, |&byte| byte ^ 0x80)
    }

    #[test]
    fn every_tap_of_every_result_is_where_the_layout_says() {
        let row: Vec<u8> = (0..13).collect();
        for (taps, dilation, stride, pad, extra) in [
            (3, 1, 1, 1, 1),
            (3, 1, 2, 1, 0),
            (5, 2, 3, 4, 4),
            (1, 1, 2, 0, 0),
            (2, 5, 4, 9, 30),
            (4, 3, 1, 0, 20),
        ] {
            let span = (taps - 1) * dilation + 1;
            let result_width = (row.len() + pad + extra - span) / stride + 1;
            let shape = (taps, dilation, stride, pad);
            let layout = RowLayout::new((1, 4), (row.len(), result_width), shape, 64);
            let mut laid = vec![0; layout.size_bytes()];
            // SAFETY: the row has as many pixels, the result as many bytes.
            unsafe { layout.lay(row.as_ptr(), 1, laid.as_mut_ptr(), 0x80, 77) };
            for tap in 0..taps {
                for x in 0..result_width {
                    let got = laid[layout.tap_offsets[tap] + 4 * x];
                    let want = expected(&row, tap, x, dilation, stride, pad);
                    assert_eq!(got, want, "tap {tap} of {x}: {shape:?}");
                }
            }
        }
    }
}
