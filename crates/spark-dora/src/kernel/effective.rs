//! The effective weight `W' = g V`, `V = W + s B A`, and gradients through it.
//!
//! ```text
//! dV = g dW'     dA = s B^T dV     dB = s dV A^T     dm_j = dW'_j . V_j / |V_j|
//! ```
//!
//! Convolutions go this way where their weights are small beside their pictures. Grouped and depthwise
//! ones always do, with the gradient of the weight: A, shared by all groups, would have to be applied
//! once per group.

use super::block::{Block, panels};
use super::{LowRank, Real, threads};

/// The updated weight `V = W + s B A`, `[out, depth]`.
pub(crate) fn updated<T: Real>(weight: &[T], low: LowRank<'_, T>, depth: usize) -> Vec<T> {
    let mut v = weight.to_vec();
    if low.rank > 0 && depth > 0 {
        let threads = threads::worth(weight.len() * low.rank);
        let runs = threads::runs(weight.len() / depth, 1, threads);
        let items = runs.iter().cloned().zip(threads::cut(&mut v, &runs, depth));
        threads::for_each(threads, items.collect(), |(rows, v)| {
            let mut block = Block::new();
            for (first, count) in panels::<T>(depth) {
                block.fill_rows(low.rank, count, &low.a[first..], depth, None);
                let scaling = low.scaling;
                block.as_mut_slice().iter_mut().for_each(|a| *a *= scaling);
                let b = (&low.b[rows.start * low.rank..], low.rank);
                block.multiply(b, (&mut v[first..], depth), rows.len(), true);
            }
        });
    }
    v
}

/// Multiplies the rows of `v` by the DoRA scale `dora_scale`.
pub(crate) fn scale<T: Real>(v: &mut [T], dora_scale: Option<&[T]>, depth: usize) {
    if let Some(dora_scale) = dora_scale {
        for (row, &dora_scale) in v.chunks_mut(depth.max(1)).zip(dora_scale) {
            row.iter_mut().for_each(|v| *v *= dora_scale);
        }
    }
}

/// The effective weight `W' = g V`, `[out, depth]`; no `dora_scale` is a `g` of 1.
pub(crate) fn weight<T: Real>(
    weight: &[T],
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
    depth: usize,
) -> Vec<T> {
    let mut v = updated(weight, low, depth);
    scale(&mut v, dora_scale, depth);
    v
}

/// `(dA, dB)` from the gradient of the effective weight.
pub(crate) fn factor_gradients<T: Real>(
    dw: &[T],
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
    depth: usize,
) -> (Vec<T>, Vec<T>) {
    let mut da = vec![T::zero(); low.a.len()];
    let mut db = vec![T::zero(); low.b.len()];
    if low.rank == 0 {
        return (da, db);
    }
    for (j, dw) in dw.chunks(depth.max(1)).enumerate() {
        let factor = low.scaling * dora_scale.map_or(T::one(), |g| g[j]);
        for l in 0..low.rank {
            let a = &low.a[l * depth..][..depth];
            let weight = factor * low.b[j * low.rank + l];
            let mut sum = T::zero();
            for ((da, &a), &dw) in da[l * depth..].iter_mut().zip(a).zip(dw) {
                *da += weight * dw;
                sum += dw * a;
            }
            db[j * low.rank + l] = factor * sum;
        }
    }
    (da, db)
}

/// `dm`; a row of length zero gets none.
pub(crate) fn magnitude_gradient<T: Real>(
    dw: &[T],
    v: &[T],
    norms: &[f64],
    depth: usize,
) -> Vec<f64> {
    let rows = dw.chunks(depth.max(1)).zip(v.chunks(depth.max(1)));
    let gradient = |((dw, v), &norm): ((&[T], &[T]), &f64)| {
        if norm == 0.0 {
            return 0.0;
        }
        let products = dw.iter().zip(v).map(|(d, v)| d.to_f64() * v.to_f64());
        products.sum::<f64>() / norm
    };
    rows.zip(norms).map(gradient).collect()
}
