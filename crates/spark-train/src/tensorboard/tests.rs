//! Checksums against published ones; records read back by a reader of their own.

use std::time::Duration;

use super::*;

/// An event of a file: step, file version, whether a session starts, scalars.
#[derive(Debug, Default, PartialEq)]
struct Read {
    step: u64,
    version: Option<String>,
    starts: bool,
    scalars: Vec<(String, f32)>,
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number");
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(n);
    *bytes = rest;
    taken
}

/// Numbers of fields with their values: numbers of a byte and more as 8 bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let value = match key & 7 {
            0 => number(&mut bytes).to_le_bytes().to_vec(),
            1 => take(&mut bytes, 8).to_vec(),
            2 => {
                let n = number(&mut bytes) as usize;
                take(&mut bytes, n).to_vec()
            }
            5 => take(&mut bytes, 4).to_vec(),
            kind => panic!("no kind of field: {kind}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

/// By the definition: bit by bit, and unmasked as readers do it.
fn is_of(bytes: &[u8], masked: &[u8]) -> bool {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82F6_3B78
            } else {
                crc >> 1
            };
        }
    }
    let masked = u32::from_le_bytes(masked.try_into().expect("four bytes"));
    masked.wrapping_sub(0xA282_EAD8).rotate_left(15) == !crc
}

fn read(path: &Path) -> Vec<Read> {
    let bytes = std::fs::read(path).expect("a file");
    let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
    while !rest.is_empty() {
        let length = take(&mut rest, 8);
        assert!(is_of(length, take(&mut rest, 4)), "the length's checksum");
        let n = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
        let data = take(&mut rest, n);
        assert!(is_of(data, take(&mut rest, 4)), "the data's checksum");
        let mut event = Read::default();
        for (field, value) in fields(data) {
            match field {
                1 => {
                    let time = f64::from_le_bytes(value.try_into().expect("a double"));
                    assert!(time > 1.7e9, "{time}");
                }
                2 => event.step = u64::from_le_bytes(value.try_into().expect("a number")),
                3 => event.version = String::from_utf8(value).ok(),
                5 => event.scalars = fields(&value).iter().map(|(_, v)| scalar_of(v)).collect(),
                7 => event.starts = value == [8, 1],
                other => panic!("no field of an event: {other}"),
            }
        }
        events.push(event);
    }
    events
}

fn scalar_of(value: &[u8]) -> (String, f32) {
    match &fields(value)[..] {
        [(1, tag), (2, value)] => (
            String::from_utf8(tag.clone()).expect("text"),
            f32::from_le_bytes(value[..].try_into().expect("a float")),
        ),
        other => panic!("no scalar: {other:?}"),
    }
}

fn step(step: u64) -> Event {
    Event::Step {
        step,
        total: 400,
        epoch: 0,
        loss: 0.5,
        parts: vec![("plan".to_owned(), 0.25), ("train".to_owned(), 2.0)],
        rate: 1e-3,
        norm: 3.0,
        samples_per_second: 40.0,
        waiting: 0.125,
        remaining: Duration::ZERO,
    }
}

fn epoch(validation: Option<f64>) -> Event {
    Event::Epoch {
        epoch: 0,
        training: 0.5,
        validation,
        is_best: true,
    }
}

/// RFC 3720, appendix B.4, and the check value of CRC-32C's catalogue entry.
#[test]
fn checksums_are_the_published_ones() {
    let counted: Vec<u8> = (0..32).collect();
    let back: Vec<u8> = (0..32).rev().collect();
    for (bytes, want) in [
        (&b"123456789"[..], 0xE306_9283),
        (&[0; 32], 0x8A91_36AA),
        (&[0xFF; 32], 0x62A8_AB43),
        (&counted, 0x46DD_794E),
        (&back, 0x113F_DB5C),
        (&[], 0),
    ] {
        assert_eq!(crc_32c(bytes), want, "{bytes:?}");
    }
    // Every file of TensorBoard's begins so: 24 bytes, and their masked checksum.
    let first = record(&[0; 24]);
    assert_eq!(first[..12], *b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22");
}

#[test]
fn events_are_read_back_as_they_were() {
    let folder = std::env::temp_dir().join(format!("spark-events-{}", std::process::id()));
    let mut board = TensorBoard::new(&folder).expect("a writable folder");
    let skipped = Event::Skipped {
        step: 301,
        loss: f64::NAN,
        in_a_row: 1,
    };
    let n_bytes = |path: &Path| std::fs::metadata(path).expect("a file").len();
    let mut last = n_bytes(board.path());
    for event in [step(300), skipped, epoch(Some(0.125))] {
        assert_eq!(board.event(&event), Go::On);
        let now = n_bytes(board.path());
        assert!(now > last, "{event:?} is in the file at once");
        last = now;
    }
    board.event(&epoch(None));
    assert!(board.failure().is_none());
    let read_back = read(board.path());
    let scalars = |scalars: &[(&str, f32)]| -> Vec<(String, f32)> {
        let scalars = scalars.iter();
        scalars
            .map(|(tag, value)| ((*tag).to_owned(), *value))
            .collect()
    };
    let at = |step, scalars| Read {
        step,
        scalars,
        ..Read::default()
    };
    let of_step = scalars(&[
        ("loss/train", 0.5),
        ("loss/plan", 0.25),
        ("loss/head/train", 2.0),
        ("rate", 1e-3),
        ("gradient_norm", 3.0),
        ("samples_per_second", 40.0),
        ("waiting_for_samples", 0.125),
    ]);
    let version = Some("brain.Event:2".to_owned());
    let want = [
        Read {
            version,
            ..Read::default()
        },
        Read {
            step: 300,
            starts: true,
            ..Read::default()
        },
        at(300, of_step),
        at(301, scalars(&[("skipped", 1.0)])),
        at(301, scalars(&[("loss/validation", 0.125)])),
    ];
    assert_eq!(read_back, want);

    // One that goes on has a file of its own, behind the first.
    let again = TensorBoard::new(&folder).expect("a writable folder");
    assert!(again.path() > board.path());
    std::fs::remove_dir_all(&folder).expect("was made");
}

#[test]
fn what_cannot_be_written_is_kept_and_ends_nothing() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return;
    };
    let mut board = TensorBoard {
        path: PathBuf::from("/dev/full"),
        file: full,
        step: None,
        n_skipped: 0,
        failure: None,
    };
    assert_eq!(board.event(&step(1)), Go::On);
    let kind = board.failure().map(io::Error::kind);
    assert_eq!(kind, Some(ErrorKind::StorageFull));
    let refused = TensorBoard::new(Path::new("/dev/null/board"));
    assert!(matches!(refused, Err(TrainError::Io { .. })), "{refused:?}");
}
