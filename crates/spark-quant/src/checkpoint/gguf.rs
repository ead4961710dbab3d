//! GGUF files, read only: NVFP4, MXFP4 and plain float tensors.
//!
//! ```text
//! "GGUF" version u32 | n_tensors u64 | n_values u64 | key-value pairs | tensor infos | padding | data
//! tensor info: name, n_dims u32, extents u64 (fastest first), type u32, offset u64
//!
//! MXFP4, 17 bytes per 32 values: E8M0, 16 bytes; byte j = value j low, value j+16 high
//! NVFP4, 36 bytes per 64 values: 4 x E4M3, 32 bytes; byte 8s+j = value 16s+j low, 16s+j+8 high
//! ```
//!
//! The tensor scale of NVFP4 is a separate tensor, `X.scale` for `X.weight`; without one it is 1.
//! Nibbles are rearranged to this crate's order, which changes no value. Tensors of other types are
//! listed by name and left out. Source: ggml. Deliberately absent: writing.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::{Checkpoint, Entry, Inputs, Plain, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;

/// Deepest nesting of arrays in the key-value pairs.
const MAX_DEPTH: usize = 4;

/// A GGUF file's tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufFile {
    /// Tensors of types this crate reads.
    pub checkpoint: Checkpoint,
    /// Names and type numbers of the others.
    pub skipped: Vec<(String, u32)>,
}

/// A position in the file; every step is checked.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn error(&self, what: &'static str) -> QuantError {
        QuantError::Gguf {
            offset: self.at,
            what,
        }
    }

    fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], QuantError> {
        let n = usize::try_from(n).map_err(|_| self.error(what))?;
        let end = self
            .at
            .checked_add(n)
            .filter(|&end| end <= self.bytes.len())
            .ok_or_else(|| self.error(what))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, QuantError> {
        let bytes = self.take(4, what)?;
        Ok(bytes
            .first_chunk()
            .map_or(0, |&bytes| u32::from_le_bytes(bytes)))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, QuantError> {
        let bytes = self.take(8, what)?;
        Ok(bytes
            .first_chunk()
            .map_or(0, |&bytes| u64::from_le_bytes(bytes)))
    }

    fn string(&mut self, what: &'static str) -> Result<String, QuantError> {
        let n = self.u64(what)?;
        let bytes = self.take(n, what)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.error("text is not UTF-8"))
    }

    /// Skips a value; returns it if it is an unsigned integer.
    fn value(&mut self, kind: u32, depth: usize) -> Result<Option<u64>, QuantError> {
        match kind {
            0 | 1 | 7 => self.take(1, "value ends early").map(|_| None),
            2 | 3 => self.take(2, "value ends early").map(|_| None),
            4 => self
                .u32("value ends early")
                .map(|value| Some(u64::from(value))),
            5 | 6 => self.take(4, "value ends early").map(|_| None),
            10 => self.u64("value ends early").map(Some),
            11 | 12 => self.take(8, "value ends early").map(|_| None),
            8 => self.string("text ends early").map(|_| None),
            9 if depth < MAX_DEPTH => {
                let kind = self.u32("array ends early")?;
                let n = self.u64("array ends early")?;
                // Every element takes at least a byte, so a lying count runs into the end of the file.
                for _ in 0..n {
                    self.value(kind, depth + 1)?;
                }
                Ok(None)
            }
            9 => Err(self.error("arrays are nested too deeply")),
            _ => Err(self.error("unknown type of a value")),
        }
    }
}

struct Info {
    name: String,
    /// Extents, the slowest first; the file has them the other way round.
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

/// Reads a GGUF file from memory.
///
/// # Errors
///
/// [`QuantError::Gguf`] where the file ends early or says something impossible;
/// [`QuantError::InTensor`] if a scale is NaN.
pub fn read(bytes: &[u8]) -> Result<GgufFile, QuantError> {
    let mut cursor = Cursor { bytes, at: 0 };
    if cursor.take(4, "the file is too short")? != b"GGUF" {
        return Err(QuantError::Gguf {
            offset: 0,
            what: "the file does not start with GGUF",
        });
    }
    if !(2..=3).contains(&cursor.u32("the file is too short")?) {
        return Err(cursor.error("only versions 2 and 3 are known"));
    }
    let n_tensors = cursor.u64("the file is too short")?;
    let n_values = cursor.u64("the file is too short")?;
    let mut alignment = 32;
    for _ in 0..n_values {
        let key = cursor.string("key ends early")?;
        let kind = cursor.u32("value ends early")?;
        let value = cursor.value(kind, 0)?;
        if key == "general.alignment" {
            alignment = value
                .filter(|n| n.is_power_of_two())
                .ok_or_else(|| cursor.error("alignment is no power of two"))?;
        }
    }
    let mut infos = Vec::new();
    for _ in 0..n_tensors {
        infos.push(tensor_info(&mut cursor)?);
    }
    let start = (cursor.at as u64)
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| cursor.error("alignment is too large"))?;
    let data = usize::try_from(start)
        .ok()
        .and_then(|start| bytes.get(start..))
        .unwrap_or(&[]);
    let scales = tensor_scales(&infos, data)?;
    let (mut entries, mut skipped) = (BTreeMap::new(), Vec::new());
    for info in &infos {
        let name = info.name.clone();
        match entry(info, data, &scales)? {
            Some(entry) => {
                if entries.insert(name, entry).is_some() {
                    return Err(QuantError::Gguf {
                        offset: cursor.at,
                        what: "two tensors of the same name",
                    });
                }
            }
            None => skipped.push((name, info.kind)),
        }
    }
    Ok(GgufFile {
        checkpoint: Checkpoint { entries },
        skipped,
    })
}

fn tensor_info(cursor: &mut Cursor<'_>) -> Result<Info, QuantError> {
    let name = cursor.string("tensor name ends early")?;
    let n_dims = cursor.u32("tensor info ends early")?;
    if !(1..=4).contains(&n_dims) {
        return Err(cursor.error("a tensor must have one to four dimensions"));
    }
    let mut shape = Vec::new();
    for _ in 0..n_dims {
        let extent = usize::try_from(cursor.u64("tensor info ends early")?);
        shape.push(extent.map_err(|_| cursor.error("an extent does not fit the address space"))?);
    }
    shape.reverse();
    shape
        .iter()
        .try_fold(8usize, |n, &extent| n.checked_mul(extent.max(1)))
        .ok_or_else(|| {
            QuantError::ShapeOverflow {
                shape: shape.clone(),
            }
            .in_tensor(&name)
        })?;
    let kind = cursor.u32("tensor info ends early")?;
    let offset = cursor.u64("tensor info ends early")?;
    Ok(Info {
        name,
        shape,
        kind,
        offset,
    })
}

/// Bytes of a tensor of `n` blocks of `block_bytes`.
fn blocks<'a>(
    info: &Info,
    data: &'a [u8],
    n: usize,
    block_bytes: usize,
) -> Result<&'a [u8], QuantError> {
    let wrong = QuantError::Gguf {
        offset: usize::try_from(info.offset).unwrap_or(usize::MAX),
        what: "tensor data ends early",
    };
    let range = usize::try_from(info.offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(n.checked_mul(block_bytes)?)?));
    range.and_then(|range| data.get(range)).ok_or(wrong)
}

/// Single f32 values by name: the tensor scales among them.
fn tensor_scales<'a>(infos: &'a [Info], data: &[u8]) -> Result<BTreeMap<&'a str, f32>, QuantError> {
    let mut scales = BTreeMap::new();
    for info in infos
        .iter()
        .filter(|info| info.kind == 0 && info.name.ends_with(".scale"))
    {
        if info.shape.iter().product::<usize>() == 1 {
            let bytes = blocks(info, data, 1, 4)?;
            scales.insert(
                info.name.as_str(),
                bytes
                    .first_chunk()
                    .map_or(f32::NAN, |&bytes| f32::from_le_bytes(bytes)),
            );
        }
    }
    Ok(scales)
}

fn entry(
    info: &Info,
    data: &[u8],
    tensor_scales: &BTreeMap<&str, f32>,
) -> Result<Option<Entry>, QuantError> {
    let n_values: usize = info.shape.iter().product();
    let plain = |dtype: Dtype| -> Result<Option<Entry>, QuantError> {
        let data = blocks(info, data, n_values, dtype.bitsize() / 8)?.to_vec();
        Ok(Some(Entry::Plain(Plain {
            dtype,
            shape: info.shape.clone(),
            data,
        })))
    };
    let depth = info.shape.last().copied().unwrap_or(0);
    let (format, codes, scales) = match info.kind {
        0 => return plain(Dtype::F32),
        1 => return plain(Dtype::F16),
        30 => return plain(Dtype::BF16),
        39 => {
            QuantError::check_multiple("row length", depth, 32)
                .map_err(|error| error.in_tensor(&info.name))?;
            let (mut codes, mut scales) = (Vec::new(), Vec::new());
            for block in blocks(info, data, n_values / 32, 17)?.as_chunks::<17>().0 {
                scales.push(block[0]);
                codes.extend(interleave(&block[1..]));
            }
            (
                PackedFormat::Mx(MiniFormat::E2m1),
                codes,
                Scales::Mx(scales),
            )
        }
        40 => {
            QuantError::check_multiple("row length", depth, 64)
                .map_err(|error| error.in_tensor(&info.name))?;
            let (mut codes, mut block_scales) = (Vec::new(), Vec::new());
            for block in blocks(info, data, n_values / 64, 36)?.as_chunks::<36>().0 {
                block_scales.extend_from_slice(&block[..4]);
                block[4..]
                    .chunks_exact(8)
                    .for_each(|part| codes.extend(interleave(part)));
            }
            let scale_name = info
                .name
                .strip_suffix(".weight")
                .map(|base| format!("{base}.scale"));
            let tensor = scale_name
                .and_then(|name| tensor_scales.get(name.as_str()).copied())
                .unwrap_or(1.0);
            (
                PackedFormat::Nvfp4,
                codes,
                Scales::Nvfp4 {
                    block: block_scales,
                    tensor,
                },
            )
        }
        _ => return Ok(None),
    };
    let packed =
        PackedTensor::from_parts(&[n_values / depth.max(1), depth], 1, format, codes, scales)
            .map_err(|error| error.in_tensor(&info.name))?;
    Ok(Some(Entry::Quantized(Weight {
        packed,
        shape: info.shape.clone(),
        inputs: Inputs::Unquantized,
    })))
}

/// From "first half low, second half high" to neighbours in one byte.
fn interleave(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let nibble = move |i: usize| {
        let (byte, shift) = if i < bytes.len() {
            (bytes[i], 0)
        } else {
            (bytes[i - bytes.len()], 4)
        };
        byte >> shift & 15
    };
    (0..bytes.len()).map(move |i| nibble(2 * i) | nibble(2 * i + 1) << 4)
}
