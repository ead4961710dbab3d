//! What `ptxas -v` says of each kernel.
//!
//! ```text
//! ptxas info    : Compiling entry function 'name' for 'sm_121a'
//! ptxas info    : Function properties for name
//!     0 bytes stack frame, 24 bytes spill stores, 24 bytes spill loads
//! ptxas info    : Used 44 registers, used 0 barriers, 768 bytes smem, 384 bytes cmem[0]
//! ```

/// What the assembler says of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) registers: u32,
    /// Stores and loads together.
    pub(super) spill_bytes: u32,
    /// Static shared memory; what a launch adds is not known here.
    pub(super) shared_bytes: u32,
}

/// The kernels in the order they were compiled. Spills of functions that a kernel calls are
/// counted to the kernel before them.
pub(super) fn entries(said: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            entries.push(Entry {
                name,
                registers: 0,
                spill_bytes: 0,
                shared_bytes: 0,
            });
            continue;
        }
        let Some(entry) = entries.last_mut() else {
            continue;
        };
        entry.spill_bytes += number_before(line, " bytes spill stores");
        entry.spill_bytes += number_before(line, " bytes spill loads");
        if line.contains(": Used ") {
            entry.registers = number_before(line, " registers");
            entry.shared_bytes = number_before(line, " bytes smem");
        }
    }
    entries
}

/// The number that stands right before `unit`; 0 if the line does not have it.
fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else {
        return 0;
    };
    let start = before
        .rfind(|letter: char| !letter.is_ascii_digit())
        .map_or(0, |idx| idx + 1);
    before[start..].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'matmul_bf16_f32' for 'sm_80'
ptxas info    : Function properties for matmul_bf16_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 768 bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'spills_f32' for 'sm_80'
ptxas info    : Function properties for spills_f32
    24 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 24 bytes cumulative stack size
";

    #[test]
    fn registers_spills_and_shared_memory_are_read() {
        let entries = entries(SAID);
        assert_eq!(entries.len(), 2);
        let figures = |entry: &Entry| (entry.registers, entry.spill_bytes, entry.shared_bytes);
        assert_eq!(entries[0].name, "matmul_bf16_f32");
        assert_eq!(figures(&entries[0]), (32, 0, 768));
        assert_eq!(entries[1].name, "spills_f32");
        assert_eq!(figures(&entries[1]), (64, 44, 0));
    }

    #[test]
    fn other_words_are_no_kernels() {
        assert!(entries("nvcc fatal: no such file\n").is_empty());
    }
}
