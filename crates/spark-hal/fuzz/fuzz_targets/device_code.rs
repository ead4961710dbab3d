//! `/home/user/.local/lib/python3.12/site-packages/x/_C.so` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("home/user/.local/lib/python3.12/site-packages/x/_C.so", bytes);
});
