//! Whatever safe code does with a pool, it ends, and memory stays whole.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use spark_parallel::Pool;

/// Fails if `work` does not end: a test that hangs shows nothing.
#[track_caller]
fn ends(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    let timeout = Err(mpsc::RecvTimeoutError::Timeout);
    assert_ne!(told.recv_timeout(Duration::from_secs(60)), timeout, "hangs");
    if let Err(payload) = thread.join() {
        std::panic::resume_unwind(payload);
    }
}

fn sum(pool: &Pool, count: usize) -> usize {
    let sum = AtomicUsize::new(0);
    pool.run(count, |i| {
        sum.fetch_add(i + 1, Ordering::Relaxed);
    });
    sum.into_inner()
}

#[test]
fn a_task_runs_again_on_its_own_pool_and_on_others() {
    ends(|| {
        let (pool, other) = (Pool::new(3), Pool::new(2));
        let total = AtomicUsize::new(0);
        pool.run(8, |_| {
            let inner = sum(&pool, 10) + sum(&other, 10) + sum(spark_parallel::shared(), 10);
            other.run(2, |_| {
                total.fetch_add(inner + sum(&pool, 10), Ordering::Relaxed);
            });
        });
        assert_eq!(total.into_inner(), 8 * 2 * 4 * 55);
    });
}

#[test]
fn a_task_waits_for_a_thread_that_uses_its_pool() {
    ends(|| {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        pool.run(4, |_| {
            let other = std::thread::scope(|scope| scope.spawn(|| sum(&pool, 100)).join());
            total.fetch_add(other.expect("no panic"), Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 4 * 5050);
    });
}

#[test]
fn two_callers_hold_what_the_other_one_waits_for() {
    ends(|| {
        let pool = Pool::new(2);
        let (lock, started) = (Mutex::new(()), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = lock.lock().expect("no panic");
                started.wait();
                // The other caller may have the pool by now, and its tasks wait for `held`.
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(sum(&pool, 100), 5050);
                drop(held);
            });
            started.wait();
            pool.run(8, |_| drop(lock.lock()));
        });
    });
}

#[test]
fn many_callers_at_once_get_every_index_once() {
    ends(|| {
        let pool = Pool::new(3);
        std::thread::scope(|scope| {
            for caller in 0..6 {
                let pool = &pool;
                scope.spawn(move || {
                    for count in 0..300 {
                        let count = count + caller;
                        let hits: Vec<AtomicUsize> =
                            (0..count).map(|_| AtomicUsize::new(0)).collect();
                        pool.run(count, |i| {
                            hits[i].fetch_add(1, Ordering::Relaxed);
                        });
                        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    });
}

#[test]
fn a_second_caller_gets_the_pool_when_it_becomes_free() {
    ends(|| {
        let pool = Pool::new(2);
        let (first_has_it, first_may_end) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let slots = Mutex::new(Vec::new());
        let has_come = |slots: &Mutex<Vec<usize>>| slots.lock().expect("no panic").contains(&1);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                pool.run(2, |_| {
                    first_has_it.store(true, Ordering::Relaxed);
                    wait_for(&first_may_end);
                });
            });
            wait_for(&first_has_it);
            let first = Mutex::new(Some(first));
            pool.run_in_slots(20, |slot, i| {
                slots.lock().expect("no panic").push(slot);
                if i == 3 {
                    first_may_end.store(true, Ordering::Relaxed);
                    let first = first.lock().expect("no panic").take();
                    first.expect("one index is 3").join().expect("no panic");
                }
                // The worker may take its time to come; it has half of what is left.
                let began = Instant::now();
                while i > 3 && !has_come(&slots) && began.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
            });
        });
        let slots = slots.into_inner().expect("no panic");
        assert_eq!(slots.len(), 20);
        assert_eq!(slots[..4], [0; 4], "alone while the other one had it");
        assert!(slots[4..].contains(&1), "{slots:?}");
    });
}

#[test]
fn no_task_and_more_tasks_than_can_ever_be_done() {
    ends(|| {
        for threads in [0, 1, 3] {
            let pool = Pool::new(threads);
            pool.run(0, |_| unreachable!("there is no index"));
            pool.run_on(0, 0, |_| unreachable!("there is no index"));
            pool.for_each(std::iter::empty::<()>(), |()| unreachable!("no item"));
            assert!(pool.map(Vec::<u8>::new(), |x| x).is_empty());
            // A panic is the only end these have.
            for limit in [0, 1, 2, usize::MAX] {
                let begun = AtomicUsize::new(0);
                let result = catch_unwind(AssertUnwindSafe(|| {
                    pool.run_on(limit, usize::MAX, |_| {
                        assert!(begun.fetch_add(1, Ordering::Relaxed) < 1000, "enough");
                    });
                }));
                assert!(result.is_err());
                assert!(begun.into_inner() <= 1000 + pool.threads());
            }
            assert_eq!(sum(&pool, 100), 5050);
        }
    });
}

#[test]
fn counts_around_what_is_dealt_out_at_most() {
    let pool = Pool::new(3);
    for count in [65_534, 65_535, 65_536, 65_537, 200_001] {
        let hits: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        pool.run(count, |i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn panics_of_all_threads_at_once_leave_a_pool_that_works() {
    ends(|| {
        let pool = Pool::new(4);
        for round in 0..200 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, |i| std::panic::panic_any((round, i)));
            }));
            let payload = result.expect_err("all panic");
            let (of_round, index) = payload.downcast_ref::<(i32, usize)>().expect("ours");
            assert_eq!(*of_round, round, "not one of an earlier run");
            assert!(*index < 64);
            assert_eq!(sum(&pool, 64), 64 * 65 / 2);
        }
    });
}

#[test]
fn a_panic_in_a_nested_run_and_in_a_second_caller_stays_with_its_caller() {
    ends(|| {
        let pool = Pool::new(2);
        std::thread::scope(|scope| {
            let quiet = scope.spawn(|| (0..500).all(|_| sum(&pool, 50) == 50 * 51 / 2));
            for _ in 0..500 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    pool.run(8, |_| pool.run(8, |i| assert_ne!(i, 5)));
                }));
                assert!(result.is_err());
            }
            assert!(quiet.join().expect("no panic of another caller"));
        });
    });
}

#[test]
fn items_are_moved_into_the_tasks_and_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let pool = Pool::new(3);
    let dropped = AtomicUsize::new(0);
    let items = || (0..100).map(|_| Counted(&dropped));
    pool.for_each(items(), drop);
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.for_each(items(), |_item| panic!("with the item"));
    }));
    assert!(result.is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 200);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let count = AtomicUsize::new(0);
        pool.map(items(), |item| {
            assert!(count.fetch_add(1, Ordering::Relaxed) < 10);
            item
        })
    }));
    assert!(result.is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 300);
}

#[test]
fn results_are_in_the_order_of_the_items() {
    let pool = Pool::new(3);
    let got = pool.map(0..1000, |i| i * i);
    assert!(got.into_iter().eq((0..1000).map(|i| i * i)));
}

#[test]
fn no_more_threads_than_asked_for() {
    let pool = Pool::new(4);
    for (limit, most) in [(0, 1), (1, 1), (2, 2), (3, 3), (9, 4)] {
        let (now, greatest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let hits: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        pool.run_on(limit, hits.len(), |i| {
            let running = now.fetch_add(1, Ordering::SeqCst) + 1;
            greatest.fetch_max(running, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(50));
            now.fetch_sub(1, Ordering::SeqCst);
            hits[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
        assert!((1..=most).contains(&greatest.into_inner()), "{limit}");
    }
}

#[test]
fn one_thread_at_a_time_has_a_slot() {
    let pool = Pool::new(4);
    let taken: Vec<AtomicBool> = (0..pool.threads())
        .map(|_| AtomicBool::new(false))
        .collect();
    for _ in 0..50 {
        pool.run_in_slots(100, |slot, _| {
            assert!(!taken[slot].swap(true, Ordering::Acquire));
            std::hint::spin_loop();
            taken[slot].store(false, Ordering::Release);
        });
    }
}

#[test]
fn pools_are_made_and_dropped_everywhere() {
    ends(|| {
        for threads in 0..5 {
            drop(Pool::new(threads));
        }
        let outer = Pool::new(3);
        outer.run(9, |i| {
            let own = Pool::new(i % 4);
            assert_eq!(sum(&own, 10), 55);
        });
        // The last owner of a pool is a thread of another one, and what a panic carries.
        let pool = Arc::new(Pool::new(2));
        let items: Vec<_> = (0..4).map(|_| Arc::clone(&pool)).collect();
        drop(pool);
        outer.for_each(items, |pool| assert_eq!(sum(&pool, 10), 55));
        let pool = Arc::new(Pool::new(2));
        let inner = Arc::clone(&pool);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(2, |_| std::panic::panic_any(Arc::clone(&inner)));
        }));
        drop((pool, inner));
        drop(result.expect_err("both panic"));
    });
}

#[test]
fn the_shared_pool_is_one_and_serves_many() {
    let pool = spark_parallel::shared();
    assert!(std::ptr::eq(pool, spark_parallel::shared()));
    assert!(pool.threads() <= spark_parallel::usable_threads().get());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| assert_eq!(sum(pool, 100), 5050)));
        }
    });
}
