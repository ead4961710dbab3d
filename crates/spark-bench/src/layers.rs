//! Every layer of a run: its format, what computes it, and why.
//!
//! ```text
//! layers of driving_vision in fp4:
//!   stem.0   conv   fp32   avx512-f32-direct      1.8 KB  fewer input channels ...
//!   s1.fc1   linear fp4    avx512-fp4-panels      3.1 KB  as asked for
//! ```
//!
//! Steps without a convolution or matmul are counted in one line, operators that are interpreted in another.

use spark_drawing::Align::{Left, Right};
use spark_drawing::Table;
use spark_onnx::StepInfo;
use spark_onnx::precision::{INTERPRETED, NO_PRODUCT};

use crate::report::{BenchReport, LayerReport, RunReport};

/// What a report keeps of `steps`.
pub(crate) fn of(steps: &[StepInfo]) -> Vec<LayerReport> {
    let layer = |step: &StepInfo| LayerReport {
        name: step.name.clone(),
        kind: step.kind,
        detail: step.detail.clone(),
        precision: step.precision.name(),
        kernel: step.kernel.clone(),
        reason: step.reason,
        weight_bytes: step.weight_bytes,
        macs: step.macs,
        bytes: step.bytes,
        mean_us: step.mean.map(|mean| 1e6 * mean.as_secs_f64()),
    };
    steps.iter().map(layer).collect()
}

/// Lines that explain every run that has layers.
pub(crate) fn explained(report: &BenchReport) -> Vec<String> {
    report.runs.iter().flat_map(explain).collect()
}

fn explain(run: &RunReport) -> Vec<String> {
    if run.layers.is_empty() {
        return Vec::new();
    }
    let interpreted: Vec<&LayerReport> = run.layers.iter().filter(is_interpreted).collect();
    let has_product =
        |layer: &&LayerReport| layer.reason != NO_PRODUCT && layer.reason != INTERPRETED;
    let layers: Vec<&LayerReport> = run.layers.iter().filter(has_product).collect();
    let columns = [Left, Left, Left, Left, Left, Right, Left];
    let mut table = Table::new(columns.map(|align| ("", align)));
    for layer in &layers {
        table.row([
            layer.name.clone(),
            layer.kind.to_owned(),
            layer.detail.clone(),
            layer.precision.to_owned(),
            layer.kernel.clone(),
            format!("{:.1} KB", layer.weight_bytes as f64 / 1e3),
            layer.reason.to_owned(),
        ]);
    }
    let mut lines = vec![format!("layers of {} in {}:", run.model, run.precision)];
    // The line of headings is empty.
    lines.extend(table.lines().iter().skip(1).map(|line| format!("  {line}")));
    let rest = run.layers.len() - layers.len() - interpreted.len();
    lines.push(format!("  and {rest} steps without a product, in fp32"));
    if let [first, ..] = &interpreted[..] {
        let n = interpreted.len();
        let name = &first.name;
        lines.push(format!(
            "  and {n} operators that are interpreted, `{name}` the first: {INTERPRETED}"
        ));
    }
    lines
}

/// Whether no plan has the operator.
pub(crate) fn is_interpreted(layer: &&LayerReport) -> bool {
    layer.reason == INTERPRETED
}
