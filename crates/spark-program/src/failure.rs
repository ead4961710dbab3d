//! Errors as people read them: one sentence with its causes.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::printable::printable;
use crate::progress;

/// Which exit code a program ends with after an error.
pub type ExitCodeOf = fn(&(dyn Error + 'static)) -> u8;

/// Options that do not go together or are outside their range; the text says which and why.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// An error with the file it is about.
#[derive(Debug)]
pub struct About {
    path: PathBuf,
    source: Box<dyn Error + Send + Sync>,
}

/// For `map_err`: names the file in front of errors that do not.
pub fn about<E: Into<Box<dyn Error + Send + Sync>>>(path: &Path) -> impl Fn(E) -> About + use<E> {
    let path = path.to_owned();
    move |error| About {
        path: path.clone(),
        source: error.into(),
    }
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, text) = (self.path.display().to_string(), self.source.to_string());
        if text.contains(&path) {
            f.write_str(&text)
        } else {
            write!(f, "`{path}`: {text}")
        }
    }
}

impl Error for About {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// Writes a line to stderr, with a bar out of the way. Where that is impossible, as on a full disk,
/// nobody can be told, and the exit code has to say it; `eprintln` would panic.
pub fn tell(text: impl std::fmt::Display) {
    // At once, so that lines of several processes on one terminal stay whole.
    let line = format!("{text}\n");
    progress::aside(|| {
        let _ = io::stderr().write_all(line.as_bytes());
    });
}

/// Prints `error` on stderr; the exit code of a program that ends with it.
pub(crate) fn report(error: &(dyn Error + 'static), wrong_usage: u8, code: ExitCodeOf) -> ExitCode {
    tell(format_args!("error: {}", printable(&with_causes(error))));
    if error.is::<Usage>() {
        tell("\nFor more information, try '--help'.");
        return ExitCode::from(wrong_usage);
    }
    ExitCode::from(code(error))
}

/// `error` and what caused it, in one line; a cause whose words already stand there is not repeated.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// A full disk below stdout is an error like any other, where `println` alone would panic.
pub(crate) fn say_in_one_sentence_that_output_cannot_be_written(code: ExitCodeOf) {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        match panic.payload_as_str() {
            // The standard library's own words; should they change, the panic is shown as one.
            Some(text) if text.starts_with("failed printing to stdout") => {
                tell(format_args!("error: {text}"));
                let error = io::Error::other(text);
                std::process::exit(code(&error).into());
            }
            _ => others(panic),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, Option<Box<Wrapped>>);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn causes_are_joined_and_never_repeated() {
        let cause = || Some(Box::new(Wrapped("no such file", None)));
        let hidden = Wrapped("cannot read `a`", cause());
        assert_eq!(with_causes(&hidden), "cannot read `a`: no such file");
        let told = Wrapped("cannot read `a`: no such file", cause());
        assert_eq!(with_causes(&told), "cannot read `a`: no such file");
    }

    #[test]
    fn the_file_is_named_once() {
        let error = about(Path::new("a.csv"))(Wrapped("line 1 is empty", None));
        assert_eq!(error.to_string(), "`a.csv`: line 1 is empty");
        let error = about(Path::new("a.csv"))(Wrapped("cannot read `a.csv`", None));
        assert_eq!(error.to_string(), "cannot read `a.csv`");
    }
}
