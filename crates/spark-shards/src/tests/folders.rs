//! Folders that are gone on with, by several processes too, and merged.

use std::fs;
use std::path::Path;

use super::run;
use crate::{
    Damage, Folder, Identity, Merge, Plan, Remedy, Run, Shard, ShardError, encode, file_name,
    is_chunk_name,
};

/// Computes what a shard still lacks; says how many chunks that were.
fn work(path: &Path, run: &Run, shard: &str) -> Result<usize, ShardError> {
    let (folder, found) = Folder::open(path, run)?;
    let shard: Shard = shard.parse()?;
    let mut n_computed = 0;
    for chunk in run.plan.chunks_of(shard) {
        if !found.done.contains(&chunk) {
            folder.write(chunk, &squares(run, chunk))?;
            n_computed += 1;
        }
    }
    Ok(n_computed)
}

fn squares(run: &Run, chunk: u64) -> Vec<u8> {
    let squares = run.plan.items(chunk).map(|item| item * item);
    squares.flat_map(u64::to_le_bytes).collect()
}

fn merged(folders: &[&Path]) -> Result<Vec<u8>, ShardError> {
    let payloads: Result<Vec<_>, _> = Merge::of(folders)?.payloads().collect();
    Ok(payloads?.concat())
}

fn all(n_items: u64) -> Vec<u8> {
    (0..n_items).flat_map(|i| (i * i).to_le_bytes()).collect()
}

#[test]
fn any_number_of_shards_comes_to_the_same_bytes() {
    let run = Run {
        plan: Plan::new(1003, 10).unwrap(),
        ..run()
    };
    for of in [1, 2, 3, 7, 64, 200] {
        let place = tempfile::tempdir().unwrap();
        for number in (1..=of).rev() {
            work(place.path(), &run, &format!("{number}/{of}")).unwrap();
        }
        assert_eq!(merged(&[place.path()]).unwrap(), all(1003), "{of} shards");
    }
}

#[test]
fn a_rerun_computes_what_is_missing_and_what_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    let (path, run) = (place.path(), run());
    assert_eq!(work(path, &run, "1/2").unwrap(), 2, "chunks 0 and 2");
    assert_eq!(
        work(path, &run, "1/1").unwrap(),
        1,
        "another number of shards"
    );
    assert_eq!(work(path, &run, "1/1").unwrap(), 0);
    let whole = fs::read(path.join(file_name(1))).unwrap();
    let mut flipped = whole.clone();
    flipped[70] ^= 4;
    let other_chunk = encode(&run, 2, &squares(&run, 2)).unwrap();
    let damages: [(&[u8], Damage); 5] = [
        (&whole[..whole.len() - 1], Damage::Checksum),
        (&whole[..20], Damage::Short { n_bytes: 20 }),
        (&[], Damage::Short { n_bytes: 0 }),
        (&flipped, Damage::Checksum),
        (&other_chunk, Damage::Name { number: 2 }),
    ];
    for (bytes, want) in damages {
        let file = path.join(file_name(1));
        fs::write(&file, bytes).unwrap();
        let refused = merged(&[path]).unwrap_err();
        let is_said = matches!(&refused, ShardError::Damaged { path, damage, n_more: 0, remedy: Remedy::RunAgain }
            if *path == file && *damage == want);
        assert!(is_said, "{refused}");
        let (_, found) = Folder::open(path, &run).unwrap();
        assert_eq!(found.damaged, [(file, want)]);
        assert_eq!(work(path, &run, "1/1").unwrap(), 1);
        assert_eq!(merged(&[path]).unwrap(), all(10));
    }
}

#[test]
fn a_folder_of_another_run_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    work(place.path(), &run(), "1/2").unwrap();
    let mut other = run();
    other.identity = Identity::new("squares")
        .with("program", "1.1")
        .with("of", "naturals");
    // The other shard: no chunk of its own is there.
    let refused = work(place.path(), &other, "2/2").unwrap_err().to_string();
    assert!(
        refused.contains("program: 1.1 here, 1.0 there"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    let beside = tempfile::tempdir().unwrap();
    work(beside.path(), &other, "2/2").unwrap();
    let refused = merged(&[place.path(), beside.path()]).unwrap_err();
    let told = refused.to_string();
    assert!(matches!(refused, ShardError::Disagree { .. }), "{told}");
    let words = "(program: 1.1 in the former, 1.0 in the latter)";
    assert!(told.contains(words), "{told}");
}

#[test]
fn a_damaged_file_that_no_shard_would_write_anew_is_refused_until_it_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let (path, run) = (place.path(), run());
    work(path, &run, "1/1").unwrap();
    let whole = fs::read(path.join(file_name(1))).unwrap();
    // The run has chunks 0 to 2.
    for (number, bytes) in [(3, &b"junk"[..]), (77, &whole), (u64::MAX, &[])] {
        let file = path.join(file_name(number));
        fs::write(&file, bytes).unwrap();
        for refused in [
            Folder::open(path, &run).unwrap_err(),
            merged(&[path]).unwrap_err(),
        ] {
            let told = refused.to_string();
            assert!(told.contains(&file_name(number)), "{told}");
            assert!(
                told.ends_with("the run has chunks 0 to 2: remove it"),
                "{told}"
            );
        }
        assert_eq!(fs::read(&file).unwrap(), bytes, "it is left alone");
        // Whose run it is not has nothing to remove.
        let other = Run {
            plan: Plan::new(8, 4).unwrap(),
            ..run.clone()
        };
        let refused = Folder::open(path, &other).unwrap_err();
        assert!(matches!(refused, ShardError::Foreign { .. }), "{refused}");
        fs::remove_file(&file).unwrap();
        assert_eq!(merged(&[path]).unwrap(), all(10));
    }
    let file = path.join(file_name(1));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for refused in [
        Folder::open(path, &run).unwrap_err(),
        merged(&[path]).unwrap_err(),
    ] {
        let told = refused.to_string();
        assert!(
            told.ends_with("it is a folder; remove it, and run its shard again"),
            "{told}"
        );
    }
    fs::remove_dir(&file).unwrap();
    assert_eq!(work(path, &run, "1/1").unwrap(), 1);
    assert_eq!(merged(&[path]).unwrap(), all(10));
}

#[test]
fn of_two_runs_that_begin_at_once_the_later_one_finds_the_other() {
    let place = tempfile::tempdir().unwrap();
    let mut other = run();
    other.identity = other.identity.with("model", "m");
    let (folder, _) = Folder::open(place.path(), &run()).unwrap();
    let (beside, _) = Folder::open(place.path(), &other).unwrap();
    // Different shards, so that neither writes where the other does.
    folder.write(0, b"results").unwrap();
    folder.look_again().unwrap();
    beside.write(1, b"results").unwrap();
    for (folder, words) in [
        (&folder, "model: nothing here, m there"),
        (&beside, "model: m here, nothing there"),
    ] {
        let refused = folder.look_again().unwrap_err();
        assert!(matches!(refused, ShardError::Foreign { .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // What is half there, as on a file system that shows files early, is for whoever opens the folder.
    fs::write(place.path().join(file_name(1)), b"SPKSHARD").unwrap();
    folder.look_again().unwrap();
}

#[test]
fn names_of_chunks_are_known_behind_links_too() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for (name, is_one) in [
        ("chunk-00000007.shard", true),
        ("chunk-123456789.shard", true),
        ("chunk-7.shard", false),
        ("drives.json", false),
        ("", false),
    ] {
        assert_eq!(is_chunk_name(&at(name)), is_one, "{name}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("second.json", at("first.json")).unwrap();
        // Nothing lies there yet.
        symlink("chunk-00000007.shard", at("second.json")).unwrap();
        symlink("round.json", at("round.json")).unwrap();
        assert!(is_chunk_name(&at("first.json")) && is_chunk_name(&at("second.json")));
        assert!(!is_chunk_name(&at("round.json")));
    }
}

#[test]
fn chunks_of_a_newer_format_are_neither_written_over_nor_merged() {
    use sha2::{Digest as _, Sha256};
    let place = tempfile::tempdir().unwrap();
    let mut bytes = encode(&run(), 0, b"").unwrap();
    bytes.truncate(bytes.len() - 32);
    bytes[8] = 2;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    fs::write(place.path().join(file_name(0)), &bytes).unwrap();
    let refused = [
        work(place.path(), &run(), "1/1").unwrap_err(),
        merged(&[place.path()]).unwrap_err(),
    ];
    for error in refused {
        assert!(
            matches!(error, ShardError::Format { format: 2, .. }),
            "{error}"
        );
    }
    assert_eq!(fs::read(place.path().join(file_name(0))).unwrap(), bytes);
}

#[test]
fn gaps_are_named() {
    let place = tempfile::tempdir().unwrap();
    let run = Run {
        plan: Plan::new(100, 2).unwrap(),
        ..run()
    };
    let refused = merged(&[place.path()]).unwrap_err();
    assert!(matches!(refused, ShardError::Nothing { .. }), "{refused}");
    work(place.path(), &run, "3/7").unwrap();
    let refused = merged(&[place.path()]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "43 of 50 chunks are missing: 0 to 1, 3 to 8, 10 to 15, 17 to 22, 24 to 29, 31 to 36, 38 to 43, 45 to 49"
    );
    work(place.path(), &run, "1/2").unwrap();
    let refused = merged(&[place.path()]).unwrap_err().to_string();
    assert!(
        refused.ends_with("1, 3, 5, 7, 11, 13, 15, 17 and 14 more"),
        "{refused}"
    );
    let absent = place.path().join("absent");
    assert!(matches!(merged(&[&absent]), Err(ShardError::Io { .. })));
}

#[test]
fn a_run_of_more_chunks_than_memory_holds_has_gaps_and_no_list_of_them() {
    let place = tempfile::tempdir().unwrap();
    let run = Run {
        plan: Plan::new(u64::MAX, 1).unwrap(),
        ..run()
    };
    let (folder, _) = Folder::open(place.path(), &run).unwrap();
    folder.write(u64::MAX - 1, b"the last one").unwrap();
    let refused = merged(&[place.path()]).unwrap_err().to_string();
    assert!(
        refused.contains("18446744073709551614 of 18446744073709551615"),
        "{refused}"
    );
}

#[test]
fn a_chunk_in_two_folders_must_be_the_same() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = run();
    work(one.path(), &run, "1/1").unwrap();
    work(two.path(), &run, "2/2").unwrap();
    assert_eq!(merged(&[one.path(), two.path()]).unwrap(), all(10));
    let other = encode(&run, 1, b"something else").unwrap();
    fs::write(two.path().join(file_name(1)), other).unwrap();
    let refused = merged(&[one.path(), two.path()]).unwrap_err();
    assert!(
        matches!(refused, ShardError::Overlap { number: 1, .. }),
        "{refused}"
    );
}

#[test]
fn a_chunk_that_changes_between_checking_and_reading_is_refused() {
    let place = tempfile::tempdir().unwrap();
    work(place.path(), &run(), "1/1").unwrap();
    let merge = Merge::of(&[place.path()]).unwrap();
    let other = encode(&run(), 2, b"something else").unwrap();
    fs::write(place.path().join(file_name(2)), other).unwrap();
    let payloads: Vec<_> = merge.payloads().collect();
    assert!(payloads[1].is_ok());
    assert!(matches!(payloads[2], Err(ShardError::Changed { .. })));
}

#[test]
fn whole_chunks_are_not_written_over() {
    let place = tempfile::tempdir().unwrap();
    let mut other = run();
    other.identity = other.identity.with("model", "m");
    // Both began in an empty folder.
    let (folder, _) = Folder::open(place.path(), &run()).unwrap();
    let (beside, _) = Folder::open(place.path(), &other).unwrap();
    folder.write(0, b"results").unwrap();
    let file = place.path().join(file_name(0));
    let written = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap());
    folder.write(0, b"results").unwrap();
    let refused = beside.write(0, b"results").unwrap_err();
    assert!(matches!(refused, ShardError::Foreign { .. }), "{refused}");
    assert!(refused.to_string().contains("model: m here, nothing there"));
    let refused = folder.write(0, b"other results").unwrap_err();
    assert!(matches!(refused, ShardError::Unlike { .. }), "{refused}");
    let now = fs::metadata(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), written.0);
    assert_eq!(now.modified().unwrap(), written.1.modified().unwrap());
    fs::write(&file, b"damaged").unwrap();
    folder.write(0, b"other results").unwrap();
}

/// Whoever is told that a chunk is written finds it there, however many write it at once.
#[test]
fn of_processes_that_write_one_chunk_at_once_one_is_told() {
    let mut other = run();
    other.identity = other.identity.with("model", "m");
    for _ in 0..50 {
        let place = tempfile::tempdir().unwrap();
        let [folder, beside] =
            [&run(), &other].map(|run| Folder::open(place.path(), run).unwrap().0);
        let writers: [(&Folder, &[u8]); 4] = [
            (&folder, b"results"),
            (&folder, b"unlike"),
            (&beside, b"results"),
            (&beside, b"unlike"),
        ];
        let told: Vec<bool> = std::thread::scope(|scope| {
            let write = |(folder, payload): (&'_ Folder, &'_ [u8])| folder.write(0, payload);
            let threads = writers.map(|writer| scope.spawn(move || write(writer)));
            threads
                .into_iter()
                .map(|it| it.join().unwrap().is_ok())
                .collect()
        });
        assert_eq!(told.iter().filter(|&&is_ok| is_ok).count(), 1, "{told:?}");
        let file = fs::read(place.path().join(file_name(0))).unwrap();
        let winner = told.iter().position(|&is_ok| is_ok).unwrap();
        let run = if winner < 2 { &run() } else { &other };
        assert_eq!(file, encode(run, 0, writers[winner].1).unwrap());
    }
}

#[test]
fn what_killed_processes_and_people_leave_is_no_chunk() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let bytes = encode(&run(), 0, b"half").unwrap();
    for name in [
        ".chunk-00000000.shard.aB3dE5.tmp",
        "chunk-00000000.shard.bak",
        "chunk-0.shard",
        "notes.txt",
    ] {
        fs::write(path.join(name), &bytes[..bytes.len() / 2]).unwrap();
    }
    work(path, &run(), "1/1").unwrap();
    assert_eq!(merged(&[path]).unwrap(), all(10));
    assert_eq!(
        fs::read_dir(path).unwrap().count(),
        3 + 4,
        "all of it is new, or not ours"
    );
    // An hour later what the killed process left goes, and nothing else.
    let left = path.join(".chunk-00000000.shard.aB3dE5.tmp");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 60 * 60);
    for entry in fs::read_dir(path).unwrap() {
        let file = fs::File::options().append(true).open(entry.unwrap().path());
        file.unwrap().set_modified(old).unwrap();
    }
    work(path, &run(), "1/1").unwrap();
    assert!(!left.exists());
    assert_eq!(fs::read_dir(path).unwrap().count(), 3 + 3);
}

#[cfg(unix)]
#[test]
fn pipes_and_folders_in_the_place_of_chunks_neither_hang_nor_pass() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join(file_name(0));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let (_, found) = Folder::open(place.path(), &run()).unwrap();
    assert_eq!(found.damaged, [(pipe.clone(), Damage::NotRegular)]);
    // It is replaced, as any damaged chunk is.
    assert_eq!(work(place.path(), &run(), "1/1").unwrap(), 3);
    assert_eq!(merged(&[place.path()]).unwrap(), all(10));
    // So are links to nothing, to a folder and to themselves.
    for target in ["absent", ".", "chunk-00000000.shard"] {
        fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink(target, &pipe).unwrap();
        let refused = merged(&[place.path()]).unwrap_err().to_string();
        assert!(
            refused.contains("no regular file; run its shard"),
            "{refused}"
        );
        let (_, found) = Folder::open(place.path(), &run()).unwrap();
        assert_eq!(found.damaged, [(pipe.clone(), Damage::NotRegular)]);
        assert_eq!(work(place.path(), &run(), "1/1").unwrap(), 1);
        assert_eq!(merged(&[place.path()]).unwrap(), all(10));
    }
    // A folder that comes later than the look at its place is not replaced.
    let (folder, _) = Folder::open(place.path(), &run()).unwrap();
    fs::remove_file(&pipe).unwrap();
    fs::create_dir(&pipe).unwrap();
    let refused = folder.write(0, b"").unwrap_err();
    assert!(matches!(refused, ShardError::Unwritten { .. }), "{refused}");
    assert!(
        refused.to_string().starts_with("cannot write `"),
        "{refused}"
    );
    // More bytes than any chunk are not read.
    fs::remove_dir(&pipe).unwrap();
    let file = fs::File::create(&pipe).unwrap();
    file.set_len(1 << 40).unwrap();
    let (_, found) = Folder::open(place.path(), &run()).unwrap();
    assert_eq!(found.damaged, [(pipe, Damage::Long { n_bytes: 1 << 40 })]);
}

#[test]
fn threads_that_write_and_read_one_folder_at_once_see_whole_chunks() {
    let place = tempfile::tempdir().unwrap();
    let run = Run {
        plan: Plan::new(60, 2).unwrap(),
        ..run()
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (folder, found) = Folder::open(place.path(), &run).unwrap();
                assert!(found.damaged.is_empty(), "{found:?}");
                for chunk in 0..run.plan.n_chunks() {
                    folder.write(chunk, &squares(&run, chunk)).unwrap();
                    let (_, found) = Folder::open(place.path(), &run).unwrap();
                    assert!(found.damaged.is_empty(), "{found:?}");
                }
            });
        }
    });
    assert_eq!(merged(&[place.path()]).unwrap(), all(60));
}
