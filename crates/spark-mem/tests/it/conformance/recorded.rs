//! Graphs that several streams record.

use spark_mem::{Device, LaunchShape, MemError, Stream, View, ViewMut};

use super::{N, filled, ramp, values};
use crate::kernels::{ACCUMULATE, SCALE};

/// `out = factor * input` over `N` elements, queued.
fn scale(stream: &Stream, out: ViewMut<'_, f32>, input: View<'_, f32>, factor: f32) {
    let kernel = stream.device().kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(N, 128).unwrap();
    // SAFETY: both views have the `N` elements that the kernel touches.
    unsafe { kernel.launch(stream, shape, (out, input, factor, N as u32)) }.unwrap();
}

/// `out += input`, queued.
fn add(stream: &Stream, out: ViewMut<'_, f32>, input: View<'_, f32>) {
    let kernel = stream.device().kernel(&ACCUMULATE).unwrap();
    let shape = LaunchShape::for_elements(N, 128).unwrap();
    // SAFETY: as above.
    unsafe { kernel.launch(stream, shape, (out, input, N as u32)) }.unwrap();
}

/// `arena = [x, a, b, sum]` with `a = 2 x`, `b = 3 x` side by side, `sum = a + b`; how often.
pub(crate) fn fork_and_join(device: &Device, n_launches: usize) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let mut arena = filled(device, &first, device.private_kind(), &ramp(4 * N));
    let graph = first.capture(|first| {
        let parts = arena.parts();
        let x = parts.read(0..N)?;
        let forked = first.record()?;
        second.wait(&forked)?;
        let a = parts.write(N..2 * N)?;
        scale(first, a, x, 2.0);
        let b = parts.write(2 * N..3 * N)?;
        scale(&second, b, x, 3.0);
        first.wait(&second.record()?)?;
        drop(parts);
        let parts = arena.parts();
        scale(
            first,
            parts.write(3 * N..4 * N)?,
            parts.read(N..2 * N)?,
            1.0,
        );
        drop(parts);
        let parts = arena.parts();
        add(first, parts.write(3 * N..4 * N)?, parts.read(2 * N..3 * N)?);
        Ok(())
    });
    let graph = graph.unwrap();
    // Both streams are free again, and the arena is as it was.
    second.synchronize().unwrap();
    assert_eq!(values(&arena, &second), ramp(4 * N));
    for round in 0..n_launches {
        let mut seed = ramp(4 * N);
        seed[0] = round as f32;
        arena.upload(&second, &seed).unwrap();
        graph.launch(&first).unwrap();
        let got = values(&arena, &second);
        for (idx, x) in seed[..N].iter().enumerate() {
            assert_eq!(got[N + idx], 2.0 * x);
            assert_eq!(got[2 * N + idx], 3.0 * x);
            assert_eq!(got[3 * N + idx], 2.0 * x + 3.0 * x, "element {idx}");
        }
    }
}

pub(crate) fn graphs_fork_and_join(device: &Device) {
    fork_and_join(device, 4);
}

/// No event but the one by which the second stream joins: it reads what the first one writes
/// later, writes what that one reads, and is not joined again by the program.
pub(crate) fn streams_of_a_recording_are_put_in_order_and_joined(device: &Device) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let kind = device.private_kind();
    let mut x = filled(device, &first, kind, &ramp(N));
    let mut y = device.buffer::<f32>(kind, N).unwrap();
    let mut z = device.buffer::<f32>(kind, N).unwrap();
    let graph = first.capture(|first| {
        second.wait(&first.record()?)?;
        scale(first, y.view_mut(), x.view(), 2.0);
        scale(&second, z.view_mut(), y.view(), 10.0); // after the write of y
        scale(first, y.view_mut(), x.view(), 5.0); // after the read of y
        second.copy(y.view(), x.view_mut()) // after that; joined by nobody
    });
    let graph = graph.unwrap();
    for _ in 0..4 {
        x.upload(&first, &ramp(N)).unwrap();
        graph.launch(&second).unwrap();
        let scaled = |factor: f32| -> Vec<f32> { ramp(N).iter().map(|v| v * factor).collect() };
        assert_eq!(values(&z, &first), scaled(20.0));
        assert_eq!(values(&y, &first), scaled(5.0));
        assert_eq!(values(&x, &first), scaled(5.0));
    }
}

pub(crate) fn recordings_are_joined_by_their_own_thread_alone(device: &Device) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let mut buffer = filled(device, &first, device.shared_kind(), &ramp(N));
    let mut event = None;
    let graph = first.capture(|first| {
        let mark = first.record()?;
        let other_thread = |work: &(dyn Fn() -> Result<(), MemError> + Sync)| {
            std::thread::scope(|scope| scope.spawn(work).join().unwrap())
        };
        let refused = [
            other_thread(&|| second.wait(&mark)),
            second.capture(|second| second.wait(&mark)).map(drop),
        ];
        for result in refused {
            assert!(
                matches!(result, Err(MemError::Capturing { .. })),
                "{result:?}"
            );
        }
        for result in [mark.synchronize(), mark.is_done().map(drop)] {
            assert!(
                matches!(result, Err(MemError::EventOfRecording { .. })),
                "{result:?}"
            );
        }
        second.wait(&mark)?;
        second.wait(&mark)?; // again is nothing new
        let refused = [
            second.synchronize(),
            second.capture(|_| Ok(())).map(drop),
            buffer.read(&second).map(drop),
            other_thread(&|| second.record().map(drop)),
        ];
        for result in refused {
            assert!(
                matches!(result, Err(MemError::Capturing { .. })),
                "{result:?}"
            );
        }
        // A stream that joined may be dropped: the recording keeps it.
        let third = device.new_stream()?;
        third.wait(&second.record()?)?;
        third.fill_bytes(buffer.view_mut(), 0)?;
        event = Some(mark);
        Ok(())
    });
    let graph = graph.unwrap();
    let over = second.wait(&event.unwrap());
    assert!(
        matches!(over, Err(MemError::EventOfRecording { .. })),
        "{over:?}"
    );
    assert_eq!(values(&buffer, &second), ramp(N), "nothing ran");
    graph.launch(&second).unwrap();
    assert_eq!(values(&buffer, &second), [0.0; N]);
    // A recording that fails frees all that joined.
    let failed = first.capture(|first| {
        second.wait(&first.record()?)?;
        second.synchronize()
    });
    assert!(
        matches!(failed, Err(MemError::Capturing { .. })),
        "{failed:?}"
    );
    second.synchronize().unwrap();
    first.capture(|_| Ok(())).unwrap();
}
