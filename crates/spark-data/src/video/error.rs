//! Why there are no pictures.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::planes::PictureSize;
use super::y4m::Y4mError;

/// Why a video gives no pictures, or no more of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoError {
    /// The file could not be read.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The video.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file begins as no kind of video does that a camera writes.
    #[error("`{path}` is neither an MPEG transport stream nor raw HEVC")]
    UnknownContainer {
        /// The video.
        path: PathBuf,
    },
    /// There is no decoder.
    #[error(
        "no program `{program}` to decode videos: install ffmpeg (Debian and Ubuntu: apt install ffmpeg)"
    )]
    NoDecoder {
        /// The program that was looked for.
        program: String,
    },
    /// The decoder could not be started.
    #[error("the decoder `{program}` cannot be started: {source}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The decoder found the video damaged, or failed otherwise; words with exit code 0 count.
    #[error("`{path}`: after {pictures} pictures the decoder ended with {status}: {said}")]
    Decoder {
        /// The video.
        path: PathBuf,
        /// Whole pictures that it gave before.
        pictures: u64,
        /// Exit code or signal.
        status: String,
        /// The first of its words.
        said: String,
    },
    /// The decoder ended in a way that says nothing of the video: by a signal, without a word of why it failed, or without being able
    /// to write a picture that it was given bare.
    #[error(
        "`{path}`: the decoder itself failed, which says nothing of the video: after {pictures} pictures it ended with {status}: {said}"
    )]
    DecoderFailed {
        /// The video.
        path: PathBuf,
        /// Whole pictures that it gave before.
        pictures: u64,
        /// Exit code or signal.
        status: String,
        /// The first of its words.
        said: String,
    },
    /// The decoder was content and gave no picture.
    #[error(
        "`{path}`: the decoder ended without a picture and without a word: it is no ffmpeg, or the video has none"
    )]
    NoPicture {
        /// The video.
        path: PathBuf,
    },
    /// What the decoder wrote are no pictures.
    #[error("`{path}`: what the decoder wrote cannot be read: {source}")]
    Stream {
        /// The video.
        path: PathBuf,
        /// Why.
        source: Y4mError,
    },
    /// The decoder gave no picture for so long, or did not end.
    #[error(
        "`{path}`: the decoder gave no whole picture for {waited:?} after {pictures} pictures{said}"
    )]
    Stalled {
        /// The video.
        path: PathBuf,
        /// Whole pictures that it gave before.
        pictures: u64,
        /// How long was waited.
        waited: Duration,
        /// The first of its words, if it said any, as the end of the sentence.
        said: String,
    },
    /// An error came before.
    #[error("`{path}`: reading ended with an error before")]
    Failed {
        /// The video.
        path: PathBuf,
    },
    /// The file is another one than when it was begun with.
    #[error("`{path}` changed while it was decoded")]
    Changed {
        /// The video.
        path: PathBuf,
    },
    /// Whoever reads it does not want it any more.
    #[error("`{path}`: reading was cancelled after {pictures} pictures")]
    Cancelled {
        /// The video.
        path: PathBuf,
        /// Whole pictures that it gave before.
        pictures: u64,
    },
    /// The video ends before the picture that was asked for.
    #[error("`{path}` has {pictures} pictures; number {index} was asked for, counted from 0")]
    Short {
        /// The video.
        path: PathBuf,
        /// How many it has.
        pictures: u64,
        /// Which was asked for.
        index: u64,
    },
    /// A picture before the one that was read last: a video is read forward. [`Store`](super::Store) gives pictures in any order.
    #[error("`{path}`: picture {index} lies before number {next}, which comes next")]
    Backwards {
        /// The video.
        path: PathBuf,
        /// Which was asked for.
        index: u64,
        /// Which comes next.
        next: u64,
    },
    /// A picture that is not among those that were kept.
    #[error("`{path}`: picture {index} is not kept, only every {every}th")]
    NotKept {
        /// The video.
        path: PathBuf,
        /// Which was asked for.
        index: u64,
        /// Every how many one is kept.
        every: u64,
    },
    /// Pictures of another size than the reader expects.
    #[error("`{path}` has pictures of {got}, not of {want}")]
    Size {
        /// The video.
        path: PathBuf,
        /// The size it has.
        got: PictureSize,
        /// The size that was expected.
        want: PictureSize,
    },
    /// The pictures do not fit into the store.
    #[error("`{path}`: {bytes} bytes of pictures do not fit into a store of {limit}")]
    TooLarge {
        /// The video.
        path: PathBuf,
        /// Bytes of the pictures that were asked for.
        bytes: u64,
        /// Bytes that the store may take.
        limit: u64,
    },
}

impl VideoError {
    /// Whether the video itself is at fault, so that others may go on without it, and not the machine that decodes it, where a second
    /// try may give all pictures.
    pub fn is_of_video(&self) -> bool {
        match self {
            Self::UnknownContainer { .. } | Self::Decoder { .. } | Self::Short { .. } => true,
            // A decoder writes pictures of the video's own sides and chroma; all else in a stream is the decoder's.
            Self::Stream { source, .. } => {
                matches!(source, Y4mError::Side { .. } | Y4mError::Chroma { .. })
            }
            _ => false,
        }
    }
}
