//! Dead time: commands arrive a whole number of steps after they were given.

/// A ring of past commands, one row of lanes per step.
#[derive(Debug, Clone)]
pub(super) struct DelayLine {
    rows: Vec<Vec<f32>>,
    newest: usize,
    /// Per lane, in steps.
    delay: Vec<usize>,
    /// The delay, if it is the same in all lanes.
    uniform: Option<usize>,
    empty: bool,
}

impl DelayLine {
    /// `delay` is in steps per lane; the first command counts as given since ever.
    pub(super) fn new(delay: Vec<usize>, n_padded: usize) -> Self {
        let longest = delay.iter().copied().max().unwrap_or(0);
        let first = delay.first().copied().unwrap_or(0);
        let uniform = delay.iter().all(|&d| d == first).then_some(first);
        Self {
            rows: vec![vec![0.0; n_padded]; longest + 1],
            newest: 0,
            delay,
            uniform,
            empty: true,
        }
    }

    /// Steps of a lane's delay.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tables for a GPU"))]
    pub(super) fn steps(&self, lane: usize) -> usize {
        self.delay[lane]
    }

    /// Takes this step's commands and gives those that arrive now.
    pub(super) fn pass(&mut self, commands: &[f32], arriving: &mut [f32]) {
        let n_rows = self.rows.len();
        if self.empty {
            self.empty = false;
            for row in &mut self.rows {
                row.copy_from_slice(commands);
            }
        }
        self.newest = (self.newest + 1) % n_rows;
        self.rows[self.newest].copy_from_slice(commands);
        if let Some(delay) = self.uniform {
            let row = (self.newest + n_rows - delay) % n_rows;
            arriving.copy_from_slice(&self.rows[row]);
            return;
        }
        for (lane, &delay) in self.delay.iter().enumerate() {
            let row = (self.newest + n_rows - delay) % n_rows;
            arriving[lane] = self.rows[row][lane];
        }
    }
}
