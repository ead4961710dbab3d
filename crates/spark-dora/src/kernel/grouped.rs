//! The effective weight `W' = g V`, `V = W + s B A`, and gradients through it.
//!
//! ```text
//! dV = g dW'     dA = s B^T dV     dB = s dV A^T     dm_j = dW'_j . V_j / |V_j|
//! ```
//!
//! Grouped and depthwise convolutions go this way: A, shared by all groups, would have to be applied
//! once per group, while their weights are small beside their pictures.

use super::{LowRank, Real};

/// `V`, `[out, depth]`.
pub(crate) fn updated<T: Real>(weight: &[T], low: LowRank<'_, T>, depth: usize) -> Vec<T> {
    let mut v = weight.to_vec();
    if low.rank == 0 {
        return v;
    }
    for (row, b) in v.chunks_mut(depth.max(1)).zip(low.b.chunks(low.rank)) {
        for (&b, a) in b.iter().zip(low.a.chunks(depth)) {
            let factor = low.scaling * b;
            for (v, &a) in row.iter_mut().zip(a) {
                *v += factor * a;
            }
        }
    }
    v
}

/// `gain` times the rows of `v`.
pub(crate) fn scaled<T: Real>(v: &[T], gain: Option<&[T]>, depth: usize) -> Vec<T> {
    let mut scaled = v.to_vec();
    if let Some(gain) = gain {
        for (row, &gain) in scaled.chunks_mut(depth.max(1)).zip(gain) {
            row.iter_mut().for_each(|v| *v *= gain);
        }
    }
    scaled
}

/// `(dA, dB)` from the gradient of the effective weight.
pub(crate) fn factor_gradients<T: Real>(
    dw: &[T],
    low: LowRank<'_, T>,
    gain: Option<&[T]>,
    depth: usize,
) -> (Vec<T>, Vec<T>) {
    let mut da = vec![T::zero(); low.a.len()];
    let mut db = vec![T::zero(); low.b.len()];
    if low.rank == 0 {
        return (da, db);
    }
    for (j, dw) in dw.chunks(depth.max(1)).enumerate() {
        let factor = low.scaling * gain.map_or(T::one(), |g| g[j]);
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
