//! Recordings of posed looks.

use serde_json::Value;

use super::super::super::posed::look;
use super::*;

/// A folder that goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("spark-anomalies-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let mut all = recordings_in(&self.0).unwrap();
        all.sort();
        let name = |(path, _): (PathBuf, u64)| path.file_name()?.to_str().map(str::to_owned);
        all.into_iter().filter_map(name).collect()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.0.join(name)).unwrap();
        assert!(text.ends_with('\n'));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}

const MINUTE: u64 = 60_000;

#[test]
fn the_minutes_before_and_the_moments_after_are_there_when_a_limit_was_crossed() {
    let folder = Folder::new("whole");
    let mut recordings = Recordings::of(&folder.0);
    for second in 0..400 {
        recordings.take(&look(second * 1000, 50_000));
    }
    assert_eq!(folder.names(), [""; 0]);
    recordings.take(&look(400_000, 100));
    // It is on the disk at once: the machine may freeze now.
    let name = "anomaly-20260301T071149.040Z.jsonl";
    assert_eq!(folder.names(), [name]);
    let lines = folder.lines(name);
    assert_eq!(lines[0]["schema"], "sparkpilot-anomaly/1");
    assert_eq!(lines[0]["crossed"][0]["limit"], "low_memory");
    assert_eq!(
        lines[0]["crossed"][0]["words"],
        "100 MiB available, below 8192"
    );
    assert_eq!(lines.len(), 302, "five minutes before, and the look itself");
    assert_eq!(
        (&lines[1]["at_ms"], &lines[301]["at_ms"]),
        (&100_000.into(), &400_000.into())
    );
    for second in 401..500 {
        recordings.take(&look(second * 1000, 100));
        let n_after = usize::try_from(second - 400).unwrap().min(30);
        assert_eq!(
            folder.lines(name).len(),
            302 + n_after,
            "each is on the disk"
        );
    }
    assert_eq!(folder.names(), [name]);
    assert!(
        recordings.words().contains("low_memory: recorded in"),
        "{}",
        recordings.words()
    );
}

#[test]
fn a_limit_that_is_crossed_again_and_again_is_recorded_once_in_five_minutes() {
    let folder = Folder::new("rate");
    let mut recordings = Recordings::of(&folder.0);
    for second in 0..16 * 60 {
        // Well for twenty seconds, in trouble for ten.
        let available = if second % 30 < 20 { 50_000 } else { 100 };
        recordings.take(&look(second * 1000, available));
    }
    let names = folder.names();
    assert!((3..=4).contains(&names.len()), "{names:?}");
}

#[test]
fn a_crossing_while_one_is_recorded_stands_in_the_same_file() {
    let folder = Folder::new("both");
    let mut recordings = Recordings::of(&folder.0);
    recordings.take(&look(0, 100));
    recordings.take(&look(1000, 50_000));
    recordings.take(&look(12_000, 100));
    let names = folder.names();
    assert_eq!(names.len(), 1);
    let lines = folder.lines(&names[0]);
    let schemas: Vec<_> = lines
        .iter()
        .map(|line| line["schema"].as_str().unwrap())
        .collect();
    let (anomaly, monitor) = ("sparkpilot-anomaly/1", "sparkpilot-monitor/1");
    assert_eq!(schemas, [anomaly, monitor, monitor, anomaly, monitor]);
}

#[test]
fn memory_and_folder_are_bounded() {
    let folder = Folder::new("bounds");
    let line = look(0, 1).to_json().len() + 1;
    let bounds = Bounds {
        ring_bytes: 10 * line + line / 2,
        after_bytes: 3 * line,
        n_files: 3,
        folder_bytes: 1 << 20,
    };
    let mut recordings = Recordings::within(&folder.0, bounds);
    // Other names are somebody's, however alike.
    let others = [
        "anomaly-of-somebody.txt",
        "anomaly-1-notes.jsonl",
        "anomaly-2020-01-01T00-00-01Z.jsonl",
    ];
    for name in others {
        fs::write(folder.0.join(name), "kept").unwrap();
    }
    for n in 0..6 {
        let begin = n * 10 * MINUTE;
        for at in 0..100 {
            recordings.take(&look(begin + at, 50_000));
            assert!(recordings.ring_bytes <= bounds.ring_bytes);
        }
        for at in 0..100 {
            recordings.take(&look(begin + 100 + at, 100));
        }
    }
    let names = folder.names();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        names[2].starts_with("anomaly-20260301T0755"),
        "the newest stay: {names:?}"
    );
    for name in &names {
        let n_lines = folder.lines(name).len();
        assert!((11..=15).contains(&n_lines), "{n_lines}");
    }
    for name in others {
        assert!(folder.0.join(name).exists(), "{name}");
    }
    // By bytes too, but for the newest.
    let mut small = Recordings::within(
        &folder.0,
        Bounds {
            folder_bytes: 1,
            ..bounds
        },
    );
    small.take(&look(600 * MINUTE, 100));
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_said_and_tried_again() {
    let folder = Folder::new("refused");
    // A file in the place of the folder.
    fs::remove_dir(&folder.0).unwrap();
    fs::write(&folder.0, "a file").unwrap();
    let mut recordings = Recordings::of(&folder.0);
    recordings.take(&look(0, 100));
    assert!(
        recordings.words().contains("low_memory: not recorded"),
        "{}",
        recordings.words()
    );
    recordings.take(&look(1000, 100));
    fs::remove_file(&folder.0).unwrap();
    recordings.take(&look(2000, 100));
    assert!(
        !folder.0.exists(),
        "not yet: a disk in trouble is not asked at every look"
    );
    recordings.take(&look(11_000, 100));
    let names = folder.names();
    assert_eq!(
        names,
        ["anomaly-20260301T070509.040Z.jsonl"],
        "by the time it was crossed"
    );
    assert_eq!(folder.lines(&names[0]).len(), 5, "with what came meanwhile");
}
