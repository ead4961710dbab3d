//! The micro-kernel against a triple loop in f64.

use proptest::prelude::*;

use super::*;
use crate::epilogue::{Activation, RowFunction};
use crate::pack::pack;
use crate::panel::{packed_len, panels};

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// `alpha (e^x - 1)` below zero, `x` above.
fn elu() -> RowFunction {
    unsafe fn kernel(_: Isa, [alpha, _]: [f32; 2], rows: &[*mut f32], columns: usize) {
        for &row in rows {
            // SAFETY: the caller vouches for `columns` elements of every row.
            for v in unsafe { std::slice::from_raw_parts_mut(row, columns) } {
                *v = if *v > 0.0 { *v } else { alpha * v.exp_m1() };
            }
        }
    }
    // SAFETY: the kernel writes the rows' elements and nothing else.
    unsafe { RowFunction::new(kernel, [1.0, 0.0]) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn products_match_the_triple_loop(
        m in 1usize..20,
        n in 1usize..140,
        k in 1usize..40,
        bias in any::<bool>(),
        residual in any::<bool>(),
        residual_first in any::<bool>(),
        activation in 0usize..3,
        seed in any::<u64>(),
    ) {
        let (x, w) = (numbers(m * k, seed), numbers(k * n, seed + 1));
        let (b, r) = (numbers(n, seed + 2), numbers(m * n, seed + 3));
        let activation = [
            Activation::None,
            Activation::Clamp { low: -0.25, high: 0.5 },
            Activation::Function(elu()),
        ][activation];
        let act = |v: f64| match activation {
            Activation::None => v,
            Activation::Clamp { low, high } => v.clamp(f64::from(low), f64::from(high)),
            Activation::Function(_) => if v > 0.0 { v } else { v.exp_m1() },
        };
        for isa in Isa::available() {
            let mut packed = vec![f32::NAN; packed_len(isa, k, n)];
            // SAFETY: `w` holds k * n elements in row-major order.
            unsafe { pack(isa, w.as_ptr(), (n as isize, 1), (k, n), &mut packed) };
            let mut padded = b.clone();
            padded.resize(n.next_multiple_of(isa.lanes()), 0.0);
            let mut y = vec![f32::NAN; m * n];
            let gemm = Gemm {
                x: x.as_ptr(),
                x_format: FloatFormat::F32,
                x_stride: k as isize,
                y: y.as_mut_ptr(),
                y_stride: n as isize,
                residual: if residual { r.as_ptr() } else { std::ptr::null() },
                residual_stride: n as isize,
                m,
                k,
                n,
                layout: PackedLayout::F32,
                epilogue: TileEpilogue {
                    bias: if bias { padded.as_ptr() } else { std::ptr::null() },
                    activation,
                    residual_first,
                    ..TileEpilogue::none(isa)
                },
            };
            for panel in panels(isa, n) {
                // SAFETY: all vectors are as long as the shape says.
                unsafe { gemm_panel(isa, &gemm, packed.as_ptr(), panel, (0, m)) };
            }
            for i in 0..m {
                for j in 0..n {
                    let dot: f64 = (0..k)
                        .map(|l| f64::from(x[i * k + l]) * f64::from(w[l * n + j]))
                        .sum();
                    let sum = dot + if bias { f64::from(b[j]) } else { 0.0 };
                    let add = if residual { f64::from(r[i * n + j]) } else { 0.0 };
                    let want = if residual_first { act(sum + add) } else { act(sum) + add };
                    let got = f64::from(y[i * n + j]);
                    prop_assert!((got - want).abs() <= 1e-5 * (1.0 + k as f64), "{isa:?} ({i}, {j}): {got} want {want}");
                }
            }
        }
    }
}

#[test]
fn not_a_number_passes_through_a_clamp() {
    for isa in Isa::available() {
        let (x, w) = ([f32::NAN], [1.0f32]);
        let mut packed = vec![0.0; packed_len(isa, 1, 1)];
        // SAFETY: one element each.
        unsafe { pack(isa, w.as_ptr(), (1, 1), (1, 1), &mut packed) };
        let mut y = [0.0];
        let gemm = Gemm {
            x: x.as_ptr(),
            x_format: FloatFormat::F32,
            x_stride: 1,
            y: y.as_mut_ptr(),
            y_stride: 1,
            residual: std::ptr::null(),
            residual_stride: 0,
            m: 1,
            k: 1,
            n: 1,
            layout: PackedLayout::F32,
            epilogue: TileEpilogue {
                bias: std::ptr::null(),
                activation: Activation::Clamp {
                    low: 0.0,
                    high: f32::INFINITY,
                },
                residual_first: true,
                ..TileEpilogue::none(isa)
            },
        };
        for panel in panels(isa, 1) {
            // SAFETY: one row, one column.
            unsafe { gemm_panel(isa, &gemm, packed.as_ptr(), panel, (0, 1)) };
        }
        assert!(y[0].is_nan());
    }
}
