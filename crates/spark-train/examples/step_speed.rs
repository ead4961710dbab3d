//! How long a step of training takes beside a forward pass, by kinds of steps.
use spark_dora::DoraConfig;
use spark_dora::loss::{Head, HeadKind};
use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::{Tensor, file};
use spark_train::{AdaptedNetwork, OutputHeads, TrainingStep, layers, with_free_batch};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let batch: usize = args[2].parse()?;
    let rank: usize = args[3].parse()?;
    let grouped = args.get(4).is_some_and(|a| a == "grouped");
    let graph = file::load(args[1].as_ref())?;
    let inputs: Vec<(String, Tensor)> = graph
        .inputs
        .iter()
        .map(|&id| {
            let v = graph.value(id);
            let mut shape: Vec<usize> = v
                .shape
                .clone()
                .unwrap()
                .iter()
                .map(|d| match d {
                    spark_onnx_graph::graph::Dim::Known(n) => *n,
                    _ => 1,
                })
                .collect();
            shape[0] = batch;
            let n: usize = shape.iter().product();
            (
                v.name.clone(),
                Tensor::from_f32(
                    shape,
                    (0..n)
                        .map(|i| ((i * 7919) % 1000) as f32 / 1000.0 - 0.5)
                        .collect(),
                )
                .unwrap(),
            )
        })
        .collect();
    let lent: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let shapes: Vec<(&str, Vec<usize>)> = inputs
        .iter()
        .map(|(n, t)| (n.as_str(), t.shape().to_vec()))
        .collect();
    let base = Model::from_graph(with_free_batch(graph.clone()), &RunOptions::new())?;
    let mut base = base.session();
    let before = base.run(&lent)?;
    let names: Vec<String> = layers(&graph)
        .into_iter()
        .filter(|l| l.largest_rank() >= rank && (grouped || l.groups == 1))
        .map(|l| l.name)
        .collect();
    let config = DoraConfig::builder(rank).targets(names.clone()).build()?;
    let network = AdaptedNetwork::new(graph, config)?;
    println!("{} layers, {}", names.len(), network.adapter().size());
    let heads: Vec<OutputHeads> = before
        .iter()
        .map(|(name, t)| OutputHeads {
            output: name.clone(),
            heads: vec![Head {
                name: "all".into(),
                range: 0..*t.shape().last().unwrap(),
                kind: HeadKind::Squares,
                weight: 1.0,
            }],
        })
        .collect();
    let mut step = TrainingStep::new(&network, &heads, &shapes, &RunOptions::new())?;
    let targets: Vec<(&str, &Tensor)> = before.iter().map(|(n, t)| (n.as_str(), t)).collect();
    step.run(&network, &lent, &targets)?;
    let mut f = vec![];
    let mut s = vec![];
    for _ in 0..5 {
        let t = Instant::now();
        base.run(&lent)?;
        f.push(t.elapsed().as_secs_f64() * 1e3);
        let t = Instant::now();
        step.run(&network, &lent, &targets)?;
        s.push(t.elapsed().as_secs_f64() * 1e3);
    }
    f.sort_by(f64::total_cmp);
    s.sort_by(f64::total_cmp);
    println!(
        "forward {:.1} ms, step {:.1} ms, ratio {:.2}; {} plan steps",
        f[2],
        s[2],
        s[2] / f[2],
        step.session().steps().len()
    );
    println!(
        "arena forward {} MB, step {} MB",
        base.arena_bytes() >> 20,
        step.session().arena_bytes() >> 20
    );
    let factors = network.factors()?;
    let mut given = lent.clone();
    given.extend(factors.iter().map(|(n, t)| (n.as_str(), t)));
    // by kernel
    let one = Tensor::from_f32(vec![], vec![1.0])?;
    let names: Vec<String> = step
        .graph()
        .inputs
        .iter()
        .map(|&id| step.graph().value(id).name.clone())
        .collect();
    let mut all: Vec<(&str, &Tensor)> = vec![];
    for n in &names {
        if let Some(x) = given.iter().find(|(m, _)| m == n) {
            all.push(*x);
        } else if let Some(o) = n.strip_prefix("target.") {
            all.push((n, targets.iter().find(|(m, _)| *m == o).unwrap().1));
        } else {
            all.push((n, &one));
        }
    }
    let steps = step.session().profile(&all, 3)?;
    let mut by: std::collections::BTreeMap<String, (f64, usize)> = Default::default();
    for info in &steps {
        let t = info.mean.unwrap();
        let e = by
            .entry(format!("{} {}", info.kind, info.kernel))
            .or_default();
        e.0 += t.as_secs_f64() * 1e3;
        e.1 += 1;
    }
    let mut by: Vec<_> = by.into_iter().collect();
    by.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    for (k, (t, n)) in by.iter().take(25) {
        println!("{t:9.2} ms {n:5} {k}");
    }
    let mut steps = steps;
    steps.sort_by(|a, b| b.mean.cmp(&a.mean));
    for info in steps.iter().take(40) {
        println!(
            "   {:8.2} ms {} {} {} | {}",
            info.mean.unwrap().as_secs_f64() * 1e3,
            info.kind,
            info.kernel,
            info.name,
            info.detail
        );
    }
    Ok(())
}
