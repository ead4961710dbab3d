//! The CUDA C of a rollout: headers, a controller, and one kernel per vehicle model and rule.
//!
//! ```text
//! #include "controllers.cuh"                                    and "traffic.cuh", for other road users
//! // options: --fmad=false                                      for whoever compiles the file alone
//! struct Control { ... };                                       the snippet, if it is one
//! extern "C" __global__ rollout_TAG_MODEL_RULE(...)             four of them
//! ```
//!
//! Scenarios with other road users have kernels of their own, `rollout_TAG_traffic_...` in another file, so that the
//! others compile and run as if there were none.
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
    ("doubles.cuh", include_str!("../../../kernels/doubles.cuh")),
    ("rollout.cuh", include_str!("../../../kernels/rollout.cuh")),
    ("traffic.cuh", include_str!("../../../kernels/traffic.cuh")),
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

/// What kernels for other road users have besides.
const TRAFFIC_SIGNATURE: &str = ", const double* actors, const unsigned* rules, const unsigned* slots, double* moving, unsigned n_places";
const TRAFFIC_ARGUMENTS: &str = ", actors, rules, slots, moving, n_places";

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
    has_actors: bool,
) -> Option<Source> {
    let model = MODELS.iter().find(|known| known.0 == model)?.1;
    let rule = RULES.iter().find(|known| known.0 == integrator)?.1;
    let tag = tag(control, has_actors);
    Some(Source {
        file: format!("rollout_{tag}.cu"),
        text: text(control, has_actors),
        entry: format!("rollout_{tag}_{model}_{rule}"),
    })
}

fn tag(control: &CudaControl, has_actors: bool) -> String {
    let traffic = if has_actors { "_traffic" } else { "" };
    format!("{}{traffic}", control.tag)
}

/// The CUDA C that is compiled for a controller, for NVIDIA's tools. It includes the files of
/// this crate's `kernels` folder. Scenarios with other road users need [`rollout_traffic_source`].
pub fn rollout_source(control: &CudaControl) -> String {
    text(control, false)
}

/// As [`rollout_source`], for scenarios with other road users.
pub fn rollout_traffic_source(control: &CudaControl) -> String {
    text(control, true)
}

fn text(control: &CudaControl, has_actors: bool) -> String {
    let (what, snippet, class) = match &control.snippet {
        Some(snippet) => ("a controller of one's own", snippet.as_str(), "Control"),
        None => built_in(&control.tag),
    };
    let tag = tag(control, has_actors);
    let mut text = format!("// The closed loop with {what}");
    let (signature, arguments, others) = if has_actors {
        text += ", other road users included; see rollout.cuh.\n#include \"controllers.cuh\"\n#include \"traffic.cuh\"\n";
        (TRAFFIC_SIGNATURE, TRAFFIC_ARGUMENTS, ", sim::Traffic")
    } else {
        text += "; see rollout.cuh.\n#include \"controllers.cuh\"\n";
        ("", "", "")
    };
    let _ = writeln!(text, "// options: {}", OPTIONS.join(" "));
    text += snippet;
    for (_, model, model_class) in MODELS {
        for (_, rule, rule_class) in RULES {
            let _ = write!(
                text,
                "\nextern \"C\" __global__ void __launch_bounds__(128, 2) rollout_{tag}_{model}_{rule}({SIGNATURE}{signature}) {{\n  \
                 sim::rollout<sim::{model_class}, sim::{rule_class}, {class}{others}>({{{ARGUMENTS}{arguments}}});\n}}\n"
            );
        }
    }
    text
}

/// Name, text of its own, and class of a built-in controller.
fn built_in(tag: &str) -> (&'static str, &'static str, &'static str) {
    let (what, class) = match tag {
        "lqr" => ("LQR", "sim::Lqr"),
        "pure_pursuit" => ("pure pursuit", "sim::PurePursuit"),
        "pid" => ("LatControlPID", "sim::LateralPid"),
        "pid_long" => (
            "LatControlPID and LongControl",
            "sim::AndLongitudinal<sim::LateralPid>",
        ),
        "torque" => ("LatControlTorque", "sim::LateralTorque"),
        "torque_long" => (
            "LatControlTorque and LongControl",
            "sim::AndLongitudinal<sim::LateralTorque>",
        ),
        _ => ("perfect tracking", "sim::PerfectTracking"),
    };
    (what, "", class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{
        LateralPidConfig, LateralTorqueConfig, LongitudinalConfig, LqrConfig, PurePursuitConfig,
    };

    #[test]
    fn the_files_of_built_in_controllers_are_what_is_compiled() {
        let lateral = LateralPidConfig::default();
        let longitudinal = LongitudinalConfig::default();
        let torque = LateralTorqueConfig::default();
        macro_rules! files {
            ($tag:literal) => {
                [
                    include_str!(concat!("../../../kernels/rollout_", $tag, ".cu")),
                    include_str!(concat!("../../../kernels/rollout_", $tag, "_traffic.cu")),
                ]
            };
        }
        let files = [
            (CudaControl::perfect_tracking(), files!("perfect")),
            (CudaControl::lateral_pid(&lateral), files!("pid")),
            (
                CudaControl::lateral_pid_and_longitudinal(&lateral, &longitudinal),
                files!("pid_long"),
            ),
            (CudaControl::lateral_torque(&torque), files!("torque")),
            (
                CudaControl::lateral_torque_and_longitudinal(&torque, &longitudinal),
                files!("torque_long"),
            ),
            (CudaControl::lqr(&LqrConfig::default()), files!("lqr")),
            (
                CudaControl::pure_pursuit(&PurePursuitConfig::default()),
                files!("pure_pursuit"),
            ),
        ];
        for (control, [plain, traffic]) in files {
            assert_eq!(rollout_source(&control), plain, "{}", control.tag);
            assert_eq!(rollout_traffic_source(&control), traffic, "{}", control.tag);
        }
    }
}
