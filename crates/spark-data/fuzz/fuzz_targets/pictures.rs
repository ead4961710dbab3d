//! Any bytes as a stream of pictures: refused, or read picture by picture.
//!
//! ```text
//! bytes ──Y4mReader──> pictures, at most a megapixel here       nothing panics, hangs or takes memory that the stream does not fill
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_data::video::{Y4mReader, Yuv420};

/// A stream of two pictures of 2x2.
const SEED: &[u8] = b"YUV4MPEG2 W2 H2 F20:1 Ip A0:0 C420mpeg2 XYSCSS=420MPEG2\nFRAME\n123456FRAME Ip\n654321";

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let Ok(Some(mut reader)) = Y4mReader::new(bytes) else { return };
        let size = reader.size();
        assert!(size.bytes() > 0);
        if size.bytes() > 1 << 20 {
            return;
        }
        let mut picture = Yuv420::empty();
        let mut n = 0;
        while let Ok(true) = reader.read(&mut picture) {
            n += 1;
            assert_eq!(picture.size(), size);
            assert_eq!(picture.y().len() + picture.u().len() + picture.v().len(), size.bytes());
        }
        assert!(n * size.bytes() <= bytes.len());
    }
);

/// Puts the first input into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if std::path::Path::new(&folder).is_dir() {
        let _ = std::fs::write(format!("{folder}/seed-stream"), SEED);
    }
}
