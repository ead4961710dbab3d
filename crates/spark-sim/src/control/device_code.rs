//! A controller's code for a GPU: the name of one that is built in, or a snippet of CUDA C.
//!
//! A snippet is compiled by NVRTC when it is first used and kept on disk. Nothing can check that
//! it stays inside the memory it is given, so whoever makes a controller of one promises it:
//! [`CudaControl::new`] is `unsafe`, and running what it made is not.

#![allow(unsafe_code, reason = "declares what the maker of a snippet owes")]

use super::LateralTorqueConfig;
use crate::SimError;
use crate::vehicle::SteerInterface;

/// Longest snippet of CUDA C that is taken, bytes.
const LONGEST_SNIPPET: usize = 1 << 20;

/// A controller that a GPU runs.
///
/// ```
/// use spark_sim::control::CudaControl;
/// use spark_sim::vehicle::SteerInterface;
///
/// const SNIPPET: &str = r"struct Control {
///     struct Memory { float integral; };
///     __device__ static void update(const sim::State& s, const sim::Car& car,
///                                   const float* gains, Memory& memory, sim::Action& action) {
///         memory.integral += s.lateral_offset * s.dt;
///         action.steer = s.road_curvature - gains[0] * s.lateral_offset - gains[1] * memory.integral;
///     }
/// };";
/// let interface = Some(SteerInterface::Curvature);
/// // SAFETY: it writes its memory and its action only, and reads two gains, which there are.
/// let control = unsafe { CudaControl::new(SNIPPET, vec![1e-3, 1e-5], interface, false) }?;
/// # Ok::<(), spark_sim::SimError>(())
/// ```
///
/// Code without `unsafe` runs the controllers that are built in, and what others made:
///
/// ```compile_fail,E0133
/// use spark_sim::control::CudaControl;
/// use spark_sim::vehicle::SteerInterface;
///
/// const SNIPPET: &str = r"struct Control {
///     struct Memory { float far; };
///     __device__ static void update(const sim::State& s, const sim::Car& car,
///                                   const float* gains, Memory& memory, sim::Action& action) {
///         (&memory.far)[1 << 20] = gains[1 << 20];
///     }
/// };";
/// let interface = Some(SteerInterface::Curvature);
/// let control = CudaControl::new(SNIPPET, vec![1e-3, 1e-5], interface, false)?;
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CudaControl {
    /// Part of the kernels' names.
    pub(crate) tag: String,
    /// The snippet; none for the built-in ones.
    pub(crate) snippet: Option<String>,
    pub(crate) parameters: Vec<f32>,
    /// Whose figures of every car, and memory of requests, it needs besides.
    pub(crate) torque: Option<LateralTorqueConfig>,
    pub(crate) steer: Option<SteerInterface>,
    pub(crate) controls_speed: bool,
}

impl CudaControl {
    /// A controller of one's own.
    ///
    /// `snippet` defines `struct Control` as above; it may use everything in
    /// `kernels/controllers.cuh`. `Memory` is zero at the start of a scenario. `parameters` is
    /// what `update` gets as `gains`. `steer` and `controls_speed` say what it controls, as
    /// in [`Algorithm`](super::Algorithm).
    ///
    /// # Safety
    ///
    /// The snippet is compiled into the kernel that drives scenarios, and nothing checks it. In
    /// every scenario, with every state that a drive can reach and numbers that are not finite:
    ///
    /// - it reads its arguments only: `state`, `car`, `memory`, `action` and the elements
    ///   `gains[0]` to `gains[parameters.len() - 1]`;
    /// - it writes `memory` and `action` only, each within its own size, besides variables of its
    ///   own; it keeps no address of them beyond the call;
    /// - it does nothing that CUDA C leaves undefined, waits for no other thread, and allocates
    ///   no memory;
    /// - it defines `Control` and what that needs, under names of its own: no macro and no
    ///   declaration that changes the meaning of the kernel's text around it.
    ///
    /// A snippet that never comes back breaks no promise, but hangs the GPU.
    ///
    /// # Errors
    ///
    /// [`SimError::Snippet`] if it is longer than 1 MiB, has a NUL in it or defines no
    /// `struct Control`. What the compiler refuses shows when it runs.
    pub unsafe fn new(
        snippet: impl Into<String>,
        parameters: Vec<f32>,
        steer: Option<SteerInterface>,
        controls_speed: bool,
    ) -> Result<Self, SimError> {
        let snippet = snippet.into();
        let refuse = |reason| Err(SimError::Snippet { reason });
        if snippet.len() > LONGEST_SNIPPET {
            return refuse("longer than 1 MiB");
        }
        if snippet.contains('\0') {
            return refuse("a NUL in the text");
        }
        if !snippet.contains("struct Control") {
            return refuse("no `struct Control`");
        }
        Ok(Self {
            tag: format!("own_{:016x}", fnv1a(snippet.as_bytes())),
            snippet: Some(snippet),
            parameters,
            torque: None,
            steer,
            controls_speed,
        })
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: tells snippets apart by name.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
