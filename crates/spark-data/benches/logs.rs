//! Reading the recorded minute of a drive.
//!
//! ```text
//! logs/events      every message, decompressed before, and the kind of its body
//! logs/drive       all signals, frames and counts of them
//! logs/bzip2       the same from the file's bytes, decompressed on the way
//! ```
//!
//! Run: `SPARK_TEST_DATA=... cargo bench -p spark-data`. Answers are checked before anything is timed.

use std::hint::black_box;
use std::io::Read as _;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spark_data::drive::Drive;
use spark_data::log::{Body, Compression, LogReader};
use spark_testing::test_data;

const DEMO: &str = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0/qlog.bz2";

/// How many events of a log have a body that is known here.
fn known(bytes: &[u8]) -> (u64, u64) {
    let mut log = LogReader::new(bytes).expect("reads from memory");
    let (mut n_events, mut n_known) = (0, 0);
    while let Some(event) = log.next_event() {
        let body = event.expect("a whole log").body().expect("whole bodies");
        n_events += 1;
        n_known += u64::from(!matches!(body, Body::Other));
    }
    (n_events, n_known)
}

fn logs(criterion: &mut Criterion) {
    let Some(path) = test_data(DEMO) else {
        return;
    };
    let compressed = std::fs::read(path).expect("the recorded drive");
    let mut whole = Vec::new();
    let (_, mut reader) = Compression::reader(&compressed[..]).expect("reads from memory");
    reader.read_to_end(&mut whole).expect("a whole log");
    let (n_events, n_known) = known(&whole);
    assert_eq!(n_events, 11_388);
    assert!(n_known > 9_000, "{n_known}");
    let drive = |bytes: &[u8]| Drive::read(&mut LogReader::new(bytes).expect("reads from memory"));
    assert_eq!(drive(&whole).speed.len(), 579);
    assert_eq!(drive(&compressed).counts, drive(&whole).counts);

    let mut group = criterion.benchmark_group("logs");
    group.throughput(Throughput::Bytes(whole.len() as u64));
    group.bench_function(BenchmarkId::from_parameter("events"), |b| {
        b.iter(|| known(black_box(&whole)))
    });
    group.bench_function(BenchmarkId::from_parameter("drive"), |b| {
        b.iter(|| drive(black_box(&whole)))
    });
    group.bench_function(BenchmarkId::from_parameter("bzip2"), |b| {
        b.iter(|| drive(black_box(&compressed)))
    });
    group.finish();
}

criterion_group!(benches, logs);
criterion_main!(benches);
