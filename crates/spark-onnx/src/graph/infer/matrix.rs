//! Matrix products, Einstein sums and recurrent networks.

use super::{
    Operand, Operands, broadcast_shapes, check_broadcasts_to, check_float, check_rank,
    check_same_dtype, check_shape, one, op_error,
};
use crate::graph::{Cell, Direction, Gemm, OpError, Recurrent, TensorType};
use crate::tensor::{DType, MAX_ELEMENTS};

/// The element types ONNX multiplies matrices of.
fn check_matrix(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if matches!(
        operand.dtype,
        DType::I32 | DType::I64 | DType::U32 | DType::U64
    ) {
        return Ok(());
    }
    check_float(what, operand)
}

pub(super) fn gemm(gemm: &Gemm, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 3, 1)?;
    let a = operands.required(0, "a")?;
    let b = operands.required(1, "b")?;
    check_matrix("a", &a)?;
    check_same_dtype("b", &b, a.dtype)?;
    check_rank("a", &a, 2)?;
    check_rank("b", &b, 2)?;
    if !a.dtype.is_float() && (gemm.alpha.fract() != 0.0 || gemm.beta.fract() != 0.0) {
        return Err(op_error!(
            "alpha {} and beta {} must be whole for {} operands",
            gemm.alpha,
            gemm.beta,
            a.dtype
        ));
    }
    let (m, k) = if gemm.trans_a {
        (a.shape[1], a.shape[0])
    } else {
        (a.shape[0], a.shape[1])
    };
    let (k_b, n) = if gemm.trans_b {
        (b.shape[1], b.shape[0])
    } else {
        (b.shape[0], b.shape[1])
    };
    if k != k_b {
        return Err(op_error!(
            "shapes {:?} and {:?} do not multiply: depth {k} is not {k_b}",
            a.shape,
            b.shape
        ));
    }
    if let Some(c) = operands.optional(2) {
        check_same_dtype("c", &c, a.dtype)?;
        check_broadcasts_to("c", c.shape, &[m, n])?;
    }
    one(a.dtype, [m, n])
}

pub(super) fn matmul(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let a = operands.required(0, "a")?;
    let b = operands.required(1, "b")?;
    check_matrix("a", &a)?;
    check_same_dtype("b", &b, a.dtype)?;
    let (Some((&k_a, rows)), Some((_, _))) = (a.shape.split_last(), b.shape.split_last()) else {
        return Err(op_error!("scalars have no matrix product"));
    };
    let (b_batch, k_b, columns) = match b.shape {
        [k] => (&[][..], *k, None),
        [batch @ .., k, n] => (batch, *k, Some(*n)),
        [] => unreachable!("refused above"),
    };
    if k_a != k_b {
        return Err(op_error!(
            "shapes {:?} and {:?} do not multiply: depth {k_a} is not {k_b}",
            a.shape,
            b.shape
        ));
    }
    let (a_batch, row) = match rows {
        [] => (&[][..], None),
        [batch @ .., m] => (batch, Some(*m)),
    };
    let mut shape = broadcast_shapes(a_batch, b_batch)?;
    shape.extend(row);
    shape.extend(columns);
    one(a.dtype, shape)
}

/// An Einstein summation with its letters numbered.
///
/// ```text
/// bij,bjk->bik    operands [[0,1,2],[0,2,3]], output [0,1,3], extents of the labels 0..4
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EinsumLabels {
    /// Label of every axis of every operand. An axis of extent 1 broadcasts.
    pub operands: Vec<Vec<usize>>,
    /// Label of every axis of the result.
    pub output: Vec<usize>,
    /// Extent of every label.
    pub extents: Vec<usize>,
}

/// A letter, or axis `n` from the end of the part an ellipsis stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(u8),
}

/// Reads `equation` for operands of the given shapes.
///
/// # Errors
///
/// [`OpError`] on characters other than letters, `,`, `->`, `...` and spaces;
/// repeated letters in one operand or the result; a count or rank that does not
/// match; extents that do not agree; a result letter that no operand has.
pub fn parse_einsum(equation: &str, shapes: &[&[usize]]) -> Result<EinsumLabels, OpError> {
    let compact: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match compact.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (compact.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != shapes.len() {
        return Err(op_error!(
            "`{equation}` names {} operands, got {}",
            terms.len(),
            shapes.len()
        ));
    }
    let mut labels: Vec<Label> = Vec::new();
    let mut extents: Vec<usize> = Vec::new();
    let mut operands = Vec::with_capacity(terms.len());
    let mut ellipsis_rank = 0;
    for (term, shape) in terms.iter().zip(shapes) {
        let named = parse_term(equation, term, Some(shape.len()))?;
        let mut axes = Vec::with_capacity(named.len());
        for (label, &extent) in named.iter().zip(*shape) {
            if let Label::Ellipsis(n) = label {
                ellipsis_rank = ellipsis_rank.max(n + 1);
            }
            let id = labels.iter().position(|l| l == label).unwrap_or_else(|| {
                labels.push(*label);
                extents.push(1);
                labels.len() - 1
            });
            if extents[id] == 1 {
                extents[id] = extent;
            } else if extent != 1 && extent != extents[id] {
                return Err(op_error!(
                    "`{equation}`: one label stands for extents {} and {extent}",
                    extents[id]
                ));
            }
            axes.push(id);
        }
        operands.push(axes);
    }
    let wanted = match right {
        Some(right) => {
            let mut wanted = parse_term(equation, right, None)?;
            if let Some(at) = right.find("...") {
                wanted.splice(at..at, (0..ellipsis_rank).rev().map(Label::Ellipsis));
            }
            wanted
        }
        None => implicit_output(&labels, &operands, ellipsis_rank),
    };
    let output = wanted
        .iter()
        .map(|label| {
            labels
                .iter()
                .position(|l| l == label)
                .ok_or_else(|| op_error!("`{equation}`: a result label is in no operand"))
        })
        .collect::<Result<_, _>>()?;
    Ok(EinsumLabels {
        operands,
        output,
        extents,
    })
}

/// The labels of one term. An ellipsis fills up to `rank` axes, or none without one.
fn parse_term(equation: &str, term: &str, rank: Option<usize>) -> Result<Vec<Label>, OpError> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let mut letters = Vec::new();
    for c in before.bytes().chain(after.unwrap_or_default().bytes()) {
        if !c.is_ascii_alphabetic() {
            return Err(op_error!("`{equation}`: unexpected character in `{term}`"));
        }
        if letters.contains(&Label::Letter(c)) {
            return Err(op_error!(
                "`{equation}`: repeated letter in `{term}` (a diagonal)"
            ));
        }
        letters.push(Label::Letter(c));
    }
    let Some(rank) = rank else {
        return Ok(letters);
    };
    match rank.checked_sub(letters.len()) {
        Some(0) => Ok(letters),
        Some(rest) if after.is_some() => {
            let at = before.len();
            letters.splice(at..at, (0..rest).rev().map(Label::Ellipsis));
            Ok(letters)
        }
        _ => Err(op_error!(
            "`{equation}`: `{term}` does not fit an operand of {rank} axes"
        )),
    }
}

/// Without `->`: the ellipsis, then every letter that occurs once, in alphabetic order.
fn implicit_output(labels: &[Label], operands: &[Vec<usize>], ellipsis_rank: usize) -> Vec<Label> {
    let uses = |id: usize| {
        operands
            .iter()
            .flatten()
            .filter(|&&axis| axis == id)
            .count()
    };
    let mut once: Vec<Label> = labels
        .iter()
        .enumerate()
        .filter(|&(id, label)| matches!(label, Label::Letter(_)) && uses(id) == 1)
        .map(|(_, label)| *label)
        .collect();
    once.sort_unstable();
    (0..ellipsis_rank)
        .rev()
        .map(Label::Ellipsis)
        .chain(once)
        .collect()
}

pub(super) fn einsum(equation: &str, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, usize::MAX, 1)?;
    let first = operands.required(0, "x0")?;
    check_matrix("x0", &first)?;
    let mut shapes = Vec::with_capacity(operands.list.len());
    for index in 0..operands.list.len() {
        let x = operands.required(index, "x")?;
        check_same_dtype("x", &x, first.dtype)?;
        shapes.push(x.shape);
    }
    let parsed = parse_einsum(equation, &shapes)?;
    one(
        first.dtype,
        parsed
            .output
            .iter()
            .map(|&id| parsed.extents[id])
            .collect::<Vec<_>>(),
    )
}

pub(super) fn recurrent(
    recurrent: &Recurrent,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    let (n_gates, n_activations, max_inputs, max_outputs) = match recurrent.cell {
        Cell::Rnn => (1, 1, 6, 2),
        Cell::Gru { .. } => (3, 2, 6, 2),
        Cell::Lstm => (4, 3, 8, 3),
    };
    operands.expect(3, max_inputs, max_outputs)?;
    let directions = match recurrent.direction {
        Direction::Bidirectional => 2,
        Direction::Forward | Direction::Reverse => 1,
    };
    let n_given = recurrent.activations.len();
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
    let (steps, batch, width) = match recurrent.batch_first {
        true => (x.shape[1], x.shape[0], x.shape[2]),
        false => (x.shape[0], x.shape[1], x.shape[2]),
    };
    let hidden = recurrent.hidden;
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
    let state = match recurrent.batch_first {
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
    let sequence = match recurrent.batch_first {
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
