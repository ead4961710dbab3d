//! The suite on the stand-in driver, as each of the GPUs that it poses as.

use std::path::Path;
use std::sync::OnceLock;

use spark_mem::{Device, DeviceOptions};
use spark_testing::driver::{Build, Persona, Posed, StandInDriver};

use crate::conformance::{self, for_each_case};

/// The kernels of the tests, for the stand-in driver.
pub(crate) fn build() -> Build<'static> {
    static PATHS: OnceLock<[&Path; 8]> = OnceLock::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = |path: &str| -> &'static Path { Box::leak(folder.join(path).into_boxed_path()) };
    let paths = PATHS.get_or_init(|| {
        [
            path("kernels"),
            path("tests/kernels/elementwise.cu"),
            path("tests/kernels/rows.cu"),
            path("tests/kernels/matmul.cu"),
            path("tests/kernels/parameters.cu"),
            path("kernels/bandwidth.cu"),
            path("kernels/increment.cu"),
            path("../../examples/kernels/wave.cu"),
        ]
    });
    Build {
        kernels: &paths[1..],
        includes: &paths[..1],
        ..Build::default()
    }
}

/// The driver of this process.
pub(crate) fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| StandInDriver::load(&build()).expect("the stand-in driver builds"))
}

/// Options that do not depend on the environment; no cache on disk.
pub(crate) fn options() -> DeviceOptions {
    DeviceOptions::new()
}

pub(crate) fn device() -> Device {
    Device::cuda(0, options()).expect("the stand-in driver has a device")
}

/// Runs a test on a device of this persona and asserts that nothing is left behind.
#[track_caller]
pub(crate) fn check(persona: Persona, test: impl FnOnce(&Posed<'_>, &Device)) {
    let posed = driver().pose(persona);
    let device = device();
    test(&posed, &device);
    drop(device);
    posed.assert_clean();
}

mod spark {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                check(Persona::Spark, |_, device| conformance::$case(device));
            })+
        };
    }
    for_each_case!(tests);
}

mod card {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                check(Persona::Card, |_, device| conformance::$case(device));
            })+
        };
    }
    for_each_case!(tests);
}

mod jetson {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                check(Persona::Jetson, |_, device| conformance::$case(device));
            })+
        };
    }
    for_each_case!(tests);
}

mod ampere {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                check(Persona::Ampere, |_, device| conformance::$case(device));
            })+
        };
    }
    for_each_case!(tests);
}
