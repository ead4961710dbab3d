//! Models as files, with large constants in a second one.
//!
//! ```text
//! constants up to 1.9 GB    net.onnx
//! beyond                    net.onnx + net.onnx.data, elements at multiples of 64 bytes
//! ```
//!
//! Each file is written under a temporary name and renamed when it is whole, the
//! constants first, so a new model is never there without its constants. Where both are replaced, the old model has
//! the new constants for a moment.

use std::io::Write;
use std::path::Path;

use super::graph::constant_bytes;
use super::model::{MAX_INLINE_BYTES, to_model};
use crate::ModelError;
use crate::file::error::OnnxError;
use crate::file::tensors::{number_of, raw_bytes, write_tensor};
use crate::graph::Graph;
use crate::tensor::Tensor;
use spark_onnx_proto::TensorProto;

/// Constants up to this size stay in the model: they are shapes and the like, which
/// tools want to see without a second file.
const SMALL_BYTES: usize = 1024;

/// Where elements start in the second file.
const ALIGNMENT: u64 = 64;

/// Writes a graph as an ONNX file, with the constants in a second file `<path>.data` if
/// they take more than 1.9 GB. What stands at `path` is replaced as a whole or not at all.
///
/// # Errors
///
/// [`ModelError::Io`] if a file cannot be written; otherwise as [`super::to_bytes`].
pub fn save(graph: &Graph, path: &Path) -> Result<(), ModelError> {
    save_with_limit(graph, path, MAX_INLINE_BYTES)
}

/// Writes the bytes of a file, from [`super::to_bytes`] or [`crate::file::replace_constants`].
/// What stands at `path` is replaced as a whole or not at all.
///
/// # Errors
///
/// [`ModelError::Io`] if the file cannot be written.
pub fn save_bytes(bytes: &[u8], path: &Path) -> Result<(), ModelError> {
    write_file(path, |file| file.write_all(bytes))
}

pub(super) fn save_with_limit(
    graph: &Graph,
    path: &Path,
    max_inline_bytes: usize,
) -> Result<(), ModelError> {
    let no_name = || OnnxError::NoFileName(path.to_owned());
    let file_name = path.file_name().ok_or_else(no_name)?;
    if constant_bytes(graph) <= max_inline_bytes {
        let model = to_model(graph, &mut |name, tensor| Ok(write_tensor(name, tensor)))?;
        return save_bytes(&model.encode(), path);
    }
    let location = format!("{}.data", file_name.to_str().ok_or_else(no_name)?);
    let data_path = path.with_file_name(&location);
    let mut end = 0;
    let model = to_model(graph, &mut |name, tensor| {
        if tensor.size_bytes() <= SMALL_BYTES {
            return Ok(write_tensor(name, tensor));
        }
        let start = u64::next_multiple_of(end, ALIGNMENT);
        end = start + tensor.size_bytes() as u64;
        Ok(reference(name, tensor, &location, start))
    })?;
    write_file(&data_path, |file| {
        let mut position = 0;
        let constants = graph.values.iter().filter_map(|v| v.constant.as_deref());
        for tensor in constants.filter(|t| t.size_bytes() > SMALL_BYTES) {
            let start = u64::next_multiple_of(position, ALIGNMENT);
            file.write_all(&[0; ALIGNMENT as usize][..(start - position) as usize])?;
            file.write_all(&raw_bytes(tensor))?;
            position = start + tensor.size_bytes() as u64;
        }
        Ok(())
    })?;
    save_bytes(&model.encode(), path)
}

/// A constant whose elements stand in the file `location`.
fn reference<'g>(name: &'g str, tensor: &Tensor, location: &str, start: u64) -> TensorProto<'g> {
    TensorProto {
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        data_type: Some(number_of(tensor.dtype())),
        name: Some(name.into()),
        ..TensorProto::stored_beside(location, start, tensor.size_bytes())
    }
}

/// Writes a file whole or not at all.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), ModelError> {
    spark_files::write_with(path, write).map_err(|source| ModelError::Io {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::load;
    use crate::graph::{Dim, Gemm, Op};
    use crate::tensor::DType;

    fn two_layers() -> Graph {
        let mut graph = Graph::default();
        let mut x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(19)]);
        for layer in 0..2 {
            let values = (0..361).map(|i| (i * (layer + 2)) as f32).collect();
            let weights = Tensor::from_f32([19, 19], values).expect("fills its shape");
            let w = graph.add_constant(format!("w{layer}"), weights);
            let bias = Tensor::from_f32([19], vec![layer as f32; 19]).expect("fills its shape");
            let b = graph.add_constant(format!("b{layer}"), bias);
            let gemm = Op::Gemm(Gemm {
                alpha: 1.0,
                beta: 1.0,
                trans_a: false,
                trans_b: false,
            });
            x = graph.add_node(format!("y{layer}"), gemm, &[Some(x), Some(w), Some(b)]);
        }
        graph.outputs.push(x);
        graph
    }

    fn constants(graph: &Graph) -> Vec<(String, Tensor)> {
        let constants = graph.values.iter();
        constants
            .filter_map(|v| Some((v.name.clone(), v.constant.as_deref()?.clone())))
            .collect()
    }

    #[test]
    fn large_constants_go_to_a_second_file_and_come_back() {
        let folder = std::env::temp_dir().join(format!("spark-save-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("net.onnx");
        let graph = two_layers();
        save_with_limit(&graph, &path, 1000).expect("writes");
        let again = load(&path).expect("reads");
        assert_eq!(constants(&again), constants(&graph));
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .expect("a folder")
            .map(|f| f.expect("an entry").file_name())
            .collect();
        files.sort();
        assert_eq!(files, ["net.onnx", "net.onnx.data"]);
        // Two tensors of 1444 bytes, the second at a multiple of 64.
        let size = std::fs::metadata(folder.join("net.onnx.data"));
        assert_eq!(size.expect("a file").len(), 1472 + 1444);
        std::fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("spark-none-{}", std::process::id()));
        let error = save(&two_layers(), &folder.join("net.onnx")).expect_err("no folder");
        assert!(matches!(error, ModelError::Io { .. }), "{error}");
        assert!(!folder.exists());
    }
}
