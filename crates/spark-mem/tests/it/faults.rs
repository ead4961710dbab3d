//! Every call of a program fails once, every allocation finds no memory once, every kernel
//! fails once: always an error, never a leak, never a crash.

use spark_mem::{Device, LaunchOptions, LaunchShape, MemError, Pool};
use spark_testing::driver::{Persona, Posed};

use crate::kernels::{ACCUMULATE, SCALE, WEIGHTED};
use crate::stand_in::{driver, options};

const N: usize = 300;

/// What a program does: all kinds of memory, copies, kernels on two streams, events, a pool,
/// graphs, one of two streams, a constant. Everything is dropped at the end, and asked once more whether all went well.
fn program(device: &Device) -> Result<Vec<f32>, MemError> {
    let (first, second) = (device.new_stream()?, device.new_stream()?);
    let result = work(device, &first, &second);
    // Errors of what was dropped come with the last wait.
    let second_done = second.synchronize();
    let first_done = first.synchronize();
    let result = result?;
    first_done.and(second_done).map(|()| result)
}

fn work(
    device: &Device,
    first: &spark_mem::Stream,
    second: &spark_mem::Stream,
) -> Result<Vec<f32>, MemError> {
    let (scale, accumulate) = (device.kernel(&SCALE)?, device.kernel(&ACCUMULATE)?);
    let shape = LaunchShape::for_elements(N, 64)?;
    let n = N as u32;
    let ramp: Vec<f32> = (0..N).map(|idx| idx as f32).collect();
    let mut input = device.shared::<f32>(N)?;
    input.upload(first, &ramp)?;
    let mut staged = device.buffer::<f32>(device.staging_kind(), N)?;
    staged.write(first)?.copy_from_slice(&ramp);
    let mut private = device.buffer::<f32>(device.private_kind(), N)?;
    first.copy(staged.view(), private.view_mut())?;
    let pool = Pool::new(device, device.private_kind())?;
    let mut scratch = pool.take::<f32>(N)?;
    // SAFETY: all buffers have the `N` elements that the kernels touch.
    unsafe { scale.launch(second, shape, (scratch.view_mut(), private.view(), 2.0, n)) }?;
    let mut one = device.buffer::<f32>(device.private_kind(), N)?;
    let mut two = device.buffer::<f32>(device.private_kind(), N)?;
    let weighted = device.kernel(&WEIGHTED)?;
    // SAFETY: four floats, which nothing relies on.
    unsafe { weighted.write_constant(second, "weights", &[1.0_f32; 4]) }?;
    let mark = second.record()?;
    first.wait(&mark)?;
    let graph = first.capture(|stream| {
        // SAFETY: as above.
        unsafe { accumulate.launch(stream, shape, (input.view_mut(), scratch.view(), n)) }
    })?;
    graph.launch(first)?;
    graph.launch(second)?;
    // Two streams record one graph; the second is not joined again by the program.
    let forked = first.capture(|first| {
        second.wait(&first.record()?)?;
        let early = LaunchOptions::new().with_programmatic_dependency(true);
        let arguments = (one.view_mut(), private.view(), 1.0, n);
        // SAFETY: as above, and no kernel in front uses this memory.
        unsafe { scale.launch_with(first, shape, early, arguments) }?;
        // SAFETY: as above.
        unsafe { accumulate.launch(second, shape, (two.view_mut(), private.view(), n)) }
    })?;
    forked.launch(second)?;
    mark.synchronize()?;
    drop(scratch);
    drop(pool.take::<f32>(N)?);
    let sum = input.read(first)?.to_vec();
    first.fill_bytes(private.view_mut(), 0)?;
    let start = first.record_timed()?;
    let ones = one.into_vec(first)?;
    let end = first.record_timed()?;
    assert_eq!((ones.len(), two.into_vec(second)?), (N, ones));
    end.synchronize()?;
    end.since(&start)?;
    Ok(sum)
}

fn wanted() -> Vec<f32> {
    (0..N).map(|idx| 5.0 * idx as f32).collect()
}

/// Calls whose failure loses nothing: the code has been taken out of the program before; another
/// compiler is taken; the compiler says itself what it does not know.
const HARMLESS: [&str; 4] = [
    "nvrtcDestroyProgram",
    "nvrtcVersion",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
];

/// The answer that there is no such parameter, which is what the last one of a kernel must say.
fn is_an_answer(call: &str, code: i32) -> bool {
    call.starts_with("cuFuncGetParamInfo") && code == 1
}

/// Runs the program on a device that is opened and closed, with a fault set in between.
fn run(posed: &Posed<'_>, set: impl FnOnce()) -> (Result<Vec<f32>, MemError>, Vec<String>) {
    posed.forget();
    let device = Device::cuda(0, options()).expect("opening is tested apart");
    set();
    let before = posed.n_calls();
    let result = program(&device);
    let calls = posed.calls().split_off(before);
    drop(device);
    (result, calls)
}

#[track_caller]
fn check_error(result: &Result<Vec<f32>, MemError>, posed: &Posed<'_>, what: &str) {
    assert!(result.is_err(), "{what}: no error");
    posed.assert_clean();
}

#[test]
fn every_call_fails_once() {
    // An Ampere takes the way of the other card.
    for persona in [Persona::Spark, Persona::Card, Persona::Jetson] {
        let posed = driver().pose(persona);
        let (result, calls) = run(&posed, || {});
        assert_eq!(result.unwrap(), wanted());
        posed.assert_clean();
        let n_calls = calls.len();
        // The last two calls destroy streams when there is nobody left to tell.
        let n_told = n_calls - 4;
        assert!(n_told > 100, "{persona:?}: {n_told} calls");
        for code in [1, 999, 719] {
            for (nth, call) in calls.iter().take(n_told).enumerate() {
                let (result, _) = run(&posed, || posed.fail_call(nth, code));
                if HARMLESS.contains(&call.as_str()) {
                    assert_eq!(result.unwrap(), wanted(), "{call}");
                    posed.assert_clean();
                } else if is_an_answer(call, code) {
                    posed.assert_clean();
                } else {
                    let what = format!("{persona:?}, call {nth} ({call}), code {code}");
                    check_error(&result, &posed, &what);
                }
            }
            for nth in n_told..n_calls {
                let _ = run(&posed, || posed.fail_call(nth, code));
                posed.assert_clean();
            }
        }
    }
}

#[test]
fn every_allocation_finds_no_memory_once() {
    for persona in Persona::ALL {
        let posed = driver().pose(persona);
        let mut n_failed = 0;
        loop {
            let (result, _) = run(&posed, || posed.fail_allocation(n_failed));
            match result {
                Ok(sum) => {
                    assert_eq!(sum, wanted());
                    break;
                }
                Err(MemError::OutOfMemory { asked, .. }) => {
                    assert!(asked > 0);
                    posed.assert_clean();
                    n_failed += 1;
                }
                Err(other) => panic!("{persona:?}, allocation {n_failed}: {other}"),
            }
        }
        assert!(n_failed >= 3, "{persona:?}: {n_failed} allocations");
    }
}

#[test]
fn every_kernel_fails_once() {
    for persona in Persona::ALL {
        let posed = driver().pose(persona);
        for nth in 0..5 {
            let (result, _) = run(&posed, || posed.fail_kernel(nth, 700));
            assert!(
                matches!(result, Err(MemError::DeviceLost(_))),
                "{nth}: {result:?}"
            );
            posed.assert_clean();
        }
        let (result, _) = run(&posed, || posed.fail_kernel(5, 700));
        assert_eq!(result.unwrap(), wanted(), "five kernels run");
    }
}

#[test]
fn every_call_of_opening_fails_once() {
    for persona in Persona::ALL {
        let posed = driver().pose(persona);
        let whole = Device::cuda(0, options()).unwrap();
        let (info, n_calls) = (whole.info().clone(), posed.n_calls());
        drop(whole);
        for nth in 0..n_calls {
            posed.forget();
            posed.fail_call(nth, 999);
            match Device::cuda(0, options()) {
                // Some answers are not needed; the others are never guessed.
                Ok(device) => assert_eq!(*device.info(), info, "call {nth}"),
                Err(MemError::NoCuda(_) | MemError::Driver(_)) => {}
                Err(other) => panic!("call {nth}: {other}"),
            }
            posed.assert_clean();
        }
    }
}

/// The stand-in's `CUDA_ERROR_UNKNOWN`, and `CUDA_ERROR_DEVICE_UNAVAILABLE`: nothing is said of the work.
const SAYS_NOTHING: [i32; 2] = [999, 46];

/// A card's pinned memory with a fill queued on it that has not run, since nobody waits.
fn with_work_on_it(device: &Device, stream: &spark_mem::Stream) -> spark_mem::Buffer<u8> {
    let mut buffer = device.buffer(spark_mem::BufferKind::Pinned, N).unwrap();
    stream.fill_bytes(buffer.view_mut(), 7).unwrap();
    buffer
}

#[test]
fn memory_goes_after_a_second_wait_if_the_first_is_refused() {
    for code in SAYS_NOTHING {
        let posed = driver().pose(Persona::Card);
        let device = Device::cuda(0, options()).unwrap();
        let stream = device.new_stream().unwrap();
        let buffer = with_work_on_it(&device, &stream);
        posed.fail_named("cuStreamSynchronize", 0, code);
        drop(buffer);
        assert_eq!(
            (posed.live().allocations, device.budget().used_bytes()),
            (0, 0)
        );
        let told = stream.synchronize().unwrap_err();
        assert!(
            matches!(told, MemError::Driver(ref error) if error.code == code),
            "{told}"
        );
        stream.synchronize().unwrap();
        drop((stream, device));
        posed.assert_clean();
    }
}

/// Memory given back under work is somebody else's when the work runs.
#[test]
fn memory_whose_work_cannot_be_waited_for_stays() {
    for code in SAYS_NOTHING {
        let posed = driver().pose(Persona::Card);
        let device = Device::cuda(0, options()).unwrap();
        let stream = device.new_stream().unwrap();
        let buffer = with_work_on_it(&device, &stream);
        posed.fail_every("cuStreamSynchronize", code);
        drop(buffer);
        posed.fail_named("", 0, 0);
        assert_eq!(posed.live().allocations, 1);
        assert_eq!(
            device.budget().used_bytes(),
            N as u64,
            "it is not there for others"
        );
        assert!(stream.synchronize().is_err(), "the program is told");
        stream.synchronize().unwrap();
        assert_eq!(posed.violations(), Vec::<String>::new());
    }
}

/// Without a mark behind it a copy out of the staging ring must be over before its room is used
/// again; if that cannot be waited for, the room is not used again.
#[test]
fn staged_copies_that_can_be_neither_marked_nor_waited_for_keep_their_room() {
    let posed = driver().pose(Persona::Card);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let mut one = device.buffer::<u8>(device.private_kind(), N).unwrap();
    let mut two = device.buffer::<u8>(device.private_kind(), N).unwrap();
    let before = posed.n_calls();
    one.upload(&stream, &[1; N]).unwrap();
    let calls = posed.calls().split_off(before);
    let mark = calls
        .iter()
        .position(|call| call.starts_with("cuEventRecord"));
    stream.synchronize().unwrap();
    posed.fail_every("cuStreamSynchronize", 999);
    posed.fail_call(mark.expect("a mark behind the copy"), 999);
    assert!(one.upload(&stream, &[2; N]).is_err());
    posed.fail_named("", 0, 0);
    // More than there are marks: the ring is gone through.
    for _ in 0..300 {
        two.upload(&stream, &[3; N]).unwrap();
    }
    assert_eq!(*one.read(&stream).unwrap(), [2; N]);
    assert_eq!(*two.read(&stream).unwrap(), [3; N]);
    drop((one, two, stream));
    drop(device);
    assert_eq!(posed.violations(), Vec::<String>::new());
}
