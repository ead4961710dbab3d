//! Conversions and float arithmetic against the constant folder of ptxas.
//!
//! `folded.txt` holds instructions with constant operands and the immediates that ptxas 13.0.88
//! put in their place for sm_121a (`-O3`, read back with nvdisasm): the vendor's own arithmetic
//! without a GPU. A line is `instruction operands = result`, in hexadecimal. Operands are special
//! values and random bits; instructions that ptxas left to the hardware are not in the file.

use spark_ptx::convert::Conversion;
use spark_ptx::float::{Comparison, FloatForm, FloatKind};

const VECTORS: &str = include_str!("folded.txt");

/// The result of an instruction, as many bits of it as the destination has.
fn result_of(instruction: &str, operands: &[u64]) -> u64 {
    let mut parts = instruction.split('.');
    let opcode = parts.next().unwrap_or_default();
    let modifiers: Vec<&str> = parts.collect();
    match opcode {
        "cvt" => {
            let form = Conversion::parse(&modifiers).unwrap_or_else(|error| panic!("{error}"));
            // A byte stands in a register of 32 bits, with the sign of its number above it.
            let n_bits = if form.destination_bits() == 16 {
                16
            } else {
                32
            };
            form.apply(operands) & ((1 << n_bits) - 1)
        }
        "setp" => {
            let (relation, rest) = modifiers.split_first().expect("a relation");
            let relation = Comparison::parse(relation).expect("a relation");
            let (kind, _) = FloatKind::parse(rest[rest.len() - 1]).expect("a type");
            u64::from(relation.holds(kind, operands[0], operands[1], rest[0] == "ftz"))
        }
        _ => {
            let form = FloatForm::parse(opcode, &modifiers);
            form.unwrap_or_else(|error| panic!("{error}"))
                .apply(operands)
        }
    }
}

#[test]
fn constants_fold_to_what_is_computed_here() {
    let mut n_checked = 0;
    let mut wrong = Vec::new();
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).expect("hexadecimal");
        let (left, want) = line.split_once(" = ").expect("a result");
        let mut words = left.split(' ');
        let instruction = words.next().expect("an instruction");
        let operands: Vec<u64> = words.map(hexadecimal).collect();
        let got = result_of(instruction, &operands);
        if got != hexadecimal(want) {
            wrong.push(format!("{line}, not {got:X}"));
        }
        n_checked += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} of {n_checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(n_checked > 2000, "{n_checked}");
}
