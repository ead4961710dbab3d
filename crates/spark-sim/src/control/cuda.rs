//! Controllers as CUDA C, for rollouts on a GPU.
//!
//! ```text
//! built in   kernels/controllers.cuh: perfect tracking, LatControlPID, LongControl, LQR, pure pursuit
//! your own   a snippet that defines `struct Control` with `Memory` and `update`
//! ```
//!
//! Not here: LatControlTorque, which remembers a second of requests.

use super::{
    Algorithm, AlgorithmFactory, CudaControl, LateralPidConfig, LongitudinalConfig, LqrConfig,
    PerfectTracking, PurePursuitConfig, Table,
};
use crate::vehicle::SteerInterface;

impl CudaControl {
    /// The same as [`PerfectTracking`], on a GPU.
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

    /// The same as [`Lqr`](super::Lqr), on a GPU.
    #[must_use]
    pub fn lqr(config: &LqrConfig) -> Self {
        Self::follower("lqr", config.gains())
    }

    /// The same as [`PurePursuit`](super::PurePursuit), on a GPU.
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

    /// The same as [`LateralPid`](super::LateralPid), on a GPU.
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
    // Kernels go by this count, so it must be exact, which f32 is up to here; tables are shorter.
    let n_stretches = stretches.len().min(1 << f32::MANTISSA_DIGITS);
    parameters.extend([n_stretches as f32, first as f32]);
    for stretch in stretches.into_iter().take(n_stretches) {
        parameters.extend(stretch.map(|x| x as f32));
    }
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
