//! Containers: inside of one, and ready to start one.

mod docker;
mod engine;
mod limits;
mod specification;
mod toolkit;

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};

use super::applies::no_gpu;
use engine::{Engine, engine};

const PLAYBOOKS: &str = "NVIDIA/dgx-spark-playbooks, troubleshooting of the container playbooks";

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "container.gpu",
            title: "this container was given the GPU",
            source: PLAYBOOKS,
        },
        run: gpu,
    },
    Examination {
        check: Check {
            id: "container.toolkit",
            title: "containers can be given the GPU: an NVIDIA runtime is registered, or a CDI specification is there",
            source: "NVIDIA/xr-ai issue #525 (2026): nvidia-ctk alone registers nothing; NVIDIA Container Toolkit, Support for \
                 Container Device Interface (read 2026-11-30)",
        },
        run: toolkit::toolkit,
    },
    Examination {
        check: Check {
            id: "container.shm",
            title: "this container has more than 64 MB of shared memory",
            source: "tonyd2wild DeepSeek-v4-Flash-Vision-Exp issue #31 (2026-08); vllm-project/vllm issue #1710 (2023-11-18): \
                 ncclShmOpen fails",
        },
        run: limits::shared_memory,
    },
    Examination {
        check: Check {
            id: "container.memory-high",
            title: "no control group holds memory below the machine's",
            source: "Linux admin-guide/cgroup-v2.rst, memory.high and memory.max; Kubernetes KEP-2570 (updated 2026-02-04): with \
                 memory.high a process gets stuck; lab-stack.com, DGX Spark memory hard wall",
        },
        run: limits::memory,
    },
    Examination {
        check: Check {
            id: "container.docker-group",
            title: "this user may start containers",
            source: PLAYBOOKS,
        },
        run: docker_group,
    },
];

fn gpu(facts: &Facts) -> Verdict {
    let machine = &facts.machine;
    if !machine.platform.is_container {
        return not_applicable("not in a container");
    }
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    if machine
        .gpus
        .iter()
        .any(|gpu| gpu.nvml_index.is_some() || gpu.is_usable())
    {
        return Verdict::Passed;
    }
    if facts.asked_drivers() == [false, false] {
        return not_examined("needs CUDA or NVML, which were not asked: files alone do not say");
    }
    let mut evidence = vec![seen("/dev/nvidiactl", presence(facts, "/dev/nvidiactl"))];
    evidence.extend(machine.nvml_failure.as_ref().map(|why| seen("NVML", why)));
    found(
        Severity::Error,
        "the machine has an NVIDIA GPU and this container was not given it",
        evidence,
        "start the container with `--gpus all` (docker) or `--device nvidia.com/gpu=all` (podman)",
    )
}

fn presence(facts: &Facts, path: &str) -> &'static str {
    if facts.root.exists(path) {
        "present"
    } else {
        "absent"
    }
}

fn docker_group(facts: &Facts) -> Verdict {
    const GROUPS: &str = "/etc/group";
    const STATUS: &str = "/proc/self/status";
    if let Err(verdict) = engine(facts, &[Engine::Docker]) {
        return verdict;
    }
    let (Some(groups), Some(status)) = (
        facts.root.text(GROUPS).value(),
        facts.root.text(STATUS).value(),
    ) else {
        return not_examined(format!("needs {GROUPS} and {STATUS}"));
    };
    let of_docker = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == "docker").then(|| fields.nth(1).map(str::to_owned))?
    });
    let Some(of_docker) = of_docker else {
        return not_applicable("there is no docker group");
    };
    let line = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or("")
    };
    let is_root = line("Uid:").split_whitespace().nth(1) == Some("0");
    let mine = line("Groups:");
    if is_root || mine.split_whitespace().any(|group| group == of_docker) {
        return Verdict::Passed;
    }
    found(
        Severity::Note,
        "this user is not in the docker group: docker needs sudo",
        vec![
            seen(format!("{GROUPS} docker"), of_docker),
            seen(format!("{STATUS} Groups"), mine),
        ],
        "sudo usermod -aG docker \"$USER\"   # then log in again",
    )
}
