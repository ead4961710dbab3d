//! A measurement between machines of any content: what is read is examined, and is the same when it is written and read again.
//!
//! Bytes stand by themselves, or, behind a first byte of 0, in the place of some of a whole file: JSON of the right shape is hard to come by.

#![no_main]

use spark_hal::cluster::{Cluster, Host, Measurement, examine};
use spark_hal::{Machine, Root, Sources};

const WHOLE: &str = r#"{"schema":"spark-cluster-measurement/1","program":"p","rail":null,"message_bytes":4194304,"in_flight":16,
"ranks":[{"host":"a","mpi":"m","build":"b","environment":{"UCX_NET_DEVICES":"x:1"}},{"host":"b","mpi":"m","build":"b","environment":{}}],
"pairs":[{"a":0,"b":1,"round_trip_us":{"n":3,"min":4.1,"median":4.4,"max":6},"clock":{"ahead_us":-31,"within_us":2.1},
"from_a_gbps":{"n":4,"min":88,"median":92.6,"max":93},"from_b_gbps":{"n":4,"min":8,"median":9.6,"max":93}}]}"#;

fn text(bytes: &[u8]) -> String {
    let own = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match bytes {
        [0, low, high, length, with @ ..] => {
            let mut whole = WHOLE.to_owned();
            let begin = usize::from(u16::from_le_bytes([*low, *high])) % whole.len();
            let end = (begin + usize::from(*length)).min(whole.len());
            whole.replace_range(begin..end, &own(with));
            whole
        }
        bytes => own(bytes),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(measurement) = Measurement::parse(&text(bytes)) else {
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
