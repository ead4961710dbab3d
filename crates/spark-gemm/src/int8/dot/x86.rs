//! The instructions of x86-64 that multiply bytes: `vpdpbusd`, and `vpmaddwd` where that is missing.

#![allow(
    unsafe_code,
    reason = "intrinsics, in functions compiled for the features of a token"
)]

use std::arch::x86_64::*;

use spark_simd::{Avx2, Avx512, features};

use crate::int8::kernel::{Dot, FLIPPED, tile};
use crate::int8::tile::Int8Tile;
use crate::panel::max_panel_of;

/// `vpdpbusd` of 512 bits.
#[derive(Clone, Copy)]
struct Vnni512;

/// `vpdpbusd` of 256 bits, as AVX has it.
#[derive(Clone, Copy)]
struct Vnni256;

/// `vpmaddwd` of 512 bits.
#[derive(Clone, Copy)]
struct Pairs512;

/// `vpmaddwd` of 256 bits.
#[derive(Clone, Copy)]
struct Pairs256;

/// Even and odd bytes of every i32 lane, as i16.
#[derive(Clone, Copy)]
struct Widened<V> {
    even: V,
    odd: V,
}

// SAFETY: for the implementation and every block in it: callers have AVX512_VNNI, and pass pointers to a vector.
unsafe impl Dot for Vnni512 {
    type S = Avx512;
    type X = __m512i;
    type W = __m512i;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> __m512i {
        // SAFETY: see above.
        unsafe {
            let bytes = _mm512_set1_epi32(bytes.cast_signed());
            match FLIP {
                true => _mm512_xor_si512(bytes, _mm512_set1_epi32(FLIPPED.cast_signed())),
                false => bytes,
            }
        }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(words.cast()) }
    }
    #[inline(always)]
    unsafe fn dot(sum: __m512i, x: __m512i, w: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_dpbusd_epi32(sum, x, w) }
    }
}

// SAFETY: for the implementation and every block in it: callers have AVX-VNNI, and pass pointers to a vector.
unsafe impl Dot for Vnni256 {
    type S = Avx2;
    type X = __m256i;
    type W = __m256i;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> __m256i {
        // SAFETY: see above.
        unsafe {
            let bytes = _mm256_set1_epi32(bytes.cast_signed());
            match FLIP {
                true => _mm256_xor_si256(bytes, _mm256_set1_epi32(FLIPPED.cast_signed())),
                false => bytes,
            }
        }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(words.cast()) }
    }
    #[inline(always)]
    unsafe fn dot(sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_dpbusd_avx_epi32(sum, x, w) }
    }
}

// SAFETY: for the implementation and every block in it: callers have AVX-512 BW, and pass pointers to a vector.
unsafe impl Dot for Pairs512 {
    type S = Avx512;
    type X = Widened<__m512i>;
    type W = Widened<__m512i>;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> Widened<__m512i> {
        // SAFETY: see above.
        unsafe {
            let bytes = Vnni512::broadcast::<FLIP>(bytes);
            Widened {
                even: _mm512_and_si512(bytes, _mm512_set1_epi16(0xff)),
                odd: _mm512_srli_epi16::<8>(bytes),
            }
        }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> Widened<__m512i> {
        // SAFETY: see above.
        unsafe {
            let bytes = _mm512_loadu_si512(words.cast());
            Widened {
                even: _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)),
                odd: _mm512_srai_epi16::<8>(bytes),
            }
        }
    }
    #[inline(always)]
    unsafe fn dot(sum: __m512i, x: Widened<__m512i>, w: Widened<__m512i>) -> __m512i {
        // SAFETY: see above.
        unsafe {
            let sum = _mm512_add_epi32(sum, _mm512_madd_epi16(x.even, w.even));
            _mm512_add_epi32(sum, _mm512_madd_epi16(x.odd, w.odd))
        }
    }
}

// SAFETY: for the implementation and every block in it: callers have AVX2, and pass pointers to a vector.
unsafe impl Dot for Pairs256 {
    type S = Avx2;
    type X = Widened<__m256i>;
    type W = Widened<__m256i>;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> Widened<__m256i> {
        // SAFETY: see above.
        unsafe {
            let bytes = Vnni256::broadcast::<FLIP>(bytes);
            Widened {
                even: _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
                odd: _mm256_srli_epi16::<8>(bytes),
            }
        }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> Widened<__m256i> {
        // SAFETY: see above.
        unsafe {
            let bytes = _mm256_loadu_si256(words.cast());
            Widened {
                even: _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
                odd: _mm256_srai_epi16::<8>(bytes),
            }
        }
    }
    #[inline(always)]
    unsafe fn dot(sum: __m256i, x: Widened<__m256i>, w: Widened<__m256i>) -> __m256i {
        // SAFETY: see above.
        unsafe {
            let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x.even, w.even));
            _mm256_add_epi32(sum, _mm256_madd_epi16(x.odd, w.odd))
        }
    }
}

/// Declares the tile of one set of instructions, compiled for the features of `$token`.
macro_rules! tile_of {
    ($(#[$doc:meta])* $name:ident, $dot:ident, $token:ident) => {
        features! { compile $token
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As [`Int8Tile::run`], on a processor with those instructions.
            pub(super) unsafe fn $name<const NV: usize, const MR: usize, const FLIP: bool>(
                t: &Int8Tile<'_>,
            ) {
                if NV > max_panel_of::<<$dot as Dot>::S>() {
                    // `panels` never makes one so wide; saying so keeps its code from being generated.
                    return;
                }
                // SAFETY: forwarded; this function has the features.
                unsafe { tile::<$dot, NV, MR, FLIP>(t) }
            }
        }
    };
}

tile_of! {
    /// A tile by `vpmaddwd` of 256 bits.
    tile_avx2, Pairs256, Avx2
}
tile_of! {
    /// A tile by `vpdpbusd` of 256 bits.
    tile_avx_vnni, Vnni256, AvxVnni
}
tile_of! {
    /// A tile by `vpmaddwd` of 512 bits.
    tile_avx512, Pairs512, Avx512
}
tile_of! {
    /// A tile by `vpdpbusd` of 512 bits.
    tile_avx512_vnni, Vnni512, Avx512Vnni
}
