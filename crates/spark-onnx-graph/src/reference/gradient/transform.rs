//! Gradients of the discrete Fourier transform and of determinants.
//!
//! ```text
//! Dft   linear: d result[k] / d signal[i] is a turn by i k / length, whichever way it is read
//! Det   d det(A) / d A[i][j] = (-1)^(i + j) * det(A without row i and column j)
//! ```

use std::f64::consts::TAU;

use super::super::determinant::determinant;
use super::super::index::Lines;
use super::super::operator::{Working, times};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{Det, Dft, resolve_dft};

impl Differentiate for Dft {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (x_shape, y_shape) = (at.shape(0)?, at.y_shape());
        let shape = resolve_dft(*self, x_shape, at.inputs.operand(1), at.inputs.operand(2))?;
        let n = shape.length;
        let scale = if self.inverse { n as f64 } else { 1.0 };
        let (dy, mut gradient) = (at.dy()?, at.zeros(0)?);
        let (from, to) = (
            Lines::new(x_shape, shape.axis),
            Lines::new(y_shape, shape.axis),
        );
        let n_inner = from.inner / shape.parts;
        for outer in 0..from.outer {
            for inner in 0..n_inner {
                for i in 0..shape.taken {
                    let (mut by_real, mut by_imaginary) = (0.0, 0.0);
                    for k in 0..shape.output {
                        let step = (i as u128 * k as u128 % n as u128) as f64;
                        let angle = if self.inverse { TAU } else { -TAU } * step / n as f64;
                        let (sin, cos) = angle.sin_cos();
                        let result = (outer * to.extent + k) * n_inner + inner;
                        let result = result * shape.output_parts;
                        // (re + i im) (cos + i sin)
                        by_real += dy[result] * cos;
                        by_imaginary -= dy[result] * sin;
                        if shape.output_parts == 2 {
                            by_real += dy[result + 1] * sin;
                            by_imaginary += dy[result + 1] * cos;
                        }
                    }
                    if self.one_sided && self.inverse {
                        // Frequencies but 0 and half the length stand for their mirror images too.
                        let is_own_image = i == 0 || 2 * i == n;
                        by_real *= if is_own_image { 1.0 } else { 2.0 };
                        by_imaginary *= if is_own_image { 0.0 } else { 2.0 };
                    }
                    let element = (outer * from.extent + i) * n_inner + inner;
                    let element = element * shape.parts;
                    gradient[element] = by_real / scale;
                    if shape.parts == 2 {
                        gradient[element + 1] = by_imaginary / scale;
                    }
                }
            }
        }
        Ok(gradient)
    }
}

impl Differentiate for Det {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let n = at.shape(0)?.last().copied().unwrap_or(0);
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let mut gradient = at.zeros(0)?;
        if n == 0 {
            return Ok(gradient);
        }
        for (matrix_idx, dy) in dy.iter().enumerate() {
            let first = matrix_idx * n * n;
            for (row, column) in (0..n).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let rest = (0..n * n).filter(|i| i / n != row && i % n != column);
                let minor = determinant(rest.map(|i| x[first + i]).collect(), n - 1);
                let sign = if (row + column).is_multiple_of(2) {
                    1.0
                } else {
                    -1.0
                };
                gradient[first + row * n + column] = sign * minor * dy;
            }
        }
        Ok(gradient)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 64))
    }
}
