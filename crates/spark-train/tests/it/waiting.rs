//! How long a run waits for its samples.

use std::error::Error;
use std::time::Duration;

use spark_onnx::RunOptions;
use spark_train::{Event, Go, Sample, Samples, Trainer, TrainerSettings};

use super::trainer::{SAMPLES, heads, network, samples, settings};

/// Samples that take their time.
struct Slow(Vec<Sample>, Duration);

impl Samples for Slow {
    fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    fn sample(&self, index: usize) -> Result<Sample, Box<dyn Error + Send + Sync>> {
        std::thread::sleep(self.1);
        self.0.sample(index)
    }
}

#[test]
fn waiting_for_samples_is_told_by_step_and_by_run() {
    let run = |pause: Duration| {
        let slow = Slow(samples(SAMPLES, 100), pause);
        let settings = TrainerSettings {
            max_steps: Some(4),
            ..settings(None)
        };
        let trainer = Trainer::new(
            network(1),
            heads(),
            &slow,
            None,
            settings,
            RunOptions::new(),
        );
        let mut of_steps = Vec::new();
        let outcome = trainer.expect("settings").run(&mut |event: &Event| {
            if let Event::Step { waiting, .. } = event {
                of_steps.push(*waiting);
            }
            Go::On
        });
        (outcome.expect("runs").waiting, of_steps)
    };
    let (quick, _) = run(Duration::ZERO);
    let (slow, of_steps) = run(Duration::from_millis(100));
    assert_eq!(of_steps.len(), 4);
    let least = of_steps.iter().copied().fold(1.0, f64::min);
    let most = of_steps.iter().copied().fold(0.0, f64::max);
    assert!(least <= slow && slow <= most, "{slow}, of {of_steps:?}");
    // Some milliseconds of computing beside 600 of waiting.
    assert!(quick < slow && slow > 0.5 && most <= 1.0, "{quick} {slow}");
}
