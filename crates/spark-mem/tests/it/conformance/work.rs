//! Kernels, streams, events, guards and graphs.

use spark_mem::{Buffer, Device, Graph, LaunchShape, MemError, Side, Stream};

use super::{N, filled, kinds, ramp, scale, values};
use half::bf16;

use crate::kernels::{ACCUMULATE, COUNT_ABOVE, MATMUL, SCALE, SOFTMAX};

pub(crate) fn kernels_compute(device: &Device) {
    let stream = device.new_stream().unwrap();
    let wanted: Vec<f32> = ramp(N).iter().map(|value| value * -3.0).collect();
    for kind in kinds(device) {
        let input = filled(device, &stream, kind, &ramp(N));
        let mut out = device.buffer(kind, N).unwrap();
        let kernel = device.kernel(&SCALE).unwrap();
        assert_eq!(kernel.entry(), "scale_f32");
        let shape = LaunchShape::for_elements(N, 128).unwrap();
        // SAFETY: the kernel touches `N` elements of both, which have as many.
        let launched = unsafe {
            kernel.launch(
                &stream,
                shape,
                (out.view_mut(), input.view(), -3.0, N as u32),
            )
        };
        if input.device_address().is_none() {
            assert!(
                matches!(launched, Err(MemError::NotOnDevice { .. })),
                "{launched:?}"
            );
            continue;
        }
        launched.unwrap();
        assert_eq!(values(&out, &stream), wanted, "{kind:?}");
    }
}

pub(crate) fn kernels_see_ranges(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.shared_kind();
    let input = filled(device, &stream, kind, &ramp(N));
    let mut out = filled(device, &stream, kind, &vec![1.0; N]);
    let kernel = device.kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(10, 32).unwrap();
    let views = (
        out.range_mut(100..110).unwrap(),
        input.range(7..17).unwrap(),
        2.0,
        10,
    );
    // SAFETY: the kernel touches ten elements of both views, which have as many.
    unsafe { kernel.launch(&stream, shape, views) }.unwrap();
    let got = values(&out, &stream);
    assert_eq!(got[99], 1.0);
    assert_eq!(got[110], 1.0);
    for (idx, value) in got[100..110].iter().enumerate() {
        assert_eq!(*value, 2.0 * ramp(N)[7 + idx]);
    }
}

pub(crate) fn atomics_count_across_blocks(device: &Device) {
    let stream = device.new_stream().unwrap();
    let input = filled(device, &stream, device.shared_kind(), &ramp(N));
    let mut counts = device.shared::<u32>(N.div_ceil(64)).unwrap();
    let kernel = device.kernel(&COUNT_ABOVE).unwrap();
    let shape = LaunchShape::for_elements(N, 96).unwrap();
    let arguments = (counts.view_mut(), input.view(), 11.0, N as u32);
    // SAFETY: the kernel reads `N` elements and writes one for each 64 of them.
    unsafe { kernel.launch(&stream, shape, arguments) }.unwrap();
    let counts = counts.read(&stream).unwrap();
    for (idx, count) in counts.iter().enumerate() {
        let chunk = &ramp(N)[idx * 64..N.min(idx * 64 + 64)];
        let wanted = chunk.iter().filter(|value| **value > 11.0).count();
        assert_eq!(*count as usize, wanted, "chunk {idx}");
    }
}

pub(crate) fn barriers_and_shuffles_agree_with_an_oracle(device: &Device) {
    let stream = device.new_stream().unwrap();
    for n_columns in [1, 31, 128, 129, 1000] {
        let n_rows = 3;
        let input: Vec<f32> = (0..n_rows * n_columns)
            .map(|idx| ((idx * 37 + idx / 7) % 101) as f32 * 0.1 - 3.0)
            .collect();
        let on_device = filled(device, &stream, device.shared_kind(), &input);
        let mut out = device.shared::<f32>(input.len()).unwrap();
        let kernel = device.kernel(&SOFTMAX).unwrap();
        let shape = LaunchShape {
            grid: [n_rows as u32, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 4 * n_columns as u32,
        };
        let arguments = (out.view_mut(), on_device.view(), n_columns as u32);
        // SAFETY: a block for each row of both, and shared memory for a row.
        unsafe { kernel.launch(&stream, shape, arguments) }.unwrap();
        let out = values(&out, &stream);
        for (row, got) in input.chunks(n_columns).zip(out.chunks(n_columns)) {
            let sum: f64 = row.iter().map(|value| f64::from(*value).exp()).sum();
            for (value, got) in row.iter().zip(got) {
                let wanted = f64::from(*value).exp() / sum;
                let error = (f64::from(*got) - wanted).abs();
                // Written "inside or fail", so that NaN fails.
                assert!(error <= 2e-6 * wanted, "{n_columns}: {got}, not {wanted}");
            }
        }
    }
}

pub(crate) fn tensor_cores_agree_with_an_oracle(device: &Device) {
    let stream = device.new_stream().unwrap();
    let (m, n, k) = (32, 24, 48);
    // Values of bf16 in no regular pattern, so that a swapped row or column shows.
    let irregular = |n: usize, seed: u32| -> Vec<bf16> {
        let value = |idx: u32| (idx.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) % 509;
        let values = (0..n as u32).map(|idx| value(idx) as f32 / 64.0 - 4.0);
        values.map(bf16::from_f32).collect()
    };
    let (a, b) = (irregular(m * k, 1), irregular(n * k, 2));
    let kind = device.shared_kind();
    let mut a_buffer = device.buffer::<bf16>(kind, a.len()).unwrap();
    let mut b_buffer = device.buffer::<bf16>(kind, b.len()).unwrap();
    let mut c = device.buffer::<f32>(kind, m * n).unwrap();
    a_buffer.upload(&stream, &a).unwrap();
    b_buffer.upload(&stream, &b).unwrap();
    let kernel = device.kernel(&MATMUL).unwrap();
    let shape = LaunchShape {
        grid: [n as u32 / 8, m as u32 / 16, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
    };
    let views = (
        c.view_mut(),
        a_buffer.view(),
        b_buffer.view(),
        n as u32,
        k as u32,
    );
    // SAFETY: the sizes are multiples of the tile's and the views have them.
    unsafe { kernel.launch(&stream, shape, views) }.unwrap();
    let c = values(&c, &stream);
    for row in 0..m {
        for column in 0..n {
            let products =
                (0..k).map(|idx| f64::from(a[row * k + idx]) * f64::from(b[column * k + idx]));
            let (mut wanted, mut size) = (0.0, 0.0);
            for product in products {
                wanted += product;
                size += product.abs();
            }
            let error = (f64::from(c[row * n + column]) - wanted).abs();
            assert!(
                error <= 1e-6 * size,
                "{row}, {column}: {} not {wanted}",
                c[row * n + column]
            );
        }
    }
}

pub(crate) fn launches_of_impossible_shapes_are_refused(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut out = device.shared::<f32>(4).unwrap();
    let input = device.shared::<f32>(4).unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let shapes = [
        ([1, 1, 1], [0, 1, 1]),
        ([0, 1, 1], [32, 1, 1]),
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [32, 32, 2]),
        ([1, 1, 1], [1 << 16, 1 << 16, 1]),
        ([1, 1, 1], [1, 1, 65]),
        ([1, 65_536, 1], [32, 1, 1]),
        ([u32::MAX, 1, 1], [32, 1, 1]),
    ];
    for (grid, block) in shapes {
        let shape = LaunchShape {
            grid,
            block,
            shared_bytes: 0,
        };
        // SAFETY: zero elements are touched.
        let launched =
            unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 1.0, 0)) };
        assert!(
            matches!(launched, Err(MemError::LaunchShape { .. })),
            "{shape:?}"
        );
    }
    assert!(LaunchShape::for_elements(usize::MAX, 1).is_err());
    assert!(LaunchShape::for_elements(1, 0).is_err());
    assert_eq!(LaunchShape::for_elements(0, 32).unwrap().grid, [1, 1, 1]);
}

pub(crate) fn buffers_of_other_devices_are_refused(device: &Device) {
    let other = Device::host();
    let (stream, foreign) = (device.new_stream().unwrap(), other.new_stream().unwrap());
    let mut mine = device.shared::<f32>(4).unwrap();
    let its = other.shared::<f32>(4).unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(4, 32).unwrap();
    let refused = [
        stream.copy(its.view(), mine.view_mut()).err(),
        mine.read(&foreign).err(),
        stream.wait(&foreign.record().unwrap()).err(),
        // SAFETY: nothing is launched.
        unsafe { kernel.launch(&stream, shape, (mine.view_mut(), its.view(), 1.0, 4)) }.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(MemError::OtherDevice)), "{error:?}");
    }
}

pub(crate) fn streams_order_work_on_one_buffer(device: &Device) {
    let streams: Vec<Stream> = (0..4).map(|_| device.new_stream().unwrap()).collect();
    let kind = device.private_kind();
    let mut a = filled(device, &streams[0], kind, &ramp(N));
    let mut b = device.buffer::<f32>(kind, N).unwrap();
    for round in 0..8 {
        scale(device, &streams[round % 4], &mut b, &a, 2.0);
        scale(device, &streams[(round + 1) % 4], &mut a, &b, 0.5);
    }
    scale(device, &streams[3], &mut b, &a, 3.0);
    let wanted: Vec<f32> = ramp(N).iter().map(|value| value * 3.0).collect();
    assert_eq!(values(&b, &streams[1]), wanted);
}

pub(crate) fn events_order_and_time(device: &Device) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let start = first.record_timed().unwrap();
    let input = filled(device, &first, device.private_kind(), &ramp(N));
    let mut out = device.buffer(device.private_kind(), N).unwrap();
    scale(device, &first, &mut out, &input, 2.0);
    let end = first.record_timed().unwrap();
    second.wait(&end).unwrap();
    second.synchronize().unwrap();
    end.synchronize().unwrap();
    assert!(start.is_done().unwrap() && end.is_done().unwrap());
    assert!(second.is_idle().unwrap());
    assert!(end.since(&start).unwrap().as_secs() < 60);
    match start.since(&end) {
        // The clock may not have moved by what it resolves.
        Ok(_) => assert!(end.since(&start).unwrap().as_nanos() <= 500),
        Err(error) => assert!(matches!(error, MemError::EventOrder { .. }), "{error:?}"),
    }
    let untimed = first.record().unwrap();
    for time in [untimed.since(&start), end.since(&untimed)] {
        assert!(matches!(time, Err(MemError::Untimed)), "{time:?}");
    }
}

pub(crate) fn guards_overlap_only_when_reading(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let buffer = filled(device, &stream, kind, &ramp(N));
        let (first, second) = (buffer.read(&stream).unwrap(), buffer.read(&stream).unwrap());
        assert_eq!(*first, *second, "{kind:?}");
        drop(first);
        assert_eq!(second[7], ramp(N)[7], "{kind:?}");
        // The device may read what the host reads.
        if buffer.device_address().is_some() {
            let mut out = device.buffer(kind, N).unwrap();
            scale(device, &stream, &mut out, &buffer, 1.0);
            assert_eq!(values(&out, &stream), *second);
        }
    }
}

pub(crate) fn guards_of_many_threads_read_the_same(device: &Device) {
    let stream = device.new_stream().unwrap();
    let buffer = filled(device, &stream, device.private_kind(), &ramp(N));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(values(&buffer, &stream), ramp(N));
                }
            });
        }
    });
}

/// `y += x`, recorded.
fn recorded(device: &Device, stream: &Stream, y: &mut Buffer<f32>, x: &Buffer<f32>) -> Graph {
    let kernel = device.kernel(&ACCUMULATE).unwrap();
    let n = u32::try_from(x.len()).unwrap();
    let shape = LaunchShape::for_elements(x.len(), 64).unwrap();
    let graph = stream.capture(|stream| {
        // SAFETY: the kernel touches `n` elements of both, which have as many.
        unsafe { kernel.launch(stream, shape, (y.view_mut(), x.view(), n)) }
    });
    graph.unwrap()
}

pub(crate) fn graphs_replay(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.shared_kind();
    let mut x = filled(device, &stream, kind, &ramp(N));
    let mut y = device.buffer(kind, N).unwrap();
    let before = device.stats();
    let graph = recorded(device, &stream, &mut y, &x);
    assert_eq!(values(&y, &stream), [0.0; N], "recording runs nothing");
    for _ in 0..3 {
        graph.launch(&stream).unwrap();
    }
    let stats = device.stats().since(&before);
    assert_eq!((stats.graph_launches, stats.launches), (3, 0));
    let wanted: Vec<f32> = ramp(N).iter().map(|value| value * 3.0).collect();
    assert_eq!(values(&y, &stream), wanted);
    x.write(&stream).unwrap().fill(1.0);
    graph.launch(&device.new_stream().unwrap()).unwrap();
    let wanted: Vec<f32> = wanted.iter().map(|value| value + 1.0).collect();
    assert_eq!(
        values(&y, &stream),
        wanted,
        "inputs may change between launches"
    );
}

pub(crate) fn graphs_keep_their_memory(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.shared_kind();
    let mut y = device.buffer(kind, N).unwrap();
    let graph = {
        let x = filled(device, &stream, kind, &ramp(N));
        recorded(device, &stream, &mut y, &x)
    };
    graph.launch(&stream).unwrap();
    assert_eq!(
        values(&y, &stream),
        ramp(N),
        "`x` is gone and its memory is not"
    );
    drop(y);
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

pub(crate) fn graphs_wait_for_guards(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.shared_kind();
    let mut x = filled(device, &stream, kind, &ramp(N));
    let mut y = device.buffer(kind, N).unwrap();
    let graph = recorded(device, &stream, &mut y, &x);
    let reading = y.read(&stream).unwrap();
    assert!(matches!(graph.launch(&stream), Err(MemError::InUseByHost)));
    assert_eq!(*reading, [0.0; N]);
    drop(reading);
    let reading_input = x.read(&stream).unwrap();
    graph.launch(&stream).unwrap();
    drop(reading_input);
    let writing_input = x.write(&stream).unwrap();
    assert!(matches!(graph.launch(&stream), Err(MemError::InUseByHost)));
    drop(writing_input);
    graph.launch(&stream).unwrap();
}

pub(crate) fn memory_dropped_while_captured_is_kept(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.private_kind();
    let x = filled(device, &stream, kind, &ramp(N));
    let mut y = device.buffer(kind, N).unwrap();
    let mut early = device.buffer(kind, N).unwrap();
    // Work on the stream before the recording, not waited for.
    scale(device, &stream, &mut early, &x, 2.0);
    let kernel = device.kernel(&ACCUMULATE).unwrap();
    let shape = LaunchShape::for_elements(N, 64).unwrap();
    let graph = stream.capture(|stream| {
        drop(early);
        let inside = x;
        // SAFETY: the kernel touches `N` elements of both, which have as many.
        unsafe { kernel.launch(stream, shape, (y.view_mut(), inside.view(), N as u32)) }
    });
    let graph = graph.unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(values(&y, &stream), ramp(N));
}

pub(crate) fn a_failed_capture_leaves_the_stream_usable(device: &Device) {
    let stream = device.new_stream().unwrap();
    let buffer = filled(device, &stream, device.shared_kind(), &ramp(N));
    let failed = stream.capture(|stream| buffer.read(stream).map(drop));
    assert!(
        matches!(failed, Err(MemError::Capturing { .. })),
        "{failed:?}"
    );
    let stream_of_panic = stream.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream_of_panic.capture(|_| std::panic::resume_unwind(Box::new("on purpose")))
    }));
    assert!(panicked.is_err());
    assert_eq!(values(&buffer, &stream), ramp(N));
    let empty = stream.capture(|_| Ok(())).unwrap();
    empty.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

pub(crate) fn what_cannot_be_captured_is_refused(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut buffer = device.shared::<f32>(N).unwrap();
    let empty = stream.capture(|_| Ok(())).unwrap();
    let outside = stream.record().unwrap();
    let checked = stream.capture(|stream| {
        let other_thread = std::thread::scope(|scope| {
            let queue = || stream.fill_bytes(buffer.view_mut(), 1);
            scope.spawn(queue).join().unwrap()
        });
        let refused = [
            stream.synchronize(),
            stream.is_idle().map(drop),
            stream.record_timed().map(drop),
            stream.wait(&outside),
            stream.capture(|_| Ok(())).map(drop),
            empty.launch(stream),
            stream.prefetch(buffer.view(), Side::Device).map(drop),
            other_thread,
        ];
        for result in refused {
            assert!(
                matches!(result, Err(MemError::Capturing { .. })),
                "{result:?}"
            );
        }
        Ok(())
    });
    checked.unwrap();
}

/// Not part of the graph: what the host wrote is in the buffer, and launching changes nothing.
pub(crate) fn guards_closed_while_captured_write_at_once(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let mut buffer = device.buffer::<f32>(kind, N).unwrap();
        let mut guard = buffer.write(&stream).unwrap();
        guard.copy_from_slice(&ramp(N));
        let graph = stream.capture(|_| guard.finish()).unwrap();
        assert_eq!(values(&buffer, &stream), ramp(N), "{kind:?}");
        buffer.write(&stream).unwrap().fill(5.0);
        graph.launch(&stream).unwrap();
        assert_eq!(values(&buffer, &stream), [5.0; N], "{kind:?}");
    }
}

/// One thread records and launches graphs; others queue work on clones of the same stream,
/// look at its results and drop its buffers. Work is refused, or done and seen.
pub(crate) fn threads_share_a_stream_that_is_captured(device: &Device) {
    const ROUNDS: usize = 40;
    let stream = device.new_stream().unwrap();
    let mut target = device.shared::<f32>(N).unwrap();
    let source = filled(device, &stream, device.shared_kind(), &ramp(N));
    let work = |kind| {
        let own = device.new_stream().unwrap();
        for round in 0..ROUNDS {
            let x = filled(device, &own, kind, &vec![round as f32; N]);
            let mut y = device.buffer::<f32>(kind, N).unwrap();
            match stream.copy(x.view(), y.view_mut()) {
                Ok(()) => drop(x),
                Err(MemError::Capturing { .. }) => continue,
                Err(other) => panic!("{other}"),
            }
            match y.read(&own) {
                Ok(values) => assert_eq!(*values, [round as f32; N], "{kind:?}"),
                Err(MemError::Capturing { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| work(device.shared_kind()));
        }
        for _ in 0..ROUNDS {
            let recorded = stream.capture(|stream| {
                std::thread::yield_now();
                stream.copy(source.view(), target.view_mut())
            });
            let graph = recorded.expect("one thread records");
            std::thread::yield_now();
            graph.launch(&stream).unwrap();
        }
    });
    stream.synchronize().unwrap();
    assert_eq!(values(&target, &stream), ramp(N));
}
