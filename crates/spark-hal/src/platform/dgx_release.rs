//! `/etc/dgx-release`: which DGX OS this is.
//!
//! ```text
//! DGX_NAME="DGX Spark"
//! DGX_PRETTY_NAME="NVIDIA DGX Spark"
//! DGX_SWBUILD_VERSION="7.2.3"
//! DGX_SERIAL_NUMBER="..."        never kept
//! DGX_OTA_VERSION="7.3.1"        appended once per update: the last one counts
//! ```
//!
//! Values are sometimes unquoted. Other DGX systems carry the file too
//! (`DGX Server`, `DGX GB300WS`), so the name decides, not the file.

use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

pub(super) const PATH: &str = "/etc/dgx-release";

/// What the file says, the serial number left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DgxRelease {
    /// `DGX_NAME`, such as `DGX Spark`.
    pub name: String,
    /// `DGX_PRETTY_NAME`: the name for people.
    pub pretty_name: Option<String>,
    /// `DGX_PLATFORM`: the kind of machine that the image is for.
    pub platform: Option<String>,
    /// `DGX_SWBUILD_VERSION`: the version the machine was imaged with.
    pub build_version: Option<String>,
    /// `DGX_OTA_VERSION`: the last update over the air.
    pub ota_version: Option<String>,
}

impl DgxRelease {
    /// Reads `/etc/dgx-release`; not supported where there is none.
    #[must_use]
    pub fn read(root: &Root) -> Reading<Self> {
        root.text(PATH).and_then(|text| match Self::parse(&text) {
            Some(release) => Reading::Value(release),
            None => Reading::Failed(Failure::malformed(PATH, &text, "lines with DGX_NAME=")),
        })
    }

    /// Reads the text of the file; `None` without a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut release = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let value = unquoted(value.trim());
            match key.trim() {
                "DGX_NAME" => release.name = value,
                "DGX_PRETTY_NAME" => release.pretty_name = Some(value),
                "DGX_PLATFORM" => release.platform = Some(value),
                "DGX_SWBUILD_VERSION" => release.build_version = Some(value),
                "DGX_OTA_VERSION" => release.ota_version = Some(value),
                _ => {}
            }
        }
        (!release.name.is_empty()).then_some(release)
    }

    /// Whether it names DGX Spark: NVIDIA's own cluster script asks for both names
    /// (dgx-spark-playbooks, `spark_cluster_setup.py`).
    #[must_use]
    pub fn is_dgx_spark(&self) -> bool {
        self.name == "DGX Spark" && self.pretty_name.as_deref() == Some("NVIDIA DGX Spark")
    }

    /// The newest version named: the last update, else the image.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.ota_version
            .as_deref()
            .or(self.build_version.as_deref())
    }
}

fn unquoted(value: &str) -> String {
    let inner = ['"', '\'']
        .iter()
        .find_map(|mark| value.strip_prefix(*mark)?.strip_suffix(*mark))
        .unwrap_or(value);
    quote(inner)
}
