//! Looks as text of Prometheus, read back by the rules of its format.

use std::collections::BTreeMap;

use super::super::posed::look;
use super::*;

/// Values by the whole series, after every rule of the format was held against the text.
fn read(text: &str) -> BTreeMap<String, f64> {
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut series = BTreeMap::new();
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let is_counter = name.ends_with("_total");
            assert_eq!(kind, if is_counter { "counter" } else { "gauge" }, "{name}");
            assert!(
                types.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{name} twice"
            );
            continue;
        }
        if line.starts_with("# HELP sparkpilot_") {
            assert!(line.ends_with('.'), "{line}");
            continue;
        }
        let (labelled, value) = line.rsplit_once(' ').unwrap();
        let name = labelled.split('{').next().unwrap();
        assert!(types.contains_key(name), "{name} has no type before it");
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        );
        let value: f64 = value.parse().unwrap();
        assert!(
            series.insert(labelled.to_owned(), value).is_none(),
            "{labelled} twice"
        );
    }
    series
}

#[test]
fn figures_are_in_base_units_under_labels() {
    let look = look(0, 2);
    let now = look.time + Duration::from_millis(1500);
    let series = read(&look.to_prometheus(now));
    for (name, wanted) in [
        ("sparkpilot_look_age_seconds", 1.5),
        ("sparkpilot_look_timestamp_seconds", 1_772_348_709.04),
        ("sparkpilot_cpu_busy_ratio{cpu=\"0\"}", 0.5),
        ("sparkpilot_memory_size_bytes", 137_438_953_472.0),
        ("sparkpilot_swap_free_bytes", 17_179_869_184.0),
        (
            "sparkpilot_pressure_avg10_ratio{resource=\"cpu\",kind=\"some\"}",
            0.03,
        ),
        (
            "sparkpilot_pressure_stalled_seconds_total{resource=\"memory\",kind=\"full\"}",
            1.5,
        ),
        (
            "sparkpilot_network_receive_bytes_total{device=\"mlx5_0:1\",kind=\"rdma_port\"}",
            4096.0,
        ),
        (
            "sparkpilot_disk_written_bytes_total{device=\"nvme0n1\"}",
            512.0,
        ),
        (
            "sparkpilot_temperature_celsius{sensor=\"nvme Composite\"}",
            41.85,
        ),
        ("sparkpilot_gpus_answered", 1.0),
        (
            "sparkpilot_gpu_busy_ratio{gpu=\"1\",name=\"NVIDIA \\\"GB10\\\", posed\"}",
            0.97,
        ),
        (
            "sparkpilot_gpu_power_watts{gpu=\"0\",name=\"NVIDIA \\\"GB10\\\", posed\"}",
            48.2,
        ),
        (
            "sparkpilot_gpu_sm_clock_hertz{gpu=\"0\",name=\"NVIDIA \\\"GB10\\\", posed\"}",
            2.411e9,
        ),
        (
            "sparkpilot_gpu_energy_joules_total{gpu=\"0\",name=\"NVIDIA \\\"GB10\\\", posed\"}",
            1.5,
        ),
        (
            "sparkpilot_gpu_throttled{gpu=\"0\",name=\"NVIDIA \\\"GB10\\\", posed\",reason=\"power_cap\"}",
            1.0,
        ),
        (
            "sparkpilot_gpu_throttled{gpu=\"0\",name=\"NVIDIA \\\"GB10\\\", posed\",reason=\"idle\"}",
            0.0,
        ),
    ] {
        let got = series
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {series:#?}"));
        assert!((got - wanted).abs() <= 1e-5 * wanted.abs(), "{name} {got}");
    }
}

#[test]
fn what_is_not_known_has_no_line() {
    let mut look = look(0, 1);
    look.gpus.samples = Err("no answer for 6.0 s".to_owned());
    look.gpus.unanswered = Some(Duration::from_secs(6));
    look.host.networks = Reading::NotSupported;
    // A clock that was set back makes no age below nothing.
    let series = read(&look.to_prometheus(UNIX_EPOCH));
    assert_eq!(series["sparkpilot_look_age_seconds"], 0.0);
    assert_eq!(series["sparkpilot_gpus_answered"], 0.0);
    assert_eq!(series["sparkpilot_gpus_unanswered_seconds"], 6.0);
    assert!(
        series
            .keys()
            .all(|name| !name.contains("network") && !name.contains("gpu_")),
        "{series:#?}"
    );
}

#[test]
fn labels_hold_whatever_a_name_is() {
    let mut look = look(0, 0);
    look.host.temperatures[0].sensor = "a\\b\"c\nd".to_owned();
    let text = look.to_prometheus(look.time);
    assert!(
        text.contains("{sensor=\"a\\\\b\\\"c\\nd\"} 41.85\n"),
        "{text}"
    );
}
