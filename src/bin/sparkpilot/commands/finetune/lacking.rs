//! What chunks of frames lack, as it stands in them.

use std::collections::BTreeMap;

use spark_program::tell;
use sparkpilot::train::LeftOut;

/// What chunks lack, and which of them.
#[derive(Default)]
pub(crate) struct Lacking {
    /// Frames by the video that they are of, or 0 for a log that was not read at all.
    of_videos: BTreeMap<String, u64>,
    files: Vec<String>,
}

impl Lacking {
    /// Adds what stands in a chunk of this name.
    pub(crate) fn add(&mut self, file: &str, left_out: &[LeftOut]) {
        for it in left_out {
            let n_frames = self.of_videos.entry(it.name.clone()).or_default();
            *n_frames = n_frames.saturating_add(it.n_frames);
        }
        if left_out.iter().any(|it| it.n_frames > 0) {
            self.files.push(file.to_owned());
        }
    }

    /// Whether no frame is lacking; of a log nobody knows.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Names of the chunks that lack frames.
    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    /// Says it, as it was said when the chunks were made.
    pub(crate) fn tell(&self) {
        for (name, n_frames) in &self.of_videos {
            tell(match n_frames {
                0 => format!("left out when the chunks were made: `{name}`"),
                n => format!("left out when the chunks were made: {n} frames of `{name}`"),
            });
        }
    }
}
