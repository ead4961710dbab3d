//! Other cars against physics and the equilibria of their models.

use super::*;
use crate::Profile;
use crate::random::Philox;

fn ego_at(s: f64, speed: f64) -> Ego {
    Ego {
        s,
        d: 0.0,
        speed,
        shape: Shape::CAR,
    }
}

/// Runs actors for `seconds` at 10 ms with a standing ego far behind.
fn play(actors: &[Actor], ego: Ego, seconds: f64) -> Vec<ActorState> {
    let mut states: Vec<ActorState> = actors.iter().map(ActorState::new).collect();
    for step_idx in 0..(seconds / 0.01).round() as u64 {
        let clock = Clock {
            step_idx,
            t: step_idx as f64 * 0.01,
            dt: 0.01,
        };
        advance(actors, &mut states, &ego, clock, Philox::new(1, 1));
    }
    states
}

fn actor(distance: f64, speed: f64, longitudinal: Longitudinal, lateral: Lateral) -> Actor {
    Actor {
        shape: Shape::CAR,
        distance,
        offset: 0.0,
        speed,
        longitudinal,
        lateral,
    }
}

#[test]
fn a_braking_lead_stops_after_the_distance_of_physics() {
    let brake = Longitudinal::Brake {
        trigger: Trigger::At(1.0),
        deceleration: 6.0,
        final_speed: 0.0,
    };
    let state = play(
        &[actor(50.0, 30.0, brake, Lateral::Keep)],
        ego_at(0.0, 0.0),
        12.0,
    )[0];
    assert_eq!(state.speed, 0.0);
    assert!(
        (state.s - (50.0 + 30.0 + 900.0 / 12.0)).abs() < 0.01,
        "{}",
        state.s
    );
}

#[test]
fn a_lane_change_peaks_at_the_given_lateral_speed() {
    let change = Lateral::Change {
        trigger: Trigger::At(0.5),
        to: 3.5,
        peak_speed: 1.5,
        acceleration: 0.0,
        speed_goal: 0.0,
    };
    let cars = [actor(50.0, 20.0, Longitudinal::Hold, change)];
    let mut peak = 0.0_f64;
    for tenths in 0..60 {
        peak = peak.max(play(&cars, ego_at(0.0, 0.0), f64::from(tenths) * 0.1)[0].lateral_speed);
    }
    assert!((peak - 1.5).abs() < 0.01, "{peak}");
    assert!((play(&cars, ego_at(0.0, 0.0), 6.0)[0].d - 3.5).abs() < 1e-12);
}

#[test]
fn a_follower_settles_at_the_equilibrium_gap() {
    let idm = Idm::default();
    let cars = [
        actor(0.0, 20.0, Longitudinal::Idm(idm), Lateral::Keep),
        actor(40.0, 20.0, Longitudinal::Hold, Lateral::Keep),
    ];
    let states = play(&cars, ego_at(-1000.0, 0.0), 120.0);
    let gap = states[1].s - states[0].s - Shape::CAR.length;
    assert!((gap - idm.equilibrium_gap(20.0)).abs() < 0.05, "{gap}");
}

#[test]
fn krauss_never_hits_a_lead_that_brakes_as_hard_as_it_can() {
    let krauss = Krauss::default();
    let profile = Profile::new(vec![[5.0, 25.0], [5.0 + 25.0 / 4.5, 0.0]]).expect("valid");
    let cars = [
        actor(0.0, 25.0, Longitudinal::Krauss(krauss), Lateral::Keep),
        actor(45.0, 25.0, Longitudinal::Speed(profile), Lateral::Keep),
    ];
    for tenths in 0..200 {
        let states = play(&cars, ego_at(-1000.0, 0.0), f64::from(tenths) * 0.1);
        assert!(states[1].s - states[0].s > Shape::CAR.length, "at {tenths}");
    }
}

#[test]
fn only_cars_that_reach_into_the_lane_are_leads() {
    let mut near = actor(20.0, 5.0, Longitudinal::Hold, Lateral::Keep);
    near.offset = 2.5;
    let far = actor(60.0, 7.0, Longitudinal::Hold, Lateral::Keep);
    let cars = [near, far];
    let states: Vec<_> = cars.iter().map(ActorState::new).collect();
    let lead = find_lead(&cars, &states, &ego_at(0.0, 10.0), 3.5).expect("a lead");
    assert_eq!(lead.actor_idx, 1);
    assert!((lead.gap - (60.0 - 4.6)).abs() < 1e-12);
    let mut inside = states;
    inside[0].d = 2.3;
    let lead = find_lead(&cars, &inside, &ego_at(0.0, 10.0), 3.5).expect("a lead");
    assert_eq!(lead.actor_idx, 0);
}

#[test]
fn mobil_leaves_a_slow_lane_unless_it_hurts_the_car_behind() {
    let mobil = Mobil::default();
    let change = LaneChange {
        own: [-2.0, 0.5],
        old_follower: [0.0, 0.2],
        new_follower: [0.0, -0.5],
        to_left: true,
    };
    assert!(mobil.is_safe(&change) && mobil.incentive(&change) > 0.0);
    let rude = LaneChange {
        new_follower: [0.0, -5.0],
        ..change
    };
    assert!(!mobil.is_safe(&rude));
}

#[test]
fn highway_traffic_flows_changes_lanes_and_never_collides() {
    let mut highway = Highway::new(HighwayConfig::default(), 5).expect("valid");
    let n_cars = highway.config().n_cars;
    for (car, acceleration) in [(n_cars, 0.0), (usize::MAX, 0.0), (0, f32::NAN)] {
        assert!(highway.control(car, acceleration).is_err(), "{car}");
    }
    for _ in 0..6000 {
        highway.step(0.1).expect("a valid step");
        assert!(highway.smallest_gap() > 0.0);
    }
    assert!(highway.n_lane_changes() > 10);
    let cars = highway.cars();
    let mean = cars.iter().map(|car| f64::from(car.2)).sum::<f64>() / cars.len() as f64;
    assert!((15.0..35.0).contains(&mean), "{mean}");
}

#[test]
fn a_highway_with_no_lane_or_too_many_cars_is_refused() {
    let check = |config: HighwayConfig| assert!(Highway::new(config, 0).is_err());
    let fine = HighwayConfig::default();
    check(HighwayConfig { n_lanes: 0, ..fine });
    check(HighwayConfig { n_cars: 0, ..fine });
    check(HighwayConfig {
        n_cars: 2000,
        ..fine
    });
    check(HighwayConfig {
        length: f64::NAN,
        ..fine
    });
}
