//! How fast one thread reads and writes memory: what the other cases are compared with.

/// Largest bit pattern of a slice: a read that the compiler cannot leave out, vectorized with the
/// instructions of the build.
#[cfg(target_arch = "x86_64")]
pub(crate) fn read(values: &[f32]) -> u32 {
    #[target_feature(enable = "avx2")]
    fn inner(values: &[f32]) -> u32 {
        let mut largest = [0u32; 64];
        for group in values.as_chunks::<64>().0 {
            for line in 0..4 {
                let ahead = group.as_ptr().wrapping_add(512 + 16 * line).cast();
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(ahead);
            }
            for (largest, value) in largest.iter_mut().zip(group) {
                *largest = (*largest).max(value.to_bits());
            }
        }
        largest.into_iter().max().unwrap_or(0)
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was found above.
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

/// Fills a slice.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn write(values: &mut [f32]) {
    values.fill(1.5);
}
