//! Many cars on a highway: car-following and lane changes.

use crate::timing::Timing;
use spark_sim::traffic::{Highway, HighwayConfig};

pub(crate) fn run(timing: &Timing) {
    for (name, n_cars) in [
        ("sim/traffic_idm_mobil/1t", 500),
        ("sim/traffic_idm_mobil_50_cars/1t", 50),
    ] {
        if !timing.wants(name) {
            continue;
        }
        let config = HighwayConfig {
            n_cars,
            length: 60.0 * n_cars as f64,
            ..HighwayConfig::default()
        };
        let mut highway = Highway::new(config, 1).expect("valid");
        for _ in 0..600 {
            highway.step(0.1).expect("a valid step");
            assert!(highway.smallest_gap() > 0.0, "{name}: a collision");
        }
        assert!(highway.n_lane_changes() > 0, "{name}: nobody changed lane");
        timing.measure(name, "vehicle_steps", n_cars as f64 * 100.0, || {
            for _ in 0..100 {
                highway.step(0.1).expect("a valid step");
            }
        });
    }
}
