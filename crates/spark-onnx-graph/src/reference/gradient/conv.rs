//! Gradients of convolution and its transpose, over any number of spatial axes.
//!
//! ```text
//! wherever tap k lies on element i for result o:   dx[n, c, i] += w[m, c, k] * dy[n, m, o]
//!                                                  dw[m, c, k] += x[n, c, i] * dy[n, m, o]
//! dbias[m] = sum of dy[:, m, :]
//! ```
//!
//! Of the transpose the same, with w[c, m, k].

use super::super::conv::{for_each_contact, from_result, tap_count};
use super::super::index::for_each_position;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated, no_operand};
use crate::graph::{
    Conv, ConvTranspose, OpError, WindowAxis, conv_transpose_windows, conv_windows,
};

impl Differentiate for Conv {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (x, w) = (at.shape(0)?, at.shape(1)?);
        let windows = conv_windows(self, &x[2..], &w[2..])?;
        let (group_out, group_in) = (w[0] / self.groups, w[1]);
        let pairs = (0..w[0]).flat_map(|m| {
            let first = m / group_out * group_in;
            (0..group_in).map(move |c| Pair {
                result: m,
                operand: first + c,
                filter: m * group_in + c,
            })
        });
        let pairs: Vec<Pair> = pairs.collect();
        gradient(at, operand, &pairs, |tap, meet| {
            for_each_contact(&windows, tap, meet);
        })
    }
}

impl Differentiate for ConvTranspose {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (x, w) = (at.shape(0)?, at.shape(1)?);
        let windows: Vec<WindowAxis> =
            from_result(&conv_transpose_windows(self, &x[2..], &w[2..])?);
        let (group_in, group_out) = (x[1] / self.conv.groups, w[1]);
        let pairs = (0..x[1]).flat_map(|c| {
            let first = c / group_in * group_out;
            (0..group_out).map(move |m| Pair {
                result: first + m,
                operand: c,
                filter: c * group_out + m,
            })
        });
        let pairs: Vec<Pair> = pairs.collect();
        gradient(at, operand, &pairs, |tap, meet| {
            for_each_contact(&windows, tap, |i, o| meet(o, i));
        })
    }
}

/// A channel of the result and one of the operand, and the filter between them.
struct Pair {
    result: usize,
    operand: usize,
    filter: usize,
}

/// `contacts` calls with every result position and the operand's that a tap lies on.
fn gradient(
    at: &At<'_>,
    operand: usize,
    pairs: &[Pair],
    contacts: impl Fn(&[usize], &mut dyn FnMut(usize, usize)),
) -> Result<Vec<f64>, OpError> {
    let (x, w, dy) = (at.floats(0)?, at.floats(1)?, at.dy()?);
    let (x_shape, w_shape, y_shape) = (at.shape(0)?, at.shape(1)?, at.y_shape());
    let x_plane: usize = x_shape[2..].iter().product();
    let y_plane: usize = y_shape[2..].iter().product();
    let mut gradient = at.zeros(operand)?;
    if operand == 2 {
        for (i, dy) in dy.iter().enumerate() {
            gradient[i / y_plane % y_shape[1]] += dy;
        }
        return Ok(gradient);
    }
    if operand > 2 {
        return Err(no_operand(operand));
    }
    for n in 0..x_shape[0] {
        for pair in pairs {
            let x_first = (n * x_shape[1] + pair.operand) * x_plane;
            let y_first = (n * y_shape[1] + pair.result) * y_plane;
            let mut tap_idx = pair.filter * tap_count(w_shape);
            for_each_position(&w_shape[2..], |tap| {
                contacts(tap, &mut |o, i| {
                    if operand == 0 {
                        gradient[x_first + i] += w[tap_idx] * dy[y_first + o];
                    } else {
                        gradient[tap_idx] += x[x_first + i] * dy[y_first + o];
                    }
                });
                tap_idx += 1;
            });
        }
    }
    Ok(gradient)
}
