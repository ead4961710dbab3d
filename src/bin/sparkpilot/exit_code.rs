//! Which exit code says what of an error.
//!
//! ```text
//! 1   the answer is no                                   no error; a command says which answer that is
//! 2   options that do not go together                    spark_program::Usage
//! 4   a device or precision that cannot be had           DeviceRefused, ModelError
//! 5   a file that could not be read or written           whatever an operating system's error caused, but text that is none
//! 3   everything else: what was given is not what it should be
//! ```

use std::error::Error;
use std::io;

use spark_program::DeviceRefused;
use sparkpilot::onnx::ModelError;

/// The answer is no.
pub(crate) const NO: u8 = 1;
/// A device or a precision was asked for that is not to be had.
pub(crate) const REFUSED: u8 = 4;
/// What was given cannot be used.
pub(crate) const BAD_INPUT: u8 = 3;
/// A file could not be read or written.
pub(crate) const FILES: u8 = 5;

/// The exit code of a program that ends with this error.
pub(crate) fn of(error: &(dyn Error + 'static)) -> u8 {
    let causes = std::iter::successors(Some(error), |&cause| cause.source());
    for cause in causes {
        if cause.is::<DeviceRefused>() || cause.downcast_ref().is_some_and(is_refusal) {
            return REFUSED;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            // What was read is not what it should be: text that is no UTF-8.
            let is_content = error.kind() == io::ErrorKind::InvalidData;
            return if is_content { BAD_INPUT } else { FILES };
        }
    }
    BAD_INPUT
}

fn is_refusal(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::DeviceUnavailable { .. }
            | ModelError::PrecisionUnavailable { .. }
            | ModelError::StepUnsupported { .. }
            | ModelError::Uncalibrated { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn errors_of_files_are_known_by_their_cause() {
        let missing = spark_program::input::read(Path::new("/no such file")).unwrap_err();
        assert_eq!(of(&missing), FILES);
        let about = spark_program::about(Path::new("a"))(io::Error::other("disk"));
        assert_eq!(of(&about), FILES);
        assert_eq!(
            of(&spark_program::Usage("a".to_owned())),
            BAD_INPUT,
            "`run_with` knows usage itself"
        );
        let refused = ModelError::DeviceUnavailable {
            device: "cuda".to_owned(),
            reason: "there is none",
        };
        assert_eq!(of(&refused), REFUSED);
    }
}
