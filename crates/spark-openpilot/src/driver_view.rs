//! A camera's picture in the view of openpilot 0.8's driver monitoring networks.
//!
//! ```text
//! the middle of the picture, half as wide as high ──bilinear, rounded──> 320 x 640 ──packed──> planes 6 x 320 x 160
//! ```
//!
//! openpilot cuts the driver's side out of the picture of a camera that looks at the driver. The middle is cut out here, since no
//! recording of a driver is public, and what is left to calibrate or to tune on are pictures of the road.
//!
//! Deliberately absent: the networks of 2026, which take luma alone and look through a warp.

use crate::OpenpilotError;
use crate::frame::{Yuv420, check, pack_yuv420};

/// Columns of the view.
pub const VIEW_WIDTH: usize = 320;
/// Rows of the view.
pub const VIEW_HEIGHT: usize = 640;

/// The planes of the middle of a picture, `[6, 320, 160]`.
///
/// Between pixels it is bilinear by their centres, and rounded to bytes, ties to even.
///
/// # Errors
///
/// [`OpenpilotError::FrameSize`] for a picture whose middle is less than two samples of chroma wide or high,
/// [`OpenpilotError::FrameSize`] and [`OpenpilotError::Length`] for one that is none.
pub fn driver_planes(frame: &Yuv420<'_>) -> Result<Vec<u8>, OpenpilotError> {
    check(frame)?;
    let Yuv420 { width, height, .. } = *frame;
    let middle = (height / 2).min(width);
    let left = (width - middle) / 4 * 2;
    let columns = [left, left + middle];
    let of_chroma = columns.map(|column| column / 2);
    if of_chroma[1] - of_chroma[0] < 2 || height < 4 {
        return Err(OpenpilotError::FrameSize { width, height });
    }
    let y = scaled(frame.y, width, columns, [VIEW_WIDTH, VIEW_HEIGHT]);
    let half = [VIEW_WIDTH / 2, VIEW_HEIGHT / 2];
    let u = scaled(frame.u, width / 2, of_chroma, half);
    let v = scaled(frame.v, width / 2, of_chroma, half);
    pack_yuv420(&Yuv420 {
        width: VIEW_WIDTH,
        height: VIEW_HEIGHT,
        y: &y,
        u: &u,
        v: &v,
    })
}

/// What a byte of a plane is to networks that take floats: (byte - 128) / 128, which f16 holds exactly.
pub fn centred(byte: u8) -> f32 {
    (f32::from(byte) - 128.0) / 128.0
}

/// The `columns` from..to of a plane, scaled to `size` (columns, rows).
fn scaled(plane: &[u8], width: usize, [from, to]: [usize; 2], size: [usize; 2]) -> Vec<u8> {
    let (across, down) = (
        places(to - from, size[0]),
        places(plane.len() / width, size[1]),
    );
    let mut scaled = Vec::with_capacity(size[0] * size[1]);
    for &(row, below) in &down {
        let rows = [row, row + 1].map(|row| &plane[row * width + from..row * width + to]);
        for &(column, right) in &across {
            let [above, under] = rows.map(|row| {
                f64::from(row[column]) * (1.0 - right) + f64::from(row[column + 1]) * right
            });
            // Between bytes, so that it is one.
            scaled.push((above * (1.0 - below) + under * below).round_ties_even() as u8);
        }
    }
    scaled
}

/// For each of `n` places along an axis of `len` samples: the sample before, and how far it is behind that, from 0 to 1.
fn places(len: usize, n: usize) -> Vec<(usize, f64)> {
    let place = |i: usize| {
        let at = (i as f64 + 0.5) * len as f64 / n as f64 - 0.5;
        let before = at.floor().clamp(0.0, len as f64 - 2.0);
        (before as usize, (at - before).clamp(0.0, 1.0))
    };
    (0..n).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(
        width: usize,
        height: usize,
        y: &[u8],
        chroma: u8,
    ) -> Result<Vec<u8>, OpenpilotError> {
        let chroma = vec![chroma; width * height / 4];
        driver_planes(&Yuv420 {
            width,
            height,
            y,
            u: &chroma,
            v: &chroma,
        })
    }

    #[test]
    fn a_picture_of_twice_the_size_is_its_own_mean() {
        // The middle, 640 of 1280 rows, is exactly halved: each pixel is the mean of four.
        let (width, height) = (1300, 1280);
        let left = (width - 640) / 4 * 2;
        let at = |row: usize, column: usize| (7 * row + 13 * column) % 251;
        let y: Vec<u8> = (0..width * height)
            .map(|i| at(i / width, i % width) as u8)
            .collect();
        let got = planes(width, height, &y, 90).expect("a picture");
        assert_eq!(got.len(), 6 * 320 * 160);
        // Plane 2 holds even rows and odd columns.
        for (row, column) in [(0, 1), (10, 17), (638, 319)] {
            let (r, c) = (2 * row, left + 2 * column);
            let four = [at(r, c), at(r, c + 1), at(r + 1, c), at(r + 1, c + 1)];
            let mean = four.iter().sum::<usize>() as f64 / 4.0;
            let plane = &got[2 * 320 * 160..];
            let value = plane[row / 2 * 160 + column / 2];
            assert_eq!(f64::from(value), mean.round_ties_even(), "{row}, {column}");
        }
        assert!(got[4 * 320 * 160..].iter().all(|&value| value == 90));
    }

    #[test]
    fn what_has_no_middle_is_refused() {
        for (width, height) in [(2, 2), (4, 4), (2, 400), (0, 4), (7, 40)] {
            let y = vec![0; width * height];
            let refused = planes(width, height, &y, 0);
            assert!(
                matches!(refused, Err(OpenpilotError::FrameSize { .. })),
                "{width} x {height}: {refused:?}"
            );
        }
        assert!(planes(4, 8, &[1; 32], 1).is_ok());
    }

    #[test]
    fn grey_is_zero_and_f16_holds_every_byte() {
        assert_eq!([0, 128, 192].map(centred), [-1.0, 0.0, 0.5]);
        for byte in 0..=255 {
            assert_eq!(half::f16::from_f32(centred(byte)).to_f32(), centred(byte));
        }
    }
}
