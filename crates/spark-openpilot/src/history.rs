//! What happened lately, at 20 Hz, and the 5 Hz view of it that the networks take.
//!
//! ```text
//! entries  e1 e2 ... e100, newest last; zeros where nothing happened yet
//! features e4k+... every 4th counted from the newest:  e4, e8, ..., e96, e100      25 entries
//! pulses   largest of each run of four:                max(e1..e4), ..., max(e97..e100)
//! frames   the oldest and the newest of five:          f1, f5      (0.2 s apart)
//! ```
//!
//! Source: `InputQueues` of openpilot's `selfdrive/modeld/modeld.py`.

use std::collections::VecDeque;

use crate::OpenpilotError;

/// Entries per second: the rate of the cameras.
pub const RATE_HZ: usize = 20;
/// Entries per step of the networks, which see 5 Hz.
pub const STRIDE: usize = 4;
/// Entries kept: five seconds.
pub const ENTRIES: usize = 100;
/// Steps a network sees.
pub const STEPS: usize = ENTRIES / STRIDE;

/// The last [`ENTRIES`] vectors of one quantity, newest last.
#[derive(Debug, Clone)]
pub struct VectorHistory {
    width: usize,
    entries: VecDeque<f32>,
}

impl VectorHistory {
    /// A history of zeros; each entry has `width` values.
    pub fn new(width: usize) -> Self {
        let entries = std::iter::repeat_n(0.0, ENTRIES * width).collect();
        Self { width, entries }
    }

    /// Forgets everything: zeros again.
    pub fn clear(&mut self) {
        self.entries.iter_mut().for_each(|v| *v = 0.0);
    }

    /// Appends the newest entry and drops the oldest.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] unless `entry` has this history's width.
    pub fn push(&mut self, entry: &[f32]) -> Result<(), OpenpilotError> {
        if entry.len() != self.width {
            return Err(OpenpilotError::Length {
                what: "history entry".to_owned(),
                got: entry.len(),
                want: self.width,
            });
        }
        self.entries.drain(..self.width);
        self.entries.extend(entry);
        Ok(())
    }

    /// Every [`STRIDE`]th entry counted from the newest, oldest first: `[STEPS, width]`.
    pub fn every_fourth(&self) -> Vec<f32> {
        self.windows(|window| {
            let newest = (STRIDE - 1) * self.width;
            window[newest..].to_vec()
        })
    }

    /// The largest value of each run of [`STRIDE`] entries, oldest first: `[STEPS, width]`.
    pub fn pooled(&self) -> Vec<f32> {
        self.windows(|window| {
            let column = |c: usize| window[c..].iter().step_by(self.width).copied();
            (0..self.width)
                .map(|c| column(c).fold(f32::NEG_INFINITY, f32::max))
                .collect()
        })
    }

    /// `view` of each run of [`STRIDE`] entries, joined.
    fn windows(&self, view: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
        if self.width == 0 {
            return Vec::new();
        }
        let entries: Vec<f32> = self.entries.iter().copied().collect();
        entries
            .chunks_exact(STRIDE * self.width)
            .flat_map(view)
            .collect()
    }
}

/// The last five pictures of one camera.
#[derive(Debug, Clone)]
pub struct FrameHistory {
    frame_bytes: usize,
    frames: VecDeque<Vec<u8>>,
}

impl FrameHistory {
    /// A history of black frames of `frame_bytes` bytes.
    pub fn new(frame_bytes: usize) -> Self {
        let frames = std::iter::repeat_n(vec![0; frame_bytes], STRIDE + 1).collect();
        Self {
            frame_bytes,
            frames,
        }
    }

    /// Forgets everything: zeros again.
    pub fn clear(&mut self) {
        self.frames.iter_mut().for_each(|frame| frame.fill(0));
    }

    /// Appends the newest picture's planes and drops the oldest's.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] unless `planes` has this history's frame size.
    pub fn push(&mut self, planes: &[u8]) -> Result<(), OpenpilotError> {
        if planes.len() != self.frame_bytes {
            return Err(OpenpilotError::Length {
                what: "frame planes".to_owned(),
                got: planes.len(),
                want: self.frame_bytes,
            });
        }
        if let Some(mut oldest) = self.frames.pop_front() {
            oldest.copy_from_slice(planes);
            self.frames.push_back(oldest);
        }
        Ok(())
    }

    /// The planes of the picture of 0.2 s ago, then those of the newest.
    pub fn pair(&self) -> Vec<u8> {
        let (oldest, newest) = (&self.frames[0], &self.frames[STRIDE]);
        [oldest.as_slice(), newest.as_slice()].concat()
    }
}

/// Turns a held desire into a pulse on its rising edge.
#[derive(Debug, Clone, Default)]
pub struct DesirePulse {
    previous: [f32; 8],
}

impl DesirePulse {
    /// The pulse of this step: `desire` where it rose by more than 0.99 since the last step,
    /// else 0. Entry 0 means "none" and never pulses.
    pub fn step(&mut self, desire: [f32; 8]) -> [f32; 8] {
        let mut now = desire;
        now[0] = 0.0;
        let pulse = std::array::from_fn(|i| {
            if now[i] - self.previous[i] > 0.99 {
                now[i]
            } else {
                0.0
            }
        });
        self.previous = now;
        pulse
    }

    /// Forgets the last step.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> VectorHistory {
        let mut history = VectorHistory::new(2);
        for i in 1..=103 {
            history.push(&[i as f32, -(i as f32)]).expect("two values");
        }
        history
    }

    #[test]
    fn features_are_every_fourth_counted_from_the_newest() {
        // The newest is 103, so the view is 103, 99, ..., 7, oldest first.
        let view = counted().every_fourth();
        let first: Vec<f32> = view.iter().step_by(2).copied().collect();
        let want: Vec<f32> = (0..25).map(|step| (7 + 4 * step) as f32).collect();
        assert_eq!(first, want);
        assert_eq!(view[1], -7.0);
        assert_eq!(view.len(), STEPS * 2);
    }

    #[test]
    fn pulses_keep_the_largest_of_each_four() {
        // Entries 4..=103 remain; the first run is 4, 5, 6, 7 and its negatives.
        let view = counted().pooled();
        assert_eq!(view[..2], [7.0, -4.0]);
        assert_eq!(view[48..], [103.0, -100.0]);
    }

    #[test]
    fn a_pulse_stays_visible_for_five_seconds() {
        let mut history = VectorHistory::new(8);
        let mut pulse = [0.0; 8];
        pulse[3] = 1.0;
        history.push(&pulse).expect("eight values");
        for _ in 0..99 {
            assert_eq!(history.pooled().iter().sum::<f32>(), 1.0);
            history.push(&[0.0; 8]).expect("eight values");
        }
        assert_eq!(history.pooled().iter().sum::<f32>(), 1.0);
        history.push(&[0.0; 8]).expect("eight values");
        assert_eq!(history.pooled().iter().sum::<f32>(), 0.0);
    }

    #[test]
    fn frames_are_four_steps_apart() {
        let mut history = FrameHistory::new(1);
        for i in 1..=7 {
            history.push(&[i]).expect("one byte");
        }
        assert_eq!(history.pair(), [3, 7]);
        history.clear();
        assert_eq!(history.pair(), [0, 0]);
        assert!(history.push(&[1, 2]).is_err());
    }

    #[test]
    fn a_held_desire_pulses_once() {
        let mut edge = DesirePulse::default();
        let mut held = [0.0; 8];
        held[0] = 1.0;
        held[4] = 1.0;
        let mut want = [0.0; 8];
        want[4] = 1.0;
        assert_eq!(edge.step(held), want);
        assert_eq!(edge.step(held), [0.0; 8]);
        assert_eq!(edge.step([0.0; 8]), [0.0; 8]);
        assert_eq!(edge.step(held), want);
    }
}
