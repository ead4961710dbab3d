//! Recorded drives as a network's inputs.
//!
//! ```text
//! spark-data   log ──> samples by number      video ──> pictures          Prefetch
//!                             │ calibration                │ planes
//! here         graph's inputs ──> view of each (spark-openpilot) ──> tensors; zeros for what is no picture
//! ```
//!
//! What a network is told besides pictures (desire, traffic convention, states) is zeros: a drive's video does not say it. A network with
//! a state sees each picture as its first.
//!
//! Deliberately absent: states carried from frame to frame, labels as targets, caches of inputs (pictures are kept, see
//! [`Store`]).

use std::path::PathBuf;
use std::sync::Arc;

use spark_data::drive::Dataset;
use spark_data::prefetch::{Prefetch, PrefetchOptions, Prepared};
use spark_data::video::Store;
use spark_onnx::DType;
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{Dim, Graph};
use spark_openpilot::frame::Yuv420;
use spark_openpilot::view::View;
use spark_openpilot::warp::Pinhole;

use crate::error::{Result, TrainError};

/// How the inputs of a network are made of a camera's pictures.
#[derive(Debug, Clone)]
pub struct PictureInputs {
    inputs: Vec<Input>,
    camera: Pinhole,
}

#[derive(Debug, Clone)]
struct Input {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    /// `None` where it is zeros.
    view: Option<View>,
}

impl PictureInputs {
    /// By the names and shapes of the network's inputs; extents that are open are 1. The camera is the road camera of comma three.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoPictures`] if none of them takes pictures of a known kind.
    pub fn of(graph: &Graph) -> Result<Self> {
        let inputs = graph.inputs.iter().map(|&id| {
            let value = graph.value(id);
            let extent = |dim: &Dim| match dim {
                Dim::Known(extent) => *extent,
                _ => 1,
            };
            let shape: Vec<usize> = value.shape.iter().flatten().map(extent).collect();
            Input {
                view: View::of_input(&value.name, &shape),
                name: value.name.clone(),
                dtype: value.dtype.unwrap_or(DType::F32),
                shape,
            }
        });
        let inputs: Vec<Input> = inputs.collect();
        if inputs.iter().all(|input| input.view.is_none()) {
            return Err(TrainError::NoPictures {
                inputs: inputs
                    .iter()
                    .map(|input| format!("`{}` {:?}", input.name, input.shape))
                    .collect(),
            });
        }
        Ok(Self {
            inputs,
            camera: Pinhole::ROAD,
        })
    }

    /// With pictures of this camera, of any size.
    #[must_use]
    pub fn with_camera(self, camera: Pinhole) -> Self {
        Self { camera, ..self }
    }

    /// Which pictures of a sample are needed, as [`PrefetchOptions::frames_back`] takes it.
    pub fn frames_back(&self) -> Vec<u32> {
        let views = self.inputs.iter().filter_map(|input| input.view);
        let mut back: Vec<u32> = views.flat_map(View::frames_back).copied().collect();
        back.sort_unstable_by(|a, b| b.cmp(a));
        back.dedup();
        back
    }

    /// Whether the camera's direction must be known, as [`DatasetOptions`](spark_data::drive::DatasetOptions) asks.
    pub fn needs_calibration(&self) -> bool {
        let mut views = self.inputs.iter().filter_map(|input| input.view);
        views.any(View::needs_calibration)
    }

    /// Names of inputs that are zeros.
    pub fn zeros(&self) -> impl Iterator<Item = &str> {
        let zeros = self.inputs.iter().filter(|input| input.view.is_none());
        zeros.map(|input| input.name.as_str())
    }

    /// The inputs of a sample whose pictures are those of [`PictureInputs::frames_back`].
    ///
    /// # Errors
    ///
    /// [`TrainError::Uncalibrated`] where the camera's direction is needed and not known; [`TrainError::Layout`] for pictures that
    /// have no such view.
    pub fn of_sample(&self, prepared: &Prepared) -> Result<Vec<(String, Tensor)>> {
        let back = self.frames_back();
        let rpy = match prepared.sample.labels.calibration {
            Some(rpy) => rpy,
            None if self.needs_calibration() => {
                let number = prepared.number;
                return Err(TrainError::Uncalibrated { number });
            }
            None => [0.0; 3],
        };
        let mut tensors = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let Some(view) = input.view else {
                let zeros = Tensor::zeros(input.dtype, input.shape.clone())?;
                tensors.push((input.name.clone(), zeros));
                continue;
            };
            let of_view = back.iter().zip(&prepared.pictures);
            let of_view = of_view.filter(|(back, _)| view.frames_back().contains(back));
            let pictures: Vec<Yuv420<'_>> = of_view.map(|(_, picture)| lent(picture)).collect();
            let size = prepared.pictures.first().map(|picture| picture.size());
            let (width, height) = size.map_or((0, 0), |size| (size.width, size.height));
            let camera = self.camera.resized(width, height);
            let tensor = view.tensor(&pictures, &camera, rpy, input.dtype)?;
            tensors.push((input.name.clone(), tensor));
        }
        Ok(tensors)
    }

    /// The inputs of all samples of these numbers, in their order, but of those whose video has not yet the pictures that are
    /// needed. `videos` are the files of the data set's camera, one for each of its drives; `seen` is told how many are done.
    ///
    /// # Errors
    ///
    /// [`TrainError::Pictures`] for a video that gives none; as [`PictureInputs::of_sample`].
    pub fn of_drives(
        &self,
        dataset: Arc<Dataset>,
        numbers: impl IntoIterator<Item = usize>,
        videos: Vec<PathBuf>,
        store: &Store,
        mut seen: impl FnMut(usize),
    ) -> Result<Vec<Vec<(String, Tensor)>>> {
        let mut all = Vec::new();
        for (_, inputs) in self.each_of_drives(dataset, numbers, videos, store) {
            all.push(inputs?);
            seen(all.len());
        }
        Ok(all)
    }

    /// The same one after the other, with the numbers of the samples: for more than memory holds. A video that gives no pictures is an
    /// error for its own samples; others go on.
    pub fn each_of_drives(
        &self,
        dataset: Arc<Dataset>,
        numbers: impl IntoIterator<Item = usize>,
        videos: Vec<PathBuf>,
        store: &Store,
    ) -> impl Iterator<Item = (usize, Result<Vec<(String, Tensor)>>)> + '_ {
        let back = self.frames_back();
        let furthest = back.first().copied().unwrap_or(0);
        let has_pictures = |number: &usize| {
            let sample = dataset.sample(*number);
            sample.is_none_or(|sample| sample.frame.index >= furthest)
        };
        let order: Vec<usize> = numbers.into_iter().filter(has_pictures).collect();
        let options = PrefetchOptions::default().with_frames_back(back);
        let prepared = Prefetch::new(dataset, order.clone(), videos, store, options);
        let numbered = order.into_iter().zip(prepared);
        numbered.map(|(number, prepared)| {
            let inputs = prepared.map_err(TrainError::from);
            (
                number,
                inputs.and_then(|prepared| self.of_sample(&prepared)),
            )
        })
    }
}

fn lent(picture: &spark_data::video::Yuv420) -> Yuv420<'_> {
    Yuv420 {
        width: picture.size().width,
        height: picture.size().height,
        y: picture.y(),
        u: picture.u(),
        v: picture.v(),
    }
}
