//! What every device must do, whatever its backend: one function per behaviour.
//!
//! `for_each_case!` names them all once; every backend's module makes a test of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use spark_mem::file::{MappedFile, TensorFile, load};
use spark_mem::{
    Advice, Buffer, BufferKind, Device, DeviceKind, KernelSource, LaunchShape, MemError, Pool,
    Read, Side, Stream, Write,
};

use crate::kernels::SCALE;

/// Hands the names of all cases to a macro.
macro_rules! for_each_case {
    ($make:ident) => {
        $make! {
            new_buffers_are_zero,
            values_come_back,
            buffers_of_nothing_work,
            sizes_that_overflow_are_refused,
            more_than_the_budget_is_refused,
            kinds_a_device_lacks_are_refused,
            ranges_outside_are_refused,
            one_launch_reads_and_writes_parts_of_one_buffer,
            parts_that_overlap_are_refused,
            parts_have_types_of_their_own,
            lengths_that_differ_are_refused,
            copies_go_between_all_kinds,
            bytes_are_filled,
            kernels_compute,
            kernels_see_ranges,
            structures_and_many_numbers_are_arguments,
            sources_made_at_run_time_are_kernels,
            static_and_dynamic_shared_memory_are_counted_together,
            constants_are_written_by_their_names,
            atomics_count_across_blocks,
            barriers_and_shuffles_agree_with_an_oracle,
            tensor_cores_agree_with_an_oracle,
            launches_of_impossible_shapes_are_refused,
            buffers_of_other_devices_are_refused,
            streams_order_work_on_one_buffer,
            events_order_and_time,
            guards_overlap_only_when_reading,
            guards_of_many_threads_read_the_same,
            graphs_replay,
            graphs_fork_and_join,
            streams_of_a_recording_are_put_in_order_and_joined,
            recordings_are_joined_by_their_own_thread_alone,
            graphs_keep_their_memory,
            graphs_wait_for_guards,
            memory_dropped_while_captured_is_kept,
            a_failed_capture_leaves_the_stream_usable,
            what_cannot_be_captured_is_refused,
            guards_closed_while_captured_write_at_once,
            threads_share_a_stream_that_is_captured,
            pools_reuse_and_trim,
            pooled_memory_orders_its_users,
            pools_give_back_before_they_refuse,
            statistics_count_every_copy,
            statistics_count_what_graphs_copy_when_they_run,
            round_trips_copy_only_where_memory_is_apart,
            hints_never_fail,
            streams_cross_threads,
            occupancy_is_told_or_refused,
            files_load_and_tensors_are_views,
            memory_of_the_program_is_used_in_place,
            memory_of_the_program_outlives_its_work,
            everything_is_given_back,
        }
    };
}
pub(crate) use for_each_case;

mod arena;
mod code;
mod recorded;
mod work;

pub(crate) use arena::*;
pub(crate) use code::*;
pub(crate) use recorded::*;
pub(crate) use work::*;

const N: usize = 1000;

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|idx| idx as f32 * 0.5 - 7.0).collect()
}

fn kinds(device: &Device) -> Vec<BufferKind> {
    let all = BufferKind::ALL.into_iter();
    all.filter(|kind| device.supports(*kind)).collect()
}

pub(crate) fn filled(
    device: &Device,
    stream: &Stream,
    kind: BufferKind,
    values: &[f32],
) -> Buffer<f32> {
    let mut buffer = device.buffer(kind, values.len()).unwrap();
    buffer.upload(stream, values).unwrap();
    buffer
}

pub(crate) fn values(buffer: &Buffer<f32>, stream: &Stream) -> Vec<f32> {
    buffer.read(stream).unwrap().to_vec()
}

/// `out = factor * input`, queued.
fn scale(
    device: &Device,
    stream: &Stream,
    out: &mut Buffer<f32>,
    input: &Buffer<f32>,
    factor: f32,
) {
    let kernel = device.kernel(&SCALE).unwrap();
    let n = u32::try_from(input.len()).unwrap();
    let shape = LaunchShape::for_elements(input.len(), 128).unwrap();
    // SAFETY: the kernel touches `n` elements of both, which have as many.
    unsafe { kernel.launch(stream, shape, (out.view_mut(), input.view(), factor, n)) }.unwrap();
}

pub(crate) fn new_buffers_are_zero(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let buffer = device.buffer::<u64>(kind, N).unwrap();
        assert_eq!(*buffer.read(&stream).unwrap(), [0; N], "{kind:?}");
        assert_eq!((buffer.len(), buffer.len_bytes()), (N, 8 * N));
        assert_eq!(buffer.kind(), kind);
    }
}

pub(crate) fn values_come_back(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let mut buffer = filled(device, &stream, kind, &ramp(N));
        buffer.write(&stream).unwrap()[3] = 99.0;
        let mut wanted = ramp(N);
        wanted[3] = 99.0;
        assert_eq!(values(&buffer, &stream), wanted, "{kind:?}");
        let mut copy = vec![0.0; N];
        buffer.download(&stream, &mut copy).unwrap();
        assert_eq!(copy, wanted, "{kind:?}");
        stream.synchronize().unwrap();
    }
}

pub(crate) fn buffers_of_nothing_work(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let mut none = device.buffer::<f32>(kind, 0).unwrap();
        assert!(none.is_empty() && none.view().is_empty());
        assert!(none.read(&stream).unwrap().is_empty());
        none.write(&stream).unwrap().fill(1.0);
        none.upload(&stream, &[]).unwrap();
        let other = device.buffer::<f32>(kind, 0).unwrap();
        stream.copy(other.view(), none.view_mut()).unwrap();
        stream.fill_bytes(none.view_mut(), 1).unwrap();
        assert!(none.advise(Advice::MostlyRead).is_ok());
        if none.kind() != BufferKind::Host || device.info().kind == DeviceKind::Host {
            scale(device, &stream, &mut none, &other, 1.0);
        }
    }
    stream.synchronize().unwrap();
}

pub(crate) fn sizes_that_overflow_are_refused(device: &Device) {
    let pool = Pool::new(device, device.shared_kind()).unwrap();
    for len in [usize::MAX, usize::MAX / 2, usize::MAX / 8 + 1] {
        for result in [device.shared::<u64>(len), pool.take::<u64>(len)] {
            match result {
                Err(MemError::SizeOverflow {
                    len: got,
                    element_bytes: 8,
                }) => assert_eq!(got, len),
                other => panic!("{len}: {other:?}"),
            }
        }
    }
}

pub(crate) fn more_than_the_budget_is_refused(device: &Device) {
    let before = device.budget().used_bytes();
    for kind in kinds(device) {
        // Fits an address space, and no machine.
        match device.buffer::<u8>(kind, 1 << 50) {
            Err(MemError::OverBudget { asked, why, .. }) => {
                assert_eq!(asked, 1 << 50);
                assert!(!why.is_empty());
            }
            Err(MemError::OutOfMemory {
                asked, kind: got, ..
            }) => {
                assert_eq!((asked, got), (1 << 50, kind));
            }
            other => panic!("{kind:?}: {other:?}"),
        }
    }
    assert_eq!(
        device.budget().used_bytes(),
        before,
        "refused memory is not counted"
    );
}

pub(crate) fn kinds_a_device_lacks_are_refused(device: &Device) {
    for kind in BufferKind::ALL {
        let result = device.buffer::<u8>(kind, 1);
        assert_eq!(result.is_ok(), device.supports(kind), "{kind:?}");
        assert_eq!(
            Pool::new(device, kind).is_ok(),
            device.supports(kind),
            "{kind:?}"
        );
        if let Err(error) = result {
            assert!(matches!(error, MemError::KindUnsupported { .. }), "{error}");
        }
    }
    for kind in [
        device.shared_kind(),
        device.private_kind(),
        device.staging_kind(),
    ] {
        assert!(device.supports(kind), "{kind:?} is recommended");
    }
}

#[allow(clippy::reversed_empty_ranges, reason = "the bad input of this test")]
pub(crate) fn ranges_outside_are_refused(device: &Device) {
    let mut buffer = device.shared::<f32>(N).unwrap();
    for range in [0..N + 1, N + 1..N + 1, 5..4, 0..usize::MAX] {
        assert!(matches!(
            buffer.range(range.clone()),
            Err(MemError::OutOfRange { .. })
        ));
        assert!(matches!(
            buffer.range_mut(range),
            Err(MemError::OutOfRange { .. })
        ));
    }
    assert_eq!(buffer.range(N..N).unwrap().len(), 0);
}

pub(crate) fn lengths_that_differ_are_refused(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut long = device.shared::<f32>(N).unwrap();
    let short = device.shared::<f32>(N - 1).unwrap();
    let refused = [
        stream.copy(short.view(), long.view_mut()),
        long.upload(&stream, &[0.0; 3]),
        long.download(&stream, &mut [0.0; N + 1]),
    ];
    for result in refused {
        assert!(
            matches!(result, Err(MemError::LengthMismatch { .. })),
            "{result:?}"
        );
    }
}

pub(crate) fn copies_go_between_all_kinds(device: &Device) {
    let stream = device.new_stream().unwrap();
    for from in kinds(device) {
        for to in kinds(device) {
            let source = filled(device, &stream, from, &ramp(N));
            let mut target = device.buffer::<f32>(to, N).unwrap();
            let before = device.stats();
            stream.copy(source.view(), target.view_mut()).unwrap();
            assert_eq!(device.stats().since(&before).copies(), 1);
            assert_eq!(values(&target, &stream), ramp(N), "{from:?} to {to:?}");
            let part = source.range(10..20).unwrap();
            stream
                .copy(part, target.range_mut(500..510).unwrap())
                .unwrap();
            assert_eq!(values(&target, &stream)[500..510], ramp(N)[10..20]);
        }
    }
}

pub(crate) fn bytes_are_filled(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let mut buffer = device.buffer::<u32>(kind, N).unwrap();
        let filled = stream.fill_bytes(buffer.range_mut(1..3).unwrap(), 0xAB);
        if buffer.device_address().is_none() {
            assert!(matches!(filled, Err(MemError::NotOnDevice { .. })));
            continue;
        }
        filled.unwrap();
        let guard = buffer.read(&stream).unwrap();
        assert_eq!(guard[..4], [0, 0xABAB_ABAB, 0xABAB_ABAB, 0], "{kind:?}");
    }
}

pub(crate) fn pools_reuse_and_trim(device: &Device) {
    let kind = device.private_kind();
    let pool = Pool::new(device, kind).unwrap();
    let used = device.budget().used_bytes();
    drop(pool.take::<f32>(N).unwrap());
    drop(pool.take::<u8>(4 * N - 3).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.hits, stats.misses, stats.kept_blocks), (1, 1, 1));
    assert_eq!(device.budget().used_bytes() - used, stats.kept_bytes as u64);
    let (big, small) = (
        pool.take::<f64>(100 * N).unwrap(),
        pool.take::<u8>(1).unwrap(),
    );
    assert_eq!(
        (big.len(), small.len(), pool.stats().misses),
        (100 * N, 1, 3)
    );
    drop((big, small));
    pool.trim(8 * N);
    assert_eq!(pool.stats().kept_blocks, 2, "the largest goes first");
    pool.trim(0);
    assert_eq!((pool.stats().kept_blocks, pool.stats().kept_bytes), (0, 0));
    assert_eq!(device.budget().used_bytes(), used);
    let outlives = pool.take::<f32>(N).unwrap();
    drop(pool);
    drop(outlives);
    assert_eq!(device.budget().used_bytes(), used);
}

pub(crate) fn pooled_memory_orders_its_users(device: &Device) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let pool = Pool::new(device, device.private_kind()).unwrap();
    let input = filled(device, &first, device.private_kind(), &ramp(N));
    let mut out = pool.take::<f32>(N).unwrap();
    scale(device, &first, &mut out, &input, 2.0);
    drop(out);
    let mut again = pool.take::<f32>(N).unwrap();
    assert_eq!(pool.stats().hits, 1);
    scale(device, &second, &mut again, &input, 5.0);
    let wanted: Vec<f32> = ramp(N).iter().map(|value| value * 5.0).collect();
    assert_eq!(values(&again, &first), wanted);
}

pub(crate) fn pools_give_back_before_they_refuse(device: &Device) {
    let pool = Pool::new(device, device.private_kind()).unwrap();
    drop(pool.take::<u8>(N).unwrap());
    assert!(pool.take::<u8>(1 << 50).is_err());
    assert_eq!(pool.stats().kept_blocks, 0);
}

pub(crate) fn statistics_count_every_copy(device: &Device) {
    let stream = device.new_stream().unwrap();
    let host = filled(device, &stream, device.staging_kind(), &ramp(N));
    let mut on_device = device.buffer::<f32>(device.private_kind(), N).unwrap();
    let before = device.stats();
    stream.copy(host.view(), on_device.view_mut()).unwrap();
    let stats = device.stats().since(&before);
    assert_eq!(stats.copies(), 1);
    let one = match device.info().kind {
        DeviceKind::Host => stats.on_host,
        DeviceKind::Emulated | DeviceKind::Cuda(_) => stats.host_to_device,
    };
    assert_eq!((one.count, one.bytes), (1, 4 * N as u64));
}

pub(crate) fn statistics_count_what_graphs_copy_when_they_run(device: &Device) {
    let stream = device.new_stream().unwrap();
    let kind = device.private_kind();
    let from = filled(device, &stream, kind, &ramp(N));
    let mut to = device.buffer::<f32>(kind, N).unwrap();
    let before = device.stats();
    let graph = stream.capture(|stream| stream.copy(from.view(), to.view_mut()));
    let graph = graph.unwrap();
    assert_eq!(device.stats(), before, "recording copies nothing");
    for _ in 0..3 {
        graph.launch(&stream).unwrap();
    }
    let stats = device.stats().since(&before);
    assert_eq!((stats.copies(), stats.graph_launches), (3, 3));
    let within = match device.info().kind {
        DeviceKind::Host => stats.on_host,
        DeviceKind::Emulated | DeviceKind::Cuda(_) => stats.on_device,
    };
    assert_eq!((within.count, within.bytes), (3, 3 * 4 * N as u64));
    assert_eq!(values(&to, &stream), ramp(N));
}

pub(crate) fn round_trips_copy_only_where_memory_is_apart(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut input = device.shared::<f32>(N).unwrap();
    let mut out = device.shared::<f32>(N).unwrap();
    let before = device.stats();
    for round in 0..3 {
        input.overwrite(&stream).unwrap().fill(round as f32);
        scale(device, &stream, &mut out, &input, 2.0);
        assert_eq!(*out.read(&stream).unwrap(), [2.0 * round as f32; N]);
    }
    let stats = device.stats().since(&before);
    assert_eq!(stats.launches, 3);
    if device.info().is_unified {
        assert_eq!(stats.copies(), 0, "{stats:?}");
        assert_eq!(stats.shared_accesses, 6);
    } else {
        assert_eq!(
            (stats.host_to_device.count, stats.device_to_host.count),
            (3, 3)
        );
        assert_eq!(stats.copies(), 6, "{stats:?}");
    }
}

pub(crate) fn hints_never_fail(device: &Device) {
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let buffer = filled(device, &stream, kind, &ramp(N));
        for side in [Side::Device, Side::Host] {
            stream.prefetch(buffer.view(), side).unwrap();
            for advice in [
                Advice::MostlyRead,
                Advice::NotMostlyRead,
                Advice::PreferredSide(side),
                Advice::AccessedFrom(side),
            ] {
                buffer.advise(advice).unwrap();
            }
        }
        assert_eq!(values(&buffer, &stream), ramp(N));
    }
}

pub(crate) fn streams_cross_threads(device: &Device) {
    let stream = Arc::new(device.new_stream().unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (device, stream) = (device.clone(), Arc::clone(&stream));
            std::thread::spawn(move || {
                let input = filled(&device, &stream, device.shared_kind(), &ramp(N));
                let mut out = device.shared(N).unwrap();
                scale(&device, &stream, &mut out, &input, 4.0);
                out
            })
        })
        .collect();
    let wanted: Vec<f32> = ramp(N).iter().map(|value| value * 4.0).collect();
    for thread in threads {
        assert_eq!(values(&thread.join().unwrap(), &stream), wanted);
    }
}

/// A kernel without a host version.
const FOR_GPUS_ONLY: KernelSource<(Write<f32>, Read<f32>, f32, u32)> =
    KernelSource::new("elementwise.cu", crate::kernels::ELEMENTWISE, "scale_f32");

pub(crate) fn occupancy_is_told_or_refused(device: &Device) {
    match device.info().kind {
        DeviceKind::Cuda(_) => {
            let kernel = device.kernel(&FOR_GPUS_ONLY).unwrap();
            let n_blocks = kernel.blocks_per_multiprocessor(256, 0).unwrap();
            assert!((1..=32).contains(&n_blocks), "{n_blocks}");
        }
        DeviceKind::Host | DeviceKind::Emulated => {
            let kernel = device.kernel(&SCALE).unwrap();
            let told = kernel.blocks_per_multiprocessor(256, 0);
            assert!(
                matches!(told, Err(MemError::Unsupported { .. })),
                "{told:?}"
            );
            let other = device.kernel(&KernelSource::<(u32,)>::new("none.cu", "", "none"));
            assert!(matches!(other, Err(MemError::NoHostKernel { entry }) if entry == "none"));
        }
    }
}

/// What a CPU and a Spark do without a copy, and a card with one each way.
pub(crate) fn memory_of_the_program_is_used_in_place(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut given = Vec::with_capacity(2 * N);
    given.extend(ramp(N));
    let address = given.as_ptr();
    let (budget, before) = (device.budget().used_bytes(), device.stats());
    let mut buffer = device.buffer_from_vec(&stream, given).unwrap();
    assert_eq!((buffer.len(), buffer.kind()), (N, device.shared_kind()));
    let source = buffer_of(device, &stream, 2.0);
    scale(device, &stream, &mut buffer, &source, 3.0);
    let is_in_place = device.info().is_unified && device.info().shares_page_tables;
    if is_in_place {
        assert_eq!(buffer.device_address(), Some(address as u64));
        let own_bytes = device.budget().used_bytes() - budget;
        assert_eq!(own_bytes, source.len_bytes() as u64);
    }
    let got = buffer.into_vec(&stream).unwrap();
    assert_eq!(got, vec![6.0; N]);
    let copies = device.stats().since(&before);
    if is_in_place {
        assert_eq!((got.as_ptr(), got.capacity()), (address, 2 * N));
        assert_eq!(copies.copies(), 1, "the upload of the source alone");
    } else {
        assert!(copies.copies() >= 3, "{copies:?}");
    }
    let none = device.buffer_from_vec(&stream, Vec::<u64>::new()).unwrap();
    assert!(none.into_vec(&stream).unwrap().is_empty());
    let other = Device::host().new_stream().unwrap();
    assert!(matches!(
        device.buffer_from_vec(&other, vec![1_u8]),
        Err(MemError::OtherDevice)
    ));
}

fn buffer_of(device: &Device, stream: &Stream, value: f32) -> Buffer<f32> {
    filled(device, stream, device.shared_kind(), &[value; N])
}

/// Dropping it, or taking it back from under a graph, waits for what the device does with it.
pub(crate) fn memory_of_the_program_outlives_its_work(device: &Device) {
    let stream = device.new_stream().unwrap();
    let input = device.buffer_from_vec(&stream, ramp(N)).unwrap();
    let mut out = device.shared::<f32>(N).unwrap();
    scale(device, &stream, &mut out, &input, 2.0);
    drop(input); // queued work still reads it
    let doubled: Vec<f32> = ramp(N).iter().map(|value| 2.0 * value).collect();
    assert_eq!(values(&out, &stream), doubled);

    let input = device.buffer_from_vec(&stream, ramp(N)).unwrap();
    let mut out = device.shared::<f32>(N).unwrap();
    let graph = stream
        .capture(|stream| {
            scale(device, stream, &mut out, &input, 2.0);
            Ok(())
        })
        .unwrap();
    assert_eq!(input.into_vec(&stream).unwrap(), ramp(N)); // a copy: the graph keeps its own
    graph.launch(&stream).unwrap();
    assert_eq!(values(&out, &stream), doubled);

    // A graph that is gone, and whose last launch another stream may not have reached.
    let other = device.new_stream().unwrap();
    let input = buffer_of(device, &stream, 5.0);
    let mut out = device.buffer_from_vec(&stream, vec![0.0_f32; N]).unwrap();
    let graph = stream.capture(|stream| {
        scale(device, stream, &mut out, &input, 2.0);
        Ok(())
    });
    let graph = graph.unwrap();
    graph.launch(&other).unwrap();
    drop(graph);
    assert_eq!(out.into_vec(&stream).unwrap(), vec![10.0; N]);
}

pub(crate) fn everything_is_given_back(device: &Device) {
    let used = device.budget().used_bytes();
    let stream = device.new_stream().unwrap();
    for kind in kinds(device) {
        let mut buffer = filled(device, &stream, kind, &ramp(N));
        buffer.write(&stream).unwrap()[0] = 1.0;
        assert!(device.budget().used_bytes() > used, "{kind:?}");
    }
    assert_eq!(device.budget().used_bytes(), used);
    assert!(device.budget().largest_used_bytes() > used);
}

pub(crate) fn files_load_and_tensors_are_views(device: &Device) {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("spark-mem-{}-{number}.safetensors", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, &bytes).unwrap();

    let stream = device.new_stream().unwrap();
    let mut last = (0, 0);
    let (buffer, report) = load(device, &stream, &path, |done, all| last = (done, all)).unwrap();
    let n = bytes.len() as u64;
    assert_eq!((report.bytes, last), (n, (n, n)));
    assert_eq!(*buffer.read(&stream).unwrap(), *bytes);
    let (file, _) = TensorFile::load(device, &stream, &path, |_, _| {}).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["a"]);
    let before = device.stats();
    file.tensor(&stream, "a", |tensor| assert_eq!(tensor.shape, [2]))
        .unwrap();
    if device.info().is_unified {
        assert_eq!(device.stats().since(&before).copies(), 0);
    }
    let mut on_device = device.buffer::<f32>(device.private_kind(), 2).unwrap();
    let view = file.on_device::<f32>("a").unwrap();
    stream.copy(view, on_device.view_mut()).unwrap();
    assert_eq!(values(&on_device, &stream), [1.5, -2.0]);
    // SAFETY: nobody else knows the file, which stays until the end of this function.
    let mapped = unsafe { MappedFile::open(&path) }.unwrap();
    let file = TensorFile::from_mapped(&path, mapped).unwrap();
    file.tensor(&stream, "a", |tensor| assert_eq!(tensor.bytes.len(), 8))
        .unwrap();
    drop(file);
    std::fs::remove_file(&path).unwrap();
}
