//! Files: loaded, mapped, as tensors; and files that are not what they say.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use spark_mem::file::{LoadReport, MappedFile, Method, TensorFile, load, load_into};
use spark_mem::{Device, MemError};

/// A directory that goes away with the value, on the disk that holds the build.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("files-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|idx| (idx * 7 + idx / 251) as u8).collect()
}

fn loaded(device: &Device, path: &Path) -> Result<(Vec<u8>, LoadReport), MemError> {
    let stream = device.new_stream()?;
    let (buffer, report) = load(device, &stream, path, |_, _| {})?;
    Ok((buffer.read(&stream)?.to_vec(), report))
}

#[test]
fn files_of_all_lengths_come_whole() {
    let folder = Folder::new();
    for n in [
        0,
        1,
        4095,
        4096,
        4097,
        8191,
        100_000,
        (8 << 20) - 1,
        (8 << 20) + 5,
        33 << 20,
    ] {
        let path = folder.file("all", &bytes(n));
        for device in [Device::host(), Device::emulated(1 << 30)] {
            let (got, report) = loaded(&device, &path).unwrap();
            assert!(got == bytes(n), "{n} bytes on {:?}", device.info().kind);
            assert_eq!(report.bytes, n as u64);
        }
        // SAFETY: nobody else knows the file.
        let mapped = unsafe { MappedFile::open(&path) }.unwrap();
        mapped.will_need();
        assert!(*mapped == bytes(n), "{n} bytes mapped");
    }
}

#[test]
fn progress_goes_up_to_the_end() {
    let folder = Folder::new();
    let path = folder.file("long", &bytes(50 << 20));
    let mut seen = Vec::new();
    let mut to = vec![0; 50 << 20];
    load_into(&path, &mut to, |done, all| seen.push((done, all))).unwrap();
    assert!(seen.is_sorted() && seen.len() == 7, "{seen:?}");
    assert_eq!(seen.last(), Some(&(50 << 20, 50 << 20)));
}

#[test]
fn memory_off_a_block_is_read_the_ordinary_way_and_says_so() {
    let folder = Folder::new();
    let path = folder.file("plain", &bytes(20_000));
    let mut room = vec![0; 30_000];
    let first = room.as_ptr().align_offset(4096) + 1;
    let report = load_into(&path, &mut room[first..first + 20_000], |_, _| {}).unwrap();
    match report.method {
        Method::Buffered { why } => assert!(why.contains("begin on a block"), "{why}"),
        Method::Direct => panic!("read directly into {first}"),
    }
    assert!(room[first..first + 20_000] == bytes(20_000));
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let folder = Folder::new();
    let missing = folder.0.join("missing");
    for path in [
        missing.as_path(),
        folder.0.as_path(),
        Path::new("/dev/zero"),
    ] {
        let error = loaded(&Device::host(), path).unwrap_err();
        assert!(matches!(error, MemError::Io { .. }), "{error}");
        // SAFETY: nothing is mapped.
        let error = unsafe { MappedFile::open(path) }.unwrap_err();
        assert!(matches!(error, MemError::Io { .. }), "{error}");
    }
    let short = folder.file("short", &bytes(100));
    let error = load_into(&short, &mut [0; 101], |_, _| {}).unwrap_err();
    assert!(
        matches!(
            error,
            MemError::FileTooShort {
                got: 100,
                want: 101,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let folder = Folder::new();
    let path = folder.file("shrinks", &bytes(80 << 20));
    let mut to = vec![0; 80 << 20];
    let mut is_cut = false;
    let result = load_into(&path, &mut to, |_, _| {
        if !is_cut {
            is_cut = true;
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(1000).unwrap();
        }
    });
    assert!(
        matches!(result, Err(MemError::FileTooShort { .. })),
        "{result:?}"
    );
}

#[test]
fn a_file_larger_than_the_budget_is_refused_before_it_is_read() {
    let folder = Folder::new();
    let path = folder.0.join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let error = loaded(&Device::host(), &path).unwrap_err();
    assert!(matches!(error, MemError::OverBudget { .. }), "{error}");
}

fn tensor_file(header: &str, values: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(values);
    file
}

const TWO: &str = r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}}     "#;

#[test]
fn tensors_are_views_into_the_file() {
    let folder = Folder::new();
    let values: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .chain([7, 8, 9])
        .collect();
    let path = folder.file("two.safetensors", &tensor_file(TWO, &values));
    for device in [Device::host(), Device::emulated(1 << 30)] {
        let stream = device.new_stream().unwrap();
        let (file, _) = TensorFile::load(&device, &stream, &path, |_, _| {}).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b"]);
        let before = device.stats();
        let check = |tensor: spark_mem::file::TensorView<'_>| {
            assert_eq!((tensor.name, tensor.shape), ("a", &[2, 2][..]));
            assert_eq!(tensor.bytes, &values[..16]);
        };
        file.tensor(&stream, "a", check).unwrap();
        if device.info().is_unified {
            assert_eq!(device.stats().since(&before).copies(), 0);
        }
        let view = file.on_device::<f32>("a").unwrap();
        let mut out = device.buffer::<f32>(device.staging_kind(), 4).unwrap();
        stream.copy(view, out.view_mut()).unwrap();
        assert_eq!(*out.read(&stream).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert!(matches!(
            file.on_device::<f32>("b"),
            Err(MemError::Misaligned { .. })
        ));
        assert!(matches!(
            file.on_device::<u8>("c"),
            Err(MemError::NoTensor { .. })
        ));
    }
    // SAFETY: nobody else knows the file.
    let mapped = unsafe { MappedFile::open(&path) }.unwrap();
    let file = TensorFile::from_mapped(&path, mapped).unwrap();
    let stream = Device::host().new_stream().unwrap();
    file.tensor(&stream, "b", |tensor| assert_eq!(tensor.bytes, [7, 8, 9]))
        .unwrap();
    assert!(matches!(
        file.on_device::<u8>("b"),
        Err(MemError::Unsupported { .. })
    ));
}

#[test]
fn headers_that_lie_are_errors() {
    let folder = Folder::new();
    let long = r#"{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#;
    let gap = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let type_and_size = r#"{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}"#;
    let huge_shape =
        r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,16],"data_offsets":[0,8]}}"#;
    let mut longer_than_file = tensor_file(TWO, &[]);
    longer_than_file[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let files = [
        tensor_file(long, &[0; 8]),
        tensor_file(gap, &[0; 8]),
        tensor_file(type_and_size, &[0; 8]),
        tensor_file(huge_shape, &[0; 8]),
        tensor_file(TWO, &[0; 18]),
        tensor_file("no JSON", &[]),
        longer_than_file,
        Vec::new(),
        vec![1, 2, 3],
    ];
    for (idx, bytes) in files.iter().enumerate() {
        let path = folder.file(&format!("{idx}.safetensors"), bytes);
        let device = Device::host();
        let stream = device.new_stream().unwrap();
        let result = TensorFile::load(&device, &stream, &path, |_, _| {});
        assert!(
            matches!(result, Err(MemError::Tensors { .. })),
            "{idx}: {result:?}"
        );
    }
}

/// A file that others replace all the time is one of them, whole.
#[test]
fn a_file_that_is_replaced_meanwhile_is_read_as_one_of_both() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("replaced-{}", std::process::id()));
    let write = |byte: u8, len: usize| {
        let aside = path.with_extension("new");
        std::fs::write(&aside, vec![byte; len]).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    };
    const SIZES: [usize; 2] = [3 << 20, 5 << 20];
    write(0, SIZES[0]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                write(1, SIZES[1]);
                write(0, SIZES[0]);
            }
        });
        let device = Device::host();
        let stream = device.new_stream().unwrap();
        for _ in 0..40 {
            let (buffer, _) = load(&device, &stream, &path, |_, _| {}).unwrap();
            let bytes = buffer.read(&stream).unwrap();
            let first = bytes[0];
            assert_eq!(bytes.len(), SIZES[usize::from(first)]);
            assert!(bytes.iter().all(|byte| *byte == first));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(path.with_extension("new"));
}
