//! INT8 and FP8 with f32 scales over rows, rectangles or the whole tensor.
//!
//! ```text
//! scale = amax(values that share it) / 127 or / max(format)
//! code  = round_even(w / scale)  or  format(w / scale)          value = code * scale
//! ```
//!
//! Values that are all zero get scale 1. The smallest scale is the smallest normal f32, so that a
//! scale is never zero.

use crate::packed::Scales;
use crate::scalar::lanes::{decode, encode_finite};
use crate::scalar::slice::for_format;
use crate::scalar::{E2m1, E2m3, E3m2, E4m3, E5m2, MiniFloat, MiniFormat};
use crate::simd::{
    ExecutionPolicy, Kernel, PAGES_AHEAD_BYTES, PIECE, PIECES, Simd, Sink, page_interleaved,
};
use crate::threads::{Granule2, zip_parts_2};

use super::buffers::Buffers;
use super::nvfp4::{MaxBits, amax};
use super::recipe::Granularity;

/// Rows of equal length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) n_rows: usize,
    pub(crate) depth: usize,
}

/// What a byte means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Int8,
    Float(MiniFormat),
}

impl Element {
    /// Magnitude that amax is scaled to.
    pub(crate) fn max(self) -> f32 {
        match self {
            Self::Int8 => 127.0,
            Self::Float(format) => format.spec().max(),
        }
    }

    /// Scale for a largest magnitude.
    pub(crate) fn scale(self, amax: f32) -> f32 {
        if amax == 0.0 {
            1.0
        } else {
            (amax / self.max()).max(f32::MIN_POSITIVE)
        }
    }
}

/// Rows and values along the axis that share a scale.
pub(crate) fn rectangle(granularity: Granularity, shape: RowShape) -> [usize; 2] {
    match granularity {
        Granularity::Tensor => [shape.n_rows.max(1), shape.depth.max(1)],
        Granularity::Row => [1, shape.depth.max(1)],
        Granularity::Block { rows, depth } => {
            [rows.min(shape.n_rows.max(1)), depth.min(shape.depth.max(1))]
        }
    }
}

/// Codes and scales of rows in the memory of `old`; nothing if a value is not finite.
pub(crate) fn quantize(
    policy: ExecutionPolicy,
    values: &[f32],
    shape: RowShape,
    element: Element,
    granularity: Granularity,
    old: Buffers,
) -> Option<(Vec<u8>, Scales)> {
    let block = rectangle(granularity, shape);
    let n_across = shape.depth.div_ceil(block[1]);
    let mut codes = old.codes;
    codes.resize(values.len(), 0);
    let mut scales = vec![0.0; shape.n_rows.div_ceil(block[0]) * n_across];
    if granularity == Granularity::Tensor {
        let scale = element.scale(amax(policy, values)?);
        scales.fill(scale);
        crate::threads::zip_parts(
            policy,
            values,
            &mut codes,
            crate::threads::Granule { src: 16, dst: 16 },
            |values, codes| {
                encode(policy, values, codes, scale, element);
            },
        );
        return Some((
            codes,
            Scales::F32 {
                values: scales,
                block,
            },
        ));
    }
    let band = block[0] * shape.depth;
    if band == 0 {
        return Some((
            codes,
            Scales::F32 {
                values: scales,
                block,
            },
        ));
    }
    let largest = std::sync::atomic::AtomicU32::new(0);
    let granule = Granule2 {
        src: band,
        dst: [band, n_across],
    };
    zip_parts_2(
        policy,
        values,
        &mut codes,
        &mut scales,
        granule,
        |values, codes, scales| {
            let bands = values
                .chunks(band)
                .zip(codes.chunks_mut(band))
                .zip(scales.chunks_mut(n_across));
            for ((values, codes), scales) in bands {
                let bits = quantize_band(
                    policy,
                    values,
                    shape.depth,
                    block[1],
                    element,
                    codes,
                    scales,
                );
                largest.fetch_max(bits, std::sync::atomic::Ordering::Relaxed);
            }
        },
    );
    (largest.into_inner() < 0x7F80_0000).then_some((
        codes,
        Scales::F32 {
            values: scales,
            block,
        },
    ))
}

/// One band of rectangles; returns the largest magnitude as bits.
fn quantize_band(
    policy: ExecutionPolicy,
    values: &[f32],
    depth: usize,
    width: usize,
    element: Element,
    codes: &mut [u8],
    scales: &mut [f32],
) -> u32 {
    let mut largest = 0;
    for (column, scale) in scales.iter_mut().enumerate() {
        let range = column * width..((column + 1) * width).min(depth);
        let bits = values
            .chunks_exact(depth)
            .map(|row| policy.run(MaxBits(&row[range.clone()])))
            .max()
            .unwrap_or(0);
        largest = largest.max(bits);
        if bits >= 0x7F80_0000 {
            continue;
        }
        *scale = element.scale(f32::from_bits(bits));
        for (row, codes) in values
            .chunks_exact(depth)
            .zip(codes.chunks_exact_mut(depth))
        {
            policy.run(Encode {
                values: &row[range.clone()],
                codes: &mut codes[range.clone()],
                scale: *scale,
                element,
            });
        }
    }
    largest
}

/// Codes of finite `values` under one scale.
pub(crate) fn encode(
    policy: ExecutionPolicy,
    values: &[f32],
    codes: &mut [u8],
    scale: f32,
    element: Element,
) {
    policy.run(Encode {
        values,
        codes,
        scale,
        element,
    });
}

struct Encode<'a> {
    values: &'a [f32],
    codes: &'a mut [u8],
    scale: f32,
    element: Element,
}

/// What a byte stands for, as a type, so that loops are compiled for it.
pub(crate) trait ByteCode: Copy {
    /// Codes of scaled values.
    fn encode<S: Simd>(s: S, scaled: S::F) -> S::U;
    /// Values of codes in the low byte of each lane.
    fn decode<S: Simd>(s: S, code: S::U) -> S::F;
}

/// Signed bytes in two's complement, -127..=127.
#[derive(Clone, Copy)]
pub(crate) struct Int8Code;

impl ByteCode for Int8Code {
    /// No value exceeds amax, and amax / scale rounds to at most 127; a scale at its lower limit only
    /// makes quotients smaller.
    #[inline(always)]
    fn encode<S: Simd>(s: S, scaled: S::F) -> S::U {
        s.f32_to_i32(scaled)
    }
    #[inline(always)]
    fn decode<S: Simd>(s: S, code: S::U) -> S::F {
        // Flipping the sign bit adds 128, which the integer subtraction takes off again.
        let biased = s.and(s.add_u(code, s.splat_u(128)), s.splat_u(0xFF));
        s.i32_to_f32(s.sub_u(biased, s.splat_u(128)))
    }
}

/// A small float of eight bits.
#[derive(Clone, Copy)]
pub(crate) struct FloatCode<F>(std::marker::PhantomData<F>);

impl<F: MiniFloat> ByteCode for FloatCode<F> {
    #[inline(always)]
    fn encode<S: Simd>(s: S, scaled: S::F) -> S::U {
        encode_finite::<F, S>(s, scaled)
    }
    #[inline(always)]
    fn decode<S: Simd>(s: S, code: S::U) -> S::F {
        decode::<F, S>(s, code)
    }
}

impl Kernel for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.element {
            Element::Int8 => self.all::<Int8Code, S>(s),
            Element::Float(format) => for_format!(format, F => self.all::<FloatCode<F>, S>(s)),
        }
    }
}

impl Encode<'_> {
    #[inline(always)]
    fn all<C: ByteCode, S: Simd>(self, s: S) {
        let scale = s.splat(self.scale);
        let (pieces, values) = self.values.as_chunks::<PIECE>();
        let (code_pieces, codes) = self.codes.as_chunks_mut::<PIECE>();
        for step in 0..pieces.len() {
            let idx = page_interleaved::<PIECES>(step, pieces.len());
            encode_vectors::<C, S>(s, &pieces[idx], scale, &mut code_pieces[idx]);
        }
        encode_vectors::<C, S>(s, values, scale, codes);
    }
}

/// Sixteen values at a time; the last few go through a padded copy.
#[inline(always)]
fn encode_vectors<C: ByteCode, S: Simd>(s: S, values: &[f32], scale: S::F, codes: &mut [u8]) {
    let (vectors, rest) = values.as_chunks::<16>();
    let (codes, codes_rest) = codes.as_chunks_mut::<16>();
    for (vector, codes) in vectors.iter().zip(codes) {
        s.prefetch(vector, PAGES_AHEAD_BYTES);
        s.store_u8(C::encode(s, s.div(s.load(vector), scale)), codes);
    }
    if !rest.is_empty() {
        let (mut padded, mut codes) = ([0.0; 16], [0; 16]);
        padded[..rest.len()].copy_from_slice(rest);
        s.store_u8(C::encode(s, s.div(s.load(&padded), scale)), &mut codes);
        codes_rest.copy_from_slice(&codes[..rest.len()]);
    }
}

/// Values that share one scale: `code * scale`.
pub(crate) struct Dequantize<'a> {
    pub(crate) codes: &'a [u8],
    pub(crate) values: &'a mut [f32],
    pub(crate) scale: f32,
    pub(crate) element: Element,
    pub(crate) stream: bool,
}

impl Kernel for Dequantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.element {
            Element::Int8 => self.all::<Int8Code, S>(s),
            Element::Float(format) => for_format!(format, F => self.all::<FloatCode<F>, S>(s)),
        }
    }
}

impl Dequantize<'_> {
    #[inline(always)]
    fn all<C: ByteCode, S: Simd>(self, s: S) {
        let scale = s.splat(self.scale);
        let (codes, codes_rest) = self.codes.as_chunks::<16>();
        let mut sink = Sink::new(s, self.values, self.stream);
        for codes in codes {
            s.prefetch(codes, 1024);
            sink.put(s, s.mul(C::decode(s, s.load_u8(codes)), scale));
        }
        let rest = sink.finish(s);
        if !rest.is_empty() {
            let (mut padded, mut values) = ([0; 16], [0.0; 16]);
            padded[..rest.len()].copy_from_slice(codes_rest);
            s.store(s.mul(C::decode(s, s.load_u8(&padded)), scale), &mut values);
            rest.copy_from_slice(&values[..rest.len()]);
        }
    }
}
