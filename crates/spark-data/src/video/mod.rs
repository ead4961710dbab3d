//! Camera video as planes, picture by picture.
//!
//! ```text
//! qcamera.ts, fcamera.hevc ──> the program ffmpeg ──YUV4MPEG2──> y4m ──> Yuv420      Pictures: in order, in constant memory
//!                              a child process                             │
//!                                                    by index, in any order └──> Store: kept on disk, keyed by the video's content
//! ```
//!
//! Decoding is ffmpeg's, whose decoders are fuzzed by others every day, in a process of its own: a picture that breaks it breaks
//! nothing here. It is an executable that must be installed ([`VideoError::NoDecoder`] says how); no other decoder stands in for it.
//! Planes are what the standard says, byte for byte: nothing is scaled, and the range of values is not touched.
//!
//! Layouts are from "YUV4MPEG2" (yuv4mpeg(5) of mjpegtools) and ffmpeg's manual.
//!
//! Deliberately absent: networks' pictures (warping and packing need a network), other chroma than 4:2:0 in eight bits, seeking inside a
//! video, sound.

mod decoder;
mod error;
mod pictures;
mod planes;
mod store;
mod y4m;

pub use decoder::{Container, VideoOptions};
pub use error::VideoError;
pub use pictures::Pictures;
pub use planes::{PictureSize, Yuv420};
pub use store::{Store, StoreOptions, StoredVideo};
pub use y4m::{Y4mError, Y4mReader};
