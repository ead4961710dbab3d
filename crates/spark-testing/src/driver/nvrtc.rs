//! Where NVIDIA's run-time compiler is, for the tests that run what it makes.
//!
//! `cargo xtask kernels` puts it under `target/kernels`, and there it is looked for.
//!
//! With `CI` set a test that needs it fails without it; for a person kernels are then those that
//! the host compiler builds of the same sources, and one line says so.

#![allow(clippy::print_stdout, reason = "what a test leaves out it says")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

const NAME: &str = "libnvrtc.so.13";

/// The library, by its path.
pub(super) fn find() -> Option<PathBuf> {
    // The build folder of this crate lies four levels below that of the workspace, more where the kind
    // of machine or a sanitiser has a folder of its own.
    let targets = Path::new(env!("OUT_DIR")).ancestors().skip(3).take(6);
    let mut folders = targets.flat_map(|target| {
        let entries = std::fs::read_dir(target.join("kernels"));
        let folders = entries.into_iter().flatten().flatten();
        folders.map(|entry| entry.path().join("nvidia/cu13/lib"))
    });
    folders.find_map(|folder| {
        let library = folder.join(NAME);
        library.is_file().then_some(library)
    })
}

/// What the compiler opens while it compiles.
pub(super) fn builtins_beside(compiler: &Path) -> Vec<PathBuf> {
    let folder = compiler.parent().map(std::fs::read_dir);
    let entries = folder.into_iter().flatten().flatten().flatten();
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnvrtc-builtins.so.")
    };
    entries
        .map(|entry| entry.path())
        .filter(is_wanted)
        .collect()
}

/// An error where nothing may be left out, else a line.
pub(super) fn say_that_it_is_missing() -> io::Result<()> {
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return Err(io::Error::other(
            "NVRTC is missing; `cargo xtask kernels` fetches it",
        ));
    }
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        println!(
            "kernels are not run as PTX: NVRTC is missing, which `cargo xtask kernels` fetches"
        );
    });
    Ok(())
}
