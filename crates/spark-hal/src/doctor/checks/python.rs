//! Python packages built for the wrong GPU.

use std::time::{Duration, Instant};

use crate::capability::ComputeCapability;
use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::python::{package_directories, ptxas_release, torch};
use crate::stack::DeviceCode;

use super::applies::other_than_spark;

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "python.torch-build",
            title: "PyTorch is built for CUDA on GB10",
            source: "unslothai/unsloth: CUDA 12.9 is the first with sm_121; wheels for it are cu130",
        },
        run: torch_build,
    },
    Examination {
        check: Check {
            id: "python.torch-warning",
            title: "PyTorch's warning about compute capability 12.1",
            source: "pytorch/pytorch issue #172629",
        },
        run: torch_warning,
    },
    Examination {
        check: Check {
            id: "python.triton-ptxas",
            title: "Triton's assembler knows sm_121a",
            source: "triton-lang/triton issues #8539, #10331",
        },
        run: triton_ptxas,
    },
    Examination {
        check: Check {
            id: "python.kernels",
            title: "packages carry code that a GB10 can run",
            source: "Dao-AILab/causal-conv1d issue #119, vllm-project/vllm issues #38484, #38423",
        },
        run: kernels,
    },
    Examination {
        check: Check {
            id: "python.ray",
            title: "Ray does not kill workers for unified memory",
            source: "vllm-project/vllm issues on DGX Spark",
        },
        run: ray,
    },
];

const FIX_TORCH: &str = "pip install torch --index-url https://download.pytorch.org/whl/cu130   \
                         # or NVIDIA's NGC container";

/// Packages of the active environment, the user and the system.
fn directories(facts: &Facts) -> Vec<String> {
    let home = facts.variable("HOME").map(|home| format!("{home}/.local"));
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(|name| facts.variable(name));
    let prefixes: Vec<&str> = active
        .into_iter()
        .flatten()
        .chain(home.as_deref())
        .collect();
    package_directories(&facts.root, &prefixes)
}

fn torch_build(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let installed = directories(facts);
    let Some(torch) = installed
        .iter()
        .find_map(|directory| torch(&facts.root, directory))
    else {
        let unread = installed
            .iter()
            .map(|directory| format!("{directory}/torch"))
            .find(|path| facts.root.exists(path));
        return match unread {
            Some(path) => not_examined(format!("needs {path}/version.py with a version")),
            None => not_applicable("no PyTorch found"),
        };
    };
    let built_for = match &torch.cuda {
        Some(cuda) if cuda.is_at_least(&[12, 9]) => return Verdict::Passed,
        Some(cuda) => format!("PyTorch is built for CUDA {cuda}, which has no code for GB10"),
        None => "PyTorch is built without CUDA: it runs on the CPU only".to_owned(),
    };
    found(
        Severity::Error,
        built_for,
        vec![seen(torch.file, torch.version)],
        FIX_TORCH,
    )
}

fn torch_warning(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let installed = directories(facts);
    let torch = installed
        .iter()
        .find_map(|directory| torch(&facts.root, directory));
    match torch {
        Some(torch) if torch.version.contains("+cu130") => found(
            Severity::Note,
            "PyTorch warns that 12.1 is newer than its 12.0: code for 12.0 runs here",
            vec![seen(torch.file, torch.version)],
            "nothing to mend; ignore that warning",
        ),
        _ => not_applicable("no PyTorch for CUDA 13.0 found"),
    }
}

fn triton_ptxas(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let installed = directories(facts).into_iter().find_map(|directory| {
        let triton = format!("{directory}/triton");
        facts.root.exists(&triton).then_some(triton)
    });
    let Some(triton) = installed else {
        return not_applicable("no Triton found");
    };
    let of_triton = |name: &str| format!("{triton}/backends/nvidia/bin/{name}");
    // From 3.6 on it has a second assembler, for compute capability 10.0 and up, with a variable of its own.
    let (variable, own) = match of_triton("ptxas-blackwell") {
        newer if facts.root.exists(&newer) => ("TRITON_PTXAS_BLACKWELL_PATH", newer),
        _ => ("TRITON_PTXAS_PATH", of_triton("ptxas")),
    };
    // It takes the assembler that the variable names before its own.
    let path = facts.variable(variable).map_or(own, str::to_owned);
    let Some(release) = ptxas_release(&facts.root, &path) else {
        return not_examined(format!("needs {path} and the release in it"));
    };
    if release.is_at_least(&[12, 9]) {
        return Verdict::Passed;
    }
    found(
        Severity::Error,
        "Triton's assembler does not know sm_121a: kernels fail with `ptxas fatal`",
        vec![seen(path, format!("release {release}"))],
        format!("export {variable}=/usr/local/cuda/bin/ptxas"),
    )
}

/// Files opened and time spent before the check gives up.
const FILES_LIMIT: usize = 4000;
const KERNELS_LIMIT: Duration = Duration::from_millis(1500);

fn kernels(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let begin = Instant::now();
    let mut n_with_code = 0;
    let mut useless = Vec::new();
    let files = extension_files(facts);
    let mut n_seen = 0;
    for path in files.iter().take(FILES_LIMIT) {
        if begin.elapsed() > KERNELS_LIMIT {
            break;
        }
        n_seen += 1;
        let Some(code) = DeviceCode::of_file(&facts.root.path(path)) else {
            continue;
        };
        n_with_code += 1;
        if !code.runs_on(ComputeCapability::GB10) {
            useless.push(seen(path.as_str(), code));
        }
    }
    if useless.is_empty() && (n_seen < files.len() || files.len() >= FILES_LIMIT) {
        return not_examined(format!(
            "needs more time or files: {n_seen} of at least {} libraries were looked at",
            files.len()
        ));
    }
    if n_with_code == 0 {
        return not_applicable("no Python package with CUDA code found");
    }
    if useless.is_empty() {
        return Verdict::Passed;
    }
    useless.truncate(5);
    found(
        Severity::Error,
        "a Python package has CUDA code, and none of it runs on a GB10 (`no kernel image`)",
        useless,
        "rebuild it with TORCH_CUDA_ARCH_LIST=12.1a, or take a build for cu130 that has 12.0",
    )
}

/// Shared libraries at the top of the package directories and one and two levels down.
fn extension_files(facts: &Facts) -> Vec<String> {
    let mut files = Vec::new();
    for directory in directories(facts) {
        collect(facts, &directory, 0, &mut files);
    }
    files
}

fn collect(facts: &Facts, directory: &str, depth: usize, files: &mut Vec<String>) {
    const DEEPEST: usize = 2;
    for name in facts.root.entries(directory).value().unwrap_or_default() {
        let path = format!("{directory}/{name}");
        if name.ends_with(".so") {
            files.push(path);
        } else if depth < DEEPEST && !name.contains('.') && files.len() < FILES_LIMIT {
            collect(facts, &path, depth + 1, files);
        }
    }
}

fn ray(facts: &Facts) -> Verdict {
    const VARIABLE: &str = "RAY_memory_monitor_refresh_ms";
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let installed = directories(facts)
        .into_iter()
        .map(|directory| format!("{directory}/ray"));
    let Some(ray) = installed.into_iter().find(|path| facts.root.exists(path)) else {
        return not_applicable("no Ray found");
    };
    if facts.variable(VARIABLE) == Some("0") {
        return Verdict::Passed;
    }
    let value = facts.variable(VARIABLE).unwrap_or("not set");
    found(
        Severity::Note,
        "Ray counts GPU allocations as host memory and kills workers",
        vec![seen(ray, "installed"), seen(VARIABLE, value)],
        format!("export {VARIABLE}=0"),
    )
}
