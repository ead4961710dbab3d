//! The CUDA C of a rollout: headers, a controller, and one kernel per vehicle model and rule.
//!
//! ```text
//! #include "controllers.cuh"
//! struct Control { ... };                                       the snippet, if it is one
//! extern "C" __global__ rollout_TAG_MODEL_RULE(...)             four of them
//! ```
//!
//! The files of the built-in controllers are in `kernels/`, so that they can be checked
//! without a GPU; a test says that they are what this module writes.

use crate::control::CudaControl;
use crate::integrate::Integrator;
use crate::vehicle::VehicleModel;
use spark_mem::kernel::Header;
use std::fmt::Write as _;

/// What a rollout includes.
pub(super) const HEADERS: &[Header] = &[
    ("numbers.cuh", include_str!("../../../kernels/numbers.cuh")),
    (
        "vehicles.cuh",
        include_str!("../../../kernels/vehicles.cuh"),
    ),
    ("rollout.cuh", include_str!("../../../kernels/rollout.cuh")),
    (
        "controllers.cuh",
        include_str!("../../../kernels/controllers.cuh"),
    ),
];

/// No fused multiply-adds: the CPU path has none.
pub(super) const OPTIONS: &[&str] = &["--fmad=false"];

const MODELS: [(VehicleModel, &str, &str); 2] = [
    (VehicleModel::Kinematic, "kinematic", "Kinematic"),
    (VehicleModel::SingleTrack, "single_track", "SingleTrack"),
];
const RULES: [(Integrator, &str, &str); 2] = [
    (Integrator::Euler, "euler", "Euler"),
    (Integrator::Rk4, "rk4", "Rk4"),
];
const SIGNATURE: &str = "const float* cars, const double* exact, const unsigned* whole, const double* pieces, \
     const double* lines, const float* settings, float* ring, double* totals, float* extremes, \
     unsigned* ends, unsigned n, unsigned n_rows";
const ARGUMENTS: &str =
    "cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows";

/// Whether there are kernels for this.
pub(super) fn has_kernel(model: VehicleModel, integrator: Integrator) -> bool {
    let rules = RULES.map(|rule| rule.0);
    MODELS.iter().any(|known| known.0 == model) && rules.contains(&integrator)
}

/// File name, text and entry of a controller's rollout.
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) entry: String,
}

/// The rollout of a controller for cars of this model.
pub(super) fn source(
    control: &CudaControl,
    model: VehicleModel,
    integrator: Integrator,
) -> Option<Source> {
    let model = MODELS.iter().find(|known| known.0 == model)?.1;
    let rule = RULES.iter().find(|known| known.0 == integrator)?.1;
    let tag = &control.tag;
    Some(Source {
        file: format!("rollout_{tag}.cu"),
        text: rollout_source(control),
        entry: format!("rollout_{tag}_{model}_{rule}"),
    })
}

/// The CUDA C that is compiled for a controller, for NVIDIA's tools. It includes the files of
/// this crate's `kernels` folder.
pub fn rollout_source(control: &CudaControl) -> String {
    let (what, snippet, class) = match &control.snippet {
        Some(snippet) => ("a controller of one's own", snippet.as_str(), "Control"),
        None => match control.tag.as_str() {
            "lqr" => ("LQR", "", "sim::Lqr"),
            "pure_pursuit" => ("pure pursuit", "", "sim::PurePursuit"),
            "pid" => ("LatControlPID", "", "sim::LateralPid"),
            "pid_long" => (
                "LatControlPID and LongControl",
                "",
                "sim::LateralPidAndLongitudinal",
            ),
            _ => ("perfect tracking", "", "sim::PerfectTracking"),
        },
    };
    let mut text = format!(
        "// The closed loop with {what}; see rollout.cuh.\n#include \"controllers.cuh\"\n{snippet}"
    );
    for (_, model, model_class) in MODELS {
        for (_, rule, rule_class) in RULES {
            let tag = &control.tag;
            let _ = write!(
                text,
                "\nextern \"C\" __global__ void __launch_bounds__(128, 2) rollout_{tag}_{model}_{rule}({SIGNATURE}) {{\n  \
                 sim::rollout<sim::{model_class}, sim::{rule_class}, {class}>({{{ARGUMENTS}}});\n}}\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{LateralPidConfig, LongitudinalConfig, LqrConfig, PurePursuitConfig};

    #[test]
    fn the_files_of_built_in_controllers_are_what_is_compiled() {
        let lateral = LateralPidConfig::default();
        let longitudinal = LongitudinalConfig::default();
        let both = CudaControl::lateral_pid_and_longitudinal(&lateral, &longitudinal);
        let files = [
            (
                CudaControl::perfect_tracking(),
                include_str!("../../../kernels/rollout_perfect.cu"),
            ),
            (
                CudaControl::lateral_pid(&lateral),
                include_str!("../../../kernels/rollout_pid.cu"),
            ),
            (both, include_str!("../../../kernels/rollout_pid_long.cu")),
            (
                CudaControl::lqr(&LqrConfig::default()),
                include_str!("../../../kernels/rollout_lqr.cu"),
            ),
            (
                CudaControl::pure_pursuit(&PurePursuitConfig::default()),
                include_str!("../../../kernels/rollout_pure_pursuit.cu"),
            ),
        ];
        for (control, file) in files {
            assert_eq!(rollout_source(&control), file, "{}", control.tag);
        }
    }
}
