//! What goes when, and what stays: the last work of a device, marks that are kept, rooms of the ring,
//! values in a forked child, threads that launch one graph, streams that a buffer remembers.

use std::sync::mpsc;
use std::time::Duration;

use spark_mem::{Buffer, BufferKind, Device, Pool, Stream};
use spark_testing::driver::Persona;

use crate::children::{check_child_of, is_child};
use crate::logged;
use crate::stand_in::{check, device, driver, options};

const N: usize = 64;
/// How long a thread may take for what it must not do.
const A_WHILE: Duration = Duration::from_millis(200);

/// Memory of a card goes in the order of streams, so that nobody has waited for its last work when the
/// device goes: the device does, and says what became of it.
#[test]
fn the_last_work_is_waited_for_before_the_device_goes() {
    let posed = driver().pose(Persona::Card);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.buffer::<u8>(BufferKind::Device, N).unwrap();
    stream.fill_bytes(buffer.view_mut(), 7).unwrap();
    drop((buffer, stream));
    let before = posed.n_calls();
    drop(device);
    let calls = posed.calls().split_off(before);
    let at = |name: &str| calls.iter().position(|call| call.starts_with(name));
    let (waited, gone) = (at("cuCtxSynchronize"), at("cuDevicePrimaryCtxRelease"));
    assert!(waited.is_some() && waited < gone, "{calls:?}");
    posed.assert_clean();

    let device = Device::cuda(0, options()).unwrap();
    posed.fail_named("cuCtxSynchronize", 0, 700);
    let log = logged::during(|| drop(device));
    let told = |line: &String| line.contains("ERROR") && line.contains("the last work on");
    assert!(log.iter().any(told), "{log:?}");
}

/// Of a program that held many marks at once a few hundred are kept for the next ones.
#[test]
fn idle_marks_are_kept_up_to_a_bound() {
    const N_MARKS: usize = 1000;
    const MOST: usize = 256;
    check(Persona::Spark, |posed, device| {
        let stream = device.new_stream().unwrap();
        let before = posed.live().events;
        let marks: Vec<_> = (0..N_MARKS).map(|_| stream.record().unwrap()).collect();
        assert_eq!(posed.live().events, before + N_MARKS);
        drop(marks);
        assert!(posed.live().events <= before + MOST);
        let timed: Vec<_> = (0..N_MARKS)
            .map(|_| stream.record_timed().unwrap())
            .collect();
        drop(timed);
        let kept = posed.live().events;
        assert!(kept <= before + 2 * MOST, "{kept} are kept");
        assert!(kept > before, "they are used again");
        let again: Vec<_> = (0..100).map(|_| stream.record().unwrap()).collect();
        assert_eq!(posed.live().events, kept, "no new ones");
        drop(again);
    });
}

/// A copy from or to it may still be running, as far as anybody knows, when the device goes.
#[test]
fn room_of_the_ring_that_could_not_be_waited_for_is_not_given_back() {
    let posed = driver().pose(Persona::Card);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.buffer::<u8>(BufferKind::Device, N).unwrap();
    let before = posed.n_calls();
    buffer.upload(&stream, &[1; N]).unwrap();
    let calls = posed.calls().split_off(before);
    let mark = calls
        .iter()
        .position(|call| call.starts_with("cuEventRecord"));
    stream.synchronize().unwrap();
    posed.fail_every("cuStreamSynchronize", 999);
    // The ring has its slot by now: the calls before the mark are one fewer.
    let n_slots = calls
        .iter()
        .filter(|call| call.starts_with("cuMemHostAlloc"));
    let mark = mark.expect("a mark behind the copy") - n_slots.count();
    posed.fail_call(mark, 999);
    assert!(buffer.upload(&stream, &[2; N]).is_err());
    posed.fail_named("", 0, 0);
    drop((buffer, stream, device));
    assert_eq!(posed.count("cuMemHostAlloc"), 1, "one slot");
    assert_eq!(posed.count("cuMemFreeHost"), 0, "which stays");
    assert_eq!(posed.violations(), Vec::<String>::new());
}

#[test]
fn values_that_a_forked_child_drops_call_nothing() {
    check_child_of("lifetimes::child_drops_after_a_fork", &[]);
}

#[test]
fn child_drops_after_a_fork() {
    if !is_child() {
        return;
    }
    let posed = driver().pose(Persona::Card);
    let device = device();
    let stream = device.new_stream().unwrap();
    // More marks than are kept: the next one that is dropped is the driver's again.
    let marks: Vec<_> = (0..300).map(|_| stream.record().unwrap()).collect();
    let mark = stream.record().unwrap();
    drop(marks);
    let graph = stream.capture(|_| Ok(())).unwrap();
    let pool = Pool::new(&device, BufferKind::Device).unwrap();
    drop(pool.take::<u8>(N).unwrap());
    assert_eq!(pool.stats().kept_blocks, 1);
    // Each is dropped on its own, so that the status says which of them called the driver.
    let values: [Box<dyn FnOnce()>; 3] = [
        Box::new(move || drop(mark)),
        Box::new(move || drop(graph)),
        Box::new(move || drop(pool)),
    ];
    let before = posed.n_calls();
    // SAFETY: the child calls nothing that another thread may have locked: it drops values, which
    // look at its process number and ask nothing of the driver, counts calls, and ends.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let mut status = 0;
        for (idx, drop_it) in values.into_iter().enumerate() {
            let before = posed.n_calls();
            drop_it();
            status |= i32::from(posed.n_calls() != before) << idx;
        }
        // SAFETY: ends the child without running what the parent registered.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the process was just started; `status` is writable.
    unsafe { libc::waitpid(forked, &raw mut status, 0) };
    assert_eq!(
        (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
        (true, 0),
        "a bit for each value that called the driver: mark, graph, pool"
    );
    assert_eq!(posed.n_calls(), before);
    values.into_iter().for_each(|drop_it| drop_it());
    assert!(posed.n_calls() > before, "here they are given back");
    drop((stream, device));
    posed.assert_clean();
}

/// The driver's graphs are not for several threads at once, whatever they work on.
#[test]
fn two_threads_launch_one_graph_one_after_the_other() {
    check(Persona::Spark, |posed, device| {
        let streams = [0, 1].map(|_| device.new_stream().unwrap());
        let graph = streams[0].capture(|_| Ok(())).unwrap();
        let (done, is_done) = mpsc::channel();
        posed.hold("cuGraphLaunch");
        std::thread::scope(|scope| {
            let [first, second] = &streams;
            let graph = &graph;
            scope.spawn(move || graph.launch(first).unwrap());
            posed.await_held();
            scope.spawn(move || {
                graph.launch(second).unwrap();
                done.send(()).unwrap();
            });
            let meanwhile = is_done.recv_timeout(A_WHILE);
            posed.let_go();
            assert!(meanwhile.is_err(), "launched twice at the same time");
            is_done.recv().unwrap();
        });
        streams
            .iter()
            .for_each(|stream| stream.synchronize().unwrap());
    });
}

/// Weights that many streams read at the same time: which of these are idle is asked when their number
/// has doubled, not at every use.
#[test]
fn many_busy_streams_of_one_buffer_are_asked_seldom() {
    const N_STREAMS: usize = 64;
    check(Persona::Card, |posed, device| {
        let first = device.new_stream().unwrap();
        let mut weights = device.buffer::<u8>(BufferKind::Device, N).unwrap();
        first.fill_bytes(weights.view_mut(), 7).unwrap();
        first.synchronize().unwrap();
        let before = posed.count("cuStreamQuery");
        let mut users: Vec<(Stream, Buffer<u8>)> = Vec::new();
        for _ in 0..N_STREAMS {
            users.push((
                device.new_stream().unwrap(),
                device.buffer(BufferKind::Device, N).unwrap(),
            ));
            for (stream, out) in &mut users {
                // Behind the copy, so that a stream whose copy is over is busy all the same.
                stream.copy(weights.view(), out.view_mut()).unwrap();
                stream.fill_bytes(out.view_mut(), 9).unwrap();
            }
        }
        let n_asked = posed.count("cuStreamQuery") - before;
        assert!(n_asked > 0, "they are asked");
        assert!(n_asked <= 3 * N_STREAMS, "{n_asked} times");
        for (stream, mut out) in users {
            stream.copy(weights.view(), out.view_mut()).unwrap();
            assert_eq!(*out.read(&stream).unwrap(), [7; N]);
        }
    });
}
