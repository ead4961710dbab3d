//! Whether two paths are one file, asked before one is written over the other.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// An output in the place of an input or of another output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clash<'a> {
    /// What is to be written.
    pub output: &'a Path,
    /// The other name of the same file.
    pub other: &'a Path,
    /// Whether that is written too; else it is read.
    pub is_written: bool,
}

/// The first output that is an input or an earlier output, by whatever name. Inputs may be one
/// file; any number of outputs may go to a device or a pipe.
pub fn clash<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Option<Clash<'a>> {
    let mut taken: Vec<(Target, &Path, bool)> = Vec::new();
    let inputs = inputs.into_iter().map(|path| (path, false));
    let outputs = outputs.into_iter().map(|path| (path, true));
    for (path, is_output) in inputs.chain(outputs) {
        let Some(target) = Target::of(path) else {
            continue;
        };
        let same = taken.iter().find(|(other, ..)| *other == target);
        if let (Some(&(_, other, is_written)), true) = (same, is_output) {
            return Some(Clash {
                output: path,
                other,
                is_written,
            });
        }
        taken.push((target, path, is_output));
    }
    None
}

/// What a path leads to. Devices and pipes have none: any number of outputs may go there.
#[derive(PartialEq, Eq)]
enum Target {
    #[cfg(unix)]
    File {
        device: u64,
        inode: u64,
    },
    Path(PathBuf),
}

impl Target {
    fn of(path: &Path) -> Option<Self> {
        if let Ok(metadata) = fs::metadata(path) {
            if !metadata.is_file() {
                return None;
            }
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt as _;
                let (device, inode) = (metadata.dev(), metadata.ino());
                return Some(Self::File { device, inode });
            }
        }
        place(path, MOST_LINKS).map(Self::Path)
    }
}

/// As many links as Linux follows.
const MOST_LINKS: u32 = 40;

/// Where a file would be made whose folders may not be there yet: they are made first, and a link that leads nowhere leads there then.
fn place(path: &Path, links: u32) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    for ancestor in path.ancestors() {
        let rest = path.strip_prefix(ancestor).ok()?;
        if let Ok(mut place) = fs::canonicalize(ancestor) {
            for component in rest.components() {
                match component {
                    Component::Normal(name) => place.push(name),
                    Component::ParentDir => _ = place.pop(),
                    _ => {}
                }
            }
            return Some(place);
        }
        if let Ok(target) = fs::read_link(ancestor) {
            let to = ancestor.parent()?.join(target).join(rest);
            return place(&to, links.checked_sub(1)?);
        }
    }
    None
}
