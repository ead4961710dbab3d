//! Roads against geometry: circles, Fresnel integrals, there and back.

use super::*;
use crate::SimError;

fn road(segments: Vec<Segment>) -> Road {
    Road::new(&RoadDescription {
        segments,
        ..RoadDescription::default()
    })
    .expect("a valid road")
}

#[test]
fn quarter_circle_ends_where_geometry_says() {
    let radius = 100.0;
    let quarter = std::f64::consts::FRAC_PI_2 * radius;
    let pose = road(vec![Segment::arc(quarter, 1.0 / radius)]).centre_at(quarter);
    assert!((pose.x - 100.0).abs() < 1e-10);
    assert!((pose.y - 100.0).abs() < 1e-10);
    assert!((pose.heading - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
}

#[test]
fn clothoid_follows_the_fresnel_integrals() {
    // Unit clothoid: curvature pi s, so x = C(1), y = S(1); Abramowitz and Stegun, table 7.7.
    let scale = 50.0;
    let pose = road(vec![Segment::clothoid(
        scale,
        0.0,
        std::f64::consts::PI / scale,
    )])
    .centre_at(scale);
    assert!((pose.x / scale - 0.779_893_400_376_822_8).abs() < 1e-12);
    assert!((pose.y / scale - 0.438_259_147_390_354_8).abs() < 1e-12);
}

#[test]
fn long_segments_are_cut_without_moving_the_road() {
    let whole = road(vec![Segment::clothoid(1000.0, -0.002, 0.004)]);
    assert!(whole.pieces().len() > 4);
    for s in [0.0, 255.0, 257.0, 600.0, 999.9] {
        assert!((whole.curvature_at(s) - (-0.002 + 6e-6 * s)).abs() < 1e-15);
    }
}

#[test]
fn world_coordinates_round_trip() {
    let bends = road(vec![
        Segment::straight(50.0),
        Segment::clothoid(60.0, 0.0, 0.02),
        Segment::arc(40.0, 0.02),
        Segment::clothoid(60.0, 0.02, -0.015),
    ]);
    for i in 0..240 {
        let (s, d) = (f64::from(i), 3.0 * (f64::from(i) * 0.7).sin());
        let pose = bends.to_world(s, d, 0.0);
        let (back_s, back_d) = bends
            .from_world(pose.x, pose.y, s + 5.0)
            .expect("convergence");
        assert!(
            (back_s - s).abs() < 1e-8 && (back_d - d).abs() < 1e-8,
            "at {s}"
        );
    }
}

#[test]
fn beyond_its_end_a_road_goes_straight_on() {
    let short = road(vec![Segment::arc(10.0, 0.1)]);
    assert_eq!(short.curvature_at(11.0), 0.0);
    let (a, b) = (short.centre_at(20.0), short.centre_at(30.0));
    assert!(((a.x - b.x).hypot(a.y - b.y) - 10.0).abs() < 1e-12);
    assert_eq!(a.heading, b.heading);
}

#[test]
fn impossible_segments_are_named() {
    let check = |segment: Segment| {
        let description = RoadDescription {
            segments: vec![Segment::straight(1.0), segment],
            ..RoadDescription::default()
        };
        let error = Road::new(&description).expect_err("a refusal");
        assert!(
            matches!(error, SimError::Road { segment_idx: 1, .. }),
            "{error}"
        );
    };
    check(Segment::straight(0.0));
    check(Segment::straight(f64::NAN));
    check(Segment::straight(1e300));
    check(Segment::arc(10.0, 2.0));
    check(Segment {
        grade: 1.0,
        ..Segment::straight(5.0)
    });
}
