//! Instructions that all lanes of a warp have to execute together: `.aligned` barriers, matrices.
//!
//! ```text
//! lanes that are elsewhere    exited, or about to with nothing else to do        fine
//!                             every way of theirs leads here                     fine: they are waited for
//!                             they may pass by                                   a finding
//! ```
//!
//! PTX ISA 9.1: in code that is executed conditionally such an instruction may stand only where all
//! threads of the warp (of a `barrier`: of the block) evaluate the condition alike. The order in which
//! lanes run decides nothing: code that a compiler has put out of the way still comes back before a
//! place where a GPU brings lanes together, which is where every way leads.

use crate::check::FindingKind;
use crate::program::{leads_to, only_ends};

use super::block_state::BlockState;
use super::launch::Launch;
use super::warp::{Warp, lanes_where};

/// Reports the active lanes if live ones of the warp may never come to where they stand.
pub(super) fn check(warp: &Warp, block: &mut BlockState, launch: &Launch<'_>) {
    let elsewhere = warp.live & !warp.active;
    if elsewhere == 0 || warp.active == 0 {
        return;
    }
    let first = warp.active.trailing_zeros() as usize & 31;
    let here = warp.stack_of(first);
    let lanes = lanes_where(elsewhere, |lane| {
        !comes(&warp.stack_of(lane), &here, block, launch)
    });
    if lanes != 0 {
        block.report(warp, first, FindingKind::DivergentAligned { lanes });
    }
}

/// Whether a lane with the stack `there` surely comes to the top of `here`, or only ends.
fn comes(
    there: &[(u32, u32)],
    here: &[(u32, u32)],
    block: &mut BlockState,
    launch: &Launch<'_>,
) -> bool {
    if let [(_, pc)] = *there
        && only_ends(launch.program, pc)
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
        let way = (that.1, at);
        return *block
            .leads_to
            .entry(way)
            .or_insert_with(|| leads_to(launch.program, way.0, way.1));
    }
    false
}
