//! Rows and lines of posed looks.

use super::super::posed::look;
use super::*;

/// Cells of a row, quoted ones whole.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for c in row.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

fn column(row: &str, name: &str) -> String {
    let header = Look::csv_header();
    let idx = header.trim_end().split(',').position(|it| it == name);
    cells(row)[idx.unwrap()].clone()
}

#[test]
fn there_is_a_row_for_each_gpu_and_one_without_any() {
    let n_columns = Look::csv_header().split(',').count();
    let mut hung = look(5, 1);
    hung.gpus.samples = Err("no answer for 3.0 s, \"quoted\"".to_owned());
    let mut lost = look(5, 2);
    lost.gpus.samples.as_mut().unwrap()[1].readings = Err("lost".to_owned());
    for (look, n_rows) in [
        (look(5, 0), 1),
        (look(5, 1), 1),
        (look(5, 8), 8),
        (hung, 1),
        (lost, 2),
    ] {
        let csv = look.to_csv();
        assert!(csv.ends_with('\n'));
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!(rows.len(), n_rows, "{csv}");
        for row in rows {
            assert_eq!(cells(row).len(), n_columns, "{row}");
            assert_eq!(column(row, "schema"), "sparkpilot-monitor/1");
            assert_eq!(column(row, "time"), "2026-03-01T07:05:09.045Z");
            assert_eq!(column(row, "cpu_busy_percent"), "25.0");
            assert_eq!(
                column(row, "memory_available_bytes"),
                (108_u64 << 30).to_string()
            );
            assert_eq!(column(row, "memory_some_avg10_percent"), "1.5");
            assert_eq!(column(row, "disk_some_avg10_percent"), "");
            assert_eq!(
                column(row, "network_in_bytes_per_s"),
                "1000",
                "the bridge is not counted"
            );
            assert_eq!(column(row, "rdma_in_bytes_per_s"), "23400000000");
            assert_eq!(column(row, "hottest_sensor"), "nvme Composite");
        }
    }
    let csv = look(5, 2).to_csv();
    let last = csv.lines().last().unwrap();
    assert_eq!(column(last, "gpu"), "1");
    assert_eq!(column(last, "gpu_temperature_c"), "64");
    assert_eq!(column(last, "gpu_throttle"), "power_cap");
    assert_eq!(column(last, "gpu_processes"), "1");
    assert_eq!(column(last, "failures"), "");
}

#[test]
fn what_failed_stands_in_the_last_column_and_in_its_place() {
    let mut look = look(0, 1);
    look.gpus.samples = Err("there is no driver".to_owned());
    look.host.networks = Reading::Failed(crate::reading::Failure::NotText {
        path: "/proc/net/dev".to_owned(),
    });
    let failures = column(&look.to_csv(), "failures");
    assert!(
        failures.contains("network: /proc/net/dev is not text"),
        "{failures}"
    );
    assert!(failures.contains("GPUs: there is no driver"), "{failures}");
    let json: serde_json::Value = serde_json::from_str(&look.to_json()).unwrap();
    assert_eq!(json["gpus"]["failed"], "there is no driver");
    assert_eq!(json["networks"]["failed"], "/proc/net/dev is not text");
}

#[test]
fn a_line_has_everything() {
    let line = look(9, 2).to_json();
    assert!(!line.contains('\n'));
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["time"], "2026-03-01T07:05:09.049Z");
    assert_eq!(json["at_ms"], 9);
    assert_eq!(json["cpu"]["busy_percent"], 25.0);
    assert_eq!(json["cpu"]["each_percent"]["0"], 50.0);
    assert_eq!(json["memory"]["swap_used_bytes"], 0);
    assert_eq!(json["networks"][2]["kind"], "rdma_port");
    assert_eq!(json["disks"]["each"][0]["in_bytes_per_s"], 2_000_000);
    assert!(json["disks"]["full_avg10_percent"].is_null());
    assert_eq!(json["temperatures"][0]["celsius"], 41.85);
    assert_eq!(json["gpus"][1]["gpu"], 1);
    assert_eq!(json["gpus"][1]["name"], "NVIDIA \"GB10\", posed");
    assert_eq!(json["gpus"][1]["processes"][0]["pid"], 41);
    assert_eq!(json["processes"][0]["name"], "py\"thon, 3");
    assert_eq!(json["processes"][0]["busy_percent"], 250.0);
}

#[test]
fn of_many_processes_those_that_matter_are_told() {
    let mut look = look(0, 1);
    let process = |pid: u32| Process {
        pid,
        name: "p".to_owned(),
        busy_percent: Some(if pid % 100 == 7 { 50.0 } else { 0.0 }),
        resident_bytes: u64::from(pid),
    };
    look.processes = (0..500).map(process).collect();
    let told: Vec<u32> = look.notable_processes().iter().map(|it| it.pid).collect();
    // Busy ones, the one on the GPU, and the eight largest.
    assert_eq!(
        told,
        [
            7, 41, 107, 207, 307, 407, 492, 493, 494, 495, 496, 497, 498, 499
        ]
    );
}
