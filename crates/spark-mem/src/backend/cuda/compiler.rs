//! CUDA C to code of one GPU, by NVRTC.
//!
//! ```text
//! cc 9.0, 10.x, 11.x, 12.x -> sm_90a, sm_121a, ...   instructions of exactly this chip
//! others                   -> sm_80, sm_89, ...
//! a chip that it does not know -> PTX of the newest one it knows, which the driver compiles
//! ```
//!
//! Code is compiled for the GPU that is there and for no other, so the `a` variants, which
//! run on one chip only, cost nothing and give the tensor cores' block-scaled formats.

#![allow(unsafe_code, reason = "calls NVRTC")]

use std::ffi::{CStr, CString, c_char, c_int};

use spark_hal::ComputeCapability;
use spark_hal::stack::{CodeKind, CodeTarget, Reach};

use super::nvrtc::{self, Functions, Nvrtc, check};
use crate::backend::code::{ImageSource, Text, WARP_HEADER, WARP_HEADER_NAME};
use crate::error::MemError;

/// The architecture that a GPU's code is compiled for.
pub(super) fn target_of(compute: ComputeCapability) -> CodeTarget {
    CodeTarget {
        sm: compute.sm(),
        reach: if compute.major >= 9 {
            Reach::Exact
        } else {
            Reach::Ordinary
        },
        kind: CodeKind::Machine,
    }
}

/// PTX of the newest architecture that a compiler knows and a GPU runs.
pub(super) fn ptx_target(compiler: &Nvrtc, compute: ComputeCapability) -> Option<CodeTarget> {
    let known = compiler.architectures().into_iter();
    let sm = known.filter(|sm| *sm <= compute.sm()).max()?;
    Some(CodeTarget {
        sm,
        reach: Reach::Ordinary,
        kind: CodeKind::Ptx,
    })
}

/// A text as C wants it, which a NUL would end.
fn c_text(what: &str, text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| {
        let at = error.nul_position();
        format!("{what} has a NUL character at byte {at}")
    })
}

/// What this crate says to the compiler itself: for which GPU, and that code is whole.
const OWN_OPTIONS: [&str; 11] = [
    "--gpu-architecture",
    "-arch",
    "--relocatable-device-code",
    "-rdc",
    "--device-c",
    "-dc",
    "--dlink-time-opt",
    "-dlto",
    "--gen-opt-lto",
    "-gen-opt-lto",
    "--fdevice-syntax-only",
];

/// Machine code or PTX, or the compiler's words.
pub(super) fn compile(
    compiler: &Nvrtc,
    image: &ImageSource,
    target: CodeTarget,
) -> Result<Vec<u8>, MemError> {
    let failed = |log: String| MemError::Compile {
        file: image.file.to_string(),
        arch: target.to_string(),
        log,
    };
    let is_own = |option: &&Text| {
        OWN_OPTIONS
            .iter()
            .any(|own| option.trim_start().starts_with(own))
    };
    if let Some(option) = image.options.iter().find(is_own) {
        return Err(failed(format!(
            "option `{}` is not the program's to give: code is made for the GPU that runs it, and whole",
            &**option
        )));
    }
    let program = Program::new(compiler.functions, image).map_err(failed)?;
    let architecture = format!("--gpu-architecture={target}");
    let options: Result<Vec<CString>, String> = [architecture.as_str(), "--std=c++17"]
        .into_iter()
        .chain(image.options.iter().map(|option| &**option))
        .map(|option| c_text(&format!("option `{option}`"), option))
        .collect();
    let code = options.and_then(|options| program.compile(&options, target.kind));
    code.map_err(failed)
}

/// A program of NVRTC, given back when dropped.
struct Program {
    functions: Functions,
    raw: nvrtc::Program,
}

impl Program {
    fn new(functions: Functions, image: &ImageSource) -> Result<Self, String> {
        let source = c_text("the source", &image.source)?;
        let file = c_text("its name", &image.file)?;
        let others = image.headers.iter().map(|(name, text)| (&**name, &**text));
        let mut files: Vec<(CString, CString)> = Vec::new();
        for (name, text) in std::iter::once((WARP_HEADER_NAME, WARP_HEADER)).chain(others) {
            let what = format!("header `{name}`");
            let (name, text) = (c_text(&what, name)?, c_text(&what, text)?);
            if files.iter().any(|(known, _)| *known == name) {
                return Err(format!("{what} is given twice"));
            }
            files.push((name, text));
        }
        let names: Vec<*const c_char> = files.iter().map(|(name, _)| name.as_ptr()).collect();
        let headers: Vec<*const c_char> = files.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut raw: nvrtc::Program = std::ptr::null_mut();
        // SAFETY: all texts end with NUL and live for the call, which copies them; there
        // are as many names as headers.
        let result = unsafe {
            (functions.create)(
                &raw mut raw,
                source.as_ptr(),
                file.as_ptr(),
                c_int::try_from(files.len()).unwrap_or(0),
                headers.as_ptr(),
                names.as_ptr(),
            )
        };
        check("nvrtcCreateProgram", result).map(|()| Self { functions, raw })
    }

    fn compile(&self, options: &[CString], kind: CodeKind) -> Result<Vec<u8>, String> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let n_options = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: a live program; the options end with NUL and live for the call.
        let result = unsafe { (self.functions.compile)(self.raw, n_options, pointers.as_ptr()) };
        if let Err(why) = check("nvrtcCompileProgram", result) {
            let log = self.log();
            return Err(if log.is_empty() { why } else { log });
        }
        let Functions {
            cubin_len,
            cubin,
            ptx_len,
            ptx,
            ..
        } = self.functions;
        let (ask_len, ask) = match kind {
            CodeKind::Machine => (cubin_len, cubin),
            CodeKind::Ptx => (ptx_len, ptx),
        };
        let mut len = 0_usize;
        // SAFETY: a compiled program; `len` is writable.
        check("the length of compiled code", unsafe {
            ask_len(self.raw, &raw mut len)
        })?;
        if len == 0 {
            return Err("the compiler made no code for this architecture".to_owned());
        }
        let mut code = vec![0_u8; len];
        // SAFETY: the buffer has the length NVRTC asked for.
        check("compiled code", unsafe {
            ask(self.raw, code.as_mut_ptr().cast())
        })?;
        Ok(code)
    }

    /// The compiler's words, empty if it has none.
    fn log(&self) -> String {
        let mut len = 0_usize;
        // SAFETY: a live program; `len` is writable.
        let told = unsafe { (self.functions.log_len)(self.raw, &raw mut len) };
        if told != 0 || len == 0 {
            return String::new();
        }
        let mut log = vec![0_u8; len];
        // SAFETY: the buffer has the length NVRTC asked for.
        let read = unsafe { (self.functions.log)(self.raw, log.as_mut_ptr().cast()) };
        match (read, CStr::from_bytes_until_nul(&log)) {
            (0, Ok(log)) => log.to_string_lossy().trim_end().to_owned(),
            _ => String::new(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: a live program, given back once. Nothing is left to do if it fails.
        let _ = unsafe { (self.functions.destroy)(&raw mut self.raw) };
    }
}
