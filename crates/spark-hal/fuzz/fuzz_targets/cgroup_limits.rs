//! A control group's `memory.max`, `memory.stat` and `cpu.max`: the bytes, cut at each NUL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut next = |leaf| (leaf, parts.next().unwrap_or_default());
    spark_hal_fuzz::machine_with_files(&[
        next("sys/fs/cgroup/memory.max"),
        next("sys/fs/cgroup/memory.stat"),
        next("sys/fs/cgroup/cpu.max"),
        ("sys/fs/cgroup/memory.current", b"4096"),
        ("proc/self/cgroup", b"0::/"),
    ]);
});
