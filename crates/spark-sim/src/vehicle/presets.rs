//! Vehicles to start from: five body types, three measured cars and a truck, openpilot's test car.

use super::{ActuatorParameters, GRAVITY, Tyre, VehicleParameters};
use serde::{Deserialize, Serialize};

/// Cars measured for CommonRoad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommonRoadVehicle {
    /// Vehicle 1: Ford Escort.
    FordEscort,
    /// Vehicle 2: BMW 320i.
    Bmw320i,
    /// Vehicle 3: VW Vanagon.
    VwVanagon,
    /// Vehicle 4: truck with an on-axle trailer. Its masses and tyres are not
    /// published: only the kinematic models may use it.
    TruckWithTrailer,
}

impl CommonRoadVehicle {
    /// Every vehicle, in the order of their numbers 1 to 4.
    pub const ALL: [Self; 4] = [
        Self::FordEscort,
        Self::Bmw320i,
        Self::VwVanagon,
        Self::TruckWithTrailer,
    ];

    /// The parameters.
    ///
    /// # Source
    ///
    /// Package `commonroad-vehicle-models` 3.0.2 (BSD-3-Clause), Althoff and Wuersching.
    pub fn parameters(self) -> VehicleParameters {
        let tyre = Tyre::COMMONROAD;
        let cornering = -tyre.p_ky1 / tyre.p_dy1;
        let escort = VehicleParameters {
            length: 4.298,
            width: 1.674,
            mass: 1_225.887_846_725_334_4,
            yaw_inertia: 1_538.853_371_356_139_4,
            front_axle: 0.88392,
            rear_axle: 1.50876,
            cog_height: 0.59436,
            friction: tyre.p_dy1,
            cornering_front: cornering,
            cornering_rear: cornering,
            steer_ratio: 16.0,
            steer_max: 0.91,
            steer_rate_max: 0.4,
            speed_min: -13.9,
            speed_max: 45.8,
            switch_speed: 4.755,
            acceleration_max: 11.5,
            wheel_radius: 0.344,
            wheel_inertia: 1.7,
            brake_front: 0.76,
            engine_front: 1.0,
            trailer_wheelbase: 8.1,
        };
        match self {
            Self::FordEscort => escort,
            Self::Bmw320i => VehicleParameters {
                length: 4.508,
                width: 1.61,
                mass: 1_093.295_233_467_404_6,
                yaw_inertia: 1_791.599_530_012_285_6,
                front_axle: 1.156_195_706_4,
                rear_axle: 1.422_717_093_6,
                cog_height: 0.613_730_04,
                steer_max: 1.066,
                speed_max: 50.8,
                switch_speed: 7.319,
                brake_front: 0.66,
                engine_front: 0.0,
                ..escort
            },
            Self::VwVanagon => VehicleParameters {
                length: 4.569,
                width: 1.844,
                mass: 1_478.897_963_776_799_8,
                yaw_inertia: 2_473.117_691_556_444_2,
                front_axle: 1.150_791_602_4,
                rear_axle: 1.321_136_397_600_000_1,
                cog_height: 0.804_490_644,
                steer_max: 1.023,
                speed_min: -11.2,
                speed_max: 41.7,
                switch_speed: 7.824,
                brake_front: 0.64,
                engine_front: 0.0,
                ..escort
            },
            Self::TruckWithTrailer => VehicleParameters {
                length: 5.1,
                width: 2.55,
                front_axle: 1.8,
                rear_axle: 1.8,
                steer_max: 0.55,
                steer_rate_max: 0.7103,
                speed_min: -2.78,
                speed_max: 22.22,
                switch_speed: 7.824,
                ..escort
            },
        }
    }
}

/// Body types with typical figures.
///
/// Wheelbase, steering ratio, masses, stiffness, limits and delays are those of
/// the algorithm harness in montge/openpilot 0450b81a (MIT). What that harness
/// does not name (size, height of the centre of gravity, wheels, power limit) is
/// this crate's choice.
///
/// # Steering torque
///
/// | preset | full torque | most | friction | damping | to full torque | understeer |
/// |---|---|---|---|---|---|---|
/// | | m/s^2 | m/s^2 | m/s^2 | m/s^2 per rad/s | s | rad s^2/m |
/// | compact | 1.85 (1.4 to 2.3) | 1.6 | 0.30 (0.20 to 0.40) | 20 (15 to 25) | 1.15 (0.8 to 1.5) | 0.0020 |
/// | sedan | 2.45 (1.7 to 3.2) | 2.0 | 0.31 (0.22 to 0.40) | 20 (15 to 25) | 1.2 (1.0 to 1.35) | 0.0024 |
/// | SUV | 2.5 (1.9 to 3.1) | 1.9 | 0.32 (0.24 to 0.40) | 24 (18 to 30) | 1.25 (1.0 to 1.5) | 0.0028 |
/// | truck | 1.85 (1.4 to 2.3) | 1.5 | 0.215 (0.10 to 0.33) | 27.5 (20 to 35) | 1.1 (0.5 to 1.7) | 0.0030 |
/// | sports | 3.3 (2.7 to 3.9) | 2.4 | 0.275 (0.22 to 0.33) | 18 (15 to 20) | 1.05 (0.8 to 1.3) | 0.0018 |
/// | Honda Civic 2022 | 2.5 | 1.2 | 0.375 | 20 | 0.33 | 0.0024 |
///
/// Full torque, most (held on the road, friction already off) and friction: LAT_ACCEL_FACTOR, MAX_LAT_ACCEL_MEASURED and FRICTION x
/// LAT_ACCEL_FACTOR of 80 cars in commaai/opendbc 7343a66d, `torque_data`, by class. Seconds to full
/// torque: its safety code, change per frame over the largest torque (Toyota 1.0, Hyundai 0.85 to 1.35, GM
/// 0.9, Volkswagen 1.0 to 1.5, Chrysler and RAM 0.5 to 1.7, Honda 0.33); torque falls 1.7 times as fast as it
/// grows, as Toyota's. Damping: one published steering gear gives 9 to 25 with trails of 0.08 to 0.03 m; the classes and the understeer are inferred from
/// openpilot's gains over speed and are not measured. Where a range is given the middle is taken, 18 instead of 17.5 for sports.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum VehiclePreset {
    /// A mid-size saloon: 1500 kg, 2.7 m between the axles.
    #[default]
    Sedan,
    /// A sport utility vehicle: 1900 kg, 2.85 m between the axles.
    Suv,
    /// A pickup truck: 2500 kg, 3.7 m between the axles.
    Truck,
    /// A small car: 1200 kg, 2.55 m between the axles.
    Compact,
    /// A sports car: 1300 kg, 2.45 m between the axles.
    Sports,
    /// Honda Civic as in openpilot's own vehicle model test.
    HondaCivic,
}

/// What the table of a preset holds, in the harness's own terms.
struct Row {
    wheelbase: f64,
    steer_ratio: f64,
    mass: f64,
    yaw_inertia: f64,
    center_to_front: f64,
    stiffness_front: f64,
    stiffness_rear: f64,
    wheel_angle_max_deg: f64,
    acceleration_max: f64,
    deceleration_max: f64,
    steer_delay_s: f64,
    acceleration_delay_s: f64,
    length: f64,
    width: f64,
    cog_height: f64,
    torque: Torque,
}

/// Torque falls this many times as fast as it grows: Toyota's 25 over 15 units per frame.
const TORQUE_DOWN_OVER_UP: f64 = 5.0 / 3.0;

/// The torque interface: m/s^2 but for the damping (per rad/s), the time to full torque (s)
/// and the understeer gradient (rad s^2/m).
struct Torque {
    full: f64,
    most: f64,
    friction: f64,
    damping: f64,
    to_full_s: f64,
    understeer: f64,
}

impl VehiclePreset {
    /// Every preset, in the order of [`Parameter::Preset`](crate::scenario::Parameter::Preset).
    pub const ALL: [Self; 6] = [
        Self::Sedan,
        Self::Suv,
        Self::Truck,
        Self::Compact,
        Self::Sports,
        Self::HondaCivic,
    ];

    #[rustfmt::skip]
    fn row(self) -> Row {
        let row = |size: [f64; 3], car: [f64; 8], limits: [f64; 2], delays: [f64; 2], torque: [f64; 6]| Row {
            length: size[0], width: size[1], cog_height: size[2],
            wheelbase: car[0], steer_ratio: car[1], mass: car[2], yaw_inertia: car[3], center_to_front: car[4],
            stiffness_front: car[5], stiffness_rear: car[6], wheel_angle_max_deg: car[7],
            acceleration_max: limits[0], deceleration_max: limits[1],
            steer_delay_s: delays[0], acceleration_delay_s: delays[1],
            torque: Torque { full: torque[0], most: torque[1], friction: torque[2], damping: torque[3], to_full_s: torque[4], understeer: torque[5] },
        };
        match self {
            Self::Sedan => row([4.7, 1.85, 0.55], [2.7, 15.0, 1500.0, 2500.0, 1.35, 2.0e5, 2.0e5, 540.0], [2.0, 4.0], [0.1, 0.2], [2.45, 2.0, 0.31, 20.0, 1.2, 0.0024]),
            Self::Suv => row([4.9, 1.95, 0.70], [2.85, 16.0, 1900.0, 3500.0, 1.4, 1.8e5, 1.8e5, 540.0], [1.8, 3.5], [0.12, 0.25], [2.5, 1.9, 0.32, 24.0, 1.25, 0.0028]),
            Self::Truck => row([5.9, 2.05, 0.80], [3.7, 18.0, 2500.0, 5000.0, 1.8, 1.6e5, 2.2e5, 540.0], [1.5, 3.0], [0.15, 0.3], [1.85, 1.5, 0.215, 27.5, 1.1, 0.0030]),
            Self::Compact => row([4.1, 1.75, 0.53], [2.55, 14.0, 1200.0, 1800.0, 1.25, 1.8e5, 1.8e5, 540.0], [2.5, 4.5], [0.08, 0.15], [1.85, 1.6, 0.30, 20.0, 1.15, 0.0020]),
            Self::Sports => row([4.4, 1.85, 0.46], [2.45, 12.0, 1300.0, 2000.0, 1.2, 2.2e5, 2.4e5, 450.0], [3.0, 5.0], [0.05, 0.1], [3.3, 2.4, 0.275, 18.0, 1.05, 0.0018]),
            Self::HondaCivic => row([4.65, 1.80, 0.53], [2.7, 15.38, 1462.0, 2500.0, 1.08, 192_150.0, 202_500.0, 540.0], [2.0, 4.0], [0.1, 0.2], [2.5, 1.2, 0.375, 20.0, 0.33, 0.0024]),
        }
    }

    /// Size, mass, tyres and limits of the vehicle.
    pub fn parameters(self) -> VehicleParameters {
        let row = self.row();
        let front_axle = row.center_to_front;
        let rear_axle = row.wheelbase - front_axle;
        let friction = 1.0;
        let load_front = row.mass * GRAVITY * rear_axle / row.wheelbase;
        let load_rear = row.mass * GRAVITY * front_axle / row.wheelbase;
        VehicleParameters {
            length: row.length,
            width: row.width,
            mass: row.mass,
            yaw_inertia: row.yaw_inertia,
            front_axle,
            rear_axle,
            cog_height: row.cog_height,
            friction,
            cornering_front: row.stiffness_front / (friction * load_front),
            cornering_rear: row.stiffness_rear / (friction * load_rear),
            steer_ratio: row.steer_ratio,
            steer_max: (row.wheel_angle_max_deg / row.steer_ratio).to_radians(),
            steer_rate_max: 0.4,
            speed_min: 0.0,
            speed_max: 60.0,
            switch_speed: 8.0,
            acceleration_max: 11.5,
            wheel_radius: 0.33,
            wheel_inertia: 1.7,
            brake_front: 0.66,
            engine_front: 1.0,
            trailer_wheelbase: 8.1,
        }
    }

    /// The delays and limits of its actuators.
    pub fn actuators(self) -> ActuatorParameters {
        let row = self.row();
        ActuatorParameters {
            steer_delay_s: row.steer_delay_s,
            steer_lag_s: 0.1,
            acceleration_delay_s: row.acceleration_delay_s,
            acceleration_lag_s: 0.2,
            acceleration_max: row.acceleration_max,
            deceleration_max: row.deceleration_max,
            lateral_acceleration_at_full_torque: row.torque.full,
            torque_friction: row.torque.friction,
            torque_lateral_acceleration_max: row.torque.most,
            torque_damping: row.torque.damping,
            torque_understeer: row.torque.understeer,
            torque_up: 1.0 / row.torque.to_full_s,
            torque_down: TORQUE_DOWN_OVER_UP / row.torque.to_full_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number of a cell, and its range if one stands behind it.
    fn figure(cell: &str) -> (f64, Option<[f64; 2]>) {
        let number = |text: &str| text.trim().parse().expect("a number");
        match cell.split_once('(') {
            None => (number(cell), None),
            Some((value, range)) => {
                let (low, high) = range
                    .trim_end_matches(')')
                    .split_once(" to ")
                    .expect("a range");
                (number(value), Some([number(low), number(high)]))
            }
        }
    }

    #[test]
    fn the_steering_torque_of_each_preset_is_that_of_the_documented_table() {
        let rows = include_str!("presets.rs").lines().filter_map(|line| {
            let cells = line
                .strip_prefix("/// | ")?
                .trim_end_matches(" |")
                .split(" | ");
            let cells: Vec<&str> = cells.collect();
            (cells.len() == 7 && cells[1].starts_with(|c: char| c.is_ascii_digit()))
                .then_some(cells)
        });
        let rows: Vec<Vec<&str>> = rows.collect();
        let names = [
            "sedan",
            "SUV",
            "truck",
            "compact",
            "sports",
            "Honda Civic 2022",
        ];
        assert_eq!(rows.len(), names.len());
        for (preset, name) in VehiclePreset::ALL.into_iter().zip(names) {
            let row = rows.iter().find(|row| row[0] == name).expect("a row");
            let got = preset.actuators();
            let got = [
                got.lateral_acceleration_at_full_torque,
                got.torque_lateral_acceleration_max,
                got.torque_friction,
                got.torque_damping,
                1.0 / got.torque_up,
                got.torque_understeer,
            ];
            for (cell, got) in row[1..].iter().zip(got) {
                let (documented, range) = figure(cell);
                assert!((got - documented).abs() < 1e-12, "{name}: {got} for {cell}");
                let Some([low, high]) = range else { continue };
                // The middle, to the digits it is written with.
                let middle = f64::midpoint(low, high);
                assert!(
                    (documented - middle).abs() <= 0.05 * middle,
                    "{name}: {cell}"
                );
            }
        }
    }
}
