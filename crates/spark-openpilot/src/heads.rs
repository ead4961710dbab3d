//! What the numbers of a part of an output mean, by its name and length: what a loss of it has to know.
//!
//! ```text
//! Regression     [means.., log deviations..]                              plan, pose, lane_lines, ...
//! Hypotheses     n times [means.., log deviations.., selection logits..]  plans and leads of older networks
//! Probabilities  logits of yes and no                                     meta, lane_lines_prob, ...
//! Categories     logits of classes, perhaps several times                 desire_state, desire_pred
//! Features       for another network, or for this one's next frame        hidden_state, features
//! Values         as they are                                              driver monitoring of 0.8
//! Unused         read by nobody                                           pad
//! ```
//!
//! Source: openpilot's `selfdrive/modeld/parse_model_outputs.py` and `dmonitoringmodeld.py`, as of [`prediction`](crate::prediction).
//! Lengths are asked where they tell generations apart; else a name decides.
//!
//! Deliberately absent: networks with an output for each head (`supercombo` 0.7), whose spreads are no logarithms.

use crate::slices::DRIVER_MONITORING_0_8;

/// What the numbers of a part of an output mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadMeaning {
    /// Half means, half natural logarithms of deviations.
    Regression,
    /// One hypothesis after the other, each with as many selection logits.
    Hypotheses {
        /// How many there are.
        hypotheses: usize,
        /// Choices among them that are made apart: for a lead now, in 2 s and in 4 s.
        selections: usize,
    },
    /// Logits of independent yes-or-no answers.
    Probabilities,
    /// Logits of classes.
    Categories {
        /// Logits that belong together.
        classes: usize,
    },
    /// Numbers that are handed on to a network.
    Features,
    /// Numbers that are read as they are.
    Values,
    /// Numbers that nobody reads.
    Unused,
    /// No network known here has a part of this name, or it has another length there.
    Unknown,
}

/// Numbers of one plan: 33 times position, velocity, acceleration, angles and rates.
const PLAN: usize = 33 * 15;
/// Numbers of one lead: 6 times x, y, speed, acceleration.
const LEAD: usize = 6 * 4;
/// Desires that a network tells apart.
const DESIRES: usize = 8;

impl HeadMeaning {
    /// The meaning of part `name` of `len` numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_openpilot::heads::HeadMeaning;
    ///
    /// assert_eq!(HeadMeaning::of("plan", 990), HeadMeaning::Regression);
    /// let older = HeadMeaning::Hypotheses { hypotheses: 5, selections: 1 };
    /// assert_eq!(HeadMeaning::of("plan", 4955), older);
    /// ```
    pub fn of(name: &str, len: usize) -> Self {
        const PLAN_AT_ONCE: usize = 2 * PLAN;
        const PLANS: usize = 5 * (2 * PLAN + 1);
        const LEADS: usize = 2 * (2 * LEAD + 3);
        const LEADS_AT_ONCE: usize = 2 * 3 * LEAD;
        match (name, len) {
            ("plan" | "planplus", PLANS) => Self::Hypotheses {
                hypotheses: 5,
                selections: 1,
            },
            ("lead", LEADS) => Self::Hypotheses {
                hypotheses: 2,
                selections: 3,
            },
            ("plan" | "planplus", PLAN_AT_ONCE) | ("lead", LEADS_AT_ONCE) => Self::Regression,
            ("plan" | "planplus" | "lead", _) => Self::Unknown,
            (_, 0) => Self::Unknown,
            _ if Self::is_regression(name) && len.is_multiple_of(2) => Self::Regression,
            ("desire_state" | "desire_pred", len) if len.is_multiple_of(DESIRES) => {
                Self::Categories { classes: DESIRES }
            }
            ("meta" | "lane_lines_prob" | "lead_prob" | "wheel_on_right", _) => Self::Probabilities,
            _ if ["_prob_lhd", "_prob_rhd"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                Self::Probabilities
            }
            ("hidden_state" | "features", _) => Self::Features,
            ("pad", _) => Self::Unused,
            _ if name.starts_with("unused_") => Self::Unused,
            _ if DRIVER_MONITORING_0_8.iter().any(|part| part.name == name) => Self::Values,
            _ => Self::Unknown,
        }
    }

    fn is_regression(name: &str) -> bool {
        matches!(
            name,
            "pose"
                | "sim_pose"
                | "wide_from_device_euler"
                | "road_transform"
                | "lane_lines"
                | "road_edges"
                | "desired_curvature"
                | "lat_planner_solution"
                | "action"
                | "face_descs_lhd"
                | "face_descs_rhd"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices;

    #[test]
    fn every_part_of_every_table_is_known() {
        let tables = [
            slices::VISION,
            slices::POLICY,
            slices::DRIVER_MONITORING,
            slices::DRIVER_MONITORING_0_8,
            slices::VISION_1536,
            slices::POLICY_4968,
            slices::SUPERCOMBO_2576,
            slices::SUPERCOMBO_2580,
        ];
        for part in tables.into_iter().flatten() {
            let meaning = HeadMeaning::of(part.name, part.end - part.start);
            assert_ne!(meaning, HeadMeaning::Unknown, "{part:?}");
        }
    }

    #[test]
    fn parts_mean_what_they_are_read_as() {
        use HeadMeaning as M;
        let of = |table: &[slices::OutputSlice], name: &str| {
            let part = table.iter().find(|part| part.name == name).expect(name);
            M::of(name, part.end - part.start)
        };
        let two = M::Hypotheses {
            hypotheses: 2,
            selections: 3,
        };
        for (table, name, want) in [
            (slices::VISION, "lead", M::Regression),
            (slices::VISION_1536, "lead", two),
            (slices::VISION, "meta", M::Probabilities),
            (slices::VISION, "lead_prob", M::Probabilities),
            (slices::VISION, "desire_pred", M::Categories { classes: 8 }),
            (slices::VISION, "hidden_state", M::Features),
            (slices::POLICY, "pad", M::Unused),
            (slices::DRIVER_MONITORING, "face_prob_lhd", M::Probabilities),
            (slices::DRIVER_MONITORING_0_8, "face_prob", M::Values),
            (slices::DRIVER_MONITORING_0_8, "unused_13", M::Unused),
        ] {
            assert_eq!(of(table, name), want, "{name}");
        }
        for (name, len) in [
            ("plan", 991),
            ("plan", 4956),
            ("lead", 0),
            ("pose", 13),
            ("pose", 0),
            ("x", 2),
        ] {
            assert_eq!(M::of(name, len), M::Unknown, "{name} of {len}");
        }
        assert_eq!(M::of("desire_state", 0), M::Unknown);
    }
}
