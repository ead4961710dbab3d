//! A YUV 4:2:0 picture as the six planes a driving network takes.
//!
//! ```text
//! luma, height x width          planes, each height/2 x width/2
//!   a c a c                       0: a = Y[2r,   2c  ]
//!   b d b d                       1: b = Y[2r+1, 2c  ]
//!   a c a c                       2: c = Y[2r,   2c+1]
//!   b d b d                       3: d = Y[2r+1, 2c+1]
//!                                 4: U        5: V
//! ```
//!
//! A 512 x 256 picture gives 6 x 128 x 256. The order is that of openpilot's
//! `loadyuv` kernel, and that of the model inputs since 0.7.
//!
//! Deliberately absent: colour conversion; scaling is part of warping (`warp`).

use crate::OpenpilotError;

/// Planes of one picture.
pub const PLANES_PER_FRAME: usize = 6;
/// Rows of a plane of the driving networks.
pub const PLANE_HEIGHT: usize = 128;
/// Columns of a plane of the driving networks.
pub const PLANE_WIDTH: usize = 256;
/// Bytes of one picture's planes, for the driving networks.
pub const FRAME_BYTES: usize = PLANES_PER_FRAME * PLANE_HEIGHT * PLANE_WIDTH;

/// A planar YUV 4:2:0 picture with tightly packed rows (I420).
#[derive(Debug, Clone, Copy)]
pub struct Yuv420<'a> {
    /// Pixels per row; even.
    pub width: usize,
    /// Rows of pixels; an even number.
    pub height: usize,
    /// Luma (brightness), `[height, width]`.
    pub y: &'a [u8],
    /// Blue difference, `[height / 2, width / 2]`.
    pub u: &'a [u8],
    /// Red difference, `[height / 2, width / 2]`.
    pub v: &'a [u8],
}

/// The six planes of `frame`, `[6, height / 2, width / 2]`.
///
/// # Errors
///
/// [`OpenpilotError::FrameSize`] for odd or empty extents, [`OpenpilotError::Length`] if a
/// plane does not have the bytes its extents ask for.
///
/// # Examples
///
/// ```
/// use spark_openpilot::frame::{Yuv420, pack_yuv420};
/// let frame = Yuv420 { width: 2, height: 2, y: &[1, 3, 2, 4], u: &[5], v: &[6] };
/// assert_eq!(pack_yuv420(&frame)?, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), spark_openpilot::OpenpilotError>(())
/// ```
pub fn pack_yuv420(frame: &Yuv420<'_>) -> Result<Vec<u8>, OpenpilotError> {
    let n_plane = check(frame)?;
    let Yuv420 { width, y, u, v, .. } = *frame;
    let mut planes = Vec::with_capacity(PLANES_PER_FRAME * n_plane);
    for (first_row, first_column) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        for row in y.chunks_exact(width).skip(first_row).step_by(2) {
            planes.extend(row.iter().skip(first_column).step_by(2));
        }
    }
    planes.extend(u);
    planes.extend(v);
    Ok(planes)
}

/// Whether a frame is one; gives the samples of a chroma plane.
pub(super) fn check(frame: &Yuv420<'_>) -> Result<usize, OpenpilotError> {
    let Yuv420 {
        width,
        height,
        y,
        u,
        v,
    } = *frame;
    if width == 0 || height == 0 || width % 2 != 0 || height % 2 != 0 {
        return Err(OpenpilotError::FrameSize { width, height });
    }
    let n_luma = width
        .checked_mul(height)
        .ok_or(OpenpilotError::FrameSize { width, height })?;
    let n_plane = n_luma / 4;
    for (what, got, want) in [
        ("y", y.len(), n_luma),
        ("u", u.len(), n_plane),
        ("v", v.len(), n_plane),
    ] {
        if got != want {
            return Err(OpenpilotError::Length {
                what: what.to_owned(),
                got,
                want,
            });
        }
    }
    Ok(n_plane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_lands_where_the_formula_says() {
        let (width, height) = (8, 4);
        let y: Vec<u8> = (0..32).collect();
        let (u, v): (Vec<u8>, Vec<u8>) = ((100..108).collect(), (200..208).collect());
        let planes = pack_yuv420(&Yuv420 {
            width,
            height,
            y: &y,
            u: &u,
            v: &v,
        })
        .expect("a sound frame");
        let at = |plane: usize, r: usize, c: usize| planes[plane * 8 + r * 4 + c];
        for r in 0..2 {
            for c in 0..4 {
                let luma = |row: usize, column: usize| y[row * width + column];
                assert_eq!(at(0, r, c), luma(2 * r, 2 * c));
                assert_eq!(at(1, r, c), luma(2 * r + 1, 2 * c));
                assert_eq!(at(2, r, c), luma(2 * r, 2 * c + 1));
                assert_eq!(at(3, r, c), luma(2 * r + 1, 2 * c + 1));
                assert_eq!(at(4, r, c), u[r * 4 + c]);
                assert_eq!(at(5, r, c), v[r * 4 + c]);
            }
        }
    }

    #[test]
    fn a_frame_of_the_driving_networks_has_their_input_size() {
        let (y, c) = (vec![0; 512 * 256], vec![0; 256 * 128]);
        let frame = Yuv420 {
            width: 512,
            height: 256,
            y: &y,
            u: &c,
            v: &c,
        };
        assert_eq!(
            pack_yuv420(&frame).expect("a sound frame").len(),
            FRAME_BYTES
        );
    }

    #[test]
    fn odd_empty_short_and_overflowing_frames_are_refused() {
        let refuse = |width, height, y: &[u8], u: &[u8], v: &[u8]| {
            assert!(
                pack_yuv420(&Yuv420 {
                    width,
                    height,
                    y,
                    u,
                    v
                })
                .is_err()
            );
        };
        refuse(3, 2, &[0; 6], &[0], &[0]);
        refuse(0, 0, &[], &[], &[]);
        refuse(2, 2, &[0; 3], &[0], &[0]);
        refuse(2, 2, &[0; 4], &[0], &[]);
        refuse(usize::MAX - 1, usize::MAX - 1, &[0; 4], &[0], &[0]);
    }
}
