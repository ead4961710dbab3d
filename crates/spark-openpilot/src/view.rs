//! What an input of a network is made of, by its name and shape, and how pictures become it.
//!
//! ```text
//! input_img                            [1, 6, 320, 160]     the newest picture's middle              driver monitoring 0.8
//! img, big_img                         [1, 12, 128, 256]    warped: 0.2 s before, the newest         networks with a 5 Hz history
//! vision_input_imgs                    [1, 12, 128, 256]    warped: the one before, the newest       all-in-one of 0.7.4
//! ```
//!
//! Deliberately absent: `input_imgs` and `big_input_imgs`, which stood for pictures 0.05 s and 0.2 s apart and for centred and plain
//! bytes in different releases: a name does not tell which.
//!
//! Floats are (byte - 128) / 128, whole numbers bytes. Pictures are of one camera, 20 a second. Inputs called `big_` are the wide view of [`Pinhole::MODEL_WIDE`], taken from the same
//! camera: where that sees nothing its border is repeated.
//!
//! Source: openpilot's `modeld` and `dmonitoringmodeld`.

use spark_onnx::{DType, Tensor};

use crate::OpenpilotError;
use crate::driver_view::{VIEW_HEIGHT, VIEW_WIDTH, centred, driver_planes};
use crate::frame::{PLANE_HEIGHT, PLANE_WIDTH, PLANES_PER_FRAME, Yuv420};
use crate::history::STRIDE;
use crate::warp::{Matrix, Pinhole, warp_matrix, warp_to_planes};

/// How pictures become an input.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum View {
    /// The middle of the newest picture; see [`driver_planes`].
    Driver,
    /// Two pictures through a warp; see [`warp_to_planes`].
    Road {
        /// What is seen of the road.
        model: Pinhole,
        /// How many pictures the older one is before the newest.
        back: u32,
    },
}

impl View {
    /// The view of an input of this name and shape, of one sample; `None` for one that takes no pictures of a known kind.
    pub fn of_input(name: &str, shape: &[usize]) -> Option<Self> {
        const DRIVER: [usize; 3] = [PLANES_PER_FRAME, VIEW_HEIGHT / 2, VIEW_WIDTH / 2];
        const ROAD: [usize; 3] = [2 * PLANES_PER_FRAME, PLANE_HEIGHT, PLANE_WIDTH];
        let [1, per_picture @ ..] = shape else {
            return None;
        };
        let road = |model, back| (per_picture == ROAD).then_some(Self::Road { model, back });
        match name {
            "input_img" => (per_picture == DRIVER).then_some(Self::Driver),
            "img" => road(Pinhole::MODEL, STRIDE as u32),
            "big_img" => road(Pinhole::MODEL_WIDE, STRIDE as u32),
            "vision_input_imgs" => road(Pinhole::MODEL, 1),
            _ => None,
        }
    }

    /// Which pictures it takes, in order: how many before the newest each is.
    pub fn frames_back(self) -> &'static [u32] {
        match self {
            Self::Driver => &[0],
            Self::Road { back: 1, .. } => &[1, 0],
            Self::Road { .. } => &[STRIDE as u32, 0],
        }
    }

    /// Whether the camera's direction must be known.
    pub fn needs_calibration(self) -> bool {
        matches!(self, Self::Road { .. })
    }

    /// The input, `[1, ..]` of type `dtype`: bytes as they are for whole numbers, [`centred`] for floats.
    ///
    /// `pictures` are as [`View::frames_back`] says; `camera` leads from rays to their pixels, as [`Pinhole::resized`] gives it;
    /// `rpy` are the camera's roll, pitch and yaw against the car's direction, rad.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] for another number of pictures; as [`driver_planes`] and [`warp_to_planes`].
    pub fn tensor(
        self,
        pictures: &[Yuv420<'_>],
        camera: &Matrix,
        rpy: [f64; 3],
        dtype: DType,
    ) -> Result<Tensor, OpenpilotError> {
        if pictures.len() != self.frames_back().len() {
            return Err(OpenpilotError::Length {
                what: "pictures".to_owned(),
                got: pictures.len(),
                want: self.frames_back().len(),
            });
        }
        let (shape, planes) = match self {
            Self::Driver => {
                let shape = [1, PLANES_PER_FRAME, VIEW_HEIGHT / 2, VIEW_WIDTH / 2];
                (shape, driver_planes(&pictures[0])?)
            }
            Self::Road { model, .. } => {
                let warp = warp_matrix(camera, rpy, model);
                let mut planes = Vec::new();
                for picture in pictures {
                    planes.extend(warp_to_planes(picture, &warp)?);
                }
                let shape = [1, 2 * PLANES_PER_FRAME, PLANE_HEIGHT, PLANE_WIDTH];
                (shape, planes)
            }
        };
        let number = |byte: u8| match dtype.is_float() {
            true => f64::from(centred(byte)),
            false => f64::from(byte),
        };
        let values = planes.into_iter().map(number).collect();
        Ok(Tensor::from_f64(dtype, shape, values)?)
    }
}
