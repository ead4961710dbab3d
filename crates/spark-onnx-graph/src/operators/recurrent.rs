//! Recurrent networks.

use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_rank, check_same_dtype, check_shape, op_error,
};
use crate::graph::{Cell, Direction, Op, Recurrent, TensorType, Unary};
use crate::tensor::{DType, MAX_ELEMENTS};

impl Operator for Recurrent {
    const IMPORTS: &'static [Translator] =
        &[("RNN", recurrent), ("GRU", recurrent), ("LSTM", recurrent)];

    fn name(&self) -> &'static str {
        match self.cell {
            Cell::Rnn => "RNN",
            Cell::Gru { .. } => "GRU",
            Cell::Lstm => "LSTM",
        }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        let (n_gates, n_activations, max_inputs, max_outputs) = match self.cell {
            Cell::Rnn => (1, 1, 6, 2),
            Cell::Gru { .. } => (3, 2, 6, 2),
            Cell::Lstm => (4, 3, 8, 3),
        };
        operands.expect(3, max_inputs, max_outputs)?;
        let directions = match self.direction {
            Direction::Bidirectional => 2,
            Direction::Forward | Direction::Reverse => 1,
        };
        let n_given = self.activations.len();
        if n_given != 0 && n_given != n_activations * directions {
            return Err(op_error!(
                "{n_given} activations, wanted {}",
                n_activations * directions
            ));
        }
        let x = operands.required(0, "x")?;
        let w = operands.required(1, "w")?;
        let r = operands.required(2, "r")?;
        check_float("x", &x)?;
        check_rank("x", &x, 3)?;
        let (steps, batch, width) = match self.batch_first {
            true => (x.shape[1], x.shape[0], x.shape[2]),
            false => (x.shape[0], x.shape[1], x.shape[2]),
        };
        let hidden = self.hidden;
        if !(1..=MAX_ELEMENTS).contains(&hidden) {
            return Err(op_error!(
                "hidden size {hidden}, wanted 1 to {MAX_ELEMENTS}"
            ));
        }
        let rows = hidden * n_gates;
        check_same_dtype("w", &w, x.dtype)?;
        check_same_dtype("r", &r, x.dtype)?;
        check_shape("w", w.shape, &[directions, rows, width])?;
        check_shape("r", r.shape, &[directions, rows, hidden])?;
        let state = match self.batch_first {
            true => [batch, directions, hidden],
            false => [directions, batch, hidden],
        };
        let typed = [
            (3, "b", vec![directions, 2 * rows]),
            (5, "initial_h", state.to_vec()),
            (6, "initial_c", state.to_vec()),
            (7, "p", vec![directions, 3 * hidden]),
        ];
        for (index, what, want) in typed {
            if let Some(operand) = operands.optional(index) {
                check_same_dtype(what, &operand, x.dtype)?;
                check_shape(what, operand.shape, &want)?;
            }
        }
        if let Some(lengths) = operands.optional(4) {
            if lengths.dtype != DType::I32 {
                return Err(op_error!(
                    "`sequence_lens` is {}, wanted i32",
                    lengths.dtype
                ));
            }
            check_shape("sequence_lens", lengths.shape, &[batch])?;
        }
        let sequence = match self.batch_first {
            true => vec![batch, steps, directions, hidden],
            false => vec![steps, directions, batch, hidden],
        };
        let shapes = [sequence, state.to_vec(), state.to_vec()];
        Ok(shapes
            .into_iter()
            .take(operands.n_outputs)
            .map(|shape| TensorType {
                dtype: x.dtype,
                shape,
            })
            .collect())
    }

    fn attributes(&self) -> Exported<'_> {
        recurrent_attributes(self)
    }
}

fn recurrent(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(7)?;
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

fn recurrent_attributes(parameters: &Recurrent) -> Result<Attributes<'static>, String> {
    let attributes = match parameters.cell {
        Cell::Gru {
            linear_before_reset,
        } => Attributes::default().flag("linear_before_reset", linear_before_reset),
        Cell::Rnn | Cell::Lstm => Attributes::default(),
    };
    let (mut names, mut alphas, mut betas) = (Vec::new(), Vec::new(), Vec::new());
    for activation in &parameters.activations {
        match *activation {
            Unary::Sigmoid | Unary::Tanh | Unary::Relu | Unary::Softsign | Unary::Softplus => {}
            Unary::Elu { alpha }
            | Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha } => {
                alphas.push(alpha);
            }
            Unary::HardSigmoid { alpha, beta } => {
                alphas.push(alpha);
                betas.push(beta);
            }
            other => return Err(format!("{other:?} is no activation of a recurrent network")),
        }
        names.push(activation.name());
    }
    Ok(attributes
        .text(
            "direction",
            match parameters.direction {
                Direction::Forward => "forward",
                Direction::Reverse => "reverse",
                Direction::Bidirectional => "bidirectional",
            },
        )
        .int("hidden_size", parameters.hidden as i64)
        .flag("layout", parameters.batch_first)
        .texts("activations", names)
        .floats("activation_alpha", alphas)
        .floats("activation_beta", betas))
}
