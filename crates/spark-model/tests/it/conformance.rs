//! Importer, binding, interpreter and executor against the ONNX conformance suite and
//! random models run by onnxruntime.
//!
//! `benches/rivals/onnx_conformance/generate.py` writes the cases; `SPARK_ONNX_CASES`
//! names their folder. Every case must pass or be left out for a stated reason:
//! an unsupported operator, element type or operator set, or a form in [`LEFT_OUT`].
//! A case that the interpreter passes then runs on the CPU executor, which must give the
//! same or refuse the graph when it is lowered; a graph that folds away runs nowhere.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use spark_model::cpu::{Executor, Isa, Pool};
use spark_model::graph::{Graph, StaticGraph, bind};
use spark_model::onnx::OnnxError;
use spark_model::plan::lower;
use spark_model::{DType, ModelError, Tensor, TensorData, onnx, reference};

/// Cases of supported operators in forms that this crate does not take: parts of the
/// name, and why.
const LEFT_OUT: &[(&[&str], &str)] = &[
    (&["_batchnorm_", "training_mode"], "training"),
    (&["_training_dropout"], "training"),
    (
        &["_mod_float", "fmod_0"],
        "float remainders with the sign of the divisor",
    ),
    (&["quantizelinear_blocked"], "scales per block"),
    (&["_einsum_batch_diagonal"], "diagonals"),
    (&["_spacetodepth_crd"], "column-row-depth order"),
    (&["_downsample_scales_", "_align_corners"], ALIGNED),
    (&["_attention_", "_gqa"], GROUPED),
    (&["_attention_3d_local_window"], GROUPED),
    (&["_attention_", "past"], CACHED),
    (&["_attention_", "padded_kv"], CACHED),
    (&["_attention_", "nonpad"], CACHED),
    (&["_attention_", "ext_cache"], CACHED),
    (&["_attention_", "softcap"], "capped scores"),
    (
        &["_attention_", "qk_matmul"],
        "attention that also gives its scores",
    ),
    (&["_attention_", "nan_robustness"], HIDDEN),
    (&["_attention_", "_window"], "attention within a window"),
];

const ALIGNED: &str =
    "the suite aligns corners of a fractional length, onnxruntime and PyTorch of a whole one";
const GROUPED: &str = "attention with fewer heads of keys than of queries";
const HIDDEN: &str = "attention to nothing: NaN here, zeros in the suite";
const CACHED: &str = "attention over a cache";

#[derive(Deserialize)]
struct CaseList {
    cases: Vec<Case>,
    skipped: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    operator: String,
    rtol: f64,
    atol: f64,
    sets: usize,
}

#[derive(Deserialize)]
struct Skipped {
    operator: String,
    reason: String,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    skipped: BTreeMap<String, usize>,
    failed: Vec<String>,
    executed: usize,
    refused: BTreeMap<String, usize>,
}

enum Verdict {
    Passed(Execution),
    Skipped(String),
    Failed(String),
}

/// What the executor made of a case that the interpreter passes.
enum Execution {
    Passed,
    Refused(String),
    Folded,
}

#[test]
fn conformance_cases_pass() {
    let Some(folder) = std::env::var_os("SPARK_ONNX_CASES") else {
        eprintln!("skipped: SPARK_ONNX_CASES names no folder of generated ONNX cases");
        return;
    };
    let folder = Path::new(&folder);
    let list = std::fs::read(folder.join("cases.json")).expect("cases.json");
    let list: CaseList = serde_json::from_slice(&list).expect("a list of cases");
    let mut by_operator: BTreeMap<&str, Counts> = BTreeMap::new();
    for case in &list.cases {
        let counts = by_operator.entry(&case.operator).or_default();
        match check(case, &folder.join(&case.name)) {
            Verdict::Passed(execution) => {
                counts.passed += 1;
                match execution {
                    Execution::Passed => counts.executed += 1,
                    Execution::Refused(reason) => {
                        *counts.refused.entry(reason).or_default() += 1;
                    }
                    Execution::Folded => {}
                }
            }
            Verdict::Skipped(reason) => *counts.skipped.entry(reason).or_default() += 1,
            Verdict::Failed(reason) => counts.failed.push(format!("{}: {reason}", case.name)),
        }
    }
    for skipped in &list.skipped {
        let counts = by_operator.entry(&skipped.operator).or_default();
        *counts.skipped.entry(skipped.reason.clone()).or_default() += 1;
    }
    report(&by_operator);
    let n_failed: usize = by_operator.values().map(|c| c.failed.len()).sum();
    assert!(n_failed == 0, "{n_failed} cases failed");
}

fn report(by_operator: &BTreeMap<&str, Counts>) {
    let mut sums = [0; 5];
    eprintln!("passed executed refused skipped failed  operator");
    for (operator, counts) in by_operator {
        let row = [
            counts.passed,
            counts.executed,
            counts.refused.values().sum(),
            counts.skipped.values().sum(),
            counts.failed.len(),
        ];
        report_row(row, operator);
        for (reason, n) in &counts.skipped {
            eprintln!("{:40}{n} skipped: {reason}", "");
        }
        for (reason, n) in &counts.refused {
            eprintln!("{:40}{n} not executed: {reason}", "");
        }
        for reason in &counts.failed {
            eprintln!("{:40}FAILED {reason}", "");
        }
        sums.iter_mut().zip(row).for_each(|(sum, n)| *sum += n);
    }
    report_row(sums, "in all");
}

fn report_row([passed, executed, refused, skipped, failed]: [usize; 5], name: &str) {
    eprintln!("{passed:>6} {executed:>8} {refused:>7} {skipped:>7} {failed:>6}  {name}");
}

fn check(case: &Case, folder: &Path) -> Verdict {
    let left_out = LEFT_OUT
        .iter()
        .find(|(parts, _)| parts.iter().all(|part| case.name.contains(part)));
    // Written out in basic operators, such a form is one like any other.
    if let Some((_, reason)) = left_out
        && !case.name.ends_with("_expanded")
    {
        return Verdict::Skipped((*reason).to_owned());
    }
    let graph = match onnx::load(&folder.join("model.onnx")) {
        Ok(graph) => graph,
        Err(error) => return refused(&error),
    };
    let mut execution = Execution::Folded;
    for set in 0..case.sets {
        let tensors = read_tensors(&folder.join(format!("set_{set}.safetensors")));
        let (bound, outputs) = match evaluate(&graph, &tensors) {
            Ok(evaluated) => evaluated,
            Err(error) => return Verdict::Failed(error.to_string()),
        };
        if let Err(reason) = compare_all(&outputs, &tensors, case) {
            return Verdict::Failed(format!("set {set}, {reason}"));
        }
        if bound.nodes.is_empty() {
            continue;
        }
        execution = match execute(&bound, &tensors) {
            Ok(outputs) => match compare_all(&outputs, &tensors, case) {
                Ok(()) => Execution::Passed,
                Err(reason) => return Verdict::Failed(format!("executor, set {set}, {reason}")),
            },
            Err(reason) => Execution::Refused(reason),
        };
    }
    Verdict::Passed(execution)
}

/// Every output that the case has a tensor for.
fn compare_all(
    outputs: &[(String, Tensor)],
    tensors: &BTreeMap<String, Tensor>,
    case: &Case,
) -> Result<(), String> {
    for (name, got) in outputs {
        if let Some(want) = tensors.get(&format!("out/{name}")) {
            compare(got, want, case).map_err(|reason| format!("`{name}`: {reason}"))?;
        }
    }
    Ok(())
}

/// Runs a bound graph on the fastest instruction set here; an error is a refusal.
fn execute(
    bound: &StaticGraph,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Vec<(String, Tensor)>, String> {
    let plan = lower(bound).map_err(|error| without_node(&error))?;
    let isa = *Isa::available().last().expect("at least the portable one");
    let mut executor =
        Executor::new(plan, isa, Pool::new(1).into()).map_err(|error| without_node(&error))?;
    for (index, &id) in bound.inputs.iter().enumerate() {
        let tensor = &tensors[&format!("in/{}", bound.value(id).name)];
        executor.set_input(index, tensor).expect("fits its input");
    }
    executor.run().expect("runs");
    let named = bound.outputs.iter().enumerate().map(|(index, &id)| {
        let tensor = executor.output(index).expect("an output");
        (bound.value(id).name.clone(), tensor)
    });
    Ok(named.collect())
}

/// The reason alone, so that equal ones are counted together.
fn without_node(error: &ModelError) -> String {
    match error {
        ModelError::Operator { op, reason, .. } => format!("{op}: {reason}"),
        error => error.to_string(),
    }
}

fn refused(error: &ModelError) -> Verdict {
    match error {
        ModelError::Onnx(OnnxError::UnknownOperator { op, .. }) => {
            Verdict::Skipped(format!("operator {op} is not supported"))
        }
        ModelError::Onnx(OnnxError::OperatorSet { got, min, .. }) if got < min => {
            Verdict::Skipped(format!("operator sets before {min} are not read"))
        }
        error => Verdict::Failed(error.to_string()),
    }
}

/// Runs the graph with inputs made constant only as far as result shapes need it:
/// the suite feeds shapes, axes and the like as inputs.
fn evaluate(
    graph: &Graph,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<(StaticGraph, Vec<(String, Tensor)>), ModelError> {
    let inputs: Vec<(&str, &Tensor)> = tensors
        .iter()
        .filter_map(|(name, tensor)| Some((name.strip_prefix("in/")?, tensor)))
        .collect();
    let n_inputs = graph.inputs.len();
    let mut last_error = None;
    for n_kept in [n_inputs, 1, 0] {
        if n_kept > n_inputs {
            continue;
        }
        let graph = with_constants(graph, n_kept, &inputs);
        let given: Vec<(&str, &Tensor)> = inputs
            .iter()
            .copied()
            .filter(|(name, _)| graph.inputs.iter().any(|&id| graph.value(id).name == *name))
            .collect();
        let shapes: Vec<(&str, Vec<usize>)> = given
            .iter()
            .map(|(name, t)| (*name, t.shape().to_vec()))
            .collect();
        let evaluated = bind(&graph, &shapes).and_then(|bound| {
            let outputs = reference::run(&bound, &given)?;
            Ok((bound, outputs))
        });
        match evaluated {
            Ok(evaluated) => return Ok(evaluated),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.expect("at least one attempt"))
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
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let data = elements(view.dtype(), view.data());
            let tensor = Tensor::new(view.shape().to_vec(), data).expect("fits");
            (name, tensor)
        })
        .collect()
}

fn elements(dtype: Dtype, bytes: &[u8]) -> TensorData {
    fn each<T, const N: usize>(bytes: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks::<N>().0.iter().map(|&b| from(b)).collect()
    }
    match dtype {
        Dtype::F64 => TensorData::F64(each(bytes, f64::from_le_bytes)),
        Dtype::F32 => TensorData::F32(each(bytes, f32::from_le_bytes)),
        Dtype::F16 => TensorData::F16(each(bytes, half::f16::from_le_bytes)),
        Dtype::BF16 => TensorData::BF16(each(bytes, half::bf16::from_le_bytes)),
        Dtype::I64 => TensorData::I64(each(bytes, i64::from_le_bytes)),
        Dtype::I32 => TensorData::I32(each(bytes, i32::from_le_bytes)),
        Dtype::I16 => TensorData::I16(each(bytes, i16::from_le_bytes)),
        Dtype::I8 => TensorData::I8(each(bytes, i8::from_le_bytes)),
        Dtype::U64 => TensorData::U64(each(bytes, u64::from_le_bytes)),
        Dtype::U32 => TensorData::U32(each(bytes, u32::from_le_bytes)),
        Dtype::U16 => TensorData::U16(each(bytes, u16::from_le_bytes)),
        Dtype::U8 => TensorData::U8(bytes.to_vec()),
        Dtype::BOOL => TensorData::Bool(bytes.iter().map(|&b| b != 0).collect()),
        other => panic!("element type {other:?}"),
    }
}
