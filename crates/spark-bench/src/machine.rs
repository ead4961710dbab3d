//! The machine and this process, as a report tells them.

use spark_hal::ProcessMemory;

use crate::report::MachineReport;

/// What a report says of this machine.
pub(crate) fn machine() -> MachineReport {
    MachineReport {
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        summary: spark_hal::machine().summary(),
        usable_cores: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Resident memory of this process now and at most, where the system tells.
pub(crate) fn resident_bytes() -> (Option<u64>, Option<u64>) {
    let memory = ProcessMemory::now();
    let memory = memory.value();
    (
        memory.map(|memory| memory.resident_bytes),
        memory.map(|memory| memory.peak_resident_bytes),
    )
}
