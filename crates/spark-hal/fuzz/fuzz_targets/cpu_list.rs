//! `/sys/devices/system/cpu/online` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("sys/devices/system/cpu/online", bytes);
});
