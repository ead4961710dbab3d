//! Pictures of 4:2:0 video.

/// Width and height of a picture, pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PictureSize {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl PictureSize {
    /// Pixels of a row of chroma and its rows: half, rounded up.
    pub fn chroma(self) -> Self {
        Self {
            width: self.width.div_ceil(2),
            height: self.height.div_ceil(2),
        }
    }

    /// Bytes of the Y plane.
    pub(crate) fn luma_bytes(self) -> usize {
        self.width.saturating_mul(self.height)
    }

    /// Bytes of the U plane, and of the V plane.
    pub(crate) fn chroma_bytes(self) -> usize {
        let chroma = self.chroma();
        chroma.width.saturating_mul(chroma.height)
    }

    /// Bytes of all three planes; the largest number there is for sizes that no memory holds.
    pub fn bytes(self) -> usize {
        let chroma = self.chroma_bytes().saturating_mul(2);
        self.luma_bytes().saturating_add(chroma)
    }
}

impl std::fmt::Display for PictureSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// A picture: three planes of bytes, rows without padding, one behind another in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yuv420 {
    size: PictureSize,
    bytes: Vec<u8>,
}

impl Yuv420 {
    /// A black picture without pixels, to read into.
    pub fn empty() -> Self {
        Self {
            size: PictureSize {
                width: 0,
                height: 0,
            },
            bytes: Vec::new(),
        }
    }

    /// Planes one behind another: Y, U, V. `None` if there are more or fewer bytes than the size has.
    pub fn from_bytes(size: PictureSize, bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == size.bytes()).then_some(Self { size, bytes })
    }

    /// Takes this size; what the planes hold then is unspecified. They are given to be filled.
    pub(crate) fn resize(&mut self, size: PictureSize) -> &mut [u8] {
        self.size = size;
        self.bytes.resize(size.bytes(), 0);
        &mut self.bytes
    }

    /// Width and height of the Y plane.
    pub fn size(&self) -> PictureSize {
        self.size
    }

    /// Brightness: `height` rows of `width` bytes.
    pub fn y(&self) -> &[u8] {
        &self.bytes[..self.size.luma_bytes()]
    }

    /// Blue difference, rows and columns halved and rounded up.
    pub fn u(&self) -> &[u8] {
        let start = self.size.luma_bytes();
        &self.bytes[start..start + self.size.chroma_bytes()]
    }

    /// Red difference, as [`Yuv420::u`].
    pub fn v(&self) -> &[u8] {
        &self.bytes[self.size.luma_bytes() + self.size.chroma_bytes()..]
    }

    /// All planes: Y, U, V.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chroma_of_odd_sizes_is_rounded_up() {
        let size = PictureSize {
            width: 3,
            height: 5,
        };
        assert_eq!(
            size.chroma(),
            PictureSize {
                width: 2,
                height: 3
            }
        );
        assert_eq!(size.bytes(), 15 + 12);
        let picture = Yuv420::from_bytes(size, (0..27).collect()).unwrap();
        assert_eq!(
            (picture.y()[0], picture.u()[0], picture.v()[0]),
            (0, 15, 21)
        );
        assert_eq!(picture.v().len(), 6);
        assert!(Yuv420::from_bytes(size, vec![0; 26]).is_none());
        let huge = PictureSize {
            width: 1 << 63,
            height: 4,
        };
        assert!(Yuv420::from_bytes(huge, Vec::new()).is_none());
    }
}
