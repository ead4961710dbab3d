//! Rules of the scalar formats, value by value.

use super::*;
use crate::reference;
use crate::simd::ExecutionPolicy;

const OVERFLOWS: [Overflow; 2] = [Overflow::Saturate, Overflow::NonFinite];
const NANS: [NanCode; 3] = [
    NanCode::LargestPositive,
    NanCode::Zero,
    NanCode::OppositeZero,
];

/// All midpoints between adjacent codes and the codes themselves, each with its f32 neighbours.
fn decision_points(format: MiniFormat) -> Vec<f32> {
    let mut points = vec![
        0.0,
        f32::from_bits(1),
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    for code in 0..=format.spec().max_code {
        let low = format.decode(code);
        let high = if code == format.spec().max_code {
            2.0 * low
        } else {
            format.decode(code + 1)
        };
        let last = format.spec().last_in_range;
        for point in [low, (low + high) / 2.0, last] {
            let bits = point.to_bits();
            points.extend([bits.saturating_sub(1), bits, bits + 1].map(f32::from_bits));
        }
    }
    let negative: Vec<f32> = points.iter().map(|p| -p).collect();
    points.extend(negative);
    points
}

#[test]
fn every_midpoint_and_its_neighbours_round_as_the_definition_says() {
    for format in MiniFormat::ALL {
        let points = decision_points(format);
        for overflow in OVERFLOWS {
            for nan in NANS {
                let want: Vec<u8> = points
                    .iter()
                    .map(|&x| reference::encode(format, x, overflow, nan))
                    .collect();
                let single: Vec<u8> = points
                    .iter()
                    .map(|&x| format.encode(x, overflow, nan))
                    .collect();
                assert_eq!(single, want, "{format} {overflow:?} {nan:?}");
                for policy in ExecutionPolicy::every_level() {
                    let mut got = vec![0; points.len()];
                    slice::encode(policy, format, overflow, nan, &points, &mut got)
                        .expect("equal lengths");
                    assert_eq!(
                        got,
                        want,
                        "{format} {overflow:?} {nan:?} {}",
                        policy.level().name()
                    );
                }
            }
        }
    }
}

#[test]
fn every_code_survives_a_round_trip() {
    for format in MiniFormat::ALL {
        let n_codes = 1u32 << format.spec().bits();
        for code in (0..n_codes).map(|code| code as u8) {
            let value = format.decode(code);
            if !value.is_nan() {
                assert_eq!(
                    format.encode(value, Overflow::NonFinite, NanCode::Zero),
                    code,
                    "{format} {code:#x}"
                );
            }
        }
    }
}

#[test]
fn slices_decode_as_the_tables_do_on_every_level() {
    let codes: Vec<u8> = (0..=255).chain(0..77).collect();
    for format in MiniFormat::ALL {
        let want: Vec<u32> = codes
            .iter()
            .map(|&code| format.table()[usize::from(code)].to_bits())
            .collect();
        for policy in ExecutionPolicy::every_level() {
            let mut got = vec![0.0; codes.len()];
            slice::decode(policy, format, &codes, &mut got).expect("equal lengths");
            let got: Vec<u32> = got.into_iter().map(f32::to_bits).collect();
            assert_eq!(got, want, "{format} {}", policy.level().name());
        }
    }
}

#[test]
fn sixteen_bit_slices_equal_the_software_definitions() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    // Every half value, its neighbours in f32, and the midpoints above it.
    let floats: Vec<f32> = bits
        .iter()
        .flat_map(|&b| {
            let (as_half, as_bf16) = (half::f16_bits_to_f32(b), half::bf16_bits_to_f32(b));
            [
                as_half.to_bits(),
                as_half.to_bits() ^ 1,
                as_half.to_bits() | 0x1000,
                as_bf16.to_bits() | 0x8000,
            ]
        })
        .flat_map(|b| [b, b.wrapping_add(1), b.wrapping_sub(1)])
        .map(f32::from_bits)
        .collect();
    for policy in ExecutionPolicy::every_level() {
        let mut halves = vec![::half::f16::ZERO; floats.len()];
        slice::f32_to_f16(policy, &floats, &mut halves).expect("equal lengths");
        let mut bfloats = vec![::half::bf16::ZERO; floats.len()];
        slice::f32_to_bf16(policy, &floats, &mut bfloats).expect("equal lengths");
        for (i, &x) in floats.iter().enumerate() {
            assert_eq!(
                halves[i].to_bits(),
                half::f32_to_f16_bits(x),
                "{:#x} {}",
                x.to_bits(),
                policy.level().name()
            );
            assert_eq!(
                bfloats[i].to_bits(),
                half::f32_to_bf16_bits(x),
                "{:#x}",
                x.to_bits()
            );
        }
        let src: Vec<::half::f16> = bits.iter().map(|&b| ::half::f16::from_bits(b)).collect();
        let mut back = vec![0.0; src.len()];
        slice::f16_to_f32(policy, &src, &mut back).expect("equal lengths");
        for (value, &b) in back.iter().zip(&bits) {
            assert_eq!(
                value.to_bits(),
                half::f16_bits_to_f32(b).to_bits(),
                "{b:#x} {}",
                policy.level().name()
            );
        }
        let src: Vec<::half::bf16> = bits.iter().map(|&b| ::half::bf16::from_bits(b)).collect();
        slice::bf16_to_f32(policy, &src, &mut back).expect("equal lengths");
        assert!(
            back.iter()
                .zip(&bits)
                .all(|(value, &b)| value.to_bits() == u32::from(b) << 16)
        );
    }
}

#[test]
fn the_half_crate_agrees_with_the_software_definitions() {
    for b in 0..=u16::MAX {
        let x = half::f16_bits_to_f32(b);
        if !x.is_nan() {
            assert_eq!(x.to_bits(), ::half::f16::from_bits(b).to_f32().to_bits());
        }
        for bits in [x.to_bits(), x.to_bits() ^ 0x1000, x.to_bits() ^ 0x0FFF] {
            let x = f32::from_bits(bits);
            assert_eq!(
                half::f32_to_f16_bits(x),
                ::half::f16::from_f32(x).to_bits(),
                "{bits:#x}"
            );
            assert_eq!(
                half::f32_to_bf16_bits(x),
                ::half::bf16::from_f32(x).to_bits(),
                "{bits:#x}"
            );
        }
    }
}

#[test]
fn slices_of_different_lengths_are_refused() {
    let mut short = [0xAA; 3];
    let error = slice::encode(
        ExecutionPolicy::detect(),
        MiniFormat::E4m3,
        Overflow::Saturate,
        NanCode::Zero,
        &[1.0; 4],
        &mut short,
    )
    .expect_err("three codes for four values");
    assert_eq!(error.to_string(), "`dst` holds 3 elements, expected 4");
    assert_eq!(short, [0xAA; 3]);
}

#[test]
fn powers_of_two_round_up_down_or_to_the_nearest() {
    use e8m0::{Rounding, decode, encode};
    for code in 0..=254u8 {
        for rounding in [Rounding::Up, Rounding::Down, Rounding::Nearest] {
            assert_eq!(encode(decode(code), rounding), code);
            assert_eq!(encode(-decode(code), rounding), code);
        }
    }
    assert_eq!(
        [
            encode(1.5, Rounding::Up),
            encode(1.5, Rounding::Down),
            encode(1.5, Rounding::Nearest)
        ],
        [128, 127, 128]
    );
    assert_eq!(encode(1.499, Rounding::Nearest), 127);
    assert_eq!(encode(0.0, Rounding::Up), 0);
    assert_eq!(encode(f32::INFINITY, Rounding::Down), 254);
    assert_eq!(encode(f32::MAX, Rounding::Up), 254);
    assert_eq!(encode(f32::NAN, Rounding::Up), e8m0::NAN);
    assert!(decode(e8m0::NAN).is_nan());
}
