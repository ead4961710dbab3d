//! Damages ONNX files: bytes, or what they mean.
//!
//! ```text
//! bytes     bits flipped, numbers made extreme, pieces cut, repeated, moved, or taken
//!           from another file; mostly refused at once
//! meaning   operators, operands, parameters, shapes, types and versions exchanged in a
//!           file that stays well formed; comes far into the importer and beyond
//! ```
//!
//! Everything follows from the number of the mutant.

use std::borrow::Cow;
use std::ops::Range;

use crate::file;
use spark_onnx_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::sample::Sample;
use super::{spelled_out, versions};

/// Splitmix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// One element, if there is one.
    fn pick<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        (!list.is_empty()).then(|| &list[self.below(list.len())])
    }

    /// One element to change, if there is one.
    fn pick_mut<'t, T>(&mut self, list: &'t mut [T]) -> Option<&'t mut T> {
        (!list.is_empty())
            .then(|| self.below(list.len()))
            .map(|i| &mut list[i])
    }
}

/// A file, and where its structure is: everything but the elements of large constants.
struct Seed {
    bytes: Vec<u8>,
    structure: Vec<Range<usize>>,
}

impl Seed {
    fn new(bytes: Vec<u8>) -> Self {
        let structure = structure_of(&bytes);
        Self { bytes, structure }
    }

    /// A position, nearly always in the structure.
    fn position(&self, random: &mut Random) -> usize {
        if random.below(20) == 0 {
            return random.below(self.bytes.len());
        }
        let total: usize = self.structure.iter().map(Range::len).sum();
        let mut index = random.below(total);
        for range in &self.structure {
            if index < range.len() {
                return range.start + index;
            }
            index -= range.len();
        }
        0
    }

    fn model(&self) -> ModelProto<'_> {
        ModelProto::decode(&self.bytes).expect("seeds are sound")
    }
}

/// Everything but raw data of more than 64 bytes.
fn structure_of(bytes: &[u8]) -> Vec<Range<usize>> {
    let model = ModelProto::decode(bytes).expect("seeds are sound");
    let graph = model.graph.as_deref().expect("a graph");
    let mut raw: Vec<Range<usize>> = graph
        .initializer
        .iter()
        .filter_map(|t| match t.raw_data.as_ref()? {
            Cow::Borrowed(data) if data.len() > 64 => {
                let start = data.as_ptr().addr() - bytes.as_ptr().addr();
                Some(start..start + data.len())
            }
            _ => None,
        })
        .collect();
    raw.sort_by_key(|r| r.start);
    let mut structure = Vec::new();
    let mut position = 0;
    for range in raw {
        structure.push(position..range.start);
        position = range.end;
    }
    structure.push(position..bytes.len());
    structure.retain(|r| !r.is_empty());
    structure
}

/// Good files, from which damaged ones are made: bytes changed, or what they mean.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{file, samples};
///
/// let files = samples::DamagedFiles::new(&samples::every_operator(), Vec::new());
/// for number in 0..20 {
///     // Refused or read: no panic, no hang, no huge allocation.
///     let _ = file::parse(&files.mutant(number), None);
/// }
/// ```
pub struct DamagedFiles {
    small: Vec<Seed>,
    large: Vec<Seed>,
}

impl DamagedFiles {
    /// Damages the files of `samples`, small models of older versions, and `large` files, which are taken
    /// less often.
    ///
    /// # Panics
    ///
    /// If a large file is no ONNX model.
    pub fn new(samples: &[Sample], large: Vec<Vec<u8>>) -> Self {
        let cases = versions::cases().into_iter().chain(spelled_out::cases());
        let small = samples
            .iter()
            .map(|sample| Seed::new(file::to_bytes(&sample.graph).expect("writes")))
            .chain(cases.map(|case| Seed::new(case.model.encode())))
            .collect();
        let large = large.into_iter().map(Seed::new).collect();
        Self { small, large }
    }

    /// Damages one file alone.
    ///
    /// # Panics
    ///
    /// If it is no ONNX model.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self {
            small: vec![Seed::new(bytes)],
            large: Vec::new(),
        }
    }

    /// The damaged file of that number, the same in every run.
    pub fn mutant(&self, number: u64) -> Vec<u8> {
        let mut random = Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        // Real models take longest, and most of what can go wrong is in the small ones too.
        let large = random.below(12) == 0 && !self.large.is_empty();
        let list = if large { &self.large } else { &self.small };
        let seed = &list[random.below(list.len())];
        let other = &self.small[random.below(self.small.len())];
        if random.below(3) == 0 {
            return damaged_bytes(seed, other, &mut random);
        }
        damaged_meaning(seed, other, &mut random)
    }
}

/// Values that lengths, extents and counts go wrong on, as they stand in a file.
const EXTREME_BYTES: [&[u8]; 7] = [
    &[0x00],
    &[0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
];

fn damaged_bytes(seed: &Seed, other: &Seed, random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.bytes.clone();
    // Few changes come far, many find what few do not.
    let n_changes = if random.below(2) == 0 {
        1
    } else {
        1 + random.below(8)
    };
    for _ in 0..n_changes {
        if bytes.len() < 2 {
            break;
        }
        let at = seed.position(random).min(bytes.len() - 1);
        let length = (1 + random.below(40)).min(bytes.len() - at);
        match random.below(10) {
            0..=2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes[at] = random.next() as u8,
            4 => {
                let extreme = EXTREME_BYTES[random.below(EXTREME_BYTES.len())];
                let end = (at + 1 + random.below(2)).min(bytes.len());
                bytes.splice(at..end, extreme.iter().copied());
            }
            5 => drop(bytes.drain(at..at + length)),
            6 => {
                let piece = bytes[at..at + length].to_vec();
                let to = seed.position(random).min(bytes.len());
                bytes.splice(to..to, piece);
            }
            7 => {
                let from = other.position(random);
                let n = (1 + random.below(200)).min(other.bytes.len() - from);
                let piece = other.bytes[from..from + n].iter().copied();
                let end = if random.below(2) == 0 {
                    at
                } else {
                    at + length
                };
                bytes.splice(at..end, piece);
            }
            8 if random.below(4) == 0 => bytes.truncate(at),
            _ => bytes.swap(at, at + length - 1),
        }
    }
    bytes
}

/// Values that extents, axes, counts and indices go wrong on.
const EXTREME_INTS: [i64; 16] = [
    0,
    1,
    -1,
    2,
    3,
    -2,
    7,
    16,
    -100,
    255,
    65_536,
    1 << 31,
    -(1 << 31),
    1 << 40,
    i64::MAX,
    i64::MIN,
];

const EXTREME_FLOATS: [f32; 9] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    3.4e38,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

fn damaged_meaning(seed: &Seed, other: &Seed, random: &mut Random) -> Vec<u8> {
    let mut model = seed.model();
    let donor = other.model();
    let donor = donor.graph.as_deref().expect("a graph");
    for _ in 0..1 + random.below(3) {
        if random.below(12) == 0 {
            if let Some(import) = random.pick_mut(&mut model.opset_import) {
                import.version = Some(7 + random.below(24) as i64);
            }
            continue;
        }
        let graph = model.graph.as_deref_mut().expect("a graph");
        match random.below(8) {
            0 | 1 => damage_attribute(graph, donor, random),
            2 => damage_operands(graph, random),
            3 => damage_nodes(graph, donor, random),
            4 | 5 => damage_constant(graph, random),
            6 => damage_input(graph, random),
            _ => {
                if let (Some(node), Some(from)) =
                    (random.pick_mut(&mut graph.node), random.pick(&donor.node))
                {
                    node.op_type = from.op_type.as_deref().map(owned_text);
                }
            }
        }
    }
    model.encode()
}

fn owned_text<'o>(text: &str) -> Cow<'o, str> {
    Cow::Owned(text.to_owned())
}

/// A copy that borrows nothing; only scalars, lists of numbers and text are kept.
fn owned_attribute<'o>(attribute: &AttributeProto<'_>) -> AttributeProto<'o> {
    AttributeProto {
        name: attribute.name.as_deref().map(owned_text),
        r#type: attribute.r#type,
        f: attribute.f,
        i: attribute.i,
        s: attribute
            .s
            .as_ref()
            .map(|s| Cow::Owned(s.clone().into_owned())),
        floats: attribute.floats.clone(),
        ints: attribute.ints.clone(),
        ..AttributeProto::default()
    }
}

fn damage_attribute(graph: &mut GraphProto<'_>, donor: &GraphProto<'_>, random: &mut Random) {
    let with_attributes = random.below(4) != 0;
    let mut nodes: Vec<&mut NodeProto<'_>> = graph
        .node
        .iter_mut()
        .filter(|n| !with_attributes || !n.attribute.is_empty())
        .collect();
    let Some(node) = random.pick_mut(&mut nodes) else {
        return;
    };
    let from = random
        .pick(&donor.node)
        .and_then(|n| random.pick(&n.attribute));
    if let (true, Some(from)) = (random.below(6) == 0, from) {
        node.attribute.push(owned_attribute(from));
        return;
    }
    let index = random.below(node.attribute.len().max(1));
    let Some(attribute) = node.attribute.get_mut(index) else {
        return;
    };
    let extreme = EXTREME_INTS[random.below(EXTREME_INTS.len())];
    match random.below(6) {
        0 => drop(node.attribute.remove(index)),
        1 => attribute.r#type = Some(random.below(16) as i32),
        2 => attribute.ints.push(extreme),
        3 => drop(attribute.ints.pop()),
        _ => {
            if let Some(value) = random.pick_mut(&mut attribute.ints) {
                *value = extreme;
            }
            attribute.i = attribute.i.map(|_| extreme);
            let float = EXTREME_FLOATS[random.below(EXTREME_FLOATS.len())];
            attribute.f = attribute.f.map(|_| float);
        }
    }
}

fn damage_operands(graph: &mut GraphProto<'_>, random: &mut Random) {
    let names: Vec<Cow<'_, str>> = graph
        .initializer
        .iter()
        .filter_map(|t| t.name.clone())
        .chain(graph.input.iter().filter_map(|v| v.name.clone()))
        .chain(graph.node.iter().flat_map(|n| n.output.clone()))
        .collect();
    let Some(name) = random.pick(&names).cloned() else {
        return;
    };
    let Some(node) = random.pick_mut(&mut graph.node) else {
        return;
    };
    match random.below(5) {
        0 => node.input.push(name),
        1 => drop(node.input.pop()),
        2 => {
            if let Some(input) = random.pick_mut(&mut node.input) {
                *input = Cow::Borrowed("");
            }
        }
        _ => {
            if let Some(input) = random.pick_mut(&mut node.input) {
                *input = name;
            }
        }
    }
}

fn damage_nodes(graph: &mut GraphProto<'_>, donor: &GraphProto<'_>, random: &mut Random) {
    if graph.node.is_empty() {
        return;
    }
    let (a, b) = (
        random.below(graph.node.len()),
        random.below(graph.node.len()),
    );
    match random.below(4) {
        0 => drop(graph.node.remove(a)),
        1 => graph.node.swap(a, b),
        2 => {
            let copy = graph.node[a].clone();
            graph.node.insert(b, copy);
        }
        _ => {
            // Another operator between a node and those that use it.
            let Some(from) = random.pick(&donor.node) else {
                return;
            };
            let Some(output) = graph.node[a].output.first().cloned() else {
                return;
            };
            let mut extra = NodeProto {
                op_type: from.op_type.as_deref().map(owned_text),
                attribute: from.attribute.iter().map(owned_attribute).collect(),
                input: vec![Cow::Borrowed("between")],
                output: vec![output],
                ..NodeProto::default()
            };
            let constants = graph.initializer.iter().filter_map(|t| t.name.clone());
            extra
                .input
                .extend(constants.take(from.input.len().saturating_sub(1)));
            graph.node[a].output[0] = Cow::Borrowed("between");
            graph.node.insert(a + 1, extra);
        }
    }
}

fn damage_constant(graph: &mut GraphProto<'_>, random: &mut Random) {
    // Small constants are shapes, axes and bounds.
    let only_small = random.below(4) != 0;
    let mut tensors: Vec<&mut TensorProto<'_>> = graph
        .initializer
        .iter_mut()
        .filter(|t| !only_small || t.raw_data.as_ref().is_some_and(|r| r.len() <= 128))
        .collect();
    let Some(tensor) = random.pick_mut(&mut tensors) else {
        return;
    };
    let extreme = EXTREME_INTS[random.below(EXTREME_INTS.len())];
    match random.below(8) {
        0 => tensor.data_type = Some(random.below(20) as i32),
        1 => {
            if let Some(dim) = random.pick_mut(&mut tensor.dims) {
                *dim = extreme;
            }
        }
        2 => tensor.dims.push(1),
        3 => tensor.dims.reverse(),
        _ => {
            let Some(raw) = tensor.raw_data.as_mut().filter(|r| !r.is_empty()) else {
                return;
            };
            let raw = raw.to_mut();
            let width = if tensor.data_type == Some(7) { 8 } else { 4 };
            let at = random.below(raw.len()) / width * width;
            let float = EXTREME_FLOATS[random.below(EXTREME_FLOATS.len())];
            let bytes = if width == 8 {
                extreme.to_le_bytes().to_vec()
            } else {
                float.to_le_bytes().to_vec()
            };
            for (to, from) in raw[at..].iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }
}

fn damage_input(graph: &mut GraphProto<'_>, random: &mut Random) {
    let Some(input) = random.pick_mut(&mut graph.input) else {
        return;
    };
    let extreme = EXTREME_INTS[random.below(EXTREME_INTS.len())];
    if random.below(8) == 0 {
        *input = ValueInfoProto::default();
        return;
    }
    let declared = input.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
    let Some(tensor) = declared else { return };
    if random.below(4) == 0 {
        tensor.elem_type = Some(random.below(20) as i32);
        return;
    }
    let Some(shape) = tensor.shape.as_mut() else {
        return;
    };
    match random.below(5) {
        0 => drop(shape.dim.pop()),
        1 => shape.dim.extend(shape.dim.last().cloned()),
        2 => shape.dim.reverse(),
        _ => {
            if let Some(dim) = random.pick_mut(&mut shape.dim) {
                dim.dim_value = Some(extreme);
            }
        }
    }
}
