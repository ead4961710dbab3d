//! What a product of bytes needs per output channel, in the order and padding of its kernel.
//!
//! ```text
//! initial       [groups][padded]   where sums begin: bias, and what the zero points change
//! zero points   [groups][padded]   of the weights as they are held, where any is not zero
//! multipliers   [groups][padded]   of the sums
//! float bias    [groups][padded]   added to floats, where there is one
//! outside       [in per group]     bytes of a pixel outside of the picture: the zero point of x
//! ```
//!
//! Known at load, they are in one piece of memory of the step; computed, in the scratch that all threads share.

#![allow(
    unsafe_code,
    reason = "words of scratch are lent as the lists that lie there"
)]

use spark_gemm::int8::{ByteKind, Int8Weights};

use crate::DType;
use crate::plan::{Int8Step, KnownQuantisation};

/// What bytes of a type are.
pub(super) fn byte_kind(dtype: DType) -> ByteKind {
    match dtype {
        DType::I8 => ByteKind::Signed,
        _ => ByteKind::Unsigned,
    }
}

/// Lengths of the lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListLens {
    groups: usize,
    /// Output channels of one group.
    columns: usize,
    /// The same, padded to whole vectors.
    pub(super) padded: usize,
    /// Input channels of one group.
    depth: usize,
}

impl ListLens {
    pub(super) fn of(step: &Int8Step, lanes: usize) -> Self {
        let columns = step.out_per_group();
        Self {
            groups: step.groups(),
            columns,
            padded: columns.next_multiple_of(lanes),
            depth: step.in_per_group(),
        }
    }

    /// Words of all lists.
    pub(super) fn words(&self) -> usize {
        4 * self.groups * self.padded + self.depth.div_ceil(4)
    }

    /// The values of one group's channels: of one value, or one per output channel of all groups.
    fn of_group<'v, T>(&self, values: &'v [T], group: usize) -> &'v [T] {
        match values.len() {
            0 | 1 => values,
            _ => &values[group * self.columns..][..self.columns],
        }
    }

    /// Writes all lists to `memory`.
    pub(super) fn write<'m>(
        &self,
        weights: &Int8Weights<'_>,
        x_kind: ByteKind,
        values: &Values<'_>,
        memory: ListMemory<'m>,
    ) -> Lists<'m> {
        let ListMemory {
            initial,
            zero_points,
            multipliers,
            float_bias,
            outside,
        } = memory;
        let mut has_zero_points = false;
        for group in 0..self.groups {
            let part = group * self.padded..(group + 1) * self.padded;
            let w_zero = self.of_group(values.w_zero, group);
            let bias = self.of_group(values.bias, group);
            weights.write_initial(
                group,
                (x_kind, values.x_zero),
                w_zero,
                bias,
                &mut initial[part.clone()],
            );
            let of_group = &mut zero_points[part.clone()];
            has_zero_points |= weights.write_held_zero_points(w_zero, of_group);
            self.spread(values.multipliers, group, &mut multipliers[part.clone()]);
            self.spread(values.float_bias, group, &mut float_bias[part]);
        }
        outside.fill(values.x_zero as u8);
        Lists {
            initial,
            zero_points: has_zero_points.then_some(zero_points),
            multipliers,
            float_bias: (!values.float_bias.is_empty()).then_some(float_bias),
            outside,
            padded: self.padded,
        }
    }

    /// One value per padded channel of a group; zeros where there is none.
    fn spread(&self, values: &[f32], group: usize, to: &mut [f32]) {
        to.fill(0.0);
        match self.of_group(values, group) {
            [] => {}
            [one] => to[..self.columns].fill(*one),
            all => to[..self.columns].copy_from_slice(all),
        }
    }
}

/// Memory for the lists of one step.
pub(super) struct ListMemory<'m> {
    initial: &'m mut [i32],
    zero_points: &'m mut [i32],
    multipliers: &'m mut [f32],
    float_bias: &'m mut [f32],
    outside: &'m mut [u8],
}

impl<'m> ListMemory<'m> {
    /// The lists of `lens` in the words from `start` on.
    ///
    /// # Safety
    ///
    /// [`ListLens::words`] words must be writable and not be used otherwise for `'m`, and be set.
    pub(super) unsafe fn in_words(start: *mut f32, lens: ListLens) -> Self {
        let len = lens.groups * lens.padded;
        let list = |number: usize| start.wrapping_add(number * len);
        // SAFETY: the lists lie side by side in the words that the caller vouches for; every pattern of
        // bits is an i32, an f32 and four bytes.
        unsafe {
            Self {
                initial: std::slice::from_raw_parts_mut(list(0).cast(), len),
                zero_points: std::slice::from_raw_parts_mut(list(1).cast(), len),
                multipliers: std::slice::from_raw_parts_mut(list(2), len),
                float_bias: std::slice::from_raw_parts_mut(list(3), len),
                outside: std::slice::from_raw_parts_mut(list(4).cast(), lens.depth),
            }
        }
    }
}

/// What lists are made of: each of no value, one, or one per output channel.
pub(super) struct Values<'a> {
    pub(super) x_zero: i32,
    pub(super) w_zero: &'a [i32],
    pub(super) bias: &'a [i32],
    pub(super) multipliers: &'a [f32],
    pub(super) float_bias: &'a [f32],
}

impl<'a> Values<'a> {
    pub(super) fn known(known: &'a KnownQuantisation) -> Self {
        Self {
            x_zero: known.x_zero,
            w_zero: &known.w_zero,
            bias: &known.bias,
            multipliers: &known.multipliers,
            float_bias: &known.float_bias,
        }
    }
}

/// The lists of a step that is known at load.
pub(super) struct OwnLists {
    initial: Vec<i32>,
    zero_points: Option<Vec<i32>>,
    multipliers: Vec<f32>,
    float_bias: Option<Vec<f32>>,
    outside: Vec<u8>,
    padded: usize,
}

impl OwnLists {
    pub(super) fn new(
        lens: ListLens,
        weights: &Int8Weights<'_>,
        x_kind: ByteKind,
        values: &Values<'_>,
    ) -> Self {
        let len = lens.groups * lens.padded;
        let (mut initial, mut zero_points) = (vec![0; len], vec![0; len]);
        let (mut multipliers, mut float_bias) = (vec![0.0; len], vec![0.0; len]);
        let mut outside = vec![0; lens.depth];
        let memory = ListMemory {
            initial: &mut initial,
            zero_points: &mut zero_points,
            multipliers: &mut multipliers,
            float_bias: &mut float_bias,
            outside: &mut outside,
        };
        let written = lens.write(weights, x_kind, values, memory);
        let (has_zero_points, has_bias) =
            (written.zero_points.is_some(), written.float_bias.is_some());
        Self {
            initial,
            zero_points: has_zero_points.then_some(zero_points),
            multipliers,
            float_bias: has_bias.then_some(float_bias),
            outside,
            padded: lens.padded,
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        let zero_points = self.zero_points.as_ref().map_or(0, Vec::len);
        let float_bias = self.float_bias.as_ref().map_or(0, Vec::len);
        4 * (self.initial.len() + zero_points + self.multipliers.len() + float_bias)
            + self.outside.len()
    }

    pub(super) fn lists(&self) -> Lists<'_> {
        Lists {
            initial: &self.initial,
            zero_points: self.zero_points.as_deref(),
            multipliers: &self.multipliers,
            float_bias: self.float_bias.as_deref(),
            outside: &self.outside,
            padded: self.padded,
        }
    }
}

/// The lists as a kernel reads them: pointers to those of a group, from a channel on, are good to the end of
/// its padded channels.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    initial: &'a [i32],
    zero_points: Option<&'a [i32]>,
    multipliers: &'a [f32],
    float_bias: Option<&'a [f32]>,
    outside: &'a [u8],
    padded: usize,
}

impl Lists<'_> {
    pub(super) fn initial(&self, group: usize, column: usize) -> *const i32 {
        self.initial[group * self.padded + column..].as_ptr()
    }

    /// Null if all are zero.
    pub(super) fn zero_points(&self, group: usize, column: usize) -> *const i32 {
        let list = self.zero_points;
        list.map_or(std::ptr::null(), |list| {
            list[group * self.padded + column..].as_ptr()
        })
    }

    pub(super) fn multipliers(&self, group: usize, column: usize) -> *const f32 {
        self.multipliers[group * self.padded + column..].as_ptr()
    }

    /// Null if there is none.
    pub(super) fn float_bias(&self, group: usize, column: usize) -> *const f32 {
        let list = self.float_bias;
        list.map_or(std::ptr::null(), |list| {
            list[group * self.padded + column..].as_ptr()
        })
    }

    pub(super) fn outside(&self) -> *const u8 {
        self.outside.as_ptr()
    }
}
