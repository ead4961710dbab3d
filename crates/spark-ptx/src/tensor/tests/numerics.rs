//! The sum of a tensor core, against whole-number arithmetic and against numbers worked by hand.

use super::tile::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, TF32, TestElement, pack_a, pack_b, pack_c, unpack_d,
};
use crate::Target;
use crate::oracle::Random;
use crate::tensor::{BlockScales, MmaForm};

/// `± significand * 2^unit`, and the exponent that an alignment sees.
#[derive(Clone, Copy)]
struct Term {
    significand: i128,
    unit: i32,
    exponent: i32,
}

fn term_of(code: u32, (exponent_bits, mantissa_bits): (u32, u32)) -> Term {
    let field = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = i128::from(code & ((1 << mantissa_bits) - 1));
    let negative = code >> (exponent_bits + mantissa_bits) & 1 == 1;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = if field == 0 {
        1 - bias
    } else {
        field as i32 - bias
    };
    let magnitude = if field == 0 {
        mantissa
    } else {
        mantissa + (1 << mantissa_bits)
    };
    Term {
        significand: if negative { -magnitude } else { magnitude },
        unit: exponent - mantissa_bits as i32,
        exponent: if magnitude == 0 { -126 } else { exponent },
    }
}

fn product(a: Term, b: Term, scale: i32) -> Term {
    Term {
        significand: a.significand * b.significand,
        unit: a.unit + b.unit + scale,
        exponent: a.exponent + b.exponent + scale,
    }
}

/// The aligned and truncated sum in units of `2^(largest exponent - fraction bits)`.
fn aligned_sum(terms: &[Term], fraction_bits: i32) -> (i128, i32) {
    let largest = terms.iter().map(|term| term.exponent).max().unwrap();
    let unit = largest - fraction_bits;
    let sum = terms
        .iter()
        .map(|term| {
            let mut value = term.significand;
            for _ in unit..term.unit {
                value *= 2;
            }
            for _ in term.unit..unit {
                value /= 2;
                if value == 0 {
                    break;
                }
            }
            value
        })
        .sum();
    (sum, unit)
}

/// Toward zero to f32, by halving until it fits.
fn f32_toward_zero((sum, mut unit): (i128, i32), mantissa_bits: u32) -> u32 {
    let mut magnitude = sum.unsigned_abs();
    while magnitude >= 2 << mantissa_bits || magnitude > 0 && unit < -126 - mantissa_bits as i32 {
        magnitude /= 2;
        unit += 1;
    }
    let value = magnitude as f64 * 2.0_f64.powi(unit);
    let value = if sum < 0 { -value } else { value };
    if sum == 0 {
        0
    } else {
        (value as f32).to_bits()
    }
}

/// To the nearest f16, ties to even.
fn f16_nearest((sum, unit): (i128, i32)) -> u32 {
    let value = (sum.unsigned_abs() as f64) * 2.0_f64.powi(unit);
    if sum == 0 {
        return 0;
    }
    let sign = u32::from(sum < 0) << 15;
    let octave = (value.log2().floor() as i32).max(-14);
    let steps = (value / 2.0_f64.powi(octave - 10)).round_ties_even();
    let code = steps as u32 + (((octave + 14) as u32) << 10);
    sign | code.min(0x7C00)
}

/// How a target sums one type: fraction bits, mantissa bits of f32 results, parts of k.
type Rule = (i32, u32, usize);

struct Case {
    text: &'static str,
    a: TestElement,
    b: TestElement,
    depth: usize,
    target: Target,
    rule: Rule,
}

const CASES: &[Case] = &{
    const fn case(
        text: &'static str,
        a: TestElement,
        b: TestElement,
        depth: usize,
        target: Target,
        rule: Rule,
    ) -> Case {
        Case {
            text,
            a,
            b,
            depth,
            target,
            rule,
        }
    }
    use Target::{Sm80, Sm86, Sm89, Sm90a, Sm121a};
    [
        case(
            "m16n8k16.row.col.f32.f16.f16.f32",
            F16,
            F16,
            16,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k16.row.col.f32.f16.f16.f32",
            F16,
            F16,
            16,
            Sm90a,
            (25, 23, 1),
        ),
        case(
            "m16n8k16.row.col.f32.f16.f16.f32",
            F16,
            F16,
            16,
            Sm80,
            (24, 23, 2),
        ),
        case(
            "m16n8k16.row.col.f16.f16.f16.f16",
            F16,
            F16,
            16,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k16.row.col.f16.f16.f16.f16",
            F16,
            F16,
            16,
            Sm86,
            (24, 23, 2),
        ),
        case(
            "m16n8k8.row.col.f32.f16.f16.f32",
            F16,
            F16,
            8,
            Sm86,
            (24, 23, 1),
        ),
        case(
            "m16n8k16.row.col.f32.bf16.bf16.f32",
            BF16,
            BF16,
            16,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k16.row.col.f32.bf16.bf16.f32",
            BF16,
            BF16,
            16,
            Sm89,
            (24, 23, 2),
        ),
        case(
            "m16n8k8.row.col.f32.tf32.tf32.f32",
            TF32,
            TF32,
            8,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k8.row.col.f32.tf32.tf32.f32",
            TF32,
            TF32,
            8,
            Sm80,
            (24, 23, 2),
        ),
        case(
            "m16n8k4.row.col.f32.tf32.tf32.f32",
            TF32,
            TF32,
            4,
            Sm80,
            (24, 23, 1),
        ),
        case(
            "m16n8k32.row.col.f32.e4m3.e5m2.f32",
            E4M3,
            E5M2,
            32,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k32.row.col.f32.e4m3.e5m2.f32",
            E4M3,
            E5M2,
            32,
            Sm89,
            (13, 13, 2),
        ),
        case(
            "m16n8k16.row.col.f32.e5m2.e4m3.f32",
            E5M2,
            E4M3,
            16,
            Sm89,
            (13, 13, 1),
        ),
        case(
            "m16n8k32.row.col.f16.e4m3.e4m3.f16",
            E4M3,
            E4M3,
            32,
            Sm89,
            (13, 13, 2),
        ),
        case(
            "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
            E2M1,
            E3M2,
            32,
            Sm121a,
            (25, 23, 1),
        ),
        case(
            "m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e4m3.f32",
            E2M3,
            E4M3,
            32,
            Sm121a,
            (25, 23, 1),
        ),
    ]
};

/// A finite code of a float type, in its container.
fn draw_code(element: TestElement, random: &mut Random) -> u32 {
    let (exponent_bits, mantissa_bits) = element.float.unwrap();
    let fields = (1_u32 << exponent_bits) - 1;
    let has_specials = !matches!(element.name, "e2m1" | "e2m3" | "e3m2");
    loop {
        let field = match random.below(8) {
            0 => 0,
            1 => random.below(u64::from(fields) + 1) as u32,
            _ => fields / 2 - 3_u32.min(fields / 2) + random.below(7) as u32,
        };
        let field = field.min(fields);
        if has_specials && field == fields {
            continue;
        }
        let mantissa = match random.below(6) {
            0 => 0,
            _ => random.next() as u32 & ((1 << mantissa_bits) - 1),
        };
        let sign = (random.next() & 1) as u32;
        let code = (sign << exponent_bits | field) << mantissa_bits | mantissa;
        let below = if element.name == "tf32" {
            random.next() as u32 & 0x1FFF
        } else {
            0
        };
        return code << element.shift | below;
    }
}

#[test]
fn sums_are_aligned_truncated_and_rounded_as_the_model_says() {
    let mut random = Random(3);
    for case in CASES {
        let text = format!("sync.aligned.{}", case.text);
        let form = MmaForm::parse(&text.split('.').collect::<Vec<_>>()).unwrap();
        let is_f16 = text.contains(".f16.e4m3") || text.contains(".f16.f16.f16.f16");
        let (c_bits, c_fields) = if is_f16 { (16, (5, 10)) } else { (32, (8, 23)) };
        let (fraction_bits, mantissa_bits, n_parts) = case.rule;
        for _ in 0..150 {
            let mut draw = |element| draw_code(element, &mut random);
            let a: [[u32; 32]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| draw(case.a)));
            let b: [[u32; 8]; 32] = std::array::from_fn(|_| std::array::from_fn(|_| draw(case.b)));
            let c: [[u32; 8]; 16] = std::array::from_fn(|_| {
                std::array::from_fn(|_| if is_f16 { draw(F16) } else { draw(TF32) })
            });
            let mut d = vec![[0; 32]; c_bits as usize / 8];
            form.execute(
                &pack_a(case.depth, case.a.bits, |row, k| a[row][k]),
                &pack_b(case.depth, case.b.bits, |k, column| b[k][column]),
                &pack_c(c_bits, |row, column| c[row][column]),
                None,
                case.target,
                &mut d,
            )
            .unwrap();
            let tile = unpack_d(&d, c_bits);
            for row in 0..16 {
                for column in 0..8 {
                    let mut sum = c[row][column];
                    for part in 0..n_parts {
                        let length = case.depth / n_parts;
                        let mut terms = vec![term_of(sum, c_fields)];
                        for k in part * length..(part + 1) * length {
                            terms.push(product(
                                term_of(a[row][k] >> case.a.shift, case.a.float.unwrap()),
                                term_of(b[k][column] >> case.b.shift, case.b.float.unwrap()),
                                0,
                            ));
                        }
                        let exact = aligned_sum(&terms, fraction_bits);
                        sum = if is_f16 {
                            f16_nearest(exact)
                        } else {
                            f32_toward_zero(exact, mantissa_bits)
                        };
                        let infinity = if is_f16 { 0x7C00 } else { 0x7F80_0000 };
                        if sum & infinity == infinity {
                            break;
                        }
                    }
                    assert_eq!(
                        tile[row][column], sum,
                        "{} {} D[{row}][{column}]",
                        case.text, case.target
                    );
                }
            }
        }
    }
}

#[test]
fn scaled_sums_are_aligned_with_their_scales() {
    let mut random = Random(5);
    let text = "sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m3.f32.ue8m0";
    let form = MmaForm::parse(&text.split('.').collect::<Vec<_>>()).unwrap();
    for round in 0..200 {
        let mut draw = |element| draw_code(element, &mut random);
        let a: [[u32; 32]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| draw(E4M3)));
        let b: [[u32; 8]; 32] = std::array::from_fn(|_| std::array::from_fn(|_| draw(E2M3)));
        let c: [[u32; 8]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| draw(TF32)));
        let mut scale = |_| {
            if round % 4 == 0 {
                random.below(255) as u32
            } else {
                120 + random.below(14) as u32
            }
        };
        let scales = BlockScales {
            a: std::array::from_fn(&mut scale),
            a_byte: 0,
            a_thread: 0,
            b: std::array::from_fn(&mut scale),
            b_byte: 0,
            b_thread: 0,
        };
        let mut d = vec![[0; 32]; 4];
        form.execute(
            &pack_a(32, 8, |row, k| a[row][k]),
            &pack_b(32, 8, |k, column| b[k][column]),
            &pack_c(32, |row, column| c[row][column]),
            Some(&scales),
            Target::Sm121a,
            &mut d,
        )
        .unwrap();
        let tile = unpack_d(&d, 32);
        for row in 0..16 {
            for column in 0..8 {
                let exponent = scales.a[4 * (row % 8) + row / 8] as i32 - 127
                    + scales.b[4 * column] as i32
                    - 127;
                let mut terms = vec![term_of(c[row][column], (8, 23))];
                for k in 0..32 {
                    terms.push(product(
                        term_of(a[row][k], (4, 3)),
                        term_of(b[k][column], (2, 3)),
                        exponent,
                    ));
                }
                let want = f32_toward_zero(aligned_sum(&terms, 25), 23);
                assert_eq!(tile[row][column], want, "D[{row}][{column}]");
            }
        }
    }
}

/// A group's products are summed exactly; its exponent is that of its scales; 35 bits are kept.
#[test]
fn groups_of_sixteen_are_aligned_by_their_scales_alone() {
    const HALVES: [i128; 8] = [0, 1, 2, 3, 4, 6, 8, 12];
    let halves = |code: u32| {
        let magnitude = HALVES[code as usize & 7];
        if code & 8 == 0 { magnitude } else { -magnitude }
    };
    let mut random = Random(9);
    for (text, n_scales, is_power) in [
        (
            "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
            2,
            true,
        ),
        (
            "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
            4,
            false,
        ),
        (
            "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
            4,
            true,
        ),
    ] {
        let modifiers: Vec<&str> = ["sync", "aligned"]
            .into_iter()
            .chain(text.split('.'))
            .collect();
        let form = MmaForm::parse(&modifiers).unwrap();
        for _ in 0..200 {
            let mut nibble = || random.below(16) as u32;
            let a: [[u32; 64]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| nibble()));
            let b: [[u32; 8]; 64] = std::array::from_fn(|_| std::array::from_fn(|_| nibble()));
            let c: [[u32; 8]; 16] =
                std::array::from_fn(|_| std::array::from_fn(|_| draw_code(TF32, &mut random)));
            let mut byte = || loop {
                let code = if is_power {
                    110 + random.below(36)
                } else {
                    random.below(256)
                } as u32;
                if is_power || code & 0x7F != 0x7F {
                    break code;
                }
            };
            let mut word = |_| byte() | byte() << 8 | byte() << 16 | byte() << 24;
            let scales = BlockScales {
                a: std::array::from_fn(&mut word),
                a_byte: 0,
                a_thread: 0,
                b: std::array::from_fn(&mut word),
                b_byte: 0,
                b_thread: 0,
            };
            let mut d = vec![[0; 32]; 4];
            form.execute(
                &pack_a(64, 4, |row, k| a[row][k]),
                &pack_b(64, 4, |k, column| b[k][column]),
                &pack_c(32, |row, column| c[row][column]),
                Some(&scales),
                Target::Sm121a,
                &mut d,
            )
            .unwrap();
            let tile = unpack_d(&d, 32);
            let scale = |word: u32, idx: usize| {
                let code = word >> (8 * idx) & 0xFF;
                if is_power {
                    Term {
                        significand: 1,
                        unit: code as i32 - 127,
                        exponent: code as i32 - 127,
                    }
                } else {
                    term_of(code & 0x7F, (4, 3))
                }
            };
            for row in 0..16 {
                for column in 0..8 {
                    let mut terms = vec![term_of(c[row][column], (8, 23))];
                    for group in 0..4 {
                        let sum: i128 = (16 * group..16 * group + 16)
                            .map(|k| halves(a[row][k]) * halves(b[k][column]))
                            .sum();
                        let idx = group * n_scales / 4;
                        let of_both = product(
                            scale(scales.a[4 * (row % 8) + row / 8], idx),
                            scale(scales.b[4 * column], idx),
                            0,
                        );
                        terms.push(Term {
                            significand: of_both.significand * sum,
                            unit: of_both.unit - 2,
                            exponent: of_both.exponent,
                        });
                    }
                    let want = f32_toward_zero(aligned_sum(&terms, 35), 23);
                    assert_eq!(tile[row][column], want, "{text} D[{row}][{column}]");
                }
            }
        }
    }
}

/// D[0][0] of an `mma` whose row 0 of A and column 0 of B are these codes, the rest zero.
#[track_caller]
fn first_of(text: &str, target: Target, row: &[u32], column: &[u32], c: u32) -> u32 {
    let form = MmaForm::parse(&text.split('.').collect::<Vec<_>>()).unwrap();
    let counts = form.registers();
    let k_at = text.find("n8k").unwrap() + 3;
    let depth: usize = text[k_at..].split('.').next().unwrap().parse().unwrap();
    let bits = (counts.a * 1024 / (16 * depth)) as u32;
    let c_bits = 8 * counts.c as u32;
    let element = |codes: &[u32], idx: usize| codes.get(idx).copied().unwrap_or(0);
    let a = pack_a(depth, bits, |m, k| if m == 0 { element(row, k) } else { 0 });
    let b = pack_b(
        depth,
        bits,
        |k, n| if n == 0 { element(column, k) } else { 0 },
    );
    let c = pack_c(c_bits, |m, n| if (m, n) == (0, 0) { c } else { 0 });
    let mut d = vec![[0; 32]; counts.d];
    form.execute(&a, &b, &c, None, target, &mut d).unwrap();
    unpack_d(&d, c_bits)[0][0]
}

const F16_F32: &str = "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
const F16_F16: &str = "sync.aligned.m16n8k16.row.col.f16.f16.f16.f16";
const BF16_F32: &str = "sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
const TF32_F32: &str = "sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
const E4M3_F32: &str = "sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32";

#[test]
fn the_distance_that_is_kept_below_the_largest_exponent() {
    // 1 - 2^-25, from 2^-12 and -2^-13: kept with 25 bits, cut with 24.
    let (row, column) = ([0x0C00], [0x8800]);
    assert_eq!(
        first_of(F16_F32, Target::Sm121a, &row, &column, 0x3F80_0000),
        0x3F7F_FFFF
    );
    assert_eq!(
        first_of(F16_F32, Target::Sm90a, &row, &column, 0x3F80_0000),
        0x3F7F_FFFF
    );
    assert_eq!(
        first_of(F16_F32, Target::Sm80, &row, &column, 0x3F80_0000),
        0x3F80_0000
    );
    // 1 + 2^-14, from 2^-7 twice: Ada's fp8 keeps 13 bits.
    let (row, column) = ([0x04], [0x04]);
    assert_eq!(
        first_of(E4M3_F32, Target::Sm121a, &row, &column, 0x3F80_0000),
        0x3F80_0200
    );
    assert_eq!(
        first_of(E4M3_F32, Target::Sm89, &row, &column, 0x3F80_0000),
        0x3F80_0000
    );
    assert_eq!(
        first_of(E4M3_F32, Target::Sm89, &[], &[], 0x3F80_0001),
        0x3F80_0000
    );
}

#[test]
fn ampere_sums_the_halves_of_k_one_after_the_other() {
    // 1 - 1 in the first half, 2^-26 in the second: lost beside the ones, kept behind them.
    let row = [0x3C00, 0xBC00, 0, 0, 0, 0, 0, 0, 0x0800];
    let column = [0x3C00, 0x3C00, 0, 0, 0, 0, 0, 0, 0x0800];
    assert_eq!(first_of(F16_F32, Target::Sm121a, &row, &column, 0), 0);
    assert_eq!(first_of(F16_F32, Target::Sm90a, &row, &column, 0), 0);
    for target in [Target::Sm80, Target::Sm86, Target::Sm89] {
        assert_eq!(first_of(F16_F32, target, &row, &column, 0), 0x3280_0000);
    }
}

#[test]
fn f32_results_are_rounded_toward_zero_and_f16_results_to_nearest() {
    // 2^24 + 3: the last bit counts two.
    let (row, column) = ([0x4200], [0x3C00]);
    assert_eq!(
        first_of(F16_F32, Target::Sm121a, &row, &column, 0x4B80_0000),
        0x4B80_0001
    );
    assert_eq!(
        first_of(F16_F32, Target::Sm121a, &row, &column, 0xCB80_0000),
        0xCB7F_FFFD
    );
    // 2048 + 3 in f16: the last bit counts two, the tie goes to 2052.
    assert_eq!(
        first_of(F16_F16, Target::Sm121a, &row, &column, 0x6800),
        0x6802
    );
    // 2048 + 1: the tie goes to 2048.
    assert_eq!(
        first_of(F16_F16, Target::Sm121a, &[0x3C00], &column, 0x6800),
        0x6800
    );
}

/// ptxas makes of it f16 products summed from zero, and an addition that rounds to nearest.
#[test]
fn hopper_adds_c_to_fp8_sums_last() {
    let (row, column) = ([0x44], [0x38]);
    assert_eq!(
        first_of(E4M3_F32, Target::Sm121a, &row, &column, 0x4B80_0000),
        0x4B80_0001
    );
    assert_eq!(
        first_of(E4M3_F32, Target::Sm90a, &row, &column, 0x4B80_0000),
        0x4B80_0002
    );
    // 256 * 256 - 256 * 256 in places 0 and 1, 2^-18 in place 2, which is of the second sum.
    let row = [0x78, 0xF8, 0x01];
    let column = [0x78, 0x78, 0x01];
    assert_eq!(first_of(E4M3_F32, Target::Sm121a, &row, &column, 0), 0);
    assert_eq!(
        first_of(E4M3_F32, Target::Sm90a, &row, &column, 0),
        0x3680_0000
    );
}

#[test]
fn low_bits_of_tf32_are_dropped() {
    let got = first_of(TF32_F32, Target::Sm121a, &[0x3F80_1FFF], &[0xBF80_3FFF], 0);
    assert_eq!(got, 0xBF80_2000);
}

#[test]
fn subnormal_operands_count_and_subnormal_results_stay() {
    assert_eq!(
        first_of(F16_F32, Target::Sm121a, &[1], &[1], 0),
        0x2780_0000
    );
    // 2^-133 * 2^-16 = 2^-149, the smallest f32; half of it is cut.
    assert_eq!(
        first_of(BF16_F32, Target::Sm121a, &[0x0001], &[0x3780], 0),
        1
    );
    assert_eq!(
        first_of(BF16_F32, Target::Sm121a, &[0x8001], &[0x3780], 0),
        0x8000_0001
    );
    assert_eq!(
        first_of(BF16_F32, Target::Sm121a, &[0x0001], &[0x3700], 0),
        0
    );
    assert_eq!(first_of(F16_F32, Target::Sm121a, &[], &[], 1), 1);
}

#[test]
fn specials_are_those_of_ieee_754() {
    const INFINITY: u32 = 0x7F80_0000;
    const MINUS_INFINITY: u32 = 0xFF80_0000;
    const NAN: u32 = 0x7FFF_FFFF;
    let run = |row: &[u32], column: &[u32], c| first_of(F16_F32, Target::Sm121a, row, column, c);
    assert_eq!(run(&[0x7C00], &[0x3C00], 0), INFINITY);
    assert_eq!(run(&[0xFC00], &[0x3C00], 0), MINUS_INFINITY);
    assert_eq!(run(&[0x7C00], &[0xFC00], 0), MINUS_INFINITY);
    assert_eq!(run(&[0x7C00], &[0], 0), NAN);
    assert_eq!(run(&[0x7C00, 0x7C00], &[0x3C00, 0xBC00], 0), NAN);
    assert_eq!(run(&[0x7C00], &[0x3C00], MINUS_INFINITY), NAN);
    assert_eq!(run(&[0xFE01], &[0x3C00], 0), NAN);
    assert_eq!(run(&[0x3C00], &[0x3C00], 0xFFC0_0000), NAN);
    assert_eq!(run(&[0x3C00], &[0x3C00], MINUS_INFINITY), MINUS_INFINITY);
    let half = |row: &[u32], column: &[u32], c| first_of(F16_F16, Target::Sm80, row, column, c);
    assert_eq!(half(&[0x7C00], &[0x7C00], 0xFC00), 0x7FFF);
    assert_eq!(half(&[0x5C00], &[0xDC00], 0), 0xFC00);
    // E4M3 has NaN and no infinity, E5M2 both.
    let e4m3 = |target, code| first_of(E4M3_F32, target, &[code], &[0x38], 0);
    assert_eq!(e4m3(Target::Sm89, 0x7F), NAN);
    assert_eq!(e4m3(Target::Sm90a, 0xFF), NAN);
    assert_eq!(e4m3(Target::Sm121a, 0x7E), 448.0_f32.to_bits());
}

#[test]
fn sums_beyond_f32_are_infinite() {
    let large = [0x7F00];
    assert_eq!(
        first_of(BF16_F32, Target::Sm121a, &large, &[0x4000], 0),
        0x7F80_0000
    );
    assert_eq!(
        first_of(BF16_F32, Target::Sm121a, &large, &[0xC000], 0),
        0xFF80_0000
    );
    // Beyond it in the first half and back in the second: infinite where there are halves.
    let row = [0x7F00, 0, 0, 0, 0, 0, 0, 0, 0x7F00];
    let column = [0x4000, 0, 0, 0, 0, 0, 0, 0, 0xC000];
    assert_eq!(first_of(BF16_F32, Target::Sm121a, &row, &column, 0), 0);
    assert_eq!(
        first_of(BF16_F32, Target::Sm80, &row, &column, 0),
        0x7F80_0000
    );
}

#[test]
fn a_sum_of_zero_is_positive() {
    assert_eq!(
        first_of(F16_F32, Target::Sm121a, &[0x8000], &[0x3C00], 0x8000_0000),
        0
    );
    assert_eq!(
        first_of(F16_F16, Target::Sm80, &[0x8000], &[0x3C00], 0x8000),
        0
    );
}
