//! Temperatures by `/sys/class/hwmon`, named by chip and label: numbers of chips change from boot to boot.
//!
//! Source: Linux `Documentation/hwmon/sysfs-interface.rst` (thousandths of a degree).

use crate::reading::Reading;
use crate::root::Root;

/// What a sensor says.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Temperature {
    /// The chip's name and the sensor's label, or its number: `nvme Composite`, `acpitz temp1`; `nvme Composite (2)`
    /// for a second one of that name.
    pub sensor: String,
    /// Degrees Celsius.
    pub celsius: f64,
}

const FOLDER: &str = "/sys/class/hwmon";

/// Sensors that answer, in the order of their names.
pub(super) fn read(root: &Root) -> Vec<Temperature> {
    let Reading::Value(chips) = root.entries(FOLDER) else {
        return Vec::new();
    };
    let mut all: Vec<Temperature> = chips.iter().flat_map(|chip| of_chip(root, chip)).collect();
    all.sort_by(|a, b| a.sensor.cmp(&b.sensor));
    // Two drives of a kind have one name: the second is told apart by its place.
    let names: Vec<String> = all.iter().map(|one| one.sensor.clone()).collect();
    for (idx, one) in all.iter_mut().enumerate() {
        let n_before = names[..idx]
            .iter()
            .rev()
            .take_while(|name| **name == one.sensor);
        let n_before = n_before.count();
        if n_before > 0 {
            one.sensor = format!("{} ({})", one.sensor, n_before + 1);
        }
    }
    all
}

fn of_chip(root: &Root, chip: &str) -> Vec<Temperature> {
    let folder = format!("{FOLDER}/{chip}");
    let is_input = |name: &str| name.starts_with("temp") && name.ends_with("_input");
    let Reading::Value(inputs) = root.entries_where(&folder, is_input) else {
        return Vec::new();
    };
    let name = match root.line(&format!("{folder}/name")) {
        Reading::Value(name) => name,
        Reading::NotSupported | Reading::Failed(_) => chip.to_owned(),
    };
    let sensor = |input: &String| {
        let number = input.strip_suffix("_input")?;
        let Reading::Value(thousandths) = root.number::<i64>(&format!("{folder}/{input}")) else {
            return None;
        };
        let label = match root.line(&format!("{folder}/{number}_label")) {
            Reading::Value(label) if !label.is_empty() => label,
            _ => number.to_owned(),
        };
        Some(Temperature {
            sensor: format!("{name} {label}"),
            celsius: thousandths as f64 / 1000.0,
        })
    };
    inputs.iter().filter_map(sensor).collect()
}
