//! Logs that are cut, corrupted, cyclic or no logs.

use std::io::Read as _;

use bzip2::read::BzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use spark_data::drive::Drive;
use spark_data::log::{Body, Compression, LogError, LogReader};
use spark_data::wire::WireError;
use spark_testing::test_data;

/// A message of these segments, each of these words.
fn message(segments: &[&[u64]]) -> Vec<u8> {
    let mut bytes = (segments.len() as u32 - 1).to_le_bytes().to_vec();
    for segment in segments {
        bytes.extend((segment.len() as u32).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    for segment in segments {
        bytes.extend(segment.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}

/// A pointer to a struct, `offset` words behind the pointer.
fn structure(offset: i32, data_words: u16, pointers: u16) -> u64 {
    u64::from((offset << 2) as u32) | u64::from(data_words) << 32 | u64::from(pointers) << 48
}

/// A pointer to a list, `offset` words behind the pointer.
fn list(offset: i32, element: u64, count: u64) -> u64 {
    u64::from((offset << 2) as u32 | 1) | element << 32 | count << 35
}

/// A pointer into another segment.
fn far(segment: u64, word: u64, is_double: bool) -> u64 {
    2 | u64::from(is_double) << 2 | word << 3 | segment << 32
}

/// An event with this tag whose body is what `body` says, and words behind it.
fn event(tag: u64, body: u64, behind: &[u64]) -> Vec<u64> {
    let mut words = vec![structure(0, 2, 1), 1000, tag, body];
    words.extend(behind);
    words
}

/// Hands the body of the only event to `look`.
fn with_body<T>(bytes: &[u8], look: impl FnOnce(Result<Body<'_>, WireError>) -> T) -> T {
    let mut log = LogReader::new(bytes).unwrap();
    let event = log.next_event().unwrap().unwrap();
    look(event.body())
}

fn partial() -> Option<Vec<u8>> {
    Some(std::fs::read(test_data("data/drive/partial_rlog_2018/partial-rlog.bin")?).unwrap())
}

#[test]
fn a_cut_log_gives_what_is_whole_and_says_where_it_ended() {
    let Some(whole) = partial() else {
        return;
    };
    let mut ends = vec![0u64];
    let mut log = LogReader::new(&whole[..]).unwrap();
    let mut at = 0;
    while let Some(event) = log.next_event() {
        let event = event.unwrap();
        let header = (4 + 4 * event.message().segments() as u64).next_multiple_of(8);
        let words: u32 = (0..event.message().segments())
            .map(|index| u32::from_le_bytes(whole[at + 4 + 4 * index..][..4].try_into().unwrap()))
            .sum();
        at += (header + u64::from(words) * 8) as usize;
        ends.push(at as u64);
    }
    assert_eq!((ends.len(), at), (93, whole.len()));
    for cut in (0..whole.len())
        .step_by(61)
        .chain(whole.len() - 9..whole.len())
    {
        let drive = Drive::read(&mut LogReader::new(&whole[..cut]).unwrap());
        let n_whole = ends.partition_point(|end| *end <= cut as u64) - 1;
        assert_eq!(
            drive.counts.values().sum::<u64>() as usize,
            n_whole,
            "cut at {cut}"
        );
        match drive.ended {
            None => assert_eq!(ends[n_whole], cut as u64),
            Some(LogError::Cut { events, at, got }) => {
                assert_eq!((events as usize, at), (n_whole, ends[n_whole]));
                assert_eq!(at + got, cut as u64);
            }
            Some(LogError::Empty) => assert_eq!((n_whole, cut), (0, 0)),
            Some(other) => panic!("{other}"),
        }
    }
}

#[test]
fn compressed_logs_are_known_by_content_and_may_be_in_parts() {
    let Some(whole) = partial() else {
        return;
    };
    let (one, other) = whole.split_at(30_000);
    let bzip2 = |bytes: &[u8]| {
        let mut out = Vec::new();
        BzEncoder::new(bytes, bzip2::Compression::best())
            .read_to_end(&mut out)
            .unwrap();
        out
    };
    let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    for (compression, parts) in [
        (Compression::None, whole.clone()),
        (Compression::Bzip2, [bzip2(one), bzip2(other)].concat()),
        (Compression::Zstd, [zstd(one), zstd(other)].concat()),
    ] {
        let mut log = LogReader::new(&parts[..]).unwrap();
        assert_eq!(log.compression(), compression);
        let drive = Drive::read(&mut log);
        assert_eq!(
            drive.counts.values().sum::<u64>(),
            92,
            "{compression:?}: {:?}",
            drive.ended
        );
        assert!(drive.ended.is_none());
        if compression != Compression::None {
            // Half of the second part: all of the first, and an error.
            let cut = Drive::read(&mut LogReader::new(&parts[..parts.len() - 2000]).unwrap());
            let n_events = cut.counts.values().sum::<u64>();
            assert!(n_events > 0 && n_events < 92, "{compression:?}: {n_events}");
            assert!(
                matches!(
                    cut.ended,
                    Some(LogError::Read { .. } | LogError::Cut { .. })
                ),
                "{:?}",
                cut.ended
            );
        }
    }
}

#[test]
fn corrupted_bytes_never_panic_or_hang() {
    let Some(whole) = partial() else {
        return;
    };
    let mut state = 1u64;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let place = (state >> 33) as usize % bytes.len();
            bytes[place] ^= 1 << (state >> 60 & 7);
        }
        let drive = Drive::read(&mut LogReader::new(&bytes[..]).unwrap());
        // One message at most is lost to each flipped bit, unless a length was hit.
        let n_events = drive.counts.values().sum::<u64>();
        assert!(n_events + 3 >= 92 || drive.ended.is_some(), "{n_events}");
    }
}

#[test]
fn lengths_that_cannot_be_are_refused_before_anything_is_allocated() {
    let refused = |bytes: &[u8]| {
        let mut log = LogReader::new(bytes).unwrap();
        let error = log.next_event().unwrap().unwrap_err();
        assert!(log.next_event().is_none());
        error.to_string()
    };
    assert!(refused(&[0xFF; 64]).contains("4294967296 segments"));
    assert!(refused(&[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F]).contains("17179869176 bytes or more"));
    assert!(refused(&[0; 8]).contains("no words"));
    assert!(refused(&[0, 0, 0, 0, 0, 0, 0x70, 0]).contains("ends within a message"));
    assert!(refused(b"a text, and not a log").contains("segments"));
    assert!(refused(b"BZh9 and no more").contains("0 events"));
    assert!(refused(&[0x28, 0xB5, 0x2F, 0xFD, 1, 2, 3, 4]).contains("0 events"));
    assert!(LogReader::new(&[][..]).unwrap().next_event().is_none());
}

#[test]
fn pointers_that_lead_nowhere_are_errors() {
    let error = |words: &[u64]| with_body(&message(&[words]), |body| body.err());
    // A struct behind the end, before the beginning, of more words than there are.
    assert!(matches!(
        error(&event(21, structure(5, 1, 0), &[0])),
        Some(WireError::Outside { .. })
    ));
    assert!(matches!(
        error(&event(21, structure(-9, 1, 0), &[0])),
        Some(WireError::Outside { .. })
    ));
    assert!(matches!(
        error(&event(21, structure(0, 0xFFFF, 0xFFFF), &[0])),
        Some(WireError::Outside { .. })
    ));
    // A list where a struct belongs, a struct where a list belongs, a capability.
    assert!(matches!(
        error(&event(21, list(0, 2, 8), &[0])),
        Some(WireError::Kind { .. })
    ));
    assert!(matches!(
        error(&event(4, structure(0, 1, 0), &[0])),
        Some(WireError::Kind { .. })
    ));
    assert!(matches!(
        error(&event(21, 3, &[0])),
        Some(WireError::Kind { .. })
    ));
    // A list of 2^29 - 1 numbers; structs of more words than their list has.
    assert!(matches!(
        error(&event(4, list(0, 5, (1 << 29) - 1), &[0])),
        Some(WireError::Outside { .. })
    ));
    assert!(matches!(
        error(&event(4, list(0, 7, 1), &[structure(9, 1, 0), 0])),
        Some(WireError::Outside { .. })
    ));
    // Segments that are not there, far pointers to far pointers.
    assert!(matches!(
        error(&event(21, far(7, 0, false), &[0])),
        Some(WireError::NoSegment { segment: 7, .. })
    ));
    assert!(matches!(
        error(&event(21, far(0, 4, false), &[far(0, 4, false)])),
        Some(WireError::FarToFar)
    ));
    assert!(matches!(
        error(&event(21, far(0, 99, true), &[0])),
        Some(WireError::Outside { .. })
    ));
    // An empty struct is no null, and has no place.
    assert_eq!(error(&event(21, structure(-1, 0, 0), &[])), None);
}

#[test]
fn far_pointers_of_both_kinds_are_followed() {
    let speed = u64::from(12.5f32.to_bits());
    let single = message(&[
        &event(21, far(1, 1, false), &[]),
        &[0, structure(0, 1, 0), speed],
    ]);
    // Landing at two words: where the content is, and what it is.
    let pads = [far(2, 1, false), structure(0, 1, 0)];
    let double = message(&[&event(21, far(1, 0, true), &[]), &pads, &[0, speed]]);
    for bytes in [single, double] {
        let got = with_body(&bytes, |body| match body {
            Ok(Body::CarState(car)) => car.v_ego(),
            other => panic!("{other:?}"),
        });
        assert_eq!(got, 12.5);
    }
}

#[test]
fn circles_and_lists_of_nothing_end() {
    // The nested struct of a struct is that struct.
    let words = event(22, structure(0, 0, 4), &[0, 0, structure(-3, 0, 4), 0]);
    let outcome = with_body(&message(&[&words]), |body| {
        let Ok(Body::CarControl(control)) = body else {
            panic!("no body");
        };
        let mut reader: spark_data::wire::StructReader<'_> = control.reader();
        for depth in 0..1000 {
            match reader.structure(2) {
                Ok(next) => reader = next,
                Err(error) => return (depth, error),
            }
        }
        panic!("it never ended");
    });
    assert!(
        matches!(outcome, (1..=64, WireError::TooDeep)),
        "{outcome:?}"
    );
    // 2^29 - 1 structs without fields: more than a message of six words pays for.
    let nothing = event(4, list(0, 7, 0), &[structure((1 << 29) - 1, 0, 0)]);
    let error = with_body(&message(&[&nothing]), |body| body.err());
    assert!(
        matches!(error, Some(WireError::TooMuch { .. })),
        "{error:?}"
    );
    let voids = event(4, list(0, 0, (1 << 29) - 1), &[]);
    let error = with_body(&message(&[&voids]), |body| body.err());
    assert!(
        matches!(error, Some(WireError::TooMuch { .. })),
        "{error:?}"
    );
}

#[test]
fn a_broken_event_is_passed_over() {
    let speed = event(21, structure(0, 1, 0), &[u64::from(3.0f32.to_bits())]);
    let broken = event(21, structure(9, 1, 0), &[0]);
    let no_root = [structure(7, 2, 1), 0];
    let bytes = [
        message(&[&speed]),
        message(&[&broken]),
        message(&[&no_root]),
        message(&[&speed]),
    ]
    .concat();
    let drive = Drive::read(&mut LogReader::new(&bytes[..]).unwrap());
    assert_eq!((drive.speed.values(), drive.n_broken), (&[3.0, 3.0][..], 2));
    assert!(drive.ended.is_none());
}

#[test]
fn fields_beyond_what_the_writer_knew_read_as_their_defaults() {
    let empty = |tag: u64, look: fn(Body<'_>) -> (bool, i32)| {
        with_body(&message(&[&event(tag, 0, &[])]), |body| look(body.unwrap()))
    };
    let parameters = empty(60, |body| match body {
        Body::LiveParameters(it) => (it.angle_offset_valid(), it.steer_ratio() as i32),
        other => panic!("{other:?}"),
    });
    assert_eq!(parameters, (true, 0));
    let radar = empty(12, |body| match body {
        Body::RadarState(it) => (
            it.lead_one().unwrap().status(),
            it.lead_one().unwrap().radar_track_id(),
        ),
        other => panic!("{other:?}"),
    });
    assert_eq!(radar, (false, -1));
}
