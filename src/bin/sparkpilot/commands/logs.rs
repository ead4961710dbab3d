//! `sparkpilot logs`: what is in a folder of recorded drives?

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::{
    Pulse, Usage, about, file_ending_in, output, place, printable, progress, tell,
};
use sparkpilot::data::drive::{Camera, Drive};
use sparkpilot::data::log::{LogError, LogReader};
use sparkpilot::data::route::{Segment, SegmentFile, find_segments};

/// Say what is in recorded drives: segments, events, speed, cameras, and where a log is broken
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot logs drives/\n  \
    sparkpilot logs drives/a2a0ccea32023010_2023-07-27--13-01-19--0/qlog.bz2 --picture speed.svg\n  \
    sparkpilot logs drives/ --json > drives.json\n\n\
    The exit code is 1 if a log is not whole.")]
pub(crate) struct Arguments {
    /// A folder with segments below it, or a log
    path: PathBuf,
    /// Print it as JSON (schema spark-data/drives/1)
    #[arg(long)]
    json: bool,
    /// Print how many events of each kind there are
    #[arg(long, conflicts_with = "json")]
    events: bool,
    /// Draw the speed of the first segment that has one: SVG
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["svg"]))]
    picture: Option<PathBuf>,
}

/// Reads every log and prints what is in it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(picture) = &arguments.picture {
        if output::is_stdout(picture) {
            return Err(Usage("--picture: stdout has the words; name a file".to_owned()).into());
        }
        output::keep_apart([arguments.path.as_path()], [picture.as_path()])?;
        place::file(picture)?;
    }
    let logs = logs(&arguments.path)?;
    let read = logs.iter().map(|(_, path, _)| path.as_path());
    output::keep_apart(read, arguments.picture.as_deref())?;
    let bar = progress(Some(logs.len() as u64)).with_message("logs");
    let pulse = Pulse::of(&bar);
    let (mut rows, mut picture, mut n_broken) = (Vec::new(), None, 0);
    for (name, path, videos) in &logs {
        let mut log = LogReader::open(path).map_err(about(path))?;
        let drive = Drive::read(&mut log);
        if let (Some(error @ LogError::NoMessage { events: 0, .. }), false) =
            (&drive.ended, arguments.path.is_dir())
        {
            return Err(about(path)(format!("it is no log: {error}")).into());
        }
        n_broken += usize::from(drive.ended.is_some() || drive.n_broken > 0);
        picture = picture.or_else(|| {
            arguments
                .picture
                .as_ref()
                .and_then(|_| drive.speed_picture())
        });
        rows.push(if arguments.json {
            as_json(name, path, &log, &drive, videos)
        } else {
            // Not by `println!`, which would panic on a full disk while the bar is held.
            let text = as_text(name, &drive, arguments.events, videos);
            bar.suspend(|| std::io::stdout().write_all(text.as_bytes()))?;
            Value::Null
        });
        bar.inc(1);
    }
    drop(pulse);
    bar.finish_and_clear();
    if arguments.json {
        println!(
            "{:#}",
            json!({ "schema": "spark-data/drives/1", "segments": rows })
        );
    }
    if let Some(file) = &arguments.picture {
        let picture = picture.ok_or("no segment has speeds to draw")?;
        output::write(file, picture.finish().as_bytes())?;
    }
    if n_broken > 0 {
        let n_logs = logs.len();
        tell(format_args!(
            "error: {n_broken} of {n_logs} logs are not whole"
        ));
    }
    Ok(ExitCode::from(u8::from(n_broken > 0)))
}

/// A segment: its name, its log, and its videos; of a log alone nobody has looked for any.
type Found = (String, PathBuf, Option<Vec<PathBuf>>);

fn logs(path: &Path) -> Result<Vec<Found>, Box<dyn Error>> {
    if !path.is_dir() {
        return Ok(vec![(path.display().to_string(), path.to_owned(), None)]);
    }
    let logs = |segment: Segment| {
        let videos = VIDEOS.iter().filter_map(|kind| segment.file(*kind));
        let videos = videos.map(Path::to_owned).collect();
        Some((
            segment.name.to_string(),
            segment.log()?.to_owned(),
            Some(videos),
        ))
    };
    let logs: Vec<Found> = find_segments(path)?.into_iter().filter_map(logs).collect();
    match logs.is_empty() {
        true => Err(format!("the segments below `{}` have no logs", path.display()).into()),
        false => Ok(logs),
    }
}

const VIDEOS: [SegmentFile; 4] = [
    SegmentFile::Fcamera,
    SegmentFile::Ecamera,
    SegmentFile::Dcamera,
    SegmentFile::Qcamera,
];

const CAMERAS: [(Camera, &str); 4] = [
    (Camera::Road, "road"),
    (Camera::WideRoad, "wide road"),
    (Camera::Driver, "driver"),
    (Camera::RoadPreview, "road preview"),
];

/// A line of a text. Writing to a string does not fail.
macro_rules! line {
    ($text:expr, $($words:tt)*) => {{
        let _ = writeln!($text, $($words)*);
    }};
}

fn as_text(name: &str, drive: &Drive, with_events: bool, videos: &Option<Vec<PathBuf>>) -> String {
    let mut text = String::new();
    let summary = drive.summary();
    line!(text, "{}", printable(name));
    line!(
        text,
        "  {} events in {:.1} s",
        summary.events,
        summary.duration_s
    );
    match summary.speed {
        Some([least, mean, most]) => line!(
            text,
            "  speed {least:.1} to {most:.1} m/s, {mean:.1} in the mean; {:.2} km",
            summary.distance_m / 1e3
        ),
        None => line!(text, "  no speeds"),
    }
    if let Some(engaged) = summary.engaged {
        line!(
            text,
            "  openpilot drove {:.0} % of the time",
            engaged * 100.0
        );
    }
    let frames = CAMERAS.map(|(camera, name)| (name, drive.frames_of(camera).len()));
    let frames = frames
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {n}"));
    let frames = frames.collect::<Vec<_>>().join(", ");
    line!(
        text,
        "  frames: {}",
        if frames.is_empty() { "none" } else { &frames }
    );
    if let Some(videos) = videos {
        let names = videos.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        match names.is_empty() {
            true => line!(text, "  no video: labels without pictures"),
            false => line!(text, "  videos: {}", printable(&names.join(", "))),
        }
    }
    if with_events {
        for (name, count) in &drive.counts {
            line!(text, "  {count:8} {name}");
        }
    }
    if drive.n_broken > 0 {
        line!(text, "  {} broken values were left out", drive.n_broken);
    }
    if let Some(ended) = &drive.ended {
        line!(text, "  not whole: {ended}");
    }
    text
}

fn as_json(
    name: &str,
    path: &Path,
    log: &LogReader<'_>,
    drive: &Drive,
    videos: &Option<Vec<PathBuf>>,
) -> Value {
    let videos = videos.as_ref().map(|videos| {
        let paths = videos.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>()
    });
    let summary = drive.summary();
    let frames = CAMERAS
        .map(|(camera, name)| (name.replace(' ', "_"), drive.frames_of(camera).len().into()));
    json!({
        "segment": name,
        "log": path.display().to_string(),
        "compression": format!("{:?}", log.compression()).to_lowercase(),
        "events": summary.events,
        "events_by_name": drive.counts,
        "duration_s": summary.duration_s,
        "speed_m_s": summary.speed.map(|[least, mean, most]| json!({ "min": least, "mean": mean, "max": most })),
        "distance_m": summary.distance_m,
        "engaged": summary.engaged,
        "videos": videos,
        "frames": frames.into_iter().collect::<serde_json::Map<String, Value>>(),
        "n_broken": summary.n_broken,
        "ended": drive.ended.as_ref().map(ToString::to_string),
    })
}
