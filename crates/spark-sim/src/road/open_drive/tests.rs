//! Hand-written files: shifted lanes against the reference line's geometry, and what is refused.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use super::super::Road;
use super::*;

const LANES: &str = r#"<lanes><laneSection s="0">
  <left><lane id="1" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></left>
  <center><lane id="0" type="none"/></center>
  <right>
    <lane id="-1" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>
    <lane id="-2" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>
    <lane id="-3" type="shoulder"><width sOffset="0" a="1" b="0" c="0" d="0"/></lane>
  </right>
</laneSection></lanes>"#;

/// Geometries one after the other, their poses computed.
fn file(kinds: &[(f64, f64, f64)], more: &str, lanes: &str) -> String {
    let mut pose = Pose::default();
    let mut s = 0.0;
    let mut plan = String::new();
    for &(length, from, to) in kinds {
        let kind = match from == to {
            true if from == 0.0 => "<line/>".to_owned(),
            true => format!("<arc curvature=\"{from}\"/>"),
            false => format!("<spiral curvStart=\"{from}\" curvEnd=\"{to}\"/>"),
        };
        plan += &format!(
            "<geometry s=\"{s}\" x=\"{}\" y=\"{}\" hdg=\"{}\" length=\"{length}\">{kind}</geometry>",
            pose.x, pose.y, pose.heading
        );
        let geometry = Geometry {
            start: s,
            length,
            pose,
            curvature_start: from,
            curvature_end: to,
        };
        pose = geometry.pose_at(length);
        s += length;
    }
    format!(
        "<OpenDRIVE><header/><road name=\"r\" id=\"7\" length=\"{s}\" junction=\"-1\">\
         <planView>{plan}</planView>{more}{lanes}</road></OpenDRIVE>"
    )
}

const BENDS: &[(f64, f64, f64)] = &[
    (50.0, 0.0, 0.0),
    (60.0, 0.0, 0.01),
    (100.0, 0.01, 0.01),
    (60.0, 0.01, -0.005),
];

#[test]
fn a_lane_is_the_parallel_of_the_reference_line() {
    let roads = parse(&file(BENDS, "", LANES)).unwrap();
    let road = &roads[0];
    assert_eq!((road.id.as_str(), road.lanes.len()), ("7", 3));
    let last = road.geometry.last().unwrap();
    let end = last.pose_at(last.length);
    for lane in &road.lanes {
        let description = road.description(lane.id).unwrap();
        assert_eq!(description.lane_width, 3.5);
        let driven = Road::new(&description).unwrap();
        let own = driven.to_world(driven.length(), 0.0, 0.0);
        // From the lane's start (0, offset) to its end, or back.
        let (sin, cos) = end.heading.sin_cos();
        let (x, y) = (
            end.x - lane.offset * sin,
            end.y + lane.offset * cos - lane.offset,
        );
        let distance = x.hypot(y);
        assert!((own.x.hypot(own.y) - distance).abs() < 2e-3, "{lane:?}");
        let turn = if lane.is_along {
            end.heading
        } else {
            -end.heading
        };
        assert!((own.heading - turn).abs() < 1e-3, "{lane:?}: {own:?}");
        if lane.is_along {
            assert!((own.x - x).hypot(own.y - y) < 2e-3, "{lane:?}");
        }
    }
    let sides = |id: i32| {
        let description = road.description(id).unwrap();
        (description.n_lanes_left, description.n_lanes_right)
    };
    assert_eq!([sides(1), sides(-1), sides(-2)], [(2, 0), (1, 1), (2, 0)]);
}

#[test]
fn grade_and_bank_follow_the_direction_of_driving() {
    let profiles = r#"<elevationProfile><elevation s="0" a="1" b="0.02" c="0" d="0"/></elevationProfile>
        <lateralProfile><superelevation s="0" a="0.03" b="0" c="0" d="0"/></lateralProfile>"#;
    let roads = parse(&file(&[(100.0, 0.0, 0.0)], profiles, LANES)).unwrap();
    for (lane, sign) in [(-1, 1.0), (1, -1.0)] {
        let segments = roads[0].description(lane).unwrap().segments;
        assert_eq!(segments.len(), 10);
        for segment in segments {
            assert!((segment.grade - sign * 0.02_f64.atan()).abs() < 1e-12);
            assert!((segment.bank - sign * 0.03).abs() < 1e-12);
        }
    }
}

#[test]
fn left_hand_traffic_drives_on_the_left() {
    let text = file(&[(10.0, 0.0, 0.0)], "", LANES).replace("id=\"7\"", "id=\"7\" rule=\"LHT\"");
    let roads = parse(&text).unwrap();
    let along: Vec<bool> = roads[0].lanes.iter().map(|lane| lane.is_along).collect();
    assert_eq!(along, [true, false, false]);
}

#[track_caller]
fn check_refused(text: &str, because: &str) {
    match parse(text) {
        Err(Fault::Road { reason, .. }) => assert!(reason.contains(because), "{reason}"),
        Err(Fault::Xml(error)) => assert!(error.to_string().contains(because), "{error}"),
        Ok(roads) => panic!("read {roads:?}"),
    }
}

#[test]
fn what_lies_or_is_beyond_the_subset_is_refused_by_name() {
    let plain = file(&[(10.0, 0.0, 0.0), (10.0, 0.0, 0.0)], "", LANES);
    assert!(parse(&plain).is_ok());
    check_refused(&plain.replace("<line/>", "<paramPoly3/>"), "paramPoly3");
    check_refused(&plain.replace("x=\"10\"", "x=\"11\""), "begins 1.000 m");
    check_refused(&plain.replace("length=\"10\"", "length=\"nan\""), "finite");
    check_refused(&plain.replace("length=\"10\"", "length=\"-1\""), "long");
    check_refused(
        &plain.replace("length=\"10\"", "length=\"1e300\""),
        "longer",
    );
    check_refused(&plain.replace("hdg=\"0\"", ""), "`hdg`");
    check_refused(&plain.replace("b=\"0\"", "b=\"0.1\""), "width of lane");
    check_refused(&plain.replace("id=\"-1\"", "id=\"x\""), "without an id");
    check_refused(&plain.replace(LANES, ""), "<lanes>");
    check_refused(
        &plain.replace("<line/>", "<arc curvature=\"1e9\"/>"),
        "radius",
    );
    check_refused("<OpenDRIVE/>", "no road");
    check_refused("", "root");
    check_refused(
        "<!DOCTYPE a [<!ENTITY b \"c\">]><OpenDRIVE>&b;</OpenDRIVE>",
        "DTD",
    );
    let roads = parse(&plain).unwrap();
    assert!(matches!(
        roads[0].description(-3),
        Err(SimError::NoLane { .. })
    ));
}

#[test]
fn a_road_that_turns_back_on_itself_is_refused() {
    let straight = file(&[(10.0, 0.0, 0.0), (10.0, 0.0, 0.0)], "", LANES);
    let second = "x=\"10\" y=\"0\" hdg=\"0\"";
    assert!(straight.contains(second));
    let with_heading =
        |heading: f64| straight.replace(second, &format!("x=\"10\" y=\"0\" hdg=\"{heading}\""));
    for heading in [PI, -PI, 3.0 * PI, PI - 0.005, FRAC_PI_2, 0.02, f64::MAX] {
        let said = parse(&with_heading(heading)).map(drop);
        assert!(
            matches!(said, Err(Fault::Road { .. })),
            "{heading}: {said:?}"
        );
    }
    check_refused(&with_heading(PI), "3.1416 rad");
    for heading in [0.0, 0.005, -0.005, TAU, -TAU, 2.0 * TAU - 0.005] {
        assert!(parse(&with_heading(heading)).is_ok(), "{heading}");
    }
}

#[test]
fn lanes_of_one_section_have_ids_of_their_own() {
    let plain = file(&[(10.0, 0.0, 0.0)], "", LANES);
    check_refused(&plain.replace("id=\"-2\"", "id=\"-1\""), "the id -1");
    check_refused(&plain.replace("id=\"-3\"", "id=\"-2\""), "the id -2");
    check_refused(&plain.replace("id=\"1\"", "id=\"-1\""), "wrong side");
    check_refused(&plain.replace("id=\"-1\"", "id=\"0\""), "wrong side");
}

#[test]
fn the_smallest_lane_number_is_a_number() {
    let plain = file(&[(10.0, 0.0, 0.0)], "", LANES);
    let roads = parse(&plain.replace("id=\"-2\"", "id=\"-2147483648\"")).unwrap();
    assert_eq!(roads[0].lanes.last().map(|lane| lane.id), Some(i32::MIN));
    assert!(roads[0].description(i32::MIN).is_ok());
    check_refused(
        &plain.replace("id=\"1\"", "id=\"-2147483648\""),
        "wrong side",
    );
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let deep = "<a>".repeat(200_000) + &"</a>".repeat(200_000);
    assert!(parse(&deep).is_err());
}
