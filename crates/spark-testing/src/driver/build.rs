//! Compiling the stand-in driver with the host's C++ compiler.
//!
//! The result lies under this crate's build folder, named after a hash of everything that
//! goes into it; a second process that builds the same meanwhile finishes first or second,
//! and the folder that is renamed into place first stays.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file with everything first; the others are names for it.
pub(super) const LIBRARIES: [&str; 5] = [
    "libcuda.so.1",
    "libcuda.so",
    "libnvrtc.so.13",
    "libnvrtc.so",
    OLDER_COMPILER,
];
/// The name of a compiler that says it is of CUDA 12.4.
const OLDER_COMPILER: &str = "libnvrtc.so.12";

/// Which functions the driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flavor {
    /// All that are called.
    #[default]
    Current,
    /// As CUDA 12.0: no `cuMemPrefetchAsync_v2`, `cuMemAdvise_v2`, `cuEventElapsedTime_v2`,
    /// `cuFuncGetParamInfo`, and no memory pools.
    Old,
    /// Without `cuGraphLaunch`, which every driver has: refused by name.
    Broken,
}

/// What a stand-in driver is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Build<'a> {
    /// `.cu` files whose kernels it runs.
    pub kernels: &'a [&'a Path],
    /// Folders of headers that they include.
    pub includes: &'a [&'a Path],
    /// Which functions it has.
    pub flavor: Flavor,
    /// Without NVIDIA's assembler, for kernels that it takes seconds for: no architecture refuses them in its
    /// words (the interpreter does when they are loaded), and the registers that they take are not known.
    pub keeps_to_ptx: bool,
}

/// Every `.cu` file of a folder, by name.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn kernels_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    files.sort();
    Ok(files)
}

/// The driver's own files, all of `driver/*.cpp` but that of the older compiler.
const FILES: [&str; 12] = [
    "fibers",
    "personas",
    "record",
    "state",
    "driver",
    "memory",
    "streams",
    "graphs",
    "code",
    "launch",
    "interpreted",
    "compiler",
];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("driver")
}

/// A file to compile, and the flags for it alone.
struct Unit {
    name: String,
    source: PathBuf,
}

impl Build<'_> {
    /// The folder with the libraries, built now or before.
    pub(super) fn make(&self) -> io::Result<PathBuf> {
        let sanitizes = std::env::var_os("SPARK_STAND_IN_SANITIZE").is_some_and(|on| on == "1");
        let root = Path::new(env!("OUT_DIR")).join("driver");
        let folder = root.join(format!("{:016x}", self.hash(sanitizes)?));
        if folder.join(LIBRARIES[0]).is_file() {
            return Ok(folder);
        }
        let temporary = root.join(format!("{}.tmp", std::process::id()));
        fs::create_dir_all(&temporary)?;
        self.compile(&temporary, sanitizes)?;
        match fs::rename(&temporary, &folder) {
            // Another process was first; its result is the same.
            Err(_) if folder.join(LIBRARIES[0]).is_file() => {
                fs::remove_dir_all(&temporary)?;
                Ok(folder)
            }
            renamed => renamed.map(|()| folder),
        }
    }

    fn hash(&self, sanitizes: bool) -> io::Result<u64> {
        let mut hash = DefaultHasher::new();
        (self.flavor, sanitizes, compiler_version()).hash(&mut hash);
        let mut files: Vec<PathBuf> = self.kernels.iter().map(|file| file.to_path_buf()).collect();
        for folder in self.includes.iter().copied().chain([sources().as_path()]) {
            for entry in fs::read_dir(folder)? {
                files.push(entry?.path());
            }
        }
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            (file, fs::read(file)?).hash(&mut hash);
        }
        Ok(hash.finish())
    }

    fn compile(&self, folder: &Path, sanitizes: bool) -> io::Result<()> {
        let mut units = Vec::new();
        for name in FILES {
            units.push(Unit {
                name: name.to_owned(),
                source: sources().join(format!("{name}.cpp")),
            });
        }
        for (idx, kernel) in self.kernels.iter().enumerate() {
            let name = format!("kernels_{idx}");
            let source = folder.join(format!("{name}.cpp"));
            fs::write(&source, registration(kernel, idx)?)?;
            units.push(Unit { name, source });
        }
        let flags = self.flags(sanitizes);
        // Two at a time is what small machines do well.
        for pair in units.chunks(2) {
            let started: Vec<_> = pair
                .iter()
                .map(|unit| {
                    let mut compiler = compiler();
                    compiler.args(&flags).arg("-c").arg(&unit.source);
                    compiler
                        .arg("-o")
                        .arg(folder.join(format!("{}.o", unit.name)));
                    compiler.stderr(std::process::Stdio::piped()).spawn()
                })
                .collect();
            for child in started {
                finish(child?.wait_with_output()?)?;
            }
        }
        self.link(folder, &units, sanitizes)
    }

    fn flags(&self, sanitizes: bool) -> Vec<String> {
        let mut flags: Vec<String> = [
            "-std=c++17",
            "-O1",
            "-g",
            "-fPIC",
            "-fvisibility=hidden",
            "-ffp-contract=off",
        ]
        .map(str::to_owned)
        .to_vec();
        flags.push(format!("-I{}", sources().display()));
        for include in self.includes {
            flags.push(format!("-I{}", include.display()));
        }
        match self.flavor {
            Flavor::Current => {}
            Flavor::Old => flags.push("-DSTAND_IN_OLD_DRIVER".to_owned()),
            Flavor::Broken => flags.push("-DSTAND_IN_BROKEN_DRIVER".to_owned()),
        }
        if sanitizes {
            flags.extend(SANITIZERS.map(str::to_owned));
        }
        flags
    }

    fn link(&self, folder: &Path, units: &[Unit], sanitizes: bool) -> io::Result<()> {
        let mut linker = compiler();
        linker.current_dir(folder).args(["-shared", "-pthread"]);
        linker.args(["-o", LIBRARIES[0], "-Wl,-soname,libcuda.so.1", "-ldl"]);
        if sanitizes {
            linker.args(SANITIZERS);
        }
        linker.args(units.iter().map(|unit| format!("{}.o", unit.name)));
        finish(linker.output()?)?;
        for name in &LIBRARIES[1..] {
            let mut linker = compiler();
            linker.current_dir(folder);
            linker.args(["-shared", "-nostdlib", "-o", name]);
            linker.arg(format!("-Wl,-soname,{name}"));
            if *name == OLDER_COMPILER {
                linker.args(["-fPIC", "-fvisibility=hidden"]);
                linker.arg(sources().join("compiler_12.cpp"));
            }
            linker.args(["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", LIBRARIES[0]]);
            finish(linker.output()?)?;
        }
        Ok(())
    }
}

const SANITIZERS: [&str; 3] = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// The C++ compiler of the target.
fn compiler() -> Command {
    let mut build = cc::Build::new();
    build.cpp(true).cargo_metadata(false).opt_level(1);
    build
        .target(env!("STAND_IN_TARGET"))
        .host(env!("STAND_IN_HOST"));
    Command::new(build.get_compiler().path())
}

fn compiler_version() -> Vec<u8> {
    let output = compiler().arg("--version").output();
    output.map(|output| output.stdout).unwrap_or_default()
}

fn finish(output: std::process::Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(words))
}

/// A file that includes the kernels and registers each by its name.
///
/// Every snippet of a controller is a `struct Control`. In one library the linker would take the first of their
/// functions for all, so that each file has a name of its own for it.
fn registration(kernel: &Path, idx: usize) -> io::Result<String> {
    let source = fs::read_to_string(kernel)?;
    let mut text = format!(
        "#include \"cuda_on_host.h\"\n#define Control Control_{idx}\n#include \"{}\"\n",
        kernel.display()
    );
    for (idx, name) in entries(&source).iter().enumerate() {
        text += &format!(
            "static spark_on_host::Registration<&{name}> registration_{idx}(\"{name}\");\n"
        );
    }
    for (idx, name) in constants(&source).iter().enumerate() {
        text += &format!(
            "static spark_on_host::SymbolRegistration symbol_{idx}(\"{name}\", &{name}, sizeof {name});\n"
        );
    }
    Ok(text)
}

/// The names of the `__constant__` variables of a source.
fn constants(source: &str) -> Vec<&str> {
    let parts = source.split("\n__constant__ ").skip(1);
    let names = parts.filter_map(|rest| {
        let declared = rest.split(['[', ';', '=']).next()?;
        declared.split_whitespace().next_back()
    });
    names.collect()
}

/// The names of the `extern "C" __global__` functions of a source.
fn entries(source: &str) -> Vec<&str> {
    let mark = "extern \"C\" __global__ void ";
    let parts = source.split(mark).skip(1);
    let names = parts.filter_map(|rest| {
        let rest = match rest.strip_prefix("__launch_bounds__") {
            Some(bounds) => bounds.split_once(')')?.1,
            None => rest,
        };
        Some(rest.split_once('(')?.0.trim())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_signature() {
        let source = "extern \"C\" __global__ void first(float* x) {}\n\
                      __device__ float helper() { return 0; }\n\
                      extern \"C\" __global__ void __launch_bounds__(256)\nsecond(int n) {}\n";
        assert_eq!(entries(source), ["first", "second"]);
        assert!(entries("int main() {}").is_empty());
    }

    #[test]
    fn constants_are_found_by_their_declaration() {
        let source = "// x\n__constant__ float weights[64];\n__constant__ unsigned n = 3;\n";
        assert_eq!(constants(source), ["weights", "n"]);
        assert!(constants("float __constant__x;").is_empty());
    }
}
