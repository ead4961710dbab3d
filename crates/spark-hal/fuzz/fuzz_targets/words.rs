//! The parsers of single words: PCI addresses, versions, precisions, capabilities, CPU sets.

#![no_main]

use spark_hal::cpu::{format_cpu_list, parse_cpu_list};
use spark_hal::pci::PciAddress;
use spark_hal::stack::Version;
use spark_hal::{ComputeCapability, Config, Precision};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(address) = text.parse::<PciAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(version) = text.parse::<Version>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    if let Ok(precision) = text.parse::<Precision>() {
        assert_eq!(precision.to_string().parse(), Ok(precision));
    }
    if let Ok(compute) = text.parse::<ComputeCapability>() {
        assert_eq!(compute.to_string().parse(), Ok(compute));
    }
    if let Some(cpus) = parse_cpu_list(text) {
        assert_eq!(parse_cpu_list(&format_cpu_list(&cpus)), Some(cpus));
    }
    let _ = Config::read(|_| Some(text.into()));
});
