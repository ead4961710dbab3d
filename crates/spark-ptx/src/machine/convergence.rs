//! Instructions that all lanes of a warp have to execute together: `.aligned` barriers, matrices.
//!
//! ```text
//! lanes that are elsewhere    exited, or about to with nothing else to do        fine
//!                             before the instruction                             fine: they are waited for
//!                             behind it                                          a finding
//! ```
//!
//! PTX ISA 9.1: in code that is executed conditionally such an instruction may stand only where all
//! threads of the warp (of a `barrier`: of the block) evaluate the condition alike. Code is laid out and
//! lanes take turns so that those behind an instruction have passed it by in this round of every loop around it
//! (`program::order`); that they may come to it in a later round makes no difference.

use crate::check::FindingKind;
use crate::program::{Program, only_ends};

use super::block_state::BlockState;
use super::launch::Launch;
use super::warp::{Warp, lanes_where};

/// Reports the active lanes if live ones of the warp have passed by where they stand.
pub(super) fn check(warp: &Warp, block: &mut BlockState, launch: &Launch<'_>) {
    let elsewhere = warp.live & !warp.active;
    if elsewhere == 0 || warp.active == 0 {
        return;
    }
    let first = warp.active.trailing_zeros() as usize & 31;
    let here = warp.stack_of(first);
    let lanes = lanes_where(elsewhere, |lane| {
        !comes(&warp.stack_of(lane), &here, launch.program)
    });
    if lanes != 0 {
        block.report(warp, first, FindingKind::DivergentAligned { lanes });
    }
}

/// Whether a lane with the stack `there` is still before the top of `here`, or only ends.
fn comes(there: &[(u32, u32)], here: &[(u32, u32)], program: &Program) -> bool {
    if let [(_, pc)] = *there
        && only_ends(program, pc)
    {
        return true;
    }
    for (depth, (that, this)) in there.iter().zip(here).enumerate() {
        if that.0 != this.0 {
            return false;
        }
        let (is_top, is_last) = (depth + 1 == there.len(), depth + 1 == here.len());
        if !is_top && !is_last && that.1 == this.1 {
            // The same call: what counts is where they are inside of it.
            continue;
        }
        // A lane inside of a call goes on behind it; the active ones came here through theirs.
        let at = if is_last { this.1 } else { this.1 - 1 };
        return that.1 <= at;
    }
    false
}
