//! Packed weights of 16 bits against f32 columns of the same values, and dot products against f64.

use std::ops::Range;

use half::{bf16, f16};
use proptest::prelude::*;
use spark_parallel::Pool;
use spark_simd::Isa;

use crate::epilogue::{Activation, RowFunction, TileEpilogue};
use crate::float_format::FloatFormat;
use crate::gemm::{Gemm, gemm_panel, gemm_panel_converting};
use crate::layout::PackedLayout;
use crate::memory::WeightMemory;
use crate::panel::{MAX_ROWS, panels};
use crate::weights::WeightShape;

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

fn multiplied(
    isa: Isa,
    layout: PackedLayout,
    (x, w): (&[f32], &[f32]),
    [m, k, n]: [usize; 3],
    rounded: bool,
) -> Vec<f32> {
    let shape = WeightShape {
        groups: 1,
        taps: 1,
        depth: k,
    };
    let write = |_, columns: Range<usize>, to: &mut [f32], width: usize| {
        for (to, row) in to.chunks_exact_mut(width).zip(w.chunks_exact(n)) {
            to[..columns.len()].copy_from_slice(&row[columns.clone()]);
        }
    };
    let packed = layout.pack(
        isa,
        shape,
        0..n,
        write,
        &WeightMemory::default(),
        &Pool::new(1),
    );
    let mut y = vec![f32::NAN; m * n];
    let gemm = Gemm {
        x: x.as_ptr(),
        x_format: FloatFormat::F32,
        x_stride: k as isize,
        y: y.as_mut_ptr(),
        y_stride: n as isize,
        residual: std::ptr::null(),
        residual_stride: 0,
        m,
        k,
        n,
        layout,
        epilogue: TileEpilogue {
            rounds_to_bf16: rounded,
            ..TileEpilogue::none(isa)
        },
    };
    let (start, rows) = (packed.as_slice().as_ptr(), (0, m));
    for panel in panels(isa, n) {
        // SAFETY: all vectors are as long as the shape says.
        unsafe { gemm_panel(isa, &gemm, start, panel, rows) };
    }
    // The same with a workspace for f32 weights, which only f16 makes use of.
    let without = std::mem::replace(&mut y, vec![f32::NAN; m * n]);
    let gemm = Gemm {
        y: y.as_mut_ptr(),
        ..gemm
    };
    for panel in panels(isa, n) {
        let mut workspace = vec![f32::NAN; k * panel.vectors * isa.lanes()];
        // SAFETY: as above, the workspace is as long as the panel.
        unsafe { gemm_panel_converting(isa, &gemm, start, panel, rows, workspace.as_mut_ptr()) };
        let (is_f16, filled) = (
            layout == PackedLayout::F16,
            !workspace.iter().any(|v| v.is_nan()),
        );
        // One tile leaves nothing to others.
        assert!(filled || !is_f16 || m <= MAX_ROWS, "{m} rows");
        assert!(
            is_f16 && m > 1 || workspace.iter().all(|v| v.is_nan()),
            "{layout:?}"
        );
    }
    assert_eq!(bits(&y), bits(&without), "{layout:?} on {isa:?}");
    y
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Every element times the first parameter.
unsafe fn halved(_: Isa, parameters: [f32; 2], rows: &[*mut f32], columns: usize) {
    for &row in rows {
        for i in 0..columns {
            // SAFETY: guaranteed by the caller.
            unsafe { *row.add(i) *= parameters[0] };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn widened_columns_give_the_bits_of_f32_columns(
        m in 1usize..20, n in 1usize..140, k in 1usize..40, seed in any::<u64>(), rounded in any::<bool>(),
    ) {
        let (x, w) = (numbers(m * k, seed), numbers(k * n, seed + 1));
        let as_bf16: Vec<f32> = w.iter().map(|&v| bf16::from_f32(v).to_f32()).collect();
        let as_f16: Vec<f32> = w.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
        for isa in Isa::available() {
            for (layout, values) in [(PackedLayout::Bf16, &as_bf16), (PackedLayout::F16, &as_f16)] {
                let want = multiplied(isa, PackedLayout::F32, (&x, values), [m, k, n], rounded);
                let got = multiplied(isa, layout, (&x, &w), [m, k, n], rounded);
                prop_assert!(bits(&got) == bits(&want), "{layout:?} on {isa:?}");
            }
        }
    }

    #[test]
    fn dot_products_match_the_triple_loop(
        m in 1usize..20, n in 1usize..140, k in 1usize..40, seed in any::<u64>(),
    ) {
        let round = |v: Vec<f32>| -> Vec<f32> { v.iter().map(|&v| bf16::from_f32(v).to_f32()).collect() };
        let (x, w) = (round(numbers(m * k, seed)), round(numbers(k * n, seed + 1)));
        let instructions = Isa::available().into_iter();
        for (isa, layout) in instructions.filter_map(|isa| PackedLayout::bf16_dot(isa).map(|layout| (isa, layout))) {
            let got = multiplied(isa, layout, (&x, &w), [m, k, n], false);
            for i in 0..m {
                for j in 0..n {
                    let terms = (0..k).map(|l| f64::from(x[i * k + l]) * f64::from(w[l * n + j]));
                    let (sum, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
                    // Products of bf16 are exact in f32; each of k additions rounds once, on Arm
                    // to odd, which is off by up to a whole unit in the last place.
                    let bound = k as f64 * f64::from(f32::EPSILON) * (size + 1e-30);
                    let off = (f64::from(got[i * n + j]) - sum).abs();
                    prop_assert!(off <= bound, "({i}, {j}): off by {off:e}, bound {bound:e}");
                }
            }
        }
    }

    /// Operand, residual and result held as bf16, with what comes before and after the store.
    #[test]
    fn what_is_held_as_bf16_gives_the_bits_of_f32_words(
        m in 1usize..20, n in 1usize..140, k in 1usize..40, seed in any::<u64>(),
        function in any::<bool>(), residual_first in any::<bool>(), held in prop::array::uniform3(any::<bool>()),
    ) {
        let round = |v: Vec<f32>| -> Vec<f32> { v.iter().map(|&v| bf16::from_f32(v).to_f32()).collect() };
        let halves = |v: &[f32]| -> Vec<u16> { v.iter().map(|v| (v.to_bits() >> 16) as u16).collect() };
        let (x, r) = (round(numbers(m * k, seed)), round(numbers(m * n, seed + 2)));
        let (x_halves, r_halves) = (halves(&x), halves(&r));
        let w = numbers(k * n, seed + 1);
        let instructions = Isa::available().into_iter();
        for isa in instructions.filter(|&isa| PackedLayout::Bf16Dot.can_implement(isa)) {
            let shape = WeightShape { groups: 1, taps: 1, depth: k };
            let write = |_, columns: Range<usize>, to: &mut [f32], width: usize| {
                for (to, row) in to.chunks_exact_mut(width).zip(w.chunks_exact(n)) {
                    to[..columns.len()].copy_from_slice(&row[columns.clone()]);
                }
            };
            let packed = PackedLayout::Bf16Dot.pack(isa, shape, 0..n, write, &WeightMemory::default(), &Pool::new(1));
            let run = |[x_is_narrow, r_is_narrow, y_is_narrow]: [bool; 3]| {
                let format = |narrow| if narrow { FloatFormat::Bf16 } else { FloatFormat::F32 };
                let mut y = vec![f32::NAN; m * n];
                let activation = match function {
                    // SAFETY: it touches the elements that it is given.
                    true => Activation::Function(unsafe { RowFunction::new(halved, [0.5, 0.0]) }),
                    false => Activation::Clamp { low: -0.5, high: f32::INFINITY },
                };
                let gemm = Gemm {
                    x: if x_is_narrow { x_halves.as_ptr().cast() } else { x.as_ptr() },
                    x_format: format(x_is_narrow),
                    x_stride: k as isize,
                    y: y.as_mut_ptr(),
                    y_stride: n as isize,
                    residual: if r_is_narrow { r_halves.as_ptr().cast() } else { r.as_ptr() },
                    residual_stride: n as isize,
                    m,
                    k,
                    n,
                    layout: PackedLayout::Bf16Dot,
                    epilogue: TileEpilogue {
                        activation,
                        residual_first,
                        rounds_to_bf16: true,
                        y_format: format(y_is_narrow),
                        residual_format: format(r_is_narrow),
                        ..TileEpilogue::none(isa)
                    },
                };
                for panel in panels(isa, n) {
                    // SAFETY: operands are as long as the shape says, in the formats that are named; the result has
                    // room for the wider one.
                    unsafe { gemm_panel(isa, &gemm, packed.as_slice().as_ptr(), panel, (0, m)) };
                }
                match y_is_narrow {
                    true => {
                        let words = y.iter().flat_map(|v| [v.to_bits() as u16, (v.to_bits() >> 16) as u16]);
                        words.take(m * n).collect()
                    }
                    false => halves(&y),
                }
            };
            let want: Vec<u16> = run([false; 3]);
            prop_assert!(run(held) == want, "{held:?} on {isa:?}");
        }
    }

    #[test]
    fn products_of_f16_give_the_bits_of_f32_on_rounded_operands(
        m in 1usize..20, n in 1usize..140, k in 1usize..40, seed in any::<u64>(), rounded in any::<bool>(),
    ) {
        let round = |v: &[f32]| -> Vec<f32> { v.iter().map(|&v| f16::from_f32(v).to_f32()).collect() };
        let (x, w) = (numbers(m * k, seed), numbers(k * n, seed + 1));
        for isa in Isa::available().into_iter().filter(|&isa| PackedLayout::F16Fmlal.can_implement(isa)) {
            let want = multiplied(isa, PackedLayout::F32, (&round(&x), &round(&w)), [m, k, n], rounded);
            let got = multiplied(isa, PackedLayout::F16Fmlal, (&x, &w), [m, k, n], rounded);
            prop_assert!(bits(&got) == bits(&want), "{isa:?}");
        }
    }
}

/// The processor that an emulator is told to be: names of qemu.
const EMULATED: &str = "SPARK_EMULATED_CPU";

#[test]
fn instructions_are_used_where_the_processor_has_them() {
    let best = Isa::detect();
    let found = [
        PackedLayout::bf16_dot(best).is_some(),
        PackedLayout::F16Fmlal.can_implement(best),
    ];
    match std::env::var(EMULATED).as_deref() {
        Ok("max") => assert_eq!(found, [true; 2]),
        Ok("cortex-a72") => assert_eq!(found, [false; 2]),
        Ok(other) => panic!("{EMULATED}: what {other} has is not known here"),
        Err(_) => {}
    }
    let scalar = Isa::portable();
    assert!(
        PackedLayout::bf16_dot(scalar).is_none() && !PackedLayout::F16Fmlal.can_implement(scalar)
    );
}

#[test]
fn an_operand_beyond_f16_is_infinite_on_the_left() {
    for isa in Isa::available()
        .into_iter()
        .filter(|&isa| PackedLayout::F16Fmlal.can_implement(isa))
    {
        let x = [65519.0, 65520.0, -1e30, f32::NAN];
        let got = multiplied(isa, PackedLayout::F16Fmlal, (&x, &[1.0]), [4, 1, 1], false);
        assert_eq!(got[..3], [65504.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(got[3].is_nan());
    }
}
