//! What `infer` promises is what `evaluate` makes, and nothing makes either panic.

use proptest::prelude::*;
use spark_onnx_graph::graph::{
    ArgReduce, AspectRatio, Binary, Concat, Conv, ConvTranspose, CoordinateTransform, CumSum,
    DepthToSpace, Expand, Flatten, Gather, GatherNd, Gemm, GroupNormalization, Interpolation,
    MatMul, NearestRounding, Op, Operand, Pad, PadMode, Padding, Pool, PoolKind, Reduce,
    ReduceKind, Reshape, Resize, Shape, Slice, Softmax, SpaceToDepth, Split, Squeeze, Tile, TopK,
    Unary, Unsqueeze, infer,
};
use spark_onnx_graph::{DType, Tensor, reference};

/// One operator with its operands.
#[derive(Debug, Clone)]
struct Case {
    op: Op,
    operands: Vec<Option<Tensor>>,
    n_outputs: usize,
}

fn case(op: Op, operands: Vec<Option<Tensor>>) -> Case {
    Case {
        op,
        operands,
        n_outputs: 1,
    }
}

/// f32 elements that differ from each other.
fn floats(shape: &[usize]) -> Option<Tensor> {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    Some(Tensor::from_f32(shape, values).expect("small"))
}

fn ints(values: &[i64]) -> Option<Tensor> {
    Some(Tensor::from_i64([values.len()], values.to_vec()).expect("small"))
}

/// That many cases, or more where `PROPTEST_CASES` asks for them.
fn at_least(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: asked.cases.max(cases),
        failure_persistence: None,
        ..asked
    }
}

/// Either both refuse the case, or both agree on types.
fn check(case: &Case) -> Result<(), TestCaseError> {
    let tensors: Vec<Option<&Tensor>> = case.operands.iter().map(Option::as_ref).collect();
    let operands: Vec<Option<Operand<'_>>> =
        tensors.iter().map(|t| t.map(Operand::constant)).collect();
    let inferred = infer(&case.op, &operands, case.n_outputs);
    let evaluated = reference::evaluate(&case.op, &tensors, case.n_outputs);
    match (inferred, evaluated) {
        (Err(_), Err(_)) => {}
        (Ok(types), Ok(tensors)) => {
            prop_assert_eq!(types.len(), tensors.len());
            for (ty, tensor) in types.iter().zip(&tensors) {
                prop_assert_eq!(ty.dtype, tensor.dtype());
                prop_assert_eq!(&ty.shape[..], tensor.shape());
            }
        }
        (inferred, evaluated) => {
            prop_assert!(false, "inferred {inferred:?}, evaluated {evaluated:?}");
        }
    }
    Ok(())
}

fn extents(rank: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0usize..6, rank)
}

fn paddings(rank: usize) -> impl Strategy<Value = Padding> {
    prop_oneof![
        proptest::collection::vec(0usize..3, 2 * rank).prop_map(Padding::Explicit),
        Just(Padding::Explicit(Vec::new())),
        Just(Padding::SameUpper),
        Just(Padding::SameLower),
        Just(Padding::Valid),
    ]
}

/// A list for every axis, or none at all.
fn steps(rank: usize, least: usize) -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(Vec::new()), proptest::collection::vec(least..4, rank),]
}

prop_compose! {
    fn convolutions()(rank in 1usize..4)(
        spatial in proptest::collection::vec(0usize..7, rank),
        kernel in proptest::collection::vec(0usize..4, rank),
        strides in steps(rank, 1),
        dilations in steps(rank, 1),
        padding in paddings(rank),
        groups in 1usize..3,
        [c, m, n] in [0usize..3, 0..3, 0..3],
        with_bias in any::<bool>(),
        output_padding in steps(rank, 0),
        output_shape in proptest::option::of(proptest::collection::vec(0usize..9, rank)),
        transposed in any::<bool>(),
    ) -> Case {
        let conv = Conv { strides, dilations, padding, groups };
        let x = [&[n, c * groups], &spatial[..]].concat();
        let (op, w, channels) = if transposed {
            let op = Op::ConvTranspose(ConvTranspose { conv, output_padding, output_shape });
            (op, [&[c * groups, m], &kernel[..]].concat(), m * groups)
        } else {
            (Op::Conv(conv), [&[m * groups, c], &kernel[..]].concat(), m * groups)
        };
        let bias = with_bias.then(|| floats(&[channels])).flatten();
        case(op, vec![floats(&x), floats(&w), bias])
    }
}

prop_compose! {
    fn pools()(rank in 1usize..4)(
        spatial in proptest::collection::vec(0usize..7, rank),
        kernel in proptest::collection::vec(0usize..4, rank),
        strides in steps(rank, 1),
        dilations in steps(rank, 1),
        padding in paddings(rank),
        max in any::<bool>(),
        count_include_pad in any::<bool>(),
        ceil_mode in any::<bool>(),
    ) -> Case {
        let kind = if max { PoolKind::Max } else { PoolKind::Average };
        let pool = Pool { kind, kernel, strides, dilations, padding, count_include_pad, ceil_mode };
        case(Op::Pool(pool), vec![floats(&[&[2, 2], &spatial[..]].concat())])
    }
}

prop_compose! {
    fn slices()(
        shape in extents(0..4),
        bounds in proptest::collection::vec((-9i64..9, -9i64..9, -4i64..4, -5i64..5), 0..4),
        with_axes in any::<bool>(),
        with_steps in any::<bool>(),
    ) -> Case {
        let column = |f: fn(&(i64, i64, i64, i64)) -> i64| {
            ints(&bounds.iter().map(f).collect::<Vec<_>>())
        };
        let axes = with_axes.then(|| column(|b| b.2)).flatten();
        let steps = with_steps.then(|| column(|b| b.3)).flatten();
        case(Op::Slice(Slice), vec![floats(&shape), column(|b| b.0), column(|b| b.1), axes, steps])
    }
}

prop_compose! {
    fn pads()(rank in 0usize..4)(
        shape in extents(rank),
        pads in proptest::collection::vec(-2i64..5, 2 * rank),
        mode in proptest::sample::select(vec![
            PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap,
        ]),
    ) -> Case {
        case(Op::Pad(Pad { mode }), vec![floats(&shape), ints(&pads)])
    }
}

prop_compose! {
    fn reshapes()(
        shape in extents(0..4),
        target in proptest::collection::vec(-2i64..7, 0..4),
        exact in any::<bool>(),
        allow_zero in any::<bool>(),
    ) -> Case {
        let target = match exact {
            true => vec![shape.first().map_or(1, |&d| d as i64), -1],
            false => target,
        };
        case(Op::Reshape(Reshape { allow_zero }), vec![floats(&shape), ints(&target)])
    }
}

prop_compose! {
    fn broadcasts()(
        shape in extents(0..4),
        ones in proptest::collection::vec(any::<bool>(), 4),
        cut in 0usize..4,
        spoil in proptest::bool::weighted(0.1),
        op in proptest::sample::select(vec![
            Op::Binary(Binary::Add), Op::Binary(Binary::Less), Op::Binary(Binary::Pow),
            Op::Expand(Expand), Op::MatMul(MatMul),
        ]),
    ) -> Case {
        let mut other: Vec<usize> =
            shape.iter().zip(&ones).map(|(&d, &one)| if one { 1 } else { d }).collect();
        other.drain(..cut.min(other.len()));
        if spoil {
            other.push(4);
        }
        let second = match op {
            Op::Expand(Expand) => ints(&other.iter().map(|&d| d as i64).collect::<Vec<_>>()),
            _ => floats(&other),
        };
        case(op, vec![floats(&shape), second])
    }
}

prop_compose! {
    fn resizes()(
        [h, w] in [1usize..7, 1..7],
        [scale_h, scale_w] in [0.2f32..3.0, 0.2..3.0],
        sizes in proptest::option::of([1i64..9, 1..9]),
        mode in proptest::sample::select(vec![
            Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic,
        ]),
        transform in proptest::sample::select(vec![
            CoordinateTransform::HalfPixel, CoordinateTransform::HalfPixelSymmetric,
            CoordinateTransform::PytorchHalfPixel, CoordinateTransform::AlignCorners,
            CoordinateTransform::Asymmetric, CoordinateTransform::TfCropAndResize,
        ]),
        aspect in proptest::sample::select(vec![
            AspectRatio::Stretch, AspectRatio::NotLarger, AspectRatio::NotSmaller,
        ]),
        antialias in any::<bool>(),
        exclude_outside in any::<bool>(),
    ) -> Case {
        let resize = Resize {
            mode, transform, aspect, antialias, exclude_outside,
            rounding: NearestRounding::RoundPreferFloor,
            cubic_coeff: -0.75,
            extrapolation: 1.0,
            axes: Some(vec![-2, -1]),
        };
        let roi = Tensor::from_f32([4], vec![-0.1, 0.2, 0.8, 1.2]).expect("small");
        let (scales, sizes) = match sizes {
            Some(sizes) => (None, ints(&sizes)),
            None => (Tensor::from_f32([2], vec![scale_h, scale_w]).ok(), None),
        };
        case(Op::Resize(resize), vec![floats(&[2, h, w]), Some(roi), scales, sizes])
    }
}

prop_compose! {
    fn axis_operators()(
        shape in extents(0..4),
        axis in -4i64..4,
        keep_dims in any::<bool>(),
        which in 0usize..10,
        indices in proptest::collection::vec(-3i64..3, 1..4),
    ) -> Case {
        let x = floats(&shape);
        let kind = ReduceKind::LogSumExp;
        let (op, second) = match which {
            0 => (Op::Softmax(Softmax { axis, log: false, flatten: keep_dims }), None),
            1 => (Op::ArgReduce(ArgReduce { max: true, axis, keep_dims, select_last: false }), None),
            2 => (Op::Reduce(Reduce { kind, keep_dims, noop_with_empty_axes: false }), ints(&[axis])),
            3 => (Op::Flatten(Flatten { axis }), None),
            4 => (Op::Squeeze(Squeeze), ints(&[axis])),
            5 => (Op::Unsqueeze(Unsqueeze), ints(&[axis])),
            6 => (Op::Gather(Gather { axis }), ints(&indices)),
            7 => (Op::TopK(TopK { axis, largest: keep_dims, sorted: true }), ints(&[2])),
            8 => (Op::Concat(Concat { axis }), x.clone()),
            _ => (Op::CumSum(CumSum { exclusive: keep_dims, reverse: false }), ints(&[axis])),
        };
        case(op, vec![x, second])
    }
}

fn cases() -> impl Strategy<Value = Case> {
    prop_oneof![
        convolutions(),
        pools(),
        slices(),
        pads(),
        reshapes(),
        broadcasts(),
        resizes(),
        axis_operators(),
    ]
}

proptest! {
    #![proptest_config(at_least(3000))]

    #[test]
    fn evaluation_makes_what_inference_says(case in cases()) {
        check(&case)?;
    }
}

/// Extents and parameters at the edges of their types.
fn any_extent() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..4,
        Just(1 << 31),
        Just((1 << 31) + 1),
        Just(1 << 40),
        Just(usize::MAX / 2),
        Just(usize::MAX),
    ]
}

fn any_int() -> impl Strategy<Value = i64> {
    prop_oneof![
        -4i64..4,
        Just(i64::MIN),
        Just(i64::MAX),
        Just(1 << 31),
        Just(-1 << 40),
    ]
}

fn hostile_ops() -> impl Strategy<Value = Op> {
    let list = || proptest::collection::vec(any_extent(), 0..5);
    let padding = prop_oneof![
        list().prop_map(Padding::Explicit),
        Just(Padding::SameLower),
        Just(Padding::Valid),
    ]
    .boxed();
    let conv = (list(), list(), padding.clone(), any_extent())
        .prop_map(|(strides, dilations, padding, groups)| Conv {
            strides,
            dilations,
            padding,
            groups,
        })
        .boxed();
    let transpose = (conv.clone(), list(), proptest::option::of(list())).prop_map(
        |(conv, output_padding, output_shape)| ConvTranspose {
            conv,
            output_padding,
            output_shape,
        },
    );
    let pool = (list(), list(), padding, any::<bool>()).prop_map(
        |(kernel, strides, padding, ceil_mode)| Pool {
            kind: PoolKind::Max,
            kernel,
            strides,
            dilations: Vec::new(),
            padding,
            count_include_pad: false,
            ceil_mode,
        },
    );
    prop_oneof![
        conv.prop_map(Op::Conv),
        transpose.prop_map(Op::ConvTranspose),
        pool.prop_map(Op::Pool),
        any_extent().prop_map(|block| Op::SpaceToDepth(SpaceToDepth { block })),
        any_extent().prop_map(|block| Op::DepthToSpace(DepthToSpace { block, crd: false })),
        any_extent().prop_map(|groups| Op::GroupNormalization(GroupNormalization {
            epsilon: 0.0,
            groups
        })),
        any_extent().prop_map(|batch_dims| Op::GatherNd(GatherNd { batch_dims })),
        any_int().prop_map(|axis| Op::Flatten(Flatten { axis })),
        any_int().prop_map(|axis| Op::Concat(Concat { axis })),
        any_int().prop_map(|axis| Op::Split(Split { axis })),
        (any_int(), proptest::option::of(any_int()))
            .prop_map(|(start, end)| Op::Shape(Shape { start, end })),
        Just(Op::MatMul(MatMul)),
        Just(Op::Gemm(Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true
        })),
        Just(Op::Unary(Unary::Relu)),
    ]
}

/// Operators whose second operand is read while shapes are inferred.
fn reading_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Reshape(Reshape { allow_zero: false })),
        Just(Op::Reshape(Reshape { allow_zero: true })),
        Just(Op::Expand(Expand)),
        Just(Op::Tile(Tile)),
        Just(Op::Squeeze(Squeeze)),
        Just(Op::Unsqueeze(Unsqueeze)),
        Just(Op::Slice(Slice)),
        Just(Op::Pad(Pad {
            mode: PadMode::Wrap
        })),
        any_int().prop_map(|axis| Op::Split(Split { axis })),
        any_int().prop_map(|axis| Op::Gather(Gather { axis })),
    ]
}

fn shaped(shape: &[usize]) -> Option<Operand<'_>> {
    Some(Operand {
        dtype: DType::F32,
        shape,
        constant: None,
    })
}

proptest! {
    #![proptest_config(at_least(5000))]

    #[test]
    fn inference_survives_any_extents(
        op in hostile_ops(),
        shapes in proptest::collection::vec(proptest::collection::vec(any_extent(), 0..6), 1..4),
    ) {
        let operands: Vec<_> = shapes.iter().map(|shape| shaped(shape)).collect();
        let _ = infer(&op, &operands, 1);
    }

    #[test]
    fn inference_survives_any_shape_operand(
        op in reading_ops(),
        shape in proptest::collection::vec(any_extent(), 0..5),
        lists in proptest::collection::vec(proptest::collection::vec(any_int(), 0..6), 1..5),
    ) {
        let lists: Vec<Option<Tensor>> = lists.iter().map(|list| ints(list)).collect();
        let operands: Vec<_> = std::iter::once(shaped(&shape))
            .chain(lists.iter().map(|list| list.as_ref().map(Operand::constant)))
            .collect();
        let _ = infer(&op, &operands, 2);
        let _ = infer(&op, &operands, 1);
    }
}
