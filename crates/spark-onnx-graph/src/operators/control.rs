//! Control flow: If, Loop, Scan. Types of results follow from bodies, which binding asks
//! ([`crate::graph::bind`]), not from the node alone.

use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::ModelError;
use crate::file::import::call::{Call, ImportedBody, Translated, Translator};
use crate::graph::infer::{Operands, op_error};
use crate::graph::{If, Loop, Op, Scan, ScanAxis};
use crate::tensor::DType;

macro_rules! control_flow {
    ($name:ident, $import:ident) => {
        impl Operator for $name {
            const IMPORTS: &'static [Translator] = &[(stringify!($name), $import)];

            fn name(&self) -> &'static str {
                stringify!($name)
            }

            fn infer(&self, _: &Operands<'_>) -> Inferred {
                Err(op_error!(
                    "its bodies are in a graph, which is bound as a whole"
                ))
            }

            fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
                None
            }

            fn attributes(&self) -> Exported<'_> {
                Err("its bodies are in a graph, which is written as a whole".to_owned())
            }
        }
    };
}
control_flow!(If, if_);
control_flow!(Loop, loop_);
control_flow!(Scan, scan);

/// Refuses a body of another number of inputs.
fn takes(call: &Call<'_, '_>, what: &str, body: &ImportedBody, want: usize) -> Translated {
    let got = body.n_given;
    match got == want {
        true => Ok(()),
        false => Err(call.error(format!("`{what}` takes {got} values, {want} are given"))),
    }
}

/// Refuses a body that makes less than the results that the node has.
fn makes(call: &Call<'_, '_>, what: &str, body: &ImportedBody, beside: usize) -> Translated {
    let got = body.dtypes.len().saturating_sub(beside);
    let want = call.node.outputs.len();
    match got >= want && body.dtypes.len() >= beside {
        true => Ok(()),
        false => Err(call.error(format!("`{what}` makes {got} results, {want} are wanted"))),
    }
}

fn if_(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let condition = call.required(0)?;
    let then_body = call.body("then_branch")?;
    let else_body = call.body("else_branch")?;
    for (what, body) in [("then_branch", &then_body), ("else_branch", &else_body)] {
        takes(call, what, body, 0)?;
        makes(call, what, body, 0)?;
    }
    let known = then_body.dtypes.iter().zip(&else_body.dtypes);
    let dtypes = known.map(|(a, b)| a.or(*b)).collect();
    let op = Op::If(If {
        then_branch: call.add_body(then_body),
        else_branch: call.add_body(else_body),
    });
    call.finish_control(op, vec![Some(condition)], dtypes)
}

fn loop_(call: &mut Call<'_, '_>) -> Translated {
    let inputs = call.all_inputs();
    if inputs.len() < 2 {
        return Err(call.error("count and condition are operands, empty where left out"));
    }
    let carried = inputs.len() - 2;
    (2..inputs.len()).try_for_each(|index| call.required(index).map(drop))?;
    let body = call.body("body")?;
    takes(call, "body", &body, inputs.len())?;
    makes(call, "body", &body, 1)?;
    if body.dtypes.len() < 1 + carried {
        return Err(call.error("`body` makes less values than it carries"));
    }
    let dtypes = body.dtypes[1..].to_vec();
    let op = Op::Loop(Loop {
        body: call.add_body(body),
        carried,
    });
    call.finish_control(op, inputs, dtypes)
}

fn scan(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(9)?;
    let inputs = call.all_inputs();
    (0..inputs.len()).try_for_each(|index| call.required(index).map(drop))?;
    let scanned = call.count("num_scan_inputs", 0)?;
    if scanned == 0 || scanned > inputs.len() {
        return Err(call.error(format!(
            "{scanned} scanned operands of {} in all",
            inputs.len()
        )));
    }
    let carried = inputs.len() - scanned;
    let body = call.body("body")?;
    takes(call, "body", &body, inputs.len())?;
    makes(call, "body", &body, 0)?;
    if body.dtypes.len() < carried {
        return Err(call.error("`body` makes less values than it carries"));
    }
    let stacked = body.dtypes.len() - carried;
    let inputs_axes = axes(call, "scan_input_axes", "scan_input_directions", scanned)?;
    let outputs_axes = axes(call, "scan_output_axes", "scan_output_directions", stacked)?;
    let dtypes = body.dtypes.clone();
    let op = Op::Scan(Scan {
        body: call.add_body(body),
        carried,
        inputs: inputs_axes,
        outputs: outputs_axes,
    });
    call.finish_control(op, inputs, dtypes)
}

/// The two lists of parameters that say how `n` tensors are taken apart or put together.
fn axes(
    call: &Call<'_, '_>,
    axes: &str,
    directions: &str,
    n: usize,
) -> Result<Vec<ScanAxis>, ModelError> {
    let list = |name: &str| match call.ints(name)? {
        None => Ok(vec![0; n]),
        Some(values) if values.len() == n => Ok(values.to_vec()),
        Some(values) => Err(call.error(format!(
            "attribute `{name}` holds {} values, {n} wanted",
            values.len()
        ))),
    };
    let (axes, reversed) = (list(axes)?, list(directions)?);
    if let Some(bad) = reversed.iter().find(|&&d| d != 0 && d != 1) {
        return Err(call.error(format!("attribute `{directions}` holds {bad}")));
    }
    let each = axes.into_iter().zip(reversed);
    Ok(each
        .map(|(axis, reversed)| ScanAxis {
            axis,
            is_reversed: reversed == 1,
        })
        .collect())
}
