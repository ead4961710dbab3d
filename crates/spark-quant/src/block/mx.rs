//! MX formats: 32 small floats share one power-of-two scale.
//!
//! ```text
//! e[b]  = E8M0 code of the scale, from amax(block b) by one of the rules in MxScale
//! code  = element(w * 2^(127 - e))           value = element * 2^(e - 127)
//! ```
//!
//! The scale rules work on the exponent field of amax, sixteen blocks per vector. A block of zeros
//! gets scale code 0. Multiplying by a power of two is exact, so elements round only once.
//!
//! Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3, and torchao's names for the
//! rules beyond it. The specification leaves memory layout open: FP4 codes go two per byte, low nibble
//! first; FP6 codes form one bit stream, least significant bits first.

use crate::packed::bits::{pack_sixes, unpack_sixes};
use crate::packed::{MX_BLOCK, Scales};
use crate::scalar::lanes::{decode, encode_finite};
use crate::scalar::slice::STREAM_BYTES;
use crate::scalar::slice::for_format;
use crate::scalar::{E2m1, E2m3, E3m2, E4m3, E5m2, MiniFloat, MiniFormat};
use crate::simd::{
    ExecutionPolicy, Kernel, LINE_BYTES, PAGES_AHEAD_BYTES, PIECES, Simd, Sink, array,
    page_interleaved,
};
use crate::threads::{Granule2, zip_parts_2};

use super::buffers::Buffers;
use super::recipe::MxScale;

pub(crate) const BLOCK: usize = MX_BLOCK;
/// Blocks whose scales are found together, one per lane.
const GROUP: usize = 16;

/// Bytes of the codes of `n_values` values.
pub(crate) const fn code_bytes(format: MiniFormat, n_values: usize) -> usize {
    n_values / 8 * format.spec().bits() as usize
}

/// Codes and scales of whole blocks in the memory of `old`; nothing if a value is not finite.
pub(crate) fn quantize(
    policy: ExecutionPolicy,
    values: &[f32],
    format: MiniFormat,
    rule: MxScale,
    old: Buffers,
) -> Option<(Vec<u8>, Scales)> {
    let (mut codes, mut scales) = (old.codes, old.scales);
    codes.resize(code_bytes(format, values.len()), 0);
    scales.resize(values.len() / BLOCK, 0);
    let largest = std::sync::atomic::AtomicU32::new(0);
    let dst = [code_bytes(format, BLOCK * GROUP), GROUP];
    let stream = codes.len() > STREAM_BYTES;
    let granule = Granule2 {
        src: BLOCK * GROUP,
        dst,
    };
    zip_parts_2(
        policy,
        values,
        &mut codes,
        &mut scales,
        granule,
        |values, codes, scales| {
            let bits = for_format!(format, F => {
                policy.run(Quantize::<F> { values, codes, scales, rule, stream, format: std::marker::PhantomData })
            });
            largest.fetch_max(bits, std::sync::atomic::Ordering::Relaxed);
        },
    );
    (largest.into_inner() < 0x7F80_0000).then_some((codes, Scales::Mx(scales)))
}

pub(crate) struct Quantize<'a, F> {
    pub(crate) values: &'a [f32],
    pub(crate) codes: &'a mut [u8],
    pub(crate) scales: &'a mut [u8],
    pub(crate) rule: MxScale,
    /// Whether codes go past the caches.
    pub(crate) stream: bool,
    pub(crate) format: std::marker::PhantomData<F>,
}

impl<F: MiniFloat> Kernel for Quantize<'_, F> {
    /// Largest magnitude seen, as bits; infinity or above means that a value was not finite.
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let block_bytes = BLOCK / 8 * F::SPEC.bits() as usize;
        let group_bytes = GROUP * block_bytes;
        // Blocks before the first whole line of codes, if codes go past the caches.
        let line = self.codes.as_ptr().addr().wrapping_neg() % LINE_BYTES;
        let stream = S::STREAMS && self.stream && line.is_multiple_of(block_bytes);
        let n_lead = if stream { line / block_bytes } else { 0 }.min(self.scales.len());
        let (values_lead, values) = self.values.split_at(n_lead * BLOCK);
        let (codes_lead, codes) = self.codes.split_at_mut(n_lead * block_bytes);
        let (scales_lead, scales) = self.scales.split_at_mut(n_lead);

        let (groups, rest) = values.as_chunks::<{ BLOCK * GROUP }>();
        let (codes, codes_rest) = codes.split_at_mut(groups.len() * group_bytes);
        let (scales, scales_rest) = scales.as_chunks_mut::<GROUP>();
        let rule = self.rule;
        let mut largest = part_of_group::<F, S>(s, values_lead, rule, codes_lead, scales_lead);
        for step in 0..groups.len() {
            let idx = page_interleaved::<{ PIECES / 8 }>(step, groups.len());
            let (group, scales) = (&groups[idx], &mut scales[idx]);
            let codes = &mut codes[idx * group_bytes..][..group_bytes];
            let bits = if stream {
                let mut buffer = [0; BLOCK * GROUP];
                let buffer = &mut buffer[..group_bytes];
                let bits = quantize_group::<F, S>(s, group, rule, buffer, scales);
                let lines = codes.as_chunks_mut::<LINE_BYTES>().0;
                for (src, dst) in buffer.as_chunks().0.iter().zip(lines) {
                    s.stream_codes(src, dst);
                }
                bits
            } else {
                quantize_group::<F, S>(s, group, rule, codes, scales)
            };
            largest = s.max_i(largest, bits);
        }
        let bits = part_of_group::<F, S>(s, rest, rule, codes_rest, scales_rest);
        largest = s.max_i(largest, bits);
        if stream {
            s.fence();
        }
        let mut lanes = [0.0; 16];
        s.store(s.bits_to_f32(largest), &mut lanes);
        lanes.into_iter().map(f32::to_bits).max().unwrap_or(0)
    }
}

/// Fewer blocks than a group, through a padded copy.
#[inline(always)]
fn part_of_group<F: MiniFloat, S: Simd>(
    s: S,
    values: &[f32],
    rule: MxScale,
    codes: &mut [u8],
    scales: &mut [u8],
) -> S::U {
    if values.is_empty() {
        return s.splat_u(0);
    }
    let group_bytes = GROUP * BLOCK / 8 * F::SPEC.bits() as usize;
    let mut padded = [0.0; BLOCK * GROUP];
    let (mut all_codes, mut all_scales) = ([0; BLOCK * GROUP], [0; GROUP]);
    padded[..values.len()].copy_from_slice(values);
    let all = &mut all_codes[..group_bytes];
    let bits = quantize_group::<F, S>(s, &padded, rule, all, &mut all_scales);
    codes.copy_from_slice(&all_codes[..codes.len()]);
    scales.copy_from_slice(&all_scales[..scales.len()]);
    bits
}

#[inline(always)]
fn quantize_group<F: MiniFloat, S: Simd>(
    s: S,
    values: &[f32; BLOCK * GROUP],
    rule: MxScale,
    codes: &mut [u8],
    scales: &mut [u8; GROUP],
) -> S::U {
    let (vectors, _) = values.as_chunks::<16>();
    let mask = s.splat_u(0x7FFF_FFFF);
    let mut largest = s.splat_u(0);
    let magnitudes = array!([s.splat(0.0); GROUP], i => {
        let first = s.and(s.to_bits(s.load(&vectors[2 * i])), mask);
        let second = s.and(s.to_bits(s.load(&vectors[2 * i + 1])), mask);
        s.bits_to_f32(s.max_i(first, second))
    });
    for magnitude in magnitudes {
        largest = s.max_i(largest, s.to_bits(magnitude));
    }
    let amax = s.row_max_abs(&magnitudes);
    let mut code = scale_code::<F, S>(s, amax, rule);
    if rule == MxScale::Mse {
        code = best_of_three::<F, S>(s, vectors, code);
    }
    s.store_u8(code, scales);

    let mut factors = [0.0; GROUP];
    s.store(reciprocal(s, code), &mut factors);
    if F::SPEC.bits() == 4 {
        encode_lines(s, vectors, &factors, codes.as_chunks_mut().0);
    } else {
        let vector_bytes = 2 * F::SPEC.bits() as usize;
        for (i, codes) in codes.chunks_exact_mut(vector_bytes).enumerate() {
            s.prefetch(&vectors[i], PAGES_AHEAD_BYTES);
            let scaled = s.mul(s.load(&vectors[i]), s.splat(factors[i / 2]));
            store_codes::<F, S>(s, encode_finite::<F, S>(s, scaled), codes);
        }
    }
    largest
}

/// E2M1 codes of a group. No rule chooses a scale that leaves magnitudes of sixteen.
#[inline(always)]
fn encode_lines<S: Simd>(
    s: S,
    vectors: &[[f32; 16]],
    factors: &[f32; GROUP],
    lines: &mut [[u8; LINE_BYTES]],
) {
    for (line, codes) in lines.iter_mut().enumerate() {
        let mut scaled = [s.splat(0.0); 8];
        for (i, scaled) in scaled.iter_mut().enumerate() {
            let idx = 8 * line + i;
            // Here and not with the first loads: requests spread over the arithmetic find room.
            s.prefetch(&vectors[idx], PAGES_AHEAD_BYTES);
            *scaled = s.mul(s.load(&vectors[idx]), s.splat(factors[idx / 2]));
        }
        s.encode_e2m1_line(&scaled, &scaled, codes);
    }
}

/// `2^(127 - code)` for codes 0..=254.
#[inline(always)]
fn reciprocal<S: Simd>(s: S, code: S::U) -> S::F {
    // 2^-127 is a subnormal, the only one, and larger as an integer than the field that would be 0.
    s.bits_to_f32(s.max_i(
        s.shl(s.sub_u(s.splat_u(254), code), 23),
        s.splat_u(0x0040_0000),
    ))
}

/// Exponent field of the next power of two at or above.
#[inline(always)]
fn round_up<S: Simd>(s: S, bits: S::U) -> S::U {
    let has_mantissa = s.gt_i(s.and(bits, s.splat_u(0x007F_FFFF)), s.splat_u(0));
    s.add_u(
        s.shr(bits, 23),
        s.select(has_mantissa, s.splat_u(1), s.splat_u(0)),
    )
}

#[inline(always)]
fn scale_code<F: MiniFloat, S: Simd>(s: S, amax: S::F, rule: MxScale) -> S::U {
    let spec = const { F::SPEC };
    let bits = s.to_bits(amax);
    let emax = s.splat_u(spec.max_exponent() as u32);
    let code = match rule {
        MxScale::Floor | MxScale::Mse => s.sub_u(s.shr(bits, 23), emax),
        MxScale::Even => {
            let half_ulp = s.splat_u(1 << (22 - spec.mantissa_bits));
            s.sub_u(s.shr(s.add_u(bits, half_ulp), 23), emax)
        }
        MxScale::Ceil => s.sub_u(round_up(s, bits), emax),
        MxScale::RoundUp => {
            let ratio = s.to_bits(s.div(amax, s.splat(spec.max())));
            // Up to 2^-127 the next power of two is 2^-127 itself, code 0.
            let tiny = s.gt_i(s.splat_u(0x0040_0001), ratio);
            s.select(tiny, s.splat_u(0), round_up(s, ratio))
        }
    };
    s.min_i(s.max_i(code, s.splat_u(0)), s.splat_u(254))
}

/// Nearest element to a magnitude.
#[inline(always)]
fn round_element<F: MiniFloat, S: Simd>(s: S, magnitude: S::F) -> S::F {
    if F::SPEC.bits() == 4 {
        s.round_e2m1(magnitude)
    } else {
        s.round_magnitude::<F>(magnitude)
    }
}

/// The code, its predecessor or its successor: the first with the smallest squared error.
#[inline(always)]
fn best_of_three<F: MiniFloat, S: Simd>(s: S, vectors: &[[f32; 16]], code: S::U) -> S::U {
    let mask = s.splat_u(0x7FFF_FFFF);
    // halves[h][i]: element 16h + i of all blocks.
    let halves = array!([[s.splat(0.0); 16]; 2], half => {
        let rows = array!([s.splat(0.0); GROUP], i => {
            s.bits_to_f32(s.and(s.to_bits(s.load(&vectors[2 * i + half])), mask))
        });
        s.transpose(&rows)
    });
    let mut best_error = s.splat(f32::INFINITY);
    let mut best = code;
    // Errors are compared in units of the middle scale: a quarter, one, four.
    for (step, weight) in [(-1i32, 0.25), (0, 1.0), (1, 4.0)] {
        let stepped = s.add_u(code, s.splat_u(step as u32));
        let candidate = s.min_i(s.max_i(stepped, s.splat_u(0)), s.splat_u(254));
        let factor = reciprocal(s, candidate);
        let mut sum = s.splat(0.0);
        for i in 0..BLOCK {
            let magnitude = halves[i / 16][i % 16];
            let scaled = s.mul(magnitude, factor);
            let difference = s.sub(scaled, round_element::<F, S>(s, scaled));
            sum = s.mul_add(difference, difference, sum);
        }
        let error = s.mul(sum, s.splat(weight));
        // A candidate at the end of the range repeats another one with the wrong unit.
        let moved = s.gt_i(
            s.or(s.sub_u(candidate, stepped), s.sub_u(stepped, candidate)),
            s.splat_u(0),
        );
        let improves = s.select(
            moved,
            s.splat_u(0),
            s.select(s.lt_f(error, best_error), s.splat_u(1), s.splat_u(0)),
        );
        let improves = s.gt_i(improves, s.splat_u(0));
        best = s.select(improves, candidate, best);
        best_error = s.bits_to_f32(s.select(improves, s.to_bits(error), s.to_bits(best_error)));
    }
    best
}

#[inline(always)]
fn store_codes<F: MiniFloat, S: Simd>(s: S, lanes: S::U, codes: &mut [u8]) {
    match F::SPEC.bits() {
        8 => s.store_u8(
            lanes,
            codes
                .first_chunk_mut()
                .expect("sixteen bytes per half block"),
        ),
        _ => {
            let mut bytes = [0; 16];
            s.store_u8(lanes, &mut bytes);
            pack_sixes(&bytes, codes);
        }
    }
}

#[inline(always)]
fn load_codes<F: MiniFloat, S: Simd>(s: S, codes: &[u8]) -> S::U {
    match F::SPEC.bits() {
        4 => s.and(
            s.load_nibbles(codes.first_chunk().expect("eight bytes per half block")),
            s.splat_u(15),
        ),
        8 => s.load_u8(codes.first_chunk().expect("sixteen bytes per half block")),
        _ => {
            let mut bytes = [0; 16];
            unpack_sixes(codes, &mut bytes);
            s.load_u8(&bytes)
        }
    }
}

/// Values of packed blocks: `element * 2^(e - 127)`.
pub(crate) struct Dequantize<'a> {
    pub(crate) format: MiniFormat,
    pub(crate) codes: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) values: &'a mut [f32],
    pub(crate) stream: bool,
}

impl Dequantize<'_> {
    #[inline(always)]
    fn all<F: MiniFloat, S: Simd>(self, s: S) {
        let half_bytes = BLOCK / 16 * F::SPEC.bits() as usize;
        let mut sink = Sink::new(s, self.values, self.stream);
        for (codes, &scale) in self.codes.chunks_exact(2 * half_bytes).zip(self.scales) {
            s.prefetch(&codes[0], 1024);
            let factor = s.splat(crate::scalar::e8m0::decode(scale));
            for codes in codes.chunks_exact(half_bytes) {
                sink.put(
                    s,
                    s.mul(decode::<F, S>(s, load_codes::<F, S>(s, codes)), factor),
                );
            }
        }
        sink.finish(s);
    }
}

impl Kernel for Dequantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for_format!(self.format, F => self.all::<F, S>(s));
    }
}
