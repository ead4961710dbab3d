//! Walking over the positions of a tensor.

/// Elements between neighbours along every axis of a row-major tensor.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Strides of a tensor of `shape` seen as one of `target`, to which it broadcasts.
pub(super) fn broadcast_strides(shape: &[usize], target: &[usize]) -> Vec<usize> {
    let missing = target.len() - shape.len();
    let own = strides(shape);
    (0..target.len())
        .map(|axis| match axis.checked_sub(missing) {
            Some(own_axis) if shape[own_axis] != 1 => own[own_axis],
            _ => 0,
        })
        .collect()
}

/// Calls `visit` with every position of `shape`, last axis fastest.
pub(super) fn for_each_position(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut position = vec![0; shape.len()];
    loop {
        visit(&position);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            position[axis] += 1;
            if position[axis] < shape[axis] {
                break;
            }
            position[axis] = 0;
        }
    }
}

/// Where `position` lies in a tensor of the given strides.
pub(super) fn offset(position: &[usize], strides: &[usize]) -> usize {
    position.iter().zip(strides).map(|(p, s)| p * s).sum()
}

/// A tensor seen as `[outer, extent, inner]` around one axis.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) outer: usize,
    pub(super) extent: usize,
    pub(super) inner: usize,
}

impl Lines {
    pub(super) fn new(shape: &[usize], axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            extent: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Calls `visit` with the offsets of the elements of every line along the axis.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&[usize])) {
        if self.outer == 0 || self.inner == 0 {
            return;
        }
        let mut line = vec![0; self.extent];
        for outer in 0..self.outer {
            for inner in 0..self.inner {
                for (i, at) in line.iter_mut().enumerate() {
                    *at = (outer * self.extent + i) * self.inner + inner;
                }
                visit(&line);
            }
        }
    }
}
