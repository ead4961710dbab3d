//! Work on memory as memory sees it: what is kept of it, and what goes with it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::backend::Handle;
use crate::budget::{Budget, LARGE_BYTES, Watch};
use crate::event::Event;

/// A queue that counts waits, and fails them.
#[derive(Debug, Default)]
struct Counting {
    n_waits: AtomicUsize,
    fails: bool,
    is_idle: AtomicBool,
}

impl Queue for Counting {
    fn raw(&self) -> Handle {
        Handle::default()
    }

    fn finish(&self) -> Result<(), MemError> {
        self.n_waits.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(MemError::Forked);
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    fn mark(&self) -> Result<Event, MemError> {
        Err(MemError::Forked)
    }

    fn leave_recording(&self, _ended: u64) {}

    fn wait_or_keep(&self, block: Block) -> Option<Block> {
        self.n_waits.fetch_add(1, Ordering::Relaxed);
        Some(block)
    }
}

/// Memory of the program with work of this queue on it that nobody has waited for.
fn in_use_by(queue: &Arc<Counting>) -> Allocation {
    let adopted = Adopted::new(vec![1_u8, 2, 3]);
    let allocation = Allocation::of_program(Device::host(), BufferKind::Host, adopted, 3);
    let queue: Arc<dyn Queue> = queue.clone();
    allocation.state().note(&queue, true);
    allocation
}

/// A graph may be launched, and dropped, by another thread until the very moment in which the
/// memory has one owner: what it queued is found then.
#[test]
fn memory_of_the_program_is_handed_out_after_the_work_on_it() {
    let queue = Arc::new(Counting::default());
    let adopted = in_use_by(&queue).into_adopted().unwrap();
    assert_eq!(queue.n_waits.load(Ordering::Relaxed), 1);
    assert_eq!(adopted.unwrap().into_vec::<u8>(), [1, 2, 3]);
}

/// A model's weights are read by a stream of every request.
#[test]
fn streams_that_are_idle_are_forgotten_when_many_have_come_together() {
    let adopted = Adopted::new(vec![0_u8; 3]);
    let allocation = Allocation::of_program(Device::host(), BufferKind::Host, adopted, 3);
    let queues: Vec<Arc<Counting>> = (0..100).map(|_| Arc::default()).collect();
    let mut most = 0;
    for (idx, counting) in queues.iter().enumerate() {
        let queue: Arc<dyn Queue> = counting.clone();
        allocation.state().note(&queue, false);
        counting.is_idle.store(idx % 10 > 0, Ordering::Relaxed);
        allocation.forget_idle_queues();
        most = most.max(allocation.state().used.len());
    }
    // One of ten is busy.
    assert!((10..=20).contains(&most), "{most}");
    let held = |queue: &&Arc<Counting>| Arc::strong_count(queue) > 1;
    let busy = queues.iter().step_by(10).filter(held).count();
    assert_eq!(busy, 10, "what is busy is kept");
}

#[test]
fn a_stream_that_got_work_since_it_was_idle_is_kept() {
    let mut state = State::default();
    let queue: Arc<dyn Queue> = Arc::<Counting>::default();
    state.note(&queue, false);
    let idle = state.used.clone();
    state.note(&queue, false);
    assert!(state.take_idle(&idle).is_empty());
    // A write replaces what was noted before it, its own stream's too.
    for writes in [true, false] {
        let idle = state.used.clone();
        state.note(&queue, true);
        if !writes {
            state.used.clear();
            state.note(&queue, false);
        }
        assert!(state.take_idle(&idle).is_empty());
    }
    assert_eq!(state.take_idle(&state.used.clone()).len(), 1);
}

#[test]
fn memory_whose_work_cannot_be_waited_for_is_not_handed_out() {
    let queue = Arc::new(Counting {
        fails: true,
        ..Counting::default()
    });
    let handed_out = in_use_by(&queue).into_adopted();
    assert!(matches!(handed_out, Err(MemError::Forked)));
    // Once for whom it was meant, once before it went.
    assert_eq!(queue.n_waits.load(Ordering::Relaxed), 2);
}

/// A stream that is idle when it is asked, and gets work from another thread before the answer arrives.
#[derive(Debug, Default)]
struct Meanwhile {
    work: Mutex<Option<(Weak<Allocation>, Weak<Meanwhile>)>>,
}

impl Queue for Meanwhile {
    fn raw(&self) -> Handle {
        Handle::default()
    }

    fn finish(&self) -> Result<(), MemError> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        if let Some((allocation, queue)) = lock(&self.work).take() {
            let queue: Arc<dyn Queue> = queue.upgrade().unwrap();
            allocation.upgrade().unwrap().state().note(&queue, false);
        }
        true
    }

    fn mark(&self) -> Result<Event, MemError> {
        Err(MemError::Forked)
    }

    fn leave_recording(&self, _ended: u64) {}

    fn wait_or_keep(&self, block: Block) -> Option<Block> {
        Some(block)
    }
}

#[derive(Debug)]
struct NoHome;

impl Home for NoHome {
    fn put(&self, _: Block) {}
}

/// Memory of a pool comes with uses of whoever had it before; a new one is told from them.
#[test]
fn work_that_comes_while_a_stream_is_asked_is_not_forgotten_on_memory_of_a_pool_either() {
    for is_of_pool in [false, true] {
        let adopted = Adopted::new(vec![0_u8; 3]);
        let first = Allocation::of_program(Device::host(), BufferKind::Host, adopted, 3);
        let meanwhile = Arc::new(Meanwhile::default());
        // More than are left unasked; the second of them is the one that gets work.
        for i in 0..=FEW_QUEUES {
            let queue: Arc<dyn Queue> = match i {
                1 => meanwhile.clone(),
                _ => Arc::<Counting>::default(),
            };
            first.state().note(&queue, false);
        }
        let allocation = match is_of_pool {
            true => {
                let home: Weak<dyn Home> = Weak::<NoHome>::new();
                Allocation::of_pool(Device::host(), first.into_block(), home)
            }
            false => first,
        };
        let allocation = Arc::new(allocation);
        let new: Arc<dyn Queue> = Arc::<Counting>::default();
        allocation.state().note(&new, false);
        let work = (Arc::downgrade(&allocation), Arc::downgrade(&meanwhile));
        *lock(&meanwhile.work) = Some(work);
        allocation.forget_idle_queues();
        let meanwhile: Arc<dyn Queue> = meanwhile;
        let state = allocation.state();
        let mut kept = state.used.iter().map(|earlier| &earlier.queue);
        assert!(
            kept.any(|kept| Arc::ptr_eq(kept, &meanwhile)),
            "{is_of_pool}"
        );
    }
}

/// What is touched is in the machine's own figure, and not pending besides.
#[test]
fn memory_that_is_there_is_not_pending() {
    let budget = Budget::new(1 << 40, Watch::MachineForCpu);
    let mut reservation = budget.reserve(LARGE_BYTES).unwrap();
    assert_eq!(reservation.pending_bytes(), LARGE_BYTES);
    reservation.settle_part(1);
    let memory = RawMemory::empty(BufferKind::Host);
    let allocation = Allocation::new(Device::host(), memory, reservation);
    let reservation = allocation.reservation.as_ref().unwrap();
    assert_eq!(reservation.pending_bytes(), 0);
}
