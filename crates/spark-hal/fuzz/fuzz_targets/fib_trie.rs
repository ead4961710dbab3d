//! `/proc/net/fib_trie` of any content.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with("proc/net/fib_trie", bytes);
});
