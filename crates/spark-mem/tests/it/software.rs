//! The suite on the host and on the emulated card, and what only they do.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use spark_mem::{BufferKind, Device, KernelSource, LaunchShape, MemError, Stream, Write};

use crate::conformance::{self, for_each_case};
use crate::logged;

mod host {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                conformance::$case(&Device::host());
            })+
        };
    }
    for_each_case!(tests);
}

mod emulated {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                conformance::$case(&Device::emulated(1 << 30));
            })+
        };
    }
    for_each_case!(tests);
}

#[test]
fn an_emulated_card_can_be_full() {
    let device = Device::emulated(10_000);
    let _most = device.buffer::<u8>(BufferKind::Device, 9000).unwrap();
    match device.buffer::<u8>(BufferKind::Device, 1001) {
        Err(MemError::OutOfMemory {
            kind: BufferKind::Device,
            asked: 1001,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    drop(device.buffer::<u8>(BufferKind::Device, 1000).unwrap());
}

#[test]
fn a_budget_refuses_with_its_figures() {
    let device = Device::host_with(1000);
    let _first = device.shared::<u8>(600).unwrap();
    match device.shared::<u8>(401) {
        Err(MemError::OverBudget {
            asked: 401,
            available: 400,
            why,
        }) => {
            assert!(why.contains("1000"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_copy_of_a_buffer_is_warned_of_once() {
    let device = Device::emulated(1 << 20);
    let stream = device.new_stream().unwrap();
    let lines = logged::during(|| {
        let mut buffer = device.shared::<f32>(10).unwrap();
        for _ in 0..3 {
            buffer.write(&stream).unwrap().fill(1.0);
            assert_eq!(buffer.read(&stream).unwrap()[9], 1.0);
        }
    });
    let warnings: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("WARN"))
        .collect();
    assert_eq!(warnings.len(), 1, "{lines:?}");
    assert!(warnings[0].contains("performance: 40 bytes"), "{lines:?}");
}

#[test]
fn shared_memory_is_not_warned_of() {
    let lines = logged::during(|| conformance::values_come_back(&Device::host()));
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn emulated_device_memory_is_no_pointer() {
    let device = Device::emulated(1 << 20);
    let buffer = device.buffer::<u8>(BufferKind::Device, 100).unwrap();
    let address = buffer.device_address().unwrap();
    assert_eq!(
        address >> 48,
        0xDEC0,
        "not canonical: using it on the host faults"
    );
}

// --- kernels that take their time -----------------------------------------------------------

/// One block of one thread: host versions look at no shape.
const ONCE: LaunchShape = LaunchShape {
    grid: [1, 1, 1],
    block: [1, 1, 1],
    shared_bytes: 0,
};

/// How far a kernel and its test have come.
struct Progress(Mutex<u32>, Condvar);

impl Progress {
    const fn new() -> Self {
        Self(Mutex::new(0), Condvar::new())
    }

    fn set(&self, to: u32) {
        *self.0.lock().unwrap() = to;
        self.1.notify_all();
    }

    /// Waits for it, and gives whether it came.
    fn comes_to(&self, to: u32, longest: Duration) -> bool {
        let progress = self.0.lock().unwrap();
        let waited = self
            .1
            .wait_timeout_while(progress, longest, |progress| *progress < to);
        !waited.unwrap().1.timed_out()
    }
}

/// 1: `SLOW` runs, 2: somebody used what it writes.
static PROGRESS: Progress = Progress::new();

/// Writes late: when somebody has used the memory, or nobody does for a while.
const SLOW: KernelSource<(Write<f32>,)> =
    KernelSource::new("none.cu", "", "slow").with_host(|_: LaunchShape, (out,)| {
        PROGRESS.set(1);
        PROGRESS.comes_to(2, Duration::from_millis(200));
        out.fill(7.0);
    });

/// A graph borrows no buffer, so that others can use what its kernel is writing.
#[test]
fn work_and_guards_wait_for_a_kernel_that_runs_in_another_thread() {
    type Use = fn(&Device, &Stream, &spark_mem::Buffer<f32>) -> Vec<f32>;
    let uses: [Use; 2] = [
        |_, stream, buffer| buffer.read(stream).unwrap().to_vec(),
        |device, stream, buffer| {
            let mut copy = device.shared::<f32>(buffer.len()).unwrap();
            stream.copy(buffer.view(), copy.view_mut()).unwrap();
            copy.read(stream).unwrap().to_vec()
        },
    ];
    for device in [Device::host(), Device::emulated(1 << 20)] {
        let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let slow = device.kernel(&SLOW).unwrap();
        for use_it in uses {
            PROGRESS.set(0);
            let mut buffer = device.shared::<f32>(100).unwrap();
            let graph = first.capture(|stream| {
                // SAFETY: the kernel writes inside its view.
                unsafe { slow.launch(stream, ONCE, (buffer.view_mut(),)) }
            });
            let graph = graph.unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| graph.launch(&first).unwrap());
                PROGRESS.comes_to(1, Duration::from_secs(10));
                let seen = use_it(&device, &second, &buffer);
                PROGRESS.set(2);
                assert_eq!(seen, [7.0; 100], "{}", device.info().name);
            });
        }
    }
}

/// 1: `HELD` runs, 2: it may end.
static HOLDING: Progress = Progress::new();

const HELD: KernelSource<(Write<f32>,)> =
    KernelSource::new("none.cu", "", "held").with_host(|_: LaunchShape, (out,)| {
        HOLDING.set(1);
        let is_let_go = HOLDING.comes_to(2, Duration::from_secs(10));
        out.fill(if is_let_go { 1.0 } else { 0.0 });
    });

#[test]
fn recordings_do_not_wait_for_kernels_of_other_streams() {
    let device = Device::host();
    let (busy, stream) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let held = device.kernel(&HELD).unwrap();
    let mut buffer = device.shared::<f32>(1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the kernel writes inside its view.
            unsafe { held.launch(&busy, ONCE, (buffer.view_mut(),)) }.unwrap();
        });
        assert!(HOLDING.comes_to(1, Duration::from_secs(10)));
        let graph = stream.capture(|_| Ok(())).unwrap();
        graph.launch(&stream).unwrap();
        HOLDING.set(2);
    });
    assert_eq!(*buffer.read(&busy).unwrap(), [1.0]);
}

/// The stream that `MEDDLING` uses, and what it was told.
static MEDDLED: Mutex<(Option<Stream>, Told)> = Mutex::new((None, Vec::new()));

type Told = Vec<Result<(), MemError>>;

const MEDDLING: KernelSource<(Write<f32>,)> = KernelSource::new("none.cu", "", "meddling")
    .with_host(|_: LaunchShape, _| {
        let mut meddled = MEDDLED.lock().unwrap();
        let stream = meddled.0.take().unwrap();
        let mut buffer = stream.device().shared::<f32>(4).unwrap();
        meddled.1 = vec![
            stream.synchronize(),
            stream.record().map(drop),
            stream.capture(|_| Ok(())).map(drop),
            stream.fill_bytes(buffer.view_mut(), 0),
            buffer.read(&stream).map(drop),
        ];
    });

#[test]
fn the_host_version_of_a_kernel_cannot_use_streams() {
    let device = Device::host();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.shared::<f32>(4).unwrap();
    MEDDLED.lock().unwrap().0 = Some(stream.clone());
    let meddling = device.kernel(&MEDDLING).unwrap();
    // SAFETY: the kernel touches nothing.
    unsafe { meddling.launch(&stream, ONCE, (buffer.view_mut(),)) }.unwrap();
    let meddled = std::mem::take(&mut MEDDLED.lock().unwrap().1);
    assert_eq!(meddled.len(), 5);
    for told in meddled {
        assert!(matches!(told, Err(MemError::InsideKernel)), "{told:?}");
    }
    stream.fill_bytes(buffer.view_mut(), 1).unwrap();
}

const PANICKING: KernelSource<(Write<f32>,)> = KernelSource::new("none.cu", "", "panicking")
    .with_host(|_: LaunchShape, _| std::panic::resume_unwind(Box::new("on purpose")));

#[test]
fn a_host_version_that_panics_leaves_stream_and_buffer_usable() {
    let device = Device::host();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.shared::<f32>(4).unwrap();
    let panicking = device.kernel(&PANICKING).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the kernel touches nothing.
        unsafe { panicking.launch(&stream, ONCE, (buffer.view_mut(),)) }
    }));
    assert!(panicked.is_err());
    stream.capture(|_| Ok(())).unwrap();
    buffer.write(&stream).unwrap().fill(3.0);
    assert_eq!(*buffer.read(&stream).unwrap(), [3.0; 4]);
}

/// Sources of one text and entry that differ in an option, a host version, a parameter.
const TEXT: &str = "extern \"C\" __global__ void same(float* out, unsigned n) { }";
const fn same(options: &'static [&'static str]) -> KernelSource<(Write<f32>, u32)> {
    KernelSource::new("same.cu", TEXT, "same").with_options(options)
}
const ONE: KernelSource<(Write<f32>, u32)> =
    same(&["-DTILE=1"]).with_host(|_: LaunchShape, (out, _)| out[0] = 1.0);
const TWO: KernelSource<(Write<f32>, u32)> =
    same(&["-DTILE=2"]).with_host(|_: LaunchShape, (out, _)| out[0] = 2.0);
const THREE: KernelSource<(Write<f32>, u32)> =
    same(&["-DTILE=1"]).with_host(|_: LaunchShape, (out, _)| out[0] = 3.0);
const OF_WHOLE_NUMBERS: KernelSource<(Write<u32>, u32)> =
    KernelSource::new("same.cu", TEXT, "same")
        .with_options(&["-DTILE=1"])
        .with_host(|_: LaunchShape, (out, _)| out[0] = 4);

#[test]
fn kernels_of_one_text_and_entry_are_kept_apart() {
    for device in [Device::host(), Device::emulated(1 << 20)] {
        let stream = device.new_stream().unwrap();
        for (source, wanted) in [(&ONE, 1.0), (&TWO, 2.0), (&THREE, 3.0), (&ONE, 1.0)] {
            let kernel = device.kernel(source).unwrap();
            let mut out = device.shared::<f32>(1).unwrap();
            // SAFETY: the host versions write the one element of `out`.
            unsafe { kernel.launch(&stream, ONCE, (out.view_mut(), 1)) }.unwrap();
            assert_eq!(out.read(&stream).unwrap()[0], wanted);
        }
        let kernel = device.kernel(&OF_WHOLE_NUMBERS).unwrap();
        let mut out = device.shared::<u32>(1).unwrap();
        // SAFETY: as above.
        unsafe { kernel.launch(&stream, ONCE, (out.view_mut(), 1)) }.unwrap();
        assert_eq!(out.read(&stream).unwrap()[0], 4);
    }
}
