//! An adapter's two files as one unit: a folder holds one save whole, or the one before it.
//!
//! ```text
//! lock the folder                                     a save waits for openings and other saves
//! write  adapter_model.safetensors.<id>.new           whole and synced before anything else changes
//! write  adapter_config.json.<id>.new
//! rename adapter_config.json -> adapter_config.json.<id>.old
//! rename adapter_model.safetensors.<id>.new -> adapter_model.safetensors     the new adapter holds
//! rename adapter_config.json.<id>.new -> adapter_config.json
//! remove what is left of this save and of saves that died
//! ```
//!
//! Settings and tensors are never side by side unless they belong together, so PEFT, which reads both
//! files, finds one adapter or no settings. This crate finds an adapter at every moment: its tensor files
//! hold their settings too, and for those of others `.old` is kept until the new adapter holds.
//!
//! Two renames, and not one exchange of folders, because the folder may be a mount point, its parent may be
//! read-only, and what else lies in it stays untouched. The lock dies with its process: whoever holds it
//! knows that leftovers belong to nobody.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{DoraError, Result};

/// File of an adapter's folder that holds its settings, under PEFT's name.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// File of an adapter's folder that holds its tensors, under PEFT's name.
pub const TENSOR_FILE: &str = "adapter_model.safetensors";

/// How long a folder that another process holds is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

/// Puts `path` before what the system said.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> DoraError {
    let path = path.to_owned();
    move |source| DoraError::Io { path, source }
}

/// A folder while nobody else saves into it.
pub(crate) struct Locked<'f> {
    folder: &'f Path,
    /// Synced after renames; its lock goes when it is closed.
    handle: File,
    is_exclusive: bool,
}

impl<'f> Locked<'f> {
    /// For reading, beside other readers.
    pub(crate) fn shared(folder: &'f Path) -> Result<Self> {
        Self::take(folder, File::try_lock_shared, false)
    }

    /// For saving: keeps readers and other savers out, where the file system has locks.
    fn exclusive(folder: &'f Path) -> Result<Self> {
        Self::take(folder, File::try_lock, true)
    }

    fn take(
        folder: &'f Path,
        lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
        saves: bool,
    ) -> Result<Self> {
        let handle = File::open(folder).map_err(failed(folder))?;
        let start = Instant::now();
        let is_locked = loop {
            match lock(&handle) {
                Ok(()) => break true,
                // A file system without locks: saves are then trusted not to meet.
                Err(TryLockError::Error(_)) => break false,
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                // A reader notices mixed files itself.
                Err(TryLockError::WouldBlock) if !saves => break false,
                Err(TryLockError::WouldBlock) => {
                    let text = "another program is saving into it";
                    let error = io::Error::new(io::ErrorKind::WouldBlock, text);
                    return Err(failed(folder)(error));
                }
            }
        };
        Ok(Self {
            folder,
            handle,
            is_exclusive: saves && is_locked,
        })
    }

    /// The settings that a save moved away before it died, if there is one such file.
    pub(crate) fn moved_settings(&self) -> Option<PathBuf> {
        let mut found = leftovers(self.folder, ".old").ok()?;
        found.pop().filter(|_| found.is_empty())
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Removes what saves that died left behind. A file that cannot be removed stays.
    fn clean(&self) {
        if !self.is_exclusive {
            return;
        }
        for kind in [".new", ".old"] {
            for path in leftovers(self.folder, kind).unwrap_or_default() {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Files named `<one of the two>.<id><kind>`, id being digits and hyphens.
fn leftovers(folder: &Path, kind: &str) -> io::Result<Vec<PathBuf>> {
    let is_ours = |name: &OsStr| {
        let name = name.to_str()?.strip_suffix(kind)?;
        let id = [TENSOR_FILE, CONFIG_FILE]
            .iter()
            .find_map(|file| name.strip_prefix(file)?.strip_prefix('.'))?;
        let is_id = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit() || c == '-');
        is_id.then_some(())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_ours(&entry.file_name()).is_some() && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Files of one save that are not in place yet; removed if the save fails.
struct Beside {
    tensors: PathBuf,
    config: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.tensors);
        let _ = fs::remove_file(&self.config);
    }
}

/// Writes both files into `folder`, which is made if it is not there.
pub(crate) fn write(folder: &Path, config: &str, tensors: &[u8]) -> Result<()> {
    let is_new = !folder.exists();
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let written = write_into(folder, config, tensors);
    if written.is_err() && is_new {
        // Only if it is empty.
        let _ = fs::remove_dir(folder);
    }
    written
}

fn write_into(folder: &Path, config: &str, tensors: &[u8]) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let [tensor_path, config_path] = [TENSOR_FILE, CONFIG_FILE].map(|name| folder.join(name));
    for path in [&tensor_path, &config_path] {
        refuse_other_than_file(path)?;
    }
    let locked = Locked::exclusive(folder)?;
    let id = format!(
        "{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let beside = Beside {
        tensors: folder.join(format!("{TENSOR_FILE}.{id}.new")),
        config: folder.join(format!("{CONFIG_FILE}.{id}.new")),
    };
    for (beside, path, bytes) in [
        (&beside.tensors, &tensor_path, tensors),
        (&beside.config, &config_path, config.as_bytes()),
    ] {
        write_synced(beside, bytes).map_err(failed(path))?;
    }

    let old = folder.join(format!("{CONFIG_FILE}.{id}.old"));
    let had_config = match fs::rename(&config_path, &old) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(&config_path)(error)),
    };
    let placed = locked
        .sync()
        .and_then(|()| fs::rename(&beside.tensors, &tensor_path));
    if let Err(error) = placed {
        if had_config {
            let _ = fs::rename(&old, &config_path);
        }
        return Err(failed(&tensor_path)(error));
    }
    fs::rename(&beside.config, &config_path).map_err(failed(&config_path))?;
    locked.sync().map_err(failed(folder))?;
    if had_config {
        let _ = fs::remove_file(old);
    }
    locked.clean();
    Ok(())
}

/// Anything else under a file's name could not be replaced halfway through a save.
fn refuse_other_than_file(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "a folder is in its place");
            Err(failed(path)(error))
        }
        _ => Ok(()),
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
