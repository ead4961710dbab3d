//! NumPy's files of one array.
//!
//! ```text
//! 93 "NUMPY" | version | length of the header | a Python dictionary as text | the values
//!              1.0: u16, 2.0 and 3.0: u32       descr, fortran_order, shape
//! ```
//!
//! Source: the format's description in NumPy's documentation (`numpy.lib.format`). Of types, f64, f32, i64, bool and
//! texts of bytes (`|S8`) are read; Python objects, which would be code, are not.

use std::io::Read;
use std::path::Path;

/// Values of an array, in C order: the last index runs fastest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// 64-bit floats; 32-bit ones are widened.
    F64(Vec<f64>),
    /// 64-bit integers; booleans are 0 and 1.
    I64(Vec<i64>),
    /// Texts of so many bytes each, zeros behind shorter ones.
    Bytes {
        /// Bytes of each.
        size: usize,
        /// All of them.
        bytes: Vec<u8>,
    },
}

/// An array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Array {
    /// Extents, the outermost first.
    pub shape: Vec<usize>,
    /// Values.
    pub values: Values,
}

/// Why a file is no array that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It does not begin as NumPy's files do.
    #[error("it is no NumPy array")]
    NoArray,
    /// Its header is not what NumPy writes.
    #[error("its header has no {0} that can be read")]
    Header(&'static str),
    /// Its values are of a type that is not read.
    #[error("its values are `{0}`: f64, f32, i64, bool and texts of bytes are read")]
    Type(String),
    /// It has other bytes than its shape asks for.
    #[error("its shape asks for {wanted} bytes of values, there are {got}")]
    Size {
        /// By its shape.
        wanted: u64,
        /// In the file.
        got: u64,
    },
}

const MAGIC: &[u8] = b"\x93NUMPY";

impl Array {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`NpyError`].
    pub fn open(path: &Path) -> Result<Self, NpyError> {
        let (mut file, n_bytes) = spark_files::open(path)?;
        let mut start = [0; 12];
        let mut got = 0;
        while got < start.len() {
            match file.read(&mut start[got..])? {
                0 => return Err(NpyError::NoArray),
                n => got += n,
            }
        }
        let Some([major, _, rest @ ..]) = start.strip_prefix(MAGIC) else {
            return Err(NpyError::NoArray);
        };
        let (header_bytes, begun): (u64, &[u8]) = match (major, rest) {
            (1, [a, b, begun @ ..]) => (u64::from(u16::from_le_bytes([*a, *b])), begun),
            (2 | 3, [a, b, c, d]) => (u64::from(u32::from_le_bytes([*a, *b, *c, *d])), &[]),
            _ => return Err(NpyError::NoArray),
        };
        // The file bounds what is read, whatever the header says.
        let mut rest = begun.to_vec();
        file.take(n_bytes).read_to_end(&mut rest)?;
        let at = usize::try_from(header_bytes).map_err(|_| NpyError::Header("length"))?;
        let Some((header, values)) = rest.split_at_checked(at) else {
            return Err(NpyError::Header("length"));
        };
        let header = std::str::from_utf8(header).map_err(|_| NpyError::Header("text"))?;
        Self::from_parts(header, values)
    }

    fn from_parts(header: &str, bytes: &[u8]) -> Result<Self, NpyError> {
        let descr = field(header, "descr").ok_or(NpyError::Header("descr"))?;
        let descr = descr.strip_prefix('\'').and_then(|it| it.split_once('\''));
        let descr = descr.ok_or(NpyError::Header("descr"))?.0;
        let order = field(header, "fortran_order").ok_or(NpyError::Header("fortran_order"))?;
        let is_fortran = match () {
            () if order.starts_with("True") => true,
            () if order.starts_with("False") => false,
            () => return Err(NpyError::Header("fortran_order")),
        };
        let shape = field(header, "shape")
            .and_then(shape)
            .ok_or(NpyError::Header("shape"))?;
        let size = match descr {
            "<f8" | "<i8" => 8,
            "<f4" => 4,
            "|b1" => 1,
            other => match other.strip_prefix("|S").and_then(|it| it.parse().ok()) {
                // Texts of no bytes would be any number of them in no file at all.
                Some(size) if size > 0 => size,
                _ => return Err(NpyError::Type(other.to_owned())),
            },
        };
        let wanted = shape
            .iter()
            .try_fold(size as u64, |product, it| product.checked_mul(*it as u64));
        if wanted != Some(bytes.len() as u64) {
            return Err(NpyError::Size {
                wanted: wanted.unwrap_or(u64::MAX),
                got: bytes.len() as u64,
            });
        }
        // Every value has a byte at least, so this is no more than there are bytes.
        let each = (0..bytes.len() / size).map(|index| {
            let place = if is_fortran {
                fortran(&shape, index)
            } else {
                index
            };
            &bytes[place * size..][..size]
        });
        let values = match descr {
            "<f8" => Values::F64(
                each.map(|it| it.try_into().map_or(f64::NAN, f64::from_le_bytes))
                    .collect(),
            ),
            "<f4" => Values::F64(
                each.map(|it| it.try_into().map_or(f32::NAN, f32::from_le_bytes).into())
                    .collect(),
            ),
            "<i8" => Values::I64(
                each.map(|it| it.try_into().map_or(0, i64::from_le_bytes))
                    .collect(),
            ),
            "|b1" => Values::I64(each.map(|it| i64::from(it[0])).collect()),
            _ => Values::Bytes {
                size,
                bytes: each.flatten().copied().collect(),
            },
        };
        Ok(Self { shape, values })
    }
}

/// The text behind `'name':`.
fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{name}':"))?;
    Some(rest.trim_start())
}

/// The numbers of `(1200, 3)`.
fn shape(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let numbers = inside.split(',').map(str::trim).filter(|it| !it.is_empty());
    // More would be no array that anything writes.
    let shape: Vec<usize> = numbers.map(|it| it.parse().ok()).collect::<Option<_>>()?;
    (shape.len() <= 32).then_some(shape)
}

/// Where the element stands whose place in C order is `index`, if the first index runs fastest.
fn fortran(shape: &[usize], index: usize) -> usize {
    let (mut rest, mut place, mut stride) = (index, 0, shape.iter().product::<usize>());
    for extent in shape.iter().rev() {
        stride /= (*extent).max(1);
        place += rest % extent * stride;
        rest /= extent;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_are_read() {
        let bytes: Vec<u8> = (0..6).flat_map(|it| f64::from(it).to_le_bytes()).collect();
        let read = |order: &str| {
            let header = format!("{{'descr': '<f8', 'fortran_order': {order}, 'shape': (2, 3), }}");
            Array::from_parts(&header, &bytes).unwrap().values
        };
        assert_eq!(
            read("False"),
            Values::F64(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        );
        assert_eq!(
            read("True"),
            Values::F64(vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0])
        );
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let refused = |header: &str| Array::from_parts(header, &[0; 8]).unwrap_err().to_string();
        let sized = "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999, 9999999999), }";
        assert!(refused(sized).contains("asks for"));
        let empty = "{'descr': '|S0', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }";
        assert!(refused(empty).contains("`|S0`"));
        assert!(
            refused("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }").contains("`|O`")
        );
        assert!(refused("{'fortran_order': False, 'shape': (1,), }").contains("descr"));
        assert!(
            refused("{'descr': '<f8', 'fortran_order': False, 'shape': (1.5,), }")
                .contains("shape")
        );
        assert!(
            refused("{'descr': '<f8', 'fortran_order': No, 'shape': (1,), }")
                .contains("fortran_order")
        );
    }
}
