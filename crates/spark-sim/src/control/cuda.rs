//! Controllers as CUDA C, for rollouts on a GPU.
//!
//! ```text
//! built in   kernels/controllers.cuh: perfect tracking, LatControlPID, LatControlTorque, each of these
//!            two with LongControl, LQR, pure pursuit
//! your own   a snippet that defines `struct Control` with `Memory` and `update`
//! ```
//!
//! Not here: reference drivers, networks, LongControl with other steering.

use super::{
    Algorithm, AlgorithmFactory, CudaControl, LateralPidConfig, LateralTorqueConfig,
    LongitudinalConfig, LqrConfig, PerfectTracking, PurePursuitConfig, Table,
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
            torque: None,
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
            torque: None,
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
            torque: None,
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
        Self::lateral_pid(lateral).and_longitudinal(longitudinal)
    }

    /// The same as [`LateralTorque`](super::LateralTorque), on a GPU.
    #[must_use]
    pub fn lateral_torque(config: &LateralTorqueConfig) -> Self {
        let mut parameters = vec![
            config.steer_limit_timer_s as f32,
            config.ki as f32,
            config.jerk_gain_s as f32,
        ];
        push_table(&mut parameters, &config.kp);
        Self {
            tag: "torque".to_owned(),
            snippet: None,
            parameters,
            torque: Some(config.clone()),
            steer: Some(SteerInterface::Torque),
            controls_speed: false,
        }
    }

    /// [`LateralTorque`](super::LateralTorque) and [`Longitudinal`](super::Longitudinal),
    /// [`Combined`](super::Combined).
    #[must_use]
    pub fn lateral_torque_and_longitudinal(
        lateral: &LateralTorqueConfig,
        longitudinal: &LongitudinalConfig,
    ) -> Self {
        Self::lateral_torque(lateral).and_longitudinal(longitudinal)
    }

    /// This lateral controller's steering, LongControl's speed.
    fn and_longitudinal(mut self, c: &LongitudinalConfig) -> Self {
        let figures = [
            c.v_ego_starting,
            c.stopping_decel_rate,
            c.stop_accel,
            c.start_accel,
            c.kp,
            c.ki,
        ];
        self.parameters.extend(figures.map(|x| x as f32));
        Self {
            tag: format!("{}_long", self.tag),
            controls_speed: true,
            ..self
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
