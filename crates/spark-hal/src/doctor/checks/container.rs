//! Containers: inside of one, and ready to start one.

use super::{Check, Facts, Severity, Verdict, found, not_applicable, seen};

const PLAYBOOKS: &str = "NVIDIA/dgx-spark-playbooks, troubleshooting of the container playbooks";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "container.gpu",
        title: "this container was given the GPU",
        source: PLAYBOOKS,
        run: gpu,
    },
    Check {
        id: "container.toolkit",
        title: "containers can be given the GPU",
        source: PLAYBOOKS,
        run: toolkit,
    },
    Check {
        id: "container.docker-group",
        title: "this user may start containers",
        source: PLAYBOOKS,
        run: docker_group,
    },
];

fn gpu(facts: &Facts) -> Verdict {
    let machine = &facts.machine;
    if !machine.platform.is_container || machine.gpus.is_empty() {
        return not_applicable("not in a container on a machine with an NVIDIA GPU");
    }
    if machine
        .gpus
        .iter()
        .any(|gpu| gpu.nvml_index.is_some() || gpu.is_usable())
    {
        return Verdict::Passed;
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

fn has_docker(facts: &Facts) -> bool {
    !facts.machine.platform.is_container
        && !facts.machine.gpus.is_empty()
        && facts.root.exists("/usr/bin/docker")
}

const NO_DOCKER: &str = "no docker, or no NVIDIA GPU, or in a container";

fn toolkit(facts: &Facts) -> Verdict {
    const TOOL: &str = "/usr/bin/nvidia-ctk";
    if !has_docker(facts) {
        return not_applicable(NO_DOCKER);
    }
    if facts.root.exists(TOOL) {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        "docker is installed without NVIDIA's container toolkit: containers get no GPU",
        vec![seen("/usr/bin/docker", "present"), seen(TOOL, "absent")],
        "sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure \
         --runtime=docker && sudo systemctl restart docker",
    )
}

fn docker_group(facts: &Facts) -> Verdict {
    const GROUPS: &str = "/etc/group";
    const STATUS: &str = "/proc/self/status";
    if !has_docker(facts) {
        return not_applicable(NO_DOCKER);
    }
    let (Some(groups), Some(status)) = (
        facts.root.text(GROUPS).value(),
        facts.root.text(STATUS).value(),
    ) else {
        return not_applicable("groups are not readable");
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
