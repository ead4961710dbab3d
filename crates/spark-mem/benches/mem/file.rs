//! A file into memory: mapped, read directly, read through the page cache; cold and warm.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use spark_mem::file::{MappedFile, load};
use spark_mem::{Device, MemError};

use crate::Case;

/// A file of the benchmark's own, on the disk that holds the build, or, where the program was
/// brought to from another machine, the current folder.
pub(crate) struct Scratch {
    path: PathBuf,
    len: usize,
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> MemError {
    let path = path.to_owned();
    move |source| MemError::Io {
        action,
        path,
        source,
    }
}

impl Scratch {
    pub(crate) fn new(len: usize) -> Result<Self, MemError> {
        let name = format!("bench-{}.tmp", std::process::id());
        let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = if built.is_dir() {
            built
        } else {
            Path::new(".")
        };
        let path = folder.join(name);
        let scratch = Self { path, len };
        let mut file = File::create(&scratch.path).map_err(io("make", &scratch.path))?;
        let bytes: Vec<u8> = (0..1 << 20)
            .map(|idx| (idx * 31 + idx / 257) as u8)
            .collect();
        for _ in 0..len / bytes.len() {
            file.write_all(&bytes).map_err(io("write", &scratch.path))?;
        }
        file.sync_all().map_err(io("write", &scratch.path))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes a file's pages out of the cache.
fn cool(path: &Path) -> Result<(), MemError> {
    let file = File::open(path).map_err(io("open", path))?;
    // SAFETY: an open file; the call is advice and touches no memory.
    let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if code == 0 {
        return Ok(());
    }
    Err(io("cool", path)(std::io::Error::from_raw_os_error(code)))
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(4096).map(|page| u64::from(page[1])).sum()
}

pub(crate) fn all(device: &Device, scratch: &Scratch) -> Result<Vec<Case>, MemError> {
    let (path, len) = (scratch.path.clone(), scratch.len);
    let wanted = sum(&std::fs::read(&path).map_err(io("read", &path))?);
    let mut cases = Vec::new();
    for is_cold in [true, false] {
        let state = if is_cold { "cold" } else { "warm" };
        let mut add = |what: &str, mut read: Box<dyn FnMut() -> Result<u64, MemError>>| {
            let found = Rc::new(RefCell::new(0));
            let kept = Rc::clone(&found);
            let file = path.clone();
            cases.push(Case {
                name: format!("file {what} {state}"),
                n: len,
                bytes: Some(len),
                prepare: Box::new(move || if is_cold { cool(&file) } else { Ok(()) }),
                run: Box::new(move || {
                    *kept.borrow_mut() = read()?;
                    Ok(())
                }),
                check: Box::new(move || Ok(*found.borrow() == wanted)),
            });
        };
        let file = path.clone();
        let mapped = move || {
            // SAFETY: nobody else knows the file.
            let mapped = unsafe { MappedFile::open(&file) }?;
            Ok(sum(&mapped))
        };
        add("mapped, every page touched,", Box::new(mapped));
        let file = path.clone();
        let buffered = move || {
            let mut bytes = vec![0; len];
            let mut opened = File::open(&file).map_err(io("open", &file))?;
            opened.read_exact(&mut bytes).map_err(io("read", &file))?;
            Ok(sum(&bytes))
        };
        add("read by std", Box::new(buffered));
        let (file, device) = (path.clone(), device.clone());
        let direct = move || {
            let stream = device.new_stream()?;
            let (buffer, _) = load(&device, &stream, &file, |_, _| {})?;
            Ok(sum(&buffer.read(&stream)?))
        };
        add("loaded directly", Box::new(direct));
    }
    Ok(cases)
}
