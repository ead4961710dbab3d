//! Whether outcomes tell other road users apart: without that, equal bits on CPU and GPU would show nothing.

use crate::device_cases::{on_cpu, outcomes, pid_and_long};
use crate::traffic_cases::crowds;
use spark_sim::Profile;
use spark_sim::scenario::Scenario;
use spark_sim::traffic::{Actor, Idm, Krauss, Lateral, Longitudinal, Trigger};

/// A figure's name, and where a driver has it.
type Figure<D> = (&'static str, fn(&mut D) -> &mut f64);

/// Changes every figure of every actor a little, one after the other: the outcomes change.
#[test]
fn every_figure_of_a_road_user_shows_in_the_outcomes() {
    let scenarios = crowds();
    let run = |scenarios: &[Scenario]| outcomes(&on_cpu().run(scenarios, &pid_and_long()));
    let as_they_are = run(&scenarios);
    let check = |what: &str, change: &dyn Fn(&mut Actor)| {
        let mut changed = scenarios.clone();
        for actor in changed.iter_mut().flat_map(|s| &mut s.actors) {
            change(actor);
        }
        assert!(changed != scenarios, "{what}: nobody has it");
        let differ = as_they_are.iter().zip(run(&changed));
        let n = differ.filter(|(a, b)| **a != *b).count();
        assert!(n > 0, "{what} does not show");
    };
    let more = |figure: &mut f64| *figure += 1e-5 * figure.abs().max(0.1);
    check("length", &|actor| more(&mut actor.shape.length));
    check("width", &|actor| more(&mut actor.shape.width));
    check("distance", &|actor| more(&mut actor.distance));
    check("offset", &|actor| more(&mut actor.offset));
    check("speed", &|actor| more(&mut actor.speed));
    let idm: [Figure<Idm>; 5] = [
        ("desired speed", |idm| &mut idm.desired_speed),
        ("time gap", |idm| &mut idm.time_gap),
        ("standstill gap", |idm| &mut idm.standstill_gap),
        ("acceleration", |idm| &mut idm.acceleration),
        ("deceleration", |idm| &mut idm.deceleration),
    ];
    for (what, figure) in idm {
        check(&format!("IDM's {what}"), &|actor| {
            if let Longitudinal::Idm(idm) = &mut actor.longitudinal {
                more(figure(idm));
            }
        });
    }
    let krauss: [Figure<Krauss>; 6] = [
        ("acceleration", |krauss| &mut krauss.acceleration),
        ("deceleration", |krauss| &mut krauss.deceleration),
        ("imperfection", |krauss| &mut krauss.imperfection),
        ("reaction time", |krauss| &mut krauss.reaction_time),
        ("standstill gap", |krauss| &mut krauss.standstill_gap),
        ("desired speed", |krauss| &mut krauss.desired_speed),
    ];
    for (what, figure) in krauss {
        check(&format!("Krauss's {what}"), &|actor| {
            if let Longitudinal::Krauss(krauss) = &mut actor.longitudinal {
                more(figure(krauss));
            }
        });
    }
    let later = |trigger: &mut Trigger| match trigger {
        Trigger::At(time) => *time += 0.05,
        Trigger::GapBelow(gap) => *gap += 0.5,
    };
    check("the start of braking", &|actor| {
        if let Longitudinal::Brake { trigger, .. } = &mut actor.longitudinal {
            later(trigger);
        }
    });
    check("braking", &|actor| {
        if let Longitudinal::Brake { deceleration, .. } = &mut actor.longitudinal {
            more(deceleration);
        }
    });
    check("the speed after braking", &|actor| {
        if let Longitudinal::Brake { final_speed, .. } = &mut actor.longitudinal {
            more(final_speed);
        }
    });
    check("speeds over time", &|actor| {
        if let Longitudinal::Speed(profile) = &mut actor.longitudinal {
            let points = profile.points().iter().map(|[t, v]| [*t, v + 1e-4]);
            *profile = Profile::new(points.collect()).expect("as before");
        }
    });
    check("a recorded distance", &|actor| {
        if let Longitudinal::Replay(points) = &mut actor.longitudinal {
            points.iter_mut().for_each(|point| more(&mut point.s));
        }
    });
    check("a recorded offset", &|actor| {
        if let Longitudinal::Replay(points) = &mut actor.longitudinal {
            points.iter_mut().for_each(|point| more(&mut point.d));
        }
    });
    check("offsets over time", &|actor| {
        if let Lateral::Offset(profile) = &mut actor.lateral {
            let points = profile.points().iter().map(|[t, d]| [*t, d + 1e-4]);
            *profile = Profile::new(points.collect()).expect("as before");
        }
    });
    for part in 0..5 {
        check(&format!("part {part} of a lane change"), &|actor| {
            if let Lateral::Change {
                trigger,
                to,
                peak_speed,
                acceleration,
                speed_goal,
            } = &mut actor.lateral
            {
                match part {
                    0 => later(trigger),
                    1 => more(to),
                    2 => more(peak_speed),
                    3 => more(acceleration),
                    _ => more(speed_goal),
                }
            }
        });
    }
}
