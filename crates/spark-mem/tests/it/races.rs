//! Interleavings of threads that share streams and memory, forced on the stand-in driver: one
//! thread is held where it enters a driver's function, another goes on, the first is let go.
//!
//! ```text
//! held      check, wait for others ──> | driver's function ──> note
//! meanwhile                            a recording begins; a graph is launched
//! ```

use std::sync::mpsc;
use std::time::Duration;

use spark_mem::{Buffer, BufferKind, Device, Graph, MemError, Stream};
use spark_testing::driver::{Persona, Posed};

use crate::stand_in::check;

const N: usize = 64;
/// How long a thread may take for what it must not do.
const A_WHILE: Duration = Duration::from_millis(200);

fn filled(device: &Device, stream: &Stream, value: u8) -> Buffer<u8> {
    filled_of(device, BufferKind::Device, stream, value)
}

fn filled_of(device: &Device, kind: BufferKind, stream: &Stream, value: u8) -> Buffer<u8> {
    let mut buffer = device.buffer(kind, N).unwrap();
    stream.fill_bytes(buffer.view_mut(), value).unwrap();
    stream.synchronize().unwrap();
    buffer
}

/// Holds `work` in a function of the driver and records a graph of nothing meanwhile. If the
/// recording begins in spite of the work, the work is done within it.
fn record_while_held(
    posed: &Posed<'_>,
    stream: &Stream,
    function: &str,
    work: impl FnOnce() + Send,
) -> Graph {
    let (begun, has_begun) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    posed.hold(function);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            work();
            let _ = done.send(());
        });
        posed.await_held();
        let recorder = scope.spawn(move || {
            stream.capture(|_| {
                let _ = begun.send(());
                let _ = is_done.recv();
                Ok(())
            })
        });
        let _ = has_begun.recv_timeout(A_WHILE);
        posed.let_go();
        recorder.join().unwrap().unwrap()
    })
}

#[test]
fn a_copy_that_is_being_queued_is_in_no_recording() {
    for persona in [Persona::Spark, Persona::Card] {
        check(persona, |posed, device| {
            let stream = device.new_stream().unwrap();
            let x = filled(device, &stream, 7);
            let mut y = filled(device, &stream, 1);
            let graph = record_while_held(posed, &stream, "cuMemcpyAsync", || {
                stream.copy(x.view(), y.view_mut()).unwrap();
                drop(x);
            });
            assert_eq!(*y.read(&stream).unwrap(), [7; N], "{persona:?}");
            graph.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(posed.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn memory_that_is_waited_for_is_given_back_before_a_recording() {
    check(Persona::Card, |posed, device| {
        let stream = device.new_stream().unwrap();
        // Pinned memory is waited for on the host.
        let mut x = filled_of(device, BufferKind::Pinned, &stream, 7);
        stream.fill_bytes(x.view_mut(), 1).unwrap();
        record_while_held(posed, &stream, "cuStreamSynchronize", || drop(x));
        stream
            .synchronize()
            .expect("the wait did not meet the recording");
    });
}

#[test]
fn a_graph_comes_after_a_copy_that_is_being_queued() {
    check(Persona::Card, |posed, device| {
        let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let mut x = filled(device, &first, 1);
        let mut y = filled(device, &first, 0);
        let graph = second
            .capture(|stream| stream.fill_bytes(x.view_mut(), 7))
            .unwrap();
        let (launched, is_launched) = mpsc::channel();
        posed.hold("cuMemcpyAsync");
        std::thread::scope(|scope| {
            scope.spawn(|| first.copy(x.view(), y.view_mut()).unwrap());
            posed.await_held();
            let (graph, second) = (&graph, &second);
            scope.spawn(move || {
                graph.launch(second).unwrap();
                let _ = launched.send(());
            });
            let _ = is_launched.recv_timeout(A_WHILE);
            posed.let_go();
        });
        second.synchronize().unwrap();
        assert_eq!(*y.read(&first).unwrap(), [1; N], "the copy was first");
        assert_eq!(*x.read(&first).unwrap(), [7; N]);
    });
}

/// Does something on another thread that is held in a function of the driver, and something else
/// meanwhile.
fn while_held<R>(
    posed: &Posed<'_>,
    function: &str,
    held: impl FnOnce() + Send,
    meanwhile: impl FnOnce() -> R,
) -> R {
    posed.hold(function);
    std::thread::scope(|scope| {
        scope.spawn(held);
        posed.await_held();
        let result = meanwhile();
        posed.let_go();
        result
    })
}

/// On memory of a card alone a guard copies when it opens and when it closes; what another thread
/// writes between a copy and what the host sees would be lost, or seen by nobody.
#[test]
fn no_work_of_another_thread_comes_between_a_guard_and_its_copies() {
    const DOWN: &str = "cuMemcpyDtoHAsync_v2";
    const UP: &str = "cuMemcpyHtoDAsync_v2";
    check(Persona::Card, |posed, device| {
        let (stream, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let mut x = filled(device, &stream, 1);
        let writes = stream.capture(|stream| stream.fill_bytes(x.view_mut(), 9));
        let writes = writes.unwrap();
        let launch = || writes.launch(&other);

        let opens_to_write = || x.write(&stream).unwrap()[0] = 2;
        let at_open = while_held(posed, DOWN, opens_to_write, launch);
        assert!(matches!(at_open, Err(MemError::InUseByHost)), "{at_open:?}");
        assert_eq!(x.read(&stream).unwrap()[..2], [2, 1]);

        let mut guard = x.write(&stream).unwrap();
        guard[1] = 3;
        let closes = || guard.finish().unwrap();
        let at_close = while_held(posed, UP, closes, launch);
        assert!(
            matches!(at_close, Err(MemError::InUseByHost)),
            "{at_close:?}"
        );
        assert_eq!(x.read(&stream).unwrap()[..3], [2, 3, 1]);

        let reads = || assert_eq!(x.read(&stream).unwrap()[..3], [2, 3, 1]);
        let at_read = while_held(posed, DOWN, reads, launch);
        assert!(matches!(at_read, Err(MemError::InUseByHost)), "{at_read:?}");

        launch().unwrap();
        assert_eq!(*x.read(&stream).unwrap(), [9; N]);
        assert_eq!(posed.violations(), Vec::<String>::new());
    });
}
