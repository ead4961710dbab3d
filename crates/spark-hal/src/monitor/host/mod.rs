//! The machine around the GPUs while something runs: processors, memory, networks, disks, temperatures.
//!
//! ```text
//! open   counters ─┐
//! look   counters ─┴─> differences over the time between: shares and rates;  memory, temperatures as they are
//! ```
//!
//! Everything is read below a [`Root`] and bounded; what cannot be read is a [`Reading`] that says why. A look
//! costs a few dozen small reads.
//!
//! Deliberately absent: processes, which `processes` looks at less often; power of the CPU, which no interface of a GB10 tells.

mod counters;
mod temperatures;

use std::time::{Duration, Instant};

use crate::memory::{Memory, Pressure, Stall};
use crate::reading::Reading;
use crate::root::Root;

use counters::Counters;
pub use counters::{Rate, RateKind};
pub use temperatures::Temperature;

/// One look at the machine.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HostSample {
    /// Milliseconds since the sampler was opened.
    pub at_ms: u64,
    /// Share of the time since the look before that each processor was not idle, by its number, 0 to 100.
    /// Not supported before a tick of the kernel's clock has passed.
    pub busy_percent: Reading<Vec<(u32, f32)>>,
    /// Memory as it is.
    pub memory: Memory,
    /// Time lost waiting for processors.
    pub cpu_stall: Reading<Stall>,
    /// Time lost waiting for disks.
    pub disk_pressure: Reading<Pressure>,
    /// Bytes per second since the look before, of network interfaces other than the loopback, and of RDMA ports,
    /// whose traffic interfaces do not count: `mlx5_0:1` is port 1 of a device.
    pub networks: Reading<Vec<Rate>>,
    /// The same of disks, without loop devices and disks in memory.
    pub disks: Reading<Vec<Rate>>,
    /// What sensors say, in the order of their names.
    pub temperatures: Vec<Temperature>,
}

impl HostSample {
    /// The mean over all processors, in percent.
    #[must_use]
    pub fn mean_busy_percent(&self) -> Reading<f32> {
        let mean = |each: Vec<(u32, f32)>| {
            let sum: f32 = each.iter().map(|(_, percent)| percent).sum();
            sum / each.len().max(1) as f32
        };
        self.busy_percent.clone().map(mean)
    }

    /// The machine's memory in use and all of it, in bytes, as processors may use it.
    #[must_use]
    pub fn memory_used_of_total(&self) -> Reading<(u64, u64)> {
        let available = self.memory.available_to_cpu_bytes();
        let total = self.memory.meminfo.total_bytes.clone();
        total.and_then(|total| available.map(|available| (total.saturating_sub(available), total)))
    }

    /// Bytes of swap in use, and of all of it.
    #[must_use]
    pub fn swap_used_of_total(&self) -> Reading<(u64, u64)> {
        let free = self.memory.meminfo.swap_free_bytes.clone();
        let total = self.memory.meminfo.swap_total_bytes.clone();
        total.and_then(|total| free.map(|free| (total.saturating_sub(free), total)))
    }

    /// Bytes per second in and out of everything of this kind together; not supported where there is nothing of it.
    #[must_use]
    pub fn sum_of(&self, kind: RateKind) -> Reading<(f64, f64)> {
        let rates = match kind {
            RateKind::Disk => &self.disks,
            _ => &self.networks,
        };
        rates.as_ref().and_then(|rates| {
            let wanted = rates.iter().filter(|rate| rate.kind == kind);
            let sums = wanted.map(|rate| (rate.in_bytes_per_s, rate.out_bytes_per_s));
            match sums.reduce(|a, b| (a.0 + b.0, a.1 + b.1)) {
                Some(sums) => Reading::Value(sums),
                None => Reading::NotSupported,
            }
        })
    }

    /// The sensor that tells most, if any does.
    #[must_use]
    pub fn hottest(&self) -> Option<&Temperature> {
        let all = self.temperatures.iter();
        all.max_by(|a, b| a.celsius.total_cmp(&b.celsius))
    }
}

/// Looks at the machine when told to.
#[derive(Debug)]
pub struct HostSampler {
    root: Root,
    begin: Instant,
    last: Instant,
    counters: Counters,
}

impl HostSampler {
    /// Watches the machine that this root describes, from now on.
    #[must_use]
    pub fn open(root: Root) -> Self {
        let now = Instant::now();
        Self {
            counters: Counters::read(&root),
            root,
            begin: now,
            last: now,
        }
    }

    /// One look, over the time since the one before.
    pub fn look(&mut self) -> HostSample {
        let now = Instant::now();
        let counters = Counters::read(&self.root);
        let sample = self.compare(&counters, now - self.last, now - self.begin);
        (self.counters, self.last) = (counters, now);
        sample
    }

    fn compare(&self, now: &Counters, between: Duration, since_begin: Duration) -> HostSample {
        HostSample {
            at_ms: u64::try_from(since_begin.as_millis()).unwrap_or(u64::MAX),
            busy_percent: counters::busy(&self.counters.ticks, &now.ticks),
            memory: Memory::read(&self.root),
            cpu_stall: Stall::of_processors(&self.root),
            disk_pressure: Pressure::of_disks(&self.root),
            networks: counters::rates(&self.counters.networks, &now.networks, between),
            disks: counters::rates(&self.counters.disks, &now.disks, between),
            temperatures: temperatures::read(&self.root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 10 0 10 70 10 0 0 0 0 0\n\
                        cpu7 0 0 0 100 0 0 0 0 0 0\nintr 1 2 3\n";
    const LATER: &str = "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 30 0 40 110 20 0 0 0 20 0\n\
                         cpu7 0 0 0 200 0 0 0 0 0 0\n";
    const NETWORK: &str = "Inter-|   Receive\n face |bytes\n    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n\
                           enp1s0f0np0: 1000 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n  eth0:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n";
    const DISKS: &str =
        " 259 0 nvme0n1 10 0 100 1 20 0 200 1 0 1 2\n 259 1 nvme0n1p1 1 0 9 1 2 0 9 1 0 1 2\n";

    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let name = format!("spark-hal-host-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn write(&self, path: &str, text: &str) {
            let place = self.0.join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }

        fn root(&self) -> Root {
            Root::at(&self.0)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn shares_and_rates_are_those_between_two_looks() {
        let machine = Machine::new("rates");
        machine.write("proc/stat", STAT);
        machine.write("proc/net/dev", NETWORK);
        machine.write("proc/diskstats", DISKS);
        machine.write("sys/class/net/enp1s0f0np0/device/vendor", "0x15b3");
        machine.write("sys/block/nvme0n1/size", "1");
        machine.write("sys/block/loop0/size", "1");
        let port = "sys/class/infiniband/mlx5_0/ports/1/counters";
        machine.write(&format!("{port}/port_rcv_data"), "100\n");
        machine.write(&format!("{port}/port_xmit_data"), "200\n");
        let sampler = HostSampler::open(machine.root());
        machine.write("proc/stat", LATER);
        machine.write("proc/net/dev", &NETWORK.replace(": 1000 ", ": 3000 "));
        machine.write("proc/diskstats", &DISKS.replace(" 100 ", " 300 "));
        machine.write(&format!("{port}/port_rcv_data"), "600\n");
        let two = Duration::from_secs(2);
        let now = sampler.compare(&Counters::read(&machine.root()), two, two);
        // Of 110 ticks 40 were idle and 10 waited for disks; the guest's are among the user's.
        let busy = now.busy_percent.as_value().unwrap();
        assert!(
            (busy[0].1 - 50.0).abs() < 1e-4 && busy[0].0 == 0,
            "{busy:?}"
        );
        assert_eq!(busy[1], (7, 0.0));
        assert!((now.mean_busy_percent().value().unwrap() - 25.0).abs() < 1e-4);
        let rate = |name: &str, kind, into: (f64, u64), out: u64| Rate {
            name: name.to_owned(),
            kind,
            in_bytes_per_s: into.0,
            out_bytes_per_s: 0.0,
            in_bytes: into.1,
            out_bytes: out,
        };
        let networks = now.networks.as_value().unwrap();
        let wanted = [
            rate("enp1s0f0np0", RateKind::Interface, (1000.0, 3000), 50),
            rate("eth0", RateKind::VirtualInterface, (0.0, 7), 8),
            rate("mlx5_0:1", RateKind::RdmaPort, (1000.0, 2400), 800), // counted in words of four bytes
        ];
        assert_eq!(networks[..], wanted);
        // Sectors have 512 bytes, whatever the disk's are.
        assert_eq!(
            now.disks.as_value().unwrap()[..],
            [rate(
                "nvme0n1",
                RateKind::Disk,
                (51200.0, 300 * 512),
                200 * 512
            )]
        );
        let sum = now.sum_of(RateKind::Interface);
        assert_eq!(sum, Reading::Value((1000.0, 0.0)), "a bridge counts once");
        assert_eq!(now.swap_used_of_total(), Reading::NotSupported);
    }

    #[test]
    fn what_is_not_there_is_said_and_counters_that_begin_anew_are_no_rate() {
        let machine = Machine::new("absent");
        let mut sampler = HostSampler::open(machine.root());
        let now = sampler.look();
        assert!(now.busy_percent.as_value().is_none() && now.networks.as_value().is_none());
        assert!(now.temperatures.is_empty());
        machine.write("proc/net/dev", NETWORK);
        let before = Counters::read(&machine.root());
        machine.write("proc/net/dev", &NETWORK.replace(": 1000 ", ": 10 "));
        let after = Counters::read(&machine.root());
        let second = Duration::from_secs(1);
        let rates = counters::rates(&before.networks, &after.networks, second);
        let names: Vec<_> = rates
            .as_value()
            .unwrap()
            .iter()
            .map(|rate| &*rate.name)
            .collect();
        assert_eq!(
            names,
            ["eth0"],
            "an interface that was taken away and came back"
        );
        let none = counters::rates(&before.networks, &after.networks, Duration::ZERO);
        assert!(none.as_value().is_none(), "no time has passed");
    }

    #[test]
    fn sensors_have_the_names_of_their_chips_and_labels() {
        let machine = Machine::new("sensors");
        machine.write("sys/class/hwmon/hwmon3/name", "nvme\n");
        machine.write("sys/class/hwmon/hwmon3/temp1_label", "Composite\n");
        machine.write("sys/class/hwmon/hwmon3/temp1_input", "41850\n");
        machine.write("sys/class/hwmon/hwmon3/temp2_input", "-5000\n");
        machine.write("sys/class/hwmon/hwmon4/name", "nvme\n");
        machine.write("sys/class/hwmon/hwmon4/temp2_input", "1000\n");
        machine.write("sys/class/hwmon/hwmon0/name", "acpitz\n");
        machine.write("sys/class/hwmon/hwmon0/temp1_input", "hot\n");
        let now = HostSampler::open(machine.root()).look();
        let told: Vec<_> = now
            .temperatures
            .iter()
            .map(|one| (&*one.sensor, one.celsius))
            .collect();
        let wanted = [
            ("nvme Composite", 41.85),
            ("nvme temp2", -5.0),
            ("nvme temp2 (2)", 1.0),
        ];
        assert_eq!(told, wanted, "two drives of a kind are told apart");
    }
}
