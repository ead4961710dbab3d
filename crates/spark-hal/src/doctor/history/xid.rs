//! What the numbers of Xid messages mean: whose fault it is, and what NVIDIA says to do first.
//!
//! Source: NVIDIA, "Xid Errors", Xid catalog for Ampere and newer
//! (<https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>, as of 2025-10-29; the column "Resolution
//! Bucket (Immediate Action)"). 167 to 172 have no action there: theirs follow from their descriptions. Xid 169 on a
//! GB10 with the proprietary module: Start9Labs/start-technologies PR #3693 (2026-08).
//!
//! What 154 says: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
//! NVIDIA/open-gpu-kernel-modules issue #1134.
//!
//! That a class says whose fault it is, is NVIDIA's word with its own caution: any Xid may have another cause.

/// Whose fault an Xid is, most probably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XidClass {
    Program,
    Driver,
    Memory,
    Link,
    Hardware,
    Unknown,
}

impl XidClass {
    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Program => "a program's fault",
            Self::Driver => "a fault of driver or firmware",
            Self::Memory => "a memory fault",
            Self::Link => "a link fault",
            Self::Hardware => "a hardware fault",
            Self::Unknown => "of a number that this doctor does not know",
        }
    }
}

/// What to do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum XidAction {
    Nothing,
    RestartProgram,
    AskSupport,
    ResetGpu,
    Reboot,
}

impl XidAction {
    /// In words.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Nothing => "nothing to mend by itself; it belongs to another message near it",
            Self::RestartProgram => {
                "start the program again; if it comes back, run it under compute-sanitizer"
            }
            Self::AskSupport => {
                "look the number up in NVIDIA's Xid catalog; if it comes back, ask the vendor"
            }
            Self::ResetGpu => {
                "end every GPU program and reboot (a GB10 cannot be reset alone); if it comes back, update \
                 driver and firmware, then ask the vendor"
            }
            Self::Reboot => {
                "reboot; if it comes back, unplug the power for 60 s, and ask the vendor after that"
            }
        }
    }
}

/// What one number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct XidMeaning {
    pub(crate) class: XidClass,
    pub(crate) action: XidAction,
    /// What the catalog calls it.
    pub(crate) words: &'static str,
}

/// The meaning of a message: of its number, and for 154 of what the driver says is to be done now.
pub(crate) fn meaning(number: u32, said: &str) -> XidMeaning {
    let mut meaning = of_number(number);
    let wanted = said.rsplit_once(" to ").map_or("", |(_, wanted)| wanted);
    if number == 154 && wanted.contains("Reboot") {
        meaning.action = XidAction::Reboot;
    } else if number == 154 && wanted.contains("Reset") {
        meaning.action = XidAction::ResetGpu;
    }
    meaning
}

fn of_number(number: u32) -> XidMeaning {
    use XidAction::{AskSupport, Nothing, Reboot, ResetGpu, RestartProgram};
    use XidClass::{Driver, Hardware, Link, Memory, Program, Unknown};
    let (class, action, words) = match number {
        8 => (Program, RestartProgram, "GPU stopped processing"),
        11 | 25 | 32 => (
            Program,
            RestartProgram,
            "invalid or corrupted push buffer stream",
        ),
        13 => (Program, RestartProgram, "graphics engine exception"),
        31 => (Program, RestartProgram, "GPU memory page fault"),
        37 | 38 => (Driver, Nothing, "driver firmware error"),
        39..=41 | 70..=72 | 75..=77 | 85 | 126..=135 => {
            (Program, RestartProgram, "copy engine exception")
        }
        43 => (Program, Nothing, "GPU stopped processing"),
        44 => (
            Driver,
            Nothing,
            "graphics engine fault during context switch",
        ),
        45 => (
            Program,
            Nothing,
            "preemptive cleanup, due to previous errors",
        ),
        46 => (Hardware, ResetGpu, "GPU stopped processing"),
        48 => (Memory, ResetGpu, "double bit ECC error"),
        54 => (Hardware, AskSupport, "auxiliary power is not connected"),
        60 | 68 | 82..=84 | 86 | 88 | 89 | 96..=105 | 139 | 142 => {
            (Program, RestartProgram, "exception in a video engine")
        }
        62 => (Hardware, ResetGpu, "internal micro-controller halt"),
        63 => (Memory, Nothing, "GPU memory remapping event"),
        64 => (Memory, ResetGpu, "GPU memory remapping failure"),
        66 | 67 => (Driver, Nothing, "illegal access by driver"),
        69 => (Program, RestartProgram, "graphics engine class error"),
        74 => (Link, AskSupport, "NVLink error"),
        78 => (Driver, AskSupport, "vGPU start error"),
        79 => (Link, Reboot, "GPU has fallen off the bus"),
        80 => (Program, RestartProgram, "corrupted data sent to GPU"),
        92 => (Memory, Nothing, "high single-bit ECC error rate"),
        93 => (Memory, Nothing, "wear limit of the InfoROM"),
        94 => (Memory, RestartProgram, "contained memory error"),
        95 => (Memory, ResetGpu, "uncontained memory error"),
        109 => (Driver, ResetGpu, "context switch timeout"),
        110 => (Driver, ResetGpu, "security fault"),
        119 => (Driver, ResetGpu, "GSP RPC timeout"),
        120 => (Driver, ResetGpu, "GSP error"),
        121 => (Link, Nothing, "chip-to-chip link error"),
        136 => (Link, ResetGpu, "link training failed"),
        137 => (Link, Nothing, "NVLink privilege error"),
        140 => (Memory, ResetGpu, "ECC unrecovered error"),
        141 => (Program, Nothing, "CUDA fast path error"),
        143 => (Driver, ResetGpu, "GPU initialization error"),
        144..=150 => (Link, AskSupport, "NVLink error"),
        151 => (Driver, Reboot, "key rotation error"),
        154 => (Driver, Nothing, "GPU recovery action changed"),
        155 => (Link, ResetGpu, "NVLink error defined by software"),
        156 => (Memory, ResetGpu, "resource retirement event"),
        157 => (Memory, Nothing, "resource retirement failure"),
        158 => (Driver, ResetGpu, "GPU fatal timeout"),
        160 | 161 => (Memory, Nothing, "channel retirement"),
        167 => (Link, Reboot, "PCIe fatal timeout"),
        168 => (Memory, ResetGpu, "reduced GPU memory capacity"),
        169 => (Hardware, ResetGpu, "internal micro-controller halt"),
        171 | 172 => (Memory, ResetGpu, "uncorrectable memory error"),
        _ => (Unknown, AskSupport, "not in this doctor's list"),
    };
    XidMeaning {
        class,
        action,
        words,
    }
}
