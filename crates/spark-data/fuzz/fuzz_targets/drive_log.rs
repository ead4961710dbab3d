//! Any bytes as a log: read to its end, labelled and summarised.
//!
//! ```text
//! bytes ──Compression──> messages ──> events ──> Drive ──> labels, poses       nothing panics, hangs or takes much memory
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_data::drive::Drive;
use spark_data::log::LogReader;

/// A message of one segment: an event with a struct of `data` as its body.
fn message(tag: u64, data: &[u64], pointers: u64) -> Vec<u8> {
    let body = (data.len() as u64) << 32 | pointers << 48;
    let mut words = vec![2 << 32 | 1 << 48, 1_000_000_000, tag, body];
    words.extend(data);
    words.extend(vec![0; pointers as usize]);
    let header = (words.len() as u64) << 32;
    std::iter::once(header).chain(words).flat_map(u64::to_le_bytes).collect()
}

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let Ok(mut log) = LogReader::new(bytes) else { return };
        let drive = Drive::read(&mut log);
        let _ = drive.summary();
        let _ = drive.speed_picture();
        for time in [0, 1_000_000_000, u64::MAX] {
            let _ = drive.labels(time);
        }
        if let Some((poses, _)) = drive.poses() {
            let now = poses.times().first().copied().unwrap_or(0.0);
            let _ = poses.path(now, &[0.0, 1.0], 1.0);
        }
    }
);

/// The first run begins with a message of each kind that is read.
fn write_seeds() {
    let Some(corpus) = std::env::args().skip(1).find(|it| !it.starts_with('-')) else {
        return;
    };
    for (tag, data, pointers) in [
        (21, 8, 6),
        (22, 4, 6),
        (62, 2, 8),
        (127, 1, 5),
        (18, 2, 8),
        (12, 5, 6),
        (73, 6, 17),
        (14, 6, 0),
    ] {
        let bytes = message(tag, &vec![0x3F80_0000_3F80_0001; data], pointers);
        // Seeds are a help: without them the fuzzer begins with nothing.
        let _ = std::fs::write(format!("{corpus}/seed-{tag}"), bytes);
    }
}
