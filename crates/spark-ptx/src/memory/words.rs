//! Memory that every lane has of its own: local memory and parameters of calls.
//!
//! ```text
//! word 0   lane 0 | lane 1 | … | lane 31      lanes that use one offset, which is the rule, find
//! word 1   lane 0 | lane 1 | … | lane 31      their values side by side, as on the card
//! ```

/// Words of 32 lanes, and which of their bytes were written.
#[derive(Debug, Default)]
pub(crate) struct LaneWords {
    rows: Vec<[u32; 32]>,
    written: Vec<[u8; 32]>,
}

impl LaneWords {
    /// Makes room for so many bytes of each lane.
    pub(crate) fn reserve(&mut self, len_bytes: u32) {
        let n = len_bytes.div_ceil(4) as usize;
        if self.rows.len() < n {
            self.rows.resize(n, [0; 32]);
            self.written.resize(n, [0; 32]);
        }
    }

    /// Forgets what lanes have written in a stretch: it is another frame's now.
    pub(crate) fn forget(&mut self, offset: u32, len_bytes: u32, mask: u32) {
        let first = offset as usize / 4;
        let end = (offset + len_bytes).div_ceil(4) as usize;
        for written in self.written.iter_mut().take(end).skip(first) {
            for (lane, bits) in written.iter_mut().enumerate() {
                if mask >> lane & 1 != 0 {
                    *bits = 0;
                }
            }
        }
    }

    /// A word of all lanes, if the lanes have written all of it.
    pub(crate) fn row(&self, offset: u32, mask: u32) -> Option<&[u32; 32]> {
        let idx = offset as usize / 4;
        let written = self.written.get(idx)?;
        let complete = written
            .iter()
            .enumerate()
            .all(|(lane, bits)| *bits == 15 || mask >> lane & 1 == 0);
        if complete { self.rows.get(idx) } else { None }
    }

    /// Stores a word of the lanes of a mask.
    pub(crate) fn set_row(&mut self, offset: u32, values: &[u32; 32], mask: u32) {
        let idx = offset as usize / 4;
        let (Some(row), Some(written)) = (self.rows.get_mut(idx), self.written.get_mut(idx)) else {
            return;
        };
        for lane in 0..32 {
            if mask >> lane & 1 != 0 {
                row[lane] = values[lane];
                written[lane] = 15;
            }
        }
    }

    /// 1, 2, 4 or 8 bytes of a lane at a multiple of their number, and whether they were written.
    pub(crate) fn load(&self, lane: usize, offset: u32, size: u8) -> (u64, bool) {
        let word = |idx: usize| {
            let value = self.rows.get(idx).map_or(0, |row| row[lane]);
            let written = self.written.get(idx).map_or(0, |row| row[lane]);
            (value, written)
        };
        let idx = offset as usize / 4;
        let (value, written) = word(idx);
        match size {
            8 => {
                let (high, high_written) = word(idx + 1);
                let value = u64::from(value) | u64::from(high) << 32;
                (value, written & high_written == 15)
            }
            4 => (u64::from(value), written == 15),
            _ => {
                let first = offset % 4;
                let bits = ((1u16 << size) - 1) as u8;
                let value = value >> (8 * first) & ((1u32 << (8 * size)) - 1);
                (u64::from(value), written >> first & bits == bits)
            }
        }
    }

    /// Stores 1, 2, 4 or 8 bytes of a lane at a multiple of their number.
    pub(crate) fn store(&mut self, lane: usize, offset: u32, size: u8, value: u64) {
        let idx = offset as usize / 4;
        if idx + usize::from(size == 8) >= self.rows.len() {
            return;
        }
        match size {
            8 => {
                self.rows[idx][lane] = value as u32;
                self.rows[idx + 1][lane] = (value >> 32) as u32;
                self.written[idx][lane] = 15;
                self.written[idx + 1][lane] = 15;
            }
            4 => {
                self.rows[idx][lane] = value as u32;
                self.written[idx][lane] = 15;
            }
            _ => {
                let shift = 8 * (offset % 4);
                let keep = !(((1u32 << (8 * size)) - 1) << shift);
                let row = &mut self.rows[idx][lane];
                *row = *row & keep | ((value as u32) << shift) & !keep;
                self.written[idx][lane] |= (((1u16 << size) - 1) << (offset % 4)) as u8;
            }
        }
    }
}
