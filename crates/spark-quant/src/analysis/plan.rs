//! One format per weight under a budget.
//!
//! ```text
//! start with the cheapest choice of every weight
//! steps = for each weight, the corners of its (bytes, cost) hull, cheapest first
//! take the step with the largest (cost saved) / (byte spent) that fits, until none does
//! ```
//!
//! Every state on the way is optimal for its own size; a plan for a size in between may miss the optimum
//! by less than one step. Ties go to the earlier weight, so plans are reproducible.

use super::sensitivity::{Candidate, Layer, NamedWeight, Sensitivity};
use crate::checkpoint::Checkpoint;
use crate::error::QuantError;
use crate::simd::ExecutionPolicy;

/// What a plan must keep to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlanBudget {
    /// At most this many bytes; as little cost as possible.
    Bytes(usize),
    /// At most this much cost, summed over weights; as few bytes as possible.
    Cost(f64),
}

/// The choice for one weight.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Pick {
    /// Name of the weight.
    pub name: String,
    /// Index among the candidates.
    pub candidate: usize,
    /// Name of the candidate.
    pub label: String,
    /// Bytes that the weight takes with this candidate, scales included.
    pub bytes: usize,
    /// Cost of the candidate for this weight, in the unit of `Choice::cost`.
    pub cost: f64,
    /// Signal to noise of the weight alone.
    pub sqnr_db: f64,
}

/// One choice per weight.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PrecisionPlan {
    /// In the order of the weights.
    pub picks: Vec<Pick>,
    /// Bytes of all weights together.
    pub bytes: usize,
    /// Costs of all weights added up, in the unit of `Choice::cost`.
    pub cost: f64,
}

/// Size and cost of an optimal plan.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ParetoPoint {
    /// Bytes of all weights together.
    pub bytes: usize,
    /// Costs of all weights added up, in the unit of `Choice::cost`.
    pub cost: f64,
}

/// From one corner of a layer's hull to the next.
#[derive(Debug, Clone, Copy)]
struct Step {
    layer: usize,
    choice: usize,
    bytes: usize,
    saved: f64,
}

/// Positions of a layer's choices on the lower convex hull of (bytes, cost), cheapest first.
fn hull(layer: &Layer) -> Vec<usize> {
    let mut order: Vec<usize> = (0..layer.choices.len())
        .filter(|&i| !layer.choices[i].cost.is_nan())
        .collect();
    let key = |i: usize| (layer.choices[i].bytes, layer.choices[i].cost);
    order.sort_by(|&a, &b| {
        key(a)
            .0
            .cmp(&key(b).0)
            .then(key(a).1.total_cmp(&key(b).1))
            .then(a.cmp(&b))
    });
    let mut corners: Vec<usize> = Vec::new();
    for next in order {
        if corners
            .last()
            .is_some_and(|&last| key(next).1 >= key(last).1 || key(next).0 == key(last).0)
        {
            continue;
        }
        // A corner above the line from its predecessor to `next` is none.
        while let [.., first, middle] = corners[..] {
            let slope = |a: usize, b: usize| (key(a).1 - key(b).1) / (key(b).0 - key(a).0) as f64;
            if slope(first, middle) >= slope(middle, next) {
                break;
            }
            corners.pop();
        }
        corners.push(next);
    }
    corners
}

impl Sensitivity {
    /// Chooses under a budget.
    ///
    /// # Errors
    ///
    /// [`QuantError::Budget`] if even the cheapest, or the most exact, choices everywhere do not keep to
    /// it; [`QuantError::Unsupported`] if a weight has no choice with a cost that is a number.
    pub fn plan(&self, budget: PlanBudget) -> Result<PrecisionPlan, QuantError> {
        let (mut state, steps) = self.steps()?;
        let mut stopped = vec![false; self.layers.len()];
        let (mut bytes, mut cost) = self.totals(&state);
        if let PlanBudget::Bytes(limit) = budget
            && bytes > limit
        {
            return Err(QuantError::Budget {
                budget: limit as f64,
                best: bytes as f64,
                unit: "bytes",
            });
        }
        for step in steps {
            let fits = match budget {
                PlanBudget::Bytes(limit) => bytes + step.bytes <= limit,
                PlanBudget::Cost(limit) => cost > limit,
            };
            if stopped[step.layer] || !fits {
                stopped[step.layer] = true;
                continue;
            }
            state[step.layer] = step.choice;
            bytes += step.bytes;
            // Recomputed rather than subtracted, so that rounding does not pile up.
            cost = self.totals(&state).1;
        }
        match budget {
            PlanBudget::Cost(limit) if cost.is_nan() || cost > limit => Err(QuantError::Budget {
                budget: limit,
                best: cost,
                unit: "cost",
            }),
            _ => Ok(self.plan_of(&state)),
        }
    }

    /// Sizes and costs of all plans on the way from the cheapest to the most exact.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] if a weight has no choice with a cost that is a number.
    pub fn pareto(&self) -> Result<Vec<ParetoPoint>, QuantError> {
        let (mut state, steps) = self.steps()?;
        let (mut bytes, mut cost) = self.totals(&state);
        let mut points = vec![ParetoPoint { bytes, cost }];
        for step in steps {
            state[step.layer] = step.choice;
            bytes += step.bytes;
            cost -= step.saved;
            points.push(ParetoPoint { bytes, cost });
        }
        // The running sum has rounded once per step; the end is computed afresh.
        if let Some(last) = points.last_mut() {
            last.cost = self.totals(&state).1;
        }
        Ok(points)
    }

    /// The cheapest state and all steps from it, most efficient first, each layer's in order.
    fn steps(&self) -> Result<(Vec<usize>, Vec<Step>), QuantError> {
        let (mut cheapest, mut steps) = (Vec::new(), Vec::new());
        for (index, layer) in self.layers.iter().enumerate() {
            let corners = hull(layer);
            let Some(&first) = corners.first() else {
                let format = format!("weight `{}`", layer.name);
                return Err(QuantError::Unsupported {
                    operation: "every candidate",
                    format,
                });
            };
            cheapest.push(first);
            for pair in corners.windows(2) {
                let (from, to) = (&layer.choices[pair[0]], &layer.choices[pair[1]]);
                steps.push(Step {
                    layer: index,
                    choice: pair[1],
                    bytes: to.bytes - from.bytes,
                    saved: from.cost - to.cost,
                });
            }
        }
        // Slopes fall along a hull, so a stable sort keeps each layer's steps in order.
        let efficiency = |step: &Step| step.saved / step.bytes as f64;
        steps.sort_by(|a, b| {
            efficiency(b)
                .total_cmp(&efficiency(a))
                .then(a.layer.cmp(&b.layer))
        });
        Ok((cheapest, steps))
    }

    fn totals(&self, state: &[usize]) -> (usize, f64) {
        let chosen = || {
            self.layers
                .iter()
                .zip(state)
                .map(|(layer, &choice)| &layer.choices[choice])
        };
        (
            chosen().map(|choice| choice.bytes).sum(),
            chosen().map(|choice| choice.cost).sum(),
        )
    }

    fn plan_of(&self, state: &[usize]) -> PrecisionPlan {
        let pick = |(layer, &choice): (&Layer, &usize)| {
            let choice = &layer.choices[choice];
            Pick {
                name: layer.name.clone(),
                candidate: choice.candidate,
                label: choice.label.clone(),
                bytes: choice.bytes,
                cost: choice.cost,
                sqnr_db: choice.measure.sqnr_db(),
            }
        };
        let (bytes, cost) = self.totals(state);
        PrecisionPlan {
            picks: self.layers.iter().zip(state).map(pick).collect(),
            bytes,
            cost,
        }
    }

    /// The same candidate for every weight that has it among its choices, the last of its choices for the
    /// others.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] if a weight has no choice.
    pub fn uniform(&self, candidate: usize) -> Result<PrecisionPlan, QuantError> {
        let choose = |layer: &Layer| {
            let wanted = layer
                .choices
                .iter()
                .position(|choice| choice.candidate == candidate);
            wanted
                .or(layer.choices.len().checked_sub(1))
                .ok_or_else(|| QuantError::Unsupported {
                    operation: "every candidate",
                    format: format!("weight `{}`", layer.name),
                })
        };
        let state = self
            .layers
            .iter()
            .map(choose)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.plan_of(&state))
    }
}

impl PrecisionPlan {
    /// Stores every weight as planned. `weights` and `candidates` are those the plan was made from.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] if they are not; otherwise as [`Candidate::store`].
    pub fn apply(
        &self,
        policy: ExecutionPolicy,
        weights: &[NamedWeight],
        candidates: &[Candidate],
    ) -> Result<Checkpoint, QuantError> {
        QuantError::check_length("weights", weights.len(), self.picks.len())?;
        let mut checkpoint = Checkpoint::default();
        for (weight, pick) in weights.iter().zip(&self.picks) {
            let candidate = candidates
                .get(pick.candidate)
                .ok_or(QuantError::LengthMismatch {
                    what: "candidates",
                    got: candidates.len(),
                    want: pick.candidate + 1,
                })?;
            let (entry, _) = candidate
                .store(policy, weight)
                .map_err(|error| error.in_tensor(&weight.name))?;
            checkpoint.entries.insert(weight.name.clone(), entry);
        }
        Ok(checkpoint)
    }
}
