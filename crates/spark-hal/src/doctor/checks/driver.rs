//! The kernel driver and the libraries that belong to it.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::gpu::Gpu;
use crate::reading::Reading;
use crate::stack::{LibraryName, Verdict as Enough};

use super::applies::{no_gpu, no_unified, other_than_spark};

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
            id: "driver.open-module",
            title: "the driver's kernel module is the open one, without which a GB10 does not work",
            source: "Start9Labs/start-technologies pull request #3693 (2026-08-14); NVIDIA's README of 580.159.03, \
                 kernel_open: Blackwell is supported by the open modules only",
        },
        run: open_module,
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
            id: "driver.next-kernel",
            title: "every installed kernel newer than the running one has an NVIDIA module",
            source: "hasso5703/dgx-spark-qwen38 issue #26",
        },
        run: next_kernel,
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
    if let Some(verdict) = no_gpu(facts).filter(|_| !facts.is_spark()) {
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
        "there is an NVIDIA GPU and no driver for it is loaded",
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

fn open_module(facts: &Facts) -> Verdict {
    const PATH: &str = "/proc/driver/nvidia/version";
    if !facts.machine.platform.has_gb10 {
        return other_than_spark(facts).unwrap_or_else(|| {
            not_examined(
                "needs to know whether the GPU is a GB10: /sys/bus/pci/devices, or a driver",
            )
        });
    }
    let text = match facts.root.text(PATH) {
        Reading::Value(text) => text,
        Reading::NotSupported => return not_examined(format!("needs {PATH}: a loaded driver")),
        Reading::Failed(why) => return not_examined(format!("needs {PATH}: {why}")),
    };
    let banner = text.lines().find(|line| line.starts_with("NVRM version:"));
    match banner {
        Some(banner) if banner.contains(" Open Kernel Module ") => Verdict::Passed,
        Some(banner) if banner.contains(" Kernel Module ") => {
            let works = facts.machine.gpus.iter().any(Gpu::is_usable);
            found(
                if works {
                    Severity::Warning
                } else {
                    Severity::Error
                },
                if works {
                    "the driver's kernel module is the proprietary one: it works here and now, but not from \
                     580.173.02 on"
                } else {
                    "the driver's kernel module is the proprietary one, which does not start a GB10"
                },
                vec![seen(PATH, banner)],
                "sudo apt install nvidia-driver-580-open && sudo reboot",
            )
        }
        _ => not_examined(format!(
            "needs a line in {PATH} that says which module it is"
        )),
    }
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

fn next_kernel(facts: &Facts) -> Verdict {
    const MODULES: &str = "/lib/modules";
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    if facts.machine.platform.is_container {
        return not_applicable("in a container, which has no kernels");
    }
    let Reading::Value(running) = &facts.machine.kernel else {
        return not_examined("needs /proc/sys/kernel/osrelease, to know which kernels are newer");
    };
    let kernels = facts.root.entries(MODULES).value().unwrap_or_default();
    let list_of = |kernel: &String| facts.root.text(&format!("{MODULES}/{kernel}/modules.dep"));
    let is_next = |kernel: &String| release_numbers(kernel) > release_numbers(running);
    let unread = kernels
        .iter()
        .find(|kernel| is_next(kernel) && matches!(list_of(kernel), Reading::Failed(_)));
    let has_module = |kernel: &String| {
        let list = list_of(kernel).value()?;
        let names = list
            .lines()
            .filter_map(|line| line.split(':').next()?.rsplit('/').next());
        Some(names.into_iter().any(|name| name.starts_with("nvidia.ko")))
    };
    let known: Vec<(&String, bool)> = kernels
        .iter()
        .filter_map(|kernel| Some((kernel, has_module(kernel)?)))
        .collect();
    let n_with = known.iter().filter(|(_, has)| *has).count();
    if n_with == 0 {
        return not_examined(format!(
            "needs {MODULES}/*/modules.dep that name the driver's module"
        ));
    }
    let without: Vec<&(&String, bool)> = known
        .iter()
        .filter(|(kernel, has)| !has && is_next(kernel))
        .collect();
    if without.is_empty() {
        return match unread {
            Some(kernel) => not_examined(format!("needs {MODULES}/{kernel}/modules.dep")),
            None => Verdict::Passed,
        };
    }
    let evidence = without
        .iter()
        .map(|(kernel, _)| seen(format!("{MODULES}/{kernel}/modules.dep"), "no nvidia.ko"));
    found(
        Severity::Warning,
        "a newer kernel, which the next boot takes, has no NVIDIA module: there is no GPU then",
        evidence.collect(),
        format!(
            "sudo apt install linux-modules-nvidia-580-open-{}",
            without[0].0
        ),
    )
}

/// The numbers that a kernel's release begins with, which boot menus sort by.
fn release_numbers(release: &str) -> Vec<u64> {
    let parts = release.split(['.', '-', '_', '+']);
    parts.map_while(|part| part.parse().ok()).collect()
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
