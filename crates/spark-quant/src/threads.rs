//! Splits slices over threads without changing any result.
//!
//! ```text
//! src  |----- part 0 -----|----- part 1 -----| ... every part a whole number of granules
//! dst  |-- part 0 --|-- part 1 --| ...
//! ```
//!
//! Each part is an independent call of the same function, so the bits written do not depend on the
//! number of parts, nor on who runs them: the pool that the process shares, as many threads at a time
//! as there are parts. A [`ExecutionPolicy`] holds no pool, so that it stays a plain value and two of them are no
//! more threads than one. A caller with its own pool passes a one-thread [`ExecutionPolicy`] and splits rows itself.

use spark_parallel::shared;

use crate::simd::ExecutionPolicy;

/// Calls `work` on parts of `dst`, each with the index of its first granule; `work_bytes` is what the
/// whole call reads and writes.
pub(crate) fn for_parts<B: Send>(
    policy: ExecutionPolicy,
    dst: &mut [B],
    granule: usize,
    work_bytes: usize,
    work: impl Fn(usize, &mut [B]) + Sync,
) {
    let n_granules = dst.len().div_ceil(granule);
    let parts = n_parts(policy, n_granules, work_bytes);
    if parts == 1 {
        return work(0, dst);
    }
    let per_part = n_granules.div_ceil(parts);
    let dst_parts = dst.chunks_mut(per_part * granule).enumerate();
    shared().for_each(dst_parts, |(part, dst)| work(part * per_part, dst));
}

/// Fewest source bytes that are worth a part of their own.
const MIN_BYTES_PER_THREAD: usize = 1 << 18;

/// How many of `src` elements go with how many of `dst`, at the finest possible cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granule {
    pub(crate) src: usize,
    pub(crate) dst: usize,
}

/// Number of parts for `n_granules` granules over `src_bytes` bytes in total.
fn n_parts(policy: ExecutionPolicy, n_granules: usize, src_bytes: usize) -> usize {
    policy
        .threads()
        .min(src_bytes / MIN_BYTES_PER_THREAD)
        .min(n_granules)
        .max(1)
}

/// Calls `work` on matching parts of `src` and `dst`.
pub(crate) fn zip_parts<A: Sync, B: Send>(
    policy: ExecutionPolicy,
    src: &[A],
    dst: &mut [B],
    granule: Granule,
    work: impl Fn(&[A], &mut [B]) + Sync,
) {
    let n_granules = src.len().div_ceil(granule.src);
    let parts = n_parts(policy, n_granules, size_of_val(src).max(size_of_val(dst)));
    if parts == 1 {
        return work(src, dst);
    }
    let per_part = n_granules.div_ceil(parts);
    let src_parts = src.chunks(per_part * granule.src);
    let dst_parts = dst.chunks_mut(per_part * granule.dst);
    shared().for_each(src_parts.zip(dst_parts), |(src, dst)| work(src, dst));
}

/// How many of `src` go with how many of each of two outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granule2 {
    pub(crate) src: usize,
    pub(crate) dst: [usize; 2],
}

/// Calls `work` on matching parts of `src`, `dst_a` and `dst_b`.
pub(crate) fn zip_parts_2<A: Sync, B: Send, C: Send>(
    policy: ExecutionPolicy,
    src: &[A],
    dst_a: &mut [B],
    dst_b: &mut [C],
    granule: Granule2,
    work: impl Fn(&[A], &mut [B], &mut [C]) + Sync,
) {
    let n_granules = src.len().div_ceil(granule.src);
    let parts = n_parts(policy, n_granules, size_of_val(src));
    if parts == 1 {
        return work(src, dst_a, dst_b);
    }
    let per_part = n_granules.div_ceil(parts);
    let src_parts = src.chunks(per_part * granule.src);
    let a_parts = dst_a.chunks_mut(per_part * granule.dst[0]);
    let b_parts = dst_b.chunks_mut(per_part * granule.dst[1]);
    let parts = src_parts.zip(a_parts).zip(b_parts);
    shared().for_each(parts, |((src, dst_a), dst_b)| work(src, dst_a, dst_b));
}

/// Calls `work` on matching parts of two inputs and one output.
pub(crate) fn zip_parts_from_2<A: Sync, B: Sync, C: Send>(
    policy: ExecutionPolicy,
    src_a: &[A],
    src_b: &[B],
    dst: &mut [C],
    granule: Granule2,
    work: impl Fn(&[A], &[B], &mut [C]) + Sync,
) {
    let n_granules = dst.len().div_ceil(granule.src);
    let parts = n_parts(policy, n_granules, size_of_val(dst));
    if parts == 1 {
        return work(src_a, src_b, dst);
    }
    let per_part = n_granules.div_ceil(parts);
    let a_parts = src_a.chunks(per_part * granule.dst[0]);
    let b_parts = src_b.chunks(per_part * granule.dst[1]);
    let dst_parts = dst.chunks_mut(per_part * granule.src);
    let parts = a_parts.zip(b_parts).zip(dst_parts);
    shared().for_each(parts, |((src_a, src_b), dst)| work(src_a, src_b, dst));
}

/// Calls `work` on parts of `src` and returns what each gave, in order.
pub(crate) fn map_parts<A: Sync, R: Send>(
    policy: ExecutionPolicy,
    src: &[A],
    granule: usize,
    work: impl Fn(&[A]) -> R + Sync,
) -> Vec<R> {
    let n_granules = src.len().div_ceil(granule);
    let parts = n_parts(policy, n_granules, size_of_val(src));
    if parts == 1 {
        return vec![work(src)];
    }
    let per_part = n_granules.div_ceil(parts) * granule;
    shared().map(src.chunks(per_part), work)
}
