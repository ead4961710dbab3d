//! Watching GPUs while something runs.
//!
//! ```text
//! Monitor::start --thread--> every interval: one Sample per GPU --> bounded buffer
//!                                                             \--> your callback
//! monitor.stop() --> Recording --> summary(), to_csv(), to_json_lines()
//! ```
//!
//! The buffer keeps the newest samples and counts those it had to drop. Stopping never
//! waits for the driver. On unified memory the GPU's memory is the machine's, so every
//! sample carries that too, and NVML's figures, where there are any, are left out.
//!
//! [`Looker`] looks at all of the machine: GPUs, which a driver that hangs does not let hold anything up, processors,
//! memory, networks, disks, temperatures and processes.
//!
//! ```text
//! Looker::look ──> Look ──> to_csv, to_json: rows with the wall clock's time
//!   HostSampler, ProcessSampler     on the caller's thread
//!   Sampler                         on its own, asked and awaited with patience
//! ```

mod alarm;
mod clock;
mod export;
mod exposition;
mod gpu_worker;
mod host;
mod looker;
#[cfg(test)]
mod posed;
mod processes;
mod recording;
mod rows;
mod sample;
mod sampler;
mod summary;
mod watch;

pub use alarm::{Alarm, Crossing, Limit};
pub use clock::utc;
pub use exposition::PROMETHEUS_TYPE;
pub use gpu_worker::{GpuAnswer, KnownGpus, OpenGpus};
pub use host::{HostSample, HostSampler, Rate, RateKind, Temperature};
pub use looker::{Look, Looker, PROCESS_INTERVAL};
pub use processes::{Process, ProcessSampler};
pub use recording::Recording;
pub use rows::SCHEMA;
pub use sample::Sample;
pub use sampler::{SHORTEST_INTERVAL, Sampler};
pub use summary::{MetricSummary, Summary};
pub use watch::{Monitor, MonitorOptions};
