//! Synthetic camera pictures: a road with lane lines, a car ahead, sky and noise, from a seed.
//!
//! ```text
//! row r below the horizon looks at the road z = f * height / (r - horizon) metres ahead
//! column c there is x = (c - centre) * z / f metres to the side
//! lane lines at +-1.85 m and road edges at +-5.5 m follow x = bend * z^2 / 2; the bend swings
//! ```
//!
//! Enough structure for a network's activations to look like those of pictures; nothing a trained
//! network should be judged on. The geometry is that of openpilot's model frames (focal lengths
//! 910 and 455 pixels, horizon at row 47.6), the camera 1.22 m above the road.

use spark_openpilot::OpenpilotError;
use spark_openpilot::frame::{PLANE_HEIGHT, PLANE_WIDTH, Yuv420, pack_yuv420};
use spark_openpilot::zoo::Stream;

const WIDTH: usize = 2 * PLANE_WIDTH;
const HEIGHT: usize = 2 * PLANE_HEIGHT;
const HORIZON: f32 = 47.6;
const CAMERA_HEIGHT: f32 = 1.22;
/// Seconds between two pictures, as in openpilot's 20 Hz.
const FRAME_S: f32 = 0.05;
/// Speed of the camera in metres per second.
const SPEED: f32 = 20.0;

/// The camera that takes a picture, which decides its focal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Camera {
    Road,
    Wide,
}

/// The planes of picture `number`, as a driving network takes them.
///
/// # Errors
///
/// None for these fixed extents; the packer's type leaves room for others.
pub(crate) fn planes(seed: u64, number: u64, camera: Camera) -> Result<Vec<u8>, OpenpilotError> {
    let (focal, name) = match camera {
        Camera::Road => (910.0, "scene road"),
        Camera::Wide => (455.0, "scene wide"),
    };
    let noise = Stream::new(seed, name);
    let seconds = number as f32 * FRAME_S;
    let phase = 3.0 * Stream::new(seed, "scene bend").signed_unit(0);
    let scene = Scene {
        focal,
        bend: 0.002 * (0.5 * seconds + phase).sin(),
        travelled: SPEED * seconds,
        lead_m: 35.0 + 15.0 * (0.3 * seconds + phase).cos(),
    };
    let first = number * (WIDTH * HEIGHT) as u64;
    let luma: Vec<u8> = (0..WIDTH * HEIGHT)
        .map(|i| {
            let grain = 5.0 * noise.signed_unit(first + i as u64);
            (scene.luma(i / WIDTH, i % WIDTH) + grain).clamp(0.0, 255.0) as u8
        })
        .collect();
    let chroma = |sky: u8, road: u8| -> Vec<u8> {
        let rows = 0..PLANE_HEIGHT;
        let row = |r: usize| [if (2 * r) as f32 > HORIZON { road } else { sky }; PLANE_WIDTH];
        rows.flat_map(row).collect()
    };
    pack_yuv420(&Yuv420 {
        width: WIDTH,
        height: HEIGHT,
        y: &luma,
        u: &chroma(150, 126),
        v: &chroma(112, 129),
    })
}

struct Scene {
    focal: f32,
    bend: f32,
    travelled: f32,
    lead_m: f32,
}

impl Scene {
    fn luma(&self, row: usize, column: usize) -> f32 {
        let (r, c) = (row as f32 + 0.5, column as f32 + 0.5 - WIDTH as f32 / 2.0);
        if let Some(luma) = self.lead(r, c) {
            return luma;
        }
        let below = r - HORIZON;
        if below <= 1.0 {
            return 190.0 - 0.5 * r;
        }
        let z = self.focal * CAMERA_HEIGHT / below;
        let x = c * z / self.focal - 0.5 * self.bend * z * z;
        let is_line = |at: f32, half_width: f32| (x.abs() - at).abs() < half_width;
        let dash = (z + self.travelled) % 12.0 < 6.0;
        match () {
            () if is_line(1.85, 0.08) && dash => 225.0,
            () if is_line(5.5, 0.1) => 215.0,
            () if x.abs() > 6.0 => 95.0 + 20.0 * (0.7 * (z + self.travelled)).sin(),
            () => 80.0 + 0.1 * below,
        }
    }

    /// The back of the car ahead, 1.8 m by 1.5 m, if it covers this pixel.
    fn lead(&self, r: f32, c: f32) -> Option<f32> {
        let z = self.lead_m;
        let x = c * z / self.focal - 0.5 * self.bend * z * z;
        let above_road = CAMERA_HEIGHT - (r - HORIZON) * z / self.focal;
        let covers = x.abs() < 0.9 && (0.0..1.5).contains(&above_road);
        covers.then_some(if above_road > 0.9 { 60.0 } else { 35.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spark_openpilot::frame::FRAME_BYTES;

    #[test]
    fn pictures_differ_by_frame_camera_and_seed_and_repeat() {
        let picture = |seed, number, camera| planes(seed, number, camera).expect("fixed extents");
        let one = picture(0, 0, Camera::Road);
        assert_eq!(one.len(), FRAME_BYTES);
        assert_eq!(one, picture(0, 0, Camera::Road));
        assert_ne!(one, picture(0, 1, Camera::Road));
        assert_ne!(one, picture(0, 0, Camera::Wide));
        assert_ne!(one, picture(1, 0, Camera::Road));
    }

    #[test]
    fn the_sky_is_brighter_than_the_road_and_lines_than_both() {
        let one = planes(0, 0, Camera::Road).expect("fixed extents");
        let row = |r: usize| &one[r * PLANE_WIDTH..(r + 1) * PLANE_WIDTH];
        let mean = |v: &[u8]| v.iter().map(|&b| f64::from(b)).sum::<f64>() / v.len() as f64;
        assert!(mean(row(5)) > mean(row(100)) + 30.0);
        // 15 m ahead, where a dash lies at first.
        assert!(row(60).iter().any(|&b| b > 205));
    }
}
