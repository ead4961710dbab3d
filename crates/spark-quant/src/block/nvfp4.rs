//! NVFP4: sixteen E2M1 codes share an E4M3 scale, all blocks share an f32 scale.
//!
//! ```text
//! ts    = amax(tensor) / 2688                        2688 = 6 * 448
//! s[b]  = e4m3(amax(block b) / (6 ts))
//! code  = e2m1(w / (s ts))                           value = e2m1 * (s * ts)
//! ```
//!
//! Sixteen blocks are done at a time. Their largest magnitudes come from one reduction tree, so the
//! scale arithmetic runs once for sixteen blocks; then each block is one vector. The scale search
//! works on the transposed group: lane = block, so the squared errors add up without any shuffle.
//!
//! Sources: NVIDIA ModelOpt and torchao for the two formulas, arXiv 2512.02010 for four-over-six.

use crate::packed::Scales;
use crate::scalar::lanes::{decode, encode_magnitude};
use crate::scalar::slice::STREAM_BYTES;
use crate::scalar::{E4m3, MiniFormat};
use crate::simd::{
    AHEAD_BYTES, Cpu, Kernel, PIECE, PIECES, Simd, Sink, WINDOW, array, values_before_line, woven,
};
use crate::threads::{Granule2, map_parts, zip_parts_2};

use super::{Buffers, Nvfp4Formula, ScaleSearch};

/// Values per block.
pub(crate) const BLOCK: usize = 16;
/// Blocks handled together.
pub(crate) const GROUP: usize = 16;
/// Codes below and above the amax choice that the sweep tries. On normal, Laplace, Student-t and
/// half-normal values no better scale lies outside.
pub(crate) const SWEEP: std::ops::RangeInclusive<i32> = -4..=7;
/// Smallest tensor scale, `2^-112`; below it reciprocals would leave the f32 range.
pub(crate) const MIN_TENSOR_SCALE: f32 = f32::from_bits((127 - 112) << 23);

/// Tensor scale for a largest magnitude.
pub(crate) fn tensor_scale(amax: f32, search: ScaleSearch) -> f32 {
    let divisor = if search == ScaleSearch::FourOverSix {
        6.0 * 256.0
    } else {
        6.0 * 448.0
    };
    if amax == 0.0 {
        1.0
    } else {
        (amax / divisor).max(MIN_TENSOR_SCALE)
    }
}

/// Smallest block scale of a formula and the scale code of a block of zeros.
pub(crate) fn scale_limits(formula: Nvfp4Formula) -> (f32, u8) {
    match formula {
        Nvfp4Formula::ModelOpt => (1.0 / 512.0, 0x38),
        Nvfp4Formula::TorchAo => (1.0 / 64.0, 0x08),
    }
}

/// Codes and scales of whole blocks in the memory of `old`; nothing if a value is not finite.
pub(crate) fn quantize(
    cpu: Cpu,
    values: &[f32],
    formula: Nvfp4Formula,
    search: ScaleSearch,
    old: Buffers,
) -> Option<(Vec<u8>, Scales)> {
    let amax = amax(cpu, values)?;
    let tensor = tensor_scale(amax, search);
    let (mut codes, mut block) = (old.codes, old.scales);
    codes.resize(values.len() / 2, 0);
    block.resize(values.len() / BLOCK, 0);
    let stream = codes.len() > STREAM_BYTES;
    let granule = Granule2 {
        src: BLOCK * GROUP,
        dst: [BLOCK / 2 * GROUP, GROUP],
    };
    zip_parts_2(
        cpu,
        values,
        &mut codes,
        &mut block,
        granule,
        |values, codes, scales| {
            cpu.run(Quantize {
                values,
                codes,
                scales,
                tensor,
                formula,
                search,
                stream,
            });
        },
    );
    Some((codes, Scales::Nvfp4 { block, tensor }))
}

/// Largest magnitude, or nothing if a value is NaN or infinite.
pub(crate) fn amax(cpu: Cpu, values: &[f32]) -> Option<f32> {
    let parts = map_parts(cpu, values, 16, |part| cpu.run(MaxBits(part)));
    let bits = parts.into_iter().max().unwrap_or(0);
    (bits < 0x7F80_0000).then_some(f32::from_bits(bits))
}

/// Largest magnitude as f32 bits; NaN and infinity come out above every finite value.
pub(crate) struct MaxBits<'a>(pub(crate) &'a [f32]);

impl Kernel for MaxBits<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let mask = s.splat_u(0x7FFF_FFFF);
        let (pieces, rest) = self.0.as_chunks::<PIECE>();
        let mut largest = [s.splat_u(0); 4];
        for step in 0..pieces.len() {
            let piece = &pieces[woven::<PIECES>(step, pieces.len())];
            let (vectors, _) = piece.as_chunks::<16>();
            for i in 0..4 {
                s.prefetch(&vectors[i], AHEAD_BYTES);
                largest[i] = s.max_i(largest[i], s.and(s.to_bits(s.load(&vectors[i])), mask));
            }
        }
        let (vectors, rest) = rest.as_chunks::<16>();
        for vector in vectors {
            largest[0] = s.max_i(largest[0], s.and(s.to_bits(s.load(vector)), mask));
        }
        let largest = s.max_i(
            s.max_i(largest[0], largest[1]),
            s.max_i(largest[2], largest[3]),
        );
        let mut lanes = [0.0; 16];
        s.store(s.bits_to_f32(largest), &mut lanes);
        let vectors = lanes.into_iter().map(f32::to_bits).max().unwrap_or(0);
        rest.iter()
            .fold(vectors, |largest, x| largest.max(x.to_bits() & 0x7FFF_FFFF))
    }
}

pub(crate) struct Quantize<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) codes: &'a mut [u8],
    pub(crate) scales: &'a mut [u8],
    pub(crate) tensor: f32,
    pub(crate) formula: Nvfp4Formula,
    pub(crate) search: ScaleSearch,
    /// Whether codes go past the caches.
    pub(crate) stream: bool,
}

impl Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // Each combination is its own loop, so that the choices cost nothing inside.
        match (self.formula, self.search) {
            (Nvfp4Formula::ModelOpt, ScaleSearch::Amax) => {
                self.all_groups::<S, false>(s, Nvfp4Formula::ModelOpt)
            }
            (Nvfp4Formula::TorchAo, ScaleSearch::Amax) => {
                self.all_groups::<S, false>(s, Nvfp4Formula::TorchAo)
            }
            (formula, _) => self.all_groups::<S, true>(s, formula),
        }
    }
}

impl Quantize<'_> {
    #[inline(always)]
    fn all_groups<S: Simd, const SEARCH: bool>(self, s: S, formula: Nvfp4Formula) {
        // Blocks before the first whole line of codes, if codes go past the caches.
        let lead = values_before_line(self.codes.as_chunks::<{ BLOCK / 2 }>().0)
            .filter(|_| S::STREAMS && self.stream);
        let n_lead = lead.unwrap_or(0);
        let rule = Rule {
            tensor: self.tensor,
            formula,
            search: self.search,
            stream: lead.is_some(),
        };
        let (values_lead, values) = self.values.split_at(n_lead * BLOCK);
        let (codes_lead, codes) = self.codes.split_at_mut(n_lead * BLOCK / 2);
        let (scales_lead, scales) = self.scales.split_at_mut(n_lead);
        // The pass over the tensor for its largest magnitude ended at its end, so that part is still in
        // the caches; the second pass starts there.
        let chunks = values.chunks(WINDOW);
        let codes = codes.chunks_mut(WINDOW / 2);
        let scales = scales.chunks_mut(WINDOW / BLOCK);
        for ((values, codes), scales) in chunks.zip(codes).zip(scales).rev() {
            quantize_chunk::<S, SEARCH>(s, values, rule, codes, scales);
        }
        quantize_chunk::<S, SEARCH>(s, values_lead, rule, codes_lead, scales_lead);
        if rule.stream {
            s.fence();
        }
    }
}

/// What is the same for all blocks.
#[derive(Clone, Copy)]
struct Rule {
    tensor: f32,
    formula: Nvfp4Formula,
    search: ScaleSearch,
    /// Whether codes of whole groups go past the caches.
    stream: bool,
}

#[inline(always)]
fn quantize_chunk<S: Simd, const SEARCH: bool>(
    s: S,
    values: &[f32],
    rule: Rule,
    codes: &mut [u8],
    scales: &mut [u8],
) {
    let (groups, rest) = values.as_chunks::<{ BLOCK * GROUP }>();
    let (codes, codes_rest) = codes.as_chunks_mut::<{ BLOCK / 2 * GROUP }>();
    let (scales, scales_rest) = scales.as_chunks_mut::<GROUP>();
    // The scales of a group are one long chain of dependent steps, among them a division. Those of the
    // next group come before the codes of this one, so that the chain runs while codes are made.
    let visit = |step| woven::<{ PIECES / 4 }>(step, groups.len());
    let mut next = match groups.is_empty() {
        true => Factors::NONE,
        false => scale_group::<S, SEARCH>(s, &groups[visit(0)], rule, &mut scales[visit(0)]),
    };
    for step in 0..groups.len() {
        let (idx, factors) = (visit(step), next);
        if step + 1 < groups.len() {
            let ahead = visit(step + 1);
            next = scale_group::<S, SEARCH>(s, &groups[ahead], rule, &mut scales[ahead]);
        }
        if rule.stream {
            let mut line = [0; BLOCK / 2 * GROUP];
            encode_group(s, &groups[idx], &factors, &mut line);
            s.stream_codes(&line, &mut codes[idx]);
        } else {
            encode_group(s, &groups[idx], &factors, &mut codes[idx]);
        }
    }
    if !rest.is_empty() {
        let mut padded = [0.0; BLOCK * GROUP];
        let (mut codes, mut scales) = ([0; BLOCK / 2 * GROUP], [0; GROUP]);
        padded[..rest.len()].copy_from_slice(rest);
        let factors = scale_group::<S, SEARCH>(s, &padded, rule, &mut scales);
        encode_group(s, &padded, &factors, &mut codes);
        codes_rest.copy_from_slice(&codes[..codes_rest.len()]);
        scales_rest.copy_from_slice(&scales[..scales_rest.len()]);
    }
}

/// Chooses the scales of sixteen blocks.
#[inline(always)]
fn scale_group<S: Simd, const SEARCH: bool>(
    s: S,
    values: &[f32; BLOCK * GROUP],
    rule: Rule,
    scales: &mut [u8; GROUP],
) -> Factors {
    let Rule {
        tensor,
        formula,
        search,
        ..
    } = rule;
    let (blocks, _) = values.as_chunks::<BLOCK>();
    let mask = s.splat_u(0x7FFF_FFFF);
    let magnitudes = array!([s.splat(0.0); GROUP], i => {
        s.bits_to_f32(s.and(s.to_bits(s.load(&blocks[i])), mask))
    });
    let amax = s.row_max(&magnitudes);

    let (smallest, zero_code) = scale_limits(formula);
    let raw = match formula {
        Nvfp4Formula::ModelOpt => s.div(amax, s.splat(6.0 * tensor)),
        Nvfp4Formula::TorchAo => s.div(s.div(amax, s.splat(6.0)), s.splat(tensor)),
    };
    let mut code = scale_code(s, raw, smallest);
    if SEARCH {
        let mut search_state = Search::new(s, s.transpose(&magnitudes), tensor);
        if search == ScaleSearch::FourOverSix {
            search_state.consider(s, code);
            search_state.consider(s, scale_code(s, s.mul(raw, s.splat(1.5)), smallest));
        } else {
            for step in SWEEP {
                let stepped = s.add_u(code, s.splat_u(step as u32));
                search_state.consider(s, s.min_i(s.max_i(stepped, s.splat_u(1)), s.splat_u(0x7E)));
            }
        }
        code = search_state.best;
    }
    let not_zero = s.gt_i(s.to_bits(amax), s.splat_u(0));
    code = s.select(not_zero, code, s.splat_u(u32::from(zero_code)));
    s.store_u8(code, scales);

    let scale = e4m3_value(s, code);
    match formula {
        Nvfp4Formula::ModelOpt => Factors::dividing(s, s.mul(scale, s.splat(tensor))),
        Nvfp4Formula::TorchAo => {
            let mut factors = Factors::NONE;
            s.store(s.div(s.splat(1.0 / tensor), scale), &mut factors.factor);
            factors
        }
    }
}

/// What brings the values of sixteen blocks into the range of the codes, block by block.
///
/// A vector division takes as long as all the rest. Two fused steps give the same quotient:
///
/// ```text
/// q = x r;   q' = q + r (x - q d)         r = 1 / d correctly rounded
/// ```
///
/// `q'` is the correctly rounded `x / d` unless the mantissa of `d` is all ones (Markstein; Muller et
/// al., *Handbook of Floating-Point Arithmetic*, section 4.7) or something underflows. Quotients below
/// `2^-10` become zero whatever their last bit; above that nothing underflows for divisors between
/// `2^-60` and `2^60`. Groups with another divisor are divided.
#[derive(Clone, Copy)]
struct Factors {
    how: How,
    /// `r`, or what a formula multiplies with.
    factor: [f32; GROUP],
    /// `-d`.
    minus_divisor: [f32; GROUP],
}

#[derive(Clone, Copy)]
enum How {
    Multiply,
    MultiplyTwice,
    Divide,
}

impl Factors {
    const NONE: Self = Self {
        how: How::Multiply,
        factor: [0.0; GROUP],
        minus_divisor: [0.0; GROUP],
    };

    #[inline(always)]
    fn dividing<S: Simd>(s: S, divisors: S::F) -> Self {
        let bits = s.to_bits(divisors);
        let all_ones = s.gt_i(s.and(bits, s.splat_u(0x007F_FFFF)), s.splat_u(0x007F_FFFE));
        let too_large = s.gt_i(bits, s.splat_u((127 + 60) << 23));
        let too_small = s.gt_i(s.splat_u((127 - 60) << 23), bits);
        let must_divide = s.any(all_ones) || s.any(too_large) || s.any(too_small);
        let mut factors = Self::NONE;
        factors.how = if must_divide {
            How::Divide
        } else {
            How::MultiplyTwice
        };
        s.store(s.div(s.splat(1.0), divisors), &mut factors.factor);
        s.store(s.sub(s.splat(0.0), divisors), &mut factors.minus_divisor);
        factors
    }
}

/// Codes of sixteen blocks with these factors.
#[inline(always)]
fn encode_group<S: Simd>(
    s: S,
    values: &[f32; BLOCK * GROUP],
    factors: &Factors,
    codes: &mut [u8; BLOCK / 2 * GROUP],
) {
    let (blocks, _) = values.as_chunks::<BLOCK>();
    let (packed, _) = codes.as_chunks_mut::<{ BLOCK / 2 }>();
    let blocks = blocks.iter().zip(packed).enumerate();
    match factors.how {
        How::Multiply => {
            for (idx, (block, packed)) in blocks {
                s.prefetch(block, -AHEAD_BYTES);
                let scaled = s.mul(s.load(block), s.splat(factors.factor[idx]));
                s.store_nibbles(s.encode_e2m1(scaled, scaled), packed);
            }
        }
        How::MultiplyTwice => {
            for (idx, (block, packed)) in blocks {
                // Windows are visited from the last to the first. Requests spread over the arithmetic
                // find room.
                s.prefetch(block, -AHEAD_BYTES);
                let (value, factor) = (s.load(block), s.splat(factors.factor[idx]));
                let quotient = s.mul(value, factor);
                let remainder = s.mul_add(quotient, s.splat(factors.minus_divisor[idx]), value);
                let quotient = s.mul_add(remainder, factor, quotient);
                // The remainder of -0 is +0, so signs come from the values.
                s.store_nibbles(s.encode_e2m1(quotient, value), packed);
            }
        }
        How::Divide => {
            for (idx, (block, packed)) in blocks {
                let scaled = s.div(s.load(block), s.splat(-factors.minus_divisor[idx]));
                s.store_nibbles(s.encode_e2m1(scaled, scaled), packed);
            }
        }
    }
}

/// Values of E4M3 codes that are positive and not NaN.
#[inline(always)]
pub(crate) fn e4m3_value<S: Simd>(s: S, code: S::U) -> S::F {
    s.mul(s.f16_to_f32(s.shl(code, 7)), s.splat(256.0))
}

/// E4M3 codes of scales clamped to their range.
#[inline(always)]
fn scale_code<S: Simd>(s: S, raw: S::F, smallest: f32) -> S::U {
    let clamped = s.min(s.max(raw, s.splat(smallest)), s.splat(448.0));
    encode_magnitude::<E4m3, S>(s, s.to_bits(clamped))
}

/// Per lane (a block each), the first of the scales considered with the smallest squared error.
struct Search<S: Simd> {
    /// Element `i` of all blocks.
    magnitudes: [S::F; BLOCK],
    tensor: S::F,
    best: S::U,
    best_error: S::F,
}

impl<S: Simd> Search<S> {
    #[inline(always)]
    fn new(s: S, magnitudes: [S::F; BLOCK], tensor: f32) -> Self {
        let (best, best_error) = (s.splat_u(0), s.splat(f32::INFINITY));
        Self {
            magnitudes,
            tensor: s.splat(tensor),
            best,
            best_error,
        }
    }

    #[inline(always)]
    fn consider(&mut self, s: S, candidate: S::U) {
        let scale = e4m3_value(s, candidate);
        let inverse = s.div(s.splat(1.0), s.mul(scale, self.tensor));
        let mut sum = s.splat(0.0);
        for &magnitude in &self.magnitudes {
            let scaled = s.mul(magnitude, inverse);
            let difference = s.sub(scaled, s.round_e2m1(scaled));
            sum = s.mul_add(difference, difference, sum);
        }
        // The tensor scale is the same for all candidates and stays out: tiny weights would underflow.
        let error = s.mul(s.mul(sum, scale), scale);
        self.best = s.select(s.lt_f(error, self.best_error), candidate, self.best);
        self.best_error = s.min(error, self.best_error);
    }
}

/// `s * ts` of sixteen blocks.
#[inline(always)]
fn block_factors<S: Simd>(s: S, scales: &[u8; GROUP], tensor: f32) -> [f32; GROUP] {
    let mut factors = [0.0; GROUP];
    let scale = decode::<E4m3, S>(s, s.load_u8(scales));
    s.store(s.mul(scale, s.splat(tensor)), &mut factors);
    factors
}

/// Values of packed blocks: `e2m1 * (s * ts)`.
pub(crate) struct Dequantize<'a> {
    pub(crate) codes: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) tensor: f32,
    pub(crate) values: &'a mut [f32],
    pub(crate) stream: bool,
}

impl Kernel for Dequantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let table: &[f32; 16] = MiniFormat::E2m1.table().first_chunk().expect("256 entries");
        let mut sink = Sink::new(s, self.values, self.stream);
        let (packed, _) = self.codes.as_chunks::<{ BLOCK / 2 }>();
        for (packed, scales) in packed.chunks(GROUP).zip(self.scales.chunks(GROUP)) {
            s.prefetch(&packed[0], 1024);
            s.prefetch(&packed[0], 1024 + 64);
            let mut padded = [0; GROUP];
            let scales = scales.first_chunk().unwrap_or_else(|| {
                padded[..scales.len()].copy_from_slice(scales);
                &padded
            });
            let factors = block_factors(s, scales, self.tensor);
            for (packed, factor) in packed.iter().zip(factors) {
                sink.put(
                    s,
                    s.mul(s.lookup(table, s.load_nibbles(packed)), s.splat(factor)),
                );
            }
        }
        sink.finish(s);
    }
}
