//! Copies, creation, pools, guards.

use std::cell::RefCell;
use std::rc::Rc;

use spark_mem::{Buffer, Device, MemError, Pool};

use crate::Case;

/// Operations of one run where one is too short to time.
const N_OPERATIONS: usize = 10_000;

pub(crate) fn all(device: &Device, n_bytes: usize) -> Result<Vec<Case>, MemError> {
    let mut cases = vec![plain_copy(n_bytes)];
    cases.push(staged_copy(device, n_bytes)?);
    cases.push(upload(device, n_bytes)?);
    for n in [4 << 10, 1 << 20, n_bytes] {
        cases.push(creation(device, n));
    }
    for n in [4 << 10, 1 << 20] {
        cases.push(pool_hit(device, n)?);
    }
    cases.push(guards(device)?);
    Ok(cases)
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|idx| (idx * 31 + idx / 257) as u8).collect()
}

/// What the C library does, to compare with.
fn plain_copy(n: usize) -> Case {
    let from = pattern(n);
    let to = Rc::new(RefCell::new(vec![1_u8; n]));
    let (target, wanted) = (Rc::clone(&to), from.clone());
    Case {
        name: "memcpy of slices".to_owned(),
        n,
        bytes: Some(2 * n),
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            target
                .borrow_mut()
                .copy_from_slice(std::hint::black_box(&from));
            Ok(())
        }),
        check: Box::new(move || Ok(*to.borrow() == wanted)),
    }
}

/// From pinned memory to the device's own; on the CPU between two buffers.
fn staged_copy(device: &Device, n: usize) -> Result<Case, MemError> {
    let stream = device.new_stream()?;
    let mut from = device.buffer::<u8>(device.staging_kind(), n)?;
    let wanted = pattern(n);
    from.upload(&stream, &wanted)?;
    let to = Rc::new(RefCell::new(device.buffer::<u8>(device.private_kind(), n)?));
    let (target, queue) = (Rc::clone(&to), stream.clone());
    Ok(Case {
        name: format!(
            "copy {:?} to {:?}",
            device.staging_kind(),
            device.private_kind()
        ),
        n,
        bytes: Some(2 * n),
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            queue.copy(from.view(), target.borrow_mut().view_mut())?;
            queue.synchronize()
        }),
        check: Box::new(move || Ok(*to.borrow().read(&stream)? == *wanted)),
    })
}

/// A slice of the program into memory that both sides use.
fn upload(device: &Device, n: usize) -> Result<Case, MemError> {
    let stream = device.new_stream()?;
    let from = pattern(n);
    let to = Rc::new(RefCell::new(device.shared::<u8>(n)?));
    let (target, queue, wanted) = (Rc::clone(&to), stream.clone(), from.clone());
    Ok(Case {
        name: format!("upload to {:?}", device.shared_kind()),
        n,
        bytes: Some(2 * n),
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            target.borrow_mut().upload(&queue, &from)?;
            queue.synchronize()
        }),
        check: Box::new(move || Ok(*to.borrow().read(&stream)? == *wanted)),
    })
}

fn creation(device: &Device, n: usize) -> Case {
    let device = device.clone();
    let kept = Rc::new(RefCell::new(None::<Buffer<u8>>));
    let made = Rc::clone(&kept);
    Case {
        name: format!("new and drop, {:?}, {} KiB", device.shared_kind(), n >> 10),
        n: 1,
        bytes: None,
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            *made.borrow_mut() = Some(device.shared(n)?);
            *made.borrow_mut() = None;
            Ok(())
        }),
        check: Box::new(move || Ok(kept.borrow().is_none())),
    }
}

fn pool_hit(device: &Device, n: usize) -> Result<Case, MemError> {
    let pool = Pool::new(device, device.shared_kind())?;
    drop(pool.take::<u8>(n)?);
    let looked_at = pool.clone();
    Ok(Case {
        name: format!("pool hit, {} KiB", n >> 10),
        n: N_OPERATIONS,
        bytes: None,
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            for _ in 0..N_OPERATIONS {
                drop(pool.take::<u8>(n)?);
            }
            Ok(())
        }),
        check: Box::new(move || Ok(looked_at.stats().misses == 1)),
    })
}

/// Opening and closing a buffer for the host, in place where memory is shared.
fn guards(device: &Device) -> Result<Case, MemError> {
    let stream = device.new_stream()?;
    let buffer = Rc::new(RefCell::new(device.shared::<u32>(16)?));
    let (written, queue) = (Rc::clone(&buffer), stream.clone());
    Ok(Case {
        name: format!("write guard, {:?}", device.shared_kind()),
        n: N_OPERATIONS,
        bytes: None,
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || {
            for round in 0..N_OPERATIONS {
                written.borrow_mut().write(&queue)?[0] = round as u32;
            }
            Ok(())
        }),
        check: Box::new(move || {
            let last = buffer.borrow().read(&stream)?[0];
            Ok(last as usize == N_OPERATIONS - 1)
        }),
    })
}
