//! Archives of this crate and of Python, and damaged ones.

use super::*;

type Tensors = BTreeMap<String, Tensor>;

fn tensors() -> Tensors {
    let tensor = |values: &[f32]| Tensor::from_f32([values.len()], values.to_vec()).expect("fits");
    Tensors::from([
        ("case0/in/x".to_owned(), tensor(&[1.0, -2.0, f32::INFINITY])),
        ("größe".to_owned(), tensor(&[])),
        ("z".to_owned(), tensor(&[0.5; 300])),
    ])
}

#[test]
fn what_is_written_is_read() {
    let archive = write(&tensors()).expect("a small archive");
    assert_eq!(read(&archive).expect("own archive"), tensors());
    assert_eq!(write(&tensors()).expect("again"), archive);
    let empty = write(&Tensors::new()).expect("an empty archive");
    assert_eq!(read(&empty).expect("own archive"), Tensors::new());
    let mut with_comment = archive.clone();
    let at = with_comment.len() - 2;
    with_comment[at] = 5;
    with_comment.extend(b"hello");
    assert_eq!(read(&with_comment).expect("own archive"), tensors());
}

/// `zipfile` of Python 3, deflated, of an entry opened with `force_zip64` as `np.savez_compressed` does: 600 bytes of
/// float32 0.5 behind a header of 128 bytes.
const DEFLATED_BY_PYTHON: &[u8] = include_bytes!("deflated.npz");

#[test]
fn an_archive_of_python_is_unpacked() {
    let read = read(DEFLATED_BY_PYTHON).expect("an archive");
    let tensor = &read["x"];
    assert_eq!(tensor.shape(), [10, 15]);
    assert_eq!(tensor.as_f32(), Some(&[0.5; 150][..]));
}

#[test]
fn every_cut_and_every_changed_byte_is_refused_or_read_without_harm() {
    for archive in [
        write(&tensors()).expect("small"),
        DEFLATED_BY_PYTHON.to_vec(),
    ] {
        for end in 0..archive.len() {
            assert!(read(&archive[..end]).is_err(), "{end}");
        }
        for at in 0..archive.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut other = archive.clone();
                other[at] = value;
                let _ = read(&other);
            }
        }
    }
}

#[test]
fn an_archive_that_unpacks_to_more_than_is_there_is_refused() {
    let good = DEFLATED_BY_PYTHON;
    let at = good
        .windows(4)
        .position(|it| it == CENTRAL)
        .expect("a directory");
    let mut other = good.to_vec();
    other[at + 24..at + 28].copy_from_slice(&u32::MAX.to_le_bytes());
    let told = read(&other).expect_err("a bomb");
    assert!(told.contains("checksum"), "{told}");
    other[at + 24..at + 28].copy_from_slice(&5u32.to_le_bytes());
    let told = read(&other).expect_err("more than it says");
    assert!(told.contains("cannot be unpacked"), "{told}");
    let mut other = good.to_vec();
    other[at + 10] = 12;
    assert!(read(&other).expect_err("bzip2").contains("method 12"));
    let mut other = good.to_vec();
    other[at + 8] |= 1;
    assert!(read(&other).expect_err("a password").contains("encrypted"));
}

#[test]
fn a_directory_says_how_many_entries_there_are_and_none_lies_in_another() {
    let good = write(&tensors()).expect("a small archive");
    let end = good.len() - END_BYTES;
    for n_entries in [0u16, 1, 2, 4] {
        let mut other = good.clone();
        other[end + 10..end + 12].copy_from_slice(&n_entries.to_le_bytes());
        let told = read(&other).expect_err("another number than there are");
        assert!(told.contains("entries than it says"), "{told}");
    }
    // Every entry is the largest one.
    let tensor = Tensor::from_f32([5000], vec![1.0; 5000]).expect("fits");
    let mut many = write(&Tensors::from([("a".to_owned(), tensor)])).expect("a small archive");
    let end = many.len() - END_BYTES;
    let at = many
        .windows(4)
        .position(|it| it == CENTRAL)
        .expect("a directory");
    let entry = many[at..end].to_vec();
    let tail = many.split_off(end);
    for _ in 0..999 {
        many.extend(&entry);
    }
    let n_bytes = (many.len() - at) as u32;
    many.extend(tail);
    let end = many.len() - END_BYTES;
    many[end + 10..end + 12].copy_from_slice(&1000u16.to_le_bytes());
    many[end + 12..end + 16].copy_from_slice(&n_bytes.to_le_bytes());
    let told = read(&many).expect_err("a thousand in one");
    assert!(told.contains("lie in each other"), "{told}");
}
