//! Which precisions the installed software can run.

use crate::capability::ComputeCapability;
use crate::precision::Precision;
use crate::reading::Reading;
use crate::version::Version;

use super::inventory::Stack;
use super::name::LibraryName;

/// What keeps a precision from running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingSoftware {
    /// The driver is too old, or did not tell what it offers.
    #[error("needs a driver with CUDA {wanted}, this one says {got}")]
    Driver {
        /// CUDA version wanted from the driver.
        wanted: Version,
        /// What the driver offers, or why it did not tell.
        got: String,
    },
    /// Neither a run-time compiler nor cuBLASLt that is new enough.
    #[error("needs NVRTC or cuBLASLt {wanted} or newer, found {got}")]
    Compiler {
        /// The version wanted of either.
        wanted: Version,
        /// The newest versions that were found, or that there are none.
        got: String,
    },
}

/// CUDA version that first builds code for this capability's FP8 or FP4 instructions.
///
/// FP8 on 8.9 and 9.0: CUDA 11.8 release notes. 10.0 and 12.0: CUDA 12.8 release notes.
/// 10.3 and 12.1: CUDA 12.9 (unsloth's `_BLACKWELL_SM_MIN_TOOLKIT` agrees).
fn toolkit_for(compute: ComputeCapability) -> &'static [u32] {
    match compute.sm() {
        0..100 => &[11, 8],
        100 | 101 | 120 => &[12, 8],
        102..120 | 121 => &[12, 9],
        _ => &[13, 0],
    }
}

impl Stack {
    /// Whether programs of this workspace can run `precision` on a GPU of this
    /// capability with what is installed.
    ///
    /// # Errors
    ///
    /// What is missing, if something is.
    pub fn can_run(
        &self,
        precision: Precision,
        compute: ComputeCapability,
    ) -> Result<(), MissingSoftware> {
        if !matches!(precision, Precision::Fp8 | Precision::Fp4) {
            return Ok(());
        }
        let wanted = toolkit_for(compute);
        // A driver runs code of its own CUDA version and older; of a newer minor version
        // only within one major version, which is not relied on here.
        match &self.driver_cuda {
            Reading::Value(offered) if offered.is_at_least(wanted) => {}
            other => {
                let (wanted, got) = (Version::new(wanted), other.to_string());
                return Err(MissingSoftware::Driver { wanted, got });
            }
        }
        let either = [LibraryName::Nvrtc, LibraryName::CublasLt];
        let newest = either.iter().filter_map(|name| self.newest(*name));
        let is_enough = newest
            .clone()
            .any(|library| library.version.is_at_least(wanted));
        if is_enough {
            return Ok(());
        }
        let found: Vec<String> = newest
            .map(|library| format!("{} {}", library.name, library.version))
            .collect();
        let got = if found.is_empty() {
            "neither".to_owned()
        } else {
            found.join(", ")
        };
        Err(MissingSoftware::Compiler {
            wanted: Version::new(wanted),
            got,
        })
    }
}
