//! How fast one thread reads and writes memory: what the other cases are compared with.

#[cfg(target_arch = "x86_64")]
use spark_simd::{InstructionSet, Isa};

/// Largest bit pattern of a slice: a read that the compiler cannot leave out. Four pages side by side,
/// requested sixteen kilobytes ahead: of the orders tried the one that this processor reads fastest in.
#[cfg(target_arch = "x86_64")]
pub(crate) fn read(values: &[f32]) -> u32 {
    const PAGE: usize = 1024;
    const LINE: usize = 16;
    #[target_feature(enable = "avx2")]
    fn inner(values: &[f32]) -> u32 {
        let mut largest = [0u32; 4 * LINE];
        let (windows, rest) = values.as_chunks::<{ 4 * PAGE }>();
        for window in windows {
            for at in (0..PAGE).step_by(4 * LINE) {
                for page in 0..4 {
                    let four_lines = &window[page * PAGE + at..][..4 * LINE];
                    for line in 0..4 {
                        let ahead = four_lines.as_ptr().wrapping_add(4 * PAGE + line * LINE);
                        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                            ahead.cast(),
                        );
                    }
                    for (largest, value) in largest.iter_mut().zip(four_lines) {
                        *largest = (*largest).max(value.to_bits());
                    }
                }
            }
        }
        let rest = rest.iter().map(|value| value.to_bits());
        rest.chain(largest).max().unwrap_or(0)
    }
    if let Some(_avx2) = Isa::of(InstructionSet::Avx2) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { inner(values) }
    } else {
        values
            .iter()
            .fold(0, |largest, value| largest.max(value.to_bits()))
    }
}

/// Largest bit pattern of a slice.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn read(values: &[f32]) -> u32 {
    values
        .iter()
        .fold(0, |largest, value| largest.max(value.to_bits()))
}

/// Fills a slice past the caches where the processor can.
#[cfg(target_arch = "x86_64")]
pub(crate) fn write(values: &mut [f32]) {
    // SAFETY: `__m128` has no invalid bit patterns, and the middle is aligned by construction.
    let (head, middle, tail) = unsafe { values.align_to_mut::<std::arch::x86_64::__m128>() };
    head.fill(1.5);
    tail.fill(1.5);
    // SAFETY: SSE is part of every x86-64 processor; every store goes to one aligned element.
    unsafe {
        let value = std::arch::x86_64::_mm_set1_ps(1.5);
        for vector in middle {
            std::arch::x86_64::_mm_stream_ps(std::ptr::from_mut(vector).cast(), value);
        }
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn write(values: &mut [f32]) {
    values.fill(1.5);
}
