//! One line about a step, for profiles: shapes, geometry, what was fused into it.
//!
//! ```text
//! 1x64x32x64 -> 1x128x16x32, 3x3/2, +bias +residual, swish
//! ```
//!
//! Deliberately absent: names and times, which the runner has.

use std::fmt::Write as _;

use super::attention_step::Mask;
use super::steps::{Activation, ConvStep, Epilogue, Step};
use super::view::View;

impl Step {
    /// Shapes, geometry and what was fused, in one line for people.
    pub(crate) fn describe(&self) -> String {
        let reads: Vec<String> = self.views_read().into_iter().map(shape).collect();
        let writes: Vec<String> = self.views_written().into_iter().map(shape).collect();
        match self {
            Step::Conv(s) => format!(
                "{} -> {}, {}{}",
                shape(&s.x),
                shape(&s.y),
                window(s),
                fused(&s.epilogue)
            ),
            Step::Linear(s) => format!("{} -> {}{}", shape(&s.x), shape(&s.y), fused(&s.epilogue)),
            Step::Pointwise(s) => format!(
                "{} -> {}, {} operations",
                reads.join(", "),
                shape(&s.y),
                s.program.instructions.len()
            ),
            Step::Attention(s) => format!(
                "{} -> {}, scores *{}{}",
                reads.join(", "),
                shape(&s.y),
                s.scale,
                match s.mask {
                    Mask::None => "",
                    Mask::Added(_) => " +mask",
                    Mask::Seen { .. } => " where seen",
                }
            ),
            _ => format!("{} -> {}", reads.join(", "), writes.join(", ")),
        }
    }
}

fn shape(view: &View) -> String {
    let extents: Vec<String> = view.axes.iter().map(|a| a.extent.to_string()).collect();
    match extents.is_empty() {
        true => "scalar".to_owned(),
        false => extents.join("x"),
    }
}

/// Kernel, then stride, dilation and groups where they are not 1.
fn window(step: &ConvStep) -> String {
    let w = &step.window;
    let mut text = format!("{}x{}", w.kernel[0], w.kernel[1]);
    let pairs = [("/", w.stride), (" dilated ", w.dilation)];
    for (sign, [a, b]) in pairs.into_iter().filter(|(_, pair)| *pair != [1, 1]) {
        // Writing to a string cannot fail.
        let _ = match a == b {
            true => write!(text, "{sign}{a}"),
            false => write!(text, "{sign}{a}x{b}"),
        };
    }
    if step.weights.groups > 1 {
        let _ = write!(text, " in {} groups", step.weights.groups);
    }
    text
}

fn fused(epilogue: &Epilogue) -> String {
    let bias = if epilogue.bias.is_some() {
        " +bias"
    } else {
        ""
    };
    let residual = if epilogue.residual.is_some() {
        " +residual"
    } else {
        ""
    };
    let activation = match epilogue.activation {
        Activation::None => String::new(),
        Activation::Clamp { low, high } => format!(" clamp({low}, {high})"),
        Activation::Function(function) => format!(" {function:?}"),
    };
    let parts = match epilogue.residual_first {
        true => [bias, residual, &activation],
        false => [bias, &activation, residual],
    };
    let text = parts.concat();
    if text.is_empty() {
        text
    } else {
        format!(",{text}")
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::bind;
    use crate::tests::networks::attentive;

    #[test]
    fn every_step_says_what_it_reads_and_writes() {
        let bound = bind(&attentive(), &[]).expect("fixed shapes");
        let plan = super::super::lower(&bound).expect("lowers");
        let lines: Vec<String> = plan.steps.iter().map(|s| s.step.describe()).collect();
        assert!(lines.iter().all(|line| line.contains(" -> ")), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains("+bias")),
            "{lines:#?}"
        );
        let scores = |line: &String| line.contains("scores *0.25");
        assert!(lines.iter().any(scores), "{lines:#?}");
    }
}
