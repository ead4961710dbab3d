//! CUDA C to machine code of one GPU, by NVRTC, opened at run time.
//!
//! ```text
//! cc 9.0, 10.x, 11.x, 12.x -> sm_90a, sm_121a, ...   instructions of exactly this chip
//! others                   -> sm_80, sm_89, ...
//! ```
//!
//! Code is compiled for the GPU that is there and for no other, so the `a` variants, which
//! run on one chip only, cost nothing and give the tensor cores' block-scaled formats.

#![allow(unsafe_code, reason = "calls NVRTC")]

use std::ffi::{CStr, CString, c_char, c_int};

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};
use spark_hal::ComputeCapability;

use super::symbols;
use crate::backend::code::{KernelCode, WARP_HEADER, WARP_HEADER_NAME};
use crate::error::MemError;

/// The run-time compiler NVRTC, which has been found and opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiler {
    pub(super) version: (i32, i32),
}

/// The name of the architecture that a GPU's code is compiled for.
pub(super) fn arch_of(compute: ComputeCapability) -> String {
    let specific = if compute.major >= 9 { "a" } else { "" };
    format!("sm_{}{}{specific}", compute.major, compute.minor)
}

/// A text as C wants it. Source, names and options are constants of the program; a NUL
/// inside one ends it there.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

impl Compiler {
    pub(super) fn find() -> Result<Self, MemError> {
        symbols::check_compiler().map_err(|why| MemError::NoCompiler {
            why: why.to_string().replace("the CUDA driver", "NVRTC"),
        })?;
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the library has this function (checked above); both places are writable.
        let result = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        check(result).map_err(|why| MemError::NoCompiler { why })?;
        Ok(Self {
            version: (major, minor),
        })
    }

    /// The machine code, or the compiler's words.
    pub(super) fn compile(self, code: &KernelCode, arch: &str) -> Result<Vec<u8>, MemError> {
        let failed = |log: String| MemError::Compile {
            file: code.file,
            arch: arch.to_owned(),
            log,
        };
        let program = Program::new(code).map_err(failed)?;
        let architecture = format!("--gpu-architecture={arch}");
        let options: Vec<CString> = [architecture.as_str(), "--std=c++17"]
            .iter()
            .chain(code.options)
            .map(|option| c_text(option))
            .collect();
        program.compile(&options).map_err(failed)
    }
}

/// A program of NVRTC, given back when dropped.
struct Program(nvrtcProgram);

impl Program {
    fn new(code: &KernelCode) -> Result<Self, String> {
        let (source, file) = (c_text(code.source), c_text(code.file));
        let own = (WARP_HEADER_NAME, WARP_HEADER);
        let files: Vec<(CString, CString)> = std::iter::once(&own)
            .chain(code.headers)
            .map(|(name, text)| (c_text(name), c_text(text)))
            .collect();
        let names: Vec<*const c_char> = files.iter().map(|(name, _)| name.as_ptr()).collect();
        let headers: Vec<*const c_char> = files.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut program: nvrtcProgram = std::ptr::null_mut();
        // SAFETY: all texts end with NUL and live for the call, which copies them; there
        // are as many names as headers.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                source.as_ptr(),
                file.as_ptr(),
                c_int::try_from(files.len()).unwrap_or(0),
                headers.as_ptr(),
                names.as_ptr(),
            )
        };
        check(result).map(|()| Self(program))
    }

    fn compile(&self, options: &[CString]) -> Result<Vec<u8>, String> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let n_options = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: a live program; the options end with NUL and live for the call.
        let result = unsafe { sys::nvrtcCompileProgram(self.0, n_options, pointers.as_ptr()) };
        if let Err(why) = check(result) {
            let log = self.log();
            return Err(if log.is_empty() { why } else { log });
        }
        let mut len = 0_usize;
        // SAFETY: a compiled program; `len` is writable.
        check(unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut len) })?;
        let mut cubin = vec![0_u8; len];
        // SAFETY: the buffer has the length NVRTC asked for.
        check(unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) })?;
        if cubin.is_empty() {
            return Err("the compiler made no machine code for this architecture".to_owned());
        }
        Ok(cubin)
    }

    /// The compiler's words, empty if it has none.
    fn log(&self) -> String {
        let mut len = 0_usize;
        // SAFETY: a live program; `len` is writable.
        let known = check(unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut len) });
        if known.is_err() || len == 0 {
            return String::new();
        }
        let mut log = vec![0_u8; len];
        // SAFETY: the buffer has the length NVRTC asked for.
        let read = check(unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) });
        match (read, CStr::from_bytes_until_nul(&log)) {
            (Ok(()), Ok(log)) => log.to_string_lossy().trim_end().to_owned(),
            _ => String::new(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: a live program, given back once. Nothing is left to do if it fails.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

fn check(result: nvrtcResult) -> Result<(), String> {
    match result {
        nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
