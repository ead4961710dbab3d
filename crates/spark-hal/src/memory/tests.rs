//! Figures of `/proc/meminfo`, NVIDIA's rule, budgets and pressure.

use crate::reading::Reading;

use super::*;

fn memory(meminfo: &str) -> Memory {
    Memory {
        meminfo: Meminfo::parse(meminfo),
        cgroup_headroom_bytes: Reading::NotSupported,
        cgroup_limit_bytes: Reading::NotSupported,
        pressure: Reading::NotSupported,
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

#[track_caller]
fn check_budget(purpose: Purpose, policy: BudgetPolicy, bytes: u64, bound: Bound) {
    let mut memory = memory(SPARK);
    memory.cgroup_headroom_bytes = Reading::Value(20 << 30);
    let got = memory.budget(purpose, &policy).value().unwrap();
    assert_eq!((got.bytes, got.bound), (bytes, bound));
    assert!(got.allows(bytes) && !got.allows(bytes + 1));
}

#[test]
fn a_budget_keeps_a_reserve_and_a_share() {
    let policy = BudgetPolicy::default();
    let available = 100_000_000 * 1024 - (8 << 30);
    check_budget(Purpose::UnifiedGpu, policy, available, Bound::Available);
    check_budget(Purpose::Cpu, policy, 20 << 30, Bound::Container);
    let half = BudgetPolicy {
        largest_share: 0.5,
        ..policy
    };
    check_budget(Purpose::UnifiedGpu, half, 125_513_944 * 512, Bound::Share);
    let swapping = BudgetPolicy {
        count_swap: true,
        largest_share: 7.0,
        ..policy
    };
    let with_swap = available + 16_777_212 * 1024;
    check_budget(Purpose::UnifiedGpu, swapping, with_swap, Bound::Available);
    let greedy = BudgetPolicy {
        reserve_bytes: Some(u64::MAX),
        ..policy
    };
    check_budget(Purpose::UnifiedGpu, greedy, 0, Bound::Available);
    let nonsense = BudgetPolicy {
        largest_share: f64::NAN,
        ..policy
    };
    check_budget(Purpose::UnifiedGpu, nonsense, 0, Bound::Share);
}

#[test]
fn small_machines_keep_an_eighth() {
    let budget = memory("MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\n")
        .budget(Purpose::Cpu, &BudgetPolicy::default())
        .value()
        .unwrap();
    assert_eq!(budget.reserve_bytes, 1 << 30);
}

#[test]
fn pressure_is_read_or_refused() {
    let good = "some avg10=1.53 avg60=0.20 avg300=0.00 total=12345\n\
                full avg10=0.42 avg60=0.00 avg300=0.00 total=99\n";
    let pressure = Pressure::parse(good).unwrap();
    assert!((pressure.full.avg10_percent - 0.42).abs() < 1e-6);
    assert_eq!(pressure.some.total_us, 12345);
    let wrong = [
        good.replace("1.53", "1,53"),
        good.replace("1.53", "-1"),
        good.replace("1.53", "NaN"),
        good.replace("12345", "99999999999999999999"),
        good.replace("full", "none"),
        String::new(),
    ];
    for text in wrong {
        assert_eq!(Pressure::parse(&text), None, "{text}");
    }
}
