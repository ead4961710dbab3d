//! A file of systemd's journal: a header that is taken for one, and any content behind it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = b"LPKSHHRH".to_vec();
    file.extend(bytes);
    spark_hal_fuzz::machine_with("var/log/journal/0123456789abcdef0123456789abcdef/system.journal", &file);
});
