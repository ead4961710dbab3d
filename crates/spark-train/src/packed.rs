//! Records of named tensors as bytes that outlive a process, and are read by another one.
//!
//! ```text
//! version: u32                                   1
//! groups: u32, each:  tensors: u32, each:        name: u32 and so many bytes of UTF-8
//!                                                type: u32 (ONNX's), extents: u32, each u64
//! records: u64
//! elements of each record                        as the layout says; nothing behind them
//! ```
//!
//! Numbers are little-endian. Every record has the layout of the first. What is read may come from anybody: every count is held against
//! the bytes that are there before memory is taken, and records are made one at a time.
//!
//! Deliberately absent: checksums, which the file around it has.

use spark_onnx_graph::DType;

use crate::error::{Result, TrainError};
use crate::layout::{self, Layout, Named, Part};

/// What is written, and the one version that is read. Others are another run's, whose lines say so.
pub(crate) const VERSION: u32 = 1;

/// Most tensors of a record: inputs and outputs of networks are fewer.
const MOST_TENSORS: usize = 1 << 12;

/// Types of elements as ONNX's `TensorProto.DataType` numbers them.
const TYPES: [(u32, DType); 13] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (16, DType::BF16),
];

/// Records that are put together.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    layout: Option<Layout>,
    n: usize,
    elements: Vec<u8>,
}

impl Packer {
    /// Adds a record, of the first one's layout. One that could not be read again is refused.
    pub(crate) fn push(&mut self, groups: &[&[Named]]) -> Result<()> {
        let refused = |what| Err(TrainError::Packed { what });
        if groups.iter().map(|group| group.len()).sum::<usize>() > MOST_TENSORS {
            return refused("number of tensors");
        }
        if groups
            .iter()
            .flat_map(|group| *group)
            .all(|(_, tensor)| tensor.is_empty())
        {
            return refused("elements");
        }
        Layout::hold_against(&mut self.layout, groups, self.n)?;
        // A vector takes all.
        let _ = layout::write(groups, &mut self.elements);
        self.n += 1;
        Ok(())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Bytes of their elements.
    pub(crate) fn n_bytes(&self) -> usize {
        self.elements.len()
    }

    /// All of them as bytes, behind those that are there.
    pub(crate) fn append_to(self, bytes: &mut Vec<u8>) {
        add_u32(bytes, VERSION);
        let layout = self.layout.unwrap_or_default();
        add_u32(bytes, layout.groups.len() as u32);
        for group in &layout.groups {
            add_u32(bytes, group.len() as u32);
            for part in group {
                add_text(bytes, &part.name);
                let known = TYPES.iter().find(|(_, dtype)| *dtype == part.dtype);
                add_u32(bytes, known.map_or(0, |(number, _)| *number));
                add_u32(bytes, part.shape.len() as u32);
                for &extent in &part.shape {
                    add_u64(bytes, extent as u64);
                }
            }
        }
        add_u64(bytes, self.n as u64);
        bytes.extend_from_slice(&self.elements);
    }
}

pub(crate) fn add_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn add_u64(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn add_text(bytes: &mut Vec<u8>, text: &str) {
    add_u32(bytes, text.len() as u32);
    bytes.extend_from_slice(text.as_bytes());
}

/// Records that were read; each is made when it is asked for.
#[derive(Debug)]
pub(crate) struct Packed {
    layout: Layout,
    n: usize,
    elements: Vec<u8>,
}

impl Packed {
    /// Reads all bytes that are left.
    pub(crate) fn read(mut rest: Rest<'_>) -> Result<Self> {
        if rest.u32("version")? != VERSION {
            return Err(TrainError::Packed { what: "version" });
        }
        // Nothing is reserved: what is counted need not be there.
        let mut layout = Layout::default();
        let mut n_tensors = 0;
        for _ in 0..counted(&mut rest, "number of groups", 0)? {
            let mut group = Vec::new();
            for _ in 0..counted(&mut rest, "number of tensors", n_tensors)? {
                group.push(part(&mut rest)?);
            }
            n_tensors += group.len();
            layout.groups.push(group);
        }
        let n = rest.u64("number of records")?;
        let what = "elements";
        let misfit = TrainError::Packed { what };
        let n_bytes = layout.checked_bytes().map(|n| n as u64);
        // Records without a byte could be as many as somebody writes.
        let is_whole = match n_bytes {
            Some(0) => n == 0 && rest.0.is_empty(),
            Some(one) => one.checked_mul(n) == Some(rest.0.len() as u64),
            None => false,
        };
        match (is_whole, usize::try_from(n)) {
            (true, Ok(n)) => Ok(Self {
                layout,
                n,
                elements: rest.0.to_vec(),
            }),
            _ => Err(misfit),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Groups of a record.
    pub(crate) fn n_groups(&self) -> usize {
        self.layout.groups.len()
    }

    /// A record below [`Packed::len`].
    pub(crate) fn record(&self, index: usize) -> Result<Vec<Vec<Named>>> {
        let n_bytes = self.layout.bytes();
        let start = index.checked_mul(n_bytes);
        let own = start.and_then(|start| self.elements.get(start..start + n_bytes));
        let what = "record";
        self.layout.record(own.ok_or(TrainError::Packed { what })?)
    }
}

/// A count that, with those before it, is none of too many.
fn counted(rest: &mut Rest<'_>, what: &'static str, before: usize) -> Result<u32> {
    let n = rest.u32(what)?;
    match before.saturating_add(n as usize) <= MOST_TENSORS {
        true => Ok(n),
        false => Err(TrainError::Packed { what }),
    }
}

fn part(rest: &mut Rest<'_>) -> Result<Part> {
    let name = rest.text("name")?.to_owned();
    let number = rest.u32("type")?;
    let known = TYPES.iter().find(|(it, _)| *it == number);
    let (_, dtype) = *known.ok_or(TrainError::Packed { what: "type" })?;
    let mut shape = Vec::new();
    for _ in 0..rest.u32("number of extents")? {
        let what = "extent";
        let extent = usize::try_from(rest.u64(what)?);
        shape.push(extent.map_err(|_| TrainError::Packed { what })?);
    }
    Ok(Part { name, dtype, shape })
}

/// Bytes that are not read yet.
pub(crate) struct Rest<'b>(pub(crate) &'b [u8]);

impl<'b> Rest<'b> {
    pub(crate) fn take(&mut self, n: u64, what: &'static str) -> Result<&'b [u8]> {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let taken = self.0.split_at_checked(n);
        let (taken, rest) = taken.ok_or(TrainError::Packed { what })?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        let bytes = self.take(4, what)?.try_into();
        Ok(u32::from_le_bytes(
            bytes.map_err(|_| TrainError::Packed { what })?,
        ))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        let bytes = self.take(8, what)?.try_into();
        Ok(u64::from_le_bytes(
            bytes.map_err(|_| TrainError::Packed { what })?,
        ))
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'b str> {
        let n = self.u32(what)?;
        let bytes = self.take(u64::from(n), what)?;
        std::str::from_utf8(bytes).map_err(|_| TrainError::Packed { what })
    }
}
