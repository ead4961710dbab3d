//! A file with some constants replaced and every other byte as it was.
//!
//! ```text
//! model fields:  copy | copy | graph | copy      graph fields:  copy | initializer | copy | Constant node | copy
//!                                └── new length                     └── new elements      └── new `value`
//! ```
//!
//! Reading a model and writing it again loses what the reader does not know, and may
//! order fields differently. Here fields that do not change are copied unread.
//!
//! Deliberately absent: changing shapes or element types (the rest of the graph may
//! rely on them), and constants within functions, which several nodes may share.

use std::collections::{BTreeMap, BTreeSet};

use crate::element::ElementType;
use crate::error::ProtoError;
use crate::proto::{AttributeProto, NodeProto, TensorProto, text};
use crate::source::CONSTANT_BYTES;
use crate::wire::{Field, Message, ReadBudget, Reader, WireValue, write_bytes};

/// Field numbers on the way to a constant.
const MODEL_GRAPH: u32 = 7;
const GRAPH_NODE: u32 = 1;
const GRAPH_INITIALIZER: u32 = 5;

/// The model `bytes` with the constants named in `replacements` replaced: initializers,
/// and results of Constant nodes. `write` makes the new constant, with its elements in `raw_data`.
/// Element types and shapes stay. Elements that stood in another file stand in the model
/// afterwards.
///
/// # Errors
///
/// [`ProtoError::Wire`] if `bytes` are no model; [`ProtoError::Dangling`] for a name that is
/// no constant of the main graph; [`ProtoError::Tensor`] if element type or shape differ.
pub fn replace_constants<'r, T>(
    bytes: &[u8],
    replacements: &'r BTreeMap<String, T>,
    write: impl Fn(&'r str, &'r T) -> TensorProto<'r>,
) -> Result<Vec<u8>, ProtoError> {
    let mut edit = Edit {
        replacements,
        write,
        done: BTreeSet::new(),
        budget: ReadBudget::new(bytes.len().saturating_add(CONSTANT_BYTES)),
    };
    let mut out = Vec::with_capacity(bytes.len());
    copy_fields(bytes, 0, &mut out, |field, content, out| {
        if field.number != MODEL_GRAPH {
            return Ok(false);
        }
        let graph = edit.graph(content, field.offset)?;
        write_bytes(MODEL_GRAPH, &graph, out);
        Ok(true)
    })?;
    match replacements
        .keys()
        .find(|name| !edit.done.contains(name.as_str()))
    {
        Some(name) => Err(ProtoError::Dangling {
            user: "the list of replacements".to_owned(),
            name: name.clone(),
        }),
        None => Ok(out),
    }
}

/// Copies the fields of a message, except those that `replace` has written itself.
fn copy_fields(
    bytes: &[u8],
    base: usize,
    out: &mut Vec<u8>,
    mut replace: impl FnMut(&Field<'_>, &[u8], &mut Vec<u8>) -> Result<bool, ProtoError>,
) -> Result<(), ProtoError> {
    let mut reader = Reader::new(bytes, base);
    loop {
        let start = reader.position();
        let Some(field) = reader.next_field()? else {
            return Ok(());
        };
        let replaced = match field.value {
            WireValue::Bytes(content) => replace(&field, content, out)?,
            _ => false,
        };
        if !replaced {
            out.extend_from_slice(&bytes[start..reader.position()]);
        }
    }
}

struct Edit<'r, T, W> {
    replacements: &'r BTreeMap<String, T>,
    write: W,
    done: BTreeSet<&'r str>,
    budget: ReadBudget,
}

impl<'r, T, W: Fn(&'r str, &'r T) -> TensorProto<'r>> Edit<'r, T, W> {
    fn graph(&mut self, bytes: &[u8], base: usize) -> Result<Vec<u8>, ProtoError> {
        let mut out = Vec::with_capacity(bytes.len());
        copy_fields(bytes, base, &mut out, |field, content, out| {
            match field.number {
                GRAPH_INITIALIZER => self.initializer(content, field.offset, out),
                GRAPH_NODE => self.constant_node(content, field.offset, out),
                _ => Ok(false),
            }
        })?;
        Ok(out)
    }

    fn initializer(
        &mut self,
        content: &[u8],
        base: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProtoError> {
        // Only the name is read of the many that stay.
        let name = name_field(content, base, 8)?;
        let Some((name, tensor)) = self.replacements.get_key_value(name) else {
            return Ok(false);
        };
        let mut old = TensorProto::default();
        old.merge(content, base, &mut self.budget, 0)?;
        let new = replaced(name, old, (self.write)(name, tensor))?;
        write_bytes(GRAPH_INITIALIZER, &encoded(&new), out);
        self.done.insert(name);
        Ok(true)
    }

    fn constant_node(
        &mut self,
        content: &[u8],
        base: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProtoError> {
        if name_field(content, base, 4)? != "Constant" {
            return Ok(false);
        }
        let mut node = NodeProto::default();
        node.merge(content, base, &mut self.budget, 0)?;
        let output = node.output.first().map_or("", |o| o.as_ref());
        let Some((name, tensor)) = self.replacements.get_key_value(output) else {
            return Ok(false);
        };
        let is_value = |a: &&mut AttributeProto<'_>| text(&a.name) == "value";
        let value = node.attribute.iter_mut().find(is_value);
        let Some(old) = value.and_then(|a| a.t.as_mut()) else {
            return Err(ProtoError::Tensor {
                name: name.clone(),
                reason: "it is not stored as a tensor".to_owned(),
            });
        };
        **old = replaced(name, std::mem::take(old), (self.write)(name, tensor))?;
        write_bytes(GRAPH_NODE, &encoded(&node), out);
        self.done.insert(name);
        Ok(true)
    }
}

/// Text of field `number` of a message; the last one counts.
fn name_field(content: &[u8], base: usize, number: u32) -> Result<&str, ProtoError> {
    let mut reader = Reader::new(content, base);
    let mut found = "";
    while let Some(field) = reader.next_field()? {
        if let (true, WireValue::Bytes(bytes)) = (field.number == number, field.value) {
            found = std::str::from_utf8(bytes).unwrap_or_default();
        }
    }
    Ok(found)
}

fn encoded<'a>(message: &impl Message<'a>) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.encoded_len());
    message.write(&mut out);
    out
}

/// `old` with the elements of `new`; documentation and metadata stay.
fn replaced<'t>(
    name: &str,
    old: TensorProto<'t>,
    new: TensorProto<'t>,
) -> Result<TensorProto<'t>, ProtoError> {
    let type_of = |number: Option<i32>| ElementType::from_number(number.unwrap_or_default());
    let new_type = type_of(new.data_type).map_err(|problem| ProtoError::Tensor {
        name: name.to_owned(),
        reason: problem.to_string(),
    })?;
    if old.dims != new.dims || type_of(old.data_type) != Ok(new_type) {
        return Err(ProtoError::Tensor {
            name: name.to_owned(),
            reason: format!(
                "shape {:?} and type {new_type} cannot replace shape {:?} and type number {}",
                new.dims,
                old.dims,
                old.data_type.unwrap_or_default()
            ),
        });
    }
    Ok(TensorProto {
        dims: old.dims,
        data_type: old.data_type,
        name: old.name,
        doc_string: old.doc_string,
        metadata_props: old.metadata_props,
        raw_data: new.raw_data,
        ..TensorProto::default()
    })
}
