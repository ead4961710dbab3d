//! The kernel driver and the libraries that belong to it.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::reading::Reading;
use crate::stack::{LibraryName, Verdict as Enough};

use super::applies::{gpu_is_gone, no_gpu, no_unified, other_than_spark};

/// Where the version of the loaded driver comes from.
const LOADED: &str = "/proc/driver/nvidia/version, else NVML";

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "driver.loaded",
            title: "the NVIDIA driver is loaded",
            source: "https://docs.nvidia.com/dgx/dgx-spark/os-and-component-update.html",
        },
        run: loaded,
    },
    Examination {
        check: Check {
            id: "driver.branch",
            title: "the driver is of the branch DGX OS ships",
            source: "an NVIDIA engineer in ggml-org/llama.cpp PR #25384: stable only with the \
                 software bundled in DGX OS",
        },
        run: branch,
    },
    Examination {
        check: Check {
            id: "driver.installed",
            title: "the loaded driver is the installed one",
            source: "hasso5703/dgx-spark-qwen38 issue #26",
        },
        run: installed,
    },
    Examination {
        check: Check {
            id: "stack.versions",
            title: "CUDA libraries are new enough for compute capability 12.1",
            source: "NVIDIA blog on family-specific architecture features: sm_121 begins with CUDA 12.9",
        },
        run: versions,
    },
    Examination {
        check: Check {
            id: "stack.cuda12-programs",
            title: "programs built for CUDA 12 find its libraries",
            source: "sgl-project/sglang-omni issue #620",
        },
        run: cuda12,
    },
    Examination {
        check: Check {
            id: "profiler.unified-memory",
            title: "profilers can show unified memory traffic",
            source: "parallelArchitect/gb10-uma-diagnostics",
        },
        run: profiler,
    },
];

fn loaded(facts: &Facts) -> Verdict {
    let machine = &facts.machine;
    // A DGX Spark has a GPU, unless nothing is known of its buses.
    let is_known = |verdict: &Verdict| !matches!(verdict, Verdict::NotExamined(_));
    if let Some(verdict) = no_gpu(facts).filter(|it| !(facts.is_spark() && is_known(it))) {
        return verdict;
    }
    if machine.platform.is_container {
        return not_applicable("in a container; see container.gpu");
    }
    let is_answering = machine.gpus.iter().any(|gpu| gpu.nvml_index.is_some());
    if machine.stack.driver.is_value() || is_answering {
        return Verdict::Passed;
    }
    let mut evidence = vec![seen(LOADED, &machine.stack.driver)];
    evidence.extend(machine.gpus.iter().filter_map(|gpu| {
        let pci = gpu.pci_device.as_ref()?;
        Some(seen(pci.path(), pci.id()))
    }));
    found(
        Severity::Error,
        if gpu_is_gone(facts) {
            "no NVIDIA driver is loaded, and the GPU of this DGX Spark is gone from the PCI bus; see gpu.usable"
        } else {
            "there is an NVIDIA GPU and no driver for it is loaded"
        },
        evidence,
        "sudo modprobe nvidia; if that fails, reinstall the driver of your system (DGX OS: \
         sudo apt install --reinstall nvidia-driver-580-open)",
    )
}

fn branch(facts: &Facts) -> Verdict {
    const BRANCH: u32 = 580;
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let Reading::Value(version) = &facts.machine.stack.driver else {
        return not_examined("needs a loaded driver that tells its version; see driver.loaded");
    };
    if version.major() == BRANCH {
        return Verdict::Passed;
    }
    let older = version.major() < BRANCH;
    found(
        if older {
            Severity::Error
        } else {
            Severity::Warning
        },
        if older {
            "this driver is older than the first branch for GB10 in DGX OS (580)"
        } else {
            "this driver is of another branch than DGX OS ships (580): NVIDIA calls only the \
             bundled software stable"
        },
        vec![seen(LOADED, version)],
        if older {
            "sudo apt update && sudo apt full-upgrade && sudo reboot   # on DGX OS"
        } else {
            // An upgrade never goes back, and packages of branches have names of their own.
            "sudo apt install nvidia-driver-580-open && sudo reboot   # if the newer one is of NVIDIA's own \
             repository, before it: sudo apt install nvidia-driver-pinning-580"
        },
    )
}

fn installed(facts: &Facts) -> Verdict {
    let stack = &facts.machine.stack;
    let Reading::Value(loaded) = &stack.driver else {
        return no_gpu(facts).unwrap_or_else(|| {
            not_examined("needs a loaded driver that tells its version; see driver.loaded")
        });
    };
    // `libcuda.so.580.95.05` is named after its driver; `libcuda.so.1` tells nothing.
    let of_driver = |name: &LibraryName| matches!(name, LibraryName::Cuda | LibraryName::Nvml);
    let named: Vec<_> = stack
        .libraries
        .iter()
        .filter(|library| of_driver(&library.name) && library.version.to_string().contains('.'))
        .filter(|library| library.version.major() >= 100)
        .collect();
    if named.is_empty() {
        return not_examined(
            "needs a driver library with a version in its name, such as libcuda.so.580.95.05",
        );
    }
    let Some(other) = named.iter().find(|library| library.version != *loaded) else {
        return Verdict::Passed;
    };
    found(
        Severity::Error,
        format!(
            "driver {loaded} is loaded and {} is installed: CUDA and NVML refuse to work",
            other.version
        ),
        vec![seen(LOADED, loaded), seen(&*other.path, &other.version)],
        "sudo reboot",
    )
}

fn versions(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let stack = &facts.machine.stack;
    let old = LibraryName::ALL
        .into_iter()
        .filter_map(|name| stack.newest(name));
    let old: Vec<_> = old
        .filter(|library| library.for_gb10 == Enough::TooOld)
        .collect();
    let toolkit = stack
        .toolkit
        .as_value()
        .filter(|version| !version.is_at_least(&[12, 9]));
    if old.is_empty() && toolkit.is_none() {
        let known = LibraryName::ALL
            .into_iter()
            .filter_map(|name| stack.newest(name));
        let is_known = known
            .into_iter()
            .any(|library| library.for_gb10 == Enough::Enough);
        return if is_known || stack.toolkit.is_value() {
            Verdict::Passed
        } else {
            not_examined("needs a CUDA library or /usr/local/cuda/version.json; none was found")
        };
    }
    let mut evidence: Vec<_> = old
        .iter()
        .map(|library| seen(&*library.path, &library.version))
        .collect();
    evidence.extend(toolkit.map(|version| seen("/usr/local/cuda/version.json", version)));
    found(
        Severity::Warning,
        "software here is older than the first version for GB10",
        evidence,
        "install CUDA 13.0, as DGX OS ships it; Ubuntu's nvidia-cuda-toolkit is too old",
    )
}

fn cuda12(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let runtimes: Vec<_> = facts
        .machine
        .stack
        .libraries
        .iter()
        .filter(|library| library.name == LibraryName::CudaRuntime)
        .collect();
    let has = |major: u32| {
        runtimes
            .iter()
            .any(|library| library.version.major() == major)
    };
    if runtimes.is_empty() {
        return not_applicable("no libcudart was found");
    }
    if has(12) || !has(13) {
        return Verdict::Passed;
    }
    found(
        Severity::Note,
        "only CUDA 13 is installed: programs that miss libcudart.so.12 are built for CUDA 12",
        runtimes
            .iter()
            .map(|library| seen(&*library.path, &library.version))
            .collect(),
        "take the CUDA 13 build (cu130) of such a program; do not link .so.12 to .so.13",
    )
}

fn profiler(facts: &Facts) -> Verdict {
    const PLACES: [&str; 2] = ["/opt/nvidia/nsight-systems", "/usr/local/cuda/bin/nsys"];
    if let Some(verdict) = no_unified(facts) {
        return verdict;
    }
    let Some(place) = PLACES.iter().find(|place| facts.root.exists(place)) else {
        return not_applicable("Nsight Systems is not installed");
    };
    found(
        Severity::Note,
        "Nsight Systems shows no unified memory transfers here: on an integrated GPU there are none",
        vec![seen(*place, "installed")],
        "nothing to mend; measure with CUDA events instead",
    )
}
