//! Recurrent networks.

use super::Translator;
use super::call::{Call, Translated};
use crate::ModelError;
use crate::graph::{Cell, Direction, Op, Recurrent, Unary};

pub(super) const OPERATORS: &[Translator] =
    &[("RNN", recurrent), ("GRU", recurrent), ("LSTM", recurrent)];

fn recurrent(call: &mut Call<'_, '_>) -> Translated {
    let max_operands = if call.op_type() == "LSTM" { 8 } else { 6 };
    call.operands(3, max_operands)?;
    if call.float("clip")?.is_some() {
        return Err(call.error("attribute `clip` is not supported"));
    }
    let cell = match call.op_type() {
        "LSTM" => Cell::Lstm,
        "GRU" => Cell::Gru {
            linear_before_reset: call.flag("linear_before_reset", false)?,
        },
        _ => Cell::Rnn,
    };
    if cell == Cell::Lstm && call.flag("input_forget", false)? {
        return Err(call.error("attribute `input_forget` is not supported"));
    }
    let direction = call.choice(
        "direction",
        Direction::Forward,
        &[
            ("forward", Direction::Forward),
            ("reverse", Direction::Reverse),
            ("bidirectional", Direction::Bidirectional),
        ],
    )?;
    let recurrent = Recurrent {
        cell,
        direction,
        hidden: hidden(call)?,
        activations: activations(call, cell, direction)?,
        batch_first: call.flag("layout", false)?,
    };
    call.finish_as_is(Op::Recurrent(recurrent))
}

/// Stated, or else the last extent of the recurrent weights.
fn hidden(call: &Call<'_, '_>) -> Result<usize, ModelError> {
    let from_weights = call.constant(2).and_then(|r| r.shape().get(2).copied());
    let stated = call.count("hidden_size", 0)?;
    match (stated, from_weights) {
        (0, Some(width)) if width > 0 => Ok(width),
        (0, _) => Err(call.error("attribute `hidden_size` is missing")),
        (stated, _) => Ok(stated),
    }
}

/// Parameters stand in lists of their own, one entry for each activation that has one.
fn activations(
    call: &Call<'_, '_>,
    cell: Cell,
    direction: Direction,
) -> Result<Vec<Unary>, ModelError> {
    let alphas = call.floats("activation_alpha")?.unwrap_or_default();
    let betas = call.floats("activation_beta")?.unwrap_or_default();
    let Some(names) = call.texts("activations")? else {
        return Ok(Vec::new());
    };
    let per_direction = match cell {
        Cell::Rnn => 1,
        Cell::Gru { .. } => 2,
        Cell::Lstm => 3,
    };
    let wanted = match direction {
        Direction::Bidirectional => 2 * per_direction,
        _ => per_direction,
    };
    if names.len() != wanted {
        return Err(call.error(format!("{} activations, {wanted} wanted", names.len())));
    }
    let (mut alphas, mut betas) = (alphas.iter().copied(), betas.iter().copied());
    let mut list = Vec::with_capacity(wanted);
    for name in names {
        list.push(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Unary::Sigmoid,
            "tanh" => Unary::Tanh,
            "relu" => Unary::Relu,
            "softsign" => Unary::Softsign,
            "softplus" => Unary::Softplus,
            "elu" => Unary::Elu {
                alpha: alphas.next().unwrap_or(1.0),
            },
            "leakyrelu" => Unary::LeakyRelu {
                alpha: alphas.next().unwrap_or(0.01),
            },
            "thresholdedrelu" => Unary::ThresholdedRelu {
                alpha: alphas.next().unwrap_or(1.0),
            },
            "hardsigmoid" => Unary::HardSigmoid {
                alpha: alphas.next().unwrap_or(0.2),
                beta: betas.next().unwrap_or(0.5),
            },
            other => return Err(call.error(format!("activation `{other}` is not supported"))),
        });
    }
    let defaults = match cell {
        Cell::Rnn => vec![Unary::Tanh],
        Cell::Gru { .. } => vec![Unary::Sigmoid, Unary::Tanh],
        Cell::Lstm => vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
    };
    // Spelled-out defaults and left-out ones are the same network.
    if list.chunks(per_direction).all(|c| c == defaults) {
        list.clear();
    }
    Ok(list)
}
