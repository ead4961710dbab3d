//! Kinds of machine that a release is for, and how this machine runs their programs.
//!
//! glibc 2.28 is that of Debian 10 and RHEL 8: what is older lacks kernels and drivers for the GPUs this is about.

use std::path::Path;
use std::process::Command;

/// The newest C library that programs may ask for, as cargo-zigbuild writes it behind a target.
pub(super) const GLIBC: (u32, u32) = (2, 28);

/// One kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// As rustc names it.
    pub(super) triple: &'static str,
    /// As Debian names it.
    pub(super) debian: &'static str,
    /// Pages of memory may be this large on some kernels, and a program's parts have to begin at them.
    pub(super) page_bytes: u64,
    /// The emulator and the folder with a C library, where Debian's packages put them.
    emulator: &'static str,
    libraries: &'static str,
    /// Which packages those are.
    packages: &'static str,
}

pub(super) const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        page_bytes: 4096,
        emulator: "qemu-x86_64-static",
        libraries: "/usr/x86_64-linux-gnu",
        packages: "qemu-user-static libc6-amd64-cross",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        page_bytes: 65_536,
        emulator: "qemu-aarch64-static",
        libraries: "/usr/aarch64-linux-gnu",
        packages: "qemu-user-static libc6-arm64-cross",
    },
];

impl Target {
    /// The target of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.triple == name)
    }

    /// With the C library, as cargo-zigbuild reads it.
    pub(super) fn with_glibc(self) -> String {
        format!("{}.{}.{}", self.triple, GLIBC.0, GLIBC.1)
    }

    /// A command that runs a program of this kind on this machine, which is of the kind `host`.
    ///
    /// # Errors
    ///
    /// What is not installed, as the command that brings it.
    pub(super) fn runs(self, program: &Path, host: &str) -> Result<Command, String> {
        if self.triple == host {
            return Ok(Command::new(program));
        }
        let version = Command::new(self.emulator).arg("--version").output();
        let is_there = version.is_ok_and(|output| output.status.success());
        if !is_there || !Path::new(self.libraries).is_dir() {
            let (triple, packages) = (self.triple, self.packages);
            return Err(format!("programs of {triple}: apt-get install {packages}"));
        }
        let mut command = Command::new(self.emulator);
        command.args(["-L", self.libraries]).arg(program);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_carry_the_oldest_c_library() {
        let arm = Target::named("aarch64-unknown-linux-gnu").unwrap();
        assert_eq!(arm.with_glibc(), "aarch64-unknown-linux-gnu.2.28");
        assert_eq!(Target::named("riscv64gc-unknown-linux-gnu"), None);
    }

    #[test]
    fn a_program_of_this_machine_needs_no_emulator() {
        let [here, _] = TARGETS;
        let command = here.runs(Path::new("/p"), here.triple).unwrap();
        assert_eq!(command.get_program(), "/p");
    }
}
