//! What the firmware calls the machine: `/sys/class/dmi/id`.
//!
//! Only world-readable entries without serial numbers are ever opened.

use crate::reading::{Reading, quote};
use crate::root::Root;

/// The directory of the entries.
pub(super) const DIRECTORY: &str = "/sys/class/dmi/id";

/// The strings that name a machine. Vendors fill unused ones with nothing, `0000`
/// or `INVALID`; those readings are [`Reading::NotSupported`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Dmi {
    /// `product_family`: the only string equal on all DGX Spark systems.
    pub product_family: Reading<String>,
    /// `sys_vendor`: the company that built the machine.
    pub sys_vendor: Reading<String>,
    /// `product_name`: the vendor's name for the model.
    pub product_name: Reading<String>,
    /// `product_version`: Lenovo keeps the readable name here.
    pub product_version: Reading<String>,
    /// `board_name`: MSI keeps the readable name here.
    pub board_name: Reading<String>,
    /// `bios_version`: the firmware's version in the vendor's words.
    pub bios_version: Reading<String>,
}

impl Dmi {
    /// Reads the entries below `/sys/class/dmi/id`, each a reading of its own.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let entry = |name: &str| {
            root.line(&format!("{DIRECTORY}/{name}")).and_then(|text| {
                if is_placeholder(&text) {
                    Reading::NotSupported
                } else {
                    Reading::Value(quote(&text))
                }
            })
        };
        Self {
            product_family: entry("product_family"),
            sys_vendor: entry("sys_vendor"),
            product_name: entry("product_name"),
            product_version: entry("product_version"),
            board_name: entry("board_name"),
            bios_version: entry("bios_version"),
        }
    }

    /// Whether the family is DGX Spark's.
    ///
    /// Production machines say `DGX Spark`, prototypes `DGXSpark`
    /// (canonical/secboot PR #560); blanks, underscores and case do not count.
    #[must_use]
    pub fn is_dgx_spark_family(&self) -> bool {
        self.product_family.as_value().is_some_and(|family| {
            let plain: String = family
                .chars()
                .filter(|c| !c.is_whitespace() && *c != '_')
                .map(|c| c.to_ascii_lowercase())
                .collect();
            plain == "dgxspark"
        })
    }
}

/// Texts that mean "not filled in" (Lenovo's `INVALID` and the `0000` of others are
/// in the dumps of canonical/secboot PR #560; the long ones are AMI's defaults).
fn is_placeholder(text: &str) -> bool {
    const PLACEHOLDERS: [&str; 5] = [
        "invalid",
        "0000",
        "default string",
        "to be filled by o.e.m.",
        "system product name",
    ];
    text.is_empty()
        || PLACEHOLDERS
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}
