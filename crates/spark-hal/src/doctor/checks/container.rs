//! Containers: inside of one, and ready to start one.

use serde_json::Value;

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::reading::Reading;

use super::applies::no_gpu;

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
            title: "containers can be given the GPU",
            source: PLAYBOOKS,
        },
        run: toolkit,
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

/// Where distributions and Docker's own packages put the program.
const DOCKERS: [&str; 3] = [
    "/usr/bin/docker",
    "/usr/local/bin/docker",
    "/snap/bin/docker",
];

/// The docker program; or why a check of docker does not run here.
fn docker(facts: &Facts) -> Result<&'static str, Verdict> {
    if facts.machine.platform.is_container {
        return Err(not_applicable("in a container"));
    }
    if let Some(verdict) = no_gpu(facts) {
        return Err(verdict);
    }
    let found = DOCKERS.into_iter().find(|path| facts.root.exists(path));
    found.ok_or_else(|| not_applicable("no docker"))
}

/// How docker is told of NVIDIA's runtime.
const DAEMON: &str = "/etc/docker/daemon.json";
/// Folders of CDI specifications that docker reads.
const CDI: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

const REGISTER: &str = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl \
                        restart docker";

fn toolkit(facts: &Facts) -> Verdict {
    const TOOL: &str = "/usr/bin/nvidia-ctk";
    let docker = match docker(facts) {
        Ok(docker) => docker,
        Err(verdict) => return verdict,
    };
    if !facts.root.exists(TOOL) {
        return found(
            Severity::Warning,
            "docker is installed without NVIDIA's container toolkit: containers get no GPU",
            vec![seen(docker, "present"), seen(TOOL, "absent")],
            format!("sudo apt install nvidia-container-toolkit && {REGISTER}"),
        );
    }
    if docker.starts_with("/snap") {
        return not_examined("needs the settings of docker's snap, which lie elsewhere");
    }
    let text = match facts.root.text(DAEMON) {
        Reading::Value(text) => text,
        Reading::NotSupported => "{}".to_owned(),
        Reading::Failed(why) => {
            return not_examined(format!("needs {DAEMON}, or `docker info`: {why}"));
        }
    };
    let Ok(settings) = serde_json::from_str::<Value>(&text) else {
        return not_examined(format!("needs valid JSON in {DAEMON}"));
    };
    let is_absolute = |path: &&str| path.starts_with('/');
    let runtime = &settings["runtimes"]["nvidia"];
    if runtime.is_object() {
        let program = runtime["path"].as_str().filter(is_absolute);
        return match program.filter(|program| !facts.root.exists(program)) {
            Some(program) => found(
                Severity::Warning,
                "docker is told of an NVIDIA runtime that is not there: containers get no GPU",
                vec![seen(DAEMON, "runtimes.nvidia"), seen(program, "absent")],
                format!("sudo apt install --reinstall nvidia-container-toolkit && {REGISTER}"),
            ),
            None => Verdict::Passed,
        };
    }
    let has_nvidia = |folder: &&&str| {
        let names = facts.root.entries(folder).value().unwrap_or_default();
        names.iter().any(|name| name.contains("nvidia"))
    };
    let specification = CDI.iter().find(has_nvidia);
    match (specification, settings["features"]["cdi"].as_bool()) {
        (Some(_), Some(true)) => Verdict::Passed,
        (Some(folder), None) => not_examined(format!(
            "needs `docker info`: there is a specification in {folder}, and whether docker reads it \
             depends on its version (28.3 does unless told otherwise)"
        )),
        _ => found(
            Severity::Warning,
            "docker is not told of NVIDIA's runtime: containers that ask for it do not start",
            vec![
                seen(TOOL, "present"),
                seen(DAEMON, "no runtimes.nvidia"),
                seen(CDI.join(", "), presence_of(specification)),
            ],
            REGISTER,
        ),
    }
}

fn presence_of(specification: Option<&&str>) -> &'static str {
    match specification {
        Some(_) => "a specification, and features.cdi is false",
        None => "no specification of NVIDIA's",
    }
}

fn docker_group(facts: &Facts) -> Verdict {
    const GROUPS: &str = "/etc/group";
    const STATUS: &str = "/proc/self/status";
    if let Err(verdict) = docker(facts) {
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
