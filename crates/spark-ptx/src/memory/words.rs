//! Memory that every lane has of its own: local memory and parameters of calls.
//!
//! ```text
//! word 0   lane 0 | lane 1 | … | lane 31      lanes that use one offset, which is the rule, find
//! word 1   lane 0 | lane 1 | … | lane 31      their values side by side, as on the card
//! page     64 words, made when one of them is first written: room that nobody uses takes nothing
//! ```

/// Words of a page.
const PAGE_WORDS: usize = 64;

/// Words of 32 lanes, and which of their bytes were written.
#[derive(Debug)]
struct Page {
    rows: [[u32; 32]; PAGE_WORDS],
    written: [[u8; 32]; PAGE_WORDS],
}

/// Words of 32 lanes.
#[derive(Debug, Default)]
pub(crate) struct LaneWords {
    n_words: usize,
    pages: Vec<Option<Box<Page>>>,
}

impl LaneWords {
    /// Makes room for so many bytes of each lane.
    pub(crate) fn reserve(&mut self, len_bytes: u32) {
        let n = len_bytes.div_ceil(4) as usize;
        if self.n_words < n {
            self.n_words = n;
            self.pages.resize_with(n.div_ceil(PAGE_WORDS), || None);
        }
    }

    /// A word of all lanes and its written bytes, if its page was made.
    #[inline]
    fn word(&self, idx: usize) -> Option<(&[u32; 32], &[u8; 32])> {
        let page = self.pages.get(idx / PAGE_WORDS)?.as_ref()?;
        let at = idx % PAGE_WORDS;
        Some((&page.rows[at], &page.written[at]))
    }

    /// A word of all lanes and its written bytes, to be changed; none where there is no room.
    #[inline]
    fn made(&mut self, idx: usize) -> Option<(&mut [u32; 32], &mut [u8; 32])> {
        if idx >= self.n_words {
            return None;
        }
        let page = self.pages[idx / PAGE_WORDS].get_or_insert_with(|| {
            Box::new(Page {
                rows: [[0; 32]; PAGE_WORDS],
                written: [[0; 32]; PAGE_WORDS],
            })
        });
        let at = idx % PAGE_WORDS;
        Some((&mut page.rows[at], &mut page.written[at]))
    }

    /// Forgets what lanes have written in a stretch: it is another frame's now.
    pub(crate) fn forget(&mut self, offset: u32, len_bytes: u32, mask: u32) {
        let first = offset as usize / 4;
        let end = ((offset + len_bytes).div_ceil(4) as usize).min(self.n_words);
        let mut idx = first;
        while idx < end {
            let Some(page) = &mut self.pages[idx / PAGE_WORDS] else {
                idx = (idx / PAGE_WORDS + 1) * PAGE_WORDS;
                continue;
            };
            for (lane, bits) in page.written[idx % PAGE_WORDS].iter_mut().enumerate() {
                if mask >> lane & 1 != 0 {
                    *bits = 0;
                }
            }
            idx += 1;
        }
    }

    /// Forgets that a lane has written a byte.
    pub(crate) fn forget_byte(&mut self, lane: usize, offset: u32) {
        let idx = offset as usize / 4;
        if let Some(Some(page)) = self.pages.get_mut(idx / PAGE_WORDS) {
            page.written[idx % PAGE_WORDS][lane] &= !(1 << (offset % 4));
        }
    }

    /// A word of all lanes, if the lanes have written all of it.
    pub(crate) fn row(&self, offset: u32, mask: u32) -> Option<&[u32; 32]> {
        let (row, written) = self.word(offset as usize / 4)?;
        let complete = written
            .iter()
            .enumerate()
            .all(|(lane, bits)| *bits == 15 || mask >> lane & 1 == 0);
        complete.then_some(row)
    }

    /// Stores a word of the lanes of a mask.
    pub(crate) fn set_row(&mut self, offset: u32, values: &[u32; 32], mask: u32) {
        let Some((row, written)) = self.made(offset as usize / 4) else {
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
            let word = self.word(idx);
            word.map_or((0, 0), |(row, written)| (row[lane], written[lane]))
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
        if idx + usize::from(size == 8) >= self.n_words {
            return;
        }
        if size == 8
            && let Some((row, written)) = self.made(idx + 1)
        {
            row[lane] = (value >> 32) as u32;
            written[lane] = 15;
        }
        let Some((row, written)) = self.made(idx) else {
            return;
        };
        if size >= 4 {
            row[lane] = value as u32;
            written[lane] = 15;
            return;
        }
        let shift = 8 * (offset % 4);
        let keep = !(((1u32 << (8 * size)) - 1) << shift);
        row[lane] = row[lane] & keep | ((value as u32) << shift) & !keep;
        written[lane] |= (((1u16 << size) - 1) << (offset % 4)) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::{LaneWords, PAGE_WORDS};

    #[test]
    fn room_takes_nothing_before_it_is_written() {
        let mut words = LaneWords::default();
        words.reserve(512 << 10);
        let n_made = |words: &LaneWords| words.pages.iter().flatten().count();
        assert_eq!(words.load(3, 400_000, 8), (0, false));
        assert!(words.row(1024, 1).is_none());
        words.forget(0, 512 << 10, u32::MAX);
        assert_eq!((words.pages.len(), n_made(&words)), (2048, 0));
        // The last word of a page and the first of the next.
        let offset = 4 * PAGE_WORDS as u32 - 4;
        words.store(3, offset, 8, 0x1122_3344_5566_7788);
        assert_eq!(n_made(&words), 2);
        assert_eq!(words.load(3, offset, 8), (0x1122_3344_5566_7788, true));
        assert_eq!(words.load(2, offset, 8), (0, false));
        words.set_row((512 << 10) - 4, &[7; 32], 1 << 5);
        words.set_row(512 << 10, &[7; 32], 1 << 5);
        words.store(0, (512 << 10) - 4, 8, 1);
        assert_eq!(n_made(&words), 3);
        assert_eq!(words.load(5, (512 << 10) - 4, 4), (7, true));
        words.forget(offset, 4, 1 << 3);
        assert_eq!(words.load(3, offset, 4), (0x5566_7788, false));
        assert_eq!(words.load(3, offset + 4, 4), (0x1122_3344, true));
    }
}
