//! The cross linker from PyPI, into a folder of the build, and what it makes: one program for each target.
//!
//! ```text
//! pip install --no-deps --target <folder>   cargo-zigbuild and zig, pinned
//! cargo-zigbuild zigbuild --profile dist --target <triple>.2.28 …
//!       │ zig links against its own description of glibc 2.28
//!       ▼
//! target/<triple>/dist/sparkpilot
//! ```
//!
//! No C compiler is asked for: no crate that is shipped compiles C. Paths of the building machine are taken out of the
//! texts of panics, so that programs built in other folders have the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::targets::Target;
use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

const PACKAGES: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];
/// Changes with the packages, so that a new pin makes a new folder.
const NAME: &str = "zigbuild-0.24.1-0.17.1";

/// What the shipped program can do: all that it has. CUDA is opened at run time, so it costs those without nothing but
/// bytes.
pub(super) const FEATURES: &str = "cli,train,cuda";

/// The profile of the root manifest that programs are built with.
const PROFILE: &str = "dist";

/// Builds the program for one target.
///
/// # Errors
///
/// [`Error::Usage`] if rustc lacks the target's standard library; what pip and cargo refuse.
pub(super) fn build(workspace: &Workspace, target: Target) -> Result<PathBuf, Error> {
    has_standard_library(target)?;
    let tools = installed(&workspace.target.join("dist/tools"))?;
    let mut build = Command::new(tools.join("bin/cargo-zigbuild"));
    build.args(["zigbuild", "--locked", "--profile", PROFILE]);
    build.args(["--package", "sparkpilot", "--bin", "sparkpilot"]);
    build.args(["--features", FEATURES, "--target", &target.with_glibc()]);
    build.env("CARGO_ZIGBUILD_ZIG_PATH", tools.join("ziglang/zig"));
    build.env("CARGO_ZIGBUILD_CACHE_DIR", tools.join("cache"));
    build.env("ZIG_GLOBAL_CACHE_DIR", tools.join("cache/zig"));
    // What a person has set for builds of their own would be in the release.
    build
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let variable = target.triple.replace('-', "_").to_uppercase();
    build.env(
        format!("CARGO_TARGET_{variable}_RUSTFLAGS"),
        without_paths(workspace)?,
    );
    build.env("CARGO_TARGET_DIR", &workspace.target);
    command::run(build.current_dir(&workspace.root))?;
    let program = workspace.target.join(target.triple).join(PROFILE);
    Ok(program.join("sparkpilot"))
}

/// Folders of this machine whose files are compiled into the program, each with the name that stands there instead: crates,
/// the standard library's source where rustup has it, and this workspace.
///
/// # Errors
///
/// [`Error::Usage`] where there is no home folder; what rustc refuses.
pub(super) fn folders(workspace: &Workspace) -> Result<[(PathBuf, &'static str); 3], Error> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let home = home.ok_or_else(|| Error::Usage("there is no home folder for cargo".to_owned()))?;
    let sysroot = command::output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok([
        (home, "cargo"),
        (PathBuf::from(sysroot.trim()), "rust"),
        (workspace.root.clone(), "sparkpilot"),
    ])
}

fn without_paths(workspace: &Workspace) -> Result<String, Error> {
    let folders = folders(workspace)?;
    let flags =
        folders.map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    Ok(flags.join(" "))
}

fn has_standard_library(target: Target) -> Result<(), Error> {
    let words = ["--print", "target-libdir", "--target", target.triple];
    let folder = command::output_of(Command::new("rustc").args(words))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "no standard library: rustup target add {}",
        target.triple
    )))
}

/// Installs the tools under `folder` if they are not there.
fn installed(folder: &Path) -> Result<PathBuf, Error> {
    let tools = folder.join(NAME);
    if tools.join("ziglang/zig").is_file() {
        return Ok(tools);
    }
    fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
    let temporary = folder.join(format!("{NAME}.{}.tmp", std::process::id()));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    pip.args(["--disable-pip-version-check", "--root-user-action=ignore"]);
    pip.arg("--target").arg(&temporary).args(PACKAGES);
    command::run(&mut pip)?;
    fs::rename(&temporary, &tools).map_err(Error::io("rename", &temporary))?;
    Ok(tools)
}
