//! What a program that is shipped may ask of a machine, held against what it does ask for.
//!
//! ```text
//! readelf ── version needs ── GLIBC_2.x     none above 2.28
//!        ├── NEEDED           libraries     those of glibc alone: libcuda and NVML are opened at run time
//!        └── LOAD             alignment     at least the largest pages of that kind of machine
//! bytes                                     under 25 MB, no path of the machine that built it
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::targets::{GLIBC, Target};
use crate::command;
use crate::error::Error;

const LIMIT_BYTES: u64 = 25_000_000;

/// Libraries of glibc 2.28, which later ones still have under these names, and the program that loads them.
const LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Refuses a program that asks for more than is promised.
///
/// # Errors
///
/// [`Error::Promise`] with the first promise it breaks.
pub(super) fn check(
    program: &Path,
    target: Target,
    folders: &[(PathBuf, &str)],
) -> Result<(), Error> {
    let broken = |why: String| Error::Promise {
        path: program.to_owned(),
        why,
    };
    let n_bytes = fs::metadata(program)
        .map_err(Error::io("examine", program))?
        .len();
    if n_bytes >= LIMIT_BYTES {
        return Err(broken(format!(
            "{n_bytes} bytes, {LIMIT_BYTES} are too many"
        )));
    }
    let mut readelf = Command::new("readelf");
    readelf
        .env("LC_ALL", "C")
        .args(["--wide", "--version-info", "--dynamic", "--program-headers"]);
    let text = command::output_of(readelf.arg(program))?;
    let newest = asks_for(&text, target).map_err(broken)?;
    let bytes = fs::read(program).map_err(Error::io("read", program))?;
    for (folder, _) in folders {
        let folder = folder.display().to_string();
        if holds(&bytes, folder.as_bytes()) {
            return Err(broken(format!(
                "it names {folder}, a folder of this machine"
            )));
        }
    }
    println!(
        "{}: {:.1} MB, glibc {}.{}",
        program.display(),
        n_bytes as f64 / 1e6,
        newest.0,
        newest.1
    );
    Ok(())
}

/// The newest C library that the text of readelf asks for, or what is wrong.
fn asks_for(text: &str, target: Target) -> Result<(u32, u32), String> {
    let mut newest = (0, 0);
    for name in text
        .split_whitespace()
        .filter_map(|word| word.trim_start_matches('(').strip_prefix("GLIBC_"))
    {
        let version = version(name).ok_or_else(|| format!("GLIBC_{name} is no version"))?;
        newest = newest.max(version);
    }
    if newest == (0, 0) {
        return Err("it asks for no version of glibc: is it linked to it?".to_owned());
    }
    if newest > GLIBC {
        return Err(format!("it needs glibc {}.{}", newest.0, newest.1));
    }
    for line in text.lines().filter(|line| line.contains("(NEEDED)")) {
        let library = line.split(['[', ']']).nth(1).unwrap_or_default();
        if !LIBRARIES.contains(&library) {
            return Err(format!("it is linked to `{library}`"));
        }
    }
    let mut n_segments = 0;
    for line in text
        .lines()
        .filter(|line| line.trim_start().starts_with("LOAD "))
    {
        let align = line.split_whitespace().last().unwrap_or_default();
        let bytes = align
            .strip_prefix("0x")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let bytes = bytes.ok_or_else(|| format!("`{align}` is no alignment"))?;
        if bytes < target.page_bytes {
            return Err(format!(
                "parts begin at every {bytes} bytes, pages have up to {}",
                target.page_bytes
            ));
        }
        n_segments += 1;
    }
    if n_segments == 0 {
        return Err("it has no part that is loaded".to_owned());
    }
    Ok(newest)
}

/// `2.28`, or `2.2.5`, whose last part adds nothing.
fn version(name: &str) -> Option<(u32, u32)> {
    let name = name.trim_end_matches([')', ',']);
    let mut parts = name.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::super::targets::TARGETS;
    use super::*;

    const GOOD: &str = "\
  LOAD           0x000000 0x0000000000000000 0x0000000000000000 0x014ba0 0x014ba0 R   0x10000
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  000:   0 (*local*)       2 (GLIBC_2.2.5)    5 (GLIBC_2.28)
  0x0030:   Name: GLIBC_2.17  Flags: none  Version: 2
";

    #[track_caller]
    fn refused(from: &str, to: &str, want: &str) {
        let [_, arm] = TARGETS;
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD);
        let why = asks_for(&text, arm).unwrap_err();
        assert!(why.contains(want), "{why}");
    }

    #[test]
    fn what_is_promised_passes() {
        for target in TARGETS {
            assert_eq!(asks_for(GOOD, target), Ok((2, 28)));
        }
    }

    #[test]
    fn newer_libraries_others_and_small_pages_are_refused() {
        refused("2.28", "2.34", "glibc 2.34");
        refused("libc.so.6", "libcuda.so.1", "libcuda.so.1");
        refused("0x10000", "0x1000", "every 4096 bytes");
        refused("GLIBC_", "LIB_", "no version");
        refused("LOAD", "NOTE", "no part");
        refused("2.17", "private", "no version");
    }

    #[test]
    fn a_folder_inside_a_program_is_found() {
        assert!(holds(b"\0/a/b/c.rs\0", b"/a/b"));
        assert!(!holds(b"\0/a/c.rs\0", b"/a/b"));
    }
}
