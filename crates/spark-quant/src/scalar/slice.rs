//! Whole slices between f32 and the scalar formats, vectorized and threaded.
//!
//! ```text
//! for each sixteen values:  load, convert, store       f32 inputs are read four pages at a time
//! ```
//!
//! All functions give the same bits on every level and thread count. Outputs beyond
//! [`STREAM_BYTES`] are written past the caches, which saves reading them first.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use super::{E2m1, E2m3, E3m2, E4m3, E5m2, MiniFloat, MiniFormat, NanCode, Overflow, lanes};
use crate::error::QuantError;
use crate::simd::{
    Code, ExecutionPolicy, Kernel, PAGES_AHEAD_BYTES, PIECE, PIECES, Simd, Sink, page_interleaved,
    values_before_line,
};
use crate::threads::{Granule, zip_parts};

/// Outputs larger than this bypass the caches: with their inputs they fill most last-level
/// caches, and a plain store reads each line before it writes it.
pub const STREAM_BYTES: usize = 16 << 20;

/// Prefetch distance of the loads of 8- and 16-bit values. Half of a page: the
/// hardware prefetcher stops at page ends, and this bridges them.
const PREFETCH_BYTES: isize = 2048;

const SIXTEEN: Granule = Granule { src: 16, dst: 16 };

/// Calls the body with a kernel type's format parameter bound to each [`MiniFormat`].
macro_rules! for_format {
    ($format:expr, $type:ident => $body:expr) => {
        match $format {
            MiniFormat::E4m3 => {
                type $type = E4m3;
                $body
            }
            MiniFormat::E5m2 => {
                type $type = E5m2;
                $body
            }
            MiniFormat::E2m3 => {
                type $type = E2m3;
                $body
            }
            MiniFormat::E3m2 => {
                type $type = E3m2;
                $body
            }
            MiniFormat::E2m1 => {
                type $type = E2m1;
                $body
            }
        }
    };
}
pub(crate) use for_format;

/// One conversion of sixteen values; the loop around it is shared.
trait Convert: Copy + Sync {
    type In: Copy + Default + Sync;
    type Out: Code;
    fn convert<S: Simd>(self, s: S, src: &[Self::In; 16], dst: &mut [Self::Out; 16]);
}

struct Loop<'a, C: Convert> {
    convert: C,
    src: &'a [C::In],
    dst: &'a mut [C::Out],
    stream: bool,
}

impl<C: Convert> Kernel for Loop<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lead = values_before_line(self.dst).filter(|_| S::STREAMS && self.stream);
        let (src_head, src) = self.src.split_at(lead.unwrap_or(0));
        let (dst_head, dst) = self.dst.split_at_mut(lead.unwrap_or(0));
        convert_vectors(s, self.convert, src_head, dst_head);
        let (pieces, src) = src.as_chunks::<PIECE>();
        let (dst_pieces, dst) = dst.as_chunks_mut::<PIECE>();
        for step in 0..pieces.len() {
            let idx = page_interleaved::<PIECES>(step, pieces.len());
            if lead.is_some() {
                let mut codes = [C::Out::default(); PIECE];
                convert_vectors(s, self.convert, &pieces[idx], &mut codes);
                s.stream_codes(&codes, &mut dst_pieces[idx]);
            } else {
                convert_vectors(s, self.convert, &pieces[idx], &mut dst_pieces[idx]);
            }
        }
        convert_vectors(s, self.convert, src, dst);
        if lead.is_some() {
            s.fence();
        }
    }
}

/// Sixteen values at a time; the last few go through a padded copy.
#[inline(always)]
fn convert_vectors<C: Convert, S: Simd>(s: S, convert: C, src: &[C::In], dst: &mut [C::Out]) {
    let (src, src_tail) = src.as_chunks::<16>();
    let (dst, dst_tail) = dst.as_chunks_mut::<16>();
    for (src, dst) in src.iter().zip(dst) {
        s.prefetch(src, PAGES_AHEAD_BYTES);
        convert.convert(s, src, dst);
    }
    if !src_tail.is_empty() {
        let mut padded = [C::In::default(); 16];
        let mut out = [C::Out::default(); 16];
        padded[..src_tail.len()].copy_from_slice(src_tail);
        convert.convert(s, &padded, &mut out);
        dst_tail.copy_from_slice(&out[..src_tail.len()]);
    }
}

fn convert_slice<C: Convert>(
    policy: ExecutionPolicy,
    convert: C,
    src: &[C::In],
    dst: &mut [C::Out],
) -> Result<(), QuantError> {
    QuantError::check_length("dst", dst.len(), src.len())?;
    let stream = size_of_val(dst) > STREAM_BYTES;
    zip_parts(policy, src, dst, SIXTEEN, |src, dst| {
        policy.run(Loop {
            convert,
            src,
            dst,
            stream,
        })
    });
    Ok(())
}

/// Converts sixteen values of 8 or 16 bits to f32.
trait Widen: Copy + Sync {
    type In: Copy + Default + Sync;
    fn widen<S: Simd>(self, s: S, src: &[Self::In; 16]) -> S::F;
}

struct WidenLoop<'a, C: Widen> {
    convert: C,
    src: &'a [C::In],
    dst: &'a mut [f32],
    stream: bool,
}

impl<C: Widen> Kernel for WidenLoop<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (src, src_tail) = self.src.as_chunks::<16>();
        let mut sink = Sink::new(s, self.dst, self.stream);
        for src in src {
            s.prefetch(src, PREFETCH_BYTES);
            sink.put(s, self.convert.widen(s, src));
        }
        let dst_tail = sink.finish(s);
        if !src_tail.is_empty() {
            let (mut padded, mut out) = ([C::In::default(); 16], [0.0; 16]);
            padded[..src_tail.len()].copy_from_slice(src_tail);
            s.store(self.convert.widen(s, &padded), &mut out);
            dst_tail.copy_from_slice(&out[..src_tail.len()]);
        }
    }
}

fn widen_slice<C: Widen>(
    policy: ExecutionPolicy,
    convert: C,
    src: &[C::In],
    dst: &mut [f32],
) -> Result<(), QuantError> {
    QuantError::check_length("dst", dst.len(), src.len())?;
    let stream = size_of_val(dst) > STREAM_BYTES;
    zip_parts(policy, src, dst, SIXTEEN, |src, dst| {
        policy.run(WidenLoop {
            convert,
            src,
            dst,
            stream,
        })
    });
    Ok(())
}

#[derive(Clone, Copy)]
struct Encode<F> {
    format: std::marker::PhantomData<F>,
    overflow: Overflow,
    nan: NanCode,
}

impl<F: MiniFloat + Sync> Convert for Encode<F> {
    type In = f32;
    type Out = u8;
    #[inline(always)]
    fn convert<S: Simd>(self, s: S, src: &[f32; 16], dst: &mut [u8; 16]) {
        s.store_u8(
            lanes::encode::<F, S>(s, s.load(src), self.overflow, self.nan),
            dst,
        );
    }
}

#[derive(Clone, Copy)]
struct Decode<F>(std::marker::PhantomData<F>);

impl<F: MiniFloat + Sync> Widen for Decode<F> {
    type In = u8;
    #[inline(always)]
    fn widen<S: Simd>(self, s: S, src: &[u8; 16]) -> S::F {
        lanes::decode::<F, S>(
            s,
            s.and(s.load_u8(src), s.splat_u((1 << F::SPEC.bits()) - 1)),
        )
    }
}

macro_rules! sixteen_bit_conversions {
    ($($to:ident, $from:ident: |$s:ident, $value:ident| $narrow:expr, |$bits:ident| $wide:expr;)*) => {
        $(
            #[derive(Clone, Copy)]
            struct $to;

            impl Convert for $to {
                type In = f32;
                type Out = u16;
                #[inline(always)]
                fn convert<S: Simd>(self, $s: S, src: &[f32; 16], dst: &mut [u16; 16]) {
                    let $value = $s.load(src);
                    $s.store_u16($narrow, dst);
                }
            }

            #[derive(Clone, Copy)]
            struct $from;

            impl Widen for $from {
                type In = u16;
                #[inline(always)]
                fn widen<S: Simd>(self, $s: S, src: &[u16; 16]) -> S::F {
                    let $bits = $s.load_u16(src);
                    $wide
                }
            }
        )*
    };
}

sixteen_bit_conversions! {
    ToF16, FromF16: |s, value| s.f32_to_f16(value), |bits| s.f16_to_f32(bits);
    ToBf16, FromBf16: |s, value| lanes::f32_to_bf16(s, value), |bits| s.bits_to_f32(s.shl(bits, 16));
}

/// Codes of `src`, one per byte.
///
/// # Conversion
///
/// Round to nearest even; out of range by `overflow`; NaN by `nan`; as [`MiniSpec::encode`](super::MiniSpec::encode).
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn encode(
    policy: ExecutionPolicy,
    format: MiniFormat,
    overflow: Overflow,
    nan: NanCode,
    src: &[f32],
    dst: &mut [u8],
) -> Result<(), QuantError> {
    for_format!(format, F => {
        convert_slice(policy, Encode::<F> { format: std::marker::PhantomData, overflow, nan }, src, dst)
    })
}

/// Values of codes, one per byte; exact. Bits above the format's width are ignored.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn decode(
    policy: ExecutionPolicy,
    format: MiniFormat,
    src: &[u8],
    dst: &mut [f32],
) -> Result<(), QuantError> {
    for_format!(format, F => widen_slice(policy, Decode::<F>(std::marker::PhantomData), src, dst))
}

/// f16 of `src`: nearest even, overflow to infinity, subnormals kept, NaN quieted.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn f32_to_f16(policy: ExecutionPolicy, src: &[f32], dst: &mut [f16]) -> Result<(), QuantError> {
    convert_slice(policy, ToF16, src, dst.reinterpret_cast_mut())
}

/// Values of f16; exact, NaN quieted.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn f16_to_f32(policy: ExecutionPolicy, src: &[f16], dst: &mut [f32]) -> Result<(), QuantError> {
    widen_slice(policy, FromF16, src.reinterpret_cast(), dst)
}

/// bf16 of `src`: nearest even, overflow to infinity, subnormals kept, NaN quieted.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn f32_to_bf16(
    policy: ExecutionPolicy,
    src: &[f32],
    dst: &mut [bf16],
) -> Result<(), QuantError> {
    convert_slice(policy, ToBf16, src, dst.reinterpret_cast_mut())
}

/// Values of bf16; exact, signalling NaN stays as it is.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the slices differ in length; `dst` is then untouched.
pub fn bf16_to_f32(
    policy: ExecutionPolicy,
    src: &[bf16],
    dst: &mut [f32],
) -> Result<(), QuantError> {
    widen_slice(policy, FromBf16, src.reinterpret_cast(), dst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_codes_are_the_same() {
        let values: Vec<f32> = (0..9000).map(|i| (i as f32 * 0.37).sin()).collect();
        for policy in ExecutionPolicy::every_level() {
            for offset in 0..33 {
                for n in [0, 1, 15, 63, 64, 65, 4096, 9000] {
                    let convert = |stream| {
                        let mut codes = vec![0xA5A5; offset + n + 9];
                        policy.run(Loop {
                            convert: ToF16,
                            src: &values[..n],
                            dst: &mut codes[offset..][..n],
                            stream,
                        });
                        codes
                    };
                    assert_eq!(convert(true), convert(false), "{n} values at {offset}");
                }
            }
        }
    }
}
