//! What the checks look at, gathered once.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::config::FOREIGN;
use crate::cuda::{self, CudaApi};
use crate::gpu::CudaAttribute;
use crate::in_time;
use crate::limits::BUSY_PERCENT;
use crate::machine::{FILES_ONLY, Machine, Sources};
use crate::nvml::{self, GpuSample, NvmlApi};
use crate::reading::Reading;
use crate::root::Root;

use super::history::History;
use super::load::Load;

/// The machine, its files, and a few looks at its GPUs.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The directory that the checks read files below.
    pub root: Root,
    /// The machine as detection sees it.
    pub machine: Machine,
    /// Looks at every GPU, by NVML's number; several while one is busy.
    pub looks: Vec<BTreeMap<u32, GpuSample>>,
    /// Variables of other software ([`FOREIGN`]) that are set.
    pub environment: BTreeMap<String, String>,
    /// What was measured under load, if it was.
    pub load: Option<Load>,
    history: OnceLock<Arc<History>>,
}

/// Time between two looks at a busy GPU.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);
/// Looks at a busy GPU; a low clock must be seen in all of them.
const N_LOOKS: usize = 4;
/// How long reading logs may take; less than a check may, so that every check can say so.
const LOGS_LIMIT: Duration = Duration::from_millis(1500);

impl Facts {
    /// Of the running machine.
    #[must_use]
    pub fn gather() -> Self {
        let nvml = nvml::open();
        let nvml = nvml.as_ref().map(|nvml| nvml as &dyn NvmlApi);
        let sources = Sources {
            root: Root::host(),
            nvml: nvml.map_err(Clone::clone),
            cuda: cuda::driver().map(|cuda| cuda as &dyn CudaApi),
        };
        let mut facts = Self::of(Root::host(), Machine::read(&sources));
        let variables = FOREIGN.iter().filter_map(|(name, _)| {
            let value = std::env::var_os(name)?;
            Some(((*name).to_owned(), value.to_string_lossy().into_owned()))
        });
        facts.environment = variables.collect();
        if let Ok(nvml) = nvml {
            facts.look(nvml);
        }
        facts
    }

    /// Of a machine that was read before; without looks, environment and load.
    #[must_use]
    pub fn of(root: Root, machine: Machine) -> Self {
        Self {
            root,
            machine,
            looks: Vec::new(),
            environment: BTreeMap::new(),
            history: OnceLock::new(),
            load: None,
        }
    }

    /// Looks at the GPUs: once, and more often while one of them is busy.
    pub fn look(&mut self, nvml: &dyn NvmlApi) {
        for n_before in 0..N_LOOKS {
            if n_before > 0 {
                if !self.is_any_busy() {
                    return;
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
            let numbers = self.machine.gpus.iter().filter_map(|gpu| gpu.nvml_index);
            let look = numbers.filter_map(|number| Some((number, nvml.sample(number).ok()?)));
            let look = look.collect();
            self.looks.push(look);
        }
    }

    /// What the kernel's logs tell, read once, when a check first asks; logs that hang cost one time limit.
    pub(super) fn history(&self) -> Arc<History> {
        let read = || {
            let root = self.root.clone();
            let read = in_time::run("doctor history", LOGS_LIMIT, move || History::read(&root));
            Arc::new(read.unwrap_or_else(|why| {
                History::unread(format!("needs logs that can be read: {why}"))
            }))
        };
        Arc::clone(self.history.get_or_init(read))
    }

    fn is_any_busy(&self) -> bool {
        let last = self.looks.last().into_iter().flat_map(BTreeMap::values);
        last.filter_map(|sample| sample.utilization_percent.as_value())
            .any(|percent| *percent > BUSY_PERCENT)
    }

    /// All looks at one GPU.
    pub(super) fn looks_at(&self, number: u32) -> Vec<&GpuSample> {
        self.looks
            .iter()
            .filter_map(|look| look.get(&number))
            .collect()
    }

    /// Whether the traps of DGX Spark concern this machine.
    pub(super) fn is_spark(&self) -> bool {
        self.machine.is_dgx_spark()
    }

    /// Whether anything could be read that tells one machine from another.
    pub(super) fn has_signs(&self) -> bool {
        let dmi = ["product_family", "product_name", "sys_vendor", "board_name"];
        dmi.iter().any(|name| {
            self.root
                .line(&format!("/sys/class/dmi/id/{name}"))
                .is_value()
        }) || self.root.entries("/sys/bus/pci/devices").is_value()
            || self.root.exists("/proc/device-tree/model")
            || self.root.exists("/sys/firmware/devicetree/base/model")
            || !self.machine.platform.evidence.is_empty()
            || !self.machine.gpus.is_empty()
    }

    /// Whether variables of other software are known: those of this process, and of no recorded machine.
    pub(super) fn knows_environment(&self) -> bool {
        self.root.is_host() || !self.environment.is_empty()
    }

    /// Whether the CUDA driver was asked, and NVML: of a record nobody is.
    pub(super) fn asked_drivers(&self) -> [bool; 2] {
        let machine = &self.machine;
        [&machine.cuda_failure, &machine.nvml_failure].map(|failure| {
            let why = failure.as_deref().unwrap_or_default();
            !why.contains(FILES_ONLY)
        })
    }

    /// A variable that is set to something.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A CUDA attribute of the first GPU that has one.
    pub(super) fn attribute(&self, attribute: CudaAttribute) -> Reading<i32> {
        let usable = self.machine.gpus.iter().find(|gpu| gpu.is_usable());
        usable.map_or(Reading::NotSupported, |gpu| gpu.attribute(attribute))
    }
}
