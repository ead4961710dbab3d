//! Camera pictures as the driving networks look at them: warped into the model's view.
//!
//! ```text
//! model pixel (u, v, 1) --M^-1--> ray --V^-1--> calibrated frame --rot(rpy)--> device --V--> --K--> camera pixel
//! W = K V rot(rpy) V^-1 M^-1,  divided by the third component
//!
//! sample: positions in 1/32 pixel, bilinear with weights of 15 bits, edges repeated
//! chroma: the same with W between half-size planes
//! ```
//!
//! Resampling follows the arithmetic of openpilot's kernel: the matrix is rounded to
//! f32 and positions are computed in f32. Pixel centres lie at whole numbers in luma, and chroma
//! samples between four of them.
//!
//! Sources: openpilot `common/transformations/{camera,model,orientation}.py` for intrinsics and
//! frames, `selfdrive/modeld/transforms/transform.cl` for the resampling.
//!
//! Deliberately absent: lens distortion (the device's pictures are used as pinhole pictures),
//! and the calibration itself.

use crate::OpenpilotError;
use crate::frame::{PLANE_HEIGHT, PLANE_WIDTH, Yuv420, pack_yuv420};

/// A 3 x 3 matrix, row by row.
pub type Matrix = [[f64; 3]; 3];

/// Columns of a model picture.
pub const MODEL_WIDTH: usize = 2 * PLANE_WIDTH;
/// Rows of a model picture.
pub const MODEL_HEIGHT: usize = 2 * PLANE_HEIGHT;

/// From the device's axes (x forward, y right, z down) to the camera's (x right, y down, z forward).
const VIEW_FROM_DEVICE: Matrix = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]];

/// A pinhole camera: size of its pictures and what its lens does, without distortion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pinhole {
    /// Pixels in a row.
    pub width: usize,
    /// Rows of the picture.
    pub height: usize,
    /// Focal length in pixels.
    pub focal: f64,
    /// Column and row of the optical axis.
    pub centre: [f64; 2],
}

impl Pinhole {
    /// Road camera of comma three and later with AR0231 or OX03C10.
    pub const ROAD: Self = Self::centred(1928, 1208, 2648.0);
    /// Wide and driver cameras of the same.
    pub const WIDE: Self = Self::centred(1928, 1208, 567.0);
    /// Road camera with OS04C10.
    pub const ROAD_OS04C10: Self = Self::centred(1344, 760, 1522.0 * 3.0 / 4.0);
    /// Wide and driver cameras with OS04C10.
    pub const WIDE_OS04C10: Self = Self::centred(1344, 760, 567.0 / 4.0 * 3.0);
    /// Road camera of the EON.
    pub const ROAD_NEO: Self = Self::centred(1164, 874, 910.0);
    /// View of the networks' `img`.
    pub const MODEL: Self = Self::model(910.0, 47.6);
    /// View of the networks' `big_img`.
    pub const MODEL_WIDE: Self = Self::model(455.0, 0.5 * (256.0 + 47.6));

    const fn centred(width: usize, height: usize, focal: f64) -> Self {
        Self {
            width,
            height,
            focal,
            centre: [width as f64 / 2.0, height as f64 / 2.0],
        }
    }

    const fn model(focal: f64, row: f64) -> Self {
        Self {
            width: MODEL_WIDTH,
            height: MODEL_HEIGHT,
            focal,
            centre: [MODEL_WIDTH as f64 / 2.0, row],
        }
    }

    /// The camera of the same pictures resized to `width` by `height`.
    pub fn resized(self, width: usize, height: usize) -> Matrix {
        let (x, y) = (
            width as f64 / self.width as f64,
            height as f64 / self.height as f64,
        );
        let [[fx, _, cx], [_, fy, cy], last] = self.intrinsics();
        [[fx * x, 0.0, cx * x], [0.0, fy * y, cy * y], last]
    }

    /// From rays to pixels.
    pub fn intrinsics(self) -> Matrix {
        let [cx, cy] = self.centre;
        [
            [self.focal, 0.0, cx],
            [0.0, self.focal, cy],
            [0.0, 0.0, 1.0],
        ]
    }

    fn inverse_intrinsics(self) -> Matrix {
        let ([cx, cy], f) = (self.centre, self.focal);
        [
            [1.0 / f, 0.0, -cx / f],
            [0.0, 1.0 / f, -cy / f],
            [0.0, 0.0, 1.0],
        ]
    }
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..3).map(|k| a[i][k] * b[k][j]).sum()))
}

fn transposed(a: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

/// `Rz(yaw) Ry(pitch) Rx(roll)`, radians, right-handed.
pub fn rotation([roll, pitch, yaw]: [f64; 3]) -> Matrix {
    let ((sr, cr), (sp, cp), (sy, cy)) = (roll.sin_cos(), pitch.sin_cos(), yaw.sin_cos());
    [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
}

/// From pixels of `model`'s view to pixels of a camera with these intrinsics, for a device whose
/// calibration is `rpy`: roll, pitch and yaw in radians, as `liveCalibration.rpyCalib` has them.
///
/// # Examples
///
/// ```
/// use spark_openpilot::warp::{Pinhole, warp_matrix};
/// let w = warp_matrix(&Pinhole::ROAD.intrinsics(), [0.0; 3], Pinhole::MODEL);
/// assert!((w[0][0] - 2648.0 / 910.0).abs() < 1e-12);
/// ```
pub fn warp_matrix(camera: &Matrix, rpy: [f64; 3], model: Pinhole) -> Matrix {
    let turned = product(&VIEW_FROM_DEVICE, &rotation(rpy));
    // V is a rotation: its inverse is its transpose.
    let ray = product(&turned, &transposed(&VIEW_FROM_DEVICE));
    product(&product(camera, &ray), &model.inverse_intrinsics())
}

/// The same warp between the half-size chroma planes.
pub fn chroma_warp(luma: &Matrix) -> Matrix {
    let from_luma = [[0.5, 0.0, -0.25], [0.0, 0.5, -0.25], [0.0, 0.0, 1.0]];
    let to_luma = [[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]];
    product(&product(&from_luma, luma), &to_luma)
}

/// The planes of a camera picture in the model's view, `[6, 128, 256]`, ready for a driving network.
///
/// # Shapes and units
///
/// `frame` is a camera picture of any even size; `warp` leads from pixels of the model's 512 x 256
/// picture to its pixels, as [`warp_matrix`] makes it.
///
/// # Errors
///
/// [`OpenpilotError::FrameSize`] and [`OpenpilotError::Length`] for a frame that is not one.
pub fn warp_to_planes(frame: &Yuv420<'_>, warp: &Matrix) -> Result<Vec<u8>, OpenpilotError> {
    super::frame::check(frame)?;
    let chroma = chroma_warp(warp);
    let half = [frame.width / 2, frame.height / 2];
    let y = resample(
        frame.y,
        [frame.width, frame.height],
        warp,
        [MODEL_WIDTH, MODEL_HEIGHT],
    );
    let u = resample(frame.u, half, &chroma, [PLANE_WIDTH, PLANE_HEIGHT]);
    let v = resample(frame.v, half, &chroma, [PLANE_WIDTH, PLANE_HEIGHT]);
    pack_yuv420(&Yuv420 {
        width: MODEL_WIDTH,
        height: MODEL_HEIGHT,
        y: &y,
        u: &u,
        v: &v,
    })
}

/// Steps per pixel of a position.
const STEPS: f32 = 32.0;

/// `source`, `[height, width]`, seen through `warp` as `size` (columns, rows).
fn resample(
    source: &[u8],
    [width, height]: [usize; 2],
    warp: &Matrix,
    size: [usize; 2],
) -> Vec<u8> {
    let w: [[f32; 3]; 3] = warp.map(|row| row.map(|v| v as f32));
    let at = |x: i32, y: i32| {
        let column = x.clamp(0, width as i32 - 1) as usize;
        let row = y.clamp(0, height as i32 - 1) as usize;
        i32::from(source[row * width + column])
    };
    let pixel = |i: usize| {
        let (x, y) = ((i % size[0]) as f32, (i / size[0]) as f32);
        let [x0, y0, d] = w.map(|row| row[0] * x + row[1] * y + row[2]);
        let scale = if d == 0.0 { 0.0 } else { STEPS / d };
        // Conversions saturate, and turn NaN into 0.
        let (px, py) = (
            (x0 * scale).round_ties_even() as i32,
            (y0 * scale).round_ties_even() as i32,
        );
        let whole = |v: i32| (v >> 5).clamp(i32::from(i16::MIN), i32::from(i16::MAX));
        let (sx, sy) = (whole(px), whole(py));
        let (ax, ay) = ((px & 31) as f32 / STEPS, (py & 31) as f32 / STEPS);
        let weight = |v: f32| {
            let scaled = (v * 32768.0).round_ties_even() as i32;
            scaled.min(i32::from(i16::MAX))
        };
        let sum = at(sx, sy) * weight((1.0 - ay) * (1.0 - ax))
            + at(sx + 1, sy) * weight((1.0 - ay) * ax)
            + at(sx, sy + 1) * weight(ay * (1.0 - ax))
            + at(sx + 1, sy + 1) * weight(ay * ax);
        ((sum + (1 << 14)) >> 15).clamp(0, 255) as u8
    };
    (0..size[0] * size[1]).map(pixel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: &Matrix, want: [f64; 9]) {
        for (got, want) in got.iter().flatten().zip(want) {
            assert!(
                (got - want).abs() <= 1e-12 * (1.0 + want.abs()),
                "{got} want {want}"
            );
        }
    }

    /// Last calibration of a recorded drive.
    const RPY: [f64; 3] = [
        -2.728_761_319_303_885e-5,
        0.015_692_643_821_239_47,
        -0.020_919_444_039_463_997,
    ];

    #[test]
    fn warps_of_known_cameras_are_those_of_openpilot() {
        let straight = |camera: Pinhole, model| warp_matrix(&camera.intrinsics(), [0.0; 3], model);
        let (a, b) = (2.909_890_109_890_11, 1.246_153_846_153_846_2);
        close(
            &straight(Pinhole::ROAD, Pinhole::MODEL),
            [
                a,
                0.0,
                219.068_131_868_131_87,
                0.0,
                a,
                465.489_230_769_230_8,
                0.0,
                0.0,
                1.0,
            ],
        );
        close(
            &straight(Pinhole::WIDE, Pinhole::MODEL_WIDE),
            [
                b,
                0.0,
                644.984_615_384_615_4,
                0.0,
                b,
                414.833_846_153_846_14,
                0.0,
                0.0,
                1.0,
            ],
        );
        close(
            &straight(Pinhole::ROAD_NEO, Pinhole::MODEL),
            [1.0, 0.0, 326.0, 0.0, 1.0, 389.4, 0.0, 0.0, 1.0],
        );
        close(
            &warp_matrix(&Pinhole::ROAD.intrinsics(), RPY, Pinhole::MODEL),
            [
                2.931_412_188_282_487,
                0.015_744_373_525_712_14,
                157.095_625_006_750_28,
                0.013_804_302_583_960_329,
                2.919_945_271_971_029,
                419.717_778_437_135_2,
                2.298_625_291_876_150_6e-5,
                1.724_080_997_971_305_6e-5,
                0.992_952_953_040_311_2,
            ],
        );
        close(
            &warp_matrix(&Pinhole::WIDE.intrinsics(), RPY, Pinhole::MODEL_WIDE),
            [
                1.290_198_689_544_147,
                0.032_865_236_281_277_764,
                616.531_598_168_721_4,
                0.027_733_393_148_615_462,
                1.266_827_308_950_534_2,
                395.491_992_186_103_3,
                4.597_250_583_752_301e-5,
                3.448_161_995_941_685e-5,
                0.982_654_824_938_302_8,
            ],
        );
    }

    #[test]
    fn a_warp_by_whole_pixels_copies_them() {
        let (width, height) = (600, 300);
        let y: Vec<u8> = (0..width * height).map(|i| (i * 31 % 251) as u8).collect();
        let c = vec![128; width * height / 4];
        let frame = Yuv420 {
            width,
            height,
            y: &y,
            u: &c,
            v: &c,
        };
        let shift = [[1.0, 0.0, 40.0], [0.0, 1.0, 20.0], [0.0, 0.0, 1.0]];
        let planes = warp_to_planes(&frame, &shift).expect("a sound frame");
        for (r, c) in [(0, 0), (17, 99), (127, 255)] {
            let want = y[(2 * r + 20) * width + 2 * c + 40];
            assert_eq!(planes[r * PLANE_WIDTH + c], want);
        }
        assert!(
            planes[4 * PLANE_WIDTH * PLANE_HEIGHT..]
                .iter()
                .all(|&v| v == 128)
        );
    }

    #[test]
    fn between_pixels_lies_their_mean_and_outside_the_edge() {
        let (w, size) = ([2, 1], [4, 1]);
        let half = [[0.5, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        assert_eq!(resample(&[10, 20], w, &half, size), [10, 15, 20, 20]);
        let behind = [[0.0; 3], [0.0; 3], [0.0; 3]];
        assert_eq!(resample(&[10, 20], w, &behind, size), [10; 4]);
        let far = [[1.0, 0.0, 1e30], [0.0, 1.0, f64::NAN], [0.0, 0.0, 1.0]];
        assert_eq!(resample(&[10, 20], w, &far, size), [20; 4]);
    }

    #[test]
    fn frames_that_are_none_are_refused() {
        let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let frame = Yuv420 {
            width: 4,
            height: 2,
            y: &[0; 7],
            u: &[0; 2],
            v: &[0; 2],
        };
        assert!(warp_to_planes(&frame, &identity).is_err());
    }
}
