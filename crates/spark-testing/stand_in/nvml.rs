//! A stand-in `libnvidia-ml.so.1` that answers what a script says (see `script.rs`).
//!
//! ```text
//! driver = 580.95.05     nvml = 13.580.95.05     cuda = 13000     init = ok
//! device
//! name = NVIDIA GB10     uuid = GPU-...          pci = 0000000F:01:00.0   compute = 12.1
//! memory = total,free,used                       max_sm_clock = 3003
//! utilization = gpu,memory                       temperature  power_mw  power_limit_mw
//! sm_clock  memory_clock  pstate  throttle  energy_mj   processes = pid:bytes, pid:none
//! handle = ok            count = 3 (overrides the number of devices)
//! ```
//!
//! Declarations: NVIDIA's nvml.h. Compiled by the build script of `spark-testing`;
//! `cfg(old_driver)` leaves out the functions that drivers before 2021 did not have.

#![allow(
    unsafe_code,
    non_snake_case,
    non_camel_case_types,
    reason = "a C library's interface"
)]
#![allow(missing_docs, reason = "the functions are those of nvml.h")]

mod script;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use script::{Answer, Fields, Refusal, Script, parse, write, write_text};

type nvmlReturn_t = c_uint;

const SUCCESS: nvmlReturn_t = 0;
const INVALID_ARGUMENT: nvmlReturn_t = 2;
const INSUFFICIENT_SIZE: nvmlReturn_t = 7;

fn code(outcome: Answer<()>) -> nvmlReturn_t {
    match outcome {
        Ok(()) => SUCCESS,
        Err(Refusal::InvalidArgument) => INVALID_ARGUMENT,
        Err(Refusal::NotSupported) => 3,
        Err(Refusal::NoPermission) => 4,
        Err(Refusal::NoDevice) => 6,
        Err(Refusal::InsufficientSize) => INSUFFICIENT_SIZE,
        Err(Refusal::NoDriver) => 9,
        Err(Refusal::Lost) => 15,
        Err(Refusal::NotReady) => 27,
        Err(Refusal::Unknown) => 999,
    }
}

fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        Script::load(
            "SPARK_STAND_IN_NVML",
            "nvml.txt",
            nvmlInit_v2 as *const c_void,
        )
    })
}

/// A device handle is the device's number plus one, so that null is none.
fn device(handle: *mut c_void) -> Answer<&'static Fields> {
    let number = (handle as usize)
        .checked_sub(1)
        .ok_or(Refusal::InvalidArgument)?;
    script().devices.get(number).ok_or(Refusal::InvalidArgument)
}

fn number(place: *mut c_uint, value: u64) -> Answer<()> {
    write(place, value as c_uint)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    code(script().system.permits("init"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(buffer: *mut c_char, room: c_uint) -> nvmlReturn_t {
    code(
        script()
            .system
            .next("driver")
            .and_then(|text| write_text(buffer, room as usize, text)),
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(buffer: *mut c_char, room: c_uint) -> nvmlReturn_t {
    code(
        script()
            .system
            .next("nvml")
            .and_then(|text| write_text(buffer, room as usize, text)),
    )
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> nvmlReturn_t {
    let number = script().system.numbers::<1>("cuda");
    code(number.and_then(|[number]| write(version, number as c_int)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    let script = script();
    let counted = match script.system.numbers::<1>("count") {
        Ok([counted]) => counted,
        Err(Refusal::NotSupported) => script.devices.len() as u64,
        Err(refusal) => return code(Err(refusal)),
    };
    code(number(count, counted))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    handle: *mut *mut c_void,
) -> nvmlReturn_t {
    let Some(device) = script().devices.get(index as usize) else {
        return INVALID_ARGUMENT;
    };
    let number = (index as usize + 1) as *mut c_void;
    code(
        device
            .permits("handle")
            .and_then(|()| write(handle, number)),
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(
    handle: *mut c_void,
    buffer: *mut c_char,
    room: c_uint,
) -> nvmlReturn_t {
    let text = device(handle).and_then(|device| device.next("name"));
    code(text.and_then(|text| write_text(buffer, room as usize, text)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(
    handle: *mut c_void,
    buffer: *mut c_char,
    room: c_uint,
) -> nvmlReturn_t {
    let text = device(handle).and_then(|device| device.next("uuid"));
    code(text.and_then(|text| write_text(buffer, room as usize, text)))
}

#[repr(C)]
struct nvmlPciInfo_t {
    busIdLegacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pciDeviceId: c_uint,
    pciSubSystemId: c_uint,
    busId: [u8; 32],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(
    handle: *mut c_void,
    pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t {
    let text = device(handle).and_then(|device| device.next("pci"));
    code(text.and_then(|text| {
        let bytes: &[u8] = if text == "garbage" {
            &[0xff, 0xc3, 0x28]
        } else {
            text.as_bytes()
        };
        let mut bus_id = [0; 32];
        let room = bus_id
            .get_mut(..bytes.len())
            .ok_or(Refusal::InsufficientSize)?;
        room.copy_from_slice(bytes);
        write(
            pci,
            nvmlPciInfo_t {
                busIdLegacy: [0; 16],
                domain: 0,
                bus: 0,
                device: 0,
                pciDeviceId: 0,
                pciSubSystemId: 0,
                busId: bus_id,
            },
        )
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(
    handle: *mut c_void,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers("compute"));
    code(numbers.and_then(|[a, b]| {
        write(major, a as c_int)?;
        write(minor, b as c_int)
    }))
}

#[repr(C)]
struct nvmlMemory_v2_t {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    handle: *mut c_void,
    memory: *mut nvmlMemory_v2_t,
) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers("memory"));
    code(numbers.and_then(|[total, free, used]| {
        write(
            memory,
            nvmlMemory_v2_t {
                version: 0,
                total,
                reserved: 0,
                free,
                used,
            },
        )
    }))
}

const CLOCK_MEMORY: c_uint = 2;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(
    handle: *mut c_void,
    kind: c_uint,
    clock: *mut c_uint,
) -> nvmlReturn_t {
    let field = if kind == CLOCK_MEMORY {
        "memory_clock"
    } else {
        "sm_clock"
    };
    one(handle, field, clock)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(
    handle: *mut c_void,
    kind: c_uint,
    clock: *mut c_uint,
) -> nvmlReturn_t {
    let field = if kind == CLOCK_MEMORY {
        "max_memory_clock"
    } else {
        "max_sm_clock"
    };
    one(handle, field, clock)
}

fn one(handle: *mut c_void, field: &str, place: *mut c_uint) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers(field));
    code(numbers.and_then(|[value]| number(place, value)))
}

#[repr(C)]
struct nvmlUtilization_t {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(
    handle: *mut c_void,
    rates: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers("utilization"));
    code(numbers.and_then(|[gpu, memory]| {
        write(
            rates,
            nvmlUtilization_t {
                gpu: gpu as c_uint,
                memory: memory as c_uint,
            },
        )
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(
    handle: *mut c_void,
    _sensor: c_uint,
    temperature: *mut c_uint,
) -> nvmlReturn_t {
    one(handle, "temperature", temperature)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(handle: *mut c_void, power: *mut c_uint) -> nvmlReturn_t {
    one(handle, "power_mw", power)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(
    handle: *mut c_void,
    limit: *mut c_uint,
) -> nvmlReturn_t {
    one(handle, "power_limit_mw", limit)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(
    handle: *mut c_void,
    state: *mut c_uint,
) -> nvmlReturn_t {
    one(handle, "pstate", state)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    handle: *mut c_void,
    reasons: *mut c_ulonglong,
) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers("throttle"));
    code(numbers.and_then(|[bits]| write(reasons, bits)))
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    handle: *mut c_void,
    energy: *mut c_ulonglong,
) -> nvmlReturn_t {
    let numbers = device(handle).and_then(|device| device.numbers("energy_mj"));
    code(numbers.and_then(|[energy_mj]| write(energy, energy_mj)))
}

#[repr(C)]
struct nvmlProcessInfo_t {
    pid: c_uint,
    usedGpuMemory: c_ulonglong,
    gpuInstanceId: c_uint,
    computeInstanceId: c_uint,
}

/// `processes = 4242:1073741824, 4243:none`
#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: *mut c_void,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    let text = match device(handle).and_then(|device| device.next("processes")) {
        Ok(text) => text,
        Err(refusal) => return code(Err(refusal)),
    };
    let entries: Vec<(&str, &str)> = text
        .split(',')
        .filter_map(|entry| entry.trim().split_once(':'))
        .collect();
    if count.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: not null; nvml.h says it holds the room of `infos` on entry.
    let room = unsafe { count.replace(entries.len() as c_uint) } as usize;
    if entries.is_empty() {
        return SUCCESS;
    }
    if infos.is_null() || room < entries.len() {
        return INSUFFICIENT_SIZE;
    }
    for (idx, (pid, bytes)) in entries.iter().enumerate() {
        let info = nvmlProcessInfo_t {
            pid: parse(pid).unwrap_or(0) as c_uint,
            // NVML_VALUE_NOT_AVAILABLE is all ones.
            usedGpuMemory: parse(bytes).unwrap_or(u64::MAX),
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: `idx` is below `room`, the number of entries at `infos`.
        unsafe { infos.add(idx).write(info) };
    }
    SUCCESS
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    _handle: *mut c_void,
    count: *mut c_uint,
    _infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    code(write(count, 0))
}
