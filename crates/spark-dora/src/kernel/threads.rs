//! Work dealt out among the threads of the process's pool, without changing a bit of any result.
//!
//! ```text
//! item    a part of the results, and whatever else one thread alone writes
//! rule    every element of a result is the same chain of operations whatever the number of items, so
//!         items are runs of rows, columns, channels; what is summed is never cut
//! ```
//!
//! Passes with little to multiply stay on one thread: waking another takes longer.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use spark_parallel::{shared, usable_threads};

/// Most threads of a pass; 0 is as many as the process may use.
static LIMIT: AtomicUsize = AtomicUsize::new(1);

/// Fewest multiplications that are worth a thread of their own.
const WORTHWHILE: usize = 1 << 20;

/// How many threads passes of this crate's layers use, the caller's included, in the whole process: one unless this
/// is called; 0 is as many as the process may use. Passes with little to multiply stay on one.
///
/// Results do not depend on it: their bits are the same for every number of threads. On a machine whose processors
/// are taken by others, more than one thread makes a pass slower, since it waits for all of them.
pub fn set_threads(limit: usize) {
    LIMIT.store(limit, Ordering::Relaxed);
}

/// Threads that `work` multiplications are worth.
pub(crate) fn worth(work: usize) -> usize {
    if work < 2 * WORTHWHILE {
        return 1;
    }
    let limit = match LIMIT.load(Ordering::Relaxed) {
        0 => usable_threads().get(),
        limit => limit,
    };
    limit.min(work / WORTHWHILE)
}

/// Cuts `0..len` into at most `parts` runs whose ends are multiples of `step`, about as long as each other.
pub(crate) fn runs(len: usize, step: usize, parts: usize) -> Vec<Range<usize>> {
    let steps = len.div_ceil(step);
    let parts = parts.min(steps).max(1);
    let end = |part: usize| (steps * part / parts * step).min(len);
    (0..parts).map(|part| end(part)..end(part + 1)).collect()
}

/// Calls `f` with every item, on at most `threads` threads.
pub(crate) fn for_each<I: Send>(threads: usize, items: Vec<I>, f: impl Fn(I) + Sync) {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().for_each(f);
    }
    let items: Vec<_> = items.into_iter().map(|i| Mutex::new(Some(i))).collect();
    shared().run_on(threads, items.len(), |index| {
        // Each index is run once, so that the item is there.
        let item = items[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        item.into_iter().for_each(&f);
    });
}

/// What `f` gives for every item, in their order.
pub(crate) fn map<I: Send, R: Send>(
    threads: usize,
    items: Vec<I>,
    f: impl Fn(I) -> R + Sync,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let places = items.into_iter().zip(&mut results).collect();
    for_each(threads, places, |(item, place)| *place = Some(f(item)));
    results.into_iter().flatten().collect()
}

/// Cuts `data` at the ends of `runs`, each of which has `width` elements per position.
pub(crate) fn cut<'a, T>(
    mut data: &'a mut [T],
    runs: &[Range<usize>],
    width: usize,
) -> Vec<&'a mut [T]> {
    let parts = runs.iter().map(|run| {
        let (part, rest) = std::mem::take(&mut data).split_at_mut(run.len() * width);
        data = rest;
        part
    });
    parts.collect()
}

/// Copies parts, each of the columns of its run, side by side into the rows of `to`, `[rows, columns]`.
pub(crate) fn join_columns<T: Copy>(
    runs: &[Range<usize>],
    parts: &[Vec<T>],
    to: &mut [T],
    columns: usize,
) {
    for (run, part) in runs.iter().zip(parts) {
        let rows = to.chunks_mut(columns.max(1));
        let rows = rows.zip(part.chunks(run.len().max(1)));
        rows.for_each(|(to, part)| to[run.clone()].copy_from_slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_everything_once_and_end_at_steps() {
        for (len, step, parts) in [(0, 4, 3), (1, 64, 2), (100, 64, 2), (640, 64, 3), (7, 1, 9)] {
            let runs = runs(len, step, parts);
            assert!(!runs.is_empty() && runs.len() <= parts);
            let mut next = 0;
            for run in &runs {
                assert_eq!(run.start, next);
                assert!(run.end.is_multiple_of(step) || run.end == len);
                next = run.end;
            }
            assert_eq!(next, len);
        }
    }

    #[test]
    fn threads_are_bounded_by_the_work_and_by_the_limit() {
        for limit in [1, 3, 7] {
            set_threads(limit);
            assert_eq!(worth(WORTHWHILE), 1);
            assert_eq!(worth(2 * WORTHWHILE), limit.min(2));
            assert_eq!(worth(usize::MAX), limit);
        }
        set_threads(0);
        assert_eq!(worth(usize::MAX), usable_threads().get());
        set_threads(1);
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let squares = map(4, (0..100).collect(), |i: usize| i * i);
        assert!(squares.iter().enumerate().all(|(i, s)| i * i == *s));
        let mut data = [0; 10];
        let runs = runs(5, 1, 3);
        for (part, value) in cut(&mut data, &runs, 2).into_iter().zip(1..) {
            part.fill(value);
        }
        assert_eq!(data, [1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let parts = [vec![1, 6], vec![2, 3, 7, 8], vec![4, 5, 9, 10]];
        join_columns(&runs, &parts, &mut data, 5);
        assert_eq!(data, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
