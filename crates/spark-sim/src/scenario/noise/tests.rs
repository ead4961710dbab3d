//! How noise is written in files, and what is refused.

use super::*;
use crate::scenario::Scenario;

fn parse(noise: &str) -> Result<Scenario, toml::de::Error> {
    toml::from_str(&format!(
        "name = \"x\"\nduration_s = 1.0\n[environment]\nnoise = {noise}"
    ))
}

#[track_caller]
fn noise(text: &str) -> SensorNoise {
    parse(text).expect("valid").environment.noise
}

#[test]
fn a_number_is_white_noise_and_a_table_names_its_fields() {
    let plain = noise("{ offset = 0.05, lead_speed = 1 }");
    assert_eq!(plain.offset, ChannelNoise::white(0.05));
    assert_eq!(plain.lead_speed, ChannelNoise::white(1.0));
    assert!(plain.heading.is_none());
    let full = noise(
        "{ offset = { bias = -0.1, bias_sd = 0.05, white_sd = 0.02, ar1_sd = 0.06, ar1_time_s = 4, \
         rate_hz = 20, latency_s = 0.05, dropout = 0.01, dropout_frames = 4 }, \
         lead_presence = { dropout = 0.5 } }",
    );
    let want = ChannelNoise {
        bias: -0.1,
        bias_sd: 0.05,
        white_sd: 0.02,
        ar1_sd: 0.06,
        ar1_time_s: 4.0,
        rate_hz: Some(20.0),
        latency_s: 0.05,
        dropout: 0.01,
        dropout_frames: 4,
    };
    assert_eq!(full.offset, want);
    assert_eq!(full.lead_presence.dropout, 0.5);
    assert_eq!(full.lead_presence.dropout_frames, 1);
}

#[test]
fn a_level_is_where_channels_begin() {
    let mixed = noise("{ level = 2, offset = 0.5 }");
    assert_eq!(mixed.offset, ChannelNoise::white(0.5));
    assert_eq!(mixed.heading, SensorNoise::level(2.0).heading);
    assert_eq!(
        mixed.heading.ar1_sd,
        2.0 * SensorNoise::level(1.0).heading.ar1_sd
    );
    assert!(SensorNoise::level(0.0).is_none());
    assert!(!SensorNoise::level(1.0).is_none());
}

#[test]
fn invented_fields_are_errors_at_every_depth() {
    for (text, named) in [
        ("{ ofset = 0.05 }", "ofset"),
        ("{ offset = { sd = 0.05 } }", "sd"),
        ("{ lead_presence = { bias = 1.0 } }", "bias"),
        ("{ level = 99 }", "level"),
        ("{ offset = \"much\" }", "standard deviation of white noise"),
    ] {
        let said = parse(text).expect_err(text).to_string();
        assert!(said.contains(named), "{text}: {said}");
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    for noise in [
        SensorNoise::default(),
        SensorNoise::level(1.3),
        SensorNoise {
            speed: 0.1.into(),
            ..SensorNoise::default()
        },
    ] {
        let mut scenario = Scenario::straight("x", 10.0, 1.0);
        scenario.environment.noise = noise;
        let text = toml::to_string(&scenario).expect("written");
        let back: Scenario = toml::from_str(&text).expect("read");
        assert_eq!(back, scenario, "{text}");
        let text = serde_json::to_string(&scenario).expect("written");
        let back: Scenario = serde_json::from_str(&text).expect("read");
        assert_eq!(back, scenario, "{text}");
    }
}

#[test]
fn senseless_noise_is_refused_by_channel_and_field() {
    let check = |change: fn(&mut SensorNoise), want: [&str; 2]| {
        let mut scenario = Scenario::straight("x", 10.0, 1.0);
        change(&mut scenario.environment.noise);
        let said = scenario.validate().expect_err("refused").to_string();
        assert!(want.iter().all(|part| said.contains(part)), "{said}");
    };
    check(|n| n.offset = f64::NAN.into(), ["`offset`", "`white_sd`"]);
    check(|n| n.roll.bias = 1e4, ["`roll`", "`bias`"]);
    check(|n| n.heading.bias_sd = -1.0, ["`heading`", "`bias_sd`"]);
    check(|n| n.speed.ar1_sd = -1.0, ["`speed`", "`ar1_sd`"]);
    check(|n| n.speed.ar1_time_s = 0.0, ["`speed`", "`ar1_time_s`"]);
    check(
        |n| n.lead_speed.rate_hz = Some(0.0),
        ["`lead_speed`", "`rate_hz`"],
    );
    check(
        |n| n.curvature.latency_s = 9.0,
        ["`curvature`", "`latency_s`"],
    );
    check(|n| n.yaw_rate.dropout = 1.5, ["`yaw_rate`", "`dropout`"]);
    check(
        |n| n.lead_presence.dropout_frames = 0,
        ["`lead_presence`", "`dropout_frames`"],
    );
}
