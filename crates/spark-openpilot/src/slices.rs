//! Which part of an output vector is which head.
//!
//! ```text
//! outputs [1, 1576]   meta 0:55 | desire_pred 55:87 | ... | lead_prob 1061:1064 | hidden_state 1064:1576
//! ```
//!
//! A table lists names and lengths in order; positions follow from the lengths. Each
//! network generation has one table here. A file that carries its own table in its
//! metadata is believed over these ([`OutputLayout::of`]).
//!
//! Sources: openpilot's model metadata for the split and the merged networks; for 0.7.4 and
//! 0.7.5 the outputs declared in their `supercombo` files; for driver monitoring of 0.8 the
//! positions its reader used then.
//!
//! Deliberately absent: `supercombo` of 0.8 to 0.9, of which only lengths and single positions
//! are known here; such a file is read by the table in its metadata.

use std::ops::Range;

pub use crate::output_slice::OutputSlice;
use crate::{OpenpilotError, metadata};
use spark_onnx::graph::{Dim, Graph, ValueId};
use spark_onnx::precision::OutputParts;

/// Turns lengths in order into positions.
const fn laid_out<const N: usize>(lengths: [(&'static str, usize); N]) -> [OutputSlice; N] {
    let mut table = [OutputSlice {
        name: "",
        start: 0,
        end: 0,
    }; N];
    let mut start = 0;
    let mut i = 0;
    while i < N {
        let (name, len) = lengths[i];
        table[i] = OutputSlice {
            name,
            start,
            end: start + len,
        };
        start += len;
        i += 1;
    }
    table
}

/// Values a table covers: the length of its output.
pub const fn total(table: &[OutputSlice]) -> usize {
    table[table.len() - 1].end
}

/// `driving_vision`, 1576 values. Regression heads hold all means, then all log deviations.
pub const VISION: &[OutputSlice] = &laid_out([
    ("meta", 55),
    ("desire_pred", 4 * 8),
    ("pose", 2 * 6),
    ("wide_from_device_euler", 2 * 3),
    ("road_transform", 2 * 6),
    ("lane_lines", 2 * 4 * 33 * 2),
    ("lane_lines_prob", 4 * 2),
    ("road_edges", 2 * 2 * 33 * 2),
    ("lead", 2 * 3 * 6 * 4),
    ("lead_prob", 3),
    ("hidden_state", 512),
]);

/// `driving_policy`, 1000 values: a plan without hypotheses, the desire, two values of padding.
pub const POLICY: &[OutputSlice] =
    &laid_out([("plan", 2 * 33 * 15), ("desire_state", 8), ("pad", 2)]);

/// `dmonitoring_model`, 551 values: one set for a driver on the left seat (`lhd`), one for the
/// right (`rhd`).
pub const DRIVER_MONITORING: &[OutputSlice] = &laid_out([
    ("face_descs_lhd", 12),
    ("face_prob_lhd", 1),
    ("left_eye_prob_lhd", 1),
    ("right_eye_prob_lhd", 1),
    ("left_blink_prob_lhd", 1),
    ("right_blink_prob_lhd", 1),
    ("sunglasses_prob_lhd", 1),
    ("using_phone_prob_lhd", 1),
    ("face_descs_rhd", 12),
    ("face_prob_rhd", 1),
    ("left_eye_prob_rhd", 1),
    ("right_eye_prob_rhd", 1),
    ("left_blink_prob_rhd", 1),
    ("right_blink_prob_rhd", 1),
    ("sunglasses_prob_rhd", 1),
    ("using_phone_prob_rhd", 1),
    ("wheel_on_right", 1),
    ("features", 512),
]);

/// Driver monitoring of 0.8.5 to 0.8.10, 39 values; files with 38 lack the last. Probabilities come
/// out of the network as such; spreads are what a softplus makes of them. `unused` parts are not read
/// by openpilot.
pub const DRIVER_MONITORING_0_8: &[OutputSlice] = &laid_out([
    ("face_orientation", 3),
    ("face_position", 2),
    ("unused_5", 1),
    ("face_orientation_std", 3),
    ("face_position_std", 2),
    ("unused_11", 1),
    ("face_prob", 1),
    ("unused_13", 8),
    ("left_eye_prob", 1),
    ("unused_22", 8),
    ("right_eye_prob", 1),
    ("left_blink_prob", 1),
    ("right_blink_prob", 1),
    ("sunglasses_prob", 1),
    ("poor_vision_prob", 1),
    ("partial_face_prob", 1),
    ("distracted_pose_prob", 1),
    ("distracted_eyes_prob", 1),
    ("occluded_prob", 1),
]);

/// `driving_vision` one release earlier, 1536 values: each lead has 2 hypotheses of
/// 24 means, 24 log deviations and 3 selection logits.
pub const VISION_1536: &[OutputSlice] = &laid_out([
    ("meta", 55),
    ("desire_pred", 4 * 8),
    ("pose", 2 * 6),
    ("wide_from_device_euler", 2 * 3),
    ("road_transform", 2 * 6),
    ("lane_lines", 2 * 4 * 33 * 2),
    ("lane_lines_prob", 4 * 2),
    ("road_edges", 2 * 2 * 33 * 2),
    ("lead", 2 * (2 * 6 * 4 + 3)),
    ("lead_prob", 3),
    ("hidden_state", 512),
    ("pad", 2),
]);

/// `driving_policy` one release earlier, 4968 values: 5 plans, each with a selection logit.
pub const POLICY_4968: &[OutputSlice] = &laid_out([
    ("plan", 5 * (2 * 33 * 15 + 1)),
    ("desire_state", 8),
    ("desired_curvature", 2),
    ("pad", 3),
]);

/// `supercombo` of 2026, 2576 values: what [`VISION`] has, then what [`POLICY`] has.
pub const SUPERCOMBO_2576: &[OutputSlice] = &laid_out([
    ("meta", 55),
    ("desire_pred", 4 * 8),
    ("pose", 2 * 6),
    ("wide_from_device_euler", 2 * 3),
    ("road_transform", 2 * 6),
    ("lane_lines", 2 * 4 * 33 * 2),
    ("lane_lines_prob", 4 * 2),
    ("road_edges", 2 * 2 * 33 * 2),
    ("lead", 2 * 3 * 6 * 4),
    ("lead_prob", 3),
    ("hidden_state", 512),
    ("plan", 2 * 33 * 15),
    ("desire_state", 8),
    ("pad", 2),
]);

/// The big `supercombo` of 2026, 2580 values. The last two have no name in its table.
pub const SUPERCOMBO_2580: &[OutputSlice] = &laid_out([
    ("lane_lines", 2 * 4 * 33 * 2),
    ("lane_lines_prob", 4 * 2),
    ("road_edges", 2 * 2 * 33 * 2),
    ("meta", 55),
    ("desire_pred", 4 * 8),
    ("pose", 2 * 6),
    ("wide_from_device_euler", 2 * 3),
    ("road_transform", 2 * 6),
    ("plan", 2 * 33 * 15),
    ("lead", 2 * 3 * 6 * 4),
    ("lead_prob", 3),
    ("desire_state", 8),
    ("action", 4),
    ("hidden_state", 512),
    ("pad", 2),
]);

/// Outputs of `supercombo` 0.7.5, each a tensor `[1, n]` of its own: name and `n`. The state it hands
/// to the next frame, 1024 values, is one more, whose name is not known here.
pub const SUPERCOMBO_0_7_5: &[(&str, usize)] = &[
    ("path", 192 + 192 + 1),
    ("left_lane", 192 + 192 + 1 + 1),
    ("right_lane", 192 + 192 + 1 + 1),
    ("lead", 5 * 11 + 3),
    ("long_x", 2 * 100),
    ("long_v", 2 * 100),
    ("long_a", 2 * 100),
    ("desire_state", 8),
    ("meta", 4),
    ("flatten", 4 * 8),
    ("pose", 12),
];

/// Outputs of `supercombo` 0.7.4, each a tensor `[1, n]` of its own: name and `n`.
pub const SUPERCOMBO_0_7_4: &[(&str, usize)] = &[
    ("path", 192 + 192 + 1),
    ("left_lane", 192 + 192 + 1 + 1),
    ("right_lane", 192 + 192 + 1 + 1),
    ("lead", 5 * 11 + 3),
    ("long_x", 2 * 100),
    ("long_v", 2 * 100),
    ("long_a", 2 * 100),
    ("desire_state", 8),
    ("meta", 4),
    ("snpe_pleaser2", 4 * 8),
    ("pose", 12),
    ("add_3", 512),
];

/// The heads of one network's output vector, checked against its length.
///
/// # Examples
///
/// ```
/// use spark_openpilot::slices::{OutputLayout, POLICY};
///
/// let layout = OutputLayout::of_table(POLICY);
/// let output: Vec<f32> = (0..1000).map(|i| i as f32).collect();
/// assert_eq!(layout.slice(&output, "desire_state")?[0], 990.0);
/// assert!(layout.slice(&output, "lead").is_err()); // names those there are
/// # Ok::<(), spark_openpilot::OpenpilotError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLayout {
    parts: OutputParts,
}

impl OutputLayout {
    /// A layout of an output of `len` values.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::SliceRange`] if a part ends beyond `len` or before its start.
    pub fn new(len: usize, parts: Vec<(String, Range<usize>)>) -> Result<Self, OpenpilotError> {
        match parts.iter().find(|(_, r)| r.start > r.end || r.end > len) {
            Some((name, range)) => Err(OpenpilotError::SliceRange {
                name: name.clone(),
                start: range.start,
                end: range.end,
                len,
            }),
            None => Ok(Self {
                parts: OutputParts::new(len, parts)?,
            }),
        }
    }

    /// The layout of one of this module's tables.
    ///
    /// # Panics
    ///
    /// If another table is empty, or its last part is not the one that ends last.
    pub fn of_table(table: &[OutputSlice]) -> Self {
        let parts = table
            .iter()
            .map(|s| (s.name.to_owned(), s.start..s.end))
            .collect();
        let parts = OutputParts::new(total(table), parts);
        Self {
            parts: parts.expect("the last part of a table ends last"),
        }
    }

    /// The layout of `graph`'s only output: from its metadata, else the table in this module
    /// of the same length, else `None`.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Metadata`] or [`OpenpilotError::SliceRange`] if the metadata is there but wrong.
    pub fn of(graph: &Graph) -> Result<Option<Self>, OpenpilotError> {
        let [output] = graph.outputs[..] else {
            return Ok(None);
        };
        let Some(len) = graph.value(output).shape.as_ref().and_then(|dims| {
            dims.iter().try_fold(1usize, |n, dim| match dim {
                Dim::Known(extent) => n.checked_mul(*extent),
                // A free batch axis is bound to one.
                Dim::Symbol(_) | Dim::Unknown => Some(n),
            })
        }) else {
            return Ok(None);
        };
        if let Some(text) = graph.metadata.get(metadata::OUTPUT_SLICES_KEY) {
            return Self::new(len, metadata::decode(text, len)?).map(Some);
        }
        let tables = [
            VISION,
            POLICY,
            DRIVER_MONITORING,
            VISION_1536,
            POLICY_4968,
            SUPERCOMBO_2576,
            SUPERCOMBO_2580,
        ];
        // Lengths as short as these belong to many a network: its input must fit as well.
        let (all, but_one) = (DRIVER_MONITORING_0_8, DRIVER_MONITORING_0_8.len() - 1);
        let is_camera = |&id: &ValueId| graph.value(id).name == "input_img";
        let old = [all, &all[..but_one]];
        let old = if graph.inputs.iter().any(is_camera) {
            &old[..]
        } else {
            &[]
        };
        let tables = tables.into_iter().chain(old.iter().copied());
        Ok(tables
            .into_iter()
            .find(|table| total(table) == len)
            .map(Self::of_table))
    }

    /// Length of the output vector.
    pub fn output_len(&self) -> usize {
        self.parts.output_len()
    }

    /// The same as `spark-onnx` takes it, for errors that are averaged over parts.
    pub fn output_parts(&self) -> &OutputParts {
        &self.parts
    }

    /// Names and positions of the parts, in order.
    pub fn parts(&self) -> &[(String, Range<usize>)] {
        self.parts.parts()
    }

    /// Whether there is a part called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.parts().iter().any(|(n, _)| n == name)
    }

    /// The values of part `name` of `output`.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] unless `output` has this layout's length,
    /// [`OpenpilotError::MissingSlice`] if there is no such part.
    pub fn slice<'a>(&self, output: &'a [f32], name: &str) -> Result<&'a [f32], OpenpilotError> {
        if output.len() != self.output_len() {
            return Err(OpenpilotError::Length {
                what: "output".to_owned(),
                got: output.len(),
                want: self.output_len(),
            });
        }
        let Some((_, range)) = self.parts().iter().find(|(n, _)| n == name) else {
            let names: Vec<&str> = self.parts().iter().map(|(n, _)| n.as_str()).collect();
            return Err(OpenpilotError::MissingSlice {
                name: name.to_owned(),
                available: names.join(", "),
            });
        };
        Ok(&output[range.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_published_positions() {
        let at = |table: &[OutputSlice], name: &str| {
            let slice = table.iter().find(|s| s.name == name).expect(name);
            (slice.start, slice.end)
        };
        assert_eq!(at(VISION, "road_transform"), (105, 117));
        assert_eq!(at(VISION, "lane_lines"), (117, 645));
        assert_eq!(at(VISION, "lane_lines_prob"), (645, 653));
        assert_eq!(at(VISION, "road_edges"), (653, 917));
        assert_eq!(at(VISION, "lead"), (917, 1061));
        assert_eq!(at(VISION, "hidden_state"), (1064, 1576));
        assert_eq!(at(POLICY, "plan"), (0, 990));
        assert_eq!(at(POLICY, "desire_state"), (990, 998));
        assert_eq!(at(DRIVER_MONITORING, "wheel_on_right"), (38, 39));
        assert_eq!(at(DRIVER_MONITORING, "features"), (39, 551));
        let totals = [VISION, POLICY, DRIVER_MONITORING, VISION_1536, POLICY_4968].map(total);
        assert_eq!(totals, [1576, 1000, 551, 1536, 4968]);
        assert_eq!(at(SUPERCOMBO_2576, "hidden_state"), (1064, 1576));
        assert_eq!(at(SUPERCOMBO_2576, "plan"), (1576, 2566));
        assert_eq!(at(SUPERCOMBO_2576, "desire_state"), (2566, 2574));
        let big = |name| at(SUPERCOMBO_2580, name);
        assert_eq!(big("lane_lines_prob"), (528, 536));
        assert_eq!(big("meta"), (800, 855));
        assert_eq!(big("road_transform"), (905, 917));
        assert_eq!(big("plan"), (917, 1907));
        assert_eq!(big("lead"), (1907, 2051));
        assert_eq!(big("action"), (2062, 2066));
        assert_eq!(big("hidden_state"), (2066, 2578));
        assert_eq!([SUPERCOMBO_2576, SUPERCOMBO_2580].map(total), [2576, 2580]);
        assert_eq!(SUPERCOMBO_0_7_5.iter().map(|(_, n)| n).sum::<usize>(), 1871);
        assert_eq!(SUPERCOMBO_0_7_4.iter().map(|(_, n)| n).sum::<usize>(), 2383);
    }

    #[test]
    fn a_part_outside_the_output_is_refused() {
        let parts = vec![("plan".to_owned(), 0..11)];
        let error = OutputLayout::new(10, parts).unwrap_err();
        assert_eq!(
            error.to_string(),
            "part `plan` spans 0..11 of an output of 10 values"
        );
    }

    #[test]
    fn a_missing_part_names_those_there_are() {
        let layout = OutputLayout::of_table(POLICY);
        let error = layout.slice(&[0.0; 1000], "lead").unwrap_err();
        let want = "the output has no part `lead`; it has plan, desire_state, pad";
        assert_eq!(error.to_string(), want);
        assert!(layout.slice(&[0.0; 999], "plan").is_err());
    }
}
