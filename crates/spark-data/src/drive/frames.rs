//! Which picture of a video file a frame is.

/// A camera's recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Camera {
    /// `fcamera.hevc`.
    Road,
    /// `ecamera.hevc`.
    WideRoad,
    /// `dcamera.hevc`.
    Driver,
    /// `qcamera.ts`.
    RoadPreview,
}

/// A frame of a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Its number over the whole route, which all cameras share.
    pub id: u32,
    /// Which picture of the segment's file it is, from 0.
    pub index: u32,
    /// When its exposure ended, ns of the log's clock.
    pub end_of_frame: u64,
    /// Whether it can be decoded without the ones before it.
    pub is_key: bool,
}

/// Frames of one camera, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frames(Vec<Frame>);

impl Frames {
    /// These frames; of several with one number the first counts.
    pub(super) fn new(mut frames: Vec<Frame>) -> Self {
        frames.sort_by_key(|frame| (frame.id, frame.index));
        frames.dedup_by_key(|frame| frame.id);
        Self(frames)
    }

    /// All of them; numbers grow.
    pub fn all(&self) -> &[Frame] {
        &self.0
    }

    /// The frame of a number: looked up, as files may lack the first frames of a route.
    pub fn get(&self, id: u32) -> Option<&Frame> {
        let found = self.0.binary_search_by_key(&id, |frame| frame.id);
        found.ok().map(|index| &self.0[index])
    }
}
