//! Why a command of `cargo xtask` failed.
//!
//! Written by hand rather than derived, which keeps procedural macros out of the build.

use std::fmt;
use std::path::PathBuf;

/// Parts of a step that this machine cannot run, each with what it lacks.
pub(crate) type LeftOut = Vec<String>;

/// Why a command of `cargo xtask` failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line was not understood; the text says how.
    Usage(String),
    /// A file could not be read, written or listed.
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A program could not be started.
    Start {
        command: String,
        source: std::io::Error,
    },
    /// A program ended with a failure; `None` when a signal ended it.
    Command { command: String, code: Option<i32> },
    /// A text that should be JSON is not.
    Json {
        what: String,
        source: serde_json::Error,
    },
    /// A document lacks a field, or holds one of another type.
    Shape { what: String, field: String },
    /// Rules of `cargo xtask tidy` are broken; each was printed.
    Tidy { n_findings: usize },
    /// Pages of the book are wrong; each finding was printed.
    Book { n_findings: usize },
    /// Kernels break the rules of `cargo xtask kernels`; each finding was printed.
    Kernels { n_findings: usize },
    /// Crates that are used break the rules of `deny.toml`; each finding was printed.
    Dependencies { n_findings: usize },
    /// What is to be released does not keep a promise.
    Promise { path: PathBuf, why: String },
    /// Parts of a step that this machine cannot run, where nothing may be left out.
    LeftOut(LeftOut),
    /// A step of `cargo xtask ci` failed.
    Step {
        name: &'static str,
        cause: Box<Error>,
    },
    /// A bundle for a GPU machine is larger than may be handed to one.
    BundleTooLarge {
        path: PathBuf,
        n_bytes: u64,
        limit_bytes: u64,
    },
    /// Suites of a bundle failed on the GPU machine; each was printed.
    Suites { n_failed: usize },
    /// An output lies further from its golden than its bound allows, or has none.
    Golden {
        model: String,
        got: Option<f64>,
        bound: f64,
    },
}

impl Error {
    /// Exit code of a run that ends with it: 2 for a command line that was not understood.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            _ => 1,
        }
    }

    /// For `map_err` on a file operation.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => f.write_str(text),
            Self::Io {
                action,
                path,
                source,
            } => {
                write!(f, "cannot {action} `{}`: {source}", path.display())
            }
            Self::Start { command, source } => write!(f, "cannot start `{command}`: {source}"),
            Self::Command {
                command,
                code: Some(code),
            } => {
                write!(f, "`{command}` ended with status {code}")
            }
            Self::Command {
                command,
                code: None,
            } => write!(f, "`{command}` was ended by a signal"),
            Self::Json { what, source } => write!(f, "{what} is no valid JSON: {source}"),
            Self::Shape { what, field } => write!(f, "{what} lacks a usable `{field}`"),
            Self::Tidy { n_findings } => write!(f, "tidy: {n_findings} finding(s)"),
            Self::Book { n_findings } => write!(f, "book: {n_findings} finding(s)"),
            Self::Kernels { n_findings } => write!(f, "kernels: {n_findings} finding(s)"),
            Self::Dependencies { n_findings } => {
                write!(f, "deny.toml: {n_findings} finding(s)")
            }
            Self::Promise { path, why } => write!(f, "`{}`: {why}", path.display()),
            Self::BundleTooLarge {
                path,
                n_bytes,
                limit_bytes,
            } => write!(
                f,
                "`{}` has {n_bytes} bytes, more than {limit_bytes}",
                path.display()
            ),
            Self::Suites { n_failed } => write!(f, "{n_failed} suite(s) failed"),
            Self::LeftOut(what) => write!(f, "not run on this machine: {}", what.join("; ")),
            Self::Step { name, cause } => write!(f, "step `{name}`: {cause}"),
            Self::Golden {
                model,
                got: Some(got),
                bound,
            } => {
                write!(
                    f,
                    "{model}: relative error {got:.2e} against the golden, at most {bound:.0e} is allowed"
                )
            }
            Self::Golden {
                model,
                got: None,
                bound,
            } => {
                write!(f, "{model}: no golden was compared (bound {bound:.0e})")
            }
        }
    }
}

impl std::error::Error for Error {}
