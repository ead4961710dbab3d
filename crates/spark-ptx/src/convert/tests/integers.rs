//! Conversions from and to integers.

use super::{check, f32_code, form};
use crate::float::Rounding;
use crate::oracle::{BF16, F16, F32, Random, decode, encode, to_whole};

/// Integer types: name, bits, signed.
const TYPES: [(&str, u32, bool); 8] = [
    ("u8", 8, false),
    ("u16", 16, false),
    ("u32", 32, false),
    ("u64", 64, false),
    ("s8", 8, true),
    ("s16", 16, true),
    ("s32", 32, true),
    ("s64", 64, true),
];

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// The number in 64 bits, as a register that is wider than the type holds it.
fn register(value: i128, bits: u32, signed: bool) -> u64 {
    let low = value as u64 & (u64::MAX >> (64 - bits));
    if signed && value < 0 {
        low | (u64::MAX << (bits - 1))
    } else {
        low
    }
}

#[test]
fn floats_are_rounded_and_then_clamped() {
    let mut random = Random(31);
    for (name, bits, signed) in TYPES {
        let (low, high) = range(bits, signed);
        for (rounding_name, rounding) in [
            ("rni", Rounding::NearestEven),
            ("rzi", Rounding::TowardZero),
            ("rmi", Rounding::Down),
            ("rpi", Rounding::Up),
        ] {
            let forms = ["f32", "f64", "f16", "bf16"]
                .map(|source| form(&format!("{rounding_name}.{name}.{source}")));
            let want_of = |value: f64| {
                // f64 holds whole numbers up to 2^128 exactly enough to be clamped.
                let whole = to_whole(value, rounding);
                let clamped = if whole.is_infinite() {
                    if whole < 0.0 { low } else { high }
                } else {
                    (whole as i128).clamp(low, high)
                };
                register(clamped, bits, signed)
            };
            for _ in 0..10_000 {
                let field = 120 + random.below(80);
                let single = random.next() & 0x807F_FFFF | field << 23;
                let half = random.next() & 0xFFFF;
                let value = f64::from(f32::from_bits(single as u32));
                let text = format!("{rounding_name} {name} {single:X} {half:X}");
                assert_eq!(forms[0].apply(&[single]), want_of(value), "{text}");
                assert_eq!(forms[1].apply(&[value.to_bits()]), want_of(value), "{text}");
                for (form, widths) in [(forms[2], F16), (forms[3], BF16)] {
                    let value = decode(widths, half);
                    if !value.is_nan() {
                        assert_eq!(form.apply(&[half]), want_of(value), "{text}");
                    }
                }
            }
        }
    }
    check("rzi.u32.f32", &[f32_code(-1.5)], 0);
    check("rzi.s32.f32", &[f32_code(3e9)], 0x7FFF_FFFF);
    check("ftz.rpi.s32.f32", &[1], 0);
    check("rpi.s32.f32", &[1], 1);
}

/// Zero, but the top bit alone from f64 and to 64 bits.
#[test]
fn nan_becomes_zero_or_the_top_bit() {
    for (name, bits, signed) in TYPES {
        for (source, code, is_wide) in [
            ("f16", 0xFE00, false),
            ("bf16", 0x7FC1, false),
            ("f32", 0xFFC0_0001, false),
            ("f64", f64::NAN.to_bits(), true),
        ] {
            let got = form(&format!("rzi.{name}.{source}")).apply(&[code]);
            let top = if signed {
                -(1_i128 << (bits - 1))
            } else {
                1 << (bits - 1)
            };
            let want = if is_wide || bits == 64 {
                register(top, bits, signed)
            } else {
                0
            };
            assert_eq!(got, want, "{name} {source}");
        }
    }
}

#[test]
fn integers_of_32_bits_and_fewer_become_floats_rounded_once() {
    let mut random = Random(32);
    for (name, bits, signed) in TYPES.into_iter().filter(|(_, bits, _)| *bits <= 32) {
        for (rounding_name, rounding) in [
            ("rn", Rounding::NearestEven),
            ("rz", Rounding::TowardZero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ] {
            for (destination, widths) in [("f16", F16), ("bf16", BF16), ("f32", F32)] {
                let form = form(&format!("{rounding_name}.{destination}.{name}"));
                for _ in 0..5_000 {
                    let word = (random.next() >> random.below(32)) & 0xFFFF_FFFF;
                    let low = word & (u64::MAX >> (64 - bits));
                    let value = if signed {
                        (low << (64 - bits)) as i64 >> (64 - bits)
                    } else {
                        low as i64
                    };
                    let want = encode(widths, value as f64, rounding);
                    assert_eq!(
                        form.apply(&[word]),
                        want,
                        "{rounding_name} {destination} {name} {word:X}"
                    );
                }
            }
        }
    }
}

#[test]
fn integers_of_64_bits_round_as_the_processor_does() {
    let mut random = Random(33);
    let forms = [
        "rn.f32.u64",
        "rn.f32.s64",
        "rn.f64.u64",
        "rn.f64.s64",
        "rz.f64.u64",
    ]
    .map(form);
    for _ in 0..100_000 {
        let mut word = random.next() >> random.below(64);
        if random.below(2) == 0 {
            // A tie of f64, and one beside it.
            word = word & !0x7FF | 0x400 | random.below(2);
        }
        let signed = word as i64;
        assert_eq!(forms[0].apply(&[word]), f32_code(word as f32));
        assert_eq!(forms[1].apply(&[word]), f32_code(signed as f32));
        assert_eq!(forms[2].apply(&[word]), (word as f64).to_bits());
        assert_eq!(forms[3].apply(&[word]), (signed as f64).to_bits());
        let n_dropped = 11_u32.saturating_sub(word.leading_zeros());
        let cut = word >> n_dropped << n_dropped;
        assert_eq!(forms[4].apply(&[word]), (cut as f64).to_bits());
    }
}

#[test]
fn integers_are_cut_extended_or_clamped() {
    let mut random = Random(34);
    for (from, from_bits, from_signed) in TYPES {
        for (to, to_bits, to_signed) in TYPES {
            let plain = form(&format!("{to}.{from}"));
            let (low, high) = range(to_bits, to_signed);
            let (from_low, from_high) = range(from_bits, from_signed);
            let parts = ["sat", to, from];
            let saturating = super::Conversion::parse(&parts);
            assert_eq!(
                saturating.is_ok(),
                from_low < low || from_high > high,
                "{to} {from}"
            );
            for _ in 0..500 {
                let word = random.next() >> random.below(64);
                let cut = word & (u64::MAX >> (64 - from_bits));
                let value = if from_signed && cut >> (from_bits - 1) == 1 {
                    i128::from(cut) - (1 << from_bits)
                } else {
                    i128::from(cut)
                };
                let wrapped = (value & (u64::MAX >> (64 - to_bits)) as i128) as u64;
                let got = plain.apply(&[word]);
                assert_eq!(
                    got & (u64::MAX >> (64 - to_bits)),
                    wrapped,
                    "{to} {from} {word:X}"
                );
                let is_negative = to_signed && wrapped >> (to_bits - 1) == 1;
                let above = if is_negative {
                    u64::MAX << (to_bits - 1)
                } else {
                    0
                };
                assert_eq!(got, wrapped | above, "{to} {from} {word:X}");
                if let Ok(saturating) = &saturating {
                    let want = register(value.clamp(low, high), to_bits, to_signed);
                    assert_eq!(saturating.apply(&[word]), want, "sat {to} {from} {word:X}");
                }
            }
        }
    }
}
