//! Finding segments.

use std::fs;
use std::path::{Path, PathBuf};

use spark_data::route::{FindError, SegmentFile, find_segments};
use spark_testing::test_data;

/// A folder of files that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("spark-data-{name}-{}", std::process::id()));
        let folder = Self(folder);
        for file in files {
            let path = folder.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LOG: &str = "2023-07-27--13-01-19";
const DONGLE: &str = "a2a0ccea32023010";

#[test]
fn segments_are_sorted_by_number_and_files_chosen() {
    let files = [2, 10, 0].map(|n| format!("{DONGLE}/{LOG}/{n}/rlog.bz2"));
    let mut all: Vec<&str> = files.iter().map(String::as_str).collect();
    let better = format!("{DONGLE}/{LOG}/2/rlog.zst");
    let preview = format!("{DONGLE}/{LOG}/2/qcamera.ts");
    let (written, lock) = (
        format!("{DONGLE}/{LOG}/10/qlog"),
        format!("{DONGLE}/{LOG}/10/qlog.lock"),
    );
    all.extend([
        better.as_str(),
        &preview,
        &written,
        &lock,
        "notes/readme.txt",
    ]);
    let folder = Folder::new("sorted", &all);
    let segments = find_segments(folder.path()).unwrap();
    let numbers: Vec<u32> = segments.iter().map(|it| it.name.number).collect();
    assert_eq!(numbers, [0, 2, 10]);
    assert_eq!(segments[1].name.to_string(), format!("{DONGLE}|{LOG}--2"));
    assert!(segments[1].log().unwrap().ends_with("2/rlog.zst"));
    assert!(segments[1].file(SegmentFile::Qcamera).is_some());
    // What is still being written is not offered.
    assert_eq!(segments[2].file(SegmentFile::Qlog), None);
    assert_eq!(segments[2].locked.len(), 1);
}

#[test]
fn a_segment_that_is_there_twice_is_an_error() {
    let (one, other) = (
        format!("a/{DONGLE}|{LOG}--0/rlog"),
        format!("b/{DONGLE}/{LOG}/0/rlog.bz2"),
    );
    let folder = Folder::new("twice", &[&one, &other]);
    let error = find_segments(folder.path()).unwrap_err();
    assert!(matches!(error, FindError::Twice { .. }), "{error}");
}

#[test]
fn folders_without_segments_are_errors() {
    let folder = Folder::new("none", &["rlog.bz2", "3/rlog"]);
    assert!(matches!(
        find_segments(folder.path()),
        Err(FindError::None(_))
    ));
    let missing = find_segments(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, FindError::List { .. }), "{missing}");
}

#[test]
fn the_recorded_drive_is_found() {
    let Some(drives) = test_data("data/drive") else {
        return;
    };
    let segments = find_segments(&drives).unwrap();
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].name.to_string(), format!("{DONGLE}|{LOG}--0"));
    assert!(segments[0].log().unwrap().ends_with("qlog.bz2"));
    assert!(segments[0].file(SegmentFile::Qcamera).is_some());
}
