//! The equation of an Einstein summation, read.

use super::op_error;
use crate::graph::OpError;

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
