//! Every operator in every form that the samples have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use spark_testing::settings;

use super::super::with_gradients;
use super::{largest_difference, one_node};
use crate::graph::{
    ActivationFormat, CountedDropout, MaskedSoftmax, Op, Operand, RoundedActivations, bind, infer,
};
use crate::reference::gradient::tests::random;
use crate::reference::gradient::tests::samples::parts;
use crate::reference::gradient::{
    GradientError, GradientKind, GradientOptions, differentiate, kind_of,
};
use crate::reference::run_wide;
use crate::samples::every_operator;
use crate::tensor::Tensor;

const STRAIGHT: GradientOptions = GradientOptions {
    straight_through: true,
};

/// Holds the gradients in operators against the reference's. `Err` with the reason if they are not written.
fn check(op: &Op, operands: &[Option<Tensor>], n_results: usize) -> Result<usize, String> {
    let given: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
    let typed: Vec<_> = given.iter().map(|t| t.map(Operand::constant)).collect();
    // Some operators do not take f64, into which floats of samples are turned; none of them has a gradient.
    let Ok(types) = infer(op, &typed, n_results) else {
        return Ok(0);
    };
    let by: Vec<usize> = (0..operands.len())
        .filter(|&i| {
            let is_float = given[i].is_some_and(|t| t.dtype().is_float());
            is_float && kind_of(op, i, types[0].dtype, STRAIGHT) == GradientKind::Computed
        })
        .collect();
    // Of quantised results the gradient is known, but no output can have it.
    if by.is_empty() || !types[0].dtype.is_float() {
        return Ok(0);
    }
    let graph = one_node(op, operands, &by, n_results);
    let bound = bind(&graph, &[]).expect("binds");
    let n_floats = types.iter().filter(|ty| ty.dtype.is_float()).count();
    let outputs: Vec<String> = (0..n_floats).map(|i| format!("y{i}")).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let wanted: Vec<String> = by.iter().map(|i| format!("x{i}")).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let trained = match with_gradients(&bound, &wanted, &outputs, &[], STRAIGHT) {
        Ok(trained) => trained,
        Err(GradientError::Model(error)) => return Err(error.to_string()),
        Err(error) => panic!("{op:?}: {error}"),
    };
    let gradients: Vec<Tensor> = (0..n_floats)
        .map(|i| {
            let values = random(&types[i].shape, 77 + i as u64).to_f64();
            Tensor::from_f64(types[i].dtype, types[i].shape.clone(), values).expect("fits")
        })
        .collect();
    let mut inputs: Vec<(&str, &Tensor)> = Vec::new();
    let names = trained.output_gradients.iter().map(String::as_str);
    inputs.extend(names.zip(&gradients));
    for (name, &i) in wanted.iter().zip(&by) {
        inputs.push((name, given[i].expect("is given")));
    }
    let bound = bind(&trained.graph, &[]).unwrap_or_else(|e| panic!("{op:?}: {e}"));
    let results = run_wide(&bound, &inputs).unwrap_or_else(|e| panic!("{op:?}: {e}"));
    let results = &results[n_results..];
    let mut n_checked = 0;
    for ((operand, name), (result_name, got)) in by.iter().zip(&trained.gradients).zip(results) {
        assert_eq!(name, result_name);
        let dy: Vec<Option<&Tensor>> = (0..n_results).map(|i| gradients.get(i)).collect();
        let want = differentiate(op, &given, &dy, *operand, STRAIGHT).expect("has a gradient");
        assert_eq!(got.shape(), want.shape(), "{op:?}, operand {operand}");
        let (got, want) = (got.to_f64(), want.to_f64());
        let difference = largest_difference(&got, &want);
        assert!(
            difference < 1e-9,
            "{op:?}, operand {operand}: {difference:e}\n{got:?}\nwanted\n{want:?}"
        );
        n_checked += want.iter().filter(|v| **v != 0.0).count();
    }
    Ok(n_checked)
}

/// Names of operators, and of those that are not written why not.
fn outcomes() -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>, usize) {
    let (mut written, mut refused) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    let mut n_elements = 0;
    let scores = random(&[3, 2, 5], 1);
    let masked = (Op::MaskedSoftmax(MaskedSoftmax), vec![Some(scores)], 1);
    let dropout = CountedDropout {
        probability: 0.4,
        key: 5,
    };
    let pass = Tensor::from_i64([], vec![3]).unwrap();
    let operands = vec![Some(random(&[3, 2, 5], 2)), Some(pass)];
    let dropped = (Op::CountedDropout(dropout), operands, 1);
    let rounded = [None, Some(1e-4)].map(|scale| {
        let op = RoundedActivations {
            format: ActivationFormat::Nvfp4,
            axis: 1,
            together: 2,
            scale,
            len: None,
        };
        let operands = vec![Some(random(&[3, 17, 5], 3))];
        (Op::RoundedActivations(op), operands, 1)
    });
    let samples = every_operator();
    let forms = samples.iter().filter_map(|sample| {
        let (op, operands, _) = parts(sample)?;
        Some((op, operands, sample.graph.nodes[0].outputs.len()))
    });
    for (op, operands, n_results) in forms.chain([masked, dropped]).chain(rounded) {
        match check(&op, &operands, n_results) {
            Ok(0) => {}
            Ok(n) => {
                n_elements += n;
                written.insert(op.name().to_owned());
            }
            Err(reason) => {
                let reason = reason.split("no gradient: ").last().unwrap_or_default();
                let names = refused.entry(reason.to_owned()).or_default();
                names.insert(op.name().to_owned());
            }
        }
    }
    (written, refused, n_elements)
}

#[test]
fn every_sample_agrees_with_the_reference_and_the_documentation_says_which_are_not_written() {
    let (written, refused, n_elements) = outcomes();
    assert!(
        written.len() > 85 && n_elements > 10_000,
        "{} operators, {n_elements} elements",
        written.len()
    );
    let mut table = "\n# What is not written in operators\n\nOf the operators whose gradient the reference computes:\n\n\
                     | Why not | Operators, in the form that has it |\n|---|---|\n"
        .to_owned();
    for (reason, names) in refused {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        table += &format!("| {reason} | {} |\n", names.join(", "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backward/operators.md");
    if settings::bless() {
        std::fs::write(&path, &table).expect("writes the table");
    }
    let file = std::fs::read_to_string(&path).expect("reads the table");
    assert_eq!(file, table, "SPARK_BLESS=1 writes it anew");
}

/// Channels of one side are moved under all taps at once.
#[test]
fn windows_where_one_side_has_few_channels() {
    use crate::graph::{Conv, ConvTranspose, Padding};
    let pads = |pads: [usize; 4]| Padding::Explicit(pads.to_vec());
    let forms = [
        (vec![], vec![], pads([1; 4]), [3, 3]),
        (vec![2, 1], vec![1, 2], pads([1, 2, 0, 1]), [3, 2]),
        (vec![2, 3], vec![], pads([0, 1, 3, 0]), [2, 4]),
        // Elements that no window reaches, and windows beyond the picture.
        (vec![3, 3], vec![], Padding::Valid, [2, 2]),
        (vec![], vec![], pads([4, 0, 0, 5]), [2, 3]),
        (vec![1, 2], vec![2, 2], Padding::SameUpper, [3, 3]),
    ];
    for (strides, dilations, padding, kernel) in forms {
        for (c, m) in [(8, 2), (9, 1), (2, 8), (1, 5)] {
            let conv = Conv {
                strides: strides.clone(),
                dilations: dilations.clone(),
                padding: padding.clone(),
                groups: 1,
            };
            let x = Some(random(&[2, c, 8, 7], 1));
            let w = Some(random(&[m, c, kernel[0], kernel[1]], 2));
            let n = check(&Op::Conv(conv.clone()), &[x.clone(), w], 1).expect("is written");
            assert!(n > 2 * c * m, "{conv:?}: {n}");
            let transpose = ConvTranspose {
                conv,
                output_padding: Vec::new(),
                output_shape: None,
            };
            let w = Some(random(&[c, m, kernel[0], kernel[1]], 3));
            let n = check(&Op::ConvTranspose(transpose), &[x, w], 1).expect("is written");
            assert!(n > 2 * c * m);
        }
    }
}
