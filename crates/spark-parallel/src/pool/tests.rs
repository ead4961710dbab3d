//! Every index once, panics, sleep, slots; what safe code may do is in `tests/safe_use.rs`.

use super::*;

#[test]
fn every_index_runs_once_whatever_the_thread_count() {
    for threads in 1..=4 {
        let pool = Pool::new(threads);
        for count in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            pool.run(count, |i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn no_number_of_threads_is_too_many() {
    let pool = Pool::new(usize::MAX);
    assert!((1..=Pool::MAX_THREADS).contains(&pool.threads()));
    let sum = AtomicUsize::new(0);
    pool.run(5000, |i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    assert_eq!(sum.into_inner(), 4999 * 2500);
}

#[test]
fn sleeping_workers_wake_up() {
    let pool = Pool::new(3);
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let sum = AtomicUsize::new(0);
        pool.run(100, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
    }
}

#[test]
fn a_panic_reaches_the_caller_with_what_it_carries_and_the_pool_lives_on() {
    let pool = Pool::new(2);
    for refused in [0, 25, 49] {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(50, |i| {
                if i == refused {
                    std::panic::panic_any(i);
                }
            });
        }));
        let payload = result.expect_err("an index is refused");
        assert_eq!(payload.downcast_ref(), Some(&refused));
        let sum = AtomicUsize::new(0);
        pool.run(10, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }
}

/// Something that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn payloads_that_panic_when_dropped_leave_no_index_behind() {
    let pool = Pool::new(2);
    for _ in 0..20 {
        let done = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(50, |_| {
                done.fetch_add(1, Ordering::Relaxed);
                std::panic::panic_any(Bomb);
            });
        }));
        assert!((1..=50).contains(&done.into_inner()));
        // Nobody is in the pool any more.
        let sum = AtomicUsize::new(0);
        pool.run(100, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
        std::mem::forget(result);
    }
}

#[test]
fn a_smaller_pool_inside_a_larger_one_gives_its_own_slots() {
    let outer = Pool::new(4);
    let inner = Pool::new(2);
    // Every thread of the outer pool holds its first index until all have one.
    let begun = AtomicUsize::new(0);
    let greatest = AtomicUsize::new(0);
    outer.run(4, |_| {
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < 4 {
            std::thread::yield_now();
        }
        inner.run_in_slots(3, |slot, _| {
            greatest.fetch_max(slot, Ordering::Relaxed);
        });
    });
    assert!(greatest.into_inner() < inner.threads());
}

#[test]
fn nested_runs_are_done_inline() {
    let pool = Pool::new(2);
    let sum = AtomicUsize::new(0);
    pool.run(4, |_| {
        pool.run(5, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
    });
    assert_eq!(sum.into_inner(), 40);
}

#[test]
fn workers_that_are_not_needed_sleep_on() {
    let pool = Pool::new(4);
    let asleep = || pool.shared.asleep.load(Ordering::Relaxed);
    while asleep() < 3 {
        std::thread::yield_now();
    }
    // Two indices of which each waits for the other one to begin: one worker comes.
    let begun = AtomicUsize::new(0);
    pool.run(2, |_| {
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
    });
    assert!(asleep() >= 2);
}

#[test]
fn a_caller_that_waits_long_sleeps_and_is_woken() {
    let pool = Pool::new(2);
    let worker_has_one = AtomicBool::new(false);
    let caller_has_slept = AtomicBool::new(false);
    pool.run_in_slots(2, |slot, _| {
        if slot == 0 {
            // The other index is not to be stolen.
            while !worker_has_one.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            return;
        }
        worker_has_one.store(true, Ordering::Relaxed);
        while !pool.shared.caller_asleep.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        caller_has_slept.store(true, Ordering::Relaxed);
    });
    assert!(caller_has_slept.into_inner());
    assert!(!pool.shared.caller_asleep.load(Ordering::Relaxed));
}

#[test]
fn a_worker_that_has_slept_through_all_epochs_sees_the_end() {
    let pool = Pool::new(2);
    while pool.shared.asleep.load(Ordering::Relaxed) < 1 {
        std::thread::yield_now();
    }
    // Shares are at epoch 0, which the worker has seen, and dropping goes on to the same one.
    *lock(&pool.turn) = u32::MAX;
    drop(pool);
}

#[test]
fn a_worker_has_the_stack_that_a_first_thread_has() {
    /// Touches that many arrays of 64 KiB, one in each frame.
    #[inline(never)]
    fn deep(frames: usize) -> u64 {
        let array = std::hint::black_box([1_u8; 1 << 16]);
        let below = if frames == 0 { 0 } else { deep(frames - 1) };
        below + u64::from(std::hint::black_box(&array)[frames])
    }
    let on_a_worker = AtomicBool::new(false);
    Pool::new(2).run_in_slots(2, |slot, _| {
        if slot == 0 {
            // The worker does the other index.
            while !on_a_worker.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        } else {
            assert_eq!(deep(40), 41, "more than the 2 MiB of other threads");
            on_a_worker.store(true, Ordering::Relaxed);
        }
    });
}
