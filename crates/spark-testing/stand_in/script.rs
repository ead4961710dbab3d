//! The script that a stand-in library answers from.
//!
//! ```text
//! driver = 580.95.05            # before the first `device`: the system
//! device                        # begins a device; its number is its place
//! name = NVIDIA GB10
//! memory = not_supported
//! sm_clock = 2400 | 2100 | 600  # one answer per call, the last one repeats
//! ```
//!
//! Any answer may be one of these words instead of a value:
//!
//! ```text
//! not_supported  no_permission  no_driver  no_device  lost  unknown
//! not_ready (a code newer than the wrapper)  hang (never returns)
//! garbage (text that is no UTF-8)
//! ```
//!
//! A field that is not in the script is "not supported". The script is the file named by
//! an environment variable, else the file beside the library, so that one process can
//! open several copies with different scripts.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// An answer that is no value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotSupported,
    NoPermission,
    NoDriver,
    NoDevice,
    Lost,
    NotReady,
    Unknown,
    InvalidArgument,
    InsufficientSize,
}

pub(crate) type Answer<T> = Result<T, Refusal>;

/// One table for the system, one per device.
pub(crate) struct Script {
    pub(crate) system: Fields,
    pub(crate) devices: Vec<Fields>,
}

#[derive(Default)]
pub(crate) struct Fields {
    answers: HashMap<String, Vec<String>>,
    n_asked: Mutex<HashMap<String, usize>>,
}

impl Fields {
    /// The next answer for a field.
    pub(crate) fn next(&self, field: &str) -> Answer<&str> {
        let steps = self.answers.get(field).ok_or(Refusal::NotSupported)?;
        let mut n_asked = self.n_asked.lock().map_err(|_| Refusal::Unknown)?;
        let asked = n_asked.entry(field.to_owned()).or_insert(0);
        let step = &steps[(*asked).min(steps.len() - 1)];
        *asked += 1;
        drop(n_asked);
        match step.as_str() {
            "not_supported" => Err(Refusal::NotSupported),
            "no_permission" => Err(Refusal::NoPermission),
            "no_driver" => Err(Refusal::NoDriver),
            "no_device" => Err(Refusal::NoDevice),
            "lost" => Err(Refusal::Lost),
            "not_ready" => Err(Refusal::NotReady),
            "unknown" => Err(Refusal::Unknown),
            "hang" => loop {
                std::thread::park();
            },
            text => Ok(text),
        }
    }

    /// The next answer as numbers separated by commas or dots.
    pub(crate) fn numbers<const N: usize>(&self, field: &str) -> Answer<[u64; N]> {
        let text = self.next(field)?;
        let mut numbers = [0; N];
        let mut words = text.split([',', '.']);
        for number in &mut numbers {
            *number = parse(words.next().unwrap_or(""))?;
        }
        Ok(numbers)
    }

    /// The next answer, where no answer in the script means that all is well.
    pub(crate) fn permits(&self, field: &str) -> Answer<()> {
        match self.next(field) {
            Ok(_) | Err(Refusal::NotSupported) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }
}

/// A decimal or (after `0x`) hexadecimal number; a negative one wraps.
pub(crate) fn parse(word: &str) -> Answer<u64> {
    let word = word.trim();
    let parsed = match (word.strip_prefix("0x"), word.strip_prefix('-')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => digits.parse().ok().map(u64::wrapping_neg),
        _ => word.parse().ok(),
    };
    parsed.ok_or(Refusal::Unknown)
}

impl Script {
    /// Reads the script of the library that `inside` is a function of.
    pub(crate) fn load(variable: &str, file: &str, inside: *const c_void) -> Self {
        let path = match std::env::var_os(variable) {
            Some(path) => PathBuf::from(path),
            None => library_path(inside).with_file_name(file),
        };
        Self::read(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let mut script = Self {
            system: Fields::default(),
            devices: Vec::new(),
        };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line == "device" {
                script.devices.push(Fields::default());
            } else if let Some((field, answers)) = line.split_once('=') {
                let steps = answers
                    .split('|')
                    .map(|step| step.trim().to_owned())
                    .collect();
                let table = script.devices.last_mut().unwrap_or(&mut script.system);
                table.answers.insert(field.trim().to_owned(), steps);
            }
        }
        script
    }
}

#[repr(C)]
struct Dl_info {
    dli_fname: *const c_char,
    dli_fbase: *mut c_void,
    dli_sname: *const c_char,
    dli_saddr: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut Dl_info) -> c_int;
}

fn library_path(inside: *const c_void) -> PathBuf {
    let mut info = Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is writable; a zero result is checked before the name is read,
    // which lives as long as the library.
    let name = unsafe {
        if dladdr(inside, &raw mut info) == 0 || info.dli_fname.is_null() {
            return PathBuf::new();
        }
        CStr::from_ptr(info.dli_fname)
    };
    PathBuf::from(OsString::from_vec(name.to_bytes().to_vec()))
}

/// Writes through a pointer that the caller gave for this type.
pub(crate) fn write<T>(place: *mut T, value: T) -> Answer<()> {
    if place.is_null() {
        return Err(Refusal::InvalidArgument);
    }
    // SAFETY: not null; callers of the library's functions pass a writable place.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a text with its closing NUL into a buffer of `room` bytes.
pub(crate) fn write_text(buffer: *mut c_char, room: usize, text: &str) -> Answer<()> {
    let bytes = match text {
        "garbage" => CString::new([0xff, 0xfe, 0xc3, 0x28]),
        text => CString::new(text),
    };
    let bytes = bytes.map_err(|_| Refusal::Unknown)?.into_bytes_with_nul();
    if buffer.is_null() || bytes.len() > room {
        return Err(Refusal::InsufficientSize);
    }
    // SAFETY: the buffer is not null and has `room` bytes, at least as many as are copied.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    Ok(())
}
