//! Formats of eight bits and fewer: nearest of all values, ties to the even code.

use super::{check, f32_code, form};
use crate::oracle::{BF16, F16, decode};

struct Small {
    name: &'static str,
    /// Values of the codes without sign, ascending; typed from the formats' definitions.
    values: Vec<f64>,
    sign: u64,
    nan: u64,
    /// Bits of one number in a pair.
    slot: u32,
}

/// `2^(field - bias) (1 + m / 2^M)`, and `2^(1 - bias) m / 2^M` for field 0.
fn values(exponent_bits: u32, mantissa_bits: u32, bias: i32, n: usize) -> Vec<f64> {
    let n_mantissas = 1 << mantissa_bits;
    (0..1_usize << (exponent_bits + mantissa_bits))
        .take(n)
        .map(|code| {
            let (field, mantissa) = ((code / n_mantissas) as i32, (code % n_mantissas) as f64);
            let fraction = mantissa / n_mantissas as f64;
            if field == 0 {
                2.0_f64.powi(1 - bias) * fraction
            } else {
                2.0_f64.powi(field - bias) * (1.0 + fraction)
            }
        })
        .collect()
}

fn all() -> [Small; 5] {
    [
        // 0x7F is NaN.
        Small {
            name: "e4m3x2",
            values: values(4, 3, 7, 127),
            sign: 0x80,
            nan: 0x7F,
            slot: 8,
        },
        // 0x7C is infinity.
        Small {
            name: "e5m2x2",
            values: values(5, 2, 15, 124),
            sign: 0x80,
            nan: 0x7F,
            slot: 8,
        },
        Small {
            name: "e2m3x2",
            values: values(2, 3, 1, 32),
            sign: 0x20,
            nan: 0x1F,
            slot: 8,
        },
        Small {
            name: "e3m2x2",
            values: values(3, 2, 3, 32),
            sign: 0x20,
            nan: 0x1F,
            slot: 8,
        },
        Small {
            name: "e2m1x2",
            values: values(2, 1, 1, 8),
            sign: 0x8,
            nan: 0x7,
            slot: 4,
        },
    ]
}

impl Small {
    /// Code of the nearest value, by looking at every one.
    fn nearest(&self, value: f64) -> u64 {
        if value.is_nan() {
            return self.nan;
        }
        let magnitude = value.abs();
        let mut best = 0;
        for (code, candidate) in self.values.iter().enumerate() {
            let (distance, least) = (
                (candidate - magnitude).abs(),
                (self.values[best] - magnitude).abs(),
            );
            if distance < least || distance == least && code % 2 == 0 {
                best = code;
            }
        }
        // Far beyond the largest value f64 sees no difference between distances.
        let last = self.values.len() - 1;
        if magnitude >= self.values[last] {
            best = last;
        }
        best as u64
            | if value.is_sign_negative() {
                self.sign
            } else {
                0
            }
    }

    fn pair(&self, high: u64, low: u64) -> u64 {
        high << self.slot | low
    }
}

#[test]
fn largest_values_are_those_of_the_formats() {
    let largest: Vec<f64> = all()
        .iter()
        .map(|small| *small.values.last().unwrap())
        .collect();
    assert_eq!(largest, [448.0, 57344.0, 7.5, 28.0, 6.0]);
}

#[test]
fn f32_gives_the_nearest_value_at_every_tie_and_beside_it() {
    for small in all() {
        let form = form(&format!("rn.satfinite.{}.f32", small.name));
        assert_eq!(form.n_sources(), 2);
        assert_eq!(form.destination_bits(), 2 * small.slot);
        let mut samples = vec![
            0.0_f32,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            1e30,
            f32::INFINITY,
        ];
        for pair in small.values.windows(2) {
            for value in [pair[0], (pair[0] + pair[1]) / 2.0, pair[1]] {
                let value = value as f32;
                samples.extend([value, value.next_up(), value.next_down()]);
            }
        }
        let largest = *small.values.last().unwrap() as f32;
        samples.extend([largest * 1.01, largest * 1.5, largest * 4.0]);
        for value in samples.into_iter().flat_map(|value| [value, -value]) {
            let want = small.nearest(f64::from(value));
            let got = form.apply(&[f32_code(value), f32_code(1.0)]);
            assert_eq!(
                got,
                small.pair(want, small.nearest(1.0)),
                "{} {value:e}",
                small.name
            );
            let got = form.apply(&[f32_code(1.0), f32_code(value)]);
            assert_eq!(
                got,
                small.pair(small.nearest(1.0), want),
                "{} {value:e}",
                small.name
            );
        }
    }
}

#[test]
fn nan_loses_its_sign_and_gives_the_largest_value_where_there_is_none() {
    for small in all() {
        let text = format!("rn.satfinite.{}.f32", small.name);
        check(
            &text,
            &[0xFFC0_0001, 0x7F80_0001],
            small.pair(small.nan, small.nan),
        );
        let text = format!("rn.satfinite.relu.{}.f32", small.name);
        check(
            &text,
            &[0xFFC0_0001, f32_code(-1.0)],
            small.pair(small.nan, 0),
        );
        check(&text, &[f32_code(f32::NEG_INFINITY), f32_code(-0.0)], 0);
    }
}

#[test]
fn every_half_gives_the_nearest_value() {
    for small in all() {
        for (half, widths) in [("f16x2", F16), ("bf16x2", BF16)] {
            let form = form(&format!("rn.satfinite.{}.{half}", small.name));
            assert_eq!((form.n_sources(), form.source_bits()), (1, 32));
            for code in 0..1_u64 << 16 {
                let other = code ^ 0x8000;
                let want = small.pair(
                    small.nearest(decode(widths, code)),
                    small.nearest(decode(widths, other)),
                );
                assert_eq!(
                    form.apply(&[code << 16 | other]),
                    want,
                    "{} {code:X}",
                    small.name
                );
            }
        }
    }
}

#[test]
fn every_code_widens_to_its_value() {
    for small in all() {
        let form = form(&format!("rn.f16x2.{}", small.name));
        let relu = super::form(&format!("rn.relu.f16x2.{}", small.name));
        assert_eq!(form.source_bits(), 2 * small.slot);
        for code in 0..2 * small.sign {
            let magnitude = code & (small.sign - 1);
            let negative = code & small.sign != 0;
            let got = form.apply(&[small.pair(code, 0)]);
            assert_eq!(got & 0xFFFF, 0, "{} {code:X}", small.name);
            let half = got >> 16;
            match small.values.get(magnitude as usize) {
                Some(value) => {
                    let want = if negative { -value } else { *value };
                    let got = decode(F16, half);
                    assert!(
                        got == want && got.is_sign_negative() == negative,
                        "{code:X}"
                    );
                    let clamped = relu.apply(&[small.pair(0, code)]);
                    assert_eq!(clamped, if negative { 0 } else { half });
                }
                None if small.name == "e5m2x2" && magnitude == 0x7C => {
                    assert_eq!(half, if negative { 0xFC00 } else { 0x7C00 });
                }
                None => assert_eq!(half, 0x7FFF, "{} {code:X}", small.name),
            }
        }
    }
}

/// Vectors that public programs and NVIDIA's headers agree on.
#[test]
fn published_pairs() {
    let pair = |a: f32, b: f32| [f32_code(a), f32_code(b)];
    check("rn.satfinite.e4m3x2.f32", &pair(0.40625, 12.9), 0x2D55);
    check("rn.f16x2.e4m3x2", &[0x2D55], 0x3680_4A80);
    check("rn.satfinite.e5m2x2.f32", &pair(0.375, -5256.6), 0x36ED);
    for (value, code) in [
        (0.25, 0),
        (0.75, 2),
        (1.25, 2),
        (1.75, 4),
        (2.5, 4),
        (3.5, 6),
        (5.0, 6),
    ] {
        check(
            "rn.satfinite.e2m1x2.f32",
            &pair(value, -value),
            code << 4 | code | 8,
        );
    }
    check(
        "rn.satfinite.e2m1x2.f32",
        &pair(f32::INFINITY, f32::NEG_INFINITY),
        0x7F,
    );
    check("rn.satfinite.e4m3x2.f32", &pair(1e9, -1e9), 0x7EFE);
    check(
        "rn.satfinite.e5m2x2.f32",
        &pair(1e9, f32::NEG_INFINITY),
        0x7BFB,
    );
}
