//! An `.npy` file: one tensor.
//!
//! ```text
//! "\x93NUMPY"  major  minor  length of the header (2 bytes, from version 2 on 4)  header  elements
//! ```

use spark_onnx::tensor::{Tensor, checked_elements};

use crate::element_bytes::{bytes_of, data_of};

use super::header::{Header, MOST_AXES, MOST_BYTES, descr};

/// How an `.npy` file begins.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers end at such a multiple, so that elements are aligned.
const ALIGNMENT: usize = 64;

/// The tensor of a file.
///
/// # Errors
///
/// Why it is none, in words.
pub(crate) fn read(bytes: &[u8]) -> Result<Tensor, String> {
    let cut = || "it ends within its header".to_owned();
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or("it does not begin as an .npy file does")?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => return Err(format!("its version is {other}; 1 to 3 are read")),
    };
    if length > MOST_BYTES {
        return Err(format!(
            "its header has {length} bytes, at most {MOST_BYTES} are read"
        ));
    }
    let (header, elements) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = str::from_utf8(header).map_err(|_| "its header is no text")?;
    let header = Header::parse(header)?;
    tensor_of(&header, elements)
}

fn tensor_of(header: &Header, bytes: &[u8]) -> Result<Tensor, String> {
    let (shape, width) = (&header.shape, header.dtype.size_bytes());
    let n = checked_elements(shape);
    let wanted = n.and_then(|n| n.checked_mul(width));
    if wanted != Some(bytes.len()) {
        let got = bytes.len();
        return Err(format!(
            "it has {got} bytes of elements, which {shape:?} of {} does not take",
            header.dtype
        ));
    }
    // Bytes as numbers of this order, in the order of rows.
    let mut owned = bytes.to_vec();
    if header.is_big_endian {
        owned.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    if header.is_fortran && !owned.is_empty() {
        owned = by_rows(&owned, shape, width);
    }
    let data = data_of(header.dtype, &owned);
    Tensor::new(shape.clone(), data).map_err(|error| error.to_string())
}

/// Elements that stand column by column, row by row. None of `shape` is 0 where there are bytes.
fn by_rows(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut strides = vec![1; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut position = vec![0; shape.len()];
    let mut sorted = Vec::with_capacity(bytes.len());
    while sorted.len() < bytes.len() {
        let from: usize = position
            .iter()
            .zip(&strides)
            .map(|(at, stride)| at * stride)
            .sum();
        sorted.extend_from_slice(&bytes[from * width..(from + 1) * width]);
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            if position[axis] < shape[axis] {
                break;
            }
            position[axis] = 0;
        }
    }
    sorted
}

/// A file of `tensor`, of version 1.0.
///
/// # Errors
///
/// More axes than are read again.
pub(crate) fn write(tensor: &Tensor) -> Result<Vec<u8>, String> {
    let n_axes = tensor.shape().len();
    if n_axes > MOST_AXES {
        return Err(format!("{n_axes} axes are more than {MOST_AXES}"));
    }
    let (descr, elements) = match (descr(tensor.dtype()), tensor.data()) {
        (Some(descr), data) => (descr, bytes_of(data)),
        (None, _) => {
            let wide = tensor.to_f64().into_iter().map(|value| value as f32);
            ("<f4".to_owned(), wide.flat_map(f32::to_le_bytes).collect())
        }
    };
    let text = Header::text(&descr, tensor.shape());
    let before = MAGIC.len() + 4;
    let length = (before + text.len() + 1).next_multiple_of(ALIGNMENT) - before;
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    // So many axes of 20 digits each make no header longer than 64 KiB.
    file.extend((length as u16).to_le_bytes());
    file.extend(format!("{text:<width$}\n", width = length - 1).into_bytes());
    file.extend(elements);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spark_onnx::tensor::DType;

    fn written(tensor: &Tensor) -> Vec<u8> {
        write(tensor).expect("few axes")
    }

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(elements);
        file
    }

    #[test]
    fn every_type_survives_a_round_trip() {
        for &dtype in &DType::ALL {
            for shape in [vec![2, 3], vec![6], vec![1, 6, 1]] {
                let values = vec![0.0, 1.0, 1.0, 0.0, 1.0, 0.0];
                let tensor = Tensor::from_f64(dtype, shape, values).expect("six values");
                let file = written(&tensor);
                let back = read(&file).expect("own file");
                assert_eq!(
                    (back.shape(), back.to_f64()),
                    (tensor.shape(), tensor.to_f64())
                );
                let kept = if dtype == DType::BF16 {
                    DType::F32
                } else {
                    dtype
                };
                assert_eq!(back.dtype(), kept);
            }
        }
        let none = Tensor::zeros(DType::F32, [0, 4]).expect("no values");
        assert_eq!(read(&written(&none)).expect("own file"), none);
        let one = Tensor::from_f32([], vec![2.5]).expect("one value");
        assert_eq!(read(&written(&one)).expect("own file"), one);
        let file = written(&one);
        assert_eq!((file.len() - 4) % ALIGNMENT, 0, "elements are aligned");
    }

    #[test]
    fn other_orders_are_turned() {
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}";
        // Columns 0 1 2 of rows 0 and 1 with 10 r + c.
        let columns = [0u16, 10, 1, 11, 2, 12].map(u16::to_be_bytes).concat();
        let tensor = read(&file(header, &columns)).expect("a file");
        assert_eq!(tensor.to_f64(), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = written(&Tensor::from_f32([4], vec![1.0; 4]).expect("four"));
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(read(&long).is_err());
        let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}";
        assert!(
            read(&file(huge, &[]))
                .unwrap_err()
                .contains("bytes of elements")
        );
        let huge = "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 18446744073709551615)}";
        assert!(read(&file(huge, &[])).is_err());
        let mut other = good.clone();
        other[6] = 9;
        assert!(read(&other).unwrap_err().contains("version is 9"));
        other[6] = 2;
        assert!(read(&other).unwrap_err().contains("header has"));
    }

    #[test]
    fn more_axes_than_are_read_are_not_written() {
        let of = |n_axes: usize| Tensor::from_f32(vec![1; n_axes], vec![2.5]).expect("one element");
        assert_eq!(read(&written(&of(64))).expect("own file"), of(64));
        for n_axes in [65, 30_000, 200_000] {
            let told = write(&of(n_axes)).expect_err("not written");
            assert!(told.contains("axes are more than 64"), "{told}");
        }
    }
}
