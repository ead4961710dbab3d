//! Models with old forms of operators, and what they compute by their own version of the
//! specification. Expected values are worked out by hand.

use crate::tensor::Tensor;
use spark_onnx_proto::{AttributeProto, GraphProto, ModelProto, NodeProto};

use super::messages::{
    constant, float, floats, graph, int, ints, model, node, operator_set, string, tensor_attribute,
    text,
};

/// A model, what goes into `x`, and what comes out of `y`.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is right is for this crate's own tests")
)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) model: ModelProto<'static>,
    pub(crate) x: Tensor,
    pub(crate) shape: Vec<usize>,
    pub(crate) y: Vec<f64>,
}

pub(crate) fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f32(shape, values.to_vec()).expect("values fill their shape")
}

pub(super) fn i64s(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

/// `x` is 1, 2, 3, ... in the given shape.
pub(super) fn counting(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    f32s(shape, &(1..=n).map(|v| v as f32).collect::<Vec<_>>())
}

fn extents(x: &Tensor) -> Vec<i64> {
    x.shape().iter().map(|&d| d as i64).collect()
}

pub(super) fn case(
    name: &'static str,
    opset: i64,
    op_type: &'static str,
    x: &Tensor,
    attributes: Vec<AttributeProto<'static>>,
    (shape, y): (&[usize], &[f64]),
) -> Case {
    let nodes = vec![node(op_type, &["x"], &["y"], attributes)];
    with_nodes(name, opset, nodes, &[], x, (shape, y))
}

pub(super) fn with_nodes(
    name: &'static str,
    opset: i64,
    nodes: Vec<NodeProto<'static>>,
    constants: &[(&'static str, Tensor)],
    x: &Tensor,
    (shape, y): (&[usize], &[f64]),
) -> Case {
    let graph = GraphProto {
        initializer: constants.iter().map(|(n, t)| constant(n, t)).collect(),
        ..graph(&extents(x), nodes)
    };
    Case {
        name,
        model: model(opset, graph),
        x: x.clone(),
        shape: shape.to_vec(),
        y: y.to_vec(),
    }
}

/// The cases of all families of operators.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = shape_operators();
    cases.extend(reductions_and_sorting());
    cases.extend(elementwise());
    cases.extend(resampling());
    cases.extend(normalizations());
    cases.extend(constants());
    cases.extend(microsoft());
    cases
}

fn shape_operators() -> Vec<Case> {
    let x = counting(&[1, 3, 1]);
    let three: &[f64] = &[1.0, 2.0, 3.0];
    let grid = counting(&[2, 3]);
    vec![
        case(
            "squeeze_with_axes_attribute",
            11,
            "Squeeze",
            &x,
            vec![ints("axes", &[0, -1])],
            (&[3], three),
        ),
        case("squeeze_of_all", 9, "Squeeze", &x, vec![], (&[3], three)),
        case(
            "unsqueeze_with_axes_attribute",
            11,
            "Unsqueeze",
            &counting(&[3]),
            vec![ints("axes", &[0, 2])],
            (&[1, 3, 1], three),
        ),
        case(
            "slice_with_attributes",
            9,
            "Slice",
            &grid,
            vec![
                ints("starts", &[-2]),
                ints("ends", &[i64::MAX]),
                ints("axes", &[1]),
            ],
            (&[2, 2], &[2.0, 3.0, 5.0, 6.0]),
        ),
        case(
            "pad_with_attributes",
            10,
            "Pad",
            &counting(&[2]),
            vec![ints("pads", &[1, 2]), float("value", 9.0)],
            (&[5], &[9.0, 1.0, 2.0, 9.0, 9.0]),
        ),
        case(
            "pad_reflecting_with_attributes",
            7,
            "Pad",
            &counting(&[3]),
            vec![ints("pads", &[1, 1]), string("mode", "reflect")],
            (&[5], &[2.0, 1.0, 2.0, 3.0, 2.0]),
        ),
        with_nodes(
            "split_with_attribute",
            11,
            vec![node(
                "Split",
                &["x"],
                &["a", "y"],
                vec![ints("split", &[1, 2]), int("axis", 1)],
            )],
            &[],
            &grid,
            (&[2, 2], &[2.0, 3.0, 5.0, 6.0]),
        ),
        with_nodes(
            "split_in_a_number_of_parts",
            18,
            vec![node(
                "Split",
                &["x"],
                &["a", "y"],
                vec![int("num_outputs", 2), int("axis", 1)],
            )],
            &[],
            &grid,
            (&[2, 1], &[3.0, 6.0]),
        ),
        with_nodes(
            "scatter_is_scatter_elements",
            9,
            vec![node(
                "Scatter",
                &["x", "i", "u"],
                &["y"],
                vec![int("axis", 0)],
            )],
            &[("i", i64s(&[2, 0])), ("u", f32s(&[2], &[7.0, 8.0]))],
            &counting(&[3]),
            (&[3], &[8.0, 2.0, 7.0]),
        ),
    ]
}

fn reductions_and_sorting() -> Vec<Case> {
    let grid = counting(&[2, 3]);
    let axis = || vec![ints("axes", &[1]), int("keepdims", 0)];
    vec![
        case(
            "reduce_mean_with_axes_attribute",
            13,
            "ReduceMean",
            &grid,
            axis(),
            (&[2], &[2.0, 5.0]),
        ),
        case(
            "reduce_sum_with_axes_attribute",
            11,
            "ReduceSum",
            &grid,
            axis(),
            (&[2], &[6.0, 15.0]),
        ),
        with_nodes(
            "reduce_sum_with_axes_operand",
            13,
            vec![node("ReduceSum", &["x", "axes"], &["y"], vec![])],
            &[("axes", i64s(&[0]))],
            &grid,
            (&[1, 3], &[5.0, 7.0, 9.0]),
        ),
        with_nodes(
            "reduce_max_with_axes_operand",
            18,
            vec![node("ReduceMax", &["x", "axes"], &["y"], vec![])],
            &[("axes", i64s(&[-1]))],
            &grid,
            (&[2, 1], &[3.0, 6.0]),
        ),
        case(
            "reduce_all",
            9,
            "ReduceL2",
            &counting(&[2, 1]),
            vec![int("keepdims", 0)],
            (&[], &[5.0f64.sqrt()]),
        ),
        with_nodes(
            "top_k_with_attribute",
            9,
            vec![node("TopK", &["x"], &["y", "i"], vec![int("k", 2)])],
            &[],
            &grid,
            (&[2, 2], &[3.0, 2.0, 6.0, 5.0]),
        ),
    ]
}

fn elementwise() -> Vec<Case> {
    let x = f32s(&[4], &[-2.0, -0.25, 0.5, f32::INFINITY]);
    let finite = f32s(&[2], &[-2.0, 3.0]);
    vec![
        case(
            "clip_with_attributes",
            6 + 1,
            "Clip",
            &x,
            vec![float("min", -1.0), float("max", 0.25)],
            (&[4], &[-1.0, -0.25, 0.25, 0.25]),
        ),
        case(
            "clip_from_above_with_attribute",
            10,
            "Clip",
            &x,
            vec![float("max", 0.25)],
            (&[4], &[-2.0, -0.25, 0.25, 0.25]),
        ),
        with_nodes(
            "is_inf_of_one_sign",
            10,
            vec![
                node("IsInf", &["x"], &["b"], vec![int("detect_positive", 0)]),
                node("Cast", &["b"], &["y"], vec![int("to", 1)]),
            ],
            &[],
            &x,
            (&[4], &[0.0; 4]),
        ),
        with_nodes(
            "is_inf_of_the_other_sign",
            10,
            vec![
                node("IsInf", &["x"], &["b"], vec![int("detect_negative", 0)]),
                node("Cast", &["b"], &["y"], vec![int("to", 1)]),
            ],
            &[],
            &x,
            (&[4], &[0.0, 0.0, 0.0, 1.0]),
        ),
        case(
            "dropout_with_attribute_drops_nothing",
            7,
            "Dropout",
            &finite,
            vec![float("ratio", 0.9)],
            (&[2], &[-2.0, 3.0]),
        ),
        with_nodes(
            "dropout_with_operands_drops_nothing",
            12,
            vec![node(
                "Dropout",
                &["x", "r", "t"],
                &["y"],
                vec![int("seed", 3)],
            )],
            &[
                ("r", f32s(&[], &[0.9])),
                (
                    "t",
                    Tensor::zeros(crate::DType::Bool, []).expect("a scalar"),
                ),
            ],
            &finite,
            (&[2], &[-2.0, 3.0]),
        ),
        case(
            "default_parameters",
            7,
            "HardSigmoid",
            &finite,
            vec![],
            (&[2], &[0.1, 1.0]),
        ),
    ]
}

fn resampling() -> Vec<Case> {
    let x = counting(&[1, 1, 1, 2]);
    let scales = [1.0, 1.0, 1.0, 2.0];
    let doubled: &[f64] = &[1.0, 1.0, 2.0, 2.0];
    let scales_constant = ("s", f32s(&[4], &scales));
    vec![
        case(
            "upsample_with_attribute",
            7,
            "Upsample",
            &x,
            vec![floats("scales", &scales), string("mode", "nearest")],
            (&[1, 1, 1, 4], doubled),
        ),
        with_nodes(
            "upsample_with_operand",
            9,
            vec![node(
                "Upsample",
                &["x", "s"],
                &["y"],
                vec![string("mode", "linear")],
            )],
            std::slice::from_ref(&scales_constant),
            &x,
            // Asymmetric coordinates 0, 0.5, 1, 1.5; beyond the end the last element stays.
            (&[1, 1, 1, 4], &[1.0, 1.5, 2.0, 2.0]),
        ),
        with_nodes(
            "the_first_resize",
            10,
            vec![node("Resize", &["x", "s"], &["y"], vec![])],
            std::slice::from_ref(&scales_constant),
            &x,
            (&[1, 1, 1, 4], doubled),
        ),
        with_nodes(
            "resize_with_empty_operands",
            11,
            vec![node(
                "Resize",
                &["x", "roi", "none", "sizes"],
                &["y"],
                vec![string("mode", "linear")],
            )],
            &[
                ("roi", f32s(&[0], &[])),
                ("none", f32s(&[0], &[])),
                ("sizes", i64s(&[1, 1, 1, 4])),
            ],
            &x,
            // Half-pixel coordinates -0.25, 0.25, 0.75, 1.25.
            (&[1, 1, 1, 4], &[1.0, 1.25, 1.75, 2.0]),
        ),
    ]
}

fn normalizations() -> Vec<Case> {
    // Softmax of [a, b] with b - a = ln 3 is [1/4, 3/4].
    let ln3 = 3.0f32.ln();
    let pairs = f32s(&[1, 2, 2], &[0.0, ln3, 0.0, ln3]);
    let groups = f32s(&[1, 4, 1, 1], &[-1.0, 1.0, 5.0, 7.0]);
    let root = 0.5f64.sqrt();
    vec![
        case(
            "softmax_over_all_axes_from_one_on",
            11,
            "Softmax",
            &pairs,
            vec![],
            (&[1, 2, 2], &[0.125, 0.375, 0.125, 0.375]),
        ),
        case(
            "softmax_over_the_last_axis",
            11,
            "Softmax",
            &pairs,
            vec![int("axis", 2)],
            (&[1, 2, 2], &[0.25, 0.75, 0.25, 0.75]),
        ),
        case(
            "softmax_by_default_over_the_last_axis",
            13,
            "Softmax",
            &pairs,
            vec![],
            (&[1, 2, 2], &[0.25, 0.75, 0.25, 0.75]),
        ),
        with_nodes(
            "group_normalization_with_parameters_per_group",
            18,
            vec![node(
                "GroupNormalization",
                &["x", "s", "b"],
                &["y"],
                vec![int("num_groups", 2), float("epsilon", 1.0)],
            )],
            &[
                ("s", f32s(&[2], &[1.0, 2.0])),
                ("b", f32s(&[2], &[0.0, 10.0])),
            ],
            &groups,
            // Each group is its mean plus and minus one, with variance one and epsilon one.
            (
                &[1, 4, 1, 1],
                &[-root, root, 10.0 - 2.0 * root, 10.0 + 2.0 * root],
            ),
        ),
        with_nodes(
            "batch_normalization_of_the_first_kind",
            7,
            vec![node(
                "BatchNormalization",
                &["x", "s", "b", "m", "v"],
                &["y"],
                vec![
                    float("momentum", 0.9),
                    int("spatial", 1),
                    float("epsilon", 0.0),
                ],
            )],
            &[
                ("s", f32s(&[1], &[3.0])),
                ("b", f32s(&[1], &[1.0])),
                ("m", f32s(&[1], &[2.0])),
                ("v", f32s(&[1], &[4.0])),
            ],
            &f32s(&[1, 1, 2], &[0.0, 4.0]),
            (&[1, 1, 2], &[-2.0, 4.0]),
        ),
        case(
            "mean_variance_normalization",
            13,
            "MeanVarianceNormalization",
            &groups,
            vec![ints("axes", &[0, 1, 2, 3])],
            (
                &[1, 4, 1, 1],
                // Mean 3, variance 10.
                &[
                    -4.0 / 10f64.sqrt(),
                    -2.0 / 10f64.sqrt(),
                    2.0 / 10f64.sqrt(),
                    4.0 / 10f64.sqrt(),
                ],
            ),
        ),
    ]
}

pub(crate) fn constants() -> Vec<Case> {
    let x = counting(&[2]);
    let kinds: [(&'static str, AttributeProto<'static>, &[f64]); 4] = [
        (
            "constant_tensor",
            tensor_attribute("value", &f32s(&[2], &[10.0, 20.0])),
            &[11.0, 22.0],
        ),
        ("constant_float", float("value_float", 0.5), &[1.5, 2.5]),
        (
            "constant_floats",
            floats("value_floats", &[1.0, 2.0]),
            &[2.0, 4.0],
        ),
        ("constant_ints", ints("value_ints", &[3, 4]), &[4.0, 6.0]),
    ];
    let mut cases: Vec<Case> = kinds
        .into_iter()
        .map(|(name, attribute, y)| {
            let nodes = vec![
                node("Constant", &[], &["c"], vec![attribute]),
                node("Cast", &["c"], &["f"], vec![int("to", 1)]),
                node("Add", &["x", "f"], &["y"], vec![]),
            ];
            with_nodes(name, 13, nodes, &[], &x, (&[2], y))
        })
        .collect();
    cases.push(with_nodes(
        "constant_int",
        13,
        vec![
            node("Constant", &[], &["c"], vec![int("value_int", 1)]),
            node("Gather", &["x", "c"], &["y"], vec![]),
        ],
        &[],
        &x,
        (&[], &[2.0]),
    ));
    cases
}

fn microsoft() -> Vec<Case> {
    let x = f32s(&[1, 1, 2], &[-1.0, 1.0]);
    // x * Phi(x) at -1 and 1, and its approximation by the hyperbolic tangent.
    let exact = [-0.158_655_25, 0.841_344_75];
    let tanh = [-0.158_808_01, 0.841_191_99];
    let constants = [
        ("b", f32s(&[2], &[0.0, 0.0])),
        ("one", f32s(&[2], &[1.0, 1.0])),
        ("scale", f32s(&[2], &[2.0, 3.0])),
        ("skip", f32s(&[1, 1, 2], &[1.0, 3.0])),
        ("taps", f32s(&[1, 1, 1], &[2.0])),
        ("w", f32s(&[2, 2], &[1.0, 2.0, 3.0, 5.0])),
        ("third", f32s(&[], &[0.3])),
        ("half", f32s(&[], &[0.5])),
    ];
    let of = |name, nodes: Vec<NodeProto<'static>>, y: &[f64]| {
        let nodes = nodes.into_iter().map(|node| NodeProto {
            domain: text("com.microsoft"),
            ..node
        });
        let mut case = with_nodes(name, 13, nodes.collect(), &constants, &x, (&[1, 1, 2], y));
        let sets = &mut case.model.opset_import;
        sets.push(operator_set("com.microsoft", 1));
        case
    };
    let own = |name, op_type, inputs: &[&'static str], attributes, y: &[f64]| {
        of(name, vec![node(op_type, inputs, &["y"], attributes)], y)
    };
    let relu = vec![string("activation", "Relu")];
    let product = vec![float("alpha", 0.5), int("transB", 1)];
    let quantised_and_back = vec![
        node("QuantizeLinear", &["x", "third"], &["q"], vec![]),
        node("DequantizeLinear", &["q", "half"], &["y"], vec![]),
    ];
    vec![
        own("gelu", "Gelu", &["x"], vec![], &exact),
        own("fast_gelu", "FastGelu", &["x"], vec![], &tanh),
        own(
            "fast_gelu_with_bias",
            "FastGelu",
            &["x", "b"],
            vec![],
            &tanh,
        ),
        own("bias_gelu", "BiasGelu", &["x", "b"], vec![], &exact),
        // x / (1 + exp(-1.702 x)).
        own(
            "quick_gelu",
            "QuickGelu",
            &["x"],
            vec![],
            &[-0.154_204_23, 0.845_795_77],
        ),
        own("fused_conv", "FusedConv", &["x", "taps"], relu, &[0.0, 2.0]),
        // 0.5 x w'.
        own(
            "fused_mat_mul",
            "FusedMatMul",
            &["x", "w"],
            product,
            &[0.5, 1.0],
        ),
        // The mean of -1 and 1 is 0, their variance 1, and 1e-5 is added to it.
        own(
            "layer_normalisation",
            "LayerNormalization",
            &["x", "scale"],
            vec![],
            &[-1.999_99, 2.999_985],
        ),
        // Of 0 and 4: mean 2, variance 4.
        own(
            "layer_normalisation_of_a_sum",
            "SkipLayerNormalization",
            &["x", "skip", "scale", "one"],
            vec![],
            &[-1.0, 4.0],
        ),
        // 1 / 0.3 rounds to 3; without a zero point the integers are u8.
        of("quantised_and_back", quantised_and_back, &[0.0, 1.5]),
    ]
}
