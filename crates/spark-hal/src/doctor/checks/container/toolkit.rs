//! Whether containers can be given the GPU: what the engine is told, not which tools are installed.
//!
//! ```text
//! docker       NVIDIA's runtime is registered, and its program is there         or features.cdi with a specification
//! podman       a specification, or the hook oci-nvidia-hook.json of older toolkits
//! containerd   runtimes.nvidia in /etc/containerd/config.toml or conf.d/*.toml  or a specification
//! CRI-O        runtimes.nvidia in /etc/crio/crio.conf or crio.conf.d/*.conf     or a specification
//! ```
//!
//! The settings of containerd and CRI-O are TOML, of which only the headers of tables are read: whether there is one that
//! ends in `runtimes.nvidia`.
//!
//! Sources: NVIDIA Container Toolkit, "Installing" and "Support for Container Device Interface" (read 2026-11); Docker,
//! "dockerd" (features).

use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_examined, seen};
use crate::reading::Reading;

use super::docker::{Docker, FOLDERS, Runtime, dockers};
use super::engine::{Engine, engine};
use super::specification::{CDI, CDI_KIND, Specification};

const TOOL: &str = "/usr/bin/nvidia-ctk";
/// Hooks by which Podman gave the GPU before there were specifications.
const HOOKS: [&str; 2] = [
    "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
    "/etc/containers/oci/hooks.d/oci-nvidia-hook.json",
];
/// Most settings of one folder that are read.
const FILES_LIMIT: usize = 64;

const SPECIFY: &str = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml";

pub(super) fn toolkit(facts: &Facts) -> Verdict {
    let all = [
        Engine::Docker,
        Engine::Podman,
        Engine::CriO,
        Engine::Containerd,
    ];
    let (engine, program) = match engine(facts, &all) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let specification = Specification::read(facts);
    match engine {
        Engine::Docker => docker(facts, program, specification),
        Engine::Podman => {
            let hook = HOOKS.into_iter().find(|path| facts.root.exists(path));
            match (specification, hook) {
                (Specification::Absent, Some(_)) => Verdict::Passed,
                (specification, _) => by_specification(facts, "podman", program, specification),
            }
        }
        Engine::Containerd => by_settings(facts, program, &CONTAINERD, specification),
        Engine::CriO => by_settings(facts, program, &CRI_O, specification),
    }
}

fn docker(facts: &Facts, program: &'static str, specification: Specification) -> Verdict {
    if !facts.root.exists(TOOL) {
        return found(
            Severity::Warning,
            "docker is installed without NVIDIA's container toolkit: containers get no GPU",
            vec![seen(program, "present"), seen(TOOL, "absent")],
            "sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker && \
             sudo systemctl restart docker",
        );
    }
    if program.starts_with("/snap") {
        return not_examined("needs the settings of docker's snap, which lie elsewhere");
    }
    // One docker that gives the GPU is enough, but settings that are broken are not made good by another's.
    let mut verdict = Verdict::Passed;
    for docker in dockers(facts) {
        let one = judged(facts, &docker, &specification);
        let is_error = matches!(&one, Verdict::Found(found) if found.severity == Severity::Error);
        if is_error || one == Verdict::Passed {
            return one;
        }
        verdict = one;
    }
    verdict
}

fn judged(facts: &Facts, docker: &Docker, specification: &Specification) -> Verdict {
    let told = match &docker.told {
        Ok(told) => told,
        Err(verdict) => return verdict.clone(),
    };
    if let Some(runtime) = &told.runtime {
        return registered(facts, runtime, docker.register);
    }
    let reads_specifications = told.reads_specifications;
    let said = match (specification, reads_specifications) {
        (Specification::Good(_), Some(true)) => return Verdict::Passed,
        (Specification::Good(path), None) => {
            return not_examined(format!(
                "needs `docker info`: there is a specification, {path}, and whether docker reads it depends \
                 on its version (28.3 does unless told otherwise)"
            ));
        }
        (Specification::Unread(why), Some(true) | None) => {
            return not_examined(format!("needs {why}"));
        }
        (Specification::Stale { path, made_for }, Some(true)) => {
            return stale(facts, path, made_for);
        }
        (Specification::Absent, _) => "no specification of NVIDIA's".to_owned(),
        (Specification::Foreign(path), _) => format!("{path} is not of the kind {CDI_KIND}"),
        (_, Some(false)) => "a specification, and features.cdi is false".to_owned(),
        (Specification::Stale { made_for, .. }, None) => {
            format!("a specification for driver {made_for}")
        }
    };
    found(
        Severity::Warning,
        "docker is not told of NVIDIA's runtime: containers that ask for it do not start",
        vec![
            seen(TOOL, "present"),
            seen(docker.settings.as_str(), "no runtimes.nvidia"),
            seen(CDI.join(", "), said),
        ],
        docker.register,
    )
}

/// A runtime that docker is told of is there, or is not.
fn registered(facts: &Facts, runtime: &Runtime, register: &str) -> Verdict {
    let Some(program) = &runtime.program else {
        return not_examined(format!("needs a path in {}", runtime.registered));
    };
    let is_there = match program.contains('/') {
        true => facts.root.exists(program),
        false => FOLDERS
            .iter()
            .any(|folder| facts.root.exists(&format!("{folder}/{program}"))),
    };
    if is_there {
        return Verdict::Passed;
    }
    let absent = match program.contains('/') {
        true => "absent".to_owned(),
        false => format!("in none of {}", FOLDERS.join(", ")),
    };
    found(
        Severity::Warning,
        "docker is told of an NVIDIA runtime that is not there: containers get no GPU",
        vec![
            seen(runtime.registered.as_str(), program),
            seen(program.as_str(), absent),
        ],
        format!("sudo apt install --reinstall nvidia-container-toolkit && {register}"),
    )
}

fn stale(facts: &Facts, path: &str, made_for: &str) -> Verdict {
    found(
        Severity::Warning,
        "the specification by which containers get the GPU is of another driver: containers that ask for it do not start",
        vec![
            seen(path, format!("libcuda.so.{made_for}")),
            seen("driver", &facts.machine.stack.driver),
        ],
        SPECIFY,
    )
}

/// Where an engine's settings lie.
struct Settings {
    name: &'static str,
    file: &'static str,
    folder: &'static str,
    ending: &'static str,
    register: &'static str,
}

const CONTAINERD: Settings = Settings {
    name: "containerd",
    file: "/etc/containerd/config.toml",
    folder: "/etc/containerd/conf.d",
    ending: ".toml",
    register: "sudo nvidia-ctk runtime configure --runtime=containerd && sudo systemctl restart containerd",
};
const CRI_O: Settings = Settings {
    name: "CRI-O",
    file: "/etc/crio/crio.conf",
    folder: "/etc/crio/crio.conf.d",
    ending: ".conf",
    register: "sudo nvidia-ctk runtime configure --runtime=crio && sudo systemctl restart crio",
};

fn by_settings(
    facts: &Facts,
    program: &str,
    settings: &Settings,
    specification: Specification,
) -> Verdict {
    let names = facts
        .root
        .entries_where(settings.folder, |name| name.ends_with(settings.ending));
    let names = names.value().unwrap_or_default();
    let folder = names.iter().take(FILES_LIMIT);
    let files = folder.map(|name| format!("{}/{name}", settings.folder));
    let mut unread = None;
    for path in std::iter::once(settings.file.to_owned()).chain(files) {
        match facts.root.text(&path) {
            Reading::Value(text) if names_runtime(&text) => return Verdict::Passed,
            Reading::Failed(why) => unread = Some(why),
            _ => {}
        }
    }
    if let Some(why) = unread {
        return not_examined(format!("needs the settings of {}: {why}", settings.name));
    }
    match specification {
        Specification::Absent => found(
            Severity::Note,
            format!(
                "{} is not told of NVIDIA's runtime, and there is no specification: containers get no GPU",
                settings.name
            ),
            vec![
                seen(program, "present"),
                seen(settings.file, "no table runtimes.nvidia"),
                seen(CDI.join(", "), "no specification of NVIDIA's"),
            ],
            settings.register,
        ),
        other => by_specification(facts, settings.name, program, other),
    }
}

/// Whether a table's header ends in `runtimes.nvidia`, quoted or not.
fn names_runtime(text: &str) -> bool {
    text.lines().any(|line| {
        let header = line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        header.is_some_and(|(name, _)| {
            let plain: String = name
                .chars()
                .filter(|c| !matches!(c, '"' | '\'' | ' '))
                .collect();
            plain == "runtimes.nvidia" || plain.ends_with(".runtimes.nvidia")
        })
    })
}

fn by_specification(
    facts: &Facts,
    name: &str,
    program: &str,
    specification: Specification,
) -> Verdict {
    let said = match specification {
        Specification::Good(_) => return Verdict::Passed,
        Specification::Unread(why) => return not_examined(format!("needs {why}")),
        Specification::Stale { path, made_for } => return stale(facts, &path, &made_for),
        Specification::Absent => "no specification of NVIDIA's".to_owned(),
        Specification::Foreign(path) => format!("{path} is not of the kind {CDI_KIND}"),
    };
    let install = match facts.root.exists(TOOL) {
        true => "",
        false => "sudo apt install nvidia-container-toolkit && ",
    };
    found(
        Severity::Note,
        format!("{name} finds no specification of the GPU: containers get none"),
        vec![seen(program, "present"), seen(CDI.join(", "), said)],
        format!("{install}{SPECIFY}"),
    )
}
