//! Why openpilot's inputs or outputs were refused.

use spark_onnx::ModelError;

/// Why openpilot's inputs or outputs were refused. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenpilotError {
    /// A buffer has the wrong number of values.
    #[error("`{what}` holds {got} values, expected {want}")]
    Length {
        /// The buffer or head, as the subject of the sentence.
        what: String,
        /// Values that were given.
        got: usize,
        /// Values that it must have.
        want: usize,
    },
    /// A frame's width or height cannot be halved, or is zero.
    #[error(
        "a {width} x {height} frame has no YUV 4:2:0 planes: both extents must be even and above zero"
    )]
    FrameSize {
        /// Pixels in a row.
        width: usize,
        /// Rows of the picture.
        height: usize,
    },
    /// The network has no output head of this name.
    #[error("the output has no part `{name}`; it has {available}")]
    MissingSlice {
        /// The name that was asked for.
        name: String,
        /// Names there are, joined by commas.
        available: String,
    },
    /// A part of the output lies outside it.
    #[error("part `{name}` spans {start}..{end} of an output of {len} values")]
    SliceRange {
        /// Name of the part.
        name: String,
        /// First position in the output.
        start: usize,
        /// One past the last position.
        end: usize,
        /// Length of the output.
        len: usize,
    },
    /// The file's `output_slices` cannot be read.
    #[error("metadata `output_slices` cannot be read at byte {offset}: {reason}")]
    Metadata {
        /// Position in the decoded text.
        offset: usize,
        /// What was found or missing there.
        reason: String,
    },
    /// The network does not have the input or output this use needs.
    #[error("`{model}` is not a network of this kind: {reason}")]
    Interface {
        /// Name of the network.
        model: String,
        /// What is missing or different.
        reason: String,
    },
    /// The network was refused or could not run.
    #[error(transparent)]
    Model(#[from] ModelError),
}
