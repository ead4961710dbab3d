//! Any bytes as an OpenDRIVE file: refused with a reason, or every lane becomes a road or is refused.
//!
//! ```text
//! bytes ──> <memory>/road.xodr ──read_open_drive──> roads ──description──> Road::new
//! ```
//!
//! The first inputs are roads of each geometry that the reader knows. A run leaves one file in
//! `/dev/shm`, or where temporary files are.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use spark_sim::road::{Road, read_open_drive};

/// Longest road that is built; the reader takes longer ones, which take time here.
const LONGEST: f64 = 20_000.0;

fn file() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let place = places
            .into_iter()
            .find(|place| place.is_dir())
            .expect("a place for files");
        place.join(format!("spark-sim-fuzz-{}.xodr", std::process::id()))
    })
}

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        std::fs::write(file(), bytes).expect("writable");
        let Ok(roads) = read_open_drive(file()) else { return };
        for road in roads.iter().filter(|road| road.length <= LONGEST) {
            assert!(road.length.is_finite() && road.length > 0.0);
            for lane in &road.lanes {
                assert!(lane.width.is_finite() && lane.offset.is_finite());
                let Ok(description) = road.description(lane.id) else { continue };
                if let Ok(built) = Road::new(&description) {
                    let end = built.to_world(built.length(), 0.0, 0.0);
                    assert!(end.x.is_finite() && end.y.is_finite() && end.heading.is_finite());
                }
            }
        }
    }
);

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if !std::path::Path::new(&folder).is_dir() {
        return;
    }
    let elevation = "<elevationProfile><elevation s=\"0\" a=\"1\" b=\"0.02\" c=\"0\" d=\"0\"/></elevationProfile>";
    let bank = "<lateralProfile><superelevation s=\"0\" a=\"0.01\" b=\"0\" c=\"0\" d=\"0\"/></lateralProfile>";
    let both = format!("{elevation}{bank}");
    let right = "<right><lane id=\"-1\" type=\"driving\"><width sOffset=\"0\" a=\"3.5\" b=\"0\" c=\"0\" d=\"0\"/></lane></right>";
    let middle = "<center><lane id=\"0\" type=\"none\"/></center>";
    let left = "<left><lane id=\"1\" type=\"driving\"><width sOffset=\"0\" a=\"3\" b=\"0\" c=\"0\" d=\"0\"/></lane>\
                <lane id=\"2\" type=\"shoulder\"><width sOffset=\"0\" a=\"1\" b=\"0\" c=\"0\" d=\"0\"/></lane></left>";
    for (name, kind, more, lanes) in [
        ("line", "<line/>", "", format!("{middle}{right}")),
        (
            "arc",
            "<arc curvature=\"0.01\"/>",
            elevation,
            format!("{left}{middle}{right}"),
        ),
        (
            "spiral",
            "<spiral curvStart=\"0\" curvEnd=\"0.02\"/>",
            bank,
            format!("{middle}{right}"),
        ),
        (
            "all",
            "<line/>",
            both.as_str(),
            format!("{left}{middle}{right}"),
        ),
    ] {
        let text = format!(
            "<OpenDRIVE><header/><road name=\"r\" id=\"1\" length=\"60\" junction=\"-1\"><planView>\
             <geometry s=\"0\" x=\"0\" y=\"0\" hdg=\"0\" length=\"60\">{kind}</geometry></planView>{more}\
             <lanes><laneOffset s=\"0\" a=\"0\" b=\"0\" c=\"0\" d=\"0\"/><laneSection s=\"0\">{lanes}</laneSection></lanes>\
             </road></OpenDRIVE>"
        );
        let seed = format!("{folder}/seed-{name}");
        if std::fs::write(&seed, text).is_ok()
            && let Err(error) = read_open_drive(seed.as_ref())
        {
            panic!("the first input {name} is refused: {error}");
        }
    }
}
