//! `/dev/kmsg` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("dev/kmsg", bytes);
});
