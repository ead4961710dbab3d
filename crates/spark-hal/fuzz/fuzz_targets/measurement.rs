//! A measurement between machines of any content: what is read is examined, and is the same when it is written and read again.

#![no_main]

use spark_hal::cluster::{Cluster, Host, Measurement, examine};
use spark_hal::{Machine, Root, Sources};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(measurement) = Measurement::parse(&text) else {
        return;
    };
    let again = Measurement::parse(&measurement.to_json()).expect("what was written");
    assert_eq!(again.ranks, measurement.ranks);
    let names = measurement.ranks.iter().take(3).map(|rank| rank.host.clone());
    let host = |name: String| {
        let root = Root::at("a-folder-without-files");
        Host::read(&name, &root, Machine::read(&Sources::files(root.clone())))
    };
    let cluster = Cluster {
        hosts: names.map(host).collect(),
        measurements: vec![("fuzzed".to_owned(), measurement)],
    };
    assert!(examine(&cluster).to_text().len() < 100_000);
});
