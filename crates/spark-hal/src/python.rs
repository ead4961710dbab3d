//! Python packages on this machine, found by their files; Python is not started.
//! Linux only: the directories are those of Linux distributions.

use std::io::BufRead as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::reading::quote;
use crate::root::Root;
use crate::version::Version;

/// Directories with installed packages: of the active environment first, then the
/// user's, then the system's.
pub(crate) fn package_directories(root: &Root, prefixes: &[&str]) -> Vec<String> {
    let system = ["/usr/local", "/usr"];
    let mut found = Vec::new();
    for prefix in prefixes.iter().chain(&system) {
        let library = format!("{prefix}/lib");
        let versions = root.entries(&library).value().unwrap_or_default();
        for version in versions.iter().filter(|name| name.starts_with("python3")) {
            for leaf in ["site-packages", "dist-packages"] {
                let directory = format!("{library}/{version}/{leaf}");
                if root.exists(&directory) {
                    found.push(directory);
                }
            }
        }
    }
    found
}

/// A PyTorch installation that was found in a folder of packages.
pub(crate) struct Torch {
    pub(crate) file: String,
    /// With the build it is, as in `2.9.0+cu130`.
    pub(crate) version: String,
    /// The CUDA version it was built for; `None` for a build without CUDA.
    pub(crate) cuda: Option<Version>,
}

/// Reads `torch/version.py`:
///
/// ```text
/// __version__ = '2.9.0+cu130'
/// cuda: Optional[str] = '13.0'
/// ```
pub(crate) fn torch(root: &Root, directory: &str) -> Option<Torch> {
    let file = format!("{directory}/torch/version.py");
    let text = root.text(&file).value()?;
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (before, value) = rest.split_once('=')?;
            let is_name = before.is_empty() || before.starts_with([' ', ':']);
            is_name.then(|| value.trim().trim_matches(['\'', '"']).to_owned())
        })
    };
    Some(Torch {
        version: quote(&value("__version__")?),
        cuda: value("cuda").and_then(|version| version.parse().ok()),
        file,
    })
}

/// The CUDA version a `ptxas` belongs to, from the words it holds:
/// `Cuda compilation tools, release 13.0, V13.0.88`.
pub(crate) fn ptxas_release(root: &Root, path: &str) -> Option<Version> {
    const WORDS: &[u8] = b"uda compilation tools, release ";
    const CHUNK_BYTES: usize = 1 << 20;
    /// The words and a version after them may lie across two chunks.
    const OVERLAP_BYTES: usize = 64;
    /// Several times the size of the largest known one (37 MB).
    const LIMIT_BYTES: u64 = 256 << 20;
    let place: PathBuf = root.path(path);
    if !std::fs::metadata(&place).ok()?.is_file() {
        return None;
    }
    let file = std::fs::File::open(place).ok()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < LIMIT_BYTES {
        let n_bytes = file.read_at(&mut chunk, at).ok()?;
        let mut rest = &chunk[..n_bytes];
        // The standard library's search for one byte is fast in unoptimised builds too.
        while rest.skip_until(b'C').is_ok_and(|n_skipped| n_skipped > 0) {
            if let Some(after) = rest.strip_prefix(WORDS) {
                let end = after
                    .iter()
                    .position(|byte| *byte == b',')
                    .unwrap_or(after.len());
                let word = std::str::from_utf8(&after[..end.min(16)]).ok()?;
                return word.parse().ok();
            }
        }
        if n_bytes <= OVERLAP_BYTES {
            return None;
        }
        at += (n_bytes - OVERLAP_BYTES) as u64;
    }
    None
}
