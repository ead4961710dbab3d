//! Safetensors on a card: what loading them and looking at them takes besides the file.

use std::path::PathBuf;

use spark_mem::file::{TensorFile, load};
use spark_mem::{BufferKind, Device, MemError};
use spark_testing::driver::Persona;

use crate::cache::CacheDir;
use crate::stand_in::{check, driver, options};

const N_TENSORS: usize = 16;
/// Of one tensor; not a whole number of pieces of the staging ring.
const EACH: usize = (2 << 20) + 512 * 1024;

/// A file of tensors `t0`, `t1`, …, each with its number in every byte; and its folder.
fn file() -> (PathBuf, CacheDir, u64) {
    let entry = |idx: usize| {
        let (begin, end) = (idx * EACH, (idx + 1) * EACH);
        format!(r#""t{idx}":{{"dtype":"U8","shape":[{EACH}],"data_offsets":[{begin},{end}]}}"#)
    };
    let entries: Vec<String> = (0..N_TENSORS).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    for idx in 0..N_TENSORS {
        bytes.resize(bytes.len() + EACH, idx as u8);
    }
    let folder = CacheDir::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("many.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    (path, folder, bytes.len() as u64)
}

/// The ring's slots are of 2 MiB; what has the size of a file or of a tensor would be larger.
const LARGEST_PINNED: u64 = 2 << 20;

#[test]
fn a_card_copies_the_tensor_that_is_looked_at_and_keeps_nothing() {
    let (path, _folder, len) = file();
    check(Persona::Card, |posed, device| {
        let stream = device.new_stream().unwrap();
        let before = device.stats();
        let (file, report) = TensorFile::load(device, &stream, &path, |_, _| {}).unwrap();
        assert_eq!(report.bytes, len);
        let copied = device.stats().since(&before).device_to_host;
        assert_eq!(copied.bytes, 0, "the header is the file's");
        assert_eq!(device.budget().used_bytes(), len, "loaded once");
        for idx in [5, 0, N_TENSORS - 1] {
            let before = device.stats();
            let look = |tensor: spark_mem::file::TensorView<'_>| {
                assert_eq!((tensor.shape, tensor.bytes.len()), (&[EACH][..], EACH));
                assert!(tensor.bytes.iter().all(|byte| usize::from(*byte) == idx));
            };
            file.tensor(&stream, &format!("t{idx}"), look).unwrap();
            let copied = device.stats().since(&before).device_to_host;
            assert_eq!(copied.bytes, EACH as u64, "tensor {idx} alone");
        }
        assert_eq!(device.budget().used_bytes(), len, "nothing is kept");
        let calls = posed.calls();
        let pinned = calls.iter().filter_map(|call| {
            let rest = call.strip_prefix("cuMemHostAlloc ")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        });
        let pinned: Vec<u64> = pinned.collect();
        assert!(!pinned.is_empty() && pinned.iter().all(|bytes| *bytes <= LARGEST_PINNED));
    });
}

#[test]
fn tensors_fit_where_their_file_fits() {
    let (path, _folder, len) = file();
    let posed = driver().pose(Persona::Card);
    let device = Device::cuda(0, options().with_budget_bytes(len * 3 / 2)).unwrap();
    let stream = device.new_stream().unwrap();
    load(&device, &stream, &path, |_, _| {}).unwrap();
    let (file, _) = TensorFile::load(&device, &stream, &path, |_, _| {}).unwrap();
    let shown = file.tensor(&stream, "t3", |tensor| tensor.bytes[EACH - 1]);
    assert_eq!(shown.unwrap(), 3);
    drop((file, stream, device));
    posed.assert_clean();
}

/// On a Spark, and wherever else the host sees the buffer, it is the buffer that is shown.
#[test]
fn shared_memory_is_shown_in_place() {
    let (path, _folder, _) = file();
    for persona in [Persona::Spark, Persona::Jetson] {
        check(persona, |_, device| {
            let stream = device.new_stream().unwrap();
            let (file, _) = TensorFile::load(device, &stream, &path, |_, _| {}).unwrap();
            let before = device.stats();
            let shown = file.tensor(&stream, "t3", |tensor| tensor.bytes.as_ptr() as u64);
            let place = file.on_device::<u8>("t3").unwrap().device_address();
            assert_eq!(shown.unwrap(), place.unwrap(), "{persona:?}");
            assert_eq!(device.stats().since(&before).copies(), 0, "{persona:?}");
        });
    }
}

/// Nothing is taken for a file that is none.
#[test]
fn a_header_that_lies_is_refused_before_anything_is_taken() {
    let folder = CacheDir::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("lies.safetensors");
    let header = r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    // Of 1 TiB: more than any budget here.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    check(Persona::Card, |posed, device| {
        let stream = device.new_stream().unwrap();
        let before = posed.count("cuMem");
        let refused = TensorFile::load(device, &stream, &path, |_, _| {});
        assert!(
            matches!(refused, Err(MemError::Tensors { .. })),
            "{refused:?}"
        );
        assert_eq!(posed.count("cuMem"), before);
        assert_eq!(device.shared_kind(), BufferKind::Device);
    });
}
