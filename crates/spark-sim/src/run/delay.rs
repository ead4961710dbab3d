//! Dead time: commands arrive a whole number of steps after they were given.

use crate::real::Column;

/// Past commands of many lanes.
#[derive(Debug, Clone)]
pub(super) struct DelayLine {
    /// Per lane, in steps.
    delay: Vec<usize>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Commands arrive when they are given.
    None,
    /// The same delay in all lanes: a row of the ring is what arrives.
    Uniform(Ring, usize),
    /// What arrives is gathered from the rows.
    PerLane(Ring, Column<f32>),
}

impl DelayLine {
    /// `delay` is in steps per lane; the first command counts as given since ever.
    pub(super) fn new(delay: Vec<usize>) -> Self {
        let longest = delay.iter().copied().max().unwrap_or(0);
        let ring = || Ring::new(longest + 1, delay.len());
        let kind = if longest == 0 {
            Kind::None
        } else if delay.iter().all(|&d| d == longest) {
            Kind::Uniform(ring(), longest)
        } else {
            Kind::PerLane(ring(), Column::filled(delay.len(), 0.0))
        };
        Self { delay, kind }
    }

    /// Steps of a lane's delay.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tables for a GPU"))]
    pub(super) fn steps(&self, lane: usize) -> usize {
        self.delay[lane]
    }

    /// Takes this step's commands.
    pub(super) fn pass(&mut self, commands: &Column<f32>) {
        match &mut self.kind {
            Kind::None => {}
            Kind::Uniform(ring, _) => ring.push(commands),
            Kind::PerLane(ring, arriving) => {
                ring.push(commands);
                for (lane, &delay) in self.delay.iter().enumerate() {
                    arriving[lane] = ring.ago(delay)[lane];
                }
            }
        }
    }

    /// What arrives now, after [`DelayLine::pass`] took `commands`.
    #[inline(always)]
    pub(super) fn arriving<'a>(&'a self, commands: &'a Column<f32>) -> &'a Column<f32> {
        match &self.kind {
            Kind::None => commands,
            Kind::Uniform(ring, delay) => ring.ago(*delay),
            Kind::PerLane(_, arriving) => arriving,
        }
    }
}

/// The last commands, one row of lanes per step.
#[derive(Debug, Clone)]
struct Ring {
    rows: Vec<Column<f32>>,
    newest: usize,
    empty: bool,
}

impl Ring {
    fn new(n_rows: usize, n_lanes: usize) -> Self {
        Self {
            rows: vec![Column::filled(n_lanes, 0.0); n_rows],
            newest: 0,
            empty: true,
        }
    }

    fn push(&mut self, commands: &Column<f32>) {
        if self.empty {
            self.empty = false;
            for row in &mut self.rows {
                row.copy_from_slice(commands);
            }
        }
        self.newest = (self.newest + 1) % self.rows.len();
        self.rows[self.newest].copy_from_slice(commands);
    }

    /// The row of some steps ago.
    #[inline(always)]
    fn ago(&self, n_steps: usize) -> &Column<f32> {
        let newest = self.newest;
        let wrapped = newest < n_steps;
        &self.rows[if wrapped {
            newest + self.rows.len()
        } else {
            newest
        } - n_steps]
    }
}
