//! Counters of the kernel, and what they say between two looks.
//!
//! ```text
//! /proc/stat       cpuN user nice system idle iowait irq softirq steal …   in ticks of the clock
//! /proc/net/dev    name: bytes … (8 columns received)  bytes … (8 sent)
//! /sys/class/infiniband/DEVICE/ports/N/counters/port_{rcv,xmit}_data        in words of 4 bytes
//! /proc/diskstats  major minor name reads merged sectors ms writes merged sectors …   of 512 bytes
//! ```
//!
//! Sources: proc(5), Linux `Documentation/admin-guide/iostats.rst`, `Documentation/ABI/stable/sysfs-class-infiniband`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::reading::Reading;
use crate::root::Root;

/// What went through something, in bytes per second.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rate {
    /// The kernel's name of it.
    pub name: String,
    /// What it is.
    pub kind: RateKind,
    /// Received, or read.
    pub in_bytes_per_s: f64,
    /// Sent, or written.
    pub out_bytes_per_s: f64,
    /// Bytes received or read since the machine, or the device, began.
    pub in_bytes: u64,
    /// Bytes sent or written since then.
    pub out_bytes: u64,
}

/// What bytes went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RateKind {
    /// A network interface with a device below it.
    Interface,
    /// One without, as bridges and the ends of containers: its bytes may be those of another one once more.
    VirtualInterface,
    /// A port of an RDMA device.
    RdmaPort,
    /// A whole disk.
    Disk,
}

impl RateKind {
    /// A name without blanks for files, such as `rdma_port`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::VirtualInterface => "virtual_interface",
            Self::RdmaPort => "rdma_port",
            Self::Disk => "disk",
        }
    }
}

/// Ticks that a processor has spent, idle ones apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticks {
    busy: u64,
    idle: u64,
}

/// What something is, and bytes in and out of it, by name.
type Bytes = BTreeMap<String, (RateKind, u64, u64)>;

#[derive(Debug)]
pub(super) struct Counters {
    /// By the processor's number.
    pub(super) ticks: Reading<BTreeMap<u32, Ticks>>,
    pub(super) networks: Reading<Bytes>,
    pub(super) disks: Reading<Bytes>,
}

impl Counters {
    pub(super) fn read(root: &Root) -> Self {
        let interfaces = root
            .text("/proc/net/dev")
            .map(|text| interfaces(root, &text));
        let ports = ports(root);
        let networks = match interfaces {
            Reading::Value(mut networks) => {
                networks.extend(ports);
                Reading::Value(networks)
            }
            other if ports.is_empty() => other,
            _ => Reading::Value(ports),
        };
        Self {
            ticks: root.text("/proc/stat").map(|text| ticks(&text)),
            networks,
            disks: disks(root),
        }
    }
}

fn ticks(text: &str) -> BTreeMap<u32, Ticks> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The line of all processors has no number.
        let number = words.next().filter(|_| !line.starts_with("cpu "))?;
        let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let idle = times.get(3)?.saturating_add(*times.get(4).unwrap_or(&0));
        let all = times
            .iter()
            .fold(0_u64, |sum, time| sum.saturating_add(*time));
        let busy = all.saturating_sub(idle);
        Some((number.parse().ok()?, Ticks { busy, idle }))
    };
    text.lines().filter_map(line).collect()
}

fn interfaces(root: &Root, text: &str) -> Bytes {
    let kind = |name: &str| match root.exists(&format!("/sys/class/net/{name}/device")) {
        true => RateKind::Interface,
        false => RateKind::VirtualInterface,
    };
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let name = name.trim();
        let mut numbers = numbers.split_ascii_whitespace();
        let received = numbers.next()?.parse().ok()?;
        let sent = numbers.nth(7)?.parse().ok()?;
        // A name with a slash is none of the kernel's.
        let is_wanted = name != "lo" && !name.contains('/');
        is_wanted.then(|| (name.to_owned(), (kind(name), received, sent)))
    };
    text.lines().filter_map(line).collect()
}

/// Ports of RDMA devices; none where there are no such devices.
fn ports(root: &Root) -> Bytes {
    const FOLDER: &str = "/sys/class/infiniband";
    let mut all = Bytes::new();
    let listed = |path: &str| match root.entries(path) {
        Reading::Value(names) => names,
        Reading::NotSupported | Reading::Failed(_) => Vec::new(),
    };
    for device in listed(FOLDER) {
        for port in listed(&format!("{FOLDER}/{device}/ports")) {
            let counter = |name: &str| {
                let path = format!("{FOLDER}/{device}/ports/{port}/counters/{name}");
                root.number::<u64>(&path)
            };
            let (received, sent) = (counter("port_rcv_data"), counter("port_xmit_data"));
            if let (Reading::Value(received), Reading::Value(sent)) = (received, sent) {
                let (received, sent) = (received.saturating_mul(4), sent.saturating_mul(4));
                let bytes = (RateKind::RdmaPort, received, sent);
                all.insert(format!("{device}:{port}"), bytes);
            }
        }
    }
    all
}

fn disks(root: &Root) -> Reading<Bytes> {
    let is_real = |name: &str| {
        !["loop", "ram", "zram"]
            .iter()
            .any(|kind| name.starts_with(kind))
    };
    root.entries_where("/sys/block", is_real).and_then(|whole| {
        root.text("/proc/diskstats").map(|text| {
            let line = |line: &str| {
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                let sectors = |idx: usize| words.get(idx)?.parse::<u64>().ok();
                let name = words
                    .get(2)
                    .filter(|name| whole.iter().any(|one| one == *name))?;
                let bytes = |sectors: u64| sectors.saturating_mul(512);
                let (read, written) = (bytes(sectors(5)?), bytes(sectors(9)?));
                Some(((*name).to_owned(), (RateKind::Disk, read, written)))
            };
            text.lines().filter_map(line).collect()
        })
    })
}

/// Shares of time, of processors that are there both times.
pub(super) fn busy(
    before: &Reading<BTreeMap<u32, Ticks>>,
    now: &Reading<BTreeMap<u32, Ticks>>,
) -> Reading<Vec<(u32, f32)>> {
    let Reading::Value(before) = before else {
        return now.clone().and_then(|_| Reading::NotSupported);
    };
    now.clone().and_then(|now| {
        let share = |(number, now): (&u32, &Ticks)| {
            let before = before.get(number)?;
            let busy = now.busy.checked_sub(before.busy)?;
            // Time spent waiting for disks may go down (proc(5)).
            let idle = now.idle.saturating_sub(before.idle);
            let all = busy.checked_add(idle).filter(|all| *all > 0)?;
            Some((*number, (busy as f64 / all as f64 * 100.0) as f32))
        };
        let shares: Vec<(u32, f32)> = now.iter().filter_map(share).collect();
        if shares.is_empty() {
            return Reading::NotSupported;
        }
        Reading::Value(shares)
    })
}

/// Bytes per second, of what is there both times and has not begun anew.
pub(super) fn rates(
    before: &Reading<Bytes>,
    now: &Reading<Bytes>,
    between: Duration,
) -> Reading<Vec<Rate>> {
    let (Reading::Value(before), false) = (before, between.is_zero()) else {
        return now.clone().and_then(|_| Reading::NotSupported);
    };
    now.clone().map(|now| {
        let rate = |(name, (kind, into, out)): (String, (RateKind, u64, u64))| {
            let (_, into_before, out_before) = before.get(&name)?;
            let per_second = |now: u64, before: u64| {
                Some(now.checked_sub(before)? as f64 / between.as_secs_f64())
            };
            Some(Rate {
                in_bytes_per_s: per_second(into, *into_before)?,
                out_bytes_per_s: per_second(out, *out_before)?,
                in_bytes: into,
                out_bytes: out,
                kind,
                name,
            })
        };
        now.into_iter().filter_map(rate).collect()
    })
}
