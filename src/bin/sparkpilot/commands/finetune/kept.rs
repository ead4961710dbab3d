//! Where what can be made again is kept: pictures, and the samples of a run.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use spark_program::about;
use sparkpilot::data::video::{Store, StoreOptions};
use sparkpilot::hal::config::{CACHE_DIR, config};
use sparkpilot::train::{SampleWriter, TrainError};

/// Where decoded pictures are kept.
pub(crate) fn store() -> Store {
    Store::new(cache().join("pictures"), StoreOptions::default())
}

/// A file for the samples of this run: in the cache folder, or where that cannot be written to in the system's temporary one.
pub(crate) fn samples() -> Result<SampleWriter, TrainError> {
    in_folder(SampleWriter::new)
}

/// What is made in the cache folder, or where that cannot be written to in the system's temporary one.
pub(crate) fn in_folder<T>(
    mut make: impl FnMut(&Path) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    make(&cache()).or_else(|error| match error {
        TrainError::Io { .. } => make(&std::env::temp_dir()),
        error => Err(error),
    })
}

/// Why a sample could not be kept, with what moves the file.
pub(crate) fn unkept(error: TrainError) -> Box<dyn Error> {
    match error {
        TrainError::Io { path, source } => {
            let variable = match config().cache_dir.as_ref().is_some_and(|it| *it == path) {
                true => CACHE_DIR.name,
                // The cache folder cannot be written to, or there is none.
                false => "TMPDIR",
            };
            let text = format!("{source}; {variable} names another folder for samples of a run");
            about(&path)(io::Error::new(source.kind(), text)).into()
        }
        error => error.into(),
    }
}

/// The folder for what can be made again.
fn cache() -> PathBuf {
    let folder = config().cache_dir.clone();
    folder.unwrap_or_else(|| std::env::temp_dir().join("sparkpilot"))
}
