//! Which programs start containers here.

use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Verdict, not_applicable};

use super::super::applies::no_gpu;

/// A program that starts containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Docker,
    Podman,
    Containerd,
    CriO,
}

/// Where distributions and the engines' own packages put the programs. Docker and Kubernetes bring a containerd of their own, so
/// that it counts only where neither Docker nor Podman is.
const PROGRAMS: [(Engine, &str); 8] = [
    (Engine::Docker, "/usr/bin/docker"),
    (Engine::Docker, "/usr/local/bin/docker"),
    (Engine::Docker, "/snap/bin/docker"),
    (Engine::Podman, "/usr/bin/podman"),
    (Engine::Podman, "/usr/local/bin/podman"),
    (Engine::CriO, "/usr/bin/crio"),
    (Engine::Containerd, "/usr/bin/containerd"),
    (Engine::Containerd, "/usr/local/bin/containerd"),
];

/// The first engine of these that is installed; or why a check of engines does not run here.
pub(super) fn engine(facts: &Facts, wanted: &[Engine]) -> Result<(Engine, &'static str), Verdict> {
    if facts.machine.platform.is_container {
        return Err(not_applicable("in a container"));
    }
    if let Some(verdict) = no_gpu(facts) {
        return Err(verdict);
    }
    let mut installed = PROGRAMS
        .into_iter()
        .filter(|(engine, path)| wanted.contains(engine) && facts.root.exists(path));
    installed.next().ok_or_else(|| {
        not_applicable(match wanted {
            [Engine::Docker] => "no docker",
            _ => "no docker, podman, containerd or CRI-O",
        })
    })
}
