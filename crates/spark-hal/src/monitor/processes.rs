//! Processes of the machine by name: their share of the processors and their memory.
//!
//! ```text
//! /proc/PID/stat   pid (name) state ppid … flags … utime stime … rss     name may hold blanks and brackets
//! share = ticks between two looks / (100 ticks a second), in percent of one processor
//! ```
//!
//! Threads of the kernel, of which a machine of 20 cores has some hundreds, are known by their flag and are not
//! read again for a while, so that a look costs little.
//!
//! Source: proc(5); `PF_KTHREAD` of Linux `include/linux/sched.h`; `USER_HZ` is 100 on x86-64 and AArch64.
//! Deliberately absent: command lines, environments and owners, which say more of people than of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::reading::Reading;
use crate::root::Root;

/// A process of the machine that is no thread of the kernel.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The kernel's name of it, at most 15 bytes; control characters are there as `?`.
    pub name: String,
    /// Percent of one processor's time since the look before, 100 for one that keeps one busy; `None` for a process that is new.
    pub busy_percent: Option<f32>,
    /// Its memory that is not swapped out, shared memory included, in bytes.
    pub resident_bytes: u64,
}

/// Ticks of the kernel's clock for users in a second.
const TICKS_PER_SECOND: f64 = 100.0;
/// The flag of threads of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Looks after which threads of the kernel are looked for anew: numbers are used again.
const LOOKS_BEFORE_ANEW: u32 = 16;

/// Looks at the machine's processes when told to.
#[derive(Debug)]
pub struct ProcessSampler {
    root: Root,
    page_bytes: u64,
    last: Instant,
    /// Ticks of the processes that were there at the last look.
    ticks: BTreeMap<u32, u64>,
    kernel_threads: BTreeSet<u32>,
    n_looks: u32,
}

struct Stat {
    name: String,
    flags: u64,
    ticks: u64,
    resident_pages: u64,
}

impl ProcessSampler {
    /// Watches the processes of the machine that this root describes.
    #[must_use]
    pub fn open(root: Root) -> Self {
        Self {
            page_bytes: page_bytes(&root),
            root,
            last: Instant::now(),
            ticks: BTreeMap::new(),
            kernel_threads: BTreeSet::new(),
            n_looks: 0,
        }
    }

    /// Every process that can be read, in the order of their numbers; one that ends meanwhile is left out.
    pub fn look(&mut self) -> Vec<Process> {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64();
        self.last = now;
        self.n_looks = self.n_looks.wrapping_add(1);
        if self.n_looks.is_multiple_of(LOOKS_BEFORE_ANEW) {
            self.kernel_threads.clear();
        }
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let Reading::Value(names) = self.root.entries_where("/proc", is_number) else {
            return Vec::new();
        };
        let before = std::mem::take(&mut self.ticks);
        let mut all = Vec::new();
        for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            if self.kernel_threads.contains(&pid) {
                continue;
            }
            let Reading::Value(line) = self.root.line(&format!("/proc/{pid}/stat")) else {
                continue;
            };
            let Some(stat) = Stat::parse(&line) else {
                continue;
            };
            if stat.flags & KERNEL_THREAD != 0 {
                self.kernel_threads.insert(pid);
                continue;
            }
            self.ticks.insert(pid, stat.ticks);
            let passed = before.get(&pid);
            let passed = passed.and_then(|ticks| stat.ticks.checked_sub(*ticks));
            let share = passed
                .filter(|_| seconds > 0.0)
                .map(|ticks| (ticks as f64 / TICKS_PER_SECOND / seconds * 100.0) as f32);
            all.push(Process {
                pid,
                name: stat.name,
                busy_percent: share,
                resident_bytes: stat.resident_pages.saturating_mul(self.page_bytes),
            });
        }
        all.sort_by_key(|process| process.pid);
        all
    }
}

impl Stat {
    fn parse(line: &str) -> Option<Self> {
        // The name is whatever stands between the first bracket and the last.
        let (_, rest) = line.split_once('(')?;
        let (name, rest) = rest.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field behind the name is the third of proc(5).
        let number = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
        Some(Self {
            name: name
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect(),
            flags: number(9)?,
            ticks: number(14)?.saturating_add(number(15)?),
            resident_pages: number(24)?,
        })
    }
}

/// Bytes of a page, by the first mapping of this process: kernels of AArch64 have pages of 4, 16 or 64 KiB.
fn page_bytes(root: &Root) -> u64 {
    const USUAL: u64 = 4096;
    let Reading::Value(text) = root.text("/proc/self/smaps") else {
        return USUAL;
    };
    let size = text.lines().find_map(|line| {
        line.strip_prefix("KernelPageSize:")?
            .trim()
            .strip_suffix("kB")
    });
    let size = size.and_then(|kibibytes| kibibytes.trim().parse::<u64>().ok());
    size.map_or(USUAL, |kibibytes| kibibytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STAT: &str = "7 (a (b) c) S 1 7 7 0 -1 4194304 0 0 0 0 30 20 0 0 20 0 1 0 100 1000 25 18446744073709551615";

    #[test]
    fn a_name_may_hold_brackets_and_blanks_and_what_a_terminal_obeys_is_not_kept() {
        let stat = Stat::parse(STAT).unwrap();
        assert_eq!(
            (&*stat.name, stat.ticks, stat.resident_pages),
            ("a (b) c", 50, 25)
        );
        let odd = Stat::parse(&STAT.replace("a (b) c", "\u{1b}[31m)x")).unwrap();
        assert_eq!(odd.name, "?[31m)x");
        for broken in ["", "7", "7 (a", "7 (a) S", "7 (a) S 1 7 7 0 -1 x", ")("] {
            assert!(Stat::parse(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn shares_are_of_one_processor_and_threads_of_the_kernel_are_left_out() {
        let folder =
            std::env::temp_dir().join(format!("spark-hal-processes-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let place = folder.join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        };
        write("proc/7/stat", STAT);
        write("proc/8/stat", &STAT.replace("4194304", "2129984"));
        write("proc/9/stat", "no numbers");
        write("proc/meminfo", "");
        write(
            "proc/self/smaps",
            "0-1 r--p\nSize: 4 kB\nKernelPageSize:       64 kB\n",
        );
        let mut sampler = ProcessSampler::open(Root::at(&folder));
        let first = sampler.look();
        let told: Vec<_> = first.iter().map(|it| (it.pid, it.busy_percent)).collect();
        assert_eq!(told, [(7, None)]);
        assert_eq!(first[0].resident_bytes, 25 << 16);
        write("proc/7/stat", &STAT.replace(" 30 20 ", " 90 60 "));
        sampler.last = Instant::now() - Duration::from_secs(2);
        let share = sampler.look()[0].busy_percent.unwrap();
        assert!(
            (share - 50.0).abs() < 2.0,
            "{share}: 100 ticks in two seconds"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn this_process_is_among_those_of_the_machine() {
        let me = std::process::id();
        let all = ProcessSampler::open(Root::host()).look();
        let found = all
            .iter()
            .find(|process| process.pid == me)
            .expect("it is there");
        assert!(found.resident_bytes > 1 << 20, "{found:?}");
    }
}
