//! Screens of machines that are not there, as text.

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use sparkpilot::hal::memory::Memory;
use sparkpilot::hal::monitor::{HostSample, Rate, Sample, Temperature};
use sparkpilot::hal::nvml::{GpuProcess, GpuSample, MemoryFigures, ThrottleReason};
use sparkpilot::hal::{Failure, Reading, Root};

use super::look::Look;
use super::state::State;
use super::{draw, state};

/// The machine that no root describes: memory is not known.
fn host(n_cpus: u32, percent: f32) -> HostSample {
    let rate = |name: &str, into: f64| Rate {
        name: name.to_owned(),
        in_bytes_per_s: into,
        out_bytes_per_s: 12.0,
    };
    HostSample {
        at_ms: 0,
        busy_percent: Reading::Value((0..n_cpus).map(|cpu| (cpu, percent)).collect()),
        memory: Memory::read(&Root::at("no such folder")),
        networks: Reading::Value(vec![rate("eth0", 0.0), rate("mlx5_0:1", 23.4e9)]),
        disks: Reading::Value(vec![rate("nvme0n1", 1.5e6)]),
        temperatures: vec![
            Temperature {
                sensor: "acpitz temp1".to_owned(),
                celsius: 61.0,
            },
            Temperature {
                sensor: "nvme Composite".to_owned(),
                celsius: 88.25,
            },
        ],
    }
}

fn sample(gpu: u32, percent: u32) -> Sample {
    let value = Reading::Value;
    Sample {
        at_ms: 0,
        gpu,
        is_unified: gpu == 0,
        readings: Ok(GpuSample {
            utilization_percent: value(percent),
            memory_utilization_percent: Reading::NotSupported,
            memory: Reading::Value(MemoryFigures {
                total_bytes: 80 << 30,
                free_bytes: 50 << 30,
                used_bytes: 30 << 30,
            }),
            temperature_c: value(64),
            power_mw: value(48_200),
            power_limit_mw: Reading::NotSupported,
            sm_clock_mhz: value(2411),
            memory_clock_mhz: Reading::NotSupported,
            performance_state: value(0),
            throttle: Reading::Value(vec![ThrottleReason::PowerCap]),
            energy_mj: Reading::NotSupported,
        }),
        processes: Reading::Value(vec![
            GpuProcess {
                pid: 4000 + gpu,
                memory_bytes: Reading::Value(u64::from(gpu + 1) << 30),
            },
            GpuProcess {
                pid: 17,
                memory_bytes: Reading::NotSupported,
            },
        ]),
        machine_total_bytes: Reading::Value(128 << 30),
        machine_available_bytes: Reading::Value(100 << 30),
    }
}

fn look(n_gpus: u32, percent: u32) -> Look {
    Look {
        host: host(20, 34.0),
        gpus: Ok((0..n_gpus).map(|gpu| sample(gpu, percent)).collect()),
        gpu_names: (0..n_gpus)
            .map(|gpu| (gpu, "NVIDIA GB10".to_owned()))
            .collect(),
        process_names: BTreeMap::from([(17, "desktop".to_owned()), (4000, "python3".to_owned())]),
        machine: "NVIDIA DGX Spark, 20 cores".to_owned(),
    }
}

/// The rows of a screen of this size.
fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::everything(frame, state))
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect();
    (0..height).map(row).collect()
}

#[track_caller]
fn shows(rows: &[String], wanted: &str) {
    assert!(
        rows.iter().any(|row| row.contains(wanted)),
        "no `{wanted}` in\n{}",
        rows.join("\n")
    );
}

fn state(looks: impl IntoIterator<Item = Look>) -> State {
    let mut state = State::new(Duration::from_secs(1));
    for look in looks {
        assert!(state.take(look));
    }
    state
}

#[test]
fn a_spark_fits_on_the_smallest_terminal_and_on_a_large_one() {
    let state = state([look(1, 5), look(1, 96)]);
    for (width, height) in [(80, 24), (200, 50)] {
        let rows = screen(&state, width, height);
        shows(&rows, "NVIDIA DGX Spark, 20 cores");
        shows(&rows, "every 1 s");
        shows(&rows, "0 GB10  96 %  2411 MHz  64 C  48 W  28.0 GiB shared");
        shows(&rows, "CPU 34 % of 20");
        shows(&rows, &"▂".repeat(20));
        shows(&rows, " 23.4 GB/s     12 B/s  mlx5_0:1");
        shows(&rows, "  88.2 C  nvme Composite");
        shows(&rows, "    4000  GPU 0      1.0 GiB  python3");
        shows(&rows, "q end");
    }
    let rows = screen(&state, 200, 50);
    shows(&rows, "held back: ");
    // What was before stands left of what is now: 5 %, then 96 %.
    shows(&rows, "▁█");
}

#[test]
fn eight_gpus_have_a_line_each_and_can_be_scrolled_where_they_do_not_fit() {
    let mut state = state([look(8, 50)]);
    let rows = screen(&state, 200, 50);
    for gpu in 0..8 {
        shows(&rows, &format!("{gpu} GB10  50 %"));
    }
    let rows = screen(&state, 80, 16);
    shows(&rows, "GPUs 1 to 4 of 8");
    state.scroll_down();
    state.scroll_down();
    let rows = screen(&state, 80, 16);
    shows(&rows, "GPUs 3 to 6 of 8");
    shows(&rows, "5 GB10");
    for _ in 0..20 {
        state.scroll_down();
    }
    shows(&screen(&state, 80, 16), "GPUs 5 to 8 of 8");
}

#[test]
fn without_a_gpu_everything_else_is_shown_and_the_reason() {
    let mut none = look(0, 0);
    none.gpus = Err("there is no NVIDIA driver".to_owned());
    let rows = screen(&state([none]), 80, 24);
    shows(&rows, "none to watch: there is no NVIDIA driver");
    shows(&rows, "CPU 34 % of 20");
}

#[test]
fn what_a_gpu_does_not_tell_is_said_and_no_number() {
    let mut lost = look(2, 50);
    let samples = lost.gpus.as_mut().unwrap();
    samples[1].readings = Err("nvmlDeviceGetUtilizationRates did not answer in 2 s".to_owned());
    samples[1].processes = Reading::Failed(Failure::NoSource {
        reason: "lost".to_owned(),
    });
    let rows = screen(&state([lost]), 120, 30);
    shows(
        &rows,
        "1 GB10  nvmlDeviceGetUtilizationRates did not answer in 2 s",
    );
    shows(&rows, "lost");
    shows(&rows, "·"); // no bar for what was not told
}

#[test]
fn a_paused_screen_stands_still() {
    let mut state = state([look(1, 5)]);
    state.pause_or_go_on();
    assert!(!state.take(look(1, 96)));
    let rows = screen(&state, 80, 24);
    shows(&rows, "PAUSED");
    shows(&rows, "  5 %  ");
    state.pause_or_go_on();
    assert!(state.take(look(1, 96)));
    shows(&screen(&state, 80, 24), "  96 %  ");
}

#[test]
fn processes_are_sorted_as_asked() {
    let mut state = state([look(2, 50)]);
    let order = |state: &State| -> Vec<(u32, u32)> {
        let processes = state.processes().unwrap();
        processes
            .iter()
            .map(|process| (process.pid, process.gpu))
            .collect()
    };
    assert_eq!(order(&state), [(4001, 1), (4000, 0), (17, 0), (17, 1)]);
    state.sort_by_the_next();
    assert_eq!(order(&state), [(17, 0), (17, 1), (4000, 0), (4001, 1)]);
    state.sort_by_the_next();
    assert_eq!(order(&state)[0], (4001, 1), "its name is not known: `?`");
    state.sort_by_the_next();
    assert_eq!(state.order, state::Order::Memory);
}

#[test]
fn no_size_of_a_terminal_is_too_small_to_draw_on() {
    let state = state([look(3, 50), look(3, 51)]);
    for (width, height) in [
        (1, 1),
        (3, 2),
        (10, 3),
        (20, 5),
        (80, 1),
        (1, 80),
        (500, 200),
    ] {
        assert_eq!(screen(&state, width, height).len(), usize::from(height));
    }
    let nothing = State::new(Duration::from_millis(250));
    shows(&screen(&nothing, 80, 24), "looking");
    shows(&screen(&nothing, 80, 24), "every 250 ms");
}
