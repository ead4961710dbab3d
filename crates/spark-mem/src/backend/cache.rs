//! Compiled kernels on disk.
//!
//! ```text
//! key    SHA-256 of file name, source, headers, options, architecture
//! file   <cache>/kernels/<key>.cubin
//!        8 bytes magic | 32 bytes SHA-256 of key and code | 8 bytes length | code
//! write  beside it, then renamed: another process sees all of it or nothing
//! read   whatever is not exactly right is as if it were not there, with a warning
//! ```
//!
//! A cache that cannot be written costs compiling again and is logged once. Who writes into it first
//! takes away what killed processes left: their temporary files, an hour later.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"SPARKCU2";
const SUFFIX: &str = ".cubin";
/// Digits of a name, in front of the suffix.
const N_DIGITS: usize = 64;
const HEADER_BYTES: usize = 8 + 32 + 8;
/// More than any kernel compiles to; a longer file is not read.
const LARGEST_BYTES: u64 = 256 << 20;

/// What a compiled kernel depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey {
    hexadecimal: String,
}

impl CacheKey {
    /// The key of code compiled from all of these, in this order.
    #[must_use]
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The length keeps "ab", "c" apart from "a", "bc".
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        Self {
            hexadecimal: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// A directory of compiled kernels.
#[derive(Debug)]
pub struct KernelCache {
    folder: PathBuf,
    has_warned: AtomicBool,
    has_tidied: AtomicBool,
}

impl KernelCache {
    /// The kernels under this cache directory, which is made when first written to.
    #[must_use]
    pub fn new(cache_dir: &Path) -> Self {
        Self {
            folder: cache_dir.join("kernels"),
            has_warned: AtomicBool::new(false),
            has_tidied: AtomicBool::new(false),
        }
    }

    /// Where the code of this key is or would be.
    #[must_use]
    pub fn path(&self, key: &CacheKey) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", key.hexadecimal))
    }

    /// The code of this key, if it is there and whole.
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<Vec<u8>> {
        let path = self.path(key);
        match read(&path, key) {
            Ok(code) => Some(code),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(
                    "compiled kernel `{}` is not used: {error}; compiling again",
                    path.display()
                );
                None
            }
        }
    }

    /// Keeps code under this key, replacing what is there. A failure is logged, the first
    /// time as a warning: the code is there all the same.
    pub fn put(&self, key: &CacheKey, code: &[u8]) {
        if let Err(error) = self.write(key, code) {
            let folder = self.folder.display();
            if self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::debug!("kernel not kept in `{folder}`: {error}");
            } else {
                tracing::warn!("compiled kernels cannot be kept in `{folder}`: {error}");
            }
        }
    }

    /// As [`KernelCache::put`], for who must know whether it is kept.
    pub(crate) fn write(&self, key: &CacheKey, code: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        if !self.has_tidied.swap(true, Ordering::Relaxed) {
            self.tidy();
        }
        spark_files::replace_with(&self.path(key), |file| {
            file.write_all(MAGIC)?;
            file.write_all(&digest(key, code))?;
            file.write_all(&(code.len() as u64).to_le_bytes())?;
            file.write_all(code)
        })
    }

    /// Takes away what killed processes left. What cannot be taken away stays: it is in nobody's way.
    fn tidy(&self) {
        match spark_files::remove_leftovers(&self.folder, is_name_of_code) {
            Ok(0) => {}
            Ok(n_files) => {
                let folder = self.folder.display();
                tracing::debug!("{n_files} files of killed processes removed from `{folder}`");
            }
            Err(error) => tracing::debug!("`{}` is not tidied: {error}", self.folder.display()),
        }
    }
}

/// Whether a file of the cache may have this name.
fn is_name_of_code(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        digits.len() == N_DIGITS && digits.bytes().all(is_digit)
    })
}

/// What stands before the code: a file under another name than its own is as damaged as a cut one.
fn digest(key: &CacheKey, code: &[u8]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(&key.hexadecimal);
    hash.chain_update(code).finalize().into()
}

fn read(path: &Path, key: &CacheKey) -> io::Result<Vec<u8>> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let (file, size) = spark_files::open(path)?;
    if size > LARGEST_BYTES {
        return Err(damaged("it is larger than any kernel"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_BYTES).read_to_end(&mut bytes)?;
    let (Some(header), Some(code)) = (bytes.get(..HEADER_BYTES), bytes.get(HEADER_BYTES..)) else {
        return Err(damaged("it is too short"));
    };
    if header[..8] != *MAGIC {
        return Err(damaged("it is no compiled kernel"));
    }
    let length = (code.len() as u64).to_le_bytes();
    if header[40..] != length || header[8..40] != digest(key, code) {
        return Err(damaged("it is damaged, or another kernel's"));
    }
    Ok(bytes.split_off(HEADER_BYTES))
}
