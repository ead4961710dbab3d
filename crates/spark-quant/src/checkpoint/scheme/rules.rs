//! What a configuration was understood to say, and how tensors are held against it.

use super::pattern::{Closeness, Pattern};
use crate::checkpoint::entry::{Inputs, Layout, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::{PackedFormat, Scales};

/// Which values share an f32 scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::checkpoint) enum Grid {
    /// Blocks that the number format fixes.
    OfFormat,
    /// All values of the tensor.
    Tensor,
    /// Those of a row.
    Row,
    /// Runs of that length inside a row.
    Group(usize),
    /// Rectangles of rows by depth.
    Block([usize; 2]),
    /// Not said: all, a row, or 128 by 128, by the shape of the scales.
    ByShape,
}

impl Grid {
    /// The grid of a weight's scales.
    pub(in crate::checkpoint) fn of(weight: &Weight) -> Self {
        let (rows, depth) = (weight.packed.n_rows(), weight.packed.depth());
        match weight.packed.scales() {
            Scales::Nvfp4 { .. } | Scales::Mx(_) => Self::OfFormat,
            Scales::F32 { block, .. } if *block == [rows.max(1), depth.max(1)] => Self::Tensor,
            Scales::F32 { block, .. } if *block == [1, depth.max(1)] => Self::Row,
            Scales::F32 { block, .. } if block[0] == 1 => Self::Group(block[1]),
            Scales::F32 { block, .. } => Self::Block(*block),
        }
    }

    /// Whether a weight's scales are those of blocks of this size, which end where the matrix does.
    pub(in crate::checkpoint) fn is_cut_from(weight: &Weight, block: [usize; 2]) -> bool {
        let extents = [weight.packed.n_rows(), weight.packed.depth()];
        let Scales::F32 { block: own, .. } = weight.packed.scales() else {
            return false;
        };
        (0..2).all(|i| own[i] == block[i] || (own[i] == extents[i] && own[i] < block[i]))
    }

    /// Rows and depth that share a scale in a scale tensor of `shape`.
    pub(in crate::checkpoint) fn rectangle(
        self,
        name: &str,
        shape: &[usize],
        [rows, depth]: [usize; 2],
    ) -> Result<[usize; 2], QuantError> {
        let whole = [rows.max(1), depth.max(1)];
        // Blocks end where the matrix does, as they do where this crate makes them.
        let cut = |[a, b]: [usize; 2]| [a.min(whole[0]), b.min(whole[1])];
        let is_one = shape.iter().all(|&extent| extent == 1);
        let block_fits = |[a, b]: [usize; 2]| {
            let (down, across) = (rows.div_ceil(a), depth.div_ceil(b));
            shape == [down, across]
                || shape == [down, 1, across, 1]
                || (down == 1 && shape == [across])
                || (across == 1 && shape == [down])
        };
        let (found, want) = match self {
            Self::OfFormat => (None, "no f32 scales".to_owned()),
            Self::Tensor => (is_one.then_some(whole), "one scale".to_owned()),
            Self::Row => {
                let fits = shape == [rows] || shape == [rows, 1];
                (
                    fits.then_some([1, whole[1]]),
                    format!("[{rows}] or [{rows}, 1]"),
                )
            }
            Self::Group(group) => {
                let want = [rows, depth.div_ceil(group)];
                let block = [1, group.min(whole[1])];
                ((shape == want).then_some(block), format!("{want:?}"))
            }
            Self::Block(block) => {
                let want = [rows.div_ceil(block[0]), depth.div_ceil(block[1])];
                (
                    block_fits(block).then_some(cut(block)),
                    format!("{want:?} for blocks of {block:?}"),
                )
            }
            Self::ByShape => {
                let by_row = shape == [rows] || shape == [rows, 1];
                let found = if is_one && shape.len() < 4 && (shape.len() < 2 || rows != 1) {
                    Some(whole)
                } else if by_row {
                    Some([1, whole[1]])
                } else {
                    block_fits([128, 128]).then_some(cut([128, 128]))
                };
                let want = format!(
                    "[], [{rows}], [{rows}, 1] or one scale per 128 by 128 of {rows} by {depth}"
                );
                (found, want)
            }
        };
        found.ok_or_else(|| wrong_tensor(name, "shape", shape, want))
    }
}

/// What is known of the scales of a layer's inputs before its tensors are looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::checkpoint) enum InputRule {
    /// There may be a calibrated scale; without one inputs are like this.
    Otherwise(Inputs),
    /// Inputs are not quantized.
    Unquantized,
    /// Their scales are found while running.
    Dynamic,
    /// There is a calibrated scale.
    Calibrated,
}

/// What a weight must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::checkpoint) struct Expected {
    pub(in crate::checkpoint) format: PackedFormat,
    pub(in crate::checkpoint) grid: Grid,
    pub(in crate::checkpoint) inputs: InputRule,
}

/// Modules that are treated alike.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Path in the configuration.
    pub(super) path: String,
    pub(super) targets: Vec<Pattern>,
    /// What their weights must be; `None` if they are left alone.
    pub(super) weights: Option<Expected>,
}

/// A configuration that was understood: which modules are quantized, and how.
#[derive(Debug, Clone)]
pub(in crate::checkpoint) struct Scheme {
    pub(in crate::checkpoint) layout: Layout,
    pub(super) method: String,
    pub(super) groups: Vec<Group>,
    pub(super) ignore_path: &'static str,
    pub(super) ignore: Vec<Pattern>,
}

impl Scheme {
    /// Refuses two configurations that say different things of some module.
    pub(in crate::checkpoint) fn check_same(
        &self,
        other: &Self,
        modules: &[&str],
    ) -> Result<(), QuantError> {
        for module in modules {
            let (ours, theirs) = (self.weights_of(module), other.weights_of(module));
            let same = match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => ours.iter().any(|expected| theirs.contains(expected)),
                (ours, theirs) => ours.is_ok() == theirs.is_ok(),
            };
            if !same || self.layout != other.layout {
                let describe = |found: &Result<Vec<Expected>, QuantError>| match found {
                    Ok(found) => format!("{}", found[0].format),
                    Err(_) => "not quantized".to_owned(),
                };
                return Err(QuantError::Setting {
                    method: other.method.clone(),
                    field: "hf_quant_config.json".to_owned(),
                    value: format!("{} for `{module}`", describe(&theirs)),
                    want: format!("what config.json says, {}", describe(&ours)),
                });
            }
        }
        Ok(())
    }

    /// What the weights of a module that has quantized tensors may be; never empty. More than one only
    /// if groups differ in the classes they name.
    pub(in crate::checkpoint) fn weights_of(
        &self,
        module: &str,
    ) -> Result<Vec<Expected>, QuantError> {
        for pattern in &self.ignore {
            let fits = pattern.fits(&self.method, module)?;
            if fits.is_some_and(|closeness| closeness != Closeness::Class) {
                return Err(self.contradiction(self.ignore_path, &pattern.text, module));
            }
        }
        let mut nearest: Option<Closeness> = None;
        let mut found: Vec<(&Group, &str)> = Vec::new();
        for group in &self.groups {
            for target in &group.targets {
                let Some(closeness) = target.fits(&self.method, module)? else {
                    continue;
                };
                if nearest.is_none_or(|nearest| closeness < nearest) {
                    nearest = Some(closeness);
                    found.clear();
                }
                if nearest == Some(closeness) {
                    found.push((group, &target.text));
                }
            }
        }
        let expected: Vec<Expected> = found.iter().filter_map(|(g, _)| g.weights).collect();
        match (expected.is_empty(), found.first()) {
            (false, _) => Ok(expected),
            (true, Some((group, target))) => {
                let field = format!("{}.targets", group.path);
                Err(self.contradiction(&field, target, module))
            }
            (true, None) => Err(QuantError::Setting {
                method: self.method.clone(),
                field: "targets".to_owned(),
                value: format!("nothing that fits `{module}`"),
                want: "one of them, as its tensors are quantized".to_owned(),
            }),
        }
    }

    fn contradiction(&self, field: &str, pattern: &str, module: &str) -> QuantError {
        QuantError::Setting {
            method: self.method.clone(),
            field: field.to_owned(),
            value: format!("{pattern:?}"),
            want: format!("nothing that leaves `{module}` alone, as its tensors are quantized"),
        }
    }

    /// Refuses modules that are named one by one as quantized, have a weight, and are not; and a
    /// configuration that speaks of quantized weights where there are none.
    pub(in crate::checkpoint) fn check_plain(
        &self,
        n_quantized: usize,
        plain: impl Fn(&str) -> bool,
    ) -> Result<(), QuantError> {
        let groups = || self.groups.iter().filter(|group| group.weights.is_some());
        for group in groups() {
            let names = group.targets.iter().filter(|target| target.is_name());
            for name in names.map(|target| &target.text) {
                let ignored = self.ignore.iter().any(|pattern| pattern.text == *name);
                if !ignored && plain(name) {
                    return Err(QuantError::Setting {
                        method: self.method.clone(),
                        field: format!("{}.targets", group.path),
                        value: format!("{name:?}"),
                        want: "a module with quantized tensors; it has none".to_owned(),
                    });
                }
            }
        }
        match groups().next() {
            Some(group) if n_quantized == 0 => Err(QuantError::Setting {
                method: self.method.clone(),
                field: group.path.clone(),
                value: "quantized weights".to_owned(),
                want: "nothing, as no tensor is quantized".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Name of the method in errors.
    pub(in crate::checkpoint) fn method(&self) -> &str {
        &self.method
    }
}
