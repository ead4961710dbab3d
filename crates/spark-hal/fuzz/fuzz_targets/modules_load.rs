//! `/etc/modules-load.d/any.conf` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("etc/modules-load.d/any.conf", bytes);
});
