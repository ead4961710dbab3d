//! Runs as a timeline in Chrome's trace format.
//!
//! ```text
//! {"displayTimeUnit": "ms", "traceEvents": [
//!   {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "driving_vision bf16"}},
//!   {"ph": "X", "name": "stem.0", "cat": "conv", "pid": 1, "tid": 1, "ts": 12.5, "dur": 80.1, "args": {...}},
//! ...]}
//! ```
//!
//! One process per model and precision; `ts` and `dur` are microseconds, `ts` from the first
//! step of the first run of that model on. chrome://tracing and Perfetto read it.
//!
//! Source: "Trace Event Format", the document of the Catapult project.

use std::path::Path;

use serde_json::{Value, json};
use spark_onnx::{Span, StepInfo};

use crate::error::BenchError;
use crate::output::write_file;

/// A timeline under construction.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: Vec<Value>,
    processes: usize,
}

impl Trace {
    /// Adds the spans of one model in one precision.
    pub(crate) fn add(&mut self, process: &str, steps: &[StepInfo], spans: &[Span]) {
        self.processes += 1;
        let pid = self.processes;
        self.events.push(json!({
            "ph": "M", "name": "process_name", "pid": pid, "tid": 1, "args": {"name": process},
        }));
        for span in spans {
            let step = &steps[span.step];
            self.events.push(json!({
                "ph": "X",
                "name": step.name,
                "cat": step.kind,
                "pid": pid,
                "tid": 1,
                "ts": 1e6 * span.start.as_secs_f64(),
                "dur": 1e6 * span.duration.as_secs_f64(),
                "args": {
                    "detail": step.detail,
                    "precision": step.precision.name(),
                    "kernel": step.kernel,
                    "macs": step.macs,
                    "bytes": step.bytes,
                },
            }));
        }
    }

    /// Writes the timeline to `path`, in one step.
    ///
    /// # Errors
    ///
    /// [`BenchError::Unwritten`] if the file cannot be written.
    pub(crate) fn write(self, path: &Path) -> Result<(), BenchError> {
        let document = json!({"displayTimeUnit": "ms", "traceEvents": self.events});
        write_file(path, document.to_string().as_bytes())
    }
}
