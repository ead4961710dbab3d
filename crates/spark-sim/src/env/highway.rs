//! Highway: many agents per world among cars that follow and change lanes by themselves.
//!
//! ```text
//! observation  speed/30, lane/lanes, then for the own lane, the left and the right one:
//!              gap ahead/100, speed difference/10, gap behind/100, speed difference/10
//!              (1 and 0 where there is nobody or no lane)
//! action       acceleration (share of 3 m/s^2), lane change (left above 0.5, right below -0.5)
//! reward       speed / desired speed, minus 10 for a collision
//! terminated   a collision of this agent
//! truncated    time is up, or another agent of this world collided
//! ```
//!
//! A world ends as a whole: its agents share the traffic.

use super::vector::{Autoreset, EnvShape, StepBuffers, VectorEnv, check_observations};
use crate::SimError;
use crate::traffic::{Highway, HighwayConfig};

const DT: f64 = 0.1;
const OBSERVATION_SIZE: usize = 14;
const ACTION_SIZE: usize = 2;
const HARDEST: f32 = 3.0;

/// How many worlds and agents there are, and the rules of their traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HighwayEnvConfig {
    /// Number of worlds, each with a highway of its own.
    pub n_worlds: usize,
    /// Agents per world: the first cars of its highway.
    pub n_agents: usize,
    /// Steps of 0.1 s until truncation.
    pub n_steps: u32,
    /// The traffic of every world.
    pub highway: HighwayConfig,
    /// When ended worlds start again.
    pub autoreset: Autoreset,
}

impl Default for HighwayEnvConfig {
    fn default() -> Self {
        Self {
            n_worlds: 16,
            n_agents: 4,
            n_steps: 600,
            highway: HighwayConfig {
                n_cars: 30,
                length: 1000.0,
                ..HighwayConfig::default()
            },
            autoreset: Autoreset::NextStep,
        }
    }
}

/// Agents among cars on ring roads; made by [`HighwayEnv::new`].
pub struct HighwayEnv {
    config: HighwayEnvConfig,
    seed: u64,
    worlds: Vec<World>,
}

struct World {
    highway: Highway,
    episode: u64,
    step_idx: u32,
    ended: bool,
}

impl HighwayEnv {
    /// Worlds of seed 0; `reset` chooses another.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] without worlds, agents or steps, with more agents than cars,
    /// or for a highway that [`Highway::new`] refuses.
    pub fn new(config: HighwayEnvConfig) -> Result<Self, SimError> {
        let sizes = [
            ("worlds", config.n_worlds, 100_000),
            ("agents", config.n_agents, config.highway.n_cars),
            (
                "steps until truncation",
                config.n_steps as usize,
                usize::MAX,
            ),
        ];
        for (what, got, most) in sizes {
            if got == 0 || got > most {
                return Err(SimError::OutOfRange {
                    what,
                    got: got as f64,
                    want: "at least 1, at most 100000 worlds, no more agents than cars",
                });
            }
        }
        let mut env = Self {
            config,
            seed: 0,
            worlds: Vec::with_capacity(config.n_worlds),
        };
        for world in 0..config.n_worlds {
            let fresh = env.start(world, 0)?;
            env.worlds.push(fresh);
        }
        Ok(env)
    }

    fn start(&self, world: usize, episode: u64) -> Result<World, SimError> {
        let seed = self.seed
            ^ ((world as u64) << 32 | (episode & 0xFFFF_FFFF)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut highway = Highway::new(self.config.highway, seed)?;
        for agent in 0..self.config.n_agents {
            highway.control(agent, 0.0)?;
        }
        Ok(World {
            highway,
            episode,
            step_idx: 0,
            ended: false,
        })
    }

    fn restart(&mut self, world: usize) -> Result<(), SimError> {
        let episode = self.worlds[world].episode + 1;
        self.worlds[world] = self.start(world, episode)?;
        Ok(())
    }

    fn observe(&self, world: usize, buffer: &mut [f32]) {
        let cars = self.worlds[world].highway.cars();
        let n_agents = self.config.n_agents;
        let first = world * n_agents * OBSERVATION_SIZE;
        for agent in 0..n_agents {
            let row = first + agent * OBSERVATION_SIZE;
            observation(
                &self.config.highway,
                &cars,
                agent,
                &mut buffer[row..row + OBSERVATION_SIZE],
            );
        }
    }
}

fn observation(config: &HighwayConfig, cars: &[(usize, f32, f32)], agent: usize, out: &mut [f32]) {
    let length = config.length as f32;
    let (lane, s, speed) = cars[agent];
    out[0] = speed / 30.0;
    out[1] = lane as f32 / config.n_lanes as f32;
    let lanes = [Some(lane), Some(lane + 1), lane.checked_sub(1)];
    for (target, values) in lanes.into_iter().zip(out[2..].chunks_exact_mut(4)) {
        values.copy_from_slice(&[1.0, 0.0, 1.0, 0.0]);
        let Some(target) = target.filter(|&t| t < config.n_lanes) else {
            continue;
        };
        let others = cars
            .iter()
            .enumerate()
            .filter(|(i, c)| *i != agent && c.0 == target);
        for (_, &(_, other_s, other_speed)) in others {
            let ahead = (other_s - s).rem_euclid(length);
            let behind = (s - other_s).rem_euclid(length);
            let (slot, distance) = if ahead <= behind {
                (0, ahead)
            } else {
                (2, behind)
            };
            let gap = (distance - config.car_length as f32) / 100.0;
            if gap < values[slot] {
                values[slot] = gap;
                values[slot + 1] = (other_speed - speed) / 10.0;
            }
        }
    }
}

impl VectorEnv for HighwayEnv {
    fn shape(&self) -> EnvShape {
        EnvShape {
            n_worlds: self.config.n_worlds,
            n_agents: self.config.n_agents,
            observation_size: OBSERVATION_SIZE,
            action_size: ACTION_SIZE,
        }
    }

    fn reset(&mut self, seed: u64, observations: &mut [f32]) -> Result<(), SimError> {
        check_observations(self.shape(), observations)?;
        self.seed = seed;
        for world in 0..self.config.n_worlds {
            self.worlds[world] = self.start(world, 0)?;
            self.observe(world, observations);
        }
        Ok(())
    }

    fn step(&mut self, actions: &[f32], buffers: &mut StepBuffers) -> Result<(), SimError> {
        buffers.check(self.shape(), actions)?;
        let n_agents = self.config.n_agents;
        let desired = self.config.highway.idm.desired_speed as f32;
        for world in 0..self.config.n_worlds {
            let rows = world * n_agents..(world + 1) * n_agents;
            buffers.rewards[rows.clone()].fill(0.0);
            buffers.terminated[rows.clone()].fill(false);
            buffers.truncated[rows.clone()].fill(false);
            if self.worlds[world].ended {
                if self.config.autoreset == Autoreset::NextStep {
                    self.restart(world)?;
                }
                self.observe(world, &mut buffers.observations);
                continue;
            }
            let state = &mut self.worlds[world];
            for (agent, row) in rows.clone().enumerate() {
                let acceleration = actions[row * ACTION_SIZE].clamp(-1.0, 1.0) * HARDEST;
                let change = actions[row * ACTION_SIZE + 1];
                if change.abs() > 0.5 {
                    // Where there is no room the car stays in its lane.
                    state.highway.change_lane(agent, change > 0.0);
                }
                state.highway.control(agent, acceleration)?;
            }
            state.highway.step(DT)?;
            state.step_idx += 1;
            let collided = state.highway.collided();
            let cars = state.highway.cars();
            let any = (0..n_agents).any(|agent| collided[agent]);
            let late = state.step_idx >= self.config.n_steps;
            state.ended = any || late;
            for (agent, row) in rows.clone().enumerate() {
                let crash = if collided[agent] { 10.0 } else { 0.0 };
                buffers.rewards[row] = cars[agent].2 / desired - crash;
                buffers.terminated[row] = collided[agent];
                buffers.truncated[row] = !collided[agent] && (any || late);
            }
            if self.worlds[world].ended && self.config.autoreset == Autoreset::SameStep {
                self.observe(world, &mut buffers.final_observations);
                self.restart(world)?;
            }
            self.observe(world, &mut buffers.observations);
        }
        Ok(())
    }
}
