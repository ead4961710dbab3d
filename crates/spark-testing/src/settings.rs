//! The environment variables that tests of several crates read, each declared and read here.
//!
//! The table of `docs/environment.md` is made from the declarations.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A variable: its name, what it accepts, its default, its meaning; all for people.
struct Setting {
    name: &'static str,
    accepts: &'static str,
    default: &'static str,
    doc: &'static str,
}

const TEST_DATA: Setting = Setting {
    name: "SPARK_TEST_DATA",
    accepts: "a directory",
    default: "not set: tests that need the data pass without them and print so (`cargo test -- --show-output`)",
    doc: "The folder with `data/models` (models, their goldens), `data/drive` (recorded drives) and `truth` (recorded conversions, adapters, figures).",
};

const REQUIRE_GPU: Setting = Setting {
    name: "SPARK_REQUIRE_GPU",
    accepts: "`0` or `1`",
    default: "`0`",
    doc: "`1` turns \"skipped: no GPU\" into a failure.",
};

const FULL_TESTS: Setting = Setting {
    name: "SPARK_FULL_TESTS",
    accepts: "`0` or `1`",
    default: "`0`",
    doc: "`1` gives tests that take a sample of a long range all of it; some then take minutes.",
};

const BLESS: Setting = Setting {
    name: "SPARK_BLESS",
    accepts: "`0` or `1`",
    default: "`0`",
    doc: "`1` lets tests rewrite committed files that are generated (this page, recorded \
          expectations) instead of comparing with them.",
};

const KEEP_KERNELS: Setting = Setting {
    name: "SPARK_KEEP_KERNELS",
    accepts: "a directory",
    default: "not set",
    doc: "Set by `cargo xtask gpu`: tests for GPUs compile their kernels for the GPUs of a bundle, which need not be \
          there, into this directory, which the bundle has as its `SPARK_CACHE_DIR`.",
};

const CI: Setting = Setting {
    name: "CI",
    accepts: "anything",
    default: "not set",
    doc: "Set in continuous integration: missing test data fail instead of skipping, and so do tests of kernels \
          without NVIDIA's compiler (`cargo xtask kernels` fetches it), of videos without ffmpeg, and what `cargo xtask ci` cannot run.",
};

/// The folder with the reference data, if it is set.
#[must_use]
pub fn data_folder() -> Option<PathBuf> {
    value(&TEST_DATA).map(PathBuf::from)
}

/// Whether a test that finds no GPU fails instead of being skipped.
///
/// # Panics
///
/// If the variable is neither `0` nor `1`.
#[must_use]
pub fn require_gpu() -> bool {
    flag(&REQUIRE_GPU)
}

/// Whether a test that usually takes a sample of a long range takes all of it.
///
/// # Panics
///
/// If the variable is neither `0` nor `1`.
#[must_use]
pub fn full_tests() -> bool {
    flag(&FULL_TESTS)
}

/// Whether tests rewrite committed files that are generated instead of comparing with them.
///
/// # Panics
///
/// If the variable is neither `0` nor `1`.
#[must_use]
pub fn bless() -> bool {
    flag(&BLESS)
}

/// The folder that kernels are compiled into for GPUs that are not there, if it is set.
#[must_use]
pub fn keep_kernels() -> Option<PathBuf> {
    value(&KEEP_KERNELS).map(PathBuf::from)
}

/// Whether the tests run in continuous integration.
#[must_use]
pub fn is_ci() -> bool {
    value(&CI).is_some()
}

/// The section of `docs/environment.md` about these variables.
#[must_use]
pub fn markdown() -> String {
    let mut section = "\
## For the test suite

Those of several crates, but `SPARK_EMULATED_CPU`, which `cargo xtask aarch64` sets; what only one reads is named in the file that reads it. A test that meets an invalid value fails and names it.

| variable | accepts | default | meaning |
|---|---|---|---|
"
    .to_owned();
    for setting in [
        &TEST_DATA,
        &REQUIRE_GPU,
        &FULL_TESTS,
        &BLESS,
        &KEEP_KERNELS,
        &CI,
    ] {
        let Setting {
            name,
            accepts,
            default,
            doc,
        } = setting;
        writeln!(section, "| `{name}` | {accepts} | {default} | {doc} |")
            .expect("writing to a String cannot fail");
    }
    section
}

/// A variable that is set to nothing counts as not set.
fn value(setting: &Setting) -> Option<OsString> {
    std::env::var_os(setting.name).filter(|value| !value.is_empty())
}

fn flag(setting: &Setting) -> bool {
    match value(setting) {
        None => false,
        Some(value) if value == "0" => false,
        Some(value) if value == "1" => true,
        Some(value) => panic!(
            "{}={} is not understood (accepts {})",
            setting.name,
            value.display(),
            setting.accepts
        ),
    }
}
