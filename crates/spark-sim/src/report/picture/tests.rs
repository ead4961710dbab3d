//! Pictures are files that decoders read, of the size asked for, and show what moves.

use super::*;
use crate::control::{PerfectTracking, named};
use crate::run::{RunOptions, Simulator};
use crate::scenario::Fuzzer;
use spark_hal::config::DeviceChoice;

fn recorded() -> (Scenario, Trace) {
    let fuzzer = Fuzzer::new(5);
    let mut scenario = fuzzer
        .iter(50)
        .find(|s| !s.actors.is_empty())
        .expect("some have actors");
    scenario.duration_s = 4.0;
    let options = RunOptions {
        record_interval_s: Some(0.1),
        device: Some(DeviceChoice::Cpu),
        ..RunOptions::default()
    };
    let simulator = Simulator::new(options).expect("valid options");
    let report = simulator.run(
        std::slice::from_ref(&scenario),
        &named("perfect", || PerfectTracking),
    );
    let trace = report.results.into_iter().find_map(|r| r.trace);
    (scenario, trace.expect("a recording"))
}

#[test]
fn a_png_is_decoded_again() {
    let (scenario, trace) = recorded();
    let options = PictureOptions::default();
    let bytes = replay_png(&scenario, &trace, 2.0, &options).unwrap();
    let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    let mut reader = decoder.read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (960, 540));
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let count = |colour: Colour| pixels.iter().filter(|&&p| p == colour as u8).count();
    // An ego of at least 3 m by 1.5 m at 7 pixels per metre, and the road around it.
    assert!(count(Colour::Ego) > 200 && count(Colour::Road) > 10_000);
}

#[test]
fn a_gif_has_a_frame_per_row_and_moves() {
    let (scenario, trace) = recorded();
    let options = PictureOptions {
        width: 320,
        height: 240,
        pixels_per_metre: 3.0,
    };
    let bytes = replay_gif(&scenario, &trace, &options).unwrap();
    let mut decoder = gif::DecodeOptions::new().read_info(&bytes[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        assert_eq!((frame.width, frame.height, frame.delay), (320, 240, 10));
        frames.push(frame.buffer.to_vec());
    }
    assert_eq!(frames.len(), trace.rows.len());
    assert!(frames.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let (scenario, trace) = recorded();
    let refused = |trace: &Trace, options: PictureOptions| {
        matches!(
            replay_gif(&scenario, trace, &options),
            Err(SimError::Picture { .. })
        )
    };
    let options = PictureOptions::default();
    assert!(refused(&Trace::default(), options));
    assert!(refused(
        &trace,
        PictureOptions {
            width: 10,
            ..options
        }
    ));
    for pixels_per_metre in [0.0, f64::NAN, 1e9] {
        let options = PictureOptions {
            pixels_per_metre,
            ..options
        };
        assert!(refused(&trace, options));
    }
}
