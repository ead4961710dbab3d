//! Finds libraries by file name: `libcublasLt.so.13.1.0.3`.

use crate::root::Root;
use crate::version::Version;

use super::name::LibraryName;
use super::requirement::{self, Verdict};

/// One file of a library that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Library {
    /// Which of the known libraries it is.
    pub name: LibraryName,
    /// Where it was found, below the machine's root.
    pub path: String,
    /// From the file name. A short one (`.so.13`) tells the interface only.
    pub version: Version,
    /// Whether it serves compute capability 12.1.
    pub for_gb10: Verdict,
}

/// Directories of the dynamic linker on Debian-like, Fedora-like and WSL systems, and
/// of the CUDA toolkit for servers (`sbsa-linux`), Jetson and x86.
const DIRECTORIES: [&str; 11] = [
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/targets/sbsa-linux/lib",
    "/usr/local/cuda/targets/aarch64-linux/lib",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/local/lib",
    "/run/opengl-driver/lib",
];

pub(super) fn find(root: &Root) -> Vec<Library> {
    let mut found: Vec<Library> = Vec::new();
    for directory in DIRECTORIES {
        // These directories hold thousands of files; only a few are of interest.
        let names = root.entries_where(directory, |file| identify(file).is_some());
        let names = names.value().unwrap_or_default();
        for file in &names {
            let Some((name, version)) = identify(file) else {
                continue;
            };
            let path = format!("{directory}/{file}");
            // `libnccl.so.2` that links to `libnccl.so.2.28.9` beside it says less.
            let target = root.link_name(&path).value();
            let is_shorter = target.is_some_and(|target| names.contains(&target));
            if is_shorter || !root.exists(&path) {
                continue;
            }
            found.push(Library {
                name,
                path,
                for_gb10: requirement::judge(name, &version),
                version,
            });
        }
    }
    found.sort_by(|a, b| (a.name, &b.version, &a.path).cmp(&(b.name, &a.version, &b.path)));
    found
}

/// `libnccl.so.2.28.9` is NCCL 2.28.9, and `libLLVM-17.so.1` is LLVM 17; `libnccl.so` and `libnccl_static.a` are nothing.
fn identify(file: &str) -> Option<(LibraryName, Version)> {
    let named = |stem: &str| {
        LibraryName::ALL
            .into_iter()
            .find(|name| name.stem() == stem)
    };
    let (before, after) = file.split_once(".so")?;
    // Up to LLVM 17 its version stands before: the number of the interface stayed 1, and Fedora writes none.
    if let Some(version) = before.strip_prefix("libLLVM-") {
        let is_library = matches!(after, "" | ".1");
        return is_library.then(|| Some((LibraryName::Llvm, version.parse().ok()?)))?;
    }
    Some((named(before)?, after.strip_prefix('.')?.parse().ok()?))
}
