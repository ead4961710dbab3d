//! The processors: what they read, what one thread copies, what they multiply.
//!
//! Reading and multiplying is `spark_gemm::Roofline`, through its own kernels; 256 MB of memory, and as much for the copy, one after the other and
//! only where that much is available.

use std::time::{Duration, Instant};

use spark_gemm::Roofline;
use spark_hal::doctor::load::{HostLoad, Rate};
use spark_mem::Device;
use spark_parallel::Pool;
use spark_simd::Isa;

use crate::meter::Meter;

/// Bytes of each of the two pieces of a copy, beyond the caches of ordinary processors.
const COPY_BYTES: usize = 128 << 20;
/// What a roofline takes, as `spark-gemm` says.
const ROOFLINE_BYTES: u64 = 256 << 20;
/// Of the host's time, what copies get.
const FEWEST_COPIES: usize = 3;

/// Measures for this long, or until it is told to stop.
pub(crate) fn measure(meter: &mut Meter<'_>, share: Duration) -> HostLoad {
    let isa = Isa::detect();
    let pool: &Pool = spark_parallel::shared();
    let mut load = HostLoad {
        n_threads: pool.threads(),
        instructions: isa.name().to_owned(),
        read_gb_per_s: None,
        copy_by_one_gb_per_s: None,
        gflops: None,
    };
    let host = Device::host();
    let begin = Instant::now();
    if let Ok(_reserved) = host.budget().reserve(2 * COPY_BYTES as u64) {
        load.copy_by_one_gb_per_s = Rate::of(&copies(meter, share / 3));
    }
    if meter.is_stopped() {
        return load;
    }
    let Ok(_reserved) = host.budget().reserve(ROOFLINE_BYTES) else {
        return load;
    };
    let (mut reads, mut products) = (Vec::new(), Vec::new());
    while meter.tell("processors: read and multiply") {
        let roofline = Roofline::measure(isa, pool);
        reads.push(roofline.gigabytes_per_s);
        products.push(roofline.gflops);
        if begin.elapsed() >= share {
            break;
        }
    }
    load.read_gb_per_s = Rate::of(&reads);
    load.gflops = Rate::of(&products);
    load
}

fn copies(meter: &mut Meter<'_>, share: Duration) -> Vec<f64> {
    // Written before the clock counts: pages are there, and are not all the same page.
    let from = vec![1_u8; COPY_BYTES];
    let mut to = vec![2_u8; COPY_BYTES];
    let begin = Instant::now();
    let mut rates = Vec::new();
    while meter.tell("processors: copy") {
        let began = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        let took = began.elapsed().as_secs_f64().max(1e-9);
        rates.push(1e-9 * COPY_BYTES as f64 / took);
        if begin.elapsed() >= share && rates.len() >= FEWEST_COPIES {
            break;
        }
    }
    rates
}
