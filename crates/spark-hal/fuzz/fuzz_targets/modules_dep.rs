//! `/lib/modules/6.14.0-1013-nvidia/modules.dep` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("lib/modules/6.14.0-1013-nvidia/modules.dep", bytes);
});
