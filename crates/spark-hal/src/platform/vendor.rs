//! Who built a DGX Spark system, from its DMI strings.
//!
//! | vendor | readable model in | example |
//! |---|---|---|
//! | NVIDIA | `product_name` | `NVIDIA_DGX_Spark` |
//! | Gigabyte | `product_name` | `AI TOP ATOM` |
//! | ASUS | `product_name` | `GX10` |
//! | Dell | `product_name` | `Dell Pro Max with GB10 FCM1253` |
//! | HP | `product_name` | `HP ZGX Nano G1n AI Station` |
//! | Lenovo | `product_version` | `ThinkStation PGX` |
//! | MSI | `board_name` | `EdgeXpert (MS-C931)` |
//! | Acer | not known | no published dump |
//!
//! Sources: canonical/secboot PR #560, lablup/all-smi issue #147 and PR #148, and
//! first-hand dumps of owners; MSI rests on one dump.

use std::fmt;

use super::dmi::Dmi;

/// The company on the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum SparkVendor {
    /// NVIDIA, the Founders Edition.
    Nvidia,
    /// Acer. Inferred from `sys_vendor` beginning with "Acer": no dump is published.
    Acer,
    /// ASUS; `product_name` has the model, such as `GX10`.
    Asus,
    /// Dell; `product_name` has the model, such as `Dell Pro Max with GB10 FCM1253`.
    Dell,
    /// Gigabyte; `product_name` has the model, such as `AI TOP ATOM`.
    Gigabyte,
    /// HP; `product_name` has the model, such as `HP ZGX Nano G1n AI Station`.
    Hp,
    /// Lenovo; `product_version` has the model, such as `ThinkStation PGX`.
    Lenovo,
    /// MSI; `board_name` has the model, such as `EdgeXpert (MS-C931)`.
    Msi,
    /// Somebody else, or the firmware does not say.
    Unknown,
}

impl fmt::Display for SparkVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nvidia => "NVIDIA",
            Self::Acer => "Acer",
            Self::Asus => "ASUS",
            Self::Dell => "Dell",
            Self::Gigabyte => "Gigabyte",
            Self::Hp => "HP",
            Self::Lenovo => "Lenovo",
            Self::Msi => "MSI",
            Self::Unknown => "unknown vendor",
        })
    }
}

impl SparkVendor {
    /// From `sys_vendor`, and for MSI (whose vendor string is not published) from
    /// its product number.
    pub(super) fn from_dmi(dmi: &Dmi) -> Self {
        const PREFIXES: [(&str, SparkVendor); 9] = [
            ("nvidia", SparkVendor::Nvidia),
            ("acer", SparkVendor::Acer),
            ("asus", SparkVendor::Asus),
            ("dell", SparkVendor::Dell),
            ("gigabyte", SparkVendor::Gigabyte),
            ("hp", SparkVendor::Hp),
            ("lenovo", SparkVendor::Lenovo),
            ("msi", SparkVendor::Msi),
            ("micro-star", SparkVendor::Msi),
        ];
        let vendor = dmi
            .sys_vendor
            .as_value()
            .map(|text| text.to_ascii_lowercase());
        let by_vendor = vendor.and_then(|text| {
            let matching = PREFIXES.iter().find(|(prefix, _)| text.starts_with(prefix));
            matching.map(|(_, vendor)| *vendor)
        });
        let msi_product = dmi
            .product_name
            .as_value()
            .is_some_and(|name| name == "MS-C931");
        match by_vendor {
            Some(vendor) => vendor,
            None if msi_product => Self::Msi,
            None => Self::Unknown,
        }
    }

    /// The model's readable name, from the entry where this vendor keeps it.
    pub(super) fn model(self, dmi: &Dmi) -> Option<String> {
        let entry = match self {
            Self::Lenovo => &dmi.product_version,
            Self::Msi => &dmi.board_name,
            _ => &dmi.product_name,
        };
        let name = entry.as_value().or(dmi.product_name.as_value())?;
        Some(name.replace('_', " "))
    }
}
