//! Every instruction set against sums in i64, element by element.

#![allow(unsafe_code, reason = "runs tiles on operands that it made")]

use std::ops::Range;

use proptest::prelude::*;
use spark_parallel::Pool;

use super::*;
use crate::memory::WeightMemory;
use crate::weights::WeightShape;

/// A product and what its operands hold, as plain numbers.
#[derive(Debug, Clone)]
struct Case {
    m: usize,
    k: usize,
    n: usize,
    x: Vec<i32>,
    x_kind: ByteKind,
    x_zero: i32,
    w: Vec<i32>,
    w_kind: ByteKind,
    w_zero: Vec<i32>,
    bias: Vec<i32>,
}

impl Case {
    /// The definition.
    fn sum(&self, row: usize, column: usize) -> i64 {
        let zero = match self.w_zero[..] {
            [] => 0,
            [one] => one,
            _ => self.w_zero[column],
        };
        let products = (0..self.k).map(|k| {
            let x = i64::from(self.x[row * self.k + k]) - i64::from(self.x_zero);
            let w = i64::from(self.w[k * self.n + column]) - i64::from(zero);
            x * w
        });
        products.sum::<i64>() + self.bias.get(column).map_or(0, |&b| i64::from(b))
    }

    fn weights(&self, instructions: Int8Instructions) -> Int8Weights<'static> {
        let shape = WeightShape {
            groups: 1,
            taps: 1,
            depth: self.k,
        };
        let write = |_: usize, columns: Range<usize>, to: &mut [u8], width: usize| {
            for (k, row) in to.chunks_exact_mut(width.max(1)).enumerate() {
                for (to, column) in row.iter_mut().zip(columns.clone()) {
                    *to = self.w[k * self.n + column] as u8;
                }
            }
        };
        let layout = Int8Layout::new(instructions, shape, self.n, self.w_kind);
        layout
            .expect("few enough products")
            .pack(write, &WeightMemory::default(), &Pool::new(1))
    }

    /// Calls `f` with the product of rows `x_stride` apart, what lies between which is any.
    fn with_matmul<R>(&self, weights: &Int8Weights<'_>, f: impl FnOnce(&Int8Matmul<'_>) -> R) -> R {
        let x_stride = self.k + 3;
        let mut x = vec![0xa5_u8; (self.m.max(1) - 1) * x_stride + self.k];
        for (row, from) in self.x.chunks_exact(self.k.max(1)).enumerate() {
            for (to, &from) in x[row * x_stride..].iter_mut().zip(from) {
                *to = from as u8;
            }
        }
        let signed: Vec<i8> = x.iter().map(|&x| x.cast_signed()).collect();
        f(&Int8Matmul {
            x: match self.x_kind {
                ByteKind::Signed => Bytes::I8(&signed),
                ByteKind::Unsigned => Bytes::U8(&x),
            },
            x_stride,
            x_zero_point: self.x_zero,
            m: self.m,
            weights,
            weight_zero_points: &self.w_zero,
            bias: &self.bias,
        })
    }
}

/// Sums, bytes and floats of `case` by every instruction set.
#[track_caller]
fn check(case: &Case) {
    let (m, n) = (case.m, case.n);
    let y_stride = n + 2;
    let multipliers: Vec<f32> = (0..n).map(|c| 0.37 / (1 + c % 7) as f32 / 100.0).collect();
    let biases: Vec<f32> = (0..n).map(|c| c as f32 * 0.5 - 3.0).collect();
    for instructions in Int8Instructions::available() {
        let weights = case.weights(instructions);
        let name = instructions.name();
        let len = (m.max(1) - 1) * y_stride + n;
        let mut sums = vec![-7; len];
        let mut unsigned = vec![77_u8; len];
        let mut signed = vec![77_i8; len];
        let mut floats = vec![-7.0_f32; len];
        case.with_matmul(&weights, |product| {
            product.sums(&mut sums, y_stride);
            let to = BytesMut::U8(&mut unsigned);
            product.requantised(to, y_stride, &multipliers, 3, 1..=250);
            let to = BytesMut::I8(&mut signed);
            product.requantised(to, y_stride, &[0.003], -5, i32::MIN..=i32::MAX);
            product.dequantised(&mut floats, y_stride, &multipliers, &biases);
        });
        for row in 0..m {
            for column in 0..y_stride.min(len - row * y_stride) {
                let at = row * y_stride + column;
                if column >= n {
                    let between = (sums[at], unsigned[at], signed[at], floats[at]);
                    assert_eq!(between, (-7, 77, 77, -7.0), "{name}: between rows");
                    continue;
                }
                let want = case.sum(row, column);
                assert_eq!(i64::from(sums[at]), want, "{name} ({row}, {column})");
                let float = want as i32 as f32;
                let byte = |multiplier: f32, zero: f32, low: f32, high: f32| {
                    ((float * multiplier).round_ties_even() + zero).clamp(low, high)
                };
                let want = byte(multipliers[column], 3.0, 1.0, 250.0);
                assert_eq!(f32::from(unsigned[at]), want, "{name} ({row}, {column})");
                let want = byte(0.003, -5.0, -128.0, 127.0);
                assert_eq!(f32::from(signed[at]), want, "{name} ({row}, {column})");
                let want = float * multipliers[column] + biases[column];
                assert_eq!(floats[at], want, "{name} ({row}, {column})");
            }
        }
    }
}

const KINDS: [ByteKind; 2] = [ByteKind::Signed, ByteKind::Unsigned];

/// Every byte of both sides the value that `pick` makes of the range of its kind.
fn extreme(
    (m, k, n): (usize, usize, usize),
    (x_kind, w_kind): (ByteKind, ByteKind),
    pick: fn((i32, i32)) -> i32,
    other: fn((i32, i32)) -> i32,
) -> Case {
    Case {
        m,
        k,
        n,
        x: vec![pick(x_kind.range()); m * k],
        x_kind,
        x_zero: 0,
        w: vec![other(w_kind.range()); k * n],
        w_kind,
        w_zero: Vec::new(),
        bias: Vec::new(),
    }
}

#[test]
fn the_greatest_and_least_bytes_everywhere_are_summed_exactly() {
    for kinds in KINDS.iter().flat_map(|&x| KINDS.map(|w| (x, w))) {
        for pick in [|r: (i32, i32)| r.0, |r: (i32, i32)| r.1] {
            for other in [|r: (i32, i32)| r.0, |r: (i32, i32)| r.1] {
                let mut case = extreme((9, 67, 35), kinds, pick, other);
                check(&case);
                // The zero points at the other end, so that differences are 255.
                case.x_zero = kinds.0.range().0 + kinds.0.range().1 - case.x[0];
                check(&case);
                case.w_zero = vec![kinds.1.range().0 + kinds.1.range().1 - case.w[0]];
                check(&case);
            }
        }
    }
}

#[test]
fn as_many_products_as_fit_are_summed_exactly_and_more_are_refused() {
    let kinds = (ByteKind::Unsigned, ByteKind::Unsigned);
    let mut case = extreme((1, MAX_DEPTH, 3), kinds, |r| r.1, |r| r.1);
    check(&case);
    case.w_zero = vec![255, 0, 1];
    case.w.fill(0);
    check(&case);
    let shape = |depth| WeightShape {
        groups: 1,
        taps: 1,
        depth,
    };
    let pack = |shape| {
        let best = Int8Instructions::best(spark_simd::Isa::detect());
        Int8Layout::new(best, shape, 1, ByteKind::Signed)
    };
    let depth = MAX_DEPTH + 1;
    assert_eq!(pack(shape(depth)).map(|_| ()), Err(DepthError { depth }));
    let depth = usize::MAX;
    assert_eq!(pack(shape(depth)).map(|_| ()), Err(DepthError { depth }));
}

#[test]
fn every_size_of_a_tile_gives_the_naive_sums() {
    let lanes = spark_simd::Isa::detect().lanes();
    for n in [1, lanes - 1, lanes, lanes + 1, 2 * lanes, 3 * lanes, 64, 65] {
        for m in [1, 3, 4, 6, 8, 17] {
            for k in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 33] {
                check(&arbitrary(m * 1000 + k, (m, k, n)));
            }
        }
    }
}

#[test]
fn nothing_times_nothing_is_the_bias() {
    for (m, k, n) in [(0, 4, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)] {
        check(&arbitrary(1, (m, k, n)));
    }
}

/// A case of any bytes, zero points and biases.
fn arbitrary(seed: usize, (m, k, n): (usize, usize, usize)) -> Case {
    let mut state = seed as u64 * 2 + 1;
    let mut next = |range: (i32, i32)| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        range.0 + ((state >> 33) % (range.1 - range.0 + 1) as u64) as i32
    };
    let x_kind = KINDS[seed % 2];
    let w_kind = KINDS[seed / 2 % 2];
    let x: Vec<i32> = (0..m * k).map(|_| next(x_kind.range())).collect();
    let w: Vec<i32> = (0..k * n).map(|_| next(w_kind.range())).collect();
    let w_zero = match seed % 3 {
        0 => Vec::new(),
        1 => vec![next(w_kind.range())],
        _ => (0..n).map(|_| next(w_kind.range())).collect(),
    };
    let bias = match seed % 5 {
        0 => Vec::new(),
        _ => (0..n).map(|_| next((-100_000, 100_000))).collect(),
    };
    Case {
        m,
        k,
        n,
        x,
        x_kind,
        x_zero: next(x_kind.range()),
        w,
        w_kind,
        w_zero,
        bias,
    }
}

proptest! {
    #[test]
    fn any_product_is_exact(seed in 0..1_000_000_usize, m in 0..20_usize, k in 0..90_usize, n in 0..80_usize) {
        check(&arbitrary(seed, (m, k, n)));
    }
}

#[test]
fn taps_and_groups_are_summed_where_their_rows_are() {
    let (groups, taps, depth, n, m) = (2, 3, 5, 21, 7);
    let shape = WeightShape {
        groups,
        taps,
        depth,
    };
    let w = |group: usize, row: usize, column: usize| {
        ((group * 31 + row * 7 + column * 13) % 256) as u8
    };
    let write = |group: usize, columns: Range<usize>, to: &mut [u8], width: usize| {
        for (row, to) in to.chunks_exact_mut(width).enumerate() {
            for (to, column) in to.iter_mut().zip(columns.clone()) {
                *to = w(group, row, column);
            }
        }
    };
    // Tap `t` of row `i` begins at pixel `i + t`, whose channels are those of all groups.
    let pixel = groups * depth;
    let x: Vec<u8> = (0..(m + taps) * pixel)
        .map(|i| (i * 37 % 251) as u8)
        .collect();
    let offsets: Vec<isize> = (0..taps).map(|tap| (tap * pixel) as isize).collect();
    for instructions in Int8Instructions::available() {
        let layout = Int8Layout::new(instructions, shape, n, ByteKind::Unsigned);
        let layout = layout.expect("few enough");
        let weights = layout.pack(write, &WeightMemory::default(), &Pool::new(2));
        let mut memory = vec![7.0; layout.memory_len().expect("not much")];
        let lent = layout.pack_into(write, &mut memory);
        for group in 0..groups {
            let mut initial = vec![0; weights.padded_columns()];
            weights.write_initial(group, (ByteKind::Unsigned, 9), &[100], &[], &mut initial);
            let mut of_lent = vec![0; weights.padded_columns()];
            lent.write_initial(group, (ByteKind::Unsigned, 9), &[100], &[], &mut of_lent);
            assert_eq!(initial, of_lent);
            let mut zeros = vec![0; weights.padded_columns()];
            assert!(
                weights.write_held_zero_points(&[100], &mut zeros),
                "not 128"
            );
            let mut y = vec![0; m * n];
            let isa = instructions.isa();
            for panel in crate::panel::panels(isa, n) {
                let bits = |w: &Int8Weights<'_>| {
                    let words = w.panel(group, panel).iter();
                    words.map(|w| w.to_bits()).collect::<Vec<_>>()
                };
                assert_eq!(bits(&weights), bits(&lent), "in lent memory");
                let packed = weights.panel_of(group, panel);
                let mut first = 0;
                while first < m {
                    let rows = packed.next_rows(m - first);
                    let at = |i: usize| (first + i).min(m - 1);
                    let tile = Int8Tile {
                        x: std::array::from_fn(|i| x[at(i) * pixel + group * depth..].as_ptr()),
                        kind: ByteKind::Unsigned,
                        offsets: &offsets,
                        border: None,
                        panel: packed,
                        initial: initial[panel.column..].as_ptr(),
                        zero_points: zeros[panel.column..].as_ptr(),
                        output: Int8Output::Sums(std::array::from_fn(|i| {
                            y[at(i) * n + panel.column..].as_mut_ptr()
                        })),
                        prefetch: packed.prefetch(0),
                    };
                    // SAFETY: the rows and columns exist; lists are padded.
                    unsafe { tile.run(rows) };
                    first += rows;
                }
            }
            for (i, column) in (0..m).flat_map(|i| (0..n).map(move |c| (i, c))) {
                let products = (0..taps * depth).map(|row| {
                    let (tap, k) = (row / depth, row % depth);
                    let x = i64::from(x[(i + tap) * pixel + group * depth + k]) - 9;
                    x * (i64::from(w(group, row, column)) - 100)
                });
                let name = instructions.name();
                let got = i64::from(y[i * n + column]);
                assert_eq!(
                    got,
                    products.sum::<i64>(),
                    "{name}, group {group} ({i}, {column})"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "x has the rows")]
fn a_left_operand_one_byte_short_is_refused() {
    let case = arbitrary(0, (3, 5, 4));
    let weights = case.weights(Int8Instructions::best(spark_simd::Isa::portable()));
    Int8Matmul {
        x: Bytes::U8(&[0; 14]),
        x_stride: 5,
        x_zero_point: 0,
        m: 3,
        weights: &weights,
        weight_zero_points: &[],
        bias: &[],
    }
    .sums(&mut [0; 12], 4);
}

#[test]
#[should_panic(expected = "y has the rows")]
fn a_result_one_element_short_is_refused() {
    let case = arbitrary(0, (3, 5, 4));
    let weights = case.weights(Int8Instructions::best(spark_simd::Isa::portable()));
    case.with_matmul(&weights, |product| product.sums(&mut [0; 11], 4));
}

#[test]
fn a_multiplier_that_is_no_number_gives_the_least_byte() {
    let case = extreme(
        (2, 4, 5),
        (ByteKind::Unsigned, ByteKind::Signed),
        |r| r.1,
        |r| r.1,
    );
    for instructions in Int8Instructions::available() {
        let weights = case.weights(instructions);
        let mut y = [9; 10];
        case.with_matmul(&weights, |product| {
            product.requantised(BytesMut::U8(&mut y), 5, &[f32::NAN], 7, 2..=200);
        });
        assert_eq!(y, [2; 10], "{}", instructions.name());
    }
}
