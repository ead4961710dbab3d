//! Recorded machines with their drivers: the stand-in libraries of `spark-testing`,
//! asked through the same code as the real ones.

use std::fs;
use std::time::Duration;

use spark_hal::cuda::{CudaApi, CudaDriver};
use spark_hal::nvml::{Bounded, LiveNvml, NvmlApi};
use spark_hal::{Failure, Machine, Sources};
use spark_testing::{Age, StandIn};

use crate::recorded::{Tree, machine_file};

/// NVML posed by a script, through `nvml-wrapper` and the time limit.
pub(crate) struct PosedNvml {
    pub(crate) nvml: Result<Bounded, Failure>,
    _files: StandIn,
}

/// Long enough for a busy test machine, short enough for tests that hang on purpose.
pub(crate) const LIMIT: Duration = Duration::from_millis(700);

pub(crate) fn pose(age: Age, script: &str) -> PosedNvml {
    let files = StandIn::new().unwrap().with_nvml(age, script).unwrap();
    let library = files.nvml();
    let open = move || -> Result<Box<dyn NvmlApi>, Failure> {
        Ok(Box::new(LiveNvml::open_library(library.as_os_str())?))
    };
    PosedNvml {
        nvml: Bounded::start(LIMIT, open),
        _files: files,
    }
}

/// Reads a tree with these scripts for drivers.
pub(crate) fn read_with(tree: &Tree, nvml: Option<&str>, cuda: Option<&str>) -> Machine {
    let mut sources = Sources::files(tree.root());
    let posed = nvml.map(|script| pose(Age::Current, script));
    if let Some(posed) = &posed {
        sources.nvml = match &posed.nvml {
            Ok(nvml) => Ok(nvml),
            Err(why) => Err(why.clone()),
        };
    }
    let files = StandIn::new().unwrap();
    let files = match cuda {
        Some(script) => files.with_cuda(Age::Current, script).unwrap(),
        None => files,
    };
    let driver = cuda.map(|_| CudaDriver::open_library(&files.cuda()));
    if let Some(driver) = &driver {
        sources.cuda = match driver {
            Ok(driver) => Ok(driver as &dyn CudaApi),
            Err(why) => Err(why.clone()),
        };
    }
    Machine::read(&sources)
}

/// A recorded machine with the driver scripts beside its tree.
pub(crate) fn machine(name: &str) -> Machine {
    let script = |file: &str| fs::read_to_string(machine_file(name, file)).ok();
    read_with(
        &Tree::of(name),
        script("nvml.txt").as_deref(),
        script("cuda.txt").as_deref(),
    )
}
