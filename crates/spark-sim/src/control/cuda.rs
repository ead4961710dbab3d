//! Controllers as CUDA C, for rollouts on a GPU.
//!
//! ```text
//! built in   kernels/controllers.cuh: perfect tracking, LatControlPID, LongControl, LQR, pure pursuit
//! your own   a snippet that defines `struct Control` with `Memory` and `update`
//! ```
//!
//! A snippet is compiled by NVRTC when it is first used and kept on disk. What it does with
//! the memory it is given is up to it: nothing can check that it stays inside.
//!
//! Not here: LatControlTorque, which remembers a second of requests.

use super::{
    Algorithm, AlgorithmFactory, LateralPidConfig, LongitudinalConfig, LqrConfig, PerfectTracking,
    PurePursuitConfig, Table,
};
use crate::SimError;
use crate::vehicle::SteerInterface;

/// Longest snippet, bytes.
const LONGEST_SNIPPET: usize = 1 << 20;

/// A controller that a GPU runs.
///
/// ```
/// use spark_sim::control::CudaControl;
/// use spark_sim::vehicle::SteerInterface;
///
/// let control = CudaControl::new(
///     r"struct Control {
///         struct Memory { float integral; };
///         __device__ static void update(const sim::State& s, const sim::Car& car,
///                                       const float* gains, Memory& memory, sim::Action& action) {
///             memory.integral += s.lateral_offset * s.dt;
///             action.steer = s.road_curvature - gains[0] * s.lateral_offset - gains[1] * memory.integral;
///         }
///     };",
///     vec![1e-3, 1e-5],
///     Some(SteerInterface::Curvature),
///     false,
/// )?;
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CudaControl {
    /// Part of the kernels' names.
    pub(crate) tag: String,
    /// The snippet; none for the built-in ones.
    pub(crate) snippet: Option<String>,
    pub(crate) parameters: Vec<f32>,
    pub(crate) steer: Option<SteerInterface>,
    pub(crate) controls_speed: bool,
}

impl CudaControl {
    /// A controller of one's own.
    ///
    /// `snippet` defines `struct Control` as above; it may use everything in
    /// `kernels/controllers.cuh`. `Memory` is zero at the start of a scenario. `parameters` is
    /// what `update` gets as `gains`. `steer` and `controls_speed` say what it controls, as
    /// in [`Algorithm`].
    ///
    /// # Errors
    ///
    /// [`SimError::Snippet`] if it is longer than 1 MiB, has a NUL in it or defines no
    /// `struct Control`. What the compiler refuses shows when it runs.
    pub fn new(
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
            steer,
            controls_speed,
        })
    }

    /// [`PerfectTracking`].
    #[must_use]
    pub fn perfect_tracking() -> Self {
        Self {
            tag: "perfect".to_owned(),
            snippet: None,
            parameters: Vec::new(),
            steer: PerfectTracking.steer_interface(),
            controls_speed: PerfectTracking.controls_speed(),
        }
    }

    /// [`Lqr`](super::Lqr).
    #[must_use]
    pub fn lqr(config: &LqrConfig) -> Self {
        Self::follower("lqr", config.gains())
    }

    /// [`PurePursuit`](super::PurePursuit).
    #[must_use]
    pub fn pure_pursuit(config: &PurePursuitConfig) -> Self {
        Self::follower("pure_pursuit", [config.shortest, config.time])
    }

    /// A controller that answers with a curvature and has two figures.
    fn follower(tag: &str, figures: [f64; 2]) -> Self {
        Self {
            tag: tag.to_owned(),
            snippet: None,
            parameters: figures.map(|x| x as f32).to_vec(),
            steer: Some(SteerInterface::Curvature),
            controls_speed: false,
        }
    }

    /// [`LateralPid`](super::LateralPid).
    #[must_use]
    pub fn lateral_pid(config: &LateralPidConfig) -> Self {
        let mut parameters = vec![
            config.steer_limit_timer_s as f32,
            config.angle_offset_deg as f32,
            config.kf as f32,
        ];
        push_table(&mut parameters, &config.kp);
        push_table(&mut parameters, &config.ki);
        Self {
            tag: "pid".to_owned(),
            snippet: None,
            parameters,
            steer: Some(SteerInterface::Torque),
            controls_speed: false,
        }
    }

    /// [`LateralPid`](super::LateralPid) and [`Longitudinal`](super::Longitudinal),
    /// [`Combined`](super::Combined).
    #[must_use]
    pub fn lateral_pid_and_longitudinal(
        lateral: &LateralPidConfig,
        longitudinal: &LongitudinalConfig,
    ) -> Self {
        let mut control = Self::lateral_pid(lateral);
        let c = longitudinal;
        let figures = [
            c.v_ego_starting,
            c.stopping_decel_rate,
            c.stop_accel,
            c.start_accel,
            c.kp,
            c.ki,
        ];
        control.parameters.extend(figures.map(|x| x as f32));
        Self {
            tag: "pid_long".to_owned(),
            controls_speed: true,
            ..control
        }
    }
}

fn push_table(parameters: &mut Vec<f32>, table: &Table) {
    let (first, stretches) = table.stretches();
    parameters.extend([stretches.len() as f32, first as f32]);
    for stretch in stretches {
        parameters.extend(stretch.map(|x| x as f32));
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: tells snippets apart by name.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A factory of a controller that exists in CUDA C only; see [`cuda_only`].
pub struct CudaOnly {
    name: String,
    control: CudaControl,
}

/// A controller without a version for the CPU: without a GPU its scenarios fail, each with
/// [`NotOnDevice`](crate::run::ScenarioError::NotOnDevice).
pub fn cuda_only(name: impl Into<String>, control: CudaControl) -> CudaOnly {
    CudaOnly {
        name: name.into(),
        control,
    }
}

impl AlgorithmFactory for CudaOnly {
    fn name(&self) -> &str {
        &self.name
    }
    fn create(&self) -> Option<Box<dyn Algorithm>> {
        None
    }
    fn cuda(&self) -> Option<&CudaControl> {
        Some(&self.control)
    }
}
