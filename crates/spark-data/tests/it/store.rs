//! Pictures on disk: taken in any order, made anew where they are damaged, held within their bytes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use spark_data::video::{
    PictureSize, Pictures, Store, StoreOptions, VideoError, VideoOptions, Yuv420,
};

use crate::video::{Folder, demo_video};

/// Six pictures of 2x2, each of one digit, by a program that counts how often it is started.
fn six(folder: &Folder) -> VideoOptions {
    let script = "echo . >> \"$(dirname \"$0\")/starts\"
printf 'YUV4MPEG2 W2 H2\\n'
for digit in 0 1 2 3 4 5; do printf 'FRAME\\n%s' $digit$digit$digit$digit$digit$digit; done";
    folder.program(script)
}

fn starts(folder: &Folder) -> usize {
    let text = std::fs::read_to_string(folder.0.join("starts"));
    text.map_or(0, |text| text.lines().count())
}

fn store(folder: &Folder, limit: u64) -> Store {
    let options = StoreOptions::default()
        .with_video(six(folder))
        .with_limit_bytes(limit);
    Store::new(folder.0.join("kept"), options)
}

fn files(folder: &Folder) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.0.join("kept")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The digit that all bytes of a picture are.
fn digit(store: &Store, video: &Path, index: u64) -> Result<u8, VideoError> {
    let mut picture = Yuv420::empty();
    store.video(video, 1)?.read(index, &mut picture)?;
    assert!(
        picture
            .bytes()
            .iter()
            .all(|byte| *byte == picture.bytes()[0])
    );
    Ok(picture.bytes()[0])
}

#[test]
fn pictures_come_in_any_order_and_are_decoded_once() {
    let folder = Folder::new();
    let (video, store) = (folder.hevc(), store(&folder, 1 << 20));
    for index in [5, 0, 3, 3, 1] {
        assert_eq!(digit(&store, &video, index).unwrap(), b'0' + index as u8);
    }
    let mut kept = store.video(&video, 1).unwrap();
    assert_eq!(
        (kept.len(), kept.size()),
        (
            6,
            PictureSize {
                width: 2,
                height: 2
            }
        )
    );
    assert!(kept.is_on_disk() && !kept.is_empty());
    assert_eq!(starts(&folder), 1);
    let mut picture = Yuv420::empty();
    let beyond = kept.read(6, &mut picture).unwrap_err();
    assert!(
        matches!(
            beyond,
            VideoError::Short {
                pictures: 6,
                index: 6,
                ..
            }
        ),
        "{beyond}"
    );
    // Every other one is another file.
    let mut half = store.video(&video, 2).unwrap();
    half.read(4, &mut picture).unwrap();
    assert_eq!((picture.bytes()[0], half.len()), (b'4', 3));
    let between = half.read(3, &mut picture).unwrap_err();
    assert!(
        matches!(
            between,
            VideoError::NotKept {
                index: 3,
                every: 2,
                ..
            }
        ),
        "{between}"
    );
    assert_eq!((starts(&folder), files(&folder).len()), (2, 2));
    // The content counts, not the name.
    let copy = folder.write("copy.hevc", &std::fs::read(&video).unwrap());
    assert_eq!(digit(&store, &copy, 2).unwrap(), b'2');
    assert_eq!(starts(&folder), 2);
}

#[test]
fn whatever_is_damaged_is_made_anew() {
    let folder = Folder::new();
    let (video, store) = (folder.hevc(), store(&folder, 1 << 20));
    digit(&store, &video, 0).unwrap();
    let path = files(&folder).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let mut n_made = 1;
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        let mut kept = store.video(&video, 1).unwrap();
        let mut picture = Yuv420::empty();
        for index in 0..6 {
            kept.read(index, &mut picture).unwrap();
            assert_eq!(picture.bytes(), [b'0' + index as u8; 6], "byte {at}");
        }
        n_made += 1;
        assert_eq!(starts(&folder), n_made, "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
    for n in [0, 1, 100, whole.len() - 38, whole.len() - 1] {
        std::fs::write(&path, &whole[..n]).unwrap();
        assert_eq!(digit(&store, &video, 1).unwrap(), b'1', "{n} bytes");
        n_made += 1;
        assert_eq!(starts(&folder), n_made, "{n} bytes");
    }
    // Whole, and of another video.
    let other = folder.write("other.hevc", &[0, 0, 0, 1, 7]);
    digit(&store, &other, 0).unwrap();
    let others = files(&folder).into_iter().find(|it| *it != path).unwrap();
    std::fs::copy(&others, &path).unwrap();
    assert_eq!(digit(&store, &video, 3).unwrap(), b'3');
    assert_eq!(starts(&folder), n_made + 2);
}

#[test]
fn what_was_used_longest_ago_makes_room() {
    let folder = Folder::new();
    let videos: Vec<PathBuf> = (0..4)
        .map(|idx| folder.write(&format!("{idx}.hevc"), &[0, 0, 0, 1, idx]))
        .collect();
    let one = {
        let store = store(&folder, 1 << 20);
        digit(&store, &videos[0], 0).unwrap();
        std::fs::metadata(&files(&folder)[0]).unwrap().len()
    };
    let store = store(&folder, 2 * one + 10);
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    for idx in [0, 1, 0, 2] {
        pause();
        digit(&store, &videos[idx], 0).unwrap();
    }
    assert_eq!((files(&folder).len(), starts(&folder)), (2, 3));
    digit(&store, &videos[0], 0).unwrap();
    assert_eq!(
        starts(&folder),
        3,
        "the first was used since, the second went"
    );
    pause();
    digit(&store, &videos[1], 0).unwrap();
    assert_eq!(starts(&folder), 4);
    // One that is too large takes nobody's place.
    let small = store_of(&folder, one - 1);
    let refused = digit(&small, &videos[3], 0).unwrap_err();
    assert!(matches!(refused, VideoError::TooLarge { .. }), "{refused}");
    assert_eq!(files(&folder).len(), 2);
}

fn store_of(folder: &Folder, limit: u64) -> Store {
    store(folder, limit)
}

#[test]
fn where_nothing_can_be_written_pictures_are_held_in_memory() {
    let folder = Folder::new();
    let video = folder.hevc();
    let options = || StoreOptions::default().with_video(six(&folder));
    // A file where the folder should be: root may write everywhere else.
    let taken = folder.write("taken", b"");
    let mut kept = Store::new(&taken, options()).video(&video, 1).unwrap();
    assert!(!kept.is_on_disk());
    let mut picture = Yuv420::empty();
    kept.read(4, &mut picture).unwrap();
    assert_eq!(picture.bytes(), [b'4'; 6]);
    let refused = Store::new(&taken, options().with_limit_bytes(100)).video(&video, 1);
    assert!(matches!(refused, Err(VideoError::TooLarge { .. })));
    let closed = folder.0.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    Store::new(&closed, options()).video(&video, 1).unwrap();
}

#[test]
fn videos_that_cannot_be_decoded_leave_nothing() {
    let folder = Folder::new();
    let fails =
        folder.program("printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; echo broken >&2; exit 1");
    let store = Store::new(
        folder.0.join("kept"),
        StoreOptions::default().with_video(fails),
    );
    let failed = store.video(&folder.hevc(), 1).unwrap_err();
    assert!(failed.to_string().contains("broken"), "{failed}");
    assert!(files(&folder).is_empty());
    let empty = folder.program("exit 0");
    let store = Store::new(
        folder.0.join("kept"),
        StoreOptions::default().with_video(empty),
    );
    let none = store.video(&folder.hevc(), 1).unwrap_err();
    assert!(
        matches!(none, VideoError::NoPicture { .. }) && !none.is_of_video(),
        "{none}"
    );
    assert!(files(&folder).is_empty());
}

#[test]
fn the_recorded_minute_is_the_same_from_disk() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let store = Store::new(&folder.0, StoreOptions::default());
    let mut kept = store.video(&path, 100).unwrap();
    assert_eq!(kept.len(), 12);
    let mut pictures = Pictures::open(&path, &VideoOptions::default()).unwrap();
    let (mut read, mut wanted) = (Yuv420::empty(), Yuv420::empty());
    for index in (0..1200).step_by(100) {
        kept.read(index, &mut read).unwrap();
        pictures.skip_to(index, &mut wanted).unwrap();
        assert_eq!(read, wanted, "picture {index}");
    }
}

#[test]
fn a_video_that_changes_is_kept_under_no_key() {
    let folder = Folder::new();
    let video = folder.hevc();
    // The decoder itself replaces the file.
    let changes = folder.program(
        "printf '\\0\\0\\0\\001other' > \"$(dirname \"$0\")/fcamera.hevc\"; printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'",
    );
    let options = StoreOptions::default().with_video(changes);
    let changing = Store::new(folder.0.join("kept"), options);
    let refused = changing.video(&video, 1).unwrap_err();
    assert!(matches!(refused, VideoError::Changed { .. }), "{refused}");
    assert!(files(&folder).is_empty());
    // A record that is damaged once the file is another one.
    let store = store(&folder, 1 << 20);
    let mut kept = store.video(&video, 1).unwrap();
    let path = files(&folder).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[130] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(&video, [0, 0, 0, 1, 9]).unwrap();
    let changed = kept.read(0, &mut Yuv420::empty()).unwrap_err();
    assert!(matches!(changed, VideoError::Changed { .. }), "{changed}");
}

#[test]
fn what_is_not_its_own_stays_and_what_is_asked_of_sizes_holds_for_kept_pictures() {
    let folder = Folder::new();
    let (video, tight) = (folder.hevc(), store(&folder, 600));
    std::fs::create_dir(folder.0.join("kept")).unwrap();
    for name in ["notes.tmp", "holiday.pictures", ".note.pictures.x.tmp"] {
        let path = folder.0.join("kept").join(name);
        std::fs::write(&path, [0; 4096]).unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100_000);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    digit(&tight, &video, 0).unwrap();
    let other = folder.write("other.hevc", &[0, 0, 0, 1, 7]);
    digit(&tight, &other, 0).unwrap();
    assert_eq!(files(&folder).len(), 4, "one video and what is not its own");
    let size = PictureSize {
        width: 8,
        height: 8,
    };
    let options = StoreOptions::default().with_video(six(&folder).with_size(size));
    let refused = Store::new(folder.0.join("kept"), options)
        .video(&other, 1)
        .unwrap_err();
    assert!(matches!(refused, VideoError::Size { .. }), "{refused}");
}

/// A trailer that is right by its checksum, of a number that no file holds.
#[test]
fn numbers_that_overflow_are_damage() {
    use sha2::{Digest as _, Sha256};
    let folder = Folder::new();
    let (video, store) = (folder.hevc(), store(&folder, 1 << 20));
    digit(&store, &video, 0).unwrap();
    let path = files(&folder).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let (key, end) = (bytes[8..40].to_vec(), bytes.len() - 40);
    for number in [u64::MAX, u64::MAX / 38, 1 << 40] {
        let number = number.to_le_bytes();
        bytes[end..end + 8].copy_from_slice(&number);
        let digest = Sha256::new()
            .chain_update(&key)
            .chain_update(number)
            .finalize();
        bytes[end + 8..].copy_from_slice(&digest);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(digit(&store, &video, 2).unwrap(), b'2');
    }
}

/// Users of a store that has room for one of their videos: no errors, and the right pictures.
#[test]
fn users_of_a_store_that_is_too_small_get_their_pictures() {
    let folder = Folder::new();
    let store = store(&folder, 500);
    let videos: Vec<PathBuf> = (0..4)
        .map(|idx| folder.write(&format!("{idx}.hevc"), &[0, 0, 0, 1, idx]))
        .collect();
    std::thread::scope(|scope| {
        for video in &videos {
            let store = &store;
            scope.spawn(move || {
                for index in 0..12 {
                    assert_eq!(
                        digit(store, video, index % 6).unwrap(),
                        b'0' + (index % 6) as u8
                    );
                }
            });
        }
    });
}
