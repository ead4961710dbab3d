//! Models with operators that are short for several of ours, and what they compute. Expected values
//! are worked out by hand.

use spark_onnx_proto::AttributeProto;

use crate::tensor::{DType, Tensor};

use super::messages::{float, int, ints, node};
use super::versions::{Case, case, counting, f32s, i64s, with_nodes};

/// The cases of all families of operators.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = moving();
    cases.extend(choosing());
    cases.extend(few_bits());
    cases.extend(windows());
    cases.extend(attention());
    cases.extend(statistics());
    cases
}

fn moving() -> Vec<Case> {
    let reversed = |name, attributes, want: (&[usize], &[f64])| {
        with_nodes(
            name,
            10,
            vec![node("ReverseSequence", &["x", "n"], &["y"], attributes)],
            &[("n", i64s(&[2, 3]))],
            &counting(want.0),
            want,
        )
    };
    let centred = |name, attributes: Vec<AttributeProto<'static>>, wanted: &[i64], want| {
        with_nodes(
            name,
            18,
            vec![node("CenterCropPad", &["x", "s"], &["y"], attributes)],
            &[("s", i64s(wanted))],
            &counting(&[2, 3]),
            want,
        )
    };
    vec![
        reversed(
            "sequences_reversed_along_the_first_axis",
            vec![],
            (&[3, 2], &[3.0, 6.0, 1.0, 4.0, 5.0, 2.0]),
        ),
        reversed(
            "sequences_reversed_along_the_second_axis",
            vec![int("time_axis", 1), int("batch_axis", 0)],
            (&[2, 3], &[2.0, 1.0, 3.0, 6.0, 5.0, 4.0]),
        ),
        centred(
            "the_middle_cut_and_surrounded",
            vec![],
            &[1, 6],
            (&[1, 6], &[0.0, 1.0, 2.0, 3.0, 0.0, 0.0]),
        ),
        centred(
            "the_middle_of_one_axis",
            vec![ints("axes", &[-1])],
            &[2],
            (&[2, 2], &[1.0, 2.0, 4.0, 5.0]),
        ),
        case(
            "hardmax_of_the_first_of_equals",
            13,
            "Hardmax",
            &f32s(&[2, 3], &[1.0, 3.0, 3.0, 5.0, 4.0, 2.0]),
            vec![],
            (&[2, 3], &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
        ),
        case(
            "hardmax_over_all_axes_from_one_on",
            11,
            "Hardmax",
            &f32s(&[1, 2, 2], &[1.0, 4.0, 3.0, 2.0]),
            vec![],
            (&[1, 2, 2], &[0.0, 1.0, 0.0, 0.0]),
        ),
    ]
}

fn choosing() -> Vec<Case> {
    let compressed = |name, attributes: Vec<AttributeProto<'static>>, want| {
        let flags = Tensor::from_f64(DType::Bool, [2], vec![0.0, 1.0]).expect("a list");
        with_nodes(
            name,
            11,
            vec![node("Compress", &["x", "c"], &["y"], attributes)],
            &[("c", flags)],
            &counting(&[2, 3]),
            want,
        )
    };
    vec![
        compressed(
            "slices_where_a_list_is_true",
            vec![int("axis", -2)],
            (&[1, 3], &[4.0, 5.0, 6.0]),
        ),
        compressed("elements_where_a_list_is_true", vec![], (&[1], &[2.0])),
        case(
            "certain_and_impossible_events",
            22,
            "Bernoulli",
            &f32s(&[2, 3], &[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
            vec![],
            (&[2, 3], &[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
        ),
        case(
            "classes_that_are_certain",
            22,
            "Multinomial",
            // The last is as likely as nothing.
            &f32s(&[2, 3], &[0.0, 90.0, f32::NEG_INFINITY, 90.0, 0.0, 0.0]),
            vec![int("sample_size", 4), int("dtype", 7)],
            (&[2, 4], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ),
        with_nodes(
            "numbers_between_equal_bounds",
            22,
            vec![
                node(
                    "RandomUniform",
                    &[],
                    &["r"],
                    vec![ints("shape", &[2]), float("low", 3.0), float("high", 3.0)],
                ),
                node("Mul", &["x", "r"], &["y"], vec![]),
            ],
            &[],
            &counting(&[2]),
            (&[2], &[3.0, 6.0]),
        ),
        with_nodes(
            "normal_numbers_of_a_shape_without_a_spread",
            22,
            vec![
                node(
                    "RandomNormal",
                    &[],
                    &["r"],
                    vec![ints("shape", &[2]), float("mean", 3.0), float("scale", 0.0)],
                ),
                node("Mul", &["x", "r"], &["y"], vec![]),
            ],
            &[],
            &counting(&[2]),
            (&[2], &[3.0, 6.0]),
        ),
        with_nodes(
            "normal_numbers_without_a_spread",
            22,
            vec![
                node(
                    "RandomNormalLike",
                    &["x"],
                    &["r"],
                    vec![float("mean", 3.0), float("scale", 0.0), float("seed", 1.0)],
                ),
                node("Mul", &["x", "r"], &["y"], vec![]),
            ],
            &[],
            &counting(&[2]),
            (&[2], &[3.0, 6.0]),
        ),
    ]
}

fn few_bits() -> Vec<Case> {
    let cast_and_back = |name, to, x: &[f32], y: &[f64]| {
        let nodes = vec![
            node("Cast", &["x"], &["q"], vec![int("to", to)]),
            node("Cast", &["q"], &["y"], vec![int("to", 1)]),
        ];
        with_nodes(name, 25, nodes, &[], &f32s(&[x.len()], x), (&[x.len()], y))
    };
    let quantised_and_back = |name, to, scale, x: &[f32], y: &[f64]| {
        let to = vec![int("output_dtype", to)];
        let nodes = vec![
            node("QuantizeLinear", &["x", "s"], &["q"], to),
            node("DequantizeLinear", &["q", "s"], &["y"], vec![]),
        ];
        let scale = f32s(&[], &[scale]);
        let x = f32s(&[x.len()], x);
        with_nodes(name, 21, nodes, &[("s", scale)], &x, (&[y.len()], y))
    };
    vec![
        cast_and_back(
            "integers_of_four_bits",
            22,
            &[7.6, -8.0, 9.0, -1.5],
            &[7.0, -8.0, -7.0, -1.0],
        ),
        cast_and_back(
            "integers_of_two_bits_without_a_sign",
            25,
            &[3.0, 4.0, -1.0],
            &[3.0, 0.0, 3.0],
        ),
        cast_and_back(
            "floats_of_eight_bits",
            17,
            &[1.06, 1000.0, -0.1],
            &[1.0, 448.0, -0.1015625],
        ),
        quantised_and_back(
            "quantised_to_four_bits",
            21,
            0.5,
            &[1.2, -3.0, 100.0, 3.25],
            &[1.0, 0.0, 7.5, 3.0],
        ),
        quantised_and_back(
            "quantised_to_floats_of_eight_bits",
            19,
            2.0,
            &[3.0, 1e6, -1.1],
            &[3.0, 114_688.0, -1.0],
        ),
    ]
}

fn windows() -> Vec<Case> {
    let window = |name, op_type, periodic, y: &[f64]| {
        let nodes = vec![
            node(op_type, &["n"], &["w"], vec![int("periodic", periodic)]),
            node("Mul", &["x", "w"], &["y"], vec![]),
        ];
        let ones = f32s(&[4], &[1.0; 4]);
        with_nodes(name, 17, nodes, &[("n", i64s(&[4]))], &ones, (&[4], y))
    };
    let pool = |name, p, y: &[f64]| {
        let x = f32s(&[1, 1, 3], &[-3.0, 4.0, 0.0]);
        let attributes = vec![ints("kernel_shape", &[2]), int("p", p)];
        case(name, 18, "LpPool", &x, attributes, (&[1, 1, 2], y))
    };
    let hamming = 4.0 / 46.0;
    vec![
        with_nodes(
            "columns_added_up_to_an_image",
            18,
            vec![node(
                "Col2Im",
                &["x", "image", "block"],
                &["y"],
                vec![ints("pads", &[0, 1, 0, 0]), ints("strides", &[1, 2])],
            )],
            &[("image", i64s(&[1, 4])), ("block", i64s(&[1, 2]))],
            &counting(&[1, 2, 2]),
            // Blocks begin at -1 and 1: the first has 1 in the padding and 3, the second 2 and 4.
            (&[1, 1, 1, 4], &[3.0, 2.0, 4.0, 0.0]),
        ),
        window("hann_periodic", "HannWindow", 1, &[0.0, 0.5, 1.0, 0.5]),
        window("hann_symmetric", "HannWindow", 0, &[0.0, 0.75, 0.75, 0.0]),
        window(
            "hamming_periodic",
            "HammingWindow",
            1,
            &[hamming, 25.0 / 46.0, 1.0, 25.0 / 46.0],
        ),
        window(
            "blackman_periodic",
            "BlackmanWindow",
            1,
            &[0.0, 0.34, 1.0, 0.34],
        ),
        pool("sums_of_magnitudes", 1, &[7.0, 4.0]),
        pool("lengths_of_windows", 2, &[5.0, 4.0]),
        pool("third_roots_of_cubes", 3, &[91f64.cbrt(), 4.0]),
    ]
}

fn attention() -> Vec<Case> {
    let rotary = |name, attributes, width: usize, y: &[f64]| {
        let x: Vec<f32> = (1..=width).map(|v| v as f32).collect();
        let angles = |value| f32s(&[1, 1, 1], &[value]);
        with_nodes(
            name,
            23,
            vec![node(
                "RotaryEmbedding",
                &["x", "c", "s"],
                &["y"],
                attributes,
            )],
            &[("c", angles(0.6)), ("s", angles(0.8))],
            &f32s(&[1, 1, 1, width], &x),
            (&[1, 1, 1, width], y),
        )
    };
    let scalar = |value| f32s(&[1, 1, 1, 1], &[value]);
    vec![
        rotary("pairs_turned", vec![], 2, &[-1.0, 2.0]),
        rotary(
            "some_pairs_turned",
            vec![int("rotary_embedding_dim", 2), int("interleaved", 1)],
            4,
            &[-1.0, 2.0, 3.0, 4.0],
        ),
        with_nodes(
            "attention_to_what_was_before",
            23,
            vec![node(
                "Attention",
                &["x", "k", "v", "", "k", "past"],
                &["y"],
                vec![int("is_causal", 1), float("softcap", 2.0)],
            )],
            &[
                ("k", scalar(1.0)),
                ("v", scalar(2.0)),
                ("past", scalar(4.0)),
            ],
            &scalar(5.0),
            // Both keys are one, so that both values weigh the same.
            (&[1, 1, 1, 1], &[3.0]),
        ),
        with_nodes(
            "heads_that_share_keys",
            23,
            vec![node("Attention", &["x", "k", "v"], &["y"], vec![])],
            &[
                ("k", f32s(&[1, 2, 1, 1], &[0.0, 1.0])),
                ("v", f32s(&[1, 2, 1, 1], &[5.0, 6.0])),
            ],
            &counting(&[1, 4, 1, 1]),
            (&[1, 4, 1, 1], &[5.0, 5.0, 6.0, 6.0]),
        ),
        with_nodes(
            "scores_below_a_cap",
            23,
            vec![node(
                "Attention",
                &["x", "k", "v"],
                &["z", "", "", "y"],
                vec![
                    float("softcap", 2.0),
                    float("scale", 1.0),
                    int("qk_matmul_output_mode", 1),
                ],
            )],
            &[("k", scalar(1.0)), ("v", scalar(2.0))],
            &scalar(4.0),
            (&[1, 1, 1, 1], &[2.0 * 2f64.tanh()]),
        ),
    ]
}

fn statistics() -> Vec<Case> {
    let x = f32s(&[1, 2, 2], &[1.0, 3.0, 2.0, 10.0]);
    let layer = |name, outputs: &[&'static str], axis, want| {
        with_nodes(
            name,
            17,
            vec![node(
                "LayerNormalization",
                &["x", "s"],
                outputs,
                vec![int("axis", axis), float("epsilon", 0.0)],
            )],
            &[("s", f32s(&[1], &[1.0]))],
            &x,
            want,
        )
    };
    let batch = |name, outputs: &[&'static str], want| {
        let per_channel = |a, b| f32s(&[2], &[a, b]);
        with_nodes(
            name,
            15,
            vec![node(
                "BatchNormalization",
                &["x", "s", "b", "m", "v"],
                outputs,
                vec![
                    int("training_mode", 1),
                    float("momentum", 0.75),
                    float("epsilon", 0.0),
                ],
            )],
            &[
                ("s", per_channel(1.0, 2.0)),
                ("b", per_channel(0.0, 10.0)),
                ("m", per_channel(4.0, -2.0)),
                ("v", per_channel(5.0, 8.0)),
            ],
            &x,
            want,
        )
    };
    vec![
        batch(
            "a_batch_with_its_own_statistics",
            &["y"],
            (&[1, 2, 2], &[-1.0, 1.0, 8.0, 12.0]),
        ),
        batch("running_means_of_a_batch", &["z", "y"], (&[2], &[3.5, 0.0])),
        batch(
            "running_variances_of_a_batch",
            &["z", "", "y"],
            (&[2], &[4.0, 10.0]),
        ),
        layer(
            "means_of_a_layer",
            &["z", "y"],
            2,
            (&[1, 2, 1], &[2.0, 6.0]),
        ),
        layer(
            "inverse_deviations_of_a_layer",
            &["z", "", "y"],
            -1,
            (&[1, 2, 1], &[1.0, 0.25]),
        ),
    ]
}
