use super::*;

fn memory(meminfo: &str) -> Memory {
    Memory {
        meminfo: Meminfo::parse(meminfo),
        cgroup_headroom_bytes: Reading::NotSupported,
        cgroup_limit_bytes: Reading::NotSupported,
    }
}

const SPARK: &str = "\
MemTotal:       125513944 kB
MemFree:        10000000 kB
MemAvailable:   100000000 kB
SwapTotal:      16777212 kB
SwapFree:       16777212 kB
HugePages_Total:       0
HugePages_Free:        0
Hugepagesize:       2048 kB
";

#[test]
fn nvidia_rule_without_huge_pages_is_available_and_swap() {
    let estimate = memory(SPARK).nvidia_rule().value().unwrap();
    assert_eq!(estimate.available_bytes, 100_000_000 * 1024);
    assert_eq!(estimate.free_swap_bytes, 16_777_212 * 1024);
}

#[test]
fn nvidia_rule_with_huge_pages_is_only_those() {
    let text = SPARK
        .replace("HugePages_Total:       0", "HugePages_Total:       8")
        .replace("HugePages_Free:        0", "HugePages_Free:        3");
    let memory = memory(&text);
    let estimate = memory.nvidia_rule().value().unwrap();
    assert_eq!(
        estimate,
        NvidiaEstimate {
            available_bytes: 3 * 2048 * 1024,
            free_swap_bytes: 0
        }
    );
    // The ordinary memory that the rule hides is still told.
    assert_eq!(
        memory.available_to_gpu_bytes(),
        Reading::Value(100_000_000 * 1024)
    );
}

#[test]
fn a_missing_huge_page_line_counts_as_none() {
    let estimate = memory("MemAvailable: 5 kB\n")
        .nvidia_rule()
        .value()
        .unwrap();
    assert_eq!(
        estimate,
        NvidiaEstimate {
            available_bytes: 5120,
            free_swap_bytes: 0
        }
    );
}

#[test]
fn the_container_binds_the_cpu_and_not_the_gpu() {
    let mut memory = memory(SPARK);
    memory.cgroup_headroom_bytes = Reading::Value(4096);
    assert_eq!(memory.available_to_cpu_bytes(), Reading::Value(4096));
    assert_eq!(
        memory.available_to_gpu_bytes(),
        Reading::Value(100_000_000 * 1024)
    );
}

#[test]
fn wrong_numbers_fail_with_their_text() {
    for wrong in [
        "-5 kB",
        "99999999999999999999 kB",
        "18446744073709551615 kB",
        "5",
        "5 MB",
        "1 kB 2",
        "1.234,5 kB",
        "٣ kB",
        "",
    ] {
        let reading = Meminfo::parse(&format!("MemAvailable: {wrong}\n")).available_bytes;
        let why = reading
            .failure()
            .unwrap_or_else(|| panic!("{wrong} gave {reading:?}"));
        assert!(
            why.to_string().contains("/proc/meminfo MemAvailable"),
            "{why}"
        );
    }
}

#[test]
fn a_missing_line_is_not_zero() {
    assert_eq!(Meminfo::parse("").available_bytes, Reading::NotSupported);
    assert_eq!(memory("").nvidia_rule(), Reading::NotSupported);
    // `SwapCached` must not be taken for `Cached`.
    assert_eq!(
        Meminfo::parse("SwapCached: 1 kB\n").cached_bytes,
        Reading::NotSupported
    );
}
