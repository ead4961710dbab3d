//! Every layer of a run: its format, what computes it, and why.
//!
//! ```text
//! layers of driving_vision in fp4:
//!   stem.0   conv   fp32   f32                                            fewer input channels ...
//!   s1.fc1   linear fp4    f32 arithmetic on NVFP4 operands, ...   3.1 KB  as asked for
//! ```
//!
//! Steps without a product are counted in one line.

use super::report::{BenchReport, LayerReport, RunReport};
use crate::runner::StepInfo;

/// What a report keeps of `steps`.
pub(super) fn of(steps: &[StepInfo]) -> Vec<LayerReport> {
    let layer = |step: &StepInfo| LayerReport {
        name: step.name.clone(),
        kind: step.kind,
        detail: step.detail.clone(),
        precision: step.precision.name(),
        kernel: step.kernel,
        reason: step.reason,
        weight_bytes: step.weight_bytes,
        macs: step.macs,
        bytes: step.bytes,
        mean_us: step.mean.map(|mean| 1e6 * mean.as_secs_f64()),
    };
    steps.iter().map(layer).collect()
}

/// Lines that explain every run that has layers.
pub(super) fn explained(report: &BenchReport) -> Vec<String> {
    report.runs.iter().flat_map(explain).collect()
}

fn explain(run: &RunReport) -> Vec<String> {
    if run.layers.is_empty() {
        return Vec::new();
    }
    let has_product = |layer: &&LayerReport| layer.reason != crate::precision::NO_PRODUCT;
    let layers: Vec<&LayerReport> = run.layers.iter().filter(has_product).collect();
    let row = |layer: &LayerReport| {
        [
            layer.name.clone(),
            layer.kind.to_owned(),
            layer.detail.clone(),
            layer.precision.to_owned(),
            layer.kernel.to_owned(),
            format!("{:.1} KB", layer.weight_bytes as f64 / 1e3),
            layer.reason.to_owned(),
        ]
    };
    let rows: Vec<[String; 7]> = layers.into_iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut lines = vec![format!("layers of {} in {}:", run.model, run.precision)];
    lines.extend(rows.iter().map(|row| {
        let cells =
            row.iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    5 => format!("{cell:>width$}"),
                    _ => format!("{cell:<width$}"),
                });
        format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
    }));
    let rest = run.layers.len() - rows.len();
    lines.push(format!("  and {rest} steps without a product, in fp32"));
    lines
}
