//! What is written where, and what is refused.

use super::*;

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A named pipe, made by the program that everybody has.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    path
}

#[test]
fn devices_folders_and_pipes_are_not_read() {
    let folder = folder();
    let pipe = pipe(folder.path());
    for path in [Path::new("/dev/zero"), Path::new("/"), &pipe] {
        let error = read(path).expect_err("no regular file");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
    }
    let missing = read(&folder.path().join("missing")).expect_err("nothing there");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_is_made_and_replaced_whole() {
    let folder = folder();
    let path = folder.path().join("report.txt");
    for text in ["one", "another one", ""] {
        write(&path, text).expect("written");
        assert_eq!(read(&path).expect("read"), text.as_bytes());
    }
    assert_eq!(names(folder.path()), ["report.txt"]);
}

#[test]
fn a_writer_that_fails_leaves_the_old_file_and_nothing_else() {
    let folder = folder();
    let path = folder.path().join("report.txt");
    write(&path, "old").expect("written");
    let failed = write_with(&path, |out| {
        out.write_all(b"half of the new")?;
        Err(io::Error::other("no more"))
    });
    assert_eq!(failed.expect_err("the writer's").to_string(), "no more");
    assert_eq!(read(&path).expect("read"), b"old");
    assert_eq!(names(folder.path()), ["report.txt"]);
}

#[test]
fn a_place_is_checked_without_a_trace_and_as_writing_finds_it() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write(&path("taken"), "kept").expect("written");
    write(&path("locked"), "kept").expect("written");
    fs::set_permissions(path("locked"), fs::Permissions::from_mode(0o400)).expect("mine");
    fs::create_dir(path("inside")).expect("made");
    for (link, target) in [
        ("circle", "circle"),
        ("to_folder", "inside"),
        ("to_nowhere", "missing/file"),
        ("to_new", "inside/new"),
    ] {
        symlink(target, path(link)).expect("linked");
    }
    let (longest, too_long) = ("n".repeat(255), "n".repeat(256));
    let before = names(folder.path());
    for (name, is_good) in [
        ("new", true),
        ("taken", true),
        ("to_new", true),
        (&longest, true),
        (&too_long, false),
        ("inside", false),
        ("missing/new", false),
        ("taken/new", false),
        ("circle", false),
        ("to_folder", false),
        ("to_nowhere", false),
    ] {
        assert_eq!(check(&path(name)).is_ok(), is_good, "{name}");
    }
    // A superuser may write what nobody may.
    let locked = File::options().append(true).open(path("locked")).is_ok();
    assert_eq!(check(&path("locked")).is_ok(), locked);
    assert_eq!(names(folder.path()), before);
    assert_eq!(read(&path("taken")).expect("read"), b"kept");
}

#[test]
fn a_link_stays_and_the_file_behind_it_is_replaced() {
    let folder = folder();
    let (link, inner) = (folder.path().join("link"), folder.path().join("inner"));
    fs::create_dir(&inner).expect("made");
    let file = inner.join("file");
    write(&file, "old").expect("written");
    symlink("inner/file", &link).expect("linked");
    write(&link, "new").expect("written");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(read(&file).expect("read"), b"new");

    let dangling = folder.path().join("dangling");
    symlink("inner/later", &dangling).expect("linked");
    write(&dangling, "made").expect("written");
    assert_eq!(read(&inner.join("later")).expect("read"), b"made");
    assert_eq!(names(&inner), ["file", "later"]);
}

/// A cache is the program's: what somebody else put there is not waited for.
#[test]
fn pipes_and_links_are_replaced_where_that_is_asked_for() {
    let folder = folder();
    let target = folder.path().join("target");
    fs::write(&target, "kept").unwrap();
    let link = folder.path().join("link");
    symlink(&target, &link).unwrap();
    let pipe = pipe(folder.path());
    for path in [&pipe, &link] {
        replace_with(path, |out| out.write_all(b"new")).expect("a folder that can be written to");
        assert!(fs::symlink_metadata(path).unwrap().is_file());
        assert_eq!(read(path).unwrap(), b"new");
    }
    assert_eq!(read(&target).unwrap(), b"kept");
    assert_eq!(names(folder.path()), ["link", "pipe", "target"]);
}

#[test]
fn links_in_a_circle_are_an_error() {
    let folder = folder();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    symlink(&b, &a).expect("linked");
    symlink(&a, &b).expect("linked");
    let error = write(&a, "x").expect_err("no end").to_string();
    assert!(error.contains("circle"), "{error}");
}

#[test]
fn permissions_stay_and_new_files_have_those_of_any_other() {
    let folder = folder();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let path = folder.path().join("secret");
    write(&path, "old").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    write(&path, "new").expect("written");
    assert_eq!(mode(&path), 0o640);

    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    write(&ours, "x").expect("written");
    fs::write(&theirs, "x").expect("written");
    assert_eq!(mode(&ours), mode(&theirs));
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    let folder = folder();
    let pipe = pipe(folder.path());
    let reader = Command::new("cat")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    write(&pipe, "through").expect("written");
    let output = reader.wait_with_output().expect("cat ends");
    assert_eq!(output.stdout, b"through");
    assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
}

#[test]
fn a_stream_that_is_open_already_is_written_to_by_its_number() {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let number = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
    check(&number).expect("a stream");
    write(&number, "through").expect("written");
    drop(writer);
    let mut through = String::new();
    reader.read_to_string(&mut through).expect("read");
    assert_eq!(through, "through");
    // Nothing is open by this number.
    assert!(write(Path::new("/dev/fd/999999"), "nowhere").is_err());
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    let folder = folder();
    // By a link, so that a fault would replace that and not the machine's device.
    let link = folder.path().join("null");
    symlink("/dev/null", &link).expect("linked");
    write(&link, "nowhere").expect("written");
    let metadata = fs::metadata("/dev/null").expect("there");
    assert!(metadata.file_type().is_char_device());
    assert_eq!(names(folder.path()), ["null"]);
    let full = folder.path().join("full");
    symlink("/dev/full", &full).expect("linked");
    let error = write(&full, "too much").expect_err("full");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn places_that_cannot_be_written_to_are_errors_in_the_systems_words() {
    let folder = folder();
    let error = write(folder.path(), "x").expect_err("a folder");
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    let error = write(&folder.path().join("missing/file"), "x").expect_err("no folder");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn names_as_long_as_names_may_be_can_be_replaced() {
    let folder = folder();
    let path = folder.path().join("n".repeat(255));
    write(&path, "long").expect("written");
    assert_eq!(read(&path).expect("read"), b"long");
}

/// A file that was last written to so long ago.
fn aged(path: &Path, seconds: u64) {
    let file = File::options().append(true).create(true).open(path);
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    file.and_then(|file| file.set_modified(time)).expect("mine");
}

const OLD: u64 = 3700;

fn is_code(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".code"))
}

#[test]
fn old_temporary_files_of_ones_own_are_removed_and_nothing_else() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    for name in [".a.code.AbC123.tmp", ".b.c.code.zzzzzz.tmp"] {
        aged(&path(name), OLD);
    }
    let mut others = vec![
        "a.code",
        "a.code.AbC123.tmp",
        ".a.code.AbC12.tmp",
        ".a.code.AbC1234.tmp",
        ".a.code.AbC-12.tmp",
        ".a.code.AbC123.tmp~",
        ".a.code.tmp",
        "..AbC123.tmp",
        ".AbC123.tmp",
        ".a.text.AbC123.tmp",
        ".code.AbC123.tmp.swp",
    ];
    for name in &others {
        aged(&path(name), OLD);
    }
    aged(&path(".young.code.AbC123.tmp"), 3500);
    let tomorrow = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    let from_tomorrow = File::create(path(".later.code.AbC123.tmp"));
    from_tomorrow
        .and_then(|file| file.set_modified(tomorrow))
        .expect("mine");
    fs::create_dir(path(".folder.code.AbC123.tmp")).expect("made");
    symlink("a.code", path(".link.code.AbC123.tmp")).expect("linked");
    others.extend([
        ".young.code.AbC123.tmp",
        ".later.code.AbC123.tmp",
        ".folder.code.AbC123.tmp",
        ".link.code.AbC123.tmp",
    ]);
    others.sort_unstable();
    assert_eq!(
        remove_leftovers(folder.path(), is_code).expect("a folder"),
        2
    );
    assert_eq!(names(folder.path()), others);
    assert!(remove_leftovers(&path("missing"), is_code).is_err());
}

/// A process that was stopped for hours, or writes that long, gets what it has written.
#[test]
fn a_file_that_is_being_written_is_not_left_behind_however_old() {
    let folder = folder();
    let path = folder.path().join("a.code");
    write_with(&path, |out| {
        out.write_all(b"half")?;
        let [name] = &names(folder.path())[..] else {
            panic!("the temporary file");
        };
        aged(&folder.path().join(name), OLD);
        assert_eq!(remove_leftovers(folder.path(), is_code)?, 0);
        out.write_all(b" and half")
    })
    .expect("written");
    assert_eq!(read(&path).expect("read"), b"half and half");
}

/// What a process leaves that is killed while it writes.
#[test]
fn what_was_being_written_by_the_dead_is_removed() {
    let folder = folder();
    let temporary = temporary_file(&folder.path().join("a.code")).expect("made");
    let (file, path) = temporary.keep().expect("kept");
    let age = |file: &File| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(OLD);
        file.set_modified(time).expect("mine");
    };
    age(&file);
    assert_eq!(
        remove_leftovers(folder.path(), is_code).expect("a folder"),
        0
    );
    drop(file); // as the end of a process does
    assert_eq!(
        remove_leftovers(folder.path(), is_code).expect("a folder"),
        1
    );
    assert!(!path.exists());
}

#[test]
fn a_large_folder_is_looked_at_in_part() {
    let folder = folder();
    for idx in 0..10_200 {
        File::create(folder.path().join(format!(".{idx}.code.AbC123.tmp"))).expect("made");
    }
    for idx in 0..10_200 {
        aged(&folder.path().join(format!(".{idx}.code.AbC123.tmp")), OLD);
    }
    let removed = |_: usize| remove_leftovers(folder.path(), is_code).expect("a folder");
    let removed: Vec<usize> = (0..3).map(removed).collect();
    assert_eq!(removed, [10_000, 200, 0]);
}

/// A folder that is made later, and a link whose end is not there yet.
#[test]
fn outputs_clash_in_folders_that_are_not_there_yet() {
    let folder = folder();
    let new = folder.path().join("new");
    let (model, again) = (new.join("model"), new.join("sub/../model"));
    assert!(clash([], [&*model, &*again]).is_some());
    assert!(clash([], [&*new, &*new.join("other/..")]).is_some());
    assert!(clash([], [&*model, &*new.join("other")]).is_none());
    let link = folder.path().join("link");
    symlink("new/model", &link).expect("a link");
    assert!(clash([], [&*model, &*link]).is_some());
    let round = folder.path().join("round");
    symlink("round", &round).expect("a link");
    assert!(clash([], [&*model, &*round]).is_none());
}
