//! How fast a kernel reads, writes and copies each kind of memory. On the CPU the host versions
//! run, one thread.

use std::cell::RefCell;
use std::rc::Rc;

use spark_mem::{BufferKind, Device, KernelSource, LaunchShape, MemError, Read, Write};

use crate::Case;

const SOURCE: &str = include_str!("../../kernels/bandwidth.cu");
/// Blocks of the grid: enough for every GPU there is; the kernels stride over the rest.
const GRID: LaunchShape = LaunchShape {
    grid: [4096, 1, 1],
    block: [256, 1, 1],
    shared_bytes: 0,
};

const READ: KernelSource<(Write<f32>, Read<f32>, u32)> =
    KernelSource::new("bandwidth.cu", SOURCE, "read_f32").with_host(
        |_: LaunchShape, (out, input, _)| {
            // Sixteen sums, so that the additions do not wait for each other.
            let mut sums = [0.0_f32; 16];
            for values in input.chunks_exact(16) {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += value;
                }
            }
            if sums.iter().any(|sum| *sum < 0.0) {
                out[0] = 1.0;
            }
        },
    );

const WRITE: KernelSource<(Write<f32>, f32, u32)> =
    KernelSource::new("bandwidth.cu", SOURCE, "write_f32")
        .with_host(|_: LaunchShape, (out, value, _)| out.fill(value));

const COPY: KernelSource<(Write<f32>, Read<f32>, u32)> =
    KernelSource::new("bandwidth.cu", SOURCE, "copy_f32")
        .with_host(|_: LaunchShape, (out, input, _)| out.copy_from_slice(input));

pub(crate) fn all(device: &Device, n_bytes: usize) -> Result<Vec<Case>, MemError> {
    let mut cases = Vec::new();
    for kind in BufferKind::ALL {
        let is_reached = kind != BufferKind::Host || device.private_kind() == BufferKind::Host;
        if device.supports(kind) && is_reached {
            cases.extend(of_kind(device, kind, n_bytes)?);
        }
    }
    Ok(cases)
}

fn of_kind(device: &Device, kind: BufferKind, n_bytes: usize) -> Result<Vec<Case>, MemError> {
    let stream = device.new_stream()?;
    let len = n_bytes / 4;
    let n = u32::try_from(len / 4).unwrap_or(u32::MAX);
    let mut input = device.buffer::<f32>(kind, len)?;
    input.overwrite(&stream)?.fill(0.5);
    let input = Rc::new(input);
    let out = Rc::new(RefCell::new(device.buffer::<f32>(kind, len)?));
    let (read, write, copy) = (
        device.kernel(&READ)?,
        device.kernel(&WRITE)?,
        device.kernel(&COPY)?,
    );
    let case = |what: &str, bytes: usize, run, last: f32| {
        let (out, stream) = (Rc::clone(&out), stream.clone());
        Case {
            name: format!("kernel {what} {kind:?}"),
            n: n_bytes,
            bytes: Some(bytes),
            prepare: Box::new(|| Ok(())),
            run,
            check: Box::new(move || Ok(out.borrow().read(&stream)?[len - 1] == last)),
        }
    };
    let parts = || (Rc::clone(&input), Rc::clone(&out), stream.clone());
    let (from, to, queue) = parts();
    let reads = Box::new(move || {
        let mut to = to.borrow_mut();
        let views = (to.range_mut(0..1)?, from.view(), n);
        // SAFETY: `n` groups of four in `from`; one value of `to`, hardly ever.
        unsafe { read.launch(&queue, GRID, views) }?;
        queue.synchronize()
    });
    let (_, to, queue) = parts();
    let writes = Box::new(move || {
        let mut to = to.borrow_mut();
        // SAFETY: `n` groups of four.
        unsafe { write.launch(&queue, GRID, (to.view_mut(), 2.5, n)) }?;
        queue.synchronize()
    });
    let (from, to, queue) = parts();
    let copies = Box::new(move || {
        let mut to = to.borrow_mut();
        // SAFETY: `n` groups of four in both.
        unsafe { copy.launch(&queue, GRID, (to.view_mut(), from.view(), n)) }?;
        queue.synchronize()
    });
    Ok(vec![
        case("read", n_bytes, reads, 0.0),
        case("write", n_bytes, writes, 2.5),
        case("copy", 2 * n_bytes, copies, 0.5),
    ])
}
