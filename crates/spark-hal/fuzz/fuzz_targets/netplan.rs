//! Files of netplan of any content.

#![no_main]

use spark_hal::cluster::Netplan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Err(refused) = Netplan::parse(&text) {
        assert!(refused.line >= 1 && refused.line <= text.lines().count());
    }
});
