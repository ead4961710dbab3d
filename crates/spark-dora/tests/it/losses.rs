//! Losses against their formulas, and their gradients against differences, in f64.

use candle_core::{Device, Tensor, Var};
use spark_dora::loss::{
    Head, HeadKind, distil, hypotheses_divergence, laplace_kl, laplace_nll, mean_absolute,
    softened, winner_takes_all, within,
};

use crate::data::{assert_close, noise, values};

fn var(shape: &[usize], seed: u64) -> Var {
    let data = noise(shape.iter().product(), seed);
    Var::from_vec(data, shape, &Device::Cpu).expect("as many values")
}

/// Every gradient of `loss` against central differences; none may be missing.
#[track_caller]
fn check_gradients(what: &str, variables: &[&Var], loss: impl Fn() -> Tensor) {
    let gradients = loss().backward().expect("a backward pass");
    for var in variables {
        let got = values(
            gradients
                .get(var)
                .unwrap_or_else(|| panic!("{what}: no gradient")),
        );
        let before = values(var);
        let set = |data: &[f64]| {
            let tensor = Tensor::from_slice(data, var.dims(), &Device::Cpu).unwrap();
            var.set(&tensor).unwrap();
        };
        let want: Vec<f64> = (0..before.len())
            .map(|i| {
                let at = |step: f64| {
                    let mut moved = before.clone();
                    moved[i] += step;
                    set(&moved);
                    loss().to_scalar::<f64>().unwrap()
                };
                (at(1e-6) - at(-1e-6)) / 2e-6
            })
            .collect();
        set(&before);
        assert_close(what, &got, &want, 1e-6);
    }
}

#[test]
fn the_likelihood_is_its_formula() {
    let scalar = |v: f64| Tensor::new(&[v], &Device::Cpu).unwrap();
    let loss = |mu: f64, log: f64, t: f64| {
        values(&laplace_nll(&scalar(mu), &scalar(log), &scalar(t)).unwrap())[0]
    };
    assert!((loss(1.0, 0.5, 3.0) - (2.0 * (-0.5f64).exp() + 0.5)).abs() < 1e-12);
    // Far away in widths: the divisor grows with the distance, the loss stays bounded.
    assert!((loss(0.0, -20.0, 5.0) - (5.0 / (1e-6 + 0.005) + 1e-3f64.ln())).abs() < 1e-9);
}

#[test]
fn gradients_of_the_likelihood() {
    let (mu, log, target) = (var(&[3, 4], 1), var(&[3, 4], 2), var(&[3, 4], 3));
    check_gradients("laplace_nll", &[&mu, &log], || {
        let loss = laplace_nll(&mu, &log, &target).unwrap();
        loss.sum_all().unwrap()
    });
}

#[test]
fn the_winner_learns_and_the_scores_learn_who_won() {
    let (mu, log) = (var(&[2, 3, 4], 1), var(&[2, 3, 4], 2));
    let (scores, target) = (var(&[2, 3], 3), var(&[2, 4], 4));
    let loss = || winner_takes_all(&mu, &log, &scores, &target).unwrap();
    check_gradients("winner_takes_all", &[&mu, &log, &scores], loss);
    let gradients = loss().backward().unwrap();
    let dmu = values(gradients.get(&mu).unwrap());
    for batch in dmu.chunks(12) {
        let sizes: Vec<f64> = batch
            .chunks(4)
            .map(|h| h.iter().map(|g| g.abs()).sum())
            .collect();
        assert_eq!(sizes.iter().filter(|&&s| s > 1e-3).count(), 1, "{sizes:?}");
    }
}

#[test]
fn divergences_are_zero_where_both_agree_and_have_gradients() {
    let (mu, log) = (var(&[3, 4], 1), var(&[3, 4], 2));
    let (mu2, log2) = (var(&[3, 4], 3), var(&[3, 4], 4));
    let same = laplace_kl((&mu, &log), &mu, &log).unwrap();
    assert!(values(&same).iter().all(|v| v.abs() < 1e-12));
    check_gradients("laplace_kl", &[&mu2, &log2], || {
        laplace_kl((&mu, &log), &mu2, &log2)
            .unwrap()
            .sum_all()
            .unwrap()
    });
    assert!(values(&softened(&mu, &mu, 4.0).unwrap())[0].abs() < 1e-12);
    check_gradients("softened", &[&mu2], || softened(&mu, &mu2, 4.0).unwrap());
}

/// Two mixtures of two: the formula, number by number, and beside it the divergence of the mixtures themselves, integrated.
#[test]
fn hypotheses_are_no_nearer_than_their_mixtures() {
    let one = |mixture: [[f64; 3]; 2]| {
        let numbers: Vec<f64> = mixture.into_iter().flatten().collect();
        Tensor::from_vec(numbers, (1, 6), &Device::Cpu).unwrap()
    };
    let chances = |mixture: [[f64; 3]; 2]| {
        let weights = mixture.map(|[_, _, logit]| logit.exp());
        weights.map(|weight| weight / weights.iter().sum::<f64>())
    };
    let density = |mixture: [[f64; 3]; 2], x: f64| {
        let parts = mixture.iter().zip(chances(mixture));
        let part = |(&[mu, log, _], chance): (&[f64; 3], f64)| {
            chance * (-(x - mu).abs() / log.exp()).exp() / (2.0 * log.exp())
        };
        parts.map(part).sum::<f64>()
    };
    for (teacher, student) in [
        (
            [[0.0, 0.0, 1.0], [3.0, -0.5, 0.0]],
            [[0.5, 0.3, 0.2], [2.0, 0.0, 0.4]],
        ),
        (
            [[0.0, 0.0, 2.0], [3.0, -0.5, 0.0]],
            [[3.0, -0.5, 0.0], [0.0, 0.0, 2.0]],
        ),
        (
            [[-1.0, 0.2, 0.0], [1.0, 0.1, 0.0]],
            [[-1.0, 0.2, 5.0], [1.0, 0.1, 0.0]],
        ),
    ] {
        let got = hypotheses_divergence(&one(teacher), &one(student), 2, 1).unwrap();
        let got = values(&got)[0];
        let mut want = 0.0;
        for (i, (p, q)) in chances(teacher)
            .into_iter()
            .zip(chances(student))
            .enumerate()
        {
            let ([mu1, log1, _], [mu2, log2, _]) = (teacher[i], student[i]);
            let d = (mu1 - mu2).abs();
            let apart =
                log2 - log1 + d / log2.exp() + (log1 - log2).exp() * (-d / log1.exp()).exp() - 1.0;
            want += p * (apart + (p / q).ln());
        }
        assert!((got - want).abs() < 1e-12, "{got} for {want}");
        let steps = (-40_000..=40_000).map(|i| f64::from(i) * 1e-3);
        let mixtures: f64 = steps
            .map(|x| {
                let (p, q) = (density(teacher, x), density(student, x));
                1e-3 * p * (p / q).ln()
            })
            .sum();
        assert!(
            mixtures > -1e-6 && got >= mixtures - 1e-6,
            "{got}, mixtures {mixtures}"
        );
    }
    let (teacher, student) = (var(&[2, 3, 14], 1), var(&[2, 3, 14], 2));
    // Two values and three choices: centres, log widths, logits of each of two hypotheses.
    let mut want = 0.0;
    let (numbers, others) = (values(&teacher), values(&student));
    for (row, other) in numbers.chunks(14).zip(others.chunks(14)) {
        let log_chances = |row: &[f64], choice: usize| {
            let logits = [row[4 + choice], row[11 + choice]];
            let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
            logits.map(|logit| logit - sum.ln())
        };
        for choice in 0..3 {
            let (p, q) = (log_chances(row, choice), log_chances(other, choice));
            for hypothesis in 0..2 {
                let (own, its) = (&row[7 * hypothesis..], &other[7 * hypothesis..]);
                let apart = |value: usize| {
                    let (d, log1, log2) = (
                        (own[value] - its[value]).abs(),
                        own[2 + value],
                        its[2 + value],
                    );
                    log2 - log1 + d / log2.exp() + (log1 - log2 - d / log1.exp()).exp() - 1.0
                };
                let mean = (apart(0) + apart(1)) / 2.0;
                let chosen = (p[hypothesis] - q[hypothesis]) / 2.0;
                want += p[hypothesis].exp() * (mean + chosen) / (6.0 * 3.0);
            }
        }
    }
    let got = values(&hypotheses_divergence(&teacher, &student, 2, 3).unwrap())[0];
    assert!((got - want).abs() < 1e-12 * want, "{got} for {want}");
    let turned = var(&[3, 2, 14], 2);
    assert!(hypotheses_divergence(&teacher, &turned, 2, 3).is_err());
    let loss =
        |teacher: &Var, student: &Var| hypotheses_divergence(teacher, student, 2, 3).unwrap();
    assert!(values(&loss(&teacher, &teacher))[0].abs() < 1e-12);
    check_gradients("hypotheses", &[&student], || loss(&teacher, &student));
    for (hypotheses, selections) in [(2, 7), (0, 1), (2, 0), (3, 2), (14, 1)] {
        let refused = hypotheses_divergence(&teacher, &student, hypotheses, selections);
        assert!(refused.is_err(), "{hypotheses} of {selections}");
    }
}

#[test]
fn heads_are_taught_one_by_one() {
    let heads: Vec<Head> = [
        ("plan", 0..6, HeadKind::Mdn),
        ("lead_prob", 6..8, HeadKind::Sigmoid),
        ("desire_pred", 8..14, HeadKind::Softmax { classes: 3 }),
        (
            "hidden_state",
            14..18,
            HeadKind::Features { temperature: 4.0 },
        ),
    ]
    .into_iter()
    .map(|(name, range, kind)| Head {
        name: name.to_owned(),
        range,
        kind,
        weight: 0.5,
    })
    .collect();
    let (teacher, student) = (var(&[2, 18], 1), var(&[2, 18], 2));
    check_gradients("distil", &[&student], || {
        distil(&teacher, &student, &heads).unwrap().0
    });
    let (total, parts) = distil(&teacher, &student, &heads).unwrap();
    let sum: f64 = parts.iter().map(|(_, loss)| 0.5 * values(loss)[0]).sum();
    assert_close("total", &values(&total), &[sum], 1e-12);
    assert!(parts.iter().all(|(_, loss)| values(loss)[0] > 0.0));
    let (none, _) = distil(&teacher, &teacher, &heads).unwrap();
    assert!(values(&none)[0].abs() < 1e-12);
    let outside = Head {
        range: 17..20,
        ..heads[0].clone()
    };
    assert!(distil(&teacher, &student, &[outside]).is_err());
}

#[test]
fn metrics_say_how_far_and_how_often() {
    let t = |v: &[f32]| Tensor::new(v, &Device::Cpu).unwrap();
    let (got, want) = (t(&[1.0, 2.0, f32::NAN, 4.0]), t(&[1.0, 2.5, 3.0, 6.0]));
    assert_eq!(within(&got, &want, 0.5).unwrap(), 0.5);
    assert_eq!(
        mean_absolute(&t(&[1.0, 3.0]), &t(&[2.0, 1.0])).unwrap(),
        1.5
    );
}
