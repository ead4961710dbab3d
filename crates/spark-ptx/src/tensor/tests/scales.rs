//! Scales: one byte of one lane at a time, every code, every selector.

use super::tile::{E2M1_PACKED, E4M3, pack_a, pack_b, pack_c, unpack_d};
use crate::tensor::{BlockScales, MmaForm, TensorError};
use crate::{Lanes, Target};

/// A block-scaled form with everything 1.0.
struct Case {
    form: MmaForm,
    depth: usize,
    /// Scales per row.
    n_scales: usize,
    a: Vec<Lanes>,
    b: Vec<Lanes>,
    one: u32,
    two: u32,
}

fn case(n_scales: usize, scale_type: &str) -> Case {
    let text = match n_scales {
        1 => "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0",
        2 => "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
        _ => "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
    };
    let text = text.replace("ue4m3", scale_type);
    let modifiers: Vec<&str> = ["sync", "aligned"]
        .into_iter()
        .chain(text.split('.'))
        .collect();
    let (depth, element) = if n_scales == 1 {
        (32, E4M3)
    } else {
        (64, E2M1_PACKED)
    };
    let is_power = scale_type == "ue8m0";
    Case {
        form: MmaForm::parse(&modifiers).unwrap(),
        depth,
        n_scales,
        a: pack_a(depth, element.bits, |_, _| element.code(1)),
        b: pack_b(depth, element.bits, |_, _| element.code(1)),
        one: if is_power { 0x7F } else { 0x38 },
        two: if is_power { 0x80 } else { 0x40 },
    }
}

impl Case {
    fn scales(&self) -> BlockScales {
        let word = self.one * 0x0101_0101;
        BlockScales {
            a: [word; 32],
            a_byte: 0,
            a_thread: 0,
            b: [word; 32],
            b_byte: 0,
            b_thread: 0,
        }
    }

    fn run(&self, scales: &BlockScales) -> Result<[[u32; 8]; 16], TensorError> {
        let c = pack_c(32, |_, _| 0);
        let mut d = vec![[0; 32]; 4];
        self.form
            .execute(&self.a, &self.b, &c, Some(scales), Target::Sm121a, &mut d)?;
        Ok(unpack_d(&d, 32))
    }
}

fn all_cases() -> Vec<Case> {
    vec![
        case(1, "ue8m0"),
        case(2, "ue8m0"),
        case(4, "ue4m3"),
        case(4, "ue8m0"),
    ]
}

fn bytes_of(n_scales: usize) -> &'static [u16] {
    match n_scales {
        1 => &[0, 1, 2, 3],
        2 => &[0, 2],
        _ => &[0],
    }
}

#[test]
fn one_scale_byte_doubles_one_block_of_one_row() {
    for case in all_cases() {
        for byte_id in bytes_of(case.n_scales) {
            for thread_id in 0..2 {
                for lane in 0..32 {
                    for byte in 0..4 {
                        let mut scales = case.scales();
                        (scales.a_byte, scales.a_thread) = (*byte_id, thread_id);
                        scales.a[lane] ^= (case.one ^ case.two) << (8 * byte);
                        let used = (*byte_id..*byte_id + case.n_scales as u16).contains(&byte);
                        // The manual: thread 0 selects lanes 0 and 1 of the four, 1 lanes 2 and 3;
                        // the lower of the two has the upper eight rows' first.
                        let pair = lane % 4 / 2 == usize::from(thread_id);
                        let scaled_row = (pair && used).then_some(lane / 4 + 8 * (lane % 2));
                        let more = case.depth / case.n_scales;
                        let tile = case.run(&scales).unwrap();
                        for (row, values) in tile.iter().enumerate() {
                            let extra = if Some(row) == scaled_row { more } else { 0 };
                            let want = ((case.depth + extra) as f32).to_bits();
                            assert_eq!(values, &[want; 8], "lane {lane} byte {byte} row {row}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn one_scale_byte_doubles_one_block_of_one_column() {
    for case in all_cases() {
        for byte_id in bytes_of(case.n_scales) {
            for thread_id in 0..4 {
                for lane in 0..32 {
                    for byte in 0..4 {
                        let mut scales = case.scales();
                        (scales.b_byte, scales.b_thread) = (*byte_id, thread_id);
                        scales.b[lane] ^= (case.one ^ case.two) << (8 * byte);
                        let used = (*byte_id..*byte_id + case.n_scales as u16).contains(&byte);
                        let selected = lane % 4 == usize::from(thread_id) && used;
                        let more = case.depth / case.n_scales;
                        let tile = case.run(&scales).unwrap();
                        for values in tile {
                            for (column, value) in values.into_iter().enumerate() {
                                let scaled = selected && column == lane / 4;
                                let sum = case.depth + if scaled { more } else { 0 };
                                assert_eq!(
                                    value,
                                    (sum as f32).to_bits(),
                                    "lane {lane} byte {byte}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Block b of four scales k = 16 b to 16 b + 15, of two k = 32 b to 32 b + 31.
#[test]
fn blocks_follow_the_order_of_bytes() {
    for case in all_cases().into_iter().filter(|case| case.n_scales > 1) {
        for k in 0..64 {
            let b = pack_b(
                64,
                4,
                |row, _| if row == k { E2M1_PACKED.code(1) } else { 0 },
            );
            for byte in 0..case.n_scales {
                let mut scales = case.scales();
                for word in scales.a.iter_mut().chain(&mut scales.b) {
                    *word ^= (case.one ^ case.two) << (8 * byte);
                }
                let c = pack_c(32, |_, _| 0);
                let mut d = vec![[0; 32]; 4];
                let target = Target::Sm120f;
                case.form
                    .execute(&case.a, &b, &c, Some(&scales), target, &mut d)
                    .unwrap();
                let want = if k / (64 / case.n_scales) == byte {
                    4.0_f32
                } else {
                    1.0
                };
                assert!(
                    d.iter().flatten().all(|word| *word == want.to_bits()),
                    "k {k} byte {byte}"
                );
            }
        }
    }
}

/// Value of a ue4m3 code: eight subnormal steps of 2^-9, then 2^(field - 7) (1 + m / 8).
fn ue4m3(code: u32) -> Option<f64> {
    let (field, mantissa) = (code >> 3 & 15, code & 7);
    match (field, mantissa) {
        (15, 7) => None,
        (0, m) => Some(f64::from(m) / 512.0),
        (field, m) => Some((1.0 + f64::from(m) / 8.0) * 2.0_f64.powi(field as i32 - 7)),
    }
}

#[test]
fn every_code_of_a_scale_has_its_value() {
    for (n_scales, scale_type) in [(1, "ue8m0"), (2, "ue8m0"), (4, "ue4m3"), (4, "ue8m0")] {
        let case = case(n_scales, scale_type);
        for code in 0..256_u32 {
            let value = match scale_type {
                "ue4m3" => ue4m3(code),
                _ => (code != 255).then(|| 2.0_f64.powi(code as i32 - 127)),
            };
            let mut scales = case.scales();
            scales.a = [code * 0x0101_0101; 32];
            let of_a = case.run(&scales).unwrap();
            let mut scales = case.scales();
            scales.b = [code * 0x0101_0101; 32];
            let of_b = case.run(&scales).unwrap();
            let want = value.map_or(0x7FFF_FFFF, |value| {
                ((value * case.depth as f64) as f32).to_bits()
            });
            assert_eq!(of_a, [[want; 8]; 16], "{scale_type} {code:02x}");
            assert_eq!(of_b, [[want; 8]; 16], "{scale_type} {code:02x}");
        }
    }
}

/// Published results of one instruction: e2m1 1.5 everywhere with ue4m3 1.0, e4m3 1.0 with ue8m0
/// 1.0, e2m1 1.0 with ue8m0 1.0.
#[test]
fn published_sums_of_equal_operands() {
    let mut scaled_four = case(4, "ue4m3");
    scaled_four.a = vec![[0x3333_3333; 32]; 4];
    scaled_four.b = vec![[0x3333_3333; 32]; 2];
    for (case, want) in [
        (scaled_four, 144.0_f32),
        (case(1, "ue8m0"), 32.0),
        (case(2, "ue8m0"), 64.0),
    ] {
        let tile = case.run(&case.scales()).unwrap();
        assert_eq!(tile, [[want.to_bits(); 8]; 16]);
    }
}

#[test]
fn selectors_outside_the_table_are_refused() {
    for case in all_cases() {
        let bytes = bytes_of(case.n_scales);
        for value in 0..6 {
            let check = |selector: &'static str, fits: bool, scales: BlockScales| {
                let want = if fits {
                    Ok(())
                } else {
                    Err(TensorError::Selector { selector, value })
                };
                assert_eq!(case.run(&scales).map(|_| ()), want);
            };
            let scales = case.scales();
            let byte_fits = bytes.contains(&value);
            check(
                "byte-id-a",
                byte_fits,
                BlockScales {
                    a_byte: value,
                    ..scales
                },
            );
            check(
                "byte-id-b",
                byte_fits,
                BlockScales {
                    b_byte: value,
                    ..scales
                },
            );
            check(
                "thread-id-a",
                value < 2,
                BlockScales {
                    a_thread: value,
                    ..scales
                },
            );
            check(
                "thread-id-b",
                value < 4,
                BlockScales {
                    b_thread: value,
                    ..scales
                },
            );
        }
    }
}

#[test]
fn scales_come_with_block_scaled_forms_alone() {
    let case = case(2, "ue8m0");
    let c = pack_c(32, |_, _| 0);
    let mut d = vec![[0; 32]; 4];
    let result = case
        .form
        .execute(&case.a, &case.b, &c, None, Target::Sm121a, &mut d);
    assert_eq!(result, Err(TensorError::NoScales));
    let plain: Vec<&str> = "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        .split('.')
        .collect();
    let plain = MmaForm::parse(&plain).unwrap();
    let scales = case.scales();
    let result = plain.execute(&case.a, &case.b, &c, Some(&scales), Target::Sm121a, &mut d);
    assert_eq!(result, Err(TensorError::UnexpectedScales));
}
