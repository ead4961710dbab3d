//! The order in which a kernel visits a large input: four pages side by side.
//!
//! ```text
//! memory   page 0        page 1        page 2        page 3       | page 4 ...
//!          a0 a1 a2 a3   b0 b1 b2 b3   c0 c1 c2 c3   d0 d1 d2 d3  |
//! visited  a0 b0 c0 d0   a1 b1 c1 d1   a2 b2 c2 d2   a3 b3 c3 d3  | e0 ...
//! ```
//!
//! A core reads memory as fast as it has requests under way, and its prefetcher follows each page
//! separately and stops at the page's end. Four pages at a time keep four of its streams busy, and a
//! request for the same place four pages on starts the next ones. A piece may be as short as four
//! cache lines. Which order is used changes no result: every piece is done on its own, or goes into a
//! maximum.

/// Pages that are read side by side.
const PAGES: usize = 4;
/// The smallest page of the supported systems; on larger ones the order does no harm.
const PAGE_BYTES: usize = 4096;
/// How far on the next visit to the same place of a page is.
pub(crate) const PAGES_AHEAD_BYTES: isize = (PAGES * PAGE_BYTES) as isize;
/// Values of the smallest piece: four cache lines.
pub(crate) const PIECE: usize = 64;
/// Smallest pieces of a page.
pub(crate) const PIECES: usize = PAGE_BYTES / size_of::<f32>() / PIECE;
/// Values of four pages.
pub(crate) const WINDOW: usize = PAGES * PAGE_BYTES / size_of::<f32>();

/// The piece to visit at `step` out of `n`, where a page holds `PER_PAGE` pieces. Each piece is visited
/// once; what does not fill four pages comes last and in order.
#[inline(always)]
pub(crate) fn page_interleaved<const PER_PAGE: usize>(step: usize, n: usize) -> usize {
    let window = PAGES * PER_PAGE;
    let begin = step / window * window;
    if begin + window > n {
        return step;
    }
    let inside = step % window;
    begin + inside % PAGES * PER_PAGE + inside / PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<const PER_PAGE: usize>() {
        for n in 0..100 {
            let mut visits = vec![0; n];
            for step in 0..n {
                visits[page_interleaved::<PER_PAGE>(step, n)] += 1;
            }
            assert!(visits.iter().all(|visits| *visits == 1), "{n}: {visits:?}");
        }
    }

    #[test]
    fn every_piece_is_visited_once() {
        check::<1>();
        check::<2>();
        check::<4>();
        let order: Vec<usize> = (0..18)
            .map(|step| page_interleaved::<4>(step, 18))
            .collect();
        assert_eq!(
            order,
            [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 16, 17]
        );
    }
}
