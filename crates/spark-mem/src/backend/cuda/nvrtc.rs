//! NVRTC, NVIDIA's compiler of CUDA C, opened at run time: the newest that a driver can use.
//!
//! ```text
//! libnvrtc.so.13   libnvrtc.so.12   libnvrtc.so        every one that opens and has the functions
//!        └ versions, held against the driver's:
//!            not newer                     the newest of them
//!            newer, same major number      if there is no other: its machine code loads
//!            newer major number            never: the driver may not know the format of its code
//! ```
//!
//! The functions are looked up here and not through bindings, which open one library of any version
//! and end the process when a function is missing. Declarations: `nvrtc.h` of CUDA 13.0; all
//! functions exist since CUDA 11.2. A driver loads machine code of newer compilers of its own major
//! version ("minor version compatibility" of the CUDA compatibility guide), not their PTX.

#![allow(unsafe_code, reason = "opens a library and looks up its functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use spark_hal::stack::Version;

use crate::error::MemError;

/// An `nvrtcProgram`.
pub(super) type Program = *mut c_void;
type Result_ = c_int;

macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)+) => {
        /// The functions of one library.
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Result_,)+
        }

        impl Functions {
            /// Looks all of them up in an open library.
            fn of(library: *mut c_void) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let address = look_up(library, $name).ok_or($name.to_str().unwrap_or(""))?;
                        // SAFETY: `nvrtc.h` gives the function of this name this type; the
                        // library stays open for the life of the process.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> Result_>(address) }
                    },)+
                })
            }
        }
    };
}

functions! {
    version c"nvrtcVersion" (*mut c_int, *mut c_int);
    n_archs c"nvrtcGetNumSupportedArchs" (*mut c_int);
    archs c"nvrtcGetSupportedArchs" (*mut c_int);
    create c"nvrtcCreateProgram" (*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    destroy c"nvrtcDestroyProgram" (*mut Program);
    compile c"nvrtcCompileProgram" (Program, c_int, *const *const c_char);
    cubin_len c"nvrtcGetCUBINSize" (Program, *mut usize);
    cubin c"nvrtcGetCUBIN" (Program, *mut c_char);
    ptx_len c"nvrtcGetPTXSize" (Program, *mut usize);
    ptx c"nvrtcGetPTX" (Program, *mut c_char);
    log_len c"nvrtcGetProgramLogSize" (Program, *mut usize);
    log c"nvrtcGetProgramLog" (Program, *mut c_char);
}

fn look_up(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: an open library; the name ends with NUL.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Names, newest first; the last one may be any version.
const NAMES: [&CStr; 3] = [c"libnvrtc.so.13", c"libnvrtc.so.12", c"libnvrtc.so"];

/// The library of this name, opened once for the life of the process, or why it cannot be used.
fn library(idx: usize) -> Result<Functions, String> {
    static OPEN: [OnceLock<Result<Functions, String>>; NAMES.len()] =
        [const { OnceLock::new() }; NAMES.len()];
    let name = NAMES[idx];
    let open = || {
        let text = name.to_string_lossy();
        // SAFETY: the name ends with NUL. Opening runs the initialisers of NVIDIA's library, which
        // the administrator installed.
        let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if opened.is_null() {
            return Err(format!("no `{text}`"));
        }
        Functions::of(opened).map_err(|missing| format!("`{text}` has no `{missing}`"))
    };
    OPEN[idx].get_or_init(open).clone()
}

/// A compiler that has been found and opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nvrtc {
    pub(super) functions: Functions,
    /// Major and minor number of the CUDA release it is of.
    pub(super) version: (u32, u32),
    /// Whether the driver also takes its PTX.
    pub(super) gives_ptx: bool,
}

/// How well a compiler suits a driver. Larger is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suits {
    Not,
    MachineCode,
    All,
}

fn suits(compiler: (u32, u32), driver: Option<(u32, u32)>) -> Suits {
    match driver {
        None => Suits::All,
        Some(driver) if compiler <= driver => Suits::All,
        Some(driver) if compiler.0 == driver.0 => Suits::MachineCode,
        Some(_) => Suits::Not,
    }
}

impl Nvrtc {
    /// The best compiler for a driver of this version; `None`: the newest, for code that is not
    /// loaded here.
    pub(super) fn find(driver: Option<Version>) -> Result<Self, MemError> {
        let driver = driver.map(|version| (version.major(), version.minor()));
        let mut best: Option<(Suits, Self)> = None;
        let mut reasons = Vec::new();
        for idx in 0..NAMES.len() {
            let compiler = match library(idx).and_then(Self::ask) {
                Ok(compiler) => compiler,
                Err(why) => {
                    reasons.push(why);
                    continue;
                }
            };
            let fit = suits(compiler.version, driver);
            let (major, minor) = compiler.version;
            if fit == Suits::Not {
                let (of_driver, minor_of_driver) = driver.unwrap_or_default();
                reasons.push(format!(
                    "NVRTC {major}.{minor} is newer than the driver, which is of CUDA {of_driver}.{minor_of_driver} \
                     and need not know the format of its code"
                ));
                continue;
            }
            let key = |(fit, known): &(Suits, Self)| (*fit, known.version);
            let found = (fit, compiler);
            if best.as_ref().is_none_or(|known| key(&found) > key(known)) {
                best = Some(found);
            }
            if fit == Suits::All {
                break; // the names go from new to old
            }
        }
        match best {
            Some((fit, compiler)) => Ok(Self {
                gives_ptx: fit == Suits::All,
                ..compiler
            }),
            None => Err(MemError::NoCompiler {
                why: reasons.join(", "),
            }),
        }
    }

    fn ask(functions: Functions) -> Result<Self, String> {
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: both places are writable.
        let result = unsafe { (functions.version)(&raw mut major, &raw mut minor) };
        check("nvrtcVersion", result)?;
        let number = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(Self {
            functions,
            version: (number(major), number(minor)),
            gives_ptx: true,
        })
    }

    /// The architectures that it compiles for, as 90 and 121; empty if it does not tell.
    pub(super) fn architectures(&self) -> Vec<u32> {
        let mut n = 0;
        // SAFETY: `n` is writable.
        let told = unsafe { (self.functions.n_archs)(&raw mut n) };
        let mut archs = vec![0; usize::try_from(n).unwrap_or(0)];
        if check("nvrtcGetNumSupportedArchs", told).is_err() || archs.is_empty() {
            return Vec::new();
        }
        // SAFETY: the list has as many places as the library said.
        let told = unsafe { (self.functions.archs)(archs.as_mut_ptr()) };
        match check("nvrtcGetSupportedArchs", told) {
            Ok(()) => archs
                .into_iter()
                .filter_map(|arch| u32::try_from(arch).ok())
                .collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// The names of `nvrtcResult`.
const RESULTS: [&str; 13] = [
    "NVRTC_SUCCESS",
    "NVRTC_ERROR_OUT_OF_MEMORY",
    "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
    "NVRTC_ERROR_INVALID_INPUT",
    "NVRTC_ERROR_INVALID_PROGRAM",
    "NVRTC_ERROR_INVALID_OPTION",
    "NVRTC_ERROR_COMPILATION",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
    "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    "NVRTC_ERROR_INTERNAL_ERROR",
    "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
];

pub(super) fn check(call: &str, result: c_int) -> Result<(), String> {
    if result == 0 {
        return Ok(());
    }
    let name = usize::try_from(result)
        .ok()
        .and_then(|idx| RESULTS.get(idx));
    Err(format!("{call}: {}", name.unwrap_or(&"an unknown error")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_held_against_the_driver() {
        let driver = Some((12, 4));
        assert_eq!(suits((12, 4), driver), Suits::All);
        assert_eq!(suits((11, 8), driver), Suits::All);
        assert_eq!(suits((12, 9), driver), Suits::MachineCode);
        assert_eq!(suits((13, 0), driver), Suits::Not);
        assert_eq!(suits((13, 0), None), Suits::All);
    }
}
