//! Ranks shared out among layers by what they explain.
//!
//! ```text
//! budget      the ranks of all observed layers together
//! candidates  of each layer the shares of its first round(rank * rho) directions; of layers that read the same, by the largest rank
//! ranks       of all candidates the `budget` largest are taken; a layer has as many ranks as it has candidates among them
//! alpha       alpha * new rank / rank
//! ```
//!
//! `_get_rank_distribution` and `_load_eva_state_dict` of PEFT 0.21.2. Of equal shares the earlier direction is taken, then the
//! layer that comes first by name; PEFT leaves that to a sort. A layer without ranks is no longer adapted, there as here.

use super::beginning::is_linear;
use super::variance::ExplainedVariance;
use crate::adapter::{Adapter, pattern};
use crate::config::{DoraConfig, Patterns, Targets, escape};
use crate::error::Result;

/// A layer that takes part.
struct Layer<'a> {
    name: &'a str,
    rank: usize,
    alpha: f64,
    /// The position of what it reads.
    inputs: usize,
    /// The rank of its weight.
    limit: usize,
}

impl ExplainedVariance {
    /// The adapter's settings with the ranks of its linear layers shared out anew: more where directions explain more, as many in
    /// all. Whoever builds an adapter with them can [begin](Self::begin) it.
    ///
    /// `rank_pattern` and `alpha_pattern` then name every layer that differs from `r` and `lora_alpha`, and
    /// `exclude_modules` means those that have no rank left.
    ///
    /// # Errors
    ///
    /// As [`ExplainedVariance::begin`].
    pub fn ranks(&mut self, adapter: &Adapter) -> Result<DoraConfig> {
        self.checked(adapter)?;
        let mut layers = Vec::new();
        for (name, config, factors) in adapter.adapted_layers() {
            if let (true, Some(a), Some(b)) = (is_linear(factors), factors.a(), factors.b()) {
                layers.push(Layer {
                    name,
                    rank: config.rank,
                    alpha: config.alpha,
                    inputs: self.reads(name)?,
                    limit: a.dims()[1].min(b.dims()[0]),
                });
            }
        }
        let ranks = self.shared_out(&layers);
        let mut of_linear: Vec<_> = layers.iter().zip(&ranks).collect();
        of_linear.retain(|(_, rank)| **rank > 0);
        let new_of = |name: &str| {
            let mut found = of_linear.iter();
            found.find(|(layer, _)| layer.name == name)
        };

        let mut new = adapter.config().clone();
        let with_a = adapter
            .adapted_layers()
            .filter(|(_, _, factors)| factors.a().is_some());
        let kept =
            with_a.filter(|(name, _, factors)| !is_linear(factors) || new_of(name).is_some());
        let kept: Vec<_> = kept.collect();
        let names: Vec<&str> = kept.iter().map(|(name, ..)| *name).collect();
        (new.rank_pattern, new.alpha_pattern) = (Patterns::default(), Patterns::default());
        for (name, config, _) in &kept {
            let (mut rank, mut alpha) = (config.rank, config.alpha);
            if let Some((layer, new_rank)) = new_of(name) {
                rank = **new_rank;
                if self.settings.adjust_alpha && rank != layer.rank {
                    alpha = layer.alpha * (rank as f64 / layer.rank as f64);
                }
            }
            if rank != new.r {
                new.rank_pattern.insert(pattern(name, &names), rank);
            }
            if alpha != new.lora_alpha {
                new.alpha_pattern.insert(pattern(name, &names), alpha);
            }
        }
        let gone = layers.iter().zip(&ranks).filter(|(_, rank)| **rank == 0);
        let gone: Vec<String> = gone.map(|(layer, _)| escape(layer.name)).collect();
        if !gone.is_empty() {
            new.exclude_modules = Some(with_excluded(new.exclude_modules.take(), &gone));
        }
        Ok(new)
    }

    fn shared_out(&mut self, layers: &[Layer<'_>]) -> Vec<usize> {
        let most = |of: &Layer<'_>| (of.rank as f64 * self.settings.rho).round_ties_even() as usize;
        let mut most_by_inputs = vec![0; self.inputs.len()];
        for layer in layers {
            let known = &mut most_by_inputs[layer.inputs];
            *known = most(layer).max(*known);
        }
        let budget: usize = layers.iter().map(|layer| layer.rank.min(layer.limit)).sum();
        let mut candidates = Vec::new();
        for (position, layer) in layers.iter().enumerate() {
            let most = most_by_inputs[layer.inputs];
            let shares = self.solved(layer.inputs, most).shares.iter();
            // Directions in which nothing varies explain nothing, and come last.
            let shares = shares.copied().chain(std::iter::repeat(0.0));
            let shares = shares.take(most.min(layer.limit)).enumerate();
            candidates.extend(shares.map(|(direction, share)| (share, direction, position)));
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut ranks = vec![0; layers.len()];
        for (_, _, position) in candidates.iter().take(budget) {
            ranks[*position] += 1;
        }
        ranks
    }
}

/// Modules that are excluded, and those of these patterns, as one pattern for whole names.
fn with_excluded(before: Option<Targets>, patterns: &[String]) -> Targets {
    let mut all = Vec::new();
    match before {
        Some(Targets::Names(names)) => {
            all.extend(
                names
                    .iter()
                    .map(|name| format!("(?:.*\\.)?{}", escape(name))),
            );
        }
        Some(Targets::Text(text)) if !text.is_empty() => all.push(format!("(?:{text})")),
        _ => {}
    }
    all.extend_from_slice(patterns);
    Targets::Text(all.join("|"))
}
