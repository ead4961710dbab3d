//! Samples with pictures, prepared ahead: the same as one after another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spark_data::drive::{Dataset, DatasetOptions, Drive};
use spark_data::log::LogReader;
use spark_data::prefetch::{Prefetch, PrefetchError, PrefetchOptions};
use spark_data::video::{Store, StoreOptions, VideoError, VideoOptions, Yuv420};

use crate::video::{Folder, demo_video};

fn dataset(video: &std::path::Path) -> Arc<Dataset> {
    let log = video.with_file_name("qlog.bz2");
    let drive = Drive::read(&mut LogReader::open(&log).unwrap());
    Arc::new(Dataset::new(vec![drive], DatasetOptions::default().with_every(7)).unwrap())
}

#[test]
fn what_is_prepared_is_what_would_be_read() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let store = Store::new(&folder.0, StoreOptions::default());
    let data = dataset(&path);
    let mut order = data.order(1, 0);
    order.truncate(60);
    let mut video = store.video(&path, 1).unwrap();
    let one = video.size().bytes();
    // Two pictures of a sample, then room for one sample, for a few, and for all.
    for bytes in [0, 5 * one, 1 << 30] {
        let options = PrefetchOptions::default()
            .with_bytes(bytes)
            .with_frames_back(vec![1, 0]);
        let videos = vec![path.clone()];
        let prepared = Prefetch::new(Arc::clone(&data), order.clone(), videos, &store, options);
        let mut n = 0;
        for (prepared, number) in prepared.zip(&order) {
            n += 1;
            let sample = data.sample(*number).unwrap();
            let index = u64::from(sample.frame.index);
            match prepared {
                Ok(prepared) => {
                    assert_eq!((prepared.number, &prepared.sample), (*number, &sample));
                    let mut wanted = Yuv420::empty();
                    for (picture, index) in prepared.pictures.iter().zip([index - 1, index]) {
                        video.read(index, &mut wanted).unwrap();
                        assert_eq!(*picture, wanted, "sample {number}");
                    }
                    assert_eq!(prepared.pictures.len(), 2);
                }
                // The first picture has none before it.
                Err(PrefetchError::NoPicture { back: 1, .. }) => assert_eq!(index, 0),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(n, order.len(), "{bytes}");
    }
}

#[test]
fn what_is_wrong_is_said_in_its_place() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let store = Store::new(&folder.0, StoreOptions::default());
    let data = dataset(&path);
    let order = vec![0, 1_000_000, 1];
    let given = |videos: Vec<PathBuf>| {
        let options = PrefetchOptions::default();
        Prefetch::new(Arc::clone(&data), order.clone(), videos, &store, options).collect::<Vec<_>>()
    };
    let data_video = || path.clone();
    let some = given(vec![path.clone()]);
    assert!(some[0].is_ok() && some[2].is_ok() && some.len() == 3);
    assert!(matches!(
        some[1],
        Err(PrefetchError::NoSample { number: 1_000_000 })
    ));
    let none = given(Vec::new());
    assert!(matches!(
        none[0],
        Err(PrefetchError::NoVideo {
            number: 0,
            drive: 0
        })
    ));
    let missing = given(vec!["missing.ts".into()]);
    let Err(PrefetchError::Video { number: 1, source }) = &missing[2] else {
        panic!("{missing:?}");
    };
    assert!(matches!(&**source, VideoError::Io { .. }), "{source}");
    // Half of the packets: which pictures are missing nobody can say.
    let whole = std::fs::read(data_video()).unwrap();
    let half = folder.write("half.ts", &whole[..whole.len() / 2 / 188 * 188]);
    match &given(vec![half])[0] {
        Err(PrefetchError::Pictures {
            pictures,
            frames: 1200,
            ..
        }) => assert!(*pictures < 1200),
        // The decoder may see the cut.
        Err(PrefetchError::Video { .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Bytes that wait are bounded, time that is waited is told, and dropping waits for no decoder.
#[test]
fn it_waits_within_its_bytes_and_ends_at_once() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let data = dataset(&path);
    let hangs = folder.program("printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; exec sleep 60");
    let store = Store::new(
        folder.0.join("kept"),
        StoreOptions::default().with_video(hangs),
    );
    let videos = vec![path.clone()];
    let options = PrefetchOptions::default;
    let prepared = Prefetch::new(
        Arc::clone(&data),
        vec![0],
        videos.clone(),
        &store,
        options(),
    );
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    drop(prepared);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );

    let slow = VideoOptions::default();
    let store = Store::new(
        folder.0.join("kept"),
        StoreOptions::default().with_video(slow),
    );
    let order: Vec<usize> = (0..20).collect();
    let mut prepared = Prefetch::new(data, order, videos, &store, options().with_bytes(0));
    assert!(prepared.next().unwrap().is_ok());
    assert!(
        prepared.waited() > Duration::ZERO,
        "the video had to be decoded"
    );
    // Nobody takes more: one sample waits, and the thread for it.
    std::thread::sleep(Duration::from_millis(50));
    drop(prepared);
}

/// A video that cannot be decoded is tried once, not for each of its samples.
#[test]
fn a_broken_video_is_decoded_once() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let bare = "case \" $* \" in *\" rawvideo \"*) printf \"YUV4MPEG2 W2 H2\\nFRAME\\n123456\"; exit 0;; esac";
    let script = format!("{bare}; echo . >> \"$(dirname \"$0\")/starts\"; echo broken >&2; exit 1");
    let broken = StoreOptions::default().with_video(folder.program(&script));
    let store = Store::new(folder.0.join("kept"), broken);
    let order: Vec<usize> = (0..20).collect();
    let options = PrefetchOptions::default();
    let all: Vec<_> = Prefetch::new(dataset(&path), order, vec![path], &store, options).collect();
    assert_eq!(all.len(), 20);
    for item in &all {
        let told = item.as_ref().unwrap_err().to_string();
        assert!(
            told.contains("broken") && !told.contains("itself"),
            "{told}"
        );
    }
    assert_eq!(std::fs::read(folder.0.join("starts")).unwrap().len(), 2);
}
