//! The driver's functions this backend calls, asked for before any of them is.
//!
//! cudarc ends the process when it meets a function that the driver does not have. So the
//! driver is held against this list first, and a driver that lacks one is refused by name.

use std::sync::OnceLock;

use spark_hal::cuda::{CudaUnavailable, probe_library};

/// Everything that is called without asking again. All exist since CUDA 12.0.
const REQUIRED: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemAllocManaged",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemcpyAsync",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Functions of CUDA 12.2, 12.4 and 12.8 that are asked for where they are used.
pub(super) const PREFETCH: &str = "cuMemPrefetchAsync_v2";
pub(super) const ELAPSED: &str = "cuEventElapsedTime_v2";
/// What it replaces: every driver has it.
pub(super) const OLD_ELAPSED: &str = "cuEventElapsedTime";
pub(super) const ADVISE: &str = "cuMemAdvise_v2";
pub(super) const PARAMETERS: &str = "cuFuncGetParamInfo";

/// Asked once: a library that was looked at stays open for the life of the process.
pub(super) fn check_driver() -> Result<(), CudaUnavailable> {
    static ANSWER: OnceLock<Result<(), CudaUnavailable>> = OnceLock::new();
    ANSWER
        .get_or_init(|| probe_library(&["libcuda.so.1", "libcuda.so"], REQUIRED))
        .clone()
}
