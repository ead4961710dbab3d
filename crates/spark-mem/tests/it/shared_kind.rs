//! Which kind of memory shared buffers get: said, kept, measured, or by attributes.
//!
//! The stand-in driver has no speeds of its own. What the figures decide is tested as a function
//! (`shared_kind::rule`) and through figures that are written here as an earlier run would have; that
//! they are taken, kept and found, by the calls that the driver recorded.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use spark_hal::config::MemoryKindChoice;
use spark_mem::{
    BufferKind, Device, DeviceOptions, KindChoice, KindEvidence, LaunchShape, MemError,
    NotMeasured, TransferStats,
};
use spark_testing::driver::{Persona, Posed};

use crate::cache::CacheDir;
use crate::kernels::SCALE;
use crate::logged;
use crate::stand_in::{driver, options};

const ALL: [BufferKind; 3] = [BufferKind::System, BufferKind::Unified, BufferKind::Pinned];

impl CacheDir {
    fn measuring(&self) -> DeviceOptions {
        options().with_cache_dir(self.0.clone())
    }

    /// The file with the figures of the machine.
    fn figures(&self) -> PathBuf {
        let mut files: Vec<_> = std::fs::read_dir(self.0.join("memory"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }
}

/// Opens a device and tells what it chose, and how many kernels and allocations that took.
fn choice(posed: &Posed<'_>, options: DeviceOptions) -> (KindChoice, usize) {
    let before = posed.n_calls();
    let device = Device::cuda(0, options).unwrap();
    let calls = posed.calls().split_off(before);
    let is_measuring = |call: &&String| {
        ["cuLaunch", "cuMem", "cuModule", "cuStream", "nvrtc"]
            .iter()
            .any(|name| call.starts_with(name))
    };
    (
        device.shared_kind_choice().clone(),
        calls.iter().filter(is_measuring).count(),
    )
}

/// A program's use of shared memory, in the kind that was chosen.
fn computes(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let mut input = device.shared::<f32>(100).unwrap();
    assert_eq!(input.kind(), device.shared_kind());
    let mut out = device.shared::<f32>(100).unwrap();
    input.overwrite(&stream).unwrap().fill(3.0);
    let shape = LaunchShape::for_elements(100, 32).unwrap();
    // SAFETY: both have the 100 elements that the kernel touches.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 100)) }.unwrap();
    assert_eq!(*out.read(&stream).unwrap(), [6.0; 100]);
}

#[test]
fn the_first_open_measures_and_later_ones_find_the_figures() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    let (first, n_calls) = choice(&posed, cache.measuring());
    assert_eq!(first.evidence, KindEvidence::Measured);
    assert_eq!(first.by_attributes, BufferKind::System);
    assert!(n_calls > 3 * 2 * 3, "{n_calls} calls");
    let measurement = first.measurement.clone().unwrap();
    let kinds: Vec<_> = measurement.speeds.iter().map(|speed| speed.kind).collect();
    assert_eq!(kinds, ALL);
    assert!((3..=9).contains(&measurement.n_rounds), "{measurement:?}");
    for speed in &measurement.speeds {
        assert!(speed.fastest_round <= speed.round && !speed.round.is_zero());
    }
    let (second, n_calls) = choice(&posed, cache.measuring());
    assert_eq!((second.evidence, n_calls), (KindEvidence::Kept, 0));
    assert_eq!(second.measurement, Some(measurement));
    assert_eq!(second.kind, first.kind);
    posed.assert_clean();
}

#[test]
fn devices_that_are_opened_at_once_measure_once() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    let evidence = std::thread::scope(|scope| {
        let open = || {
            let device = Device::cuda(0, cache.measuring()).unwrap();
            device.shared_kind_choice().evidence.clone()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    let count = |wanted| evidence.iter().filter(|found| **found == wanted).count();
    assert_eq!(count(KindEvidence::Measured), 1, "{evidence:?}");
    assert_eq!(count(KindEvidence::Kept), 3);
    posed.assert_clean();
}

/// What was measured is neither the program's copies nor its memory.
#[test]
fn a_measurement_leaves_nothing_behind() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    let device = Device::cuda(0, cache.measuring()).unwrap();
    assert_eq!(device.shared_kind_choice().evidence, KindEvidence::Measured);
    let live = posed.live();
    assert_eq!((live.allocations, live.streams, live.events), (0, 0, 0));
    assert_eq!(device.stats(), TransferStats::default());
    assert_eq!(device.budget().largest_used_bytes(), 0);
    computes(&device);
    drop(device);
    posed.assert_clean();
}

#[test]
fn nothing_is_measured_where_there_is_nothing_to_choose_or_to_keep() {
    let cache = CacheDir::new();
    let posed = driver().pose(Persona::Spark);
    let attributes = KindEvidence::Attributes;
    let asked = |options| choice(&posed, options);
    let (chosen, n_calls) = asked(options());
    assert_eq!((chosen.kind, n_calls), (BufferKind::System, 0));
    assert_eq!(chosen.evidence, attributes(NotMeasured::NoCacheFolder));
    let (chosen, n_calls) = asked(cache.measuring().with_measured_memory(false));
    assert_eq!((chosen.kind, n_calls), (BufferKind::System, 0));
    assert_eq!(chosen.evidence, attributes(NotMeasured::NotAsked));
    let (chosen, n_calls) = asked(cache.measuring().with_unified_memory(false));
    assert_eq!((chosen.kind, n_calls), (BufferKind::Device, 0));
    assert_eq!(chosen.evidence, attributes(NotMeasured::NothingToChoose));
    drop(posed);
    let posed = driver().pose(Persona::Card);
    let (chosen, n_calls) = choice(&posed, cache.measuring());
    assert_eq!((chosen.kind, n_calls), (BufferKind::Device, 0));
    assert_eq!(chosen.evidence, attributes(NotMeasured::NothingToChoose));
    assert!(!cache.0.exists(), "nothing was kept");
    posed.assert_clean();
}

// --- words ----------------------------------------------------------------------------------

fn asked_by_environment(options: DeviceOptions, kind: MemoryKindChoice) -> DeviceOptions {
    let mut options = options;
    options.memory_kind = kind;
    options
}

#[test]
fn a_word_of_the_program_or_the_user_is_followed_without_measuring() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    for kind in ALL.into_iter().chain([BufferKind::Device]) {
        let (chosen, n_calls) = choice(&posed, cache.measuring().with_shared_kind(kind));
        assert_eq!((chosen.kind, n_calls), (kind, 0));
        assert_eq!(chosen.evidence, KindEvidence::Caller);
        assert_eq!(chosen.by_attributes, BufferKind::System);
        computes(&Device::cuda(0, options().with_shared_kind(kind)).unwrap());
    }
    let words = [
        MemoryKindChoice::System,
        MemoryKindChoice::Unified,
        MemoryKindChoice::Pinned,
    ];
    for (word, kind) in words.into_iter().zip(ALL) {
        let by_user = asked_by_environment(cache.measuring(), word);
        let (chosen, n_calls) = choice(&posed, by_user.clone());
        assert_eq!((chosen.kind, n_calls), (kind, 0));
        assert_eq!(chosen.evidence, KindEvidence::Environment);
        let (chosen, _) = choice(&posed, by_user.with_shared_kind(BufferKind::Pinned));
        assert_eq!(chosen.evidence, KindEvidence::Caller, "the program's wins");
    }
    posed.assert_clean();
}

#[test]
fn a_kind_that_the_program_cannot_have_is_an_error() {
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver().pose(persona);
        let host = Device::cuda(0, options().with_shared_kind(BufferKind::Host));
        assert!(
            matches!(host, Err(MemError::NotOnDevice { .. })),
            "{host:?}"
        );
        let without = options().with_unified_memory(false);
        let system = Device::cuda(0, without.with_shared_kind(BufferKind::System));
        match system {
            Err(MemError::KindUnsupported { kind, .. }) => assert_eq!(kind, BufferKind::System),
            other => panic!("{other:?}"),
        }
        posed.assert_clean();
    }
}

#[test]
fn a_kind_that_the_user_cannot_have_is_a_warning_that_names_another() {
    let posed = driver().pose(Persona::Card);
    let by_user = asked_by_environment(options(), MemoryKindChoice::System);
    let log = logged::during(|| {
        let (chosen, _) = choice(&posed, by_user);
        assert_eq!(chosen.kind, BufferKind::Device);
        let why = NotMeasured::Unavailable(BufferKind::System);
        assert_eq!(chosen.evidence, KindEvidence::Attributes(why));
    });
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("WARN"), "{log:?}");
    assert!(
        log[0].contains("SPARK_MEMORY_KIND") && log[0].contains("using Device memory"),
        "{log:?}"
    );
    posed.assert_clean();
}

// --- figures on disk ------------------------------------------------------------------------

/// The text of a file with figures, its own checksum made anew.
fn sealed(body: &str) -> String {
    let sum: String = Sha256::digest(body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{body}sha256 {sum}\n")
}

/// The lines of a file with figures, without the last one.
fn body(text: &str) -> String {
    let (body, _) = text.rsplit_once("sha256 ").unwrap();
    body.to_owned()
}

/// The setting acts: with figures that speak for another kind, buffers are of that kind.
#[test]
fn figures_decide() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    choice(&posed, cache.measuring());
    let path = cache.figures();
    let text = std::fs::read_to_string(&path).unwrap();
    let head: String = text
        .lines()
        .take(4)
        .map(|line| format!("{line}\n"))
        .collect();
    let with = |system: u32, unified: u32, pinned: u32| {
        let line = |kind: &str, time: u32| {
            format!("{kind} {} {} {} {time} {time}\n", time / 2, time / 4, 1)
        };
        let lines = [
            line("System", system),
            line("Unified", unified),
            line("Pinned", pinned),
        ];
        std::fs::write(&path, sealed(&(head.clone() + &lines.concat()))).unwrap();
        let mut chosen = None;
        let log = logged::during(|| {
            let device = Device::cuda(0, cache.measuring()).unwrap();
            computes(&device);
            chosen = Some(device.shared_kind_choice().clone());
        });
        let chosen = chosen.unwrap();
        assert_eq!(chosen.evidence, KindEvidence::Kept);
        let told: Vec<_> = log
            .into_iter()
            .filter(|line| line.contains("buffers that CPU and GPU use"))
            .collect();
        assert_eq!(told.len(), 1, "{told:?}");
        (chosen.kind, told[0].clone())
    };
    let (kind, told) = with(900_000, 1_000_000, 880_000);
    assert_eq!(kind, BufferKind::System);
    assert!(told.starts_with("DEBUG"), "{told}");
    let (kind, told) = with(900_000, 1_000_000, 600_000);
    assert_eq!(kind, BufferKind::Pinned);
    assert!(told.starts_with("INFO"), "{told}");
    assert!(
        told.contains("Pinned, kept from an earlier run") && told.contains("would be System"),
        "{told}"
    );
    assert_eq!(with(900_000, 500_000, 600_000).0, BufferKind::Unified);
    posed.assert_clean();
}

#[test]
fn figures_that_are_damaged_or_of_another_machine_are_measured_again() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    choice(&posed, cache.measuring());
    let path = cache.figures();
    let whole = std::fs::read_to_string(&path).unwrap();
    let body = body(&whole);
    let id = path.file_stem().unwrap().to_str().unwrap();
    let other_id = id.chars().rev().collect::<String>();
    let bad = [
        String::new(),
        "something else".to_owned(),
        whole[..whole.len() - 1].to_owned(),
        whole.replacen("round", "rounD", 1),
        sealed(&body.replacen("kinds 1", "kinds 2", 1)),
        sealed(&body.replace(id, &other_id)),
        sealed(&body.replacen("System", "Host", 1)),
        sealed(&body.replacen("System ", "System -", 1)),
        sealed(&body.replacen("System ", "System 1 ", 1)),
        sealed(&body.replacen("round ", "round x", 1)),
        sealed(&format!("{body}Device 1 1 1 1 1\n")),
        sealed(body.rsplit_once("Pinned").unwrap().0),
        "9".repeat(1 << 20),
    ];
    for text in bad {
        std::fs::write(&path, &text).unwrap();
        let log = logged::during(|| {
            let (chosen, n_calls) = choice(&posed, cache.measuring());
            assert_eq!(chosen.evidence, KindEvidence::Measured, "{text}");
            assert!(n_calls > 0);
        });
        let told = |line: &String| line.starts_with("WARN") && line.contains("measuring again");
        assert!(log.iter().any(told), "{text}: {log:?}");
        let (chosen, _) = choice(&posed, cache.measuring());
        assert_eq!(chosen.evidence, KindEvidence::Kept, "and kept whole again");
    }
    // Opening a pipe would wait for somebody who writes into it.
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let (chosen, _) = choice(&posed, cache.measuring());
    assert_eq!(chosen.evidence, KindEvidence::Measured);
    let (chosen, _) = choice(&posed, cache.measuring());
    assert_eq!(chosen.evidence, KindEvidence::Kept, "a file is there again");
    posed.assert_clean();
}

#[test]
fn figures_that_cannot_be_kept_cost_a_warning() {
    let posed = driver().pose(Persona::Spark);
    let file = CacheDir::new();
    // A file where the directory would be fails for root too, as permissions would not.
    std::fs::write(&file.0, "no directory").unwrap();
    let log = logged::during(|| {
        let (chosen, _) = choice(&posed, file.measuring());
        assert_eq!(chosen.evidence, KindEvidence::Measured);
    });
    assert!(
        log.iter()
            .any(|line| line.starts_with("WARN") && line.contains("cannot be kept")),
        "{log:?}"
    );
    std::fs::remove_file(&file.0).unwrap();
    posed.assert_clean();
}

// --- what goes wrong ------------------------------------------------------------------------

#[track_caller]
fn is_by_attributes(device: &Device) -> bool {
    let chosen = device.shared_kind_choice();
    let failed = matches!(
        chosen.evidence,
        KindEvidence::Attributes(NotMeasured::Failed(_))
    );
    if failed {
        assert_eq!(chosen.kind, BufferKind::System);
        assert_eq!(chosen.measurement, None);
    }
    failed
}

#[test]
fn a_budget_that_leaves_no_room_leaves_the_kind_by_attributes() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    let log = logged::during(|| {
        let device = Device::cuda(0, cache.measuring().with_budget_bytes(1 << 20)).unwrap();
        assert!(is_by_attributes(&device));
        computes(&device);
    });
    assert!(
        log[0].starts_with("WARN") && log[0].contains("the limit is 1048576 bytes"),
        "{log:?}"
    );
    assert_eq!(posed.count("cuMemHostAlloc 4194304"), 0);
    posed.assert_clean();
}

/// Whatever fails while memory is measured, the device works, and nothing is kept of it.
#[test]
fn every_call_of_a_measurement_fails_once() {
    let posed = driver().pose(Persona::Spark);
    let n_opening = {
        let _device = Device::cuda(0, options()).unwrap();
        posed.n_calls()
    };
    posed.forget();
    let cache = CacheDir::new();
    let device = Device::cuda(0, cache.measuring()).unwrap();
    let n_calls = posed.n_calls();
    drop(device);
    let mut n_failed = 0;
    for code in [1, 999] {
        for nth in n_opening..n_calls {
            posed.forget();
            posed.fail_call(nth, code);
            let cache = CacheDir::new();
            let device = Device::cuda(0, cache.measuring()).unwrap();
            if is_by_attributes(&device) {
                n_failed += 1;
                assert!(!cache.0.join("memory").exists(), "call {nth}");
            }
            if nth % 16 == 0 {
                // How many calls a measurement makes is for the clock to say: it may have ended first.
                posed.fail_call(usize::MAX, code);
                computes(&device);
            }
            drop(device);
            posed.assert_clean();
        }
    }
    assert!(n_failed > n_calls - n_opening, "{n_failed} of {n_calls}");
}

#[test]
fn every_allocation_of_a_measurement_finds_no_memory_once() {
    let posed = driver().pose(Persona::Spark);
    for nth in 0..2 {
        posed.forget();
        posed.fail_allocation(nth);
        let cache = CacheDir::new();
        let device = Device::cuda(0, cache.measuring()).unwrap();
        assert!(is_by_attributes(&device), "allocation {nth}");
        computes(&device);
        drop(device);
        posed.assert_clean();
    }
}

/// After such an error no context works: the device is not opened, and a user is told how it can be.
#[test]
fn a_kernel_that_fails_while_memory_is_measured_loses_the_device() {
    let posed = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    posed.fail_kernel(1, 700);
    let log = logged::during(|| {
        let opened = Device::cuda(0, cache.measuring());
        assert!(matches!(opened, Err(MemError::DeviceLost(_))), "{opened:?}");
    });
    assert!(
        log.iter()
            .any(|line| line.starts_with("ERROR") && line.contains("SPARK_MEMORY_KIND=system")),
        "{log:?}"
    );
    posed.assert_clean();
    posed.forget();
    computes(&Device::cuda(0, cache.measuring()).unwrap());
    posed.assert_clean();
}

#[test]
fn a_driver_that_takes_no_ptx_leaves_the_kind_by_attributes() {
    let posed = driver().pose(Persona::Spark);
    posed.fail_named("cuModuleLoadData", 0, 218);
    let cache = CacheDir::new();
    let device = Device::cuda(0, cache.measuring()).unwrap();
    assert!(is_by_attributes(&device));
    computes(&device);
    assert_eq!(posed.count("nvrtcCompileProgram"), 1, "the program's alone");
    drop(device);
    posed.assert_clean();
}
