//! `ldmatrix`, `stmatrix` and `movmatrix`, element by element from the manual's figures.

use crate::oracle::Random;
use crate::tensor::{MatrixForm, movmatrix};
use crate::{FormError, Lanes, Target};

fn form(text: &str) -> Result<MatrixForm, FormError> {
    let mut parts = text.split('.');
    let opcode = parts.next().unwrap();
    MatrixForm::parse(opcode, &parts.collect::<Vec<_>>())
}

/// Rows whose 16-bit element at (row, column) of matrix j is `256 j + 16 row + column`.
fn numbered_rows(n: usize) -> Vec<[u8; 16]> {
    (0..n)
        .map(|row| {
            let mut bytes = [0; 16];
            for column in 0..8 {
                let value = (256 * (row / 8) + 16 * (row % 8) + column) as u16;
                bytes[2 * column..2 * column + 2].copy_from_slice(&value.to_le_bytes());
            }
            bytes
        })
        .collect()
}

#[test]
fn ldmatrix_gives_each_lane_two_elements_of_each_matrix() {
    for (count, n) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for space in ["", ".shared", ".shared::cta"] {
            let plain = form(&format!("ldmatrix.sync.aligned.m8n8.{count}{space}.b16")).unwrap();
            let turned = form(&format!(
                "ldmatrix.sync.aligned.m8n8.{count}.trans{space}.b16"
            ))
            .unwrap();
            assert_eq!(
                (plain.n_addresses(), plain.n_registers(), plain.row_bytes()),
                (8 * n, n, 16)
            );
            let rows = numbered_rows(8 * n);
            let (plain, turned) = (plain.load(&rows), turned.load(&rows));
            for j in 0..n as u32 {
                for lane in 0..32_u32 {
                    let (row, column) = (lane / 4, 2 * (lane % 4));
                    let element = |row: u32, column: u32| 256 * j + 16 * row + column;
                    assert_eq!(
                        plain[j as usize][lane as usize],
                        element(row, column) | element(row, column + 1) << 16
                    );
                    assert_eq!(
                        turned[j as usize][lane as usize],
                        element(column, row) | element(column + 1, row) << 16
                    );
                }
            }
        }
    }
}

#[test]
fn stmatrix_undoes_ldmatrix() {
    let rows = numbered_rows(32);
    for (count, n) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for trans in ["", ".trans"] {
            let load = form(&format!(
                "ldmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16"
            ))
            .unwrap();
            let store = form(&format!(
                "stmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16"
            ))
            .unwrap();
            assert!(store.is_store() && !load.is_store());
            assert_eq!(store.store(&load.load(&rows[..8 * n])), rows[..8 * n]);
        }
    }
}

#[test]
fn movmatrix_transposes_and_undoes_itself() {
    let rows = numbered_rows(8);
    let load = |text| form(text).unwrap().load(&rows)[0];
    let plain: Lanes = load("ldmatrix.sync.aligned.m8n8.x1.b16");
    let turned: Lanes = load("ldmatrix.sync.aligned.m8n8.x1.trans.b16");
    assert_eq!(movmatrix(&plain), turned);
    assert_eq!(movmatrix(&turned), plain);
}

#[test]
fn packed_rows_give_one_element_a_byte() {
    let mut random = Random(7);
    for (name, bits) in [("b4x16_p64", 4_usize), ("b6x16_p32", 6)] {
        let load = form(&format!(
            "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.{name}"
        ))
        .unwrap();
        let elements: Vec<[u8; 16]> = (0..16)
            .map(|_| std::array::from_fn(|_| random.below(1 << bits) as u8))
            .collect();
        let rows: Vec<[u8; 16]> = elements
            .iter()
            .map(|row| {
                // What is unused holds ones, which must not be seen.
                let mut bytes = [0xFF_u8; 16];
                for bit in 0..16 * bits {
                    let value = row[bit / bits] >> (bit % bits) & 1;
                    bytes[bit / 8] = bytes[bit / 8] & !(1 << (bit % 8)) | value << (bit % 8);
                }
                bytes
            })
            .collect();
        let registers = load.load(&rows);
        for (matrix, register) in registers.iter().enumerate() {
            for (lane, word) in register.iter().enumerate() {
                let row = elements[8 * matrix + lane / 4];
                let first = 4 * (lane % 4);
                let want = [row[first], row[first + 1], row[first + 2], row[first + 3]];
                assert_eq!(word.to_le_bytes(), want, "{name} lane {lane}");
            }
        }
    }
}

#[test]
fn forms_that_are_not_settled_or_do_not_exist_are_refused() {
    for text in [
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8",
    ] {
        let error = form(text).unwrap_err();
        assert!(matches!(error, FormError::NotInterpreted { .. }), "{error}");
        assert!(error.to_string().contains("not settled"), "{error}");
    }
    for text in [
        "ldmatrix.aligned.m8n8.x1.shared.b16",
        "ldmatrix.sync.m8n8.x1.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16",
        "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8",
        "stmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64",
        "movmatrix.sync.aligned.m8n8.x1.b16",
    ] {
        assert!(form(text).is_err(), "{text}");
    }
}

#[test]
fn targets_without_the_instruction_are_named() {
    let check = |text: &str, target| form(text).unwrap().check_target(target).is_ok();
    let packed = "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64";
    assert!(check("ldmatrix.sync.aligned.m8n8.x1.b16", Target::Sm80));
    assert!(!check("stmatrix.sync.aligned.m8n8.x1.b16", Target::Sm89));
    assert!(check("stmatrix.sync.aligned.m8n8.x1.b16", Target::Sm90));
    assert!(!check(packed, Target::Sm121));
    assert!(check(packed, Target::Sm121a));
}
