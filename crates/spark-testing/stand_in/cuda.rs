//! A stand-in `libcuda.so.1` with the questions one asks before using a device, and
//! nothing to compute with; answers come from a script (see `script.rs`).
//!
//! ```text
//! init = ok     version = 13000
//! device
//! name = NVIDIA GB10     uuid = hexadecimal number     pci = 000F:01:00.0
//! memory = 130663907328  18 = 1 (attributes by their number in cuda.h)
//! ```
//!
//! Declarations: cuda.h of CUDA 13.0. `cfg(old_driver)` leaves out
//! `cuDeviceGetPCIBusId`, to be a driver that lacks a function.

#![allow(
    unsafe_code,
    non_snake_case,
    non_camel_case_types,
    reason = "a C library's interface"
)]
#![allow(missing_docs, reason = "the functions are those of cuda.h")]

mod script;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use script::{Answer, Fields, Refusal, Script, write, write_text};

type CUresult = c_int;

fn code(outcome: Answer<()>) -> CUresult {
    match outcome {
        Ok(()) => 0,
        Err(Refusal::NotSupported | Refusal::InvalidArgument | Refusal::InsufficientSize) => 1,
        Err(Refusal::NoDevice) => 100,
        Err(Refusal::NoDriver) => 34,
        Err(Refusal::NoPermission) => 800,
        Err(Refusal::NotReady) => 802,
        Err(Refusal::Lost) => 46,
        Err(Refusal::Unknown) => 999,
    }
}

fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::load("SPARK_STAND_IN_CUDA", "cuda.txt", cuInit as *const c_void))
}

fn device(number: c_int) -> Answer<&'static Fields> {
    let idx = usize::try_from(number).map_err(|_| Refusal::InvalidArgument)?;
    script().devices.get(idx).ok_or(Refusal::InvalidArgument)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> CUresult {
    code(script().system.permits("init"))
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    let number = script().system.numbers::<1>("version");
    code(number.and_then(|[number]| write(version, number as c_int)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    let script = script();
    let counted = match script.system.numbers::<1>("count") {
        Ok([counted]) => counted as c_int,
        Err(Refusal::NotSupported) => script.devices.len() as c_int,
        Err(refusal) => return code(Err(refusal)),
    };
    code(write(count, counted))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(handle: *mut c_int, number: c_int) -> CUresult {
    let found = device(number).and_then(|device| device.permits("handle"));
    code(found.and_then(|()| write(handle, number)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(buffer: *mut c_char, room: c_int, number: c_int) -> CUresult {
    let text = device(number).and_then(|device| device.next("name"));
    code(text.and_then(|text| write_text(buffer, room as usize, text)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], number: c_int) -> CUresult {
    let digits = device(number).and_then(|device| device.next("uuid"));
    code(digits.and_then(|digits| {
        let value = u128::from_str_radix(digits, 16).map_err(|_| Refusal::Unknown)?;
        write(uuid, value.to_be_bytes())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, number: c_int) -> CUresult {
    let answer = device(number).and_then(|device| device.numbers(&attribute.to_string()));
    code(answer.and_then(|[answer]| write(value, answer as c_int)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) -> CUresult {
    let answer = device(number).and_then(|device| device.numbers("memory"));
    code(answer.and_then(|[total]| write(bytes, total as usize)))
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(buffer: *mut c_char, room: c_int, number: c_int) -> CUresult {
    let text = device(number).and_then(|device| device.next("pci"));
    code(text.and_then(|text| write_text(buffer, room as usize, text)))
}
