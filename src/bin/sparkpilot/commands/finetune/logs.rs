//! Logs of recorded drives that have a camera's video.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use spark_program::{About, Pulse, about, progress, tell, with_causes};
use sparkpilot::data::drive::{Camera, Drive};
use sparkpilot::data::log::{LogError, LogReader};
use sparkpilot::data::route::{SegmentFile, SegmentName, find_segments};

use super::run::usage;

/// Drives with the camera's videos, and what was left out because it cannot be read.
#[derive(Default)]
pub(crate) struct Logs {
    pub(crate) drives: Vec<Drive>,
    /// Where each of them lies, and what it is called.
    pub(crate) segments: Vec<Recorded>,
    pub(crate) left_out: Vec<PathBuf>,
    /// What every log and video is called, wherever the folder of drives begins: its segment and its own name.
    pub(crate) names: BTreeMap<PathBuf, String>,
}

/// Files of a segment.
pub(crate) struct Recorded {
    pub(crate) name: SegmentName,
    pub(crate) log: PathBuf,
    pub(crate) video: PathBuf,
}

/// Reads the logs of the segments that have one and the camera's video.
///
/// `known` are those that were left out when a run was begun: no others may be, and these not come back. Nothing of a run that begins.
pub(crate) fn read(
    folder: &Path,
    file: SegmentFile,
    camera: Camera,
    known: Option<&[PathBuf]>,
) -> Result<Logs, Box<dyn Error>> {
    let mut logs = Logs::default();
    let mut first = None;
    let segments = find_segments(folder)?;
    let bar = progress(Some(segments.len() as u64)).with_message("logs");
    let _pulse = Pulse::of(&bar);
    for segment in segments {
        bar.inc(1);
        let (Some(log), Some(video)) = (segment.log(), segment.file(file)) else {
            tell(format!("{}: no log, or no such video", segment.name));
            continue;
        };
        for path in [log, video] {
            let own = path.file_name().unwrap_or_default().display();
            let name = format!("{}/{own}", segment.name);
            logs.names.insert(path.to_owned(), name);
        }
        let is_out = |path: &&PathBuf| known.is_some_and(|known| known.contains(path));
        if let Some(path) = segment.files.values().find(is_out) {
            let path = path.display();
            tell(format!("{path}: left out, as when the run was begun"));
            continue;
        }
        match read_log(log, camera) {
            Ok(drive) => {
                logs.drives.push(drive);
                logs.segments.push(Recorded {
                    log: log.to_owned(),
                    video: video.to_owned(),
                    name: segment.name,
                });
            }
            // The others go on, but not in a run that was begun with it.
            Err(why) if known.is_none() => {
                tell(format!("left out: {}", with_causes(&why)));
                logs.left_out.push(log.to_owned());
                first.get_or_insert(why);
            }
            Err(why) => return Err(why.into()),
        }
    }
    bar.finish_and_clear();
    let folder = folder.display();
    match (first, logs.drives.is_empty()) {
        (_, false) => Ok(logs),
        (Some(first), true) => Err(NoneLeft {
            folder: folder.to_string(),
            first,
        }
        .into()),
        (None, true) if known.is_some() => Err(format!(
            "no drive below `{folder}` is left of those that the run was begun with"
        )
        .into()),
        (None, true) => usage(&format!(
            "--data: no drive below `{folder}` has a log and that camera's video (--camera)"
        )),
    }
}

/// Every log is left out, and the first one's reason.
#[derive(Debug)]
struct NoneLeft {
    folder: String,
    first: About,
}

impl std::fmt::Display for NoneLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no log below `{}` can be read", self.folder)
    }
}

impl Error for NoneLeft {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.first)
    }
}

/// What a log says, if it says anything of the camera's frames.
fn read_log(log: &Path, camera: Camera) -> Result<Drive, About> {
    let drive = Drive::read(&mut LogReader::open(log).map_err(about(log))?);
    if !drive.frames_of(camera).is_empty() {
        if let Some(ended) = &drive.ended {
            let log = log.display();
            tell(format!("{log}: {ended}; what stands before is taken"));
        }
        return Ok(drive);
    }
    Err(match drive.ended {
        // What the system says of the file is a cause; what its bytes lack is not.
        Some(LogError::Read { source, .. }) if source.raw_os_error().is_some() => {
            about(log)(source)
        }
        Some(ended) => about(log)(ended.to_string()),
        None if drive.span.is_none() => about(log)("it has no events"),
        None => about(log)("it tells of no frames of that camera"),
    })
}
