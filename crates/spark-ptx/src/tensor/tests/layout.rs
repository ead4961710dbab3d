//! Every form of `mma`: one-hot operands, and whole numbers against three plain loops.

use super::tile::{
    BF16, E2M1, E2M1_PACKED, E2M3, E3M2, E4M3, E5M2, F16, S4, S8, TF32, TestElement, U4, U8,
    pack_a, pack_b, pack_c, unpack_d,
};
use crate::oracle::Random;
use crate::tensor::{BlockScales, MmaForm};
use crate::{Lanes, Target};

/// Scales of 1.0 in every byte of every lane.
fn ones(scale_type: &str) -> BlockScales {
    let word = match scale_type {
        "ue8m0" => 0x7F7F_7F7F,
        _ => 0x3838_3838,
    };
    BlockScales {
        a: [word; 32],
        a_byte: 0,
        a_thread: 0,
        b: [word; 32],
        b_byte: 0,
        b_thread: 0,
    }
}

/// One form: its text, what its tests have to know of it, and an oldest target.
#[derive(Clone)]
struct Case {
    text: String,
    depth: usize,
    a: TestElement,
    b: TestElement,
    /// Type of C and D.
    accumulator: &'static str,
    scale_type: Option<&'static str>,
    target: Target,
}

fn case(depth: usize, a: TestElement, b: TestElement, accumulator: &'static str) -> Case {
    Case {
        text: format!(
            "sync.aligned.m16n8k{depth}.row.col.{accumulator}.{}.{}.{accumulator}",
            a.name, b.name
        ),
        depth,
        a,
        b,
        accumulator,
        scale_type: None,
        target: Target::Sm80,
    }
}

/// Every form of the table in `mma_form`.
fn every_form() -> Vec<Case> {
    let mut cases = vec![
        case(8, F16, F16, "f16"),
        case(8, F16, F16, "f32"),
        case(16, F16, F16, "f16"),
        case(16, F16, F16, "f32"),
        case(8, BF16, BF16, "f32"),
        case(16, BF16, BF16, "f32"),
        case(4, TF32, TF32, "f32"),
        case(8, TF32, TF32, "f32"),
    ];
    for (depth, types) in [
        (16, [S8, U8]),
        (32, [S8, U8]),
        (32, [S4, U4]),
        (64, [S4, U4]),
    ] {
        for (a, b) in pairs(&types) {
            cases.push(case(depth, a, b, "s32"));
        }
    }
    for (depth, (a, b)) in [16, 32]
        .into_iter()
        .flat_map(|depth| pairs(&[E4M3, E5M2]).map(move |pair| (depth, pair)))
    {
        for accumulator in ["f16", "f32"] {
            cases.push(Case {
                target: Target::Sm89,
                ..case(depth, a, b, accumulator)
            });
        }
    }
    for (a, b) in pairs(&[E4M3, E5M2, E3M2, E2M3, E2M1]) {
        for accumulator in ["f16", "f32"] {
            let plain = case(32, a, b, accumulator);
            let text = plain.text.replace("col.", "col.kind::f8f6f4.");
            cases.push(Case {
                text,
                target: Target::Sm120f,
                ..plain
            });
        }
        let plain = case(32, a, b, "f32");
        let text = plain.text.replace(
            "m16n8k32.row.col.",
            "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.",
        );
        cases.push(Case {
            text: text + ".ue8m0",
            scale_type: Some("ue8m0"),
            target: Target::Sm121a,
            ..plain
        });
    }
    for (kind, vec, scale_type) in [
        ("mxf4", "2X", "ue8m0"),
        ("mxf4nvf4", "2X", "ue8m0"),
        ("mxf4nvf4", "4X", "ue4m3"),
        ("mxf4nvf4", "4X", "ue8m0"),
    ] {
        let plain = case(64, E2M1_PACKED, E2M1_PACKED, "f32");
        let scaled = format!("col.kind::{kind}.block_scale.scale_vec::{vec}.");
        cases.push(Case {
            text: plain.text.replace("col.", &scaled) + "." + scale_type,
            scale_type: Some(scale_type),
            target: Target::Sm121a,
            ..plain
        });
    }
    cases
}

fn pairs(types: &[TestElement]) -> impl Iterator<Item = (TestElement, TestElement)> {
    let types = types.to_vec();
    let n = types.len();
    (0..n * n).map(move |idx| (types[idx / n], types[idx % n]))
}

impl Case {
    fn form(&self) -> MmaForm {
        let modifiers: Vec<&str> = self.text.split('.').collect();
        let form = MmaForm::parse(&modifiers).unwrap_or_else(|error| panic!("{error}"));
        form.check_target(self.target).unwrap();
        form
    }

    fn accumulator_bits(&self) -> u32 {
        if self.accumulator == "f16" { 16 } else { 32 }
    }

    /// Code of a whole number in C and D.
    fn accumulator_code(&self, value: i32) -> u32 {
        match self.accumulator {
            "f16" => F16.code(value),
            "f32" => (value as f32).to_bits(),
            _ => value as u32,
        }
    }

    #[track_caller]
    fn run(&self, form: &MmaForm, a: &[Lanes], b: &[Lanes], c: &[Lanes]) -> Vec<Lanes> {
        let counts = form.registers();
        assert_eq!(
            (a.len(), b.len(), c.len()),
            (counts.a, counts.b, counts.c),
            "{}",
            self.text
        );
        assert_eq!(
            counts.is_block_scaled,
            self.scale_type.is_some(),
            "{}",
            self.text
        );
        let scales = self.scale_type.map(ones);
        let mut d = vec![[0xDEAD_BEEF; 32]; counts.d];
        form.execute(a, b, c, scales.as_ref(), self.target, &mut d)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text));
        d
    }
}

#[test]
fn one_hot_operands_give_one_element_of_one_lane() {
    for case in every_form() {
        let form = case.form();
        let zero = pack_c(case.accumulator_bits(), |_, _| 0);
        for k in 0..case.depth {
            // Rows and columns of one k at a time: all are visited, in few thousand runs.
            for (m, n) in (0..16)
                .map(|m| (m, (m + k) % 8))
                .chain((0..8).map(|n| (k % 16, n)))
            {
                let a = pack_a(case.depth, case.a.bits, |row, column| {
                    if (row, column) == (m, k) {
                        case.a.code(2)
                    } else {
                        0
                    }
                });
                let b = pack_b(case.depth, case.b.bits, |row, column| {
                    if (row, column) == (k, n) {
                        case.b.code(3)
                    } else {
                        0
                    }
                });
                let d = case.run(&form, &a, &b, &zero);
                let tile = unpack_d(&d, case.accumulator_bits());
                for (row, values) in tile.iter().enumerate() {
                    for (column, value) in values.iter().enumerate() {
                        let want = if (row, column) == (m, n) { 6 } else { 0 };
                        assert_eq!(
                            *value,
                            case.accumulator_code(want),
                            "{} A[{m}][{k}] B[{k}][{n}] D[{row}][{column}]",
                            case.text
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn one_hot_operands_of_different_depth_meet_nowhere() {
    for case in every_form() {
        let form = case.form();
        let zero = pack_c(case.accumulator_bits(), |_, _| 0);
        for k in 0..case.depth {
            let other = (k + 1) % case.depth;
            let a = pack_a(case.depth, case.a.bits, |_, column| {
                if column == k { case.a.code(1) } else { 0 }
            });
            let b = pack_b(case.depth, case.b.bits, |row, _| {
                if row == other { case.b.code(1) } else { 0 }
            });
            let d = case.run(&form, &a, &b, &zero);
            assert!(
                d.iter().flatten().all(|word| *word == 0),
                "{} {k} {other}",
                case.text
            );
        }
    }
}

#[test]
fn whole_numbers_give_what_three_loops_give() {
    let mut random = Random(1);
    for case in every_form() {
        let form = case.form();
        for _ in 0..20 {
            let a: Vec<Vec<i32>> = (0..16)
                .map(|_| (0..case.depth).map(|_| case.a.draw(&mut random)).collect())
                .collect();
            let b: Vec<Vec<i32>> = (0..case.depth)
                .map(|_| (0..8).map(|_| case.b.draw(&mut random)).collect())
                .collect();
            let c: Vec<Vec<i32>> = (0..16)
                .map(|_| (0..8).map(|_| random.below(2001) as i32 - 1000).collect())
                .collect();
            let d = case.run(
                &form,
                &pack_a(case.depth, case.a.bits, |row, k| case.a.code(a[row][k])),
                &pack_b(case.depth, case.b.bits, |k, column| {
                    case.b.code(b[k][column])
                }),
                &pack_c(case.accumulator_bits(), |row, column| {
                    case.accumulator_code(c[row][column])
                }),
            );
            let tile = unpack_d(&d, case.accumulator_bits());
            for row in 0..16 {
                for column in 0..8 {
                    let mut sum = c[row][column];
                    for k in 0..case.depth {
                        sum += a[row][k] * b[k][column];
                    }
                    assert_eq!(
                        tile[row][column],
                        case.accumulator_code(sum),
                        "{} D[{row}][{column}]",
                        case.text
                    );
                }
            }
        }
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    for (text, want_high, want_low) in [
        (
            "sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
            i32::MIN,
            i32::MAX,
        ),
        (
            "sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32",
            i32::MAX,
            i32::MIN,
        ),
    ] {
        let modifiers: Vec<&str> = text.split('.').collect();
        let form = MmaForm::parse(&modifiers).unwrap();
        for (b_value, c_value, want) in [(1, i32::MAX, want_high), (-1, i32::MIN, want_low)] {
            let a = pack_a(
                32,
                8,
                |row, k| if (row, k) == (0, 0) { S8.code(1) } else { 0 },
            );
            let b = pack_b(32, 8, |k, n| {
                if (k, n) == (0, 0) {
                    S8.code(b_value)
                } else {
                    0
                }
            });
            let c = pack_c(32, |_, _| c_value as u32);
            let mut d = vec![[0; 32]; 4];
            form.execute(&a, &b, &c, None, Target::Sm80, &mut d)
                .unwrap();
            let tile = unpack_d(&d, 32);
            assert_eq!(tile[0][0], want as u32, "{text}");
            assert_eq!(tile[0][1], c_value as u32, "{text}");
        }
    }
}
