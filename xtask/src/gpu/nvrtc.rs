//! Where NVIDIA's run-time compiler is on a GPU machine.
//!
//! ```text
//! 1. lib/ of the bundle
//! 2. the loader's own list (ldconfig -p)
//! 3. CUDA_HOME, CUDA_PATH, /usr/local/cuda*          lib64, targets/*/lib
//! 4. python3's site-packages                        nvidia/*/lib, as pip installs it
//! ```
//!
//! The folder of the first one is put in front of `LD_LIBRARY_PATH`, since NVRTC opens a second
//! library beside it. Deliberately absent: whether its version serves the GPU; spark-mem judges
//! that, and a suite that cannot compile fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler, or that there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nvrtc {
    /// In this folder, which the loader must be told.
    In(PathBuf),
    /// Where the loader looks anyway.
    Installed,
    /// Nowhere.
    Absent,
}

/// Looks in the order above.
pub(super) fn find(bundle: &Path) -> Nvrtc {
    if holds_nvrtc(&bundle.join("lib")) {
        return Nvrtc::In(bundle.join("lib"));
    }
    let listed = Command::new("ldconfig").arg("-p").output();
    if listed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libnvrtc.so")) {
        return Nvrtc::Installed;
    }
    let places = toolkits().into_iter().chain(python_packages());
    let found = places.into_iter().find(|folder| holds_nvrtc(folder));
    found.map_or(Nvrtc::Absent, Nvrtc::In)
}

/// Library folders of toolkits, the ones that variables name first.
fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"];
    let mut roots: Vec<PathBuf> = named
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .collect();
    roots.extend(below(Path::new("/usr/local"), |name| {
        name.starts_with("cuda")
    }));
    let mut folders = Vec::new();
    for root in roots {
        folders.push(root.join("lib64"));
        for target in below(&root.join("targets"), |_| true) {
            folders.push(target.join("lib"));
        }
    }
    folders
}

/// `nvidia/*/lib` of the Python that is in the path.
fn python_packages() -> Vec<PathBuf> {
    let script = "import sys; print('\\n'.join(sys.path))";
    let asked = Command::new("python3").args(["-c", script]).output();
    let told = asked.map(|output| output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&told).into_owned();
    let packages = told.lines().filter(|line| !line.is_empty());
    packages
        .flat_map(|folder| below(&Path::new(folder).join("nvidia"), |_| true))
        .map(|package| package.join("lib"))
        .collect()
}

/// What is in a folder and has such a name, in the order of names; nothing if it cannot be read.
fn below(folder: &Path, accepts: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| accepts(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn holds_nvrtc(folder: &Path) -> bool {
    !below(folder, |name| name.starts_with("libnvrtc.so")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundles_own_compiler_comes_first() {
        let name = format!("spark-xtask-nvrtc-{}", std::process::id());
        let bundle = std::env::temp_dir().join(name);
        fs::create_dir_all(bundle.join("lib")).unwrap();
        assert!(!holds_nvrtc(&bundle.join("lib")));
        fs::write(bundle.join("lib/libnvrtc.so.13"), "").unwrap();
        assert_eq!(find(&bundle), Nvrtc::In(bundle.join("lib")));
        fs::remove_dir_all(&bundle).unwrap();
    }
}
