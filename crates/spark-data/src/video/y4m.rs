//! The YUV4MPEG2 stream that decoders write: a line of what all pictures are, then each behind a line.
//!
//! ```text
//! YUV4MPEG2 W526 H330 F20:1 Ip A0:0 C420mpeg2 XYSCSS=420MPEG2\n
//! FRAME\n  Y bytes, U bytes, V bytes
//! FRAME\n  …
//! ```
//!
//! Source: yuv4mpeg(5) of mjpegtools. A stream that says nothing of its chroma has 4:2:0. Where the chroma lies between pixels (`jpeg`,
//! `mpeg2`, `paldv`) changes no byte and is not kept.

use std::io::{self, BufRead, Read};

use super::planes::{PictureSize, Yuv420};

const MAGIC: &[u8] = b"YUV4MPEG2";
/// A line of parameters is longer in no stream that means well.
const LONGEST_LINE: u64 = 4096;
/// Pixels along a side: more than any camera has.
const LARGEST_SIDE: usize = 1 << 14;

/// Why bytes are no stream of pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Y4mError {
    /// It begins otherwise.
    #[error("it is no YUV4MPEG2 stream: it begins with `{begins}`")]
    NotY4m {
        /// The first bytes, as text.
        begins: String,
    },
    /// A line of parameters that is cut, or has no end within 4096 bytes.
    #[error("a line of parameters has no end")]
    EndlessLine,
    /// A width or height that is missing, no number, zero, or more than 16384.
    #[error("the {what} is `{got}`, not 1 to 16384")]
    Side {
        /// Which.
        what: &'static str,
        /// What stands there.
        got: String,
    },
    /// Other pixels than 4:2:0 of eight bits.
    #[error("its pixels are `{got}`; only 4:2:0 of eight bits is read")]
    Chroma {
        /// As the stream names them.
        got: String,
    },
    /// Something else stands where a picture begins.
    #[error("picture {index} begins with `{begins}`")]
    NotPicture {
        /// Which, from 0.
        index: u64,
        /// The line that stands there.
        begins: String,
    },
    /// The stream ends inside a picture.
    #[error("picture {index} ends after {got} of {want} bytes")]
    Cut {
        /// Which, from 0.
        index: u64,
        /// Bytes that are there.
        got: usize,
        /// Bytes that a picture has.
        want: usize,
    },
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Pictures of a stream, in order.
#[derive(Debug)]
pub struct Y4mReader<R> {
    stream: R,
    size: PictureSize,
    n_read: u64,
}

impl<R: BufRead> Y4mReader<R> {
    /// Reads what all pictures are. A stream without a byte has none: `None`.
    ///
    /// # Errors
    ///
    /// [`Y4mError`].
    pub fn new(mut stream: R) -> Result<Option<Self>, Y4mError> {
        let line = line(&mut stream)?;
        if line.is_empty() {
            return Ok(None);
        }
        let mut words = line.split(|byte| *byte == b' ');
        if words.next() != Some(MAGIC) {
            return Err(Y4mError::NotY4m {
                begins: shortened(&line),
            });
        }
        let (mut width, mut height) = (&b""[..], &b""[..]);
        const CHROMA: [&[u8]; 4] = [b"420", b"420jpeg", b"420mpeg2", b"420paldv"];
        for word in words {
            match word {
                [b'W', value @ ..] if width.is_empty() => width = value,
                [b'H', value @ ..] if height.is_empty() => height = value,
                [b'C', value @ ..] if !CHROMA.contains(&value) => {
                    let got = shortened(value);
                    return Err(Y4mError::Chroma { got });
                }
                [b'W' | b'H', ..] => {
                    return Err(Y4mError::Side {
                        what: "second size",
                        got: shortened(word),
                    });
                }
                _ => {}
            }
        }
        let side = |what, got: &[u8]| {
            // At most five digits: the largest side has no more.
            let is_number = got.len() <= 5 && got.iter().all(u8::is_ascii_digit);
            let digits = got
                .iter()
                .map(|digit| usize::from(digit.wrapping_sub(b'0')));
            match digits.take(5).fold(0, |number, digit| 10 * number + digit) {
                side if is_number && (1..=LARGEST_SIDE).contains(&side) => Ok(side),
                _ => Err(Y4mError::Side {
                    what,
                    got: shortened(got),
                }),
            }
        };
        let size = PictureSize {
            width: side("width", width)?,
            height: side("height", height)?,
        };
        Ok(Some(Self {
            stream,
            size,
            n_read: 0,
        }))
    }

    /// Size of every picture.
    pub fn size(&self) -> PictureSize {
        self.size
    }

    /// The next picture; false at the end, with `picture` as it was.
    ///
    /// # Errors
    ///
    /// [`Y4mError`]; what `picture` holds then is unspecified.
    pub fn read(&mut self, picture: &mut Yuv420) -> Result<bool, Y4mError> {
        let line = line(&mut self.stream)?;
        if line.is_empty() {
            return Ok(false);
        }
        let index = self.n_read;
        if line != b"FRAME" && !line.starts_with(b"FRAME ") {
            let begins = shortened(&line);
            return Err(Y4mError::NotPicture { index, begins });
        }
        let bytes = picture.resize(self.size);
        let mut got = 0;
        while got < bytes.len() {
            match self.stream.read(&mut bytes[got..]) {
                Ok(0) => {
                    let want = bytes.len();
                    return Err(Y4mError::Cut { index, got, want });
                }
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.n_read += 1;
        Ok(true)
    }
}

/// The bytes up to the end of a line, which is taken off; none at the end of the stream.
fn line(stream: &mut impl BufRead) -> Result<Vec<u8>, Y4mError> {
    let mut line = Vec::new();
    stream
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(line),
        Some(b'\n') => {
            line.pop();
            // An empty line is no end: it is nothing that a picture begins with.
            if line.is_empty() {
                line.push(b' ');
            }
            Ok(line)
        }
        Some(_) => Err(Y4mError::EndlessLine),
    }
}

/// The first bytes as text, for a message.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(32)]);
    text.escape_debug().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "YUV4MPEG2 W3 H2 F20:1 Ip A0:0 C420jpeg XYSCSS=420JPEG\n";

    fn all(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Y4mError> {
        let Some(mut reader) = Y4mReader::new(bytes)? else {
            return Ok(Vec::new());
        };
        let mut pictures = Vec::new();
        let mut picture = Yuv420::empty();
        while reader.read(&mut picture)? {
            pictures.push(picture.bytes().to_vec());
        }
        Ok(pictures)
    }

    #[test]
    fn pictures_come_in_order() {
        let one: Vec<u8> = (1..=10).collect();
        let two: Vec<u8> = (11..=20).collect();
        let stream = [HEAD.as_bytes(), b"FRAME\n", &one, b"FRAME Ip\n", &two].concat();
        assert_eq!(all(&stream).unwrap(), [one, two]);
        assert!(all(b"").unwrap().is_empty());
        assert!(all(HEAD.as_bytes()).unwrap().is_empty());
        assert!(
            all(b"YUV4MPEG2 W2 H2\n").unwrap().is_empty(),
            "4:2:0 where nothing is said"
        );
    }

    #[test]
    fn every_cut_says_where() {
        let stream = [HEAD.as_bytes(), b"FRAME\n", &[7; 10], b"FRAME\n", &[8; 10]].concat();
        let first = HEAD.len() + 16;
        for n in 1..stream.len() {
            let got = all(&stream[..n]);
            match got {
                Ok(pictures) => {
                    let wanted = [HEAD.len(), first].iter().position(|at| *at == n);
                    assert_eq!(Some(pictures.len()), wanted, "{n} bytes");
                }
                Err(Y4mError::Cut {
                    index,
                    got,
                    want: 10,
                }) => {
                    let begin = if index == 0 { HEAD.len() } else { first };
                    assert_eq!(got, (n - begin).saturating_sub(6), "{n}");
                }
                Err(error) => assert!(matches!(error, Y4mError::EndlessLine), "{n}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_no_stream_says_why_and_takes_no_memory() {
        let told = |bytes: &[u8]| all(bytes).unwrap_err().to_string();
        assert!(told(b"RIFF....AVI \n").contains("`RIFF....AVI `"));
        for (head, want) in [
            ("W0 H2", "width is `0`"),
            ("W2", "height is ``"),
            ("W16385 H2", "width is `16385`"),
            ("W2 H-3", "height is `-3`"),
            ("W99999999999999999999 H2", "width is `9999"),
            ("W+2 H2", "width is `+2`"),
            ("W2 H2 W3", "second size is `W3`"),
            ("W000000000000000000000000000000526 H2", "width is `0000"),
            ("W2 H2 C422", "`422`"),
            ("W2 H2 C420p10", "`420p10`"),
            ("W2 H2 Cmono", "`mono`"),
        ] {
            let text = told(format!("YUV4MPEG2 {head}\n").as_bytes());
            assert!(text.contains(want), "{head}: {text}");
        }
        let endless = [b"YUV4MPEG2 ".as_slice(), &[b'X'; 10_000]].concat();
        assert!(told(&endless).contains("no end"));
        let other = [HEAD.as_bytes(), b"PICTURE\n"].concat();
        assert!(told(&other).contains("picture 0 begins with `PICTURE`"));
    }
}
