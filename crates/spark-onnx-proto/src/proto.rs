//! The messages of an ONNX file, as data.
//!
//! ```text
//! ModelProto ── graph: GraphProto ── node[]: NodeProto ── attribute[]: AttributeProto
//!            │                    ├─ initializer[]: TensorProto
//!            │                    └─ input[], output[], value_info[]: ValueInfoProto ── type: TypeProto
//!            ├─ opset_import[]: OperatorSetIdProto
//!            └─ functions[]: FunctionProto
//! ```
//!
//! Each message is one table of field number, name and type, from which its reader
//! and its writer follow. Whether an optional field was there is kept, and fields are
//! written in ascending order, so a file from any common writer that has no field
//! unknown here comes back byte for byte.
//!
//! Source: `onnx.proto` of ONNX 1.23 (IR version 14), field numbers only.
//!
//! Deliberately absent, hence dropped: training information, device configurations.

use crate::error::ProtoError;
use crate::wire::{Bytes, Field, FieldType, Message, Packed, ReadBudget, Text};

/// Defines a message, its reader and its writer from one table of fields.
macro_rules! message {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$field_meta:meta])* $number:literal $field:ident: $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name<'a> {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl<'a> Message<'a> for $name<'a> {
            const NAME: &'static str = stringify!($name);

            fn merge_field(
                &mut self,
                field: &Field<'a>,
                budget: &mut ReadBudget,
                depth: usize,
            ) -> Result<(), ProtoError> {
                match field.number {
                    $( $number => self.$field.read(field, budget, depth), )*
                    _ => Ok(()),
                }
            }

            fn encoded_len(&self) -> usize {
                0 $( + self.$field.encoded_len($number) )*
            }

            fn write(&self, out: &mut Vec<u8>) {
                $( self.$field.write($number, out); )*
            }
        }
    };
}

message! {
    /// A whole file: one network, the operator sets that it is written in, its own functions.
    ModelProto {
        /// Version of the file format.
        1 ir_version: Option<i64>,
        /// Program that wrote the file.
        2 producer_name: Option<Text<'a>>,
        /// Version of that program, in its own words.
        3 producer_version: Option<Text<'a>>,
        /// Reverse domain name of the model.
        4 domain: Option<Text<'a>>,
        /// Version of the model.
        5 model_version: Option<i64>,
        /// Text for people about the model; nothing depends on it.
        6 doc_string: Option<Text<'a>>,
        /// The network itself; [`flatten`](crate::flatten) refuses a model without one.
        7 graph: Option<Box<GraphProto<'a>>>,
        /// Which version of which operators the nodes mean.
        8 opset_import: Vec<OperatorSetIdProto<'a>>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        14 metadata_props: Vec<StringStringEntryProto<'a>>,
        /// Operators defined by the model itself.
        25 functions: Vec<FunctionProto<'a>>,
    }
}

message! {
    /// A key and a value.
    StringStringEntryProto {
        /// What the value is called; readers look entries up by it.
        1 key: Option<Text<'a>>,
        /// What stands under the key, as text whatever it means.
        2 value: Option<Text<'a>>,
    }
}

message! {
    /// A version of the operators of one domain.
    OperatorSetIdProto {
        /// Domain; empty and `ai.onnx` both mean the standard operators.
        1 domain: Option<Text<'a>>,
        /// Number of the operator set; it decides which form of each operator nodes have.
        2 version: Option<i64>,
    }
}

message! {
    /// A network: nodes, constants, inputs and outputs.
    GraphProto {
        /// Operators, in execution order.
        1 node: Vec<NodeProto<'a>>,
        /// Name of the network, for people; nothing refers to it.
        2 name: Option<Text<'a>>,
        /// Constants, such as weights, that nodes read by their names.
        5 initializer: Vec<TensorProto<'a>>,
        /// Text for people about the network; nothing depends on it.
        10 doc_string: Option<Text<'a>>,
        /// What the caller gives; before IR version 4 all constants too.
        11 input: Vec<ValueInfoProto<'a>>,
        /// What the caller gets.
        12 output: Vec<ValueInfoProto<'a>>,
        /// Types of values in between.
        13 value_info: Vec<ValueInfoProto<'a>>,
        /// Scales and zero points by tensor name.
        14 quantization_annotation: Vec<TensorAnnotation<'a>>,
        /// Named constants, most elements of which are zero.
        15 sparse_initializer: Vec<SparseTensorProto<'a>>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        16 metadata_props: Vec<StringStringEntryProto<'a>>,
    }
}

message! {
    /// Quantisation parameters of a tensor, by name.
    TensorAnnotation {
        /// Name of the value that the parameters belong to.
        1 tensor_name: Option<Text<'a>>,
        /// `SCALE_TENSOR` and `ZERO_POINT_TENSOR` with the names that hold them.
        2 quant_parameter_tensor_names: Vec<StringStringEntryProto<'a>>,
    }
}

message! {
    /// One step of the network: an operator, its operands and results by name, its parameters.
    NodeProto {
        /// Names of the operands; empty where one is left out.
        1 input: Vec<Text<'a>>,
        /// Names of the results; empty where one is not wanted.
        2 output: Vec<Text<'a>>,
        /// Name; may be missing.
        3 name: Option<Text<'a>>,
        /// Name of the operator, or of a function of the model, within its domain.
        4 op_type: Option<Text<'a>>,
        /// Parameters of the operator; one that is left out has its default.
        5 attribute: Vec<AttributeProto<'a>>,
        /// Text for people about the node; nothing depends on it.
        6 doc_string: Option<Text<'a>>,
        /// Domain of the operator.
        7 domain: Option<Text<'a>>,
        /// Which function of that name.
        8 overload: Option<Text<'a>>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        9 metadata_props: Vec<StringStringEntryProto<'a>>,
    }
}

message! {
    /// A parameter of an operator. Which field holds it is told by `type`.
    AttributeProto {
        /// Name of the parameter in the definition of its operator.
        1 name: Option<Text<'a>>,
        /// The value, where `type` is `FLOAT`.
        2 f: Option<f32>,
        /// The value, where `type` is `INT`; booleans are 0 and 1.
        3 i: Option<i64>,
        /// The value, where `type` is `STRING`: text, or any bytes.
        4 s: Option<Bytes<'a>>,
        /// The value, where `type` is `TENSOR`.
        5 t: Option<Box<TensorProto<'a>>>,
        /// The value, where `type` is `GRAPH`: a branch or the body of a loop.
        6 g: Option<Box<GraphProto<'a>>>,
        /// The values, where `type` is `FLOATS`.
        7 floats: Vec<f32>,
        /// The values, where `type` is `INTS`.
        8 ints: Vec<i64>,
        /// The values, where `type` is `STRINGS`.
        9 strings: Vec<Bytes<'a>>,
        /// The values, where `type` is `TENSORS`.
        10 tensors: Vec<TensorProto<'a>>,
        /// The values, where `type` is `GRAPHS`.
        11 graphs: Vec<GraphProto<'a>>,
        /// Text for people about the parameter; nothing depends on it.
        13 doc_string: Option<Text<'a>>,
        /// The value, where `type` is `TYPE_PROTO`.
        14 tp: Option<Box<TypeProto<'a>>>,
        /// The values, where `type` is `TYPE_PROTOS`.
        15 type_protos: Vec<TypeProto<'a>>,
        /// One of the constants in [`attribute_type`].
        20 r#type: Option<i32>,
        /// Attribute of the enclosing function whose value this takes.
        21 ref_attr_name: Option<Text<'a>>,
        /// The value, where `type` is `SPARSE_TENSOR`.
        22 sparse_tensor: Option<Box<SparseTensorProto<'a>>>,
        /// The values, where `type` is `SPARSE_TENSORS`.
        23 sparse_tensors: Vec<SparseTensorProto<'a>>,
    }
}

/// Values of [`AttributeProto::type`], which say which of its fields holds the parameter.
#[allow(missing_docs, reason = "each is the kind of that name in onnx.proto")]
pub mod attribute_type {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
    pub const TENSORS: i32 = 9;
    pub const GRAPHS: i32 = 10;
    pub const SPARSE_TENSOR: i32 = 11;
    pub const SPARSE_TENSORS: i32 = 12;
    pub const TYPE_PROTO: i32 = 13;
    pub const TYPE_PROTOS: i32 = 14;
}

message! {
    /// A constant. Its elements are in exactly one of the data fields, or in another file.
    TensorProto {
        /// Extent of every axis; none for a scalar.
        1 dims: Vec<i64>,
        /// One of the constants in [`data_type`].
        2 data_type: Option<i32>,
        /// Which part of a tensor this is, as bytes: tensors in pieces are refused.
        3 segment: Option<Bytes<'a>>,
        /// Elements of f32, where they are not in `raw_data`.
        4 float_data: Packed<f32>,
        /// All integers up to 32 bits, booleans, and the bits of f16 and bf16.
        5 int32_data: Packed<i32>,
        /// Elements that are texts, which [`read_constant`](crate::read_constant) refuses.
        6 string_data: Vec<Bytes<'a>>,
        /// Elements of i64, where they are not in `raw_data`.
        7 int64_data: Packed<i64>,
        /// Name that nodes read an initializer by; parameters of operators need none.
        8 name: Option<Text<'a>>,
        /// Elements of any type, little-endian.
        9 raw_data: Option<Bytes<'a>>,
        /// Elements of f64, where they are not in `raw_data`.
        10 double_data: Packed<f64>,
        /// Elements of u32 and u64, where they are not in `raw_data`.
        11 uint64_data: Packed<u64>,
        /// Text for people about the constant; nothing depends on it.
        12 doc_string: Option<Text<'a>>,
        /// `location`, `offset`, `length` and `checksum` of elements in another file.
        13 external_data: Vec<StringStringEntryProto<'a>>,
        /// 1 where the elements are in another file.
        14 data_location: Option<i32>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        16 metadata_props: Vec<StringStringEntryProto<'a>>,
    }
}

/// Values of [`TensorProto::data_type`] and [`TensorTypeProto::elem_type`].
#[allow(missing_docs, reason = "each is the type of that name in onnx.proto")]
pub mod data_type {
    pub const UNDEFINED: i32 = 0;
    pub const FLOAT: i32 = 1;
    pub const UINT8: i32 = 2;
    pub const INT8: i32 = 3;
    pub const UINT16: i32 = 4;
    pub const INT16: i32 = 5;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const STRING: i32 = 8;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const DOUBLE: i32 = 11;
    pub const UINT32: i32 = 12;
    pub const UINT64: i32 = 13;
    pub const BFLOAT16: i32 = 16;
}

message! {
    /// A constant, most elements of which are zero.
    SparseTensorProto {
        /// The others, one axis; its name is the tensor's.
        1 values: Option<Box<TensorProto<'a>>>,
        /// Where they stand: flat positions `[n]`, or coordinates `[n, rank]`.
        2 indices: Option<Box<TensorProto<'a>>>,
        /// Extent of every axis of the whole tensor, zeros included.
        3 dims: Vec<i64>,
    }
}

message! {
    /// A value and its type.
    ValueInfoProto {
        /// Name of the value, by which nodes read or make it.
        1 name: Option<Text<'a>>,
        /// Element type and shape, as far as the file states them.
        2 r#type: Option<Box<TypeProto<'a>>>,
        /// Text for people about the value; nothing depends on it.
        3 doc_string: Option<Text<'a>>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        4 metadata_props: Vec<StringStringEntryProto<'a>>,
    }
}

message! {
    /// The type of a value; one field is set.
    TypeProto {
        /// Set for a dense tensor: its element type and shape.
        1 tensor_type: Option<Box<TensorTypeProto<'a>>>,
        /// A sequence; what of is kept as bytes, for sequences are refused.
        4 sequence_type: Option<Bytes<'a>>,
        /// A map, as bytes.
        5 map_type: Option<Bytes<'a>>,
        /// What the value means, for example `IMAGE`.
        6 denotation: Option<Text<'a>>,
        /// A sparse tensor, as bytes.
        8 sparse_tensor_type: Option<Bytes<'a>>,
        /// A value that may be missing, as bytes.
        9 optional_type: Option<Bytes<'a>>,
    }
}

message! {
    /// Element type and shape.
    TensorTypeProto {
        /// One of the constants in [`data_type`].
        1 elem_type: Option<i32>,
        /// Shape; missing where even the number of axes is unknown.
        2 shape: Option<Box<TensorShapeProto<'a>>>,
    }
}

message! {
    /// The shape of a tensor: its number of axes, and what is known of each.
    TensorShapeProto {
        /// One entry for every axis, outermost first; none for a scalar.
        1 dim: Vec<DimensionProto<'a>>,
    }
}

message! {
    /// One axis: an extent, a name, or nothing.
    DimensionProto {
        /// The extent, where it is fixed.
        1 dim_value: Option<i64>,
        /// Name of an extent that is open, such as `batch`; equal names mean equal extents.
        2 dim_param: Option<Text<'a>>,
        /// What the axis means, for example `DATA_BATCH`.
        3 denotation: Option<Text<'a>>,
    }
}

message! {
    /// An operator made of nodes.
    FunctionProto {
        /// Name; nodes call it as their operator.
        1 name: Option<Text<'a>>,
        /// Names of the formal operands.
        4 input: Vec<Text<'a>>,
        /// Names of the formal results.
        5 output: Vec<Text<'a>>,
        /// Names of the parameters a call must give.
        6 attribute: Vec<Text<'a>>,
        /// What a call stands for: nodes between the formal operands and results.
        7 node: Vec<NodeProto<'a>>,
        /// Text for people about the function; nothing depends on it.
        8 doc_string: Option<Text<'a>>,
        /// Which version of which operators the body means.
        9 opset_import: Vec<OperatorSetIdProto<'a>>,
        /// Domain that nodes call the function by, beside its name.
        10 domain: Option<Text<'a>>,
        /// Parameters with a default value.
        11 attribute_proto: Vec<AttributeProto<'a>>,
        /// Types of values in the body.
        12 value_info: Vec<ValueInfoProto<'a>>,
        /// Which function of that name.
        13 overload: Option<Text<'a>>,
        /// Key-value pairs that programs add for themselves; `onnx.proto` gives none a meaning.
        14 metadata_props: Vec<StringStringEntryProto<'a>>,
    }
}

/// A missing text is an empty one.
pub fn text<'t>(field: &'t Option<Text<'_>>) -> &'t str {
    field.as_deref().unwrap_or_default()
}

impl<'a> ModelProto<'a> {
    /// Reads a model. Text and bytes borrow `bytes`.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Wire`] if `bytes` are not a model; [`ProtoError::LfsPointer`] if they only say
    /// where it is; [`ProtoError::Memory`] if it unfolds to far more than its size.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ProtoError> {
        if bytes.starts_with(LFS_POINTER) {
            return Err(ProtoError::LfsPointer);
        }
        let mut budget = ReadBudget::new(bytes.len().saturating_add(UNFOLD_BYTES));
        let mut model = Self::default();
        model.merge(bytes, 0, &mut budget, 0)?;
        Ok(model)
    }

    /// The bytes of a file that holds this model; fields are written in ascending order.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.write(&mut out);
        out
    }
}

/// How a pointer of Git LFS begins (git-lfs, docs/spec.md).
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// What the messages of a file may take beyond the file's size. 100,000 nodes with
/// their attributes take that much; growing lists may briefly hold three times it.
const UNFOLD_BYTES: usize = 256 << 20;
