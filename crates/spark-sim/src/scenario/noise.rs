//! What is wrong with what a controller is told: bias, noise, frames, latency, losses.
//!
//! ```text
//! frame k            k = floor(t * rate), or every step without a rate
//! error of frame k   e_k = bias + bias_sd z + white_sd w_k + a_k       z, w, m standard normal
//!                    a_k = rho a_(k-1) + sqrt(1 - rho^2) ar1_sd m_k    rho = exp(-period / ar1_time)
//! reading of frame k truth when it was taken + e_k; a lost frame leaves the last reading
//! told               the newest reading that is at least `latency` old
//! ```
//!
//! Every draw is a function of (the scenario's seed, channel, frame): another controller, batch
//! or number of threads meets the same noise. Planner and controllers are told the readings;
//! the car, other road users, metrics and collisions follow the truth.
//!
//! In a file a channel is a number, the standard deviation of white noise, or a table:
//!
//! ```toml
//! [environment.noise]
//! level = 1                                   # magnitudes to start from; the lines below replace some
//! speed = 0.1
//! offset = { bias = 0.05, ar1_sd = 0.06, ar1_time_s = 4, white_sd = 0.02, rate_hz = 20, latency_s = 0.05 }
//! lead_presence = { rate_hz = 20, dropout = 0.0025, dropout_frames = 11 }
//! ```

use crate::SimError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

#[cfg(test)]
mod tests;

/// Longest latency that a channel may have, s.
const LONGEST_LATENCY_S: f64 = 2.0;

/// When a channel is read and which readings arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frames {
    pub(crate) rate_hz: Option<f64>,
    pub(crate) latency_s: f64,
    pub(crate) dropout: f64,
    pub(crate) dropout_frames: u32,
}

impl Frames {
    /// Every reading arrives at the step at which it is taken, and every step takes one.
    pub(crate) fn are_steps(&self) -> bool {
        self.rate_hz.is_none() && self.latency_s == 0.0 && self.dropout == 0.0
    }
}

/// One channel's errors, in the unit of the channel. All zero: the channel tells the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelNoise {
    /// Constant error, the same in every run.
    pub bias: f64,
    /// Standard deviation of a further constant error, drawn once per run.
    pub bias_sd: f64,
    /// Standard deviation of an error drawn anew for every frame.
    pub white_sd: f64,
    /// Standard deviation of an error that wanders: a first-order autoregressive process.
    pub ar1_sd: f64,
    /// Time after which that error has forgotten all but 1/e of itself, s.
    pub ar1_time_s: f64,
    /// Frames per second, 1/s; the last one is held between two. Every step is a frame if absent.
    pub rate_hz: Option<f64>,
    /// Time from when a frame is taken until it is told, s; rounded to steps.
    pub latency_s: f64,
    /// Probability, per frame, that a loss of frames begins.
    pub dropout: f64,
    /// Most frames one loss takes; how many is drawn, each number from 1 on as likely.
    pub dropout_frames: u32,
}

impl ChannelNoise {
    /// A channel that tells the truth at every step.
    pub const NONE: Self = Self {
        bias: 0.0,
        bias_sd: 0.0,
        white_sd: 0.0,
        ar1_sd: 0.0,
        ar1_time_s: 1.0,
        rate_hz: None,
        latency_s: 0.0,
        dropout: 0.0,
        dropout_frames: 1,
    };

    /// White noise of this standard deviation, drawn at every step.
    pub const fn white(white_sd: f64) -> Self {
        Self {
            white_sd,
            ..Self::NONE
        }
    }

    /// Whether the channel tells the truth at every step.
    pub fn is_none(&self) -> bool {
        let sizes = [self.bias, self.bias_sd, self.white_sd, self.ar1_sd];
        sizes.iter().all(|&x| x == 0.0) && self.frames().are_steps()
    }

    /// Whether any of its errors is drawn.
    fn is_random(&self) -> bool {
        let drawn = [self.bias_sd, self.white_sd, self.ar1_sd, self.dropout];
        drawn.iter().any(|&it| it != 0.0)
    }

    pub(crate) fn frames(&self) -> Frames {
        Frames {
            rate_hz: self.rate_hz,
            latency_s: self.latency_s,
            dropout: self.dropout,
            dropout_frames: self.dropout_frames,
        }
    }

    fn validate(&self, channel: &'static str) -> Result<(), SimError> {
        let most = 1000.0;
        let want = "between -1000 and 1000";
        check(channel, "bias", self.bias, -most, most, want)?;
        let want = "between 0 and 1000";
        check(channel, "bias_sd", self.bias_sd, 0.0, most, want)?;
        check(channel, "white_sd", self.white_sd, 0.0, most, want)?;
        check(channel, "ar1_sd", self.ar1_sd, 0.0, most, want)?;
        let want = "between 0.001 and 10000 s";
        check(channel, "ar1_time_s", self.ar1_time_s, 1e-3, 1e4, want)?;
        self.frames().validate(channel)
    }
}

impl Frames {
    fn validate(&self, channel: &'static str) -> Result<(), SimError> {
        if let Some(rate_hz) = self.rate_hz {
            let want = "between 0.1 and 1000 per second";
            check(channel, "rate_hz", rate_hz, 0.1, 1e3, want)?;
        }
        let want = "between 0 and 2 s";
        let latency = self.latency_s;
        check(channel, "latency_s", latency, 0.0, LONGEST_LATENCY_S, want)?;
        check(
            channel,
            "dropout",
            self.dropout,
            0.0,
            1.0,
            "between 0 and 1",
        )?;
        let frames = f64::from(self.dropout_frames);
        check(
            channel,
            "dropout_frames",
            frames,
            1.0,
            1e4,
            "between 1 and 10000",
        )
    }
}

fn check(
    channel: &'static str,
    field: &'static str,
    got: f64,
    low: f64,
    high: f64,
    want: &'static str,
) -> Result<(), SimError> {
    if (low..=high).contains(&got) {
        return Ok(());
    }
    Err(SimError::Noise {
        channel,
        field,
        got,
        want,
    })
}

impl Default for ChannelNoise {
    fn default() -> Self {
        Self::NONE
    }
}

/// White noise of this standard deviation.
impl From<f64> for ChannelNoise {
    fn from(white_sd: f64) -> Self {
        Self::white(white_sd)
    }
}

/// When a car ahead is reported, and when it is lost although it is there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PresenceNoise {
    /// Frames per second, 1/s; every step is a frame if absent.
    pub rate_hz: Option<f64>,
    /// Time until a car ahead is reported, and until it is no longer, s.
    pub latency_s: f64,
    /// Probability, per frame, that a loss begins: no car ahead is reported.
    pub dropout: f64,
    /// Most frames one loss takes; how many is drawn, each number from 1 on as likely.
    pub dropout_frames: u32,
}

impl PresenceNoise {
    /// A car ahead is reported at every step at which there is one.
    pub const NONE: Self = Self {
        rate_hz: None,
        latency_s: 0.0,
        dropout: 0.0,
        dropout_frames: 1,
    };

    /// Whether the truth is reported at every step.
    pub fn is_none(&self) -> bool {
        self.frames().are_steps()
    }

    pub(crate) fn frames(&self) -> Frames {
        Frames {
            rate_hz: self.rate_hz,
            latency_s: self.latency_s,
            dropout: self.dropout,
            dropout_frames: self.dropout_frames,
        }
    }
}

impl Default for PresenceNoise {
    fn default() -> Self {
        Self::NONE
    }
}

/// Errors of everything that planner and controllers are told about the world.
///
/// Not disturbed: the car's acceleration, its steering rate, the lane's width and what is asked
/// of the car.
///
/// # Examples
///
/// ```
/// use spark_sim::scenario::{ChannelNoise, SensorNoise};
///
/// let noise = SensorNoise {
///     speed: ChannelNoise { bias: 0.2, latency_s: 0.1, ..ChannelNoise::NONE },
///     ..SensorNoise::default()
/// };
/// noise.validate()?;
/// assert!(SensorNoise::level(0.0).is_none()); // level 1 is typical of a car's sensors
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SensorNoise {
    /// Offset from the lane's centre, m.
    pub offset: ChannelNoise,
    /// Heading relative to the road, rad.
    pub heading: ChannelNoise,
    /// Curvature of the road, here and at the preview point, 1/m.
    pub curvature: ChannelNoise,
    /// Speed of the car, m/s.
    pub speed: ChannelNoise,
    /// Yaw rate of the car, rad/s.
    pub yaw_rate: ChannelNoise,
    /// Angle of the steering wheel, degrees.
    pub steering_angle: ChannelNoise,
    /// Bank of the road, rad.
    pub roll: ChannelNoise,
    /// Free space to the car ahead, m.
    pub lead_distance: ChannelNoise,
    /// Its speed relative to one's own, m/s.
    pub lead_speed: ChannelNoise,
    /// Acceleration of the car ahead, m/s^2.
    pub lead_acceleration: ChannelNoise,
    /// Whether there is one.
    pub lead_presence: PresenceNoise,
}

impl SensorNoise {
    /// Names and settings of the channels that are numbers; their places number random streams.
    pub(crate) fn channels(&self) -> [(&'static str, &ChannelNoise); 10] {
        [
            ("offset", &self.offset),
            ("heading", &self.heading),
            ("curvature", &self.curvature),
            ("speed", &self.speed),
            ("yaw_rate", &self.yaw_rate),
            ("steering_angle", &self.steering_angle),
            ("roll", &self.roll),
            ("lead_distance", &self.lead_distance),
            ("lead_speed", &self.lead_speed),
            ("lead_acceleration", &self.lead_acceleration),
        ]
    }

    /// Whether everything is told as it is.
    pub fn is_none(&self) -> bool {
        self.lead_presence.is_none() && self.channels().iter().all(|(_, noise)| noise.is_none())
    }

    /// Whether anything that is told is drawn, where there is a car ahead to tell of or none.
    pub(super) fn is_random(&self, may_have_lead: bool) -> bool {
        let of_lead = |name: &str| name.starts_with("lead_");
        let mut told = self.channels().into_iter();
        let is_drawn = told.any(|(name, it)| it.is_random() && (may_have_lead || !of_lead(name)));
        is_drawn || (may_have_lead && self.lead_presence.dropout != 0.0)
    }

    /// Noise of a camera and a radar as published, times `level`: 0 is none, 1 typical, 2 twice that.
    ///
    /// Controllers are best compared at the levels 0, 1 and 2: one that is better only without
    /// noise is not better. Speed and yaw rate have no noise here: no figures were found.
    ///
    /// | channel | at level 1 | source |
    /// |---|---|---|
    /// | offset | bias_sd 0.05 m, ar1_sd 0.06 m over 4 s, white_sd 0.02 m | this crate's choice; lane trackers report errors of some cm to 0.15 m |
    /// | heading | ar1_sd 0.25 degrees over 1 s | this crate's choice |
    /// | curvature | ar1_sd 1e-4 1/m over 1 s | this crate's choice; the algorithm harness has white noise of 5e-4 1/m |
    /// | steering_angle | bias_sd 0.2, white_sd 0.03 degrees at every step | what is left of an offset once it is learned (this crate's choice), and a sensor that counts in 0.1 degrees |
    /// | roll | ar1_sd 0.5 degrees over 10 s | this crate's choice |
    /// | lead_distance | bias_sd 0.1 m, white_sd 0.2 m | long-range radar: 0.1 to 0.4 m, 3GPP TR 22.837 table 5.28.6-1, of six data sheets |
    /// | lead_speed | white_sd 0.06 m/s | long-range radar: 0.03 to 0.12 m/s, the same table |
    /// | lead_acceleration | ar1_sd 0.2 m/s^2 over 0.5 s | this crate's choice: a filtered derivative of such a speed |
    /// | lead_presence | a loss every 20 s, 0.3 s long in the mean | this crate's choice |
    /// | camera and radar | 20 frames/s, told 50 ms late, a loss of 1 to 4 frames every 50 s | camera to planner 50 to 100 ms, openpilot pull requests 24335, 21120, 37724; dropped frames, its issues 23785, 28899 |
    pub fn level(level: f64) -> Self {
        if level == 0.0 {
            return Self::default();
        }
        let degree = std::f64::consts::PI / 180.0;
        let frame = ChannelNoise {
            rate_hz: Some(20.0),
            latency_s: 0.05 * level,
            dropout: 0.001 * level,
            dropout_frames: 4,
            ..ChannelNoise::NONE
        };
        let wandering = |sd: f64, time_s: f64| ChannelNoise {
            ar1_sd: sd * level,
            ar1_time_s: time_s,
            ..frame
        };
        Self {
            offset: ChannelNoise {
                bias_sd: 0.05 * level,
                white_sd: 0.02 * level,
                ..wandering(0.06, 4.0)
            },
            heading: wandering(0.25 * degree, 1.0),
            curvature: wandering(1e-4, 1.0),
            speed: ChannelNoise::NONE,
            yaw_rate: ChannelNoise::NONE,
            steering_angle: ChannelNoise {
                bias_sd: 0.2 * level,
                ..ChannelNoise::white(0.03 * level)
            },
            roll: wandering(0.5 * degree, 10.0),
            lead_distance: ChannelNoise {
                bias_sd: 0.1 * level,
                white_sd: 0.2 * level,
                ..frame
            },
            lead_speed: ChannelNoise {
                white_sd: 0.06 * level,
                ..frame
            },
            lead_acceleration: wandering(0.2, 0.5),
            lead_presence: PresenceNoise {
                rate_hz: frame.rate_hz,
                latency_s: frame.latency_s,
                dropout: 0.0025 * level,
                dropout_frames: 11,
            },
        }
    }

    /// Refuses what has no meaning.
    ///
    /// # Errors
    ///
    /// [`SimError::Noise`] naming channel, field and value.
    pub fn validate(&self) -> Result<(), SimError> {
        for (channel, noise) in self.channels() {
            noise.validate(channel)?;
        }
        self.lead_presence.frames().validate("lead_presence")
    }
}

/// A channel's table as it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    bias: f64,
    bias_sd: f64,
    white_sd: f64,
    ar1_sd: f64,
    ar1_time_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_hz: Option<f64>,
    latency_s: f64,
    dropout: f64,
    dropout_frames: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self::from(ChannelNoise::NONE)
    }
}

macro_rules! same_fields {
    ($from:ident => $to:ident { $($field:ident),* }) => {
        impl From<$from> for $to {
            fn from(from: $from) -> Self {
                Self { $($field: from.$field),* }
            }
        }
    };
}
same_fields!(ChannelNoise => Table {
    bias, bias_sd, white_sd, ar1_sd, ar1_time_s, rate_hz, latency_s, dropout, dropout_frames
});
same_fields!(Table => ChannelNoise {
    bias, bias_sd, white_sd, ar1_sd, ar1_time_s, rate_hz, latency_s, dropout, dropout_frames
});

impl Serialize for ChannelNoise {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::white(self.white_sd) {
            serializer.serialize_f64(self.white_sd)
        } else {
            Table::from(*self).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ChannelNoise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrTable;
        impl<'de> Visitor<'de> for NumberOrTable {
            type Value = ChannelNoise;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, the standard deviation of white noise, or a table")
            }
            fn visit_f64<E>(self, value: f64) -> Result<ChannelNoise, E> {
                Ok(ChannelNoise::white(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<ChannelNoise, E> {
                Ok(ChannelNoise::white(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<ChannelNoise, E> {
                Ok(ChannelNoise::white(value as f64))
            }
            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<ChannelNoise, M::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(ChannelNoise::from)
            }
        }
        deserializer.deserialize_any(NumberOrTable)
    }
}

impl<'de> Deserialize<'de> for SensorNoise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        macro_rules! channels {
            ($($channel:ident: $type:ty),*) => {{
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct File {
                    #[serde(default)]
                    level: f64,
                    $( #[serde(default)] $channel: Option<$type>, )*
                }
                let file = File::deserialize(deserializer)?;
                if !(0.0..=10.0).contains(&file.level) {
                    let got = file.level;
                    return Err(serde::de::Error::custom(format!(
                        "noise `level` is {got}, expected between 0 and 10"
                    )));
                }
                let mut noise = Self::level(file.level);
                $( if let Some(own) = file.$channel { noise.$channel = own; } )*
                Ok(noise)
            }};
        }
        channels!(
            offset: ChannelNoise,
            heading: ChannelNoise,
            curvature: ChannelNoise,
            speed: ChannelNoise,
            yaw_rate: ChannelNoise,
            steering_angle: ChannelNoise,
            roll: ChannelNoise,
            lead_distance: ChannelNoise,
            lead_speed: ChannelNoise,
            lead_acceleration: ChannelNoise,
            lead_presence: PresenceNoise
        )
    }
}
