//! What a log is compressed with.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// What a log is compressed with. Names of files do not say so: the first bytes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// It is not.
    None,
    /// One or more bzip2 streams.
    Bzip2,
    /// One or more zstd frames.
    Zstd,
}

impl Compression {
    /// What data that begins like this is compressed with.
    pub fn of(beginning: &[u8]) -> Self {
        match beginning {
            [b'B', b'Z', b'h', ..] => Self::Bzip2,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Decompresses what is read.
    ///
    /// # Errors
    ///
    /// Reading's; [`io::ErrorKind::InvalidData`] for data that begins as if it were compressed and is not.
    pub fn reader<'a>(
        from: impl Read + Send + 'a,
    ) -> io::Result<(Self, Box<dyn Read + Send + 'a>)> {
        let mut from = BufReader::with_capacity(1 << 16, from);
        let mut beginning = [0; 4];
        let got = read_up_to(&mut from, &mut beginning)?;
        let compression = Self::of(&beginning[..got]);
        let whole = Cursor::new(beginning).take(got as u64).chain(from);
        let whole = BufReader::with_capacity(1 << 16, whole);
        let reader: Box<dyn Read + Send + 'a> = match compression {
            Self::None => Box::new(whole),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(whole)),
            Self::Zstd => Box::new(ZstdFrames {
                from: whole,
                frame: FrameDecoder::new(),
                state: State::Between,
            }),
        };
        Ok((compression, reader))
    }
}

/// Reads until the buffer is full or nothing more comes.
fn read_up_to(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match from.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No frame has begun.
    Between,
    Within,
    /// Something was wrong; nothing more comes.
    Over,
}

/// zstd frames, one after the other, to the end of the input.
struct ZstdFrames<R> {
    from: R,
    frame: FrameDecoder,
    state: State,
}

impl<R: BufRead> ZstdFrames<R> {
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.state == State::Over {
                return Ok(0);
            }
            if self.state == State::Between {
                if self.from.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.frame.reset(&mut self.from).map_err(invalid)?;
                self.state = State::Within;
            }
            if self.frame.can_collect() == 0 && !self.frame.is_finished() {
                // A block at a time: what is decoded ahead is bounded by the frame's window.
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame
                    .decode_blocks(&mut self.from, one)
                    .map_err(invalid)?;
            }
            let got = self.frame.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            if self.frame.is_finished() {
                self.state = State::Between;
            }
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.step(buffer);
        if result.is_err() {
            self.state = State::Over;
        }
        result
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
