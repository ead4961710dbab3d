//! Whether this process runs in a container, of which kind, and by what sign.
//!
//! ```text
//! Kubernetes   a service account's files, `kubepods` in the own control group, PID 1 started with KUBERNETES_SERVICE_HOST
//! LXC          the word `lxc` in /run/systemd/container or PID 1's `container=`, `lxc.payload` in the own control group,
//!              lxcfs mounted over files of /proc
//! Docker       /.dockerenv, `docker/ID` in the own control group
//! Podman       /run/.containerenv, `libpod-ID` in the own control group
//! ```
//!
//! Only what is said of this process or of PID 1 counts. A host that runs containers has their control groups, sockets
//! and programs too, and a user there may set any variable: none of these is asked. WSL calls itself a container; it is a
//! virtual machine and counts as none.
//!
//! Sources: systemd, "The Container Interface" (`container=`, `/run/systemd/container`); Kubernetes, "Accessing the API
//! from within a Pod"; LXC, `lxc.cgroup.dir.container`; lxcfs, README. Linux only.

use std::fmt;

use crate::reading::{Reading, quote};
use crate::root::Root;

/// Files whose presence is a sign.
const MARKERS: [(&str, ContainerKind); 3] = [
    (
        "/var/run/secrets/kubernetes.io/serviceaccount/namespace",
        ContainerKind::Kubernetes,
    ),
    ("/.dockerenv", ContainerKind::Docker),
    ("/run/.containerenv", ContainerKind::Podman),
];
const SYSTEMD: &str = "/run/systemd/container";
const FIRST_PROCESS: &str = "/proc/1/environ";
/// The variables of PID 1 that are looked at; no other is kept.
const VARIABLES: [&str; 2] = ["container=", "KUBERNETES_SERVICE_HOST="];
const MEMBERSHIP: &str = "/proc/self/cgroup";
pub(crate) const MOUNTS: &str = "/proc/self/mounts";
/// Most lines of a table that are looked at.
const LINES_LIMIT: usize = 4096;

/// What runs a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ContainerKind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// A pod of Kubernetes, whatever runs its containers.
    Kubernetes,
    /// A system container of LXC, LXD or Incus.
    Lxc,
    /// Another one, which says so.
    Other,
}

/// A container, by its strongest sign.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Container {
    /// What runs it.
    pub kind: ContainerKind,
    /// The file that says so.
    pub source: &'static str,
    /// What it says, without names and numbers of the container.
    pub said: String,
}

impl fmt::Display for ContainerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Kubernetes => "Kubernetes",
            Self::Lxc => "LXC",
            Self::Other => "another kind",
        })
    }
}

/// The container of this process, if it is in one.
pub(super) fn detect(root: &Root) -> Option<Container> {
    let first = root.listed(FIRST_PROCESS, &VARIABLES).value();
    let first = first.unwrap_or_default();
    let signs = [
        marker(root, ContainerKind::Kubernetes),
        first
            .iter()
            .any(|variable| variable.starts_with(VARIABLES[1]))
            .then(|| Container {
                kind: ContainerKind::Kubernetes,
                source: FIRST_PROCESS,
                said: "KUBERNETES_SERVICE_HOST is set".to_owned(),
            }),
        of_membership(root).filter(|sign| sign.kind == ContainerKind::Kubernetes),
        root.line(SYSTEMD)
            .value()
            .and_then(|word| named(&word, SYSTEMD)),
        first
            .iter()
            .find_map(|variable| named(variable.strip_prefix(VARIABLES[0])?, FIRST_PROCESS)),
        marker(root, ContainerKind::Docker),
        marker(root, ContainerKind::Podman),
        of_membership(root),
        of_mounts(root),
    ];
    signs.into_iter().flatten().next()
}

/// The lines by which a record tells of a container, with the paths that they stand under; nothing of these files else is for others.
pub(crate) fn told(root: &Root) -> Vec<(&'static str, Vec<String>)> {
    let mut told = Vec::new();
    for (path, _) in MARKERS {
        // Their content names the container.
        if root.exists(path) {
            told.push((path, Vec::new()));
        }
    }
    if let Some(word) = root.line(SYSTEMD).value().and_then(|word| word_of(&word)) {
        told.push((SYSTEMD, vec![word]));
    }
    let first = root.listed(FIRST_PROCESS, &VARIABLES).value();
    let first: Vec<String> = first
        .unwrap_or_default()
        .iter()
        .filter_map(|variable| match variable.strip_prefix(VARIABLES[0]) {
            Some(word) => Some(format!("{}{}", VARIABLES[0], word_of(word)?)),
            None => Some(format!("{}there", VARIABLES[1])),
        })
        .collect();
    if !first.is_empty() {
        told.push((FIRST_PROCESS, first));
    }
    let mounts = root.text(MOUNTS).value().unwrap_or_default();
    let mounts = mounts.lines().take(LINES_LIMIT);
    let mounts = mounts.filter(|line| is_lxcfs(line) || is_shared_memory(line));
    let mounts: Vec<String> = mounts.map(str::to_owned).collect();
    if !mounts.is_empty() {
        told.push((MOUNTS, mounts));
    }
    told
}

fn marker(root: &Root, kind: ContainerKind) -> Option<Container> {
    let (path, _) = MARKERS.into_iter().find(|(_, of)| *of == kind)?;
    root.exists(path).then(|| Container {
        kind,
        source: path,
        said: "present".to_owned(),
    })
}

/// A container by the word of its manager.
fn named(word: &str, source: &'static str) -> Option<Container> {
    let word = word_of(word)?;
    let kind = match word.as_str() {
        "docker" => ContainerKind::Docker,
        "podman" => ContainerKind::Podman,
        "lxc" | "lxc-libvirt" => ContainerKind::Lxc,
        _ => ContainerKind::Other,
    };
    Some(Container {
        kind,
        source,
        said: word,
    })
}

/// Such a word: short, of letters, digits and hyphens, and no virtual machine.
fn word_of(text: &str) -> Option<String> {
    let word = text.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_word = !word.is_empty() && word.len() <= 32 && word.chars().all(is_plain);
    (is_word && word != "wsl").then(|| quote(word))
}

/// A container by the path of the own control group; what surrounds the own process is not in it.
fn of_membership(root: &Root) -> Option<Container> {
    let text = root.text(MEMBERSHIP).value()?;
    let paths = text.lines().take(LINES_LIMIT);
    let paths = paths.filter_map(|line| line.splitn(3, ':').nth(2));
    let found = paths.filter_map(|path| {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        parts.iter().enumerate().find_map(|(idx, part)| {
            let next = parts.get(idx + 1).copied();
            group(part, next, idx == 0)
        })
    });
    // A pod's containers have groups of their engine below the pod's.
    let (kind, said) = found.min_by_key(|(kind, _)| *kind != ContainerKind::Kubernetes)?;
    Some(Container {
        kind,
        source: MEMBERSHIP,
        said: said.to_owned(),
    })
}

fn group(part: &str, next: Option<&str>, is_first: bool) -> Option<(ContainerKind, &'static str)> {
    if part.starts_with("kubepods") {
        return Some((ContainerKind::Kubernetes, "kubepods"));
    }
    if part.starts_with("lxc.payload") || (is_first && part == "lxc" && next.is_some()) {
        return Some((ContainerKind::Lxc, "lxc"));
    }
    if part == "docker" && next.is_some_and(is_identifier) {
        return Some((ContainerKind::Docker, "docker"));
    }
    let scopes = [
        ("docker-", ContainerKind::Docker, "docker"),
        ("libpod-", ContainerKind::Podman, "libpod"),
        (
            "cri-containerd-",
            ContainerKind::Kubernetes,
            "cri-containerd",
        ),
        ("crio-", ContainerKind::Kubernetes, "crio"),
    ];
    scopes.into_iter().find_map(|(begin, kind, said)| {
        let rest = part.strip_prefix(begin)?;
        is_identifier(rest.strip_suffix(".scope").unwrap_or(rest)).then_some((kind, said))
    })
}

/// The 64 hexadecimal digits of a container.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn of_mounts(root: &Root) -> Option<Container> {
    let Reading::Value(text) = root.text(MOUNTS) else {
        return None;
    };
    text.lines()
        .take(LINES_LIMIT)
        .any(is_lxcfs)
        .then(|| Container {
            kind: ContainerKind::Lxc,
            source: MOUNTS,
            said: "lxcfs over files of /proc".to_owned(),
        })
}

/// `lxcfs /proc/meminfo fuse.lxcfs rw 0 0`; a host has it at /var/lib/lxcfs.
fn is_lxcfs(line: &str) -> bool {
    let mut fields = line.split(' ').skip(1);
    let is_of_proc = fields.next().is_some_and(|at| at.starts_with("/proc/"));
    is_of_proc && fields.next() == Some("fuse.lxcfs")
}

/// Where shared memory is mounted, as a line of the table.
pub(crate) fn is_shared_memory(line: &str) -> bool {
    line.split(' ').nth(1) == Some("/dev/shm")
}
