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
//! [`HostSampler`] watches the machine around them: processors, memory, networks, disks, temperatures.

mod export;
mod host;
mod recording;
mod sample;
mod sampler;
mod summary;
mod watch;

pub use host::{HostSample, HostSampler, Rate, Temperature};
pub use recording::Recording;
pub use sample::Sample;
pub use sampler::{SHORTEST_INTERVAL, Sampler};
pub use summary::{MetricSummary, Summary};
pub use watch::{Monitor, MonitorOptions};
