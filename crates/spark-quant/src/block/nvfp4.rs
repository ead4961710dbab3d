//! NVFP4: sixteen E2M1 codes share an E4M3 scale, all blocks share an f32 scale.
//!
//! ```text
//! ts    = amax(tensor) / 2688                        2688 = 6 * 448; four-over-six: 1536 = 6 * 256
//! s[b]  = e4m3(amax(block b) / (6 ts))
//! code  = e2m1(w / (s ts))                           value = e2m1 * (s * ts)
//! ```
//!
//! Sixteen blocks are done at a time. Their largest magnitudes come from one reduction tree, so the
//! scale arithmetic runs once for sixteen blocks; then each block is one vector, and the codes of eight
//! blocks are one cache line. The scale search works on the transposed group: lane = block, so the
//! squared errors add up without any shuffle.
//!
//! Sources: NVIDIA ModelOpt and torchao for the two formulas, arXiv 2512.02010 for four-over-six.

use crate::packed::{NVFP4_BLOCK, Scales};
use crate::scalar::lanes::decode;
use crate::scalar::slice::STREAM_BYTES;
use crate::scalar::{E4m3, MiniFormat};
use crate::simd::{
    ExecutionPolicy, Kernel, LINE_BYTES, PAGES_AHEAD_BYTES, PIECE, PIECES, Simd, Sink, WINDOW,
    array, page_interleaved, values_before_line,
};
use crate::threads::{Granule2, map_parts, zip_parts_2};

use super::buffers::Buffers;
use super::recipe::{Nvfp4Formula, ScaleSearch};

pub(crate) const BLOCK: usize = NVFP4_BLOCK;
/// Blocks whose scales are found together, one per lane.
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
    policy: ExecutionPolicy,
    values: &[f32],
    formula: Nvfp4Formula,
    search: ScaleSearch,
    old: Buffers,
) -> Option<(Vec<u8>, Scales)> {
    let amax = amax(policy, values)?;
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
        policy,
        values,
        &mut codes,
        &mut block,
        granule,
        |values, codes, scales| {
            policy.run(Quantize {
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
pub(crate) fn amax(policy: ExecutionPolicy, values: &[f32]) -> Option<f32> {
    let parts = map_parts(policy, values, 16, |part| policy.run(MaxBits(part)));
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
            let piece = &pieces[page_interleaved::<PIECES>(step, pieces.len())];
            let (vectors, _) = piece.as_chunks::<16>();
            for i in 0..4 {
                s.prefetch(&vectors[i], PAGES_AHEAD_BYTES);
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
        quantize_blocks::<S, SEARCH>(s, values, rule, codes, scales);
        quantize_blocks::<S, SEARCH>(s, values_lead, rule, codes_lead, scales_lead);
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

/// The group to visit at `step` out of `n`: windows from the last to the first. The pass over the tensor
/// for its largest magnitude ended at its end, so that part is still in the caches.
#[inline(always)]
fn visit(step: usize, n: usize) -> usize {
    const PER_WINDOW: usize = WINDOW / (BLOCK * GROUP);
    let n_partial = n % PER_WINDOW;
    if step < n_partial {
        return n - n_partial + step;
    }
    let step = step - n_partial;
    let inside = page_interleaved::<{ PIECES / 4 }>(step % PER_WINDOW, PER_WINDOW);
    (n / PER_WINDOW - 1 - step / PER_WINDOW) * PER_WINDOW + inside
}

#[inline(always)]
fn quantize_blocks<S: Simd, const SEARCH: bool>(
    s: S,
    values: &[f32],
    rule: Rule,
    codes: &mut [u8],
    scales: &mut [u8],
) {
    let (groups, rest) = values.as_chunks::<{ BLOCK * GROUP }>();
    let (codes, codes_rest) = codes.as_chunks_mut::<{ BLOCK / 2 * GROUP }>();
    let (scales, scales_rest) = scales.as_chunks_mut::<GROUP>();
    if !rest.is_empty() {
        let mut padded = [0.0; BLOCK * GROUP];
        let (mut codes, mut scales) = ([[0; BLOCK / 2 * GROUP]], [[0; GROUP]]);
        padded[..rest.len()].copy_from_slice(rest);
        quantize_groups::<S, SEARCH>(s, &[padded], rule, &mut codes, &mut scales);
        codes_rest.copy_from_slice(&codes[0][..codes_rest.len()]);
        scales_rest.copy_from_slice(&scales[0][..scales_rest.len()]);
    }
    quantize_groups::<S, SEARCH>(s, groups, rule, codes, scales);
}

/// Whole groups, in three steps: scales, factors, codes. The first two are long chains of dependent
/// operations with three divisions, so they run one and two groups ahead of the codes.
#[inline(always)]
fn quantize_groups<S: Simd, const SEARCH: bool>(
    s: S,
    groups: &[[f32; BLOCK * GROUP]],
    rule: Rule,
    codes: &mut [[u8; BLOCK / 2 * GROUP]],
    scales: &mut [[u8; GROUP]],
) {
    let n = groups.len();
    let mut chosen = Chosen {
        code: s.splat_u(0),
        amax: s.splat(0.0),
    };
    let mut factors = [Factors::NONE; 2];
    for step in 0..n + 2 {
        if (1..=n).contains(&step) {
            factors[(step - 1) % 2] = Factors::new(s, chosen, rule);
        }
        if step < n {
            let idx = visit(step, n);
            chosen = choose_scales::<S, SEARCH>(s, &groups[idx], rule);
            s.store_u8(chosen.code, &mut scales[idx]);
        }
        if step >= 2 {
            let idx = visit(step - 2, n);
            let factors = &factors[step % 2];
            if rule.stream {
                let mut lines = [0; BLOCK / 2 * GROUP];
                encode_group(s, &groups[idx], factors, &mut lines);
                s.stream_codes(&lines, &mut codes[idx]);
            } else {
                encode_group(s, &groups[idx], factors, &mut codes[idx]);
            }
        }
    }
}

/// Scales of sixteen blocks as E4M3 codes, and their largest magnitudes.
#[derive(Clone, Copy)]
struct Chosen<S: Simd> {
    code: S::U,
    amax: S::F,
}

#[inline(always)]
fn choose_scales<S: Simd, const SEARCH: bool>(
    s: S,
    values: &[f32; BLOCK * GROUP],
    rule: Rule,
) -> Chosen<S> {
    let Rule {
        tensor,
        formula,
        search,
        ..
    } = rule;
    let (blocks, _) = values.as_chunks::<BLOCK>();
    let rows = array!([s.splat(0.0); GROUP], i => s.load(&blocks[i]));
    let amax = s.row_max_abs(&rows);

    let (smallest, zero_code) = scale_limits(formula);
    let raw = match formula {
        Nvfp4Formula::ModelOpt => s.div(amax, s.splat(6.0 * tensor)),
        Nvfp4Formula::TorchAo => s.div(s.div(amax, s.splat(6.0)), s.splat(tensor)),
    };
    let mut code = scale_code(s, raw, smallest);
    if SEARCH {
        let mask = s.splat_u(0x7FFF_FFFF);
        let magnitudes =
            array!([s.splat(0.0); GROUP], i => s.bits_to_f32(s.and(s.to_bits(rows[i]), mask)));
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
    let code = s.select(not_zero, code, s.splat_u(u32::from(zero_code)));
    Chosen { code, amax }
}

/// What brings the values of sixteen blocks into the range of the codes, block by block.
///
/// A vector division takes as long as all the rest. Two steps give a quotient that no E2M1 boundary
/// tells from the correctly rounded one:
///
/// ```text
/// q = x high + (x low)         high = fl(1 / d)    low = fl(fl(1 - d high) / d)    one rounding each
/// ```
///
/// That holds for every mantissa of `d` and of the values next to a boundary (a test tries them all),
/// as long as nothing underflows: quotients from 1/8 on and divisors between `2^-60` and `2^60` are
/// far from that. Groups with another divisor, or with values beyond those a line is encoded from, go
/// block by block.
#[derive(Clone, Copy)]
struct Factors {
    how: How,
    /// `1 / d`, what the formula multiplies with, or `d` where it is divided by.
    high: [f32; GROUP],
    /// What `1 / d` lacks.
    low: [f32; GROUP],
}

#[derive(Clone, Copy)]
enum How {
    Multiply,
    MultiplyTwice,
    /// One block at a time.
    Divide,
}

/// Largest scaled value, but for rounding, of groups that are encoded by the line.
const MAX_SCALED: f32 = 15.0;

impl Factors {
    const NONE: Self = Self {
        how: How::Multiply,
        high: [0.0; GROUP],
        low: [0.0; GROUP],
    };

    #[inline(always)]
    fn new<S: Simd>(s: S, chosen: Chosen<S>, rule: Rule) -> Self {
        let scale = e4m3_value(s, chosen.code);
        match rule.formula {
            Nvfp4Formula::ModelOpt => {
                Self::dividing(s, s.mul(scale, s.splat(rule.tensor)), chosen.amax)
            }
            Nvfp4Formula::TorchAo => {
                // Scales from 2^-6 on have neighbours so near that four codes below the amax choice
                // magnitudes still stay below MAX_SCALED.
                let mut factors = Self::NONE;
                let high = s.div(s.splat(1.0 / rule.tensor), scale);
                s.store(high, &mut factors.high);
                factors
            }
        }
    }

    #[inline(always)]
    fn dividing<S: Simd>(s: S, divisors: S::F, amax: S::F) -> Self {
        let mut factors = Self::NONE;
        let bits = s.to_bits(divisors);
        let high = s.div(s.splat(1.0), divisors);
        let too_large = s.gt_i(bits, s.splat_u((127 + 60) << 23));
        let too_small = s.gt_i(s.splat_u((127 - 60) << 23), bits);
        let too_far = s.lt_f(s.splat(MAX_SCALED), s.mul(amax, high));
        if s.any(too_large) || s.any(too_small) || s.any(too_far) {
            factors.how = How::Divide;
            s.store(divisors, &mut factors.high);
        } else {
            factors.how = How::MultiplyTwice;
            let minus = s.sub(s.splat(0.0), divisors);
            let remainder = s.mul_add(minus, high, s.splat(1.0));
            s.store(high, &mut factors.high);
            s.store(s.div(remainder, divisors), &mut factors.low);
        }
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
    match factors.how {
        How::Multiply => return encode_lines::<S, false>(s, blocks, factors, codes),
        How::MultiplyTwice => return encode_lines::<S, true>(s, blocks, factors, codes),
        How::Divide => {}
    }
    let (packed, _) = codes.as_chunks_mut::<{ BLOCK / 2 }>();
    for (idx, (block, packed)) in blocks.iter().zip(packed).enumerate() {
        let scaled = s.div(s.load(block), s.splat(factors.high[idx]));
        s.store_nibbles(s.encode_e2m1(scaled, scaled), packed);
    }
}

/// Eight blocks at a time, whose codes fill a line.
#[inline(always)]
fn encode_lines<S: Simd, const TWICE: bool>(
    s: S,
    blocks: &[[f32; BLOCK]],
    factors: &Factors,
    codes: &mut [u8; BLOCK / 2 * GROUP],
) {
    let (lines, _) = codes.as_chunks_mut::<LINE_BYTES>();
    for (line, codes) in lines.iter_mut().enumerate() {
        let mut values = [s.splat(0.0); 8];
        let mut scaled = values;
        for i in 0..8 {
            let idx = 8 * line + i;
            // Windows are visited from the last to the first. Requests spread over the arithmetic find
            // room, and those for memory need a longer distance than those for L2.
            s.prefetch(&blocks[idx], -PAGES_AHEAD_BYTES);
            s.prefetch_far(&blocks[idx], -2 * PAGES_AHEAD_BYTES);
            values[i] = s.load(&blocks[idx]);
            let high = s.splat(factors.high[idx]);
            scaled[i] = if TWICE {
                let rest = s.mul(values[i], s.splat(factors.low[idx]));
                s.mul_add(values[i], high, rest)
            } else {
                s.mul(values[i], high)
            };
        }
        // A sum with a product of -0 may be +0, so signs come from the values.
        s.encode_e2m1_line(&scaled, &values, codes);
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
    s.encode_magnitude::<E4m3>(s.to_bits(clamped))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every divisor where that takes moments. The arithmetic is the same on every processor, and Arm's
    /// is tested under an emulator.
    const STEP: usize = if cfg!(target_arch = "x86_64") {
        16
    } else {
        16 * 257
    };

    /// How many quotients of values next to an E2M1 boundary fall on another side than division says.
    struct WrongSides;

    impl Kernel for WrongSides {
        type Output = u32;

        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> u32 {
            let one = s.splat(1.0);
            let lanes: [u32; 16] = std::array::from_fn(|lane| lane as u32);
            let side = |quotient: S::F, boundary: S::F| {
                let below = s.select(s.lt_f(quotient, boundary), s.splat_u(1), s.splat_u(0));
                s.select(s.lt_f(boundary, quotient), s.splat_u(2), below)
            };
            let mut n_wrong = 0;
            for mantissa in (0..1 << 23).step_by(STEP) {
                let divisor =
                    s.bits_to_f32(s.add_u(s.load_u(&lanes), s.splat_u(0x3F80_0000 + mantissa)));
                let high = s.div(one, divisor);
                let low = s.div(s.mul_add(s.sub(s.splat(0.0), divisor), high, one), divisor);
                // The boundaries 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5 but for powers of two.
                for boundary in [1.0, 1.25, 1.5, 1.75].map(|boundary| s.splat(boundary)) {
                    let middle = s.to_bits(s.mul(boundary, divisor));
                    for offset in -2i32..=2 {
                        let value = s.bits_to_f32(s.add_u(middle, s.splat_u(offset as u32)));
                        let quotient = s.mul_add(value, high, s.mul(value, low));
                        let (got, want) = (
                            side(quotient, boundary),
                            side(s.div(value, divisor), boundary),
                        );
                        n_wrong += u32::from(s.any(s.gt_i(got, want)) || s.any(s.gt_i(want, got)));
                    }
                }
            }
            n_wrong
        }
    }

    /// Quotients never fall as values rise, so those next to a boundary speak for all.
    #[test]
    fn no_boundary_tells_the_two_step_quotient_from_division() {
        assert_eq!(ExecutionPolicy::one_thread().run(WrongSides), 0);
    }
}
