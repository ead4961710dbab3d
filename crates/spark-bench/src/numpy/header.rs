//! The header of an `.npy` file: a Python dictionary of three entries, read without Python.
//!
//! ```text
//! { 'descr' : text , 'fortran_order' : True | False , 'shape' : ( n , n , ) }     any order, blanks anywhere between
//! ```
//!
//! Deliberately absent: every other literal of Python. NumPy writes no others for the types that are read.

use spark_onnx::tensor::DType;

/// Longest header that is read; NumPy itself warns beyond 10,000.
pub(super) const MOST_BYTES: usize = 1 << 16;
/// More axes than NumPy has.
pub(super) const MOST_AXES: usize = 64;

/// What a header says.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    /// Whether the bytes of each element stand with the highest first.
    pub(super) is_big_endian: bool,
    /// Whether the first axis is the one whose elements are neighbours.
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// Types by what NumPy calls them behind the order of their bytes.
const TYPES: [(&str, DType); 12] = [
    ("f8", DType::F64),
    ("f4", DType::F32),
    ("f2", DType::F16),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("b1", DType::Bool),
];

/// What NumPy calls a type of this machine's order of bytes; none for bf16.
pub(super) fn descr(dtype: DType) -> Option<String> {
    let (name, _) = TYPES.iter().find(|(_, known)| *known == dtype)?;
    let order = if name.ends_with('1') { '|' } else { '<' };
    Some(format!("{order}{name}"))
}

impl Header {
    /// Reads the text of a header.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = Rest(text);
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        rest.expect('{')?;
        while !rest.takes('}') {
            let key = rest.quoted()?;
            rest.expect(':')?;
            let is_twice = match key {
                "descr" => descr.replace(rest.quoted()?).is_some(),
                "fortran_order" => is_fortran.replace(rest.truth()?).is_some(),
                "shape" => shape.replace(rest.shape()?).is_some(),
                other => return Err(format!("its header has `{other}`, which is unknown")),
            };
            if is_twice {
                return Err(format!("its header has `{key}` twice"));
            }
            if !rest.takes(',') {
                rest.expect('}')?;
                break;
            }
        }
        if !rest.0.trim().is_empty() {
            return Err("something stands behind its header".to_owned());
        }
        let missing = |what: &str| format!("its header has no `{what}`");
        let descr = descr.ok_or_else(|| missing("descr"))?;
        let (is_big_endian, name) = match descr.split_at_checked(1) {
            Some(("<" | "|" | "=", name)) => (false, name),
            Some((">", name)) => (true, name),
            _ => (false, ""),
        };
        let known = TYPES.iter().find(|(known, _)| *known == name);
        let (_, dtype) = known.ok_or_else(|| format!("element type `{descr}` is not supported"))?;
        Ok(Self {
            dtype: *dtype,
            is_big_endian,
            is_fortran: is_fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// The text for a tensor of this type and shape.
    pub(super) fn text(descr: &str, shape: &[usize]) -> String {
        let axes: String = shape.iter().map(|axis| format!("{axis}, ")).collect();
        // Python writes (3,) and (2, 3), and reads (2, 3, ) as well.
        let axes = axes.trim_end();
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}")
    }
}

/// What of a header has not been read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn takes(&mut self, sign: char) -> bool {
        self.0 = self.0.trim_start();
        let behind = self.0.strip_prefix(sign);
        self.0 = behind.unwrap_or(self.0);
        behind.is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(format!("its header has no `{sign}` where one belongs")),
        }
    }

    /// A text in quotes. None that NumPy writes here has a backslash.
    fn quoted(&mut self) -> Result<&'a str, String> {
        let quote = match (self.takes('\''), self.takes('"')) {
            (true, false) => '\'',
            (false, true) => '"',
            _ => return Err("its header has no text in quotes where one belongs".to_owned()),
        };
        let end = self.0.split_once(quote);
        let (text, behind) = end.ok_or("a text of its header has no end")?;
        self.0 = behind;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.0 = self.0.trim_start();
        for (word, truth) in [("True", true), ("False", false)] {
            if let Some(behind) = self.0.strip_prefix(word) {
                self.0 = behind;
                return Ok(truth);
            }
        }
        Err("its header says neither True nor False where one belongs".to_owned())
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.takes(')') {
            let end = self.0.find(|sign: char| !sign.is_ascii_digit());
            let (digits, behind) = self.0.split_at(end.unwrap_or(self.0.len()));
            let axis = digits.parse();
            shape.push(axis.map_err(|_| format!("`{digits}` is no length of an axis"))?);
            self.0 = behind;
            if shape.len() > MOST_AXES {
                return Err(format!("it has more than {MOST_AXES} axes"));
            }
            if !self.takes(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_numpy_are_read() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n";
        let want = Header {
            dtype: DType::F32,
            is_big_endian: false,
            is_fortran: false,
            shape: vec![2, 3],
        };
        assert_eq!(Header::parse(header), Ok(want));
        let header = "{\"shape\": (), 'fortran_order':True,'descr':'>i8'}";
        let want = Header {
            dtype: DType::I64,
            is_big_endian: true,
            is_fortran: true,
            shape: vec![],
        };
        assert_eq!(Header::parse(header), Ok(want));
        for shape in [&[][..], &[3], &[2, 0, 5]] {
            let read = Header::parse(&Header::text("|u1", shape)).expect("own text");
            assert_eq!((read.dtype, &*read.shape), (DType::U8, shape));
        }
        assert_eq!(
            Header::text("|u1", &[3]),
            "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
        );
    }

    #[test]
    fn other_headers_are_refused_with_why() {
        for (header, why) in [
            ("", "`{`"),
            ("{'descr': '<f4'", "`}`"),
            ("{'descr': '<f4', 'shape': (1,)}", "fortran_order"),
            (
                "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
                "`|O`",
            ),
            (
                "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
                "`<c8`",
            ),
            (
                "{'descr': '', 'fortran_order': False, 'shape': (1,)}",
                "not supported",
            ),
            (
                "{'descr': [('a', '<f4')], 'fortran_order': False}",
                "quotes",
            ),
            ("{'descr': '<f4', 'descr': '<f4'}", "twice"),
            ("{'shape': (-1,)}", "no length"),
            ("{'shape': (99999999999999999999,)}", "no length"),
            ("{'shape': (1 2)}", "`)`"),
            ("{'shape': (1,", "no length"),
            ("{'other': 1}", "`other`"),
            ("{'fortran_order': maybe}", "neither"),
            ("{'descr", "no end"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': ()} more",
                "behind",
            ),
            (
                "{'descr': 'ü4', 'fortran_order': False, 'shape': ()}",
                "not supported",
            ),
        ] {
            let told = Header::parse(header).expect_err(header);
            assert!(told.contains(why), "{header}: {told}");
        }
        let many = format!("{{'shape': ({})}}", "1,".repeat(1000));
        assert!(Header::parse(&many).is_err());
    }
}
