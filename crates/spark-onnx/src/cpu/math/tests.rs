//! Special values of the functions and rows of a vector and a part, on every instruction set here.

use super::*;

#[test]
fn gelu_far_below_zero_is_minus_zero_on_every_instruction_set() {
    for (tanh, cut) in [(false, -5.5), (true, -16.0)] {
        for x in [-1e4, -1e30, f32::MIN, -17.0, f32::next_down(cut)] {
            for isa in Isa::available() {
                let mut y = [x; 20];
                apply(isa, Unary::Gelu { tanh }, &mut y);
                let is_minus_zero = y.iter().all(|y| y.to_bits() == (-0.0f32).to_bits());
                assert!(is_minus_zero, "gelu({x}) on {} is {y:?}", isa.name());
            }
        }
    }
}

#[test]
fn special_values_follow_ieee() {
    let cases: [(Unary, f32, f32); 18] = [
        (Unary::Gelu { tanh: false }, f32::INFINITY, f32::INFINITY),
        // ONNX defines both as a product of x, and minus infinity times 0 is NaN.
        (Unary::Gelu { tanh: false }, f32::NEG_INFINITY, f32::NAN),
        (Unary::Gelu { tanh: false }, f32::NAN, f32::NAN),
        (Unary::Gelu { tanh: true }, f32::INFINITY, f32::INFINITY),
        (Unary::Gelu { tanh: true }, f32::NEG_INFINITY, f32::NAN),
        (Unary::Gelu { tanh: true }, f32::NAN, f32::NAN),
        (Unary::Exp, f32::INFINITY, f32::INFINITY),
        (Unary::Exp, f32::NEG_INFINITY, 0.0),
        (Unary::Exp, f32::NAN, f32::NAN),
        (Unary::Log, 0.0, f32::NEG_INFINITY),
        (Unary::Log, -1.0, f32::NAN),
        (Unary::Log, f32::INFINITY, f32::INFINITY),
        (Unary::Erf, f32::INFINITY, 1.0),
        (Unary::Tanh, f32::NEG_INFINITY, -1.0),
        (Unary::Tanh, f32::NAN, f32::NAN),
        (Unary::Relu, f32::NAN, f32::NAN),
        (Unary::Softplus, 100.0, 100.0),
        (Unary::Erf, 0.0, 0.0),
    ];
    for isa in Isa::available() {
        for (op, x, want) in cases {
            let mut y = [x; 20];
            apply(isa, op, &mut y);
            for got in y {
                let same = got == want || (got.is_nan() && want.is_nan());
                assert!(
                    same || (got - want).abs() < 1e-6,
                    "{op:?}({x}) = {got}, want {want}"
                );
            }
        }
    }
}

#[test]
fn erf_matches_tabulated_values() {
    // Abramowitz and Stegun, table 7.1.
    let table = [
        (0.1, 0.112_462_916),
        (0.5, 0.520_499_878),
        (1.0, 0.842_700_793),
        (2.0, 0.995_322_265),
    ];
    for isa in Isa::available() {
        for (x, want) in table {
            let mut y = [x as f32, -x as f32];
            apply(isa, Unary::Erf, &mut y);
            assert!((f64::from(y[0]) - want).abs() < 4e-7, "erf({x}) = {}", y[0]);
            assert!((f64::from(y[1]) + want).abs() < 4e-7);
        }
    }
}
