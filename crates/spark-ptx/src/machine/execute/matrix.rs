//! Instructions on matrices: registers and rows go to `crate::tensor` and come back.

use crate::check::FindingKind;
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::Warp;
use crate::memory::SHARED_WINDOW;
use crate::program::{AddressOperand, List, R32, Slot};
use crate::tensor::{self, BlockScales};

impl Warp {
    pub(crate) fn mma(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        form: u32,
        list: List,
        mask: u32,
    ) {
        let form = &launch.program.forms.mma[form as usize];
        let n = form.registers();
        let rows = self.rows_of(launch, launch.program, list);
        let (results, sources) = rows.split_at(n.d);
        let (a, sources) = sources.split_at(n.a);
        let (b, sources) = sources.split_at(n.b);
        let (c, scales) = sources.split_at(n.c);
        let scales = match scales {
            // Which lanes hold scales has to be the same for all: the first lane says it.
            [a, a_byte, a_thread, b, b_byte, b_thread] => Some(BlockScales {
                a: *a,
                a_byte: a_byte[0] as u16,
                a_thread: a_thread[0] as u16,
                b: *b,
                b_byte: b_byte[0] as u16,
                b_thread: b_thread[0] as u16,
            }),
            _ => None,
        };
        let mut d = results.to_vec();
        if let Err(error) = form.execute(a, b, c, scales.as_ref(), launch.target(), &mut d) {
            let what = error.to_string();
            block.report(self, 0, FindingKind::Tensor { what });
            return;
        }
        for (slot, row) in launch.program.list(list).iter().zip(&d) {
            if let Slot::W32(d) = slot {
                self.write_32(*d, row, mask);
            }
        }
    }

    fn row_addresses(
        &self,
        launch: &Launch<'_>,
        operand: AddressOperand,
        generic: bool,
    ) -> [u64; 32] {
        let base = if generic { SHARED_WINDOW } else { 0 };
        self.addresses(launch, operand)
            .map(|address| address.wrapping_sub(base))
    }

    /// Whether a row begins where a row may begin.
    fn is_row(&self, block: &mut BlockState, address: u64, lane: usize) -> bool {
        if address.is_multiple_of(16) {
            return true;
        }
        let (space, align) = ("shared", 16);
        block.report(
            self,
            lane,
            FindingKind::Misaligned {
                space,
                address,
                align,
            },
        );
        false
    }

    pub(crate) fn load_matrix(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        form: u32,
        (operand, generic): (AddressOperand, bool),
        list: List,
        mask: u32,
    ) {
        let form = &launch.program.forms.matrix[form as usize];
        let addresses = self.row_addresses(launch, operand, generic);
        let mut rows = [[0u8; 16]; 32];
        let n = form.n_addresses().min(32);
        for (lane, row) in rows[..n].iter_mut().enumerate() {
            if self.is_row(block, addresses[lane], lane) {
                self.load_shared(block, false, addresses[lane], lane, row);
            }
        }
        let registers = form.load(&rows[..n]);
        for (slot, row) in launch.program.list(list).iter().zip(registers.iter()) {
            if let Slot::W32(d) = slot {
                self.write_32(*d, row, mask);
            }
        }
    }

    pub(crate) fn store_matrix(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        form: u32,
        (operand, generic): (AddressOperand, bool),
        list: List,
    ) {
        let form = &launch.program.forms.matrix[form as usize];
        let addresses = self.row_addresses(launch, operand, generic);
        let registers = self.rows_of(launch, launch.program, list);
        let rows = form.store(&registers);
        for (lane, row) in rows.iter().enumerate().take(32) {
            if self.is_row(block, addresses[lane], lane) {
                self.store_shared(block, false, addresses[lane], lane, row);
            }
        }
    }

    pub(crate) fn move_matrix(&mut self, launch: &Launch<'_>, d: R32, a: R32, mask: u32) {
        let moved = tensor::movmatrix(self.row_32(launch, a));
        self.write_32(d, &moved, mask);
    }
}
