//! Why an operation on memory or on a device failed.

use std::path::PathBuf;

use crate::kind::BufferKind;

/// A call of the driver that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed with error {code} ({name})")]
pub struct DriverError {
    /// Name of the driver's function, such as `cuMemAlloc_v2`.
    pub call: &'static str,
    /// `CUresult`, or what the backend uses in its place.
    pub code: i32,
    /// The driver's name for it.
    pub name: String,
}

impl DriverError {
    /// Whether it poisons the context: of these `CUresult`s cuda.h says that the process must be
    /// terminated and relaunched, or the device itself is gone.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(
            self.code,
            214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721
        )
    }
}

/// Why an operation on memory or on a device failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemError {
    /// The size in bytes is larger than any address space.
    #[error("{len} elements of {element_bytes} bytes are larger than any memory")]
    SizeOverflow {
        /// Number of elements asked for.
        len: usize,
        /// Size of one element.
        element_bytes: usize,
    },
    /// The budget does not allow this allocation; the driver was not asked.
    #[error("{asked} bytes asked, {available} available: {why}")]
    OverBudget {
        /// Size of the allocation asked for.
        asked: u64,
        /// Bytes the budget has left.
        available: u64,
        /// What bounds it, in words for people.
        why: String,
    },
    /// The driver or the system has no memory left.
    #[error("no memory for {asked} bytes of {kind:?} memory on {device}: {why}")]
    OutOfMemory {
        /// The kind asked for.
        kind: BufferKind,
        /// Size of the allocation asked for.
        asked: u64,
        /// Name of the device, for people.
        device: String,
        /// What the driver or the system said.
        why: String,
    },
    /// This device has no memory of this kind.
    #[error("{device} has no {kind:?} memory: {why}")]
    KindUnsupported {
        /// The kind asked for.
        kind: BufferKind,
        /// Name of the device, for people.
        device: String,
        /// Which ability the device lacks.
        why: &'static str,
    },
    /// Two lengths that must agree do not.
    #[error("`{what}` holds {got} elements, expected {want}")]
    LengthMismatch {
        /// Which argument is wrong.
        what: &'static str,
        /// Elements that the argument has.
        got: usize,
        /// Elements it must have.
        want: usize,
    },
    /// A range that does not lie inside a buffer.
    #[error("elements {start}..{end} of a buffer of {len}")]
    OutOfRange {
        /// First element asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// Elements that the buffer has.
        len: usize,
    },
    /// A part of a buffer that is lent already, one of the two for writing.
    #[error("elements {asked:?} overlap {lent:?}, which are lent; one of them is written")]
    Overlap {
        /// Elements asked for.
        asked: std::ops::Range<usize>,
        /// Elements that were lent before.
        lent: std::ops::Range<usize>,
    },
    /// Bytes that do not lie where their type needs them.
    #[error("bytes at offset {offset} cannot be read as values aligned to {align} bytes")]
    Misaligned {
        /// Offset of the first byte in the file or buffer.
        offset: usize,
        /// What the type needs.
        align: usize,
    },
    /// A host guard is open on memory that the device was to use.
    #[error("the host holds a guard on this buffer; drop it before the device uses it")]
    InUseByHost,
    /// A mark for ordering alone was asked for a time.
    #[error("an event was recorded without a time; `record_timed` records one with it")]
    Untimed,
    /// The event that was said to be the earlier one lies behind the other, as the device's clock tells.
    #[error("the earlier event was recorded {by:?} after the later one")]
    EventOrder {
        /// The time between them.
        by: std::time::Duration,
    },
    /// An event of a recording was used where the recording is not: it marks no work by itself.
    #[error("{what} is not possible: the event is a mark within a recorded graph")]
    EventOfRecording {
        /// What was tried, as the subject of the sentence.
        what: &'static str,
    },
    /// The buffer belongs to another device.
    #[error("a buffer of another device was given")]
    OtherDevice,
    /// The device cannot address this memory.
    #[error("the device cannot reach {kind:?} memory; use another kind or copy it")]
    NotOnDevice {
        /// Kind of the memory that was given.
        kind: BufferKind,
    },
    /// Not possible while a stream records a graph.
    #[error("{what} is not possible while the stream is being captured")]
    Capturing {
        /// What was tried, as the subject of the sentence.
        what: &'static str,
    },
    /// A stream or a guard used by the host version of a kernel, while it runs.
    #[error("streams and guards cannot be used inside the host version of a kernel")]
    InsideKernel,
    /// The driver has no such function or the device no such ability.
    #[error("{what} is not supported: {why}")]
    Unsupported {
        /// What was tried, as the subject of the sentence.
        what: &'static str,
        /// Which function or ability is missing.
        why: String,
    },
    /// A grid or block that no device runs.
    #[error("launch of {grid:?} blocks of {block:?} threads: {why}")]
    LaunchShape {
        /// Number of blocks along x, y and z.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// What is wrong with it.
        why: &'static str,
    },
    /// This kernel exists for GPUs only and the device is none.
    #[error("kernel `{entry}` has no version for the host")]
    NoHostKernel {
        /// Name of the kernel's function.
        entry: String,
    },
    /// The parameters of a kernel are more than a launch takes.
    #[error("the parameters of a kernel have {got} bytes, a launch takes {most}")]
    ParameterBytes {
        /// Bytes that the parameters take, one behind another.
        got: usize,
        /// Bytes that a launch takes.
        most: usize,
    },
    /// The entry has other parameters than its source says, as the driver tells.
    #[error(
        "parameter {idx} of kernel `{entry}` has {got:?} bytes in its code, {want:?} in its source"
    )]
    ParameterMismatch {
        /// Name of the kernel's function.
        entry: String,
        /// Which parameter is the first that differs, counted from 0.
        idx: usize,
        /// Bytes of it in the code; `None` if it has fewer parameters.
        got: Option<usize>,
        /// Bytes of it by the types of the source; `None` if that has fewer.
        want: Option<usize>,
    },
    /// The values for a variable of a kernel's file have not its size.
    #[error("the values for variable `{name}` have {got} bytes, it has {want}")]
    VariableBytes {
        /// Name of the variable.
        name: String,
        /// Bytes of the values.
        got: usize,
        /// Bytes of the variable.
        want: usize,
    },
    /// The code of a kernel's file has no entry, or no variable, of this name.
    #[error("the code of kernel file `{file}` has no {what} `{name}`")]
    NotInCode {
        /// Name of the `.cu` file, as its source says it.
        file: String,
        /// "kernel" or "variable".
        what: &'static str,
        /// The name that was asked for.
        name: String,
    },
    /// Code that was compiled before cannot be what it is said to be.
    #[error("the image for {target} of kernel file `{file}` {why}")]
    BadImage {
        /// Name of the `.cu` file, as its source says it.
        file: String,
        /// What the image is said to be compiled for.
        target: String,
        /// What is wrong with it, as the end of the sentence.
        why: &'static str,
    },
    /// A kernel's source does not compile.
    #[error("kernel file `{file}` does not compile for {arch}:\n{log}")]
    Compile {
        /// Name of the `.cu` file, as its source says it.
        file: String,
        /// The architecture, such as `sm_121a`.
        arch: String,
        /// What the compiler said, line by line.
        log: String,
    },
    /// The compiler of kernels cannot be used.
    #[error("kernels cannot be compiled: {why}")]
    NoCompiler {
        /// Why the compiler was not found or cannot be used.
        why: String,
    },
    /// A call of the driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The device is lost since an earlier error; nothing works on it any more.
    #[error("the device is lost since {0}")]
    DeviceLost(DriverError),
    /// A device cannot be used in a child of the process that opened it.
    #[error("the device was opened before `fork`; open it again after starting the new program")]
    Forked,
    /// CUDA cannot be used on this machine or is switched off.
    #[error("no CUDA: {0}")]
    NoCuda(#[from] spark_hal::cuda::CudaUnavailable),
    /// This program was built without the feature `cuda`.
    #[error("built without CUDA support (feature `cuda` of spark-mem)")]
    BuiltWithoutCuda,
    /// candle refused a tensor.
    #[cfg(feature = "candle")]
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// A file could not be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// A verb for the sentence, such as "read".
        action: &'static str,
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file changed its length while it was read.
    #[error("`{}` ended after {got} bytes, expected {want}", path.display())]
    FileTooShort {
        /// The file that was read.
        path: PathBuf,
        /// Bytes that could be read.
        got: u64,
        /// Bytes it had when opened.
        want: u64,
    },
    /// No safetensors file, or one whose header lies.
    #[error("`{}` is no valid safetensors file: {source}", path.display())]
    Tensors {
        /// The file that was opened.
        path: PathBuf,
        /// What is wrong with it.
        source: safetensors::SafeTensorError,
    },
    /// A tensor that the file does not have.
    #[error("no tensor `{name}` in `{}`", path.display())]
    NoTensor {
        /// The file that was searched.
        path: PathBuf,
        /// The name asked for.
        name: String,
    },
}

impl MemError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
