//! Output tables: as Python pickles them, damaged, hostile; base64 against RFC 4648.

use super::*;
use crate::slices::{DRIVER_MONITORING, POLICY, VISION};

/// `pickle.dumps({'plan': slice(0, 990), 'desire_state': slice(990, 998), 'pad': slice(-2, None)})`
/// through `codecs.encode(.., 'base64')`, by CPython 3.11 with protocols 2, 3 and 4.
const BY_PYTHON: [&str; 3] = [
    "gAJ9cQAoWAQAAABwbGFucQFjX19idWlsdGluX18Kc2xpY2UKcQJLAE3eA06HcQNScQRYDAAAAGRl\nc2lyZV9zdGF0ZXEFaAJN3gNN5gNOh3EGUnEHWAMAAABwYWRxCGgCSv7///9OTodxCVJxCnUu\n",
    "gAN9cQAoWAQAAABwbGFucQFjYnVpbHRpbnMKc2xpY2UKcQJLAE3eA06HcQNScQRYDAAAAGRlc2ly\nZV9zdGF0ZXEFaAJN3gNN5gNOh3EGUnEHWAMAAABwYWRxCGgCSv7///9OTodxCVJxCnUu\n",
    "gASVWgAAAAAAAAB9lCiMBHBsYW6UjAhidWlsdGluc5SMBXNsaWNllJOUSwBN3gNOh5RSlIwMZGVz\naXJlX3N0YXRllGgETd4DTeYDToeUUpSMA3BhZJRoBEr+////Tk6HlFKUdS4=\n",
];

/// `pickle.dumps({'a': <an object whose __reduce__ is os.system('echo hi')>})`.
const CALLS_A_SHELL: &str =
    "gASVKQAAAAAAAAB9lIwBYZSMBXBvc2l4lIwGc3lzdGVtlJOUjAdlY2hvIGhplIWUUpRzLg==";

#[test]
fn tables_written_by_python_are_read() {
    for text in BY_PYTHON {
        let parts = decode(text, 1000).expect("Python's own encoding");
        let want = [
            ("plan", 0..990),
            ("desire_state", 990..998),
            ("pad", 998..1000),
        ];
        assert_eq!(parts, want.map(|(name, range)| (name.to_owned(), range)));
    }
}

#[test]
fn a_written_table_is_read_back() {
    for table in [VISION, POLICY, DRIVER_MONITORING] {
        let parts = decode(&encode(table), 2000).expect("own encoding");
        let want: Vec<_> = table
            .iter()
            .map(|s| (s.name.to_owned(), s.start..s.end))
            .collect();
        assert_eq!(parts, want);
    }
}

#[test]
fn a_pickle_that_calls_a_function_is_refused() {
    let error = decode(CALLS_A_SHELL, 1000).unwrap_err().to_string();
    assert!(error.contains("`posix.system` has no place"), "{error}");
}

#[test]
fn every_truncation_and_every_changed_byte_is_an_answer_not_a_panic() {
    let good = decode_base64(BY_PYTHON[2]).expect("base64");
    for end in 0..good.len() {
        assert!(
            decode(&encode_base64(&good[..end]), 1000).is_err(),
            "cut at {end}"
        );
    }
    for at in 0..good.len() {
        for byte in 0..=255 {
            let mut changed = good.clone();
            changed[at] = byte;
            // A changed letter of a name still reads; only the absence of a panic is certain.
            let _ = decode(&encode_base64(&changed), 1000);
        }
    }
}

#[test]
fn text_that_is_not_base64_is_refused() {
    assert!(decode("g AJ9\n!", 10).is_err());
    assert!(decode("", 10).is_err());
}

#[test]
fn base64_has_the_test_vectors_of_rfc_4648() {
    let vectors = [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foobar", "Zm9vYmFy"),
    ];
    for (plain, coded) in vectors {
        assert_eq!(encode_base64(plain.as_bytes()), coded);
        assert_eq!(decode_base64(coded).expect(coded), plain.as_bytes());
    }
}
