//! Tests of `spark-data` on recorded drives and on what is no drive.

mod expected;
