//! One look at everything the screen shows.

use std::collections::BTreeMap;

use sparkpilot::hal::monitor::{HostSample, HostSampler, Sample, Sampler};
use sparkpilot::hal::nvml::GpuProcess;
use sparkpilot::hal::{Machine, Reading, Root, machine};

/// What was seen.
pub(super) struct Look {
    pub(super) host: HostSample,
    /// A sample of each GPU, or why there is none.
    pub(super) gpus: Result<Vec<Sample>, String>,
    /// Names of GPUs, by NVML's numbers.
    pub(super) gpu_names: BTreeMap<u32, String>,
    /// Names of the processes in `gpus`, by their numbers.
    pub(super) process_names: BTreeMap<u32, String>,
    /// The machine in a few words.
    pub(super) machine: String,
}

/// Looks, at this machine.
pub(super) struct Looker {
    root: Root,
    host: HostSampler,
    gpus: Result<Sampler, String>,
    gpu_names: BTreeMap<u32, String>,
    machine: String,
}

impl Looker {
    pub(super) fn open() -> Self {
        let machine = machine();
        Self {
            root: Root::host(),
            host: HostSampler::open(Root::host()),
            gpus: Sampler::open(&[]).map_err(|why| why.to_string()),
            gpu_names: gpu_names(machine),
            machine: machine.summary(),
        }
    }

    pub(super) fn look(&mut self) -> Look {
        let gpus = match &mut self.gpus {
            Ok(sampler) => Ok(sampler.look()),
            Err(why) => Err(why.clone()),
        };
        let samples = gpus.iter().flatten();
        let processes =
            samples.flat_map(|sample| sample.processes.as_value().into_iter().flatten());
        let process_names =
            processes.filter_map(|process| Some((process.pid, self.name_of(process)?)));
        Look {
            process_names: process_names.collect(),
            host: self.host.look(),
            gpus,
            gpu_names: self.gpu_names.clone(),
            machine: self.machine.clone(),
        }
    }

    /// The kernel's name of a process, if it is this machine's and still there.
    fn name_of(&self, process: &GpuProcess) -> Option<String> {
        match self.root.line(&format!("/proc/{}/comm", process.pid)) {
            Reading::Value(name) => Some(spark_program::printable(&name)),
            Reading::NotSupported | Reading::Failed(_) => None,
        }
    }
}

fn gpu_names(machine: &Machine) -> BTreeMap<u32, String> {
    let names = machine.gpus.iter();
    let names = names.filter_map(|gpu| {
        let name = spark_program::printable(gpu.name.as_value()?);
        Some((gpu.nvml_index?, name))
    });
    names.collect()
}
