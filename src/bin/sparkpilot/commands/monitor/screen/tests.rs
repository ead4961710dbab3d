//! Screens of machines that are not there, as text.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use sparkpilot::hal::memory::{Meminfo, Memory, Pressure, Stall};
use sparkpilot::hal::monitor::{
    GpuAnswer, HostSample, KnownGpus, Look, Process, Rate, RateKind, Sample, Temperature,
};
use sparkpilot::hal::nvml::{GpuProcess, GpuSample, MemoryFigures, ThrottleReason};
use sparkpilot::hal::{Failure, Reading, Root};

use super::state::State;
use super::{draw, state};

fn stall(percent: f32) -> Stall {
    Stall {
        avg10_percent: percent,
        avg60_percent: 0.0,
        avg300_percent: 0.0,
        total_us: 0,
    }
}

fn host(n_cpus: u32, percent: f32) -> HostSample {
    let rate = |name: &str, kind, into: f64| Rate {
        name: name.to_owned(),
        kind,
        in_bytes_per_s: into,
        out_bytes_per_s: 12.0,
        in_bytes: 0,
        out_bytes: 0,
    };
    let mut memory = Memory::read(&Root::at("no such folder"));
    memory.meminfo = Meminfo::parse(
        "MemTotal: 134217728 kB\nMemAvailable: 104857600 kB\nSwapTotal: 16777216 kB\nSwapFree: 4194304 kB\n",
    );
    memory.pressure = Reading::Value(Pressure {
        some: stall(12.5),
        full: stall(10.0),
    });
    HostSample {
        at_ms: 0,
        busy_percent: Reading::Value((0..n_cpus).map(|cpu| (cpu, percent)).collect()),
        memory,
        cpu_stall: Reading::Value(stall(3.5)),
        disk_pressure: Reading::Value(Pressure {
            some: stall(0.4),
            full: stall(0.0),
        }),
        networks: Reading::Value(vec![
            rate("eth0", RateKind::Interface, 0.0),
            rate("mlx5_0:1", RateKind::RdmaPort, 23.4e9),
        ]),
        disks: Reading::Value(vec![rate("nvme0n1", RateKind::Disk, 1.5e6)]),
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

fn process(pid: u32, name: &str, percent: f32, gibibytes: u64) -> Process {
    Process {
        pid,
        name: name.to_owned(),
        busy_percent: Some(percent),
        resident_bytes: gibibytes << 30,
    }
}

fn look(n_gpus: u32, percent: u32) -> Look {
    let names = (0..n_gpus).map(|gpu| (gpu, "NVIDIA GB10".to_owned()));
    Look {
        time: UNIX_EPOCH,
        host: host(20, 34.0),
        processes: vec![
            process(17, "desktop", 3.0, 2),
            process(90, "cargo", 180.0, 1),
            process(4000, "python3", 99.5, 12),
        ],
        gpus: GpuAnswer {
            known: Arc::new(KnownGpus {
                machine: "NVIDIA DGX Spark, 20 cores".to_owned(),
                names: names.collect(),
            }),
            samples: Ok((0..n_gpus).map(|gpu| sample(gpu, percent)).collect()),
            unanswered: None,
        },
    }
}

/// A look in which NVIDIA's library has not answered for so long.
fn hung(n_gpus: u32, seconds: u64) -> Look {
    let mut hung = look(n_gpus, 0);
    hung.gpus.samples = Err(format!("no answer for {seconds}.0 s"));
    hung.gpus.unanswered = Some(Duration::from_secs(seconds));
    hung
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
        assert!(state.take(Arc::new(look)));
    }
    state
}

#[test]
fn a_spark_fits_on_the_smallest_terminal_and_on_a_large_one() {
    let state = state([look(1, 5), look(1, 96)]);
    for (width, height) in [(80, 24), (200, 50)] {
        let rows = screen(&state, width, height);
        shows(&rows, "NVIDIA DGX Spark, 20 cores");
        shows(&rows, "every 1s");
        shows(&rows, "0 GB10  96 %  2411 MHz  64 C  48 W  28.0 GiB shared");
        shows(&rows, "held back: power_cap");
        shows(&rows, "CPU 34 % of 20, waiting 3.5 %");
        shows(&rows, &"▂".repeat(20));
        shows(&rows, "memory 28.0 of 128.0 GiB");
        shows(&rows, "swap 12.0 of 16.0 GiB");
        shows(&rows, "waiting 12.5 %, all 10.0 %");
        shows(&rows, "for disks waiting 0.4 %");
        shows(&rows, " 23.4 GB/s     12 B/s  mlx5_0:1");
        shows(&rows, "  1.5 MB/s     12 B/s  nvme0n1");
        shows(&rows, "  88.2 C  nvme Composite");
        shows(&rows, "3 processes, by memory of GPUs");
        shows(&rows, "    4000    99.5     12G    0        1.0G  python3");
        shows(&rows, "q or Esc end");
    }
    let rows = screen(&state, 200, 50);
    shows(&rows, "networks, up to 23.4 GB/s");
    shows(&rows, "disks, up to 1.5 MB/s");
    shows(&rows, "      90   180.0    1.0G    -           -  cargo");
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
    // All of them, and something of everything else, on the smallest terminal.
    let rows = screen(&state, 80, 24);
    shows(&rows, "7 GB10  50 %");
    shows(&rows, " 23.4 GB/s     12 B/s  mlx5_0:1");
    shows(&rows, "  88.2 C  nvme Composite");
    shows(&rows, "10 processes, by memory of GPUs");
    shows(&rows, "    4007       -       -    7        8.0G  ?");
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
    none.gpus.samples = Err("there is no NVIDIA driver".to_owned());
    for (width, height) in [(80, 24), (200, 50)] {
        let rows = screen(&state([none.clone()]), width, height);
        shows(&rows, "none to watch: there is no NVIDIA driver");
        shows(&rows, "CPU 34 % of 20");
        shows(&rows, "      90   180.0    1.0G    -           -  cargo");
    }
}

#[test]
fn a_library_that_hangs_is_said_with_its_age_and_the_machine_goes_on() {
    let state_of = |looks: Vec<Look>| state(looks);
    let rows = screen(&state_of(vec![hung(0, 3)]), 80, 24);
    shows(&rows, "looking: no answer for 3.0 s");
    shows(&rows, "CPU 34 % of 20");
    // What was told before stays, as what it was.
    let state = state_of(vec![look(8, 50), hung(8, 1), hung(8, 12)]);
    for (width, height) in [(80, 24), (200, 50)] {
        let rows = screen(&state, width, height);
        shows(&rows, "as they were: no answer for 12.0 s");
        shows(&rows, "0 GB10  50 %");
    }
    let told: Vec<_> = state.gpus[&7].newest_first().collect();
    assert_eq!(
        told,
        [None, None, Some(50)],
        "a gap, and no numbers of before"
    );
}

#[test]
fn what_the_recorder_says_has_a_line_of_its_own() {
    let mut state = state([look(1, 50)]);
    state.said = "low_memory: not recorded: No space left on device".to_owned();
    let rows = screen(&state, 80, 24);
    assert!(
        rows[22].starts_with("low_memory: not recorded"),
        "{}",
        rows[22]
    );
    assert!(rows[23].starts_with("q or Esc end"), "{}", rows[23]);
    state.said = format!(
        "{} · {}",
        state.said, "metrics are at a port of the loopback address"
    );
    let rows = screen(&state, 80, 24);
    assert!(
        rows[21].starts_with("low_memory: not recorded"),
        "{}",
        rows[21]
    );
    assert!(rows[22].contains("loopback"), "{}", rows[22]);
}

#[test]
fn what_a_gpu_does_not_tell_is_said_and_no_number() {
    let mut lost = look(2, 50);
    let samples = lost.gpus.samples.as_mut().unwrap();
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
    assert!(!state.take(Arc::new(look(1, 96))));
    let rows = screen(&state, 80, 24);
    shows(&rows, "PAUSED");
    shows(&rows, "  5 %  ");
    state.pause_or_go_on();
    assert!(state.take(Arc::new(look(1, 96))));
    shows(&screen(&state, 80, 24), "  96 %  ");
}

#[test]
fn processes_are_sorted_as_asked() {
    let mut state = state([look(2, 50)]);
    let order = |state: &State| -> Vec<u32> {
        let (processes, why) = state.processes();
        assert_eq!(why, None);
        processes.iter().map(|process| process.pid).collect()
    };
    // By memory of GPUs; 17 uses both without saying how much, 90 uses none.
    assert_eq!(order(&state), [4001, 4000, 17, 90]);
    let both = &state.processes().0[2];
    assert_eq!((&both.gpus[..], both.gpu_bytes), (&[0, 1][..], None));
    for by in [
        [90, 4000, 17, 4001],
        [4000, 17, 90, 4001],
        [17, 90, 4000, 4001],
        [4001, 90, 17, 4000],
    ] {
        state.sort_by_the_next();
        assert_eq!(
            order(&state),
            by,
            "{:?}; of 4001 the name is not known: `?`",
            state.order
        );
    }
    state.sort_by_the_next();
    assert_eq!(state.order, state::Order::GpuMemory);
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
    shows(&screen(&nothing, 80, 24), "every 250ms");
}
