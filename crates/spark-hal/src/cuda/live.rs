//! The real CUDA driver, opened with `dlopen`.
//!
//! Declarations: the CUDA 13.0 driver API's `cuda.h`. All calls used here exist since
//! CUDA 11.4 and need no context, so no GPU memory is taken.

#![allow(unsafe_code, reason = "calls C functions that dlsym found")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use libloading::Library;

use crate::capability::ComputeCapability;
use crate::in_time::{self, NoAnswer};
use crate::library;
use crate::reading::{Failure, Reading, quote};
use crate::version::Version;

use super::api::{CudaApi, CudaDevice, CudaUnavailable};
use super::attribute::{Attributes, CudaAttribute};

/// As in [`crate::nvml`]: the linker's search, then NixOS and WSL.
const LIBRARIES: [&str; 3] = [
    "libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
];

/// How long `cuInit` may take: it wakes every GPU of the machine.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const CUDA_SUCCESS: c_int = 0;
const CUDA_ERROR_INVALID_VALUE: c_int = 1;
const CUDA_ERROR_NO_DEVICE: c_int = 100;

type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The driver, started. It is never closed: its threads may still run.
#[derive(Debug)]
pub struct CudaDriver {
    library: &'static Library,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    total_memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
    pci_bus_id: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
}

/// Opens and starts the driver on a thread of its own, so that a driver that hangs
/// costs a time limit only.
pub(super) fn open_in_time() -> Result<CudaDriver, CudaUnavailable> {
    let call = "cuInit";
    match in_time::run("spark-hal-cuda", TIME_LIMIT, open) {
        Ok(outcome) => outcome,
        Err(NoAnswer::TimedOut(after)) => Err(Failure::TimedOut { call, after }.into()),
        Err(why) => Err(Failure::Call {
            call,
            reason: why.to_string(),
        }
        .into()),
    }
}

fn open() -> Result<CudaDriver, CudaUnavailable> {
    start(library::open(&LIBRARIES)?)
}

fn start(library: &'static Library) -> Result<CudaDriver, CudaUnavailable> {
    let initialise: unsafe extern "C" fn(c_uint) -> c_int = symbol(library, "cuInit")?;
    let driver = CudaDriver {
        library,
        version: symbol(library, "cuDriverGetVersion")?,
        count: symbol(library, "cuDeviceGetCount")?,
        device: symbol(library, "cuDeviceGet")?,
        name: symbol(library, "cuDeviceGetName")?,
        uuid: symbol(library, "cuDeviceGetUuid_v2")
            .or_else(|_| symbol(library, "cuDeviceGetUuid"))?,
        attribute: symbol(library, "cuDeviceGetAttribute")?,
        total_memory: symbol(library, "cuDeviceTotalMem_v2")?,
        pci_bus_id: symbol(library, "cuDeviceGetPCIBusId")?,
    };
    // SAFETY: `cuInit` has this signature (cuda.h), takes flags that must be 0, and
    // may be called from any thread any number of times.
    match unsafe { initialise(0) } {
        CUDA_SUCCESS => Ok(driver),
        CUDA_ERROR_NO_DEVICE => Err(CudaUnavailable::NoDevice),
        code => Err(CudaUnavailable::InitFailed {
            code,
            name: error_name(code),
        }),
    }
}

/// A function of the driver. `F` must be its type in cuda.h.
fn symbol<F: Copy>(library: &Library, name: &'static str) -> Result<F, CudaUnavailable> {
    // SAFETY: every caller in this file names the type that cuda.h gives this
    // function; the library is never closed, so the copy stays valid.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|_| CudaUnavailable::SymbolMissing { symbol: name })
}

impl CudaDriver {
    /// Opens and starts this library file instead of the system's driver, without a
    /// time limit. For tests and for drivers in unusual places.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open_library(file: &Path) -> Result<Self, CudaUnavailable> {
        start(library::open(&[&file.to_string_lossy()])?)
    }

    /// Whether this driver has a function, such as `cuMemPrefetchAsync_v2`.
    #[must_use]
    pub fn has_symbol(&self, name: &str) -> bool {
        library::has_symbol(self.library, name)
    }

    /// Where a function of this driver lies, for one that bindings do not declare. The driver
    /// stays open for the life of the process. Calling it is the caller's `unsafe`.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<NonNull<c_void>> {
        // SAFETY: the symbol is read as an address and neither called nor read through here.
        let found = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) };
        found.ok().and_then(|address| NonNull::new(*address))
    }

    fn get_int(&self, call: &'static str, function: GetInt) -> Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: both functions used here take one pointer to an int to write.
        check(call, unsafe { function(&raw mut value) })?;
        Ok(value)
    }

    fn attribute_of(&self, device: c_int, attribute: CudaAttribute) -> Reading<i32> {
        let mut value = 0;
        // SAFETY: signature of cuda.h; `value` is writable; an attribute number the
        // driver does not know is answered with CUDA_ERROR_INVALID_VALUE.
        match unsafe { (self.attribute)(&raw mut value, attribute.number(), device) } {
            CUDA_SUCCESS => Reading::Value(value),
            CUDA_ERROR_INVALID_VALUE => Reading::NotSupported,
            code => Reading::Failed(error("cuDeviceGetAttribute", code)),
        }
    }

    fn text(
        &self,
        call: &'static str,
        function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
        device: c_int,
    ) -> Result<String, Failure> {
        let mut bytes = [0_u8; 256];
        let room = c_int::try_from(bytes.len() - 1).unwrap_or(0);
        // SAFETY: both functions used here write at most `room` bytes, closing NUL
        // included; the last byte of the array stays NUL in any case.
        check(call, unsafe {
            function(bytes.as_mut_ptr().cast(), room, device)
        })?;
        let text = CStr::from_bytes_until_nul(&bytes)
            .ok()
            .and_then(|text| text.to_str().ok());
        match text {
            Some(text) => Ok(quote(text)),
            None => Err(Failure::malformed(
                call,
                &String::from_utf8_lossy(&bytes),
                "UTF-8 text",
            )),
        }
    }

    fn uuid_of(&self, device: c_int) -> Result<String, Failure> {
        let mut uuid = [0_u8; 16];
        // SAFETY: `CUuuid` is 16 bytes; the array is writable.
        check("cuDeviceGetUuid", unsafe {
            (self.uuid)(&raw mut uuid, device)
        })?;
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        Ok(format!(
            "GPU-{a}-{b}-{c}-{}-{}",
            &digits[16..20],
            &digits[20..]
        ))
    }
}

impl CudaApi for CudaDriver {
    fn version(&self) -> Reading<Version> {
        let call = "cuDriverGetVersion";
        let number = match self.get_int(call, self.version) {
            Ok(number) => number,
            Err(why) => return Reading::Failed(why),
        };
        match Version::from_cuda_number(number) {
            Some(version) => Reading::Value(version),
            None => {
                let got = number.to_string();
                Reading::Failed(Failure::malformed(call, &got, "a CUDA version number"))
            }
        }
    }

    fn device_count(&self) -> Result<u32, Failure> {
        let call = "cuDeviceGetCount";
        let count = self.get_int(call, self.count)?;
        u32::try_from(count).map_err(|_| Failure::malformed(call, &count.to_string(), "a count"))
    }

    fn describe(&self, ordinal: u32) -> Result<CudaDevice, Failure> {
        let number = c_int::try_from(ordinal).map_err(|_| {
            Failure::malformed("CUDA device", &ordinal.to_string(), "a small number")
        })?;
        let mut device = 0;
        // SAFETY: signature of cuda.h; `device` is writable; a wrong number is
        // answered with CUDA_ERROR_INVALID_DEVICE.
        check("cuDeviceGet", unsafe {
            (self.device)(&raw mut device, number)
        })?;
        let mut total = 0_usize;
        // SAFETY: signature of cuda.h; `total` is writable; `device` is valid.
        let code = unsafe { (self.total_memory)(&raw mut total, device) };
        let total_memory_bytes = check("cuDeviceTotalMem", code)
            .map(|()| total as u64)
            .into();
        let attributes = Attributes::ask(|attribute| self.attribute_of(device, attribute));
        let major = attributes.count(CudaAttribute::ComputeCapabilityMajor);
        let minor = attributes.count(CudaAttribute::ComputeCapabilityMinor);
        Ok(CudaDevice {
            ordinal,
            name: self.text("cuDeviceGetName", self.name, device).into(),
            uuid: self.uuid_of(device).into(),
            address: self
                .text("cuDeviceGetPCIBusId", self.pci_bus_id, device)
                .and_then(|text| text.parse())
                .into(),
            compute: major.and_then(|major| minor.map(|minor| ComputeCapability { major, minor })),
            total_memory_bytes,
            attributes,
        })
    }
}

fn check(call: &'static str, code: c_int) -> Result<(), Failure> {
    if code == CUDA_SUCCESS {
        Ok(())
    } else {
        Err(error(call, code))
    }
}

fn error(call: &'static str, code: c_int) -> Failure {
    Failure::Call {
        call,
        reason: format!("error {code} ({})", error_name(code)),
    }
}

/// The names of the errors that starting and asking can give (cuda.h).
fn error_name(code: c_int) -> &'static str {
    match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "see CUresult in cuda.h",
    }
}
