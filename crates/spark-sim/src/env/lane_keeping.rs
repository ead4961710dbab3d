//! Lane keeping: one car per world on a random winding road, steering is the action.
//!
//! ```text
//! observation  offset/2 m, heading error, speed/30, steering/limit,
//!              50 * curvature here, 0.5 s and 1 s ahead
//! action       steering target, share of 0.1 rad
//! reward       1 - (offset / 1.75)^2 - 0.1 (change of action)^2 per step
//! terminated   more than 1.75 m off the centre
//! truncated    after 20 s
//! ```
//!
//! Kinematic car, RK4, 0.05 s; steering moves at most 0.4 rad/s.

use super::vector::{Autoreset, EnvShape, StepBuffers, VectorEnv, check_observations};
use crate::SimError;
use crate::integrate::{Rk4, Road as RoadFrame, Rule, VehicleBatch};
use crate::random::Philox;
use crate::real::{Column, Element, Kernel, Lanes};
use crate::road::{Road, RoadDescription, Segment};
use crate::vehicle::{KinematicSingleTrack, ParameterBatch, VehicleModel, VehiclePreset};

const DT: f64 = 0.05;
const STEER_LIMIT: f32 = 0.1;
const OFF_LANE: f32 = 1.75;
const OBSERVATION_SIZE: usize = 7;

/// How many worlds there are, and when they end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneKeepingConfig {
    /// Worlds, one car each.
    pub n_worlds: usize,
    /// Steps of 0.05 s until truncation.
    pub n_steps: u32,
    /// When ended worlds start again.
    pub autoreset: Autoreset,
}

impl Default for LaneKeepingConfig {
    fn default() -> Self {
        Self {
            n_worlds: 256,
            n_steps: 400,
            autoreset: Autoreset::NextStep,
        }
    }
}

/// Cars that are to keep their lane, one per world; made by [`LaneKeepingEnv::new`].
///
/// # Examples
///
/// ```
/// use spark_sim::env::{LaneKeepingConfig, LaneKeepingEnv, StepBuffers, VectorEnv};
///
/// let mut env = LaneKeepingEnv::new(LaneKeepingConfig { n_worlds: 8, ..Default::default() })?;
/// let shape = env.shape();
/// let mut buffers = StepBuffers::new(shape);
/// env.reset(1, &mut buffers.observations)?;
/// let straight_on = vec![0.0; shape.n_rows() * shape.action_size];
/// env.step(&straight_on, &mut buffers)?;
/// assert_eq!(buffers.rewards.len(), 8);
/// # Ok::<(), spark_sim::SimError>(())
/// ```
pub struct LaneKeepingEnv {
    config: LaneKeepingConfig,
    seed: u64,
    vehicle: VehicleBatch<f32>,
    parameters: ParameterBatch<f32>,
    roads: Vec<Road>,
    piece_idx: Vec<usize>,
    curvature: Column<f32>,
    curvature_rate: Column<f32>,
    rate: Column<f32>,
    last_action: Vec<f32>,
    step_idx: Vec<u32>,
    episode: Vec<u64>,
    ended: Vec<bool>,
}

impl LaneKeepingEnv {
    /// Worlds of seed 0; `reset` chooses another.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] without worlds, above a million, or without steps.
    pub fn new(config: LaneKeepingConfig) -> Result<Self, SimError> {
        for (what, got, most) in [
            ("worlds", config.n_worlds, 1_000_000),
            (
                "steps until truncation",
                config.n_steps as usize,
                usize::MAX,
            ),
        ] {
            if got == 0 || got > most {
                return Err(SimError::OutOfRange {
                    what,
                    got: got as f64,
                    want: "at least 1, and at most a million worlds",
                });
            }
        }
        let n = config.n_worlds;
        let sedan = VehiclePreset::Sedan.parameters().rounded();
        let mut env = Self {
            config,
            seed: 0,
            vehicle: VehicleBatch::new(VehicleModel::Kinematic, n),
            parameters: ParameterBatch::filled(n, sedan),
            roads: Vec::with_capacity(n),
            piece_idx: vec![0; n],
            curvature: Column::filled(n, 0.0),
            curvature_rate: Column::filled(n, 0.0),
            rate: Column::filled(n, 0.0),
            last_action: vec![0.0; n],
            step_idx: vec![0; n],
            episode: vec![0; n],
            ended: vec![false; n],
        };
        for world in 0..n {
            let road = env.draw_road(world);
            env.roads.push(road);
            env.start(world);
        }
        Ok(env)
    }

    fn random(&self, world: usize) -> Philox {
        // A million episodes per world before streams could meet.
        Philox::new(
            self.seed,
            (world as u64) << 20 | (self.episode[world] & 0xF_FFFF),
        )
    }

    fn draw_road(&self, world: usize) -> Road {
        let mut random = self.random(world).at(1 << 32);
        let mut segments = vec![Segment::straight(15.0)];
        let mut curvature = 0.0;
        for _ in 0..14 {
            let next = random.next_in(-0.006, 0.006);
            segments.push(Segment::clothoid(
                random.next_in(15.0, 40.0),
                curvature,
                next,
            ));
            curvature = next;
        }
        Road::new(&RoadDescription {
            segments,
            ..RoadDescription::default()
        })
        .expect("drawn within the limits of a road")
    }

    fn start(&mut self, world: usize) {
        let mut random = self.random(world);
        let state = [
            0.0,
            random.next_in(-0.8, 0.8),
            0.0,
            random.next_in(12.0, 20.0),
            random.next_in(-0.05, 0.05),
        ];
        self.vehicle
            .set(world, &state.map(|x| x as f32))
            .expect("five states");
        self.roads[world] = self.draw_road(world);
        self.piece_idx[world] = 0;
        self.load_piece(world);
        self.last_action[world] = 0.0;
        self.step_idx[world] = 0;
        self.ended[world] = false;
    }

    fn load_piece(&mut self, world: usize) {
        let piece = self.roads[world].piece(self.piece_idx[world]);
        self.curvature[world] = piece.curvature as f32;
        self.curvature_rate[world] = piece.curvature_rate as f32;
    }

    fn observe(&self, world: usize, observation: &mut [f32]) {
        let state = |i: usize| self.vehicle.column(i)[world];
        let road = &self.roads[world];
        let s = road.piece(self.piece_idx[world]).start + f64::from(state(0));
        let speed = state(3);
        let ahead = |seconds: f64| 50.0 * road.curvature_at(s + seconds * f64::from(speed)) as f32;
        let values = [
            0.5 * state(1),
            state(4),
            speed / 30.0,
            state(2) / STEER_LIMIT,
            ahead(0.0),
            ahead(0.5),
            ahead(1.0),
        ];
        observation.copy_from_slice(&values);
    }

    fn follow_roads(&mut self) {
        for world in 0..self.config.n_worlds {
            let mut s = self.vehicle.column(0)[world];
            let before = self.piece_idx[world];
            let length = |env: &Self| env.roads[world].piece(env.piece_idx[world]).length as f32;
            while s >= length(self) {
                s -= length(self);
                self.piece_idx[world] += 1;
            }
            if self.piece_idx[world] != before {
                self.vehicle.column_mut(0)[world] = s;
                self.load_piece(world);
            }
        }
    }
}

fn row(buffer: &mut [f32], index: usize) -> &mut [f32] {
    &mut buffer[index * OBSERVATION_SIZE..(index + 1) * OBSERVATION_SIZE]
}

impl VectorEnv for LaneKeepingEnv {
    fn shape(&self) -> EnvShape {
        EnvShape {
            n_worlds: self.config.n_worlds,
            n_agents: 1,
            observation_size: OBSERVATION_SIZE,
            action_size: 1,
        }
    }

    fn reset(&mut self, seed: u64, observations: &mut [f32]) -> Result<(), SimError> {
        check_observations(self.shape(), observations)?;
        self.seed = seed;
        for world in 0..self.config.n_worlds {
            self.episode[world] = 0;
            self.start(world);
            self.observe(world, row(observations, world));
        }
        Ok(())
    }

    fn step(&mut self, actions: &[f32], buffers: &mut StepBuffers) -> Result<(), SimError> {
        buffers.check(self.shape(), actions)?;
        for (world, action) in actions.iter().enumerate() {
            let target = action.clamp(-1.0, 1.0) * STEER_LIMIT;
            let steer = self.vehicle.column(2)[world];
            self.rate[world] = (target - steer) / DT as f32;
        }
        let before = self.vehicle.clone();
        f32::dispatch(Move {
            vehicle: &mut self.vehicle,
            parameters: &self.parameters,
            curvature: &self.curvature,
            curvature_rate: &self.curvature_rate,
            rate: &self.rate,
        });
        // Worlds that have ended do not move.
        for world in (0..self.config.n_worlds).filter(|&world| self.ended[world]) {
            let state = before.get(world);
            self.vehicle.set(world, &state).expect("five states");
        }
        self.follow_roads();
        for (world, action) in actions.iter().enumerate() {
            (
                buffers.rewards[world],
                buffers.terminated[world],
                buffers.truncated[world],
            ) = (0.0, false, false);
            if self.ended[world] {
                if self.config.autoreset == Autoreset::NextStep {
                    self.episode[world] += 1;
                    self.start(world);
                }
                self.observe(world, row(&mut buffers.observations, world));
                continue;
            }
            let action = action.clamp(-1.0, 1.0);
            let change = action - self.last_action[world];
            self.last_action[world] = action;
            self.step_idx[world] += 1;
            let offset = self.vehicle.column(1)[world];
            let terminated = offset.is_nan() || offset.abs() > OFF_LANE;
            let truncated = !terminated && self.step_idx[world] >= self.config.n_steps;
            let off = offset / OFF_LANE;
            buffers.rewards[world] = 1.0 - off * off - 0.1 * change * change;
            buffers.terminated[world] = terminated;
            buffers.truncated[world] = truncated;
            self.ended[world] = terminated || truncated;
            if self.ended[world] && self.config.autoreset == Autoreset::SameStep {
                self.observe(world, row(&mut buffers.final_observations, world));
                self.episode[world] += 1;
                self.start(world);
            }
            self.observe(world, row(&mut buffers.observations, world));
        }
        Ok(())
    }
}

/// One step of every car along its road.
struct Move<'a> {
    vehicle: &'a mut VehicleBatch<f32>,
    parameters: &'a ParameterBatch<f32>,
    curvature: &'a [f32],
    curvature_rate: &'a [f32],
    rate: &'a [f32],
}

impl Kernel for Move<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        for first in (0..self.parameters.n_lanes()).step_by(L::N) {
            let p = self.parameters.load::<L>(first);
            let x = self.vehicle.load::<L, 5>(first);
            let frame = RoadFrame {
                curvature: L::load(self.curvature, first),
                curvature_rate: L::load(self.curvature_rate, first),
            };
            let u = [L::load(self.rate, first), L::zero()];
            let next = Rk4::step::<L, KinematicSingleTrack, _, 5>(frame, &p, x, u, L::splat(DT));
            self.vehicle.store(first, next);
        }
    }
}
