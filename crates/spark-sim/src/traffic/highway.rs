//! Many cars on a ring of lanes: IDM along it, MOBIL across it.
//!
//! ```text
//! lane 2  [ids in the order of s][s][v]...      the car in front is the next element,
//! lane 1  [ids in the order of s][s][v]...      so car-following is one pass over arrays
//! lane 0  [ids in the order of s][s][v]...      lane 0 is the rightmost
//!
//! every step      acceleration of all cars, then positions, then the ring's seam
//! every second    lane changes, one lane after the other, each car once
//! ```
//!
//! Cars can be taken over from outside (`control`): they keep their place in the
//! order and do what they are told. The same seed gives the same traffic, bit for bit.

use super::{Idm, LaneChange, Mobil};
use crate::SimError;
use crate::random::Philox;
use crate::real::{Element, Kernel, Lanes, padded_len};
use serde::{Deserialize, Serialize};

/// Size of the ring and its drivers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HighwayConfig {
    /// Number of lanes around the ring.
    pub n_lanes: usize,
    /// Number of cars on all lanes.
    pub n_cars: usize,
    /// Length of the ring, m.
    pub length: f64,
    /// Length of a car, m.
    pub car_length: f64,
    /// How they follow; each driver's desired speed is spread by up to 20 % around this.
    pub idm: Idm,
    /// How they change lanes.
    pub mobil: Mobil,
    /// Time between two considerations of a lane change, s.
    pub lane_change_period_s: f64,
}

impl Default for HighwayConfig {
    /// Three kilometres of three lanes with fifty cars.
    fn default() -> Self {
        Self {
            n_lanes: 3,
            n_cars: 50,
            length: 3000.0,
            car_length: 5.0,
            idm: Idm::default(),
            mobil: Mobil::default(),
            lane_change_period_s: 1.0,
        }
    }
}

/// What a car taken over from outside does until told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Command {
    acceleration: f32,
    controlled: bool,
}

/// One lane's cars in the order of their position.
///
/// Every column has a register's worth of room behind the last car; element `n`
/// repeats the first car one ring further on, as the last car's leader.
#[derive(Debug, Clone, PartialEq, Default)]
struct Lane {
    id: Vec<u32>,
    s: Vec<f32>,
    speed: Vec<f32>,
    inverse_desired: Vec<f32>,
    acceleration: Vec<f32>,
}

/// The ring and every car on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Highway {
    config: HighwayConfig,
    lanes: Vec<Lane>,
    commands: Vec<Command>,
    since_lane_change_s: f64,
    n_lane_changes: u64,
}

impl Highway {
    /// Cars evenly over the lanes, with random speeds and desired speeds.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] if there is no lane or car, a number is not finite and
    /// positive, or the cars do not fit the ring with 2 m between them.
    pub fn new(config: HighwayConfig, seed: u64) -> Result<Self, SimError> {
        let positive = [
            ("highway lanes", config.n_lanes as f64),
            ("highway cars", config.n_cars as f64),
            ("highway length (m)", config.length),
            ("highway car length (m)", config.car_length),
            ("desired speed (m/s)", config.idm.desired_speed),
            ("lane change period (s)", config.lane_change_period_s),
        ];
        for (what, got) in positive {
            if !(got.is_finite() && got > 0.0) {
                let want = "a finite number above zero";
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        if config.n_lanes > 64 || config.n_cars > 10_000_000 || config.length > 1e5 {
            return Err(SimError::OutOfRange {
                what: "highway size",
                got: config.n_cars as f64,
                want: "at most 64 lanes, ten million cars and 100 km",
            });
        }
        let per_lane = config.n_cars.div_ceil(config.n_lanes);
        let spacing = config.length / per_lane as f64;
        if spacing < config.car_length + 2.0 {
            return Err(SimError::OutOfRange {
                what: "spacing of cars on the highway (m)",
                got: spacing,
                want: "at least a car's length and 2 m",
            });
        }
        let mut highway = Self {
            config,
            lanes: vec![Lane::default(); config.n_lanes],
            commands: vec![Command::default(); config.n_cars],
            since_lane_change_s: 0.0,
            n_lane_changes: 0,
        };
        let mut random = Philox::new(seed, 0x4849_4748);
        let room = spacing - config.car_length - 2.0;
        for car in 0..config.n_cars {
            let lane = &mut highway.lanes[car % config.n_lanes];
            let position = (car / config.n_lanes) as f64 * spacing + random.next_in(0.0, room);
            let desired = config.idm.desired_speed * random.next_in(0.8, 1.2);
            lane.id.push(car as u32);
            lane.s.push(position as f32);
            lane.speed.push((desired * random.next_in(0.5, 0.9)) as f32);
            lane.inverse_desired.push((1.0 / desired) as f32);
            lane.acceleration.push(0.0);
        }
        Ok(highway)
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &HighwayConfig {
        &self.config
    }

    /// Lane changes since the start.
    pub fn n_lane_changes(&self) -> u64 {
        self.n_lane_changes
    }

    /// Takes a car over: it accelerates as told (m/s^2) until told otherwise and changes lane only by [`Highway::change_lane`].
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] for a car that there is not, and for an acceleration that is not finite.
    pub fn control(&mut self, car: usize, acceleration: f32) -> Result<(), SimError> {
        if !acceleration.is_finite() {
            return Err(SimError::OutOfRange {
                what: "acceleration of a car (m/s^2)",
                got: acceleration.into(),
                want: "a finite number",
            });
        }
        let Some(command) = self.commands.get_mut(car) else {
            return Err(SimError::OutOfRange {
                what: "number of a car",
                got: car as f64,
                want: "below the number of cars",
            });
        };
        *command = Command {
            acceleration,
            controlled: true,
        };
        Ok(())
    }

    /// Lane, position along the ring (m), speed (m/s) of every car, by car.
    pub fn cars(&self) -> Vec<(usize, f32, f32)> {
        let mut cars = vec![(0, 0.0, 0.0); self.config.n_cars];
        for (lane_idx, lane) in self.lanes.iter().enumerate() {
            for (i, &id) in lane.id.iter().enumerate() {
                cars[id as usize] = (lane_idx, lane.s[i], lane.speed[i]);
            }
        }
        cars
    }

    /// Smallest free space between a car and the one in front, m; negative after a collision.
    pub fn smallest_gap(&self) -> f64 {
        let length = self.config.length;
        let gaps = self.lanes.iter().flat_map(|lane| {
            (0..lane.id.len()).map(move |i| {
                let next = (i + 1) % lane.id.len();
                let wrap = if next <= i { length } else { 0.0 };
                f64::from(lane.s[next]) + wrap - f64::from(lane.s[i])
            })
        });
        gaps.fold(f64::INFINITY, f64::min) - self.config.car_length
    }

    /// Whether each car touches the one in front or behind.
    pub fn collided(&self) -> Vec<bool> {
        let mut collided = vec![false; self.config.n_cars];
        let length = self.config.length as f32;
        for lane in self.lanes.iter().filter(|lane| lane.id.len() > 1) {
            for i in 0..lane.id.len() {
                let next = (i + 1) % lane.id.len();
                let wrap = if next == 0 { length } else { 0.0 };
                // Negative once a car has driven through another.
                let gap = lane.s[next] + wrap - lane.s[i] - self.config.car_length as f32;
                if gap < 0.0 {
                    collided[lane.id[i] as usize] = true;
                    collided[lane.id[next] as usize] = true;
                }
            }
        }
        collided
    }

    /// Moves every car on by `dt` s.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] unless `dt` is above 0 and at most 1 s.
    pub fn step(&mut self, dt: f64) -> Result<(), SimError> {
        if !(dt > 0.0 && dt <= 1.0) {
            return Err(SimError::OutOfRange {
                what: "time step (s)",
                got: dt,
                want: "above 0 and at most 1",
            });
        }
        self.since_lane_change_s += dt;
        if self.since_lane_change_s >= self.config.lane_change_period_s - 1e-9 {
            self.since_lane_change_s = 0.0;
            for lane_idx in 0..self.lanes.len() {
                self.consider_lane_changes(lane_idx);
            }
        }
        let config = self.config;
        for lane in &mut self.lanes {
            if lane.id.is_empty() {
                continue;
            }
            lane.close_ring(config.length as f32);
            f32::dispatch(Follow {
                lane,
                idm: &config.idm,
                car_length: config.car_length,
                dt,
            });
            lane.open_ring();
            lane.obey(&self.commands, dt as f32);
            lane.wrap(config.length as f32);
        }
        Ok(())
    }

    /// Moves a car one lane to the left or right. `false` where there is no lane or no room.
    pub fn change_lane(&mut self, car: usize, to_left: bool) -> bool {
        let found = self.lanes.iter().enumerate().find_map(|(lane_idx, lane)| {
            let at = lane.id.iter().position(|&id| id as usize == car)?;
            Some((lane_idx, at))
        });
        let Some((lane_idx, at)) = found else {
            return false;
        };
        match self.neighbour(lane_idx, to_left) {
            Some(target) if self.room_beside(lane_idx, at, target).is_some() => {
                self.move_car(lane_idx, at, target);
                true
            }
            _ => false,
        }
    }

    fn neighbour(&self, lane_idx: usize, to_left: bool) -> Option<usize> {
        match to_left {
            true => Some(lane_idx + 1).filter(|&target| target < self.lanes.len()),
            false => lane_idx.checked_sub(1),
        }
    }

    /// Gaps (m) to the cars that would be ahead and behind in another lane, if both are positive.
    fn room_beside(&self, lane_idx: usize, at: usize, target: usize) -> Option<Beside> {
        let s = self.lanes[lane_idx].s[at];
        let beside = self.lanes[target].around(s, self.config.length as f32);
        let car_length = self.config.car_length as f32;
        let fits = |neighbour: &Option<Neighbour>| {
            neighbour
                .as_ref()
                .is_none_or(|n| n.distance > car_length + 0.5)
        };
        (fits(&beside.ahead) && fits(&beside.behind)).then_some(beside)
    }

    fn consider_lane_changes(&mut self, lane_idx: usize) {
        // Backwards, so that taking a car out leaves the places still to visit unchanged.
        for at in (0..self.lanes[lane_idx].id.len()).rev() {
            let car = self.lanes[lane_idx].id[at] as usize;
            if self.commands[car].controlled {
                continue;
            }
            let better = [true, false]
                .into_iter()
                .filter_map(|to_left| {
                    let target = self.neighbour(lane_idx, to_left)?;
                    let beside = self.room_beside(lane_idx, at, target)?;
                    let change = self.weigh(lane_idx, at, &beside, to_left);
                    let incentive = self.config.mobil.incentive(&change);
                    (self.config.mobil.is_safe(&change) && incentive > 0.0)
                        .then_some((incentive, target))
                })
                .max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, target)) = better {
                self.move_car(lane_idx, at, target);
            }
        }
    }

    /// The six accelerations MOBIL compares.
    fn weigh(&self, lane_idx: usize, at: usize, beside: &Beside, to_left: bool) -> LaneChange {
        let lane = &self.lanes[lane_idx];
        let (speed, inverse) = (lane.speed[at], lane.inverse_desired[at]);
        let here = lane.beside(at, self.config.length as f32);
        let follow = |inverse: f32, speed: f32, lead: Option<(f32, f32)>| {
            let (lead_speed, distance) = lead.unwrap_or((speed, 1e6));
            let gap = distance - self.config.car_length as f32;
            f64::from(
                self.config
                    .idm
                    .acceleration_towards(inverse, speed, speed - lead_speed, gap),
            )
        };
        let lead_of = |n: &Option<Neighbour>| n.as_ref().map(|n| (n.speed, n.distance));
        // A follower's leader is this car, or, without it, the car ahead of both.
        let follower = |behind: &Option<Neighbour>, ahead: &Option<Neighbour>, with_me: bool| {
            let Some(behind) = behind else { return 0.0 };
            let lead = match (with_me, ahead) {
                (true, _) => Some((speed, behind.distance)),
                (false, Some(ahead)) => Some((ahead.speed, behind.distance + ahead.distance)),
                (false, None) => None,
            };
            follow(behind.inverse_desired, behind.speed, lead)
        };
        LaneChange {
            own: [
                follow(inverse, speed, lead_of(&here.ahead)),
                follow(inverse, speed, lead_of(&beside.ahead)),
            ],
            old_follower: [
                follower(&here.behind, &here.ahead, true),
                follower(&here.behind, &here.ahead, false),
            ],
            new_follower: [
                follower(&beside.behind, &beside.ahead, false),
                follower(&beside.behind, &beside.ahead, true),
            ],
            to_left,
        }
    }

    fn move_car(&mut self, lane_idx: usize, at: usize, target: usize) {
        let lane = &mut self.lanes[lane_idx];
        let car = (
            lane.id.remove(at),
            lane.s.remove(at),
            lane.speed.remove(at),
            lane.inverse_desired.remove(at),
            lane.acceleration.remove(at),
        );
        let lane = &mut self.lanes[target];
        let at = lane.s.partition_point(|&s| s < car.1);
        lane.id.insert(at, car.0);
        lane.s.insert(at, car.1);
        lane.speed.insert(at, car.2);
        lane.inverse_desired.insert(at, car.3);
        lane.acceleration.insert(at, car.4);
        self.n_lane_changes += 1;
    }
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// Between reference points, m.
    distance: f32,
    speed: f32,
    inverse_desired: f32,
}

#[derive(Debug, Clone, Copy)]
struct Beside {
    ahead: Option<Neighbour>,
    behind: Option<Neighbour>,
}

impl Lane {
    /// The neighbours of position `s` among this lane's cars, round the ring.
    fn around(&self, s: f32, length: f32) -> Beside {
        let n = self.id.len();
        if n == 0 {
            return Beside {
                ahead: None,
                behind: None,
            };
        }
        let after = self.s.partition_point(|&other| other < s);
        self.between(after % n, (after + n - 1) % n, s, length)
    }

    /// The neighbours of this lane's car at place `at`.
    fn beside(&self, at: usize, length: f32) -> Beside {
        let n = self.id.len();
        if n == 1 {
            return Beside {
                ahead: None,
                behind: None,
            };
        }
        self.between((at + 1) % n, (at + n - 1) % n, self.s[at], length)
    }

    fn between(&self, ahead: usize, behind: usize, s: f32, length: f32) -> Beside {
        let neighbour = |at: usize, distance: f32| {
            Some(Neighbour {
                distance: distance.rem_euclid(length),
                speed: self.speed[at],
                inverse_desired: self.inverse_desired[at],
            })
        };
        Beside {
            ahead: neighbour(ahead, self.s[ahead] - s),
            behind: neighbour(behind, s - self.s[behind]),
        }
    }

    /// Room behind the last car, and the first car again as its leader.
    fn close_ring(&mut self, length: f32) {
        let n = self.id.len();
        let padded = padded_len(n + 1) + 1;
        let (first_s, first_speed) = (self.s[0] + length, self.speed[0]);
        self.s.resize(padded, first_s);
        self.speed.resize(padded, first_speed);
        self.inverse_desired.resize(padded, 0.0);
        self.acceleration.resize(padded, 0.0);
    }

    fn open_ring(&mut self) {
        let n = self.id.len();
        self.s.truncate(n);
        self.speed.truncate(n);
        self.inverse_desired.truncate(n);
        self.acceleration.truncate(n);
    }

    /// Puts the cars that are steered from outside where their commands bring them.
    fn obey(&mut self, commands: &[Command], dt: f32) {
        for i in 0..self.id.len() {
            let command = commands[self.id[i] as usize];
            if command.controlled {
                // Take the driver's own step back, then make the commanded one.
                let moved = self.speed[i] * dt;
                let before = (self.speed[i] - self.acceleration[i] * dt).max(0.0);
                let next = (before + command.acceleration * dt).max(0.0);
                self.s[i] += next * dt - moved;
                self.speed[i] = next;
                self.acceleration[i] = command.acceleration;
            }
        }
    }

    /// Brings cars that have passed the seam back to the start of the order.
    fn wrap(&mut self, length: f32) {
        let n_over = self.s.iter().rev().take_while(|&&s| s >= length).count();
        if n_over == 0 {
            return;
        }
        for s in self.s.iter_mut().rev().take(n_over) {
            *s -= length;
        }
        self.id.rotate_right(n_over);
        self.s.rotate_right(n_over);
        self.speed.rotate_right(n_over);
        self.inverse_desired.rotate_right(n_over);
        self.acceleration.rotate_right(n_over);
    }
}

/// Car-following of one lane for any number of cars at a time.
struct Follow<'a> {
    lane: &'a mut Lane,
    idm: &'a Idm,
    car_length: f64,
    dt: f64,
}

impl Kernel for Follow<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let lane = self.lane;
        let n = lane.id.len();
        let (dt, car_length) = (L::splat(self.dt), L::splat(self.car_length));
        let hardest = L::splat(-9.0);
        let mut first = 0;
        while first < n {
            let (s, speed) = (L::load(&lane.s, first), L::load(&lane.speed, first));
            let (lead_s, lead_speed) =
                (L::load(&lane.s, first + 1), L::load(&lane.speed, first + 1));
            let wanted = self.idm.acceleration_towards(
                L::load(&lane.inverse_desired, first),
                speed,
                speed - lead_speed,
                lead_s - s - car_length,
            );
            // The speed does not go below zero; the acceleration says what really happens.
            let next = (speed + wanted.maximum(hardest) * dt).maximum(L::zero());
            ((next - speed) / dt).store(&mut lane.acceleration, first);
            next.store(&mut lane.speed, first);
            (s + next * dt).store(&mut lane.s, first);
            first += L::N;
        }
    }
}
