//! Who else gets every look: the recorder of anomalies, and whoever asks for metrics.
//!
//! Neither can hold up the watch: both have threads of their own.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sparkpilot::hal::monitor::Look;

use super::metrics::Metrics;
use super::recorder::Recorder;

/// Those that were asked for.
pub(super) struct Companions {
    recorder: Option<Recorder>,
    metrics: Option<Metrics>,
    /// What people were told last.
    told: Mutex<String>,
}

impl Companions {
    /// Starts a recorder into this folder, and metrics at this port of the loopback address.
    ///
    /// # Errors
    ///
    /// A port that cannot be had, or a folder that cannot be written to. One that comes to be so later is said, and ends nothing.
    pub(super) fn start(folder: Option<&Path>, port: Option<u16>) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            metrics: port.map(Metrics::start).transpose()?,
            recorder: folder.map(Recorder::start).transpose()?,
            told: Mutex::default(),
        })
    }

    /// Hands a look on.
    pub(super) fn take(&self, look: &Arc<Look>) {
        if let Some(recorder) = &self.recorder {
            recorder.take(look);
        }
        if let Some(metrics) = &self.metrics {
            metrics.take(look);
        }
    }

    /// What people should know of them: where metrics are, what was recorded, why it cannot be.
    pub(super) fn words(&self) -> String {
        let recorder = self.recorder.as_ref().map(Recorder::words);
        let metrics = self.metrics.as_ref().map(Metrics::words);
        let words = [recorder, metrics].into_iter().flatten();
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        words.join(" · ")
    }

    /// What the recorder has to say, if anything.
    pub(super) fn recorded(&self) -> Option<String> {
        let words = self.recorder.as_ref().map(Recorder::words);
        words.filter(|words| !words.is_empty())
    }

    /// All of it, if it is not what this told last.
    pub(super) fn news(&self) -> Option<String> {
        let words = self.words();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        (*told != words).then(|| told.clone_from(&words))?;
        (!words.is_empty()).then_some(words)
    }

    /// Lets the recorder finish what it was given, for as long as a disk may take.
    pub(super) fn finish(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.finish();
        }
    }
}
