//! Importer, binding, interpreter and executor against the ONNX project's own suite and
//! random models run by onnxruntime.
//!
//! `benches/rivals/onnx_conformance/generate.py` writes the cases; `SPARK_ONNX_CASES`
//! names their folder. Every case is run, and has one of these outcomes:
//!
//! ```text
//! pass                  interpreter and executor give every result of every set, inputs as the case gives them; where
//!                       lengths hang on these, the interpreter with inputs made constants, and cut in two (`split_at_values`)
//! pass, not executed    the interpreter does; the executor refuses the graph, and says why
//! refused               no graph comes of the file, or none with fixed shapes; why
//! wrong                 anything else: an answer that is not the suite's, a model that is read
//!                       though its values cannot even be written as tensors
//! ```
//!
//! The outcome of every case stands in `onnx_suite.txt`. A case with another outcome, better or
//! worse, fails; so does one that is missing or not listed. `SPARK_ONNX_BLESS=1` writes that
//! file anew, for a person to read the difference. A case whose model holds one node is listed with its
//! operator, from which a test of `spark-onnx-graph` makes docs/operators.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::SafeTensors;
use serde::Deserialize;
use spark_onnx::file::{OnnxError, ProtoError};
use spark_onnx::graph::{Graph, MAX_DECIDING_ELEMENTS, bind_with_values, deciding_inputs};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor};
use spark_onnx::{file, reference};
use spark_onnx_graph::split_at_values;

/// Networks whose interpretation takes minutes; the executor runs them.
const LARGE: &str = "real";

/// Models whose results come from onnxruntime: too many to list those that pass.
const RANDOM: &str = "random";

/// Answers of the suite that the specification does not have, each with the cases and the reason.
const WHY_WRONG: &[(&[&str], &str)] = &[
    // The specification has `length_resized`, "the length of the resized tensor in axis x", as onnxruntime and
    // PyTorch do; the suite has `output_width`, before it is rounded.
    (
        &[
            "node_test_resize_downsample_scales_cubic_align_corners",
            "node_test_resize_downsample_scales_linear_align_corners",
        ],
        "the suite aligns corners of a fractional length, the specification of a whole one",
    ),
    (
        &[
            "node_test_bernoulli",
            "node_test_bernoulli_double",
            "node_test_bernoulli_double_expanded",
            "node_test_bernoulli_expanded",
            "node_test_bernoulli_seed",
            "node_test_bernoulli_seed_expanded",
        ],
        "the suite has NumPy's random numbers, the specification names no generator",
    ),
    // Where the sum is 0.
    (
        &["node_test_dft_inverse", "node_test_dft_inverse_opset19"],
        "the suite has rounding errors of a transform in f32, beyond its own tolerance",
    ),
    // The table of https://onnx.ai/onnx/technical/float4.html has 6, ml_dtypes -0.
    (
        &[
            "node_test_cast_FLOAT16_to_FLOAT4E2M1",
            "node_test_cast_FLOAT_to_FLOAT4E2M1",
            "node_test_castlike_FLOAT16_to_FLOAT4E2M1",
            "node_test_castlike_FLOAT16_to_FLOAT4E2M1_expanded",
            "node_test_castlike_FLOAT_to_FLOAT4E2M1",
            "node_test_castlike_FLOAT_to_FLOAT4E2M1_expanded",
        ],
        "the suite casts NaN to a float4 of -0, the specification to 6",
    ),
];

/// Widest line of names.
const LINE_WIDTH: usize = 100;

#[derive(Deserialize)]
struct CaseList {
    source: String,
    cases: Vec<Case>,
    without_truth: Vec<WithoutTruth>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    /// The one that its model holds; empty if that has several nodes.
    operator: String,
    rtol: f64,
    atol: f64,
    sets: usize,
    /// Why no tensors can hold its values.
    unwritten: Option<String>,
}

#[derive(Deserialize)]
struct WithoutTruth {
    name: String,
    reason: String,
}

/// Outcomes, and of which cases.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    source: String,
    n_random: usize,
    by_case: BTreeMap<String, Listed>,
}

/// What is listed of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    /// As of [`Case`]; random models are listed without.
    operator: String,
    outcome: String,
}

const PASS: &str = "pass";
const NOT_EXECUTED: &str = "pass, not executed: ";
const REFUSED: &str = "refused: ";
const WRONG: &str = "wrong: ";

fn expected_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/onnx_suite.txt")
}

#[test]
fn every_case_of_the_onnx_suite_has_its_expected_outcome() {
    let Some(folder) = std::env::var_os("SPARK_ONNX_CASES") else {
        eprintln!("skipped: SPARK_ONNX_CASES names no folder of generated ONNX cases");
        return;
    };
    let folder = Path::new(&folder);
    let list = std::fs::read(folder.join("cases.json")).expect("cases.json");
    let list: CaseList = serde_json::from_slice(&list).expect("a list of cases");
    for case in &list.without_truth {
        eprintln!("nobody knows the results of {}: {}", case.name, case.reason);
    }
    let got = outcomes(&list, folder);
    eprintln!("{}", got.totals());
    if std::env::var_os("SPARK_ONNX_BLESS").is_some() {
        std::fs::write(expected_file(), got.to_text()).expect("the list can be written");
        return;
    }
    let expected = std::fs::read_to_string(expected_file()).expect("the list of outcomes");
    let differences = differences(&Outcomes::parse(&expected), &got);
    assert!(
        differences.is_empty(),
        "{} differ from onnx_suite.txt:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// The outcome of every case, on all processors.
fn outcomes(list: &CaseList, folder: &Path) -> Outcomes {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(case) = list
            .cases
            .get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            let mut outcome = outcome(case, &folder.join(&case.name));
            let mut whys = WHY_WRONG.iter();
            let why = whys.find(|(names, _)| names.contains(&case.name.as_str()));
            if let Some((_, why)) = why.filter(|_| outcome.starts_with(WRONG)) {
                outcome = format!("{WRONG}{why}");
            }
            let operator = match is_random(&case.name) {
                true => String::new(),
                false => case.operator.clone(),
            };
            done.push((case.name.clone(), Listed { operator, outcome }));
        }
        done
    };
    let by_case = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|w| w.join().expect("no panic"));
        done.flatten().collect()
    });
    Outcomes {
        source: list.source.clone(),
        n_random: list.cases.iter().filter(|c| c.kind == RANDOM).count(),
        by_case,
    }
}

fn is_random(name: &str) -> bool {
    name.starts_with("random_")
}

/// What is not as expected, a line each.
fn differences(expected: &Outcomes, got: &Outcomes) -> Vec<String> {
    let mut lines = Vec::new();
    if expected.source != got.source || expected.n_random != got.n_random {
        lines.push(format!(
            "cases are of {} with {} random models, expected {} with {}",
            got.source, got.n_random, expected.source, expected.n_random
        ));
    }
    let names: BTreeSet<&String> = expected.by_case.keys().chain(got.by_case.keys()).collect();
    for name in names {
        let random_that_passes = Listed {
            operator: String::new(),
            outcome: PASS.to_owned(),
        };
        let unlisted = is_random(name).then_some(&random_that_passes);
        let want = expected.by_case.get(name).or(unlisted);
        let is = got.by_case.get(name);
        if want != is {
            let is = is.map_or("missing".to_owned(), Listed::to_string);
            let want = want.map_or("not listed".to_owned(), Listed::to_string);
            lines.push(format!("{name}\n    is        {is}\n    expected  {want}"));
        }
    }
    lines
}

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.operator.as_str() {
            "" => f.write_str(&self.outcome),
            operator => write!(f, "{operator}, {}", self.outcome),
        }
    }
}

impl Outcomes {
    fn count(&self, random: bool, outcome: &str) -> usize {
        let all = self.by_case.iter();
        all.filter(|(name, is)| is_random(name) == random && is.outcome.starts_with(outcome))
            .count()
    }

    /// One sentence for people.
    fn totals(&self) -> String {
        let of_suite = self.by_case.keys().filter(|n| !is_random(n)).count();
        let outcomes = [PASS, NOT_EXECUTED, REFUSED, WRONG];
        let [passed, not_executed, refused, wrong] =
            outcomes.map(|outcome| self.count(false, outcome));
        let is_other =
            |(name, is): &(&String, &Listed)| is_random(name) && !is.outcome.starts_with(PASS);
        let n_others = self.by_case.iter().filter(is_other).count();
        format!(
            "{of_suite} cases: {passed} pass, of which the executor refuses {not_executed}; {refused} refused; \
             {wrong} wrong. {} of {} random models pass.",
            self.n_random - n_others,
            self.n_random,
        )
    }

    /// The text of the file: a group for every outcome.
    fn to_text(&self) -> String {
        let mut groups: BTreeMap<&str, BTreeMap<(&str, &str), Vec<&str>>> = BTreeMap::new();
        for (name, listed) in &self.by_case {
            if is_random(name) && listed.outcome == PASS {
                continue;
            }
            let (kind, rest) = name.split_once('_').expect("a kind and a name");
            let rest = rest.strip_prefix("test_").unwrap_or(rest);
            let kinds = groups.entry(&listed.outcome).or_default();
            let names = kinds.entry((kind, &listed.operator)).or_default();
            names.push(rest);
        }
        let mut text = String::from(
            "# What is expected of every case of the ONNX project's suite and of random models;\n\
             # conformance.rs says what the outcomes mean and how this file is written.\n",
        );
        let _ = writeln!(text, "# {}", self.totals());
        let _ = writeln!(text, "source: {}", self.source);
        let _ = writeln!(text, "random: {}, those not named here pass", self.n_random);
        for (outcome, kinds) in groups {
            let _ = writeln!(text, "\n{outcome}");
            for ((kind, operator), names) in kinds {
                let mut line = match operator {
                    "" => format!("    {kind}:"),
                    operator => format!("    {kind}/{operator}:"),
                };
                for name in names {
                    if line.len() + 1 + name.len() > LINE_WIDTH {
                        let _ = writeln!(text, "{line}");
                        line = String::from("       ");
                    }
                    let _ = write!(line, " {name}");
                }
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    /// [`Outcomes::to_text`] read again; without the random models that pass.
    fn parse(text: &str) -> Self {
        let mut outcomes = Self::default();
        let (mut outcome, mut kind, mut operator) = ("", "", "");
        for line in text
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            if let Some(source) = line.strip_prefix("source: ") {
                outcomes.source = source.to_owned();
            } else if let Some(rest) = line.strip_prefix("random: ") {
                let number = rest.split(',').next().and_then(|n| n.parse().ok());
                outcomes.n_random = number.expect("the number of random models");
            } else if let Some(names) = line.strip_prefix("    ") {
                for word in names.split_whitespace() {
                    if let Some(named) = word.strip_suffix(':') {
                        (kind, operator) = named.split_once('/').unwrap_or((named, ""));
                        continue;
                    }
                    let test = if kind == RANDOM { "" } else { "test_" };
                    let name = format!("{kind}_{test}{word}");
                    let listed = Listed {
                        operator: operator.to_owned(),
                        outcome: outcome.to_owned(),
                    };
                    let twice = outcomes.by_case.insert(name, listed);
                    assert!(twice.is_none(), "{kind} {word} is listed twice");
                }
            } else {
                outcome = line;
            }
        }
        outcomes
    }
}

/// How one case ends, in the words of the list of outcomes.
fn outcome(case: &Case, folder: &Path) -> String {
    let graph = match file::load(&folder.join("model.onnx")) {
        Ok(graph) => graph,
        Err(error) => return format!("{REFUSED}{}", reason_of(&error)),
    };
    if let Some(unwritten) = &case.unwritten {
        return format!("{WRONG}it is read, and its values hold {unwritten}");
    }
    let mut not_executed = None;
    for set in 0..case.sets {
        let tensors = read_tensors(&folder.join(format!("set_{set}.safetensors")));
        let evaluated = match evaluate(&graph, &tensors, case) {
            Ok(evaluated) => evaluated,
            Err(outcome) => return outcome,
        };
        if evaluated == Evaluated::WithConstants
            && let Err(reason) = cut_in_two(&graph, &tensors, case)
        {
            return format!("{WRONG}cut in two: {reason}");
        }
        match execute(graph.clone(), &given_of(&tensors)) {
            Ok(outputs) => {
                if let Err(reason) = compare_all(&outputs, &tensors, case) {
                    return format!("{WRONG}executor: {reason}");
                }
            }
            Err(error) => not_executed = Some(reason_of(&error)),
        }
    }
    not_executed.map_or_else(
        || PASS.to_owned(),
        |reason| format!("{NOT_EXECUTED}{reason}"),
    )
}

type Given<'t> = Vec<(&'t str, &'t Tensor)>;

/// What a graph gives that does not run with all of its inputs, cut where lengths begin to hang on them: the head
/// executed, the tail interpreted.
fn cut_in_two(
    graph: &Graph,
    tensors: &BTreeMap<String, Tensor>,
    case: &Case,
) -> Result<(), String> {
    let budget = spark_onnx_graph::budget::default_bytes(graph.source_bytes());
    let given = given_of(tensors);
    let outputs = split_at_values(graph.clone()).and_then(|(head, tail)| {
        let made = execute(head, &given)?;
        match tail {
            Some(tail) => tail.run(made, &given, budget),
            None => Ok(made),
        }
    });
    let outputs = outputs.map_err(|error| reason_of(&error))?;
    compare_all(&outputs, tensors, case)
}

fn given_of(tensors: &BTreeMap<String, Tensor>) -> Given<'_> {
    let inputs = tensors.iter();
    let inputs = inputs.filter_map(|(name, tensor)| Some((name.strip_prefix("in/")?, tensor)));
    inputs.collect()
}

/// How the interpreter ran a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evaluated {
    AsItIs,
    /// With some of its inputs made constants.
    WithConstants,
}

/// Interprets the graph as it is, or else with inputs made constant only as far as result shapes need
/// it: the suite feeds all kinds of parameters as inputs. Otherwise the outcome, which is not a pass.
fn evaluate(
    graph: &Graph,
    tensors: &BTreeMap<String, Tensor>,
    case: &Case,
) -> Result<Evaluated, String> {
    let inputs = given_of(tensors);
    let n_inputs = graph.inputs.len();
    let mut kept = vec![n_inputs, 1, 0];
    kept.retain(|&n| n <= n_inputs);
    kept.dedup();
    let mut last_error = None;
    for n_kept in kept {
        let graph = with_constants(graph, n_kept, &inputs);
        let is_input = |name: &str| graph.inputs.iter().any(|&id| graph.value(id).name == name);
        let given = inputs.iter().copied().filter(|(n, _)| is_input(n));
        match interpret(&graph, &given.collect(), case) {
            Ok(outputs) => {
                let compared = outputs.map_or(Ok(()), |o| compare_all(&o, tensors, case));
                compared.map_err(|reason| format!("{WRONG}{reason}"))?;
                return Ok(match last_error {
                    None => Evaluated::AsItIs,
                    Some(_) => Evaluated::WithConstants,
                });
            }
            Err(error) => last_error = Some(error),
        }
    }
    let error = last_error.expect("at least one attempt");
    Err(format!("{REFUSED}{}", reason_of(&error)))
}

/// Binds the graph for what is given, as a model does, and interprets it unless that takes minutes.
fn interpret(
    graph: &Graph,
    given: &Given<'_>,
    case: &Case,
) -> Result<Option<Vec<(String, Tensor)>>, ModelError> {
    let shapes: Vec<(&str, Vec<usize>)> = given
        .iter()
        .map(|(n, t)| (*n, t.shape().to_vec()))
        .collect();
    let deciding = deciding_inputs(graph).into_iter();
    let names = deciding.map(|number| &graph.value(graph.inputs[number]).name);
    let values: Vec<(&str, Arc<Tensor>)> = names
        .filter_map(|name| given.iter().find(|(n, _)| n == name))
        .filter(|(_, t)| t.shape().len() <= 1 && t.len() <= MAX_DECIDING_ELEMENTS)
        .map(|(n, t)| (*n, Arc::new((*t).clone())))
        .collect();
    let budget = spark_onnx_graph::budget::default_bytes(graph.source_bytes());
    let bound = bind_with_values(graph, &shapes, &values, budget)?;
    match case.kind.as_str() {
        LARGE => Ok(None),
        _ => reference::run(&bound, given).map(Some),
    }
}

/// Runs a graph on the executor.
fn execute(graph: Graph, given: &Given<'_>) -> Result<Vec<(String, Tensor)>, ModelError> {
    let mut runner = ModelRunner::from_graph(graph, &RunOptions::new().with_threads(1))?;
    runner.run(given)
}

/// Exactly the outputs that the case has tensors for.
fn compare_all(
    outputs: &[(String, Tensor)],
    tensors: &BTreeMap<String, Tensor>,
    case: &Case,
) -> Result<(), String> {
    let wanted = tensors.keys().filter(|n| n.starts_with("out/")).count();
    if outputs.len() != wanted {
        return Err(format!("{} results, wanted {wanted}", outputs.len()));
    }
    for (name, got) in outputs {
        let want = tensors.get(&format!("out/{name}"));
        let want = want.ok_or_else(|| format!("no result `{name}` is wanted"))?;
        compare(got, want, case).map_err(|reason| format!("`{name}`: {reason}"))?;
    }
    Ok(())
}

/// Why a model was refused, without names of nodes and values, so that equal reasons are one.
fn reason_of(error: &ModelError) -> String {
    match error {
        ModelError::Operator { op, reason, .. } => format!("{op}: {reason}"),
        ModelError::Onnx(OnnxError::UnknownOperator { op, hint, .. }) => {
            format!("operator {op} is not supported{hint}")
        }
        ModelError::Onnx(OnnxError::Proto(ProtoError::OperatorSet { min, .. })) => {
            format!("its operator set is older than {min}")
        }
        ModelError::Onnx(OnnxError::Value { what, reason, .. }) => format!("an {what}: {reason}"),
        ModelError::Onnx(OnnxError::Proto(ProtoError::Tensor { reason, .. })) => {
            format!("a tensor: {reason}")
        }
        ModelError::BeyondF32 { what, .. } => format!("an {what} beyond the range of f32"),
        error => error.to_string(),
    }
}

/// All inputs but the first `n_kept` become constants.
fn with_constants(graph: &Graph, n_kept: usize, inputs: &[(&str, &Tensor)]) -> Graph {
    let mut graph = graph.clone();
    for id in graph.inputs.split_off(n_kept) {
        let value = &mut graph.values[id.0];
        if let Some((_, tensor)) = inputs.iter().find(|(name, _)| *name == value.name) {
            value.constant = Some((*tensor).clone().into());
        }
    }
    graph
}

fn compare(got: &Tensor, want: &Tensor, case: &Case) -> Result<(), String> {
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Err(format!(
            "got {} {:?}, wanted {} {:?}",
            got.dtype(),
            got.shape(),
            want.dtype(),
            want.shape()
        ));
    }
    if !got.dtype().is_float() {
        return match got == want {
            true => Ok(()),
            false => Err(format!("got {:?}, wanted {:?}", first(got), first(want))),
        };
    }
    let rtol = case.rtol.max(two_last_places(got.dtype()));
    for (i, (got, want)) in got.to_f64().iter().zip(want.to_f64()).enumerate() {
        let inside = (got - want).abs() <= case.atol + rtol * want.abs();
        if !(inside || *got == want || (got.is_nan() && want.is_nan())) {
            return Err(format!("element {i} is {got}, wanted {want}"));
        }
    }
    Ok(())
}

/// Two last places of a format, relative: the suite rounds 16-bit sums at every step,
/// the interpreter once.
fn two_last_places(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-6),
        DType::F16 => 2f64.powi(-9),
        _ => 0.0,
    }
}

/// A few elements, for a message.
fn first(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64().into_iter().take(12).collect()
}

fn read_tensors(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).expect("readable");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensors = file.tensors().into_iter();
    tensors
        .map(|(name, view)| {
            (
                name,
                Tensor::try_from(&view).expect("a type that is written"),
            )
        })
        .collect()
}

/// Each a name, its operator and its outcome.
fn example(cases: &[(&str, &str, &str)]) -> Outcomes {
    let by_case = cases.iter().map(|(name, operator, outcome)| {
        let listed = Listed {
            operator: (*operator).to_owned(),
            outcome: (*outcome).to_owned(),
        };
        ((*name).to_owned(), listed)
    });
    Outcomes {
        source: "onnx 1".to_owned(),
        n_random: 2,
        by_case: by_case.collect(),
    }
}

#[test]
fn a_list_of_outcomes_is_read_as_it_was_written() {
    let refused = "refused: operator Loop is not supported";
    let written = example(&[
        ("node_test_abs", "Abs", PASS),
        ("node_test_abs_expanded", "", PASS),
        ("node_test_loop", "Loop", refused),
        ("node_test_scaler", "ai.onnx.ml::Scaler", refused),
        ("real_test_vgg19", "", PASS),
        ("random_conv_1", "", "wrong: element 3 is 1, wanted 2"),
    ]);
    assert_eq!(Outcomes::parse(&written.to_text()), written);
}

#[test]
fn any_other_outcome_than_the_listed_one_is_a_difference() {
    const A: (&str, &str, &str) = ("node_test_a", "A", PASS);
    const B: (&str, &str, &str) = ("node_test_b", "B", "refused: why");
    let expected = example(&[A, B]);
    let all_of = |cases: &[(&str, &str, &str)]| differences(&expected, &example(cases)).len();
    assert_eq!(all_of(&[A, B]), 0);
    // One that passes though it was to be refused, is refused for another reason, breaks, or is of another operator.
    assert_eq!(all_of(&[A, (B.0, B.1, PASS)]), 1);
    assert_eq!(all_of(&[A, (B.0, B.1, "refused: else")]), 1);
    assert_eq!(all_of(&[(A.0, A.1, "wrong: x"), B]), 1);
    assert_eq!(all_of(&[(A.0, "B", PASS), B]), 1);
    // One that is missing, or not listed.
    assert_eq!(all_of(&[A]), 1);
    assert_eq!(all_of(&[A, B, ("node_test_c", "C", PASS)]), 1);
    // Random models are listed only if they do not pass.
    let random = [("random_x_1", "", PASS), ("random_x_2", "", "wrong: y")];
    assert_eq!(all_of(&[A, B, random[0], random[1]]), 1);
}
