//! Every level must do what the plain arrays do.

use super::scalar::Scalar;
use super::*;

/// Runs every operation on the given lanes and writes all results down as bits.
struct Everything<'a> {
    floats: &'a [[f32; 16]; 16],
    bytes: &'a [u8; 64],
    signed: &'a [u8; 64],
}

impl Kernel for Everything<'_> {
    type Output = Vec<(&'static str, Vec<u32>)>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut out = Vec::new();
        let float = |name, value: S::F| {
            let mut lanes = [0.0; 16];
            s.store(value, &mut lanes);
            (name, lanes.map(f32::to_bits).to_vec())
        };
        let lanes_of = |value: S::U| {
            let mut lanes = [0.0; 16];
            s.store(s.bits_to_f32(value), &mut lanes);
            lanes.map(f32::to_bits)
        };
        let integer = |name, value: S::U| (name, lanes_of(value).to_vec());
        let rows: [S::F; 16] = std::array::from_fn(|i| s.load(&self.floats[i]));
        let (a, b, c) = (rows[0], rows[1], rows[2]);
        let (ua, ub) = (s.to_bits(a), s.to_bits(b));
        out.push(float("add", s.add(a, b)));
        out.push(float("sub", s.sub(a, b)));
        out.push(float("mul", s.mul(a, b)));
        out.push(float("div", s.div(a, b)));
        out.push(float("mul_add", s.mul_add(a, b, c)));
        out.push(float("max", s.max(a, b)));
        out.push(float("min", s.min(a, b)));
        out.push(("sum", vec![s.sum(a).to_bits()]));
        let positive: [S::F; 16] = std::array::from_fn(|i| {
            s.bits_to_f32(s.and(s.to_bits(rows[i]), s.splat_u(0x7FFF_FFFF)))
        });
        out.push(float("row_max_abs", s.row_max_abs(&rows)));
        for row in s.transpose(&rows) {
            out.push(float("transpose", row));
        }
        out.push(integer("and", s.and(ua, ub)));
        out.push(integer("or", s.or(ua, ub)));
        out.push(integer("add_u", s.add_u(ua, ub)));
        out.push(integer("sub_u", s.sub_u(ua, ub)));
        for n in [0, 1, 7, 20, 31] {
            out.push(integer("shl", s.shl(ua, n)));
            out.push(integer("shr", s.shr(ua, n)));
        }
        out.push(integer("min_i", s.min_i(ua, ub)));
        out.push(integer("max_i", s.max_i(ua, ub)));
        out.push(integer("gt_i", s.select(s.gt_i(ua, ub), ua, s.splat_u(7))));
        out.push(integer("lt_f", s.select(s.lt_f(a, b), ua, s.splat_u(7))));
        out.push((
            "any",
            vec![
                u32::from(s.any(s.gt_i(ua, ua))),
                u32::from(s.any(s.gt_i(ua, ub))),
            ],
        ));
        for start in 0..16 {
            out.push(float("join", s.join(a, b, start)));
        }
        out.push(float("i32_to_f32", s.i32_to_f32(ua)));
        out.push(integer("f32_to_i32", s.f32_to_i32(s.mul(a, s.splat(64.0)))));
        out.push(float("f16_to_f32", s.f16_to_f32(ua)));
        out.push(integer("f32_to_f16", s.f32_to_f16(a)));
        let first = |n: usize| -> &[u8] { &self.bytes[..n] };
        out.push(integer(
            "load_u8",
            s.load_u8(first(16).try_into().expect("16 bytes")),
        ));
        let mut sixteen = [0; 16];
        s.store_u8(ua, &mut sixteen);
        out.push(("store_u8", sixteen.map(u32::from).to_vec()));
        let words: [u16; 16] =
            std::array::from_fn(|i| u16::from_le_bytes([self.bytes[2 * i], self.bytes[2 * i + 1]]));
        out.push(integer("load_u16", s.load_u16(&words)));
        let mut halves = [0; 16];
        s.store_u16(s.shr(ua, 16), &mut halves);
        out.push(("store_u16", halves.map(u32::from).to_vec()));
        let nibbles = s.and(
            s.load_nibbles(first(8).try_into().expect("8 bytes")),
            s.splat_u(15),
        );
        out.push(integer("load_nibbles", nibbles));
        let mut eight = [0; 8];
        s.store_nibbles(nibbles, &mut eight);
        out.push(("store_nibbles", eight.map(u32::from).to_vec()));
        out.push(integer("load_u32_le", s.load_u32_le(self.bytes)));
        out.push(integer(
            "spread_4",
            s.spread_4(first(4).try_into().expect("4 bytes")),
        ));
        let unsigned: [u8; 8] = std::array::from_fn(|i| self.bytes[i] & 0x7F);
        out.push(float("e4m3_pairs", s.e4m3_pairs(&unsigned)));
        out.push(float("lookup", s.lookup(&self.floats[3], ua)));
        out.push(integer(
            "encode_e2m1",
            s.and(s.encode_e2m1(a, b), s.splat_u(15)),
        ));
        let rows_from = |first: usize| std::array::from_fn(|i| rows[first + i]);
        let mut line = [0; 64];
        s.encode_e2m1_line(&rows_from(0), &rows_from(8), &mut line);
        out.push(("encode_e2m1_line", line.map(u32::from).to_vec()));
        out.push(float("round_e2m1", s.round_e2m1(positive[0])));
        let numbers: [u8; 16] = std::array::from_fn(|i| {
            if self.bytes[i] & 0x7F == 0x7F {
                0x42
            } else {
                self.bytes[i]
            }
        });
        out.push(float("load_e4m3", s.load_e4m3(&numbers)));
        s.store_nibbles(ua, &mut eight);
        out.push((
            "store_nibbles of dirty lanes",
            eight.map(u32::from).to_vec(),
        ));
        let packed = s.load_b(self.bytes);
        let signed = s.load_b(self.signed);
        let (low, high) = s.e2m1_bytes(packed);
        out.push(integer("dot_u7 low", s.dot_u7(ua, low, signed)));
        out.push(integer("dot_u7 high", s.dot_u7(ub, high, signed)));
        let seven_bits = s.load_b(&self.bytes.map(|b| b & 0x7F));
        out.push(integer("dot_u7 full", s.dot_u7(ub, seven_bits, signed)));
        out.push(integer("dot_i8", s.dot_i8(ua, packed, signed)));
        out.push(integer("load_u", s.load_u(&lanes_of(ub))));
        out
    }
}

#[test]
fn every_level_equals_the_plain_arrays() {
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    for _ in 0..200 {
        let floats: [[f32; 16]; 16] = std::array::from_fn(|_| {
            std::array::from_fn(|_| (next() as f32 / 2f32.powi(30) - 1.0) * 10.0)
        });
        let bytes: [u8; 64] = std::array::from_fn(|_| next() as u8);
        let signed: [u8; 64] = std::array::from_fn(|_| (next() % 255) as u8 ^ 0x81);
        let signed = signed.map(|b| if b == 0x80 { 0x7F } else { b });
        let work = || Everything {
            floats: &floats,
            bytes: &bytes,
            signed: &signed,
        };
        let want = work().run(Scalar);
        for policy in ExecutionPolicy::every_level() {
            for (got, want) in policy.run(work()).iter().zip(&want) {
                assert_eq!(got, want, "{} on {}", want.0, policy.level().name());
            }
        }
    }
}

/// Codes of eight vectors, by the line and one vector at a time.
struct Line<'a>(&'a [[f32; 16]; 8]);

impl Kernel for Line<'_> {
    type Output = [[u8; 64]; 2];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let values: [S::F; 8] = std::array::from_fn(|i| s.load(&self.0[i]));
        let mut out = [[0; 64]; 2];
        s.encode_e2m1_line(&values, &values, &mut out[0]);
        for (value, codes) in values.into_iter().zip(out[1].as_chunks_mut().0) {
            s.store_nibbles(s.encode_e2m1(value, value), codes);
        }
        out
    }
}

#[test]
fn a_line_of_codes_is_exact_at_every_boundary() {
    let points = (0..64).map(|quarter| quarter as f32 * 0.25);
    let near = points.flat_map(|point| {
        let bits = point.to_bits();
        [
            bits.saturating_sub(1),
            bits,
            bits + 1,
            bits ^ 1 << 31,
            (bits + 1) ^ 1 << 31,
        ]
    });
    let tiny = [1u32, 0x8000_0001, 0x0080_0000, 0x3300_0000, 0xB780_0000];
    let below_16 = 16f32.to_bits() - 1;
    let mut values: Vec<f32> = near
        .chain(tiny)
        .chain([below_16, below_16 | 1 << 31])
        .map(f32::from_bits)
        .collect();
    values.resize(values.len().next_multiple_of(128), -0.0);
    for values in values.as_chunks::<128>().0 {
        let rows: [[f32; 16]; 8] =
            std::array::from_fn(|row| std::array::from_fn(|i| values[16 * row + i]));
        for policy in ExecutionPolicy::every_level() {
            let [line, single] = policy.run(Line(&rows));
            assert_eq!(line, single, "{rows:?} on {}", policy.level().name());
            for (i, value) in values.iter().enumerate() {
                let code = crate::scalar::MiniFormat::E2m1.encode(
                    *value,
                    Default::default(),
                    Default::default(),
                );
                assert_eq!(
                    line[i / 2] >> (4 * (i % 2)) & 15,
                    code,
                    "{value} on {}",
                    policy.level().name()
                );
            }
        }
    }
}

#[test]
fn a_missing_level_is_refused_by_name() {
    let absent = if cfg!(target_arch = "x86_64") {
        Level::Neon
    } else {
        Level::Avx2
    };
    let error = ExecutionPolicy::one_thread()
        .with_level(absent)
        .expect_err("not on this processor");
    assert!(error.to_string().contains(absent.name()));
}

/// A test of the vector code that ran the plain arrays would prove nothing.
#[cfg(target_arch = "aarch64")]
#[test]
fn neon_is_used_where_the_dot_product_exists() {
    let has_dot_product = std::arch::is_aarch64_feature_detected!("dotprod");
    assert_eq!(
        ExecutionPolicy::detect().level() == Level::Neon,
        has_dot_product
    );
}
