//! Controllers by name.

use clap::ValueEnum;
use sparkpilot::sim::control::{
    Algorithm, AlgorithmFactory, Combined, DoNothing, LateralPid, LateralPidConfig, LateralTorque,
    LateralTorqueConfig, Longitudinal, LongitudinalConfig, Lqr, LqrConfig, PerLane,
    PerfectTracking, PurePursuit, PurePursuitConfig, ReferenceDriver, ReferenceDriverKind,
};

use super::words::name_of;

/// A controller that needs no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Controller {
    /// openpilot's lateral PID with its longitudinal controller
    Pid,
    /// openpilot's torque controller with its longitudinal controller
    Torque,
    /// Linear-quadratic steering; speed as the planner wants it
    Lqr,
    /// Pure pursuit; speed as the planner wants it
    PurePursuit,
    /// Tracks what the planner wants without error
    Perfect,
    /// Neither steers nor brakes
    Nothing,
    /// Brakes as UN R157 requires, as hard as the car's actuators can; does not steer
    Regulation,
    /// UN R157's careful and competent driver, as hard as the car's actuators can; does not steer
    Careful,
}

/// Makes a controller as often as a run needs it.
pub(super) struct Factory {
    name: String,
    controller: Controller,
}

impl AlgorithmFactory for Factory {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self) -> Option<Box<dyn Algorithm>> {
        Some(self.controller.create())
    }
}

impl Controller {
    /// A factory of it, which reports call by its name here.
    pub(super) fn factory(self) -> Factory {
        Factory {
            name: name_of(self),
            controller: self,
        }
    }

    fn create(self) -> Box<dyn Algorithm> {
        let longitudinal = || Longitudinal::new(LongitudinalConfig::default());
        let driver = |kind| -> Box<dyn Algorithm> {
            Box::new(PerLane::new(None, true, move || ReferenceDriver::new(kind)))
        };
        match self {
            Self::Pid => Box::new(Combined::new(
                LateralPid::new(LateralPidConfig::default()),
                longitudinal(),
            )),
            Self::Torque => Box::new(Combined::new(
                LateralTorque::new(LateralTorqueConfig::default()),
                longitudinal(),
            )),
            Self::Lqr => Box::new(Lqr::new(LqrConfig::default())),
            Self::PurePursuit => Box::new(PurePursuit::new(PurePursuitConfig::default())),
            Self::Perfect => Box::new(PerfectTracking),
            Self::Nothing => Box::new(DoNothing),
            Self::Regulation => driver(ReferenceDriverKind::Regulation),
            Self::Careful => driver(ReferenceDriverKind::Careful),
        }
    }
}
