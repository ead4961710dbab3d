//! What each refusal says, and corner cases of resolved geometry.

use super::*;
use crate::graph::{
    Conv, ConvTranspose, Expand, Gemm, MatMul, Padding, Pool, PoolKind, Reshape, Unary,
    conv_transpose_windows, parse_einsum, pool_windows, resolve_slice,
};

fn f32s(shape: &[usize]) -> Option<Operand<'_>> {
    Some(Operand {
        dtype: DType::F32,
        shape,
        constant: None,
    })
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("small")
}

#[track_caller]
fn check_refused(op: &Op, operands: &[Option<Operand<'_>>], want: &str) {
    let got = infer(op, operands, 1).expect_err("refused");
    assert_eq!(got.reason, want);
}

fn plain_conv() -> Conv {
    Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![]),
        groups: 1,
    }
}

#[test]
fn operand_counts_are_checked() {
    let relu = Op::Unary(Unary::Relu);
    check_refused(&relu, &[], "takes 1 operands, got 0");
    check_refused(&relu, &[f32s(&[2]), f32s(&[2])], "takes 1 operands, got 2");
    assert!(
        infer(&relu, &[f32s(&[2]), None], 1).is_ok(),
        "absent ones do not count"
    );
    let none = infer(&relu, &[f32s(&[2])], 2).expect_err("refused");
    assert_eq!(none.reason, "makes up to 1 results, 2 wanted");
    check_refused(
        &Op::MatMul(MatMul),
        &[None, f32s(&[2])],
        "operand 0 (`a`) is missing",
    );
}

#[test]
fn convolution_channels_and_windows_are_checked() {
    let op = Op::Conv(plain_conv());
    let x = [1, 3, 8, 8];
    check_refused(
        &op,
        &[f32s(&x), f32s(&[4, 2, 3, 3])],
        "`x` has 3 channels, `w` of shape [4, 2, 3, 3] in 1 groups wants another number",
    );
    check_refused(
        &op,
        &[f32s(&x), f32s(&[4, 3, 9, 3])],
        "window of 9 is larger than the padded input of 8 on spatial axis 0",
    );
    check_refused(
        &op,
        &[f32s(&x), f32s(&[4, 3, 3, 3]), f32s(&[3])],
        "`bias` has shape [3], wanted [4]",
    );
    check_refused(
        &op,
        &[f32s(&x), f32s(&[4, 3, 3])],
        "`w` of shape [4, 3, 3] must have 4 axes",
    );
}

#[test]
fn types_are_checked() {
    let x = Operand {
        dtype: DType::I32,
        ..f32s(&[1, 1, 4]).expect("given")
    };
    check_refused(
        &Op::Conv(plain_conv()),
        &[Some(x), Some(x)],
        "`x` is i32, wanted a float type",
    );
    check_refused(
        &Op::MatMul(MatMul),
        &[f32s(&[4]), Some(x)],
        "`b` is i32, wanted f32 as of the first operand",
    );
    let half = Gemm {
        alpha: 0.5,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    let matrix = Operand {
        shape: &[2, 2],
        ..x
    };
    check_refused(
        &Op::Gemm(half),
        &[Some(matrix), Some(matrix)],
        "alpha 0.5 and beta 1 must be whole for i32 operands",
    );
}

#[test]
fn shape_operands_must_be_constant() {
    let target = Operand {
        dtype: DType::I64,
        shape: &[2],
        constant: None,
    };
    check_refused(
        &Op::Reshape(Reshape { allow_zero: false }),
        &[f32s(&[4]), Some(target)],
        "`shape` must be constant: the result's shape depends on it",
    );
}

#[test]
fn sizes_that_cannot_be_counted_are_refused() {
    let relu = Op::Unary(Unary::Relu);
    check_refused(
        &relu,
        &[f32s(&[1 << 31, 2])],
        "shape [2147483648, 2] has more than 2147483648 elements",
    );
    // No elements, but strides that overflow.
    assert!(infer(&relu, &[f32s(&[0, usize::MAX, 2])], 1).is_err());
    assert!(infer(&relu, &[f32s(&[1; 65])], 1).is_err());
    let shape = ints(&[1 << 20, 1 << 20]);
    let expanded = infer(
        &Op::Expand(Expand),
        &[f32s(&[1]), Some(Operand::constant(&shape))],
        1,
    );
    assert!(expanded.is_err());
}

#[track_caller]
fn check_windows(padding: Padding, ceil_mode: bool, input: usize, want: (usize, usize, usize)) {
    let pool = Pool {
        kind: PoolKind::Max,
        kernel: vec![3],
        strides: vec![2],
        dilations: vec![],
        padding,
        count_include_pad: false,
        ceil_mode,
    };
    let windows = pool_windows(&pool, &[input]).expect("fits");
    let got = (windows[0].pad_begin, windows[0].pad_end, windows[0].output);
    assert_eq!(got, want);
}

#[test]
fn paddings_resolve_as_in_onnx() {
    check_windows(Padding::SameUpper, false, 6, (0, 1, 3));
    check_windows(Padding::SameLower, false, 6, (1, 0, 3));
    check_windows(Padding::SameUpper, true, 7, (1, 1, 4));
    check_windows(Padding::Valid, true, 6, (0, 0, 2));
    check_windows(Padding::Explicit(vec![]), false, 6, (0, 0, 2));
    check_windows(Padding::Explicit(vec![]), true, 6, (0, 0, 3));
    // A window that would start in the padding behind the input is dropped.
    check_windows(Padding::Explicit(vec![0, 2]), true, 2, (0, 2, 1));
    check_windows(Padding::Explicit(vec![1, 1]), true, 4, (1, 1, 3));
}

#[test]
fn a_pooling_window_must_touch_the_input() {
    let pool = Pool {
        kind: PoolKind::Average,
        kernel: vec![2],
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![2, 0]),
        count_include_pad: false,
        ceil_mode: false,
    };
    let error = pool_windows(&pool, &[5]).expect_err("refused");
    assert_eq!(error.reason, "padding 2 or 0 holds a whole window of 2");
}

#[test]
fn transposed_windows_honour_output_shape() {
    let transpose = ConvTranspose {
        conv: Conv {
            strides: vec![2],
            padding: Padding::SameUpper,
            ..plain_conv()
        },
        output_padding: vec![],
        output_shape: Some(vec![6]),
    };
    let windows = conv_transpose_windows(&transpose, &[3], &[4]).expect("fits");
    // Full extent 2 * (3 - 1) + 4 = 8; two too many, one from each end.
    let got = (windows[0].pad_begin, windows[0].pad_end, windows[0].output);
    assert_eq!(got, (1, 1, 6));
}

#[track_caller]
fn check_slice(extent: usize, start: i64, end: i64, step: i64, want: &[usize]) {
    let (starts, ends, steps) = (ints(&[start]), ints(&[end]), ints(&[step]));
    let slices = resolve_slice(
        &[extent],
        Operand::constant(&starts),
        Operand::constant(&ends),
        None,
        Some(Operand::constant(&steps)),
    );
    let slice = slices.expect("valid")[0];
    let got: Vec<usize> = (0..slice.len)
        .map(|i| (slice.start as i64 + i as i64 * slice.step) as usize)
        .collect();
    assert_eq!(got, want);
}

#[test]
fn slices_resolve_as_in_python() {
    check_slice(5, 1, 4, 1, &[1, 2, 3]);
    check_slice(5, -2, i64::MAX, 1, &[3, 4]);
    check_slice(5, 0, -1, 2, &[0, 2]);
    check_slice(5, -1, i64::MIN, -1, &[4, 3, 2, 1, 0]);
    check_slice(5, 9, 0, -2, &[4, 2]);
    check_slice(5, 3, 1, 1, &[]);
    check_slice(0, 0, 9, 1, &[]);
    check_slice(5, 4, -9, i64::MIN, &[4]);
}

#[test]
fn einsum_labels_are_numbered() {
    let parsed = parse_einsum("b...ij, b...jk -> b...ik", &[&[2, 7, 3, 4], &[2, 1, 4, 5]]);
    let parsed = parsed.expect("valid");
    let extents = |labels: &[usize]| {
        labels
            .iter()
            .map(|&l| parsed.extents[l])
            .collect::<Vec<_>>()
    };
    assert_eq!(extents(&parsed.output), [2, 7, 3, 5]);
    assert_eq!(extents(&parsed.operands[1]), [2, 7, 4, 5]);
    for (equation, shapes) in [
        ("ii->i", &[&[2, 2][..]][..]),
        ("ij,jk->ik", &[&[2, 3]]),
        ("ij,jk->ik", &[&[2, 3], &[4, 5]]),
        ("ij->ik", &[&[2, 3]]),
        ("i j k->", &[&[2, 3]]),
        ("i+j->", &[&[2, 3]]),
    ] {
        assert!(parse_einsum(equation, shapes).is_err(), "{equation}");
    }
}
