//! EVA against NumPy, against what defines it, and in PEFT's files.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv1d, Embedding, Linear, Module};
use serde_json::{Value, json};
use spark_dora::adapter::CONFIG_FILE;
use spark_dora::{
    Adapter, DoraConfig, DoraConfigBuilder, DoraError, EvaSettings, ExplainedVariance, Factors,
    Init, set_threads,
};

use crate::adapter::{Folder, linear, open};
use crate::data::{noise, values};

fn matrix(rows: &[&[f64]]) -> Tensor {
    let columns = rows[0].len();
    let flat: Vec<f64> = rows.concat();
    Tensor::from_vec(flat, (rows.len(), columns), &Device::Cpu).unwrap()
}

fn random(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

/// Nine inputs of four elements, far from zero.
fn first() -> Tensor {
    matrix(&[
        &[-6., 16., 38., 60.],
        &[1., 20., 41., 64.],
        &[1., 17., 37., 61.],
        &[-6., 20., 39., 64.],
        &[6., 16., 34., 60.],
        &[-2., 18., 35., 62.],
        &[-4., 26., 42., 57.],
        &[0., 14., 42., 58.],
        &[-3., 21., 35., 65.],
    ])
}

/// Twelve of five.
fn second() -> Tensor {
    matrix(&[
        &[-6., 1., -5., 2., -4.],
        &[-1., 0., 3., -5., 2.],
        &[6., 1., 0., 3., -3.],
        &[2., 4., -1., 0., -6.],
        &[0., -4., 0., -1., 6.],
        &[0., 3., 3., 0., -6.],
        &[2., -1., -5., 3., -3.],
        &[6., -3., 2., -5., 2.],
        &[-1., -3., -2., 2., -4.],
        &[-6., -1., -4., -2., 5.],
        &[4., 3., -4., -4., 3.],
        &[3., -4., -2., -4., 3.],
    ])
}

/// Eight of three; the last element is three times the first, and one.
fn third() -> Tensor {
    matrix(&[
        &[-6., 3., -17.],
        &[2., 4., 7.],
        &[5., 0., 16.],
        &[3., 4., 10.],
        &[-4., 3., -11.],
        &[-3., -3., -8.],
        &[6., -1., 19.],
        &[-3., -4., -8.],
    ])
}

fn adapter(config: DoraConfigBuilder) -> Adapter {
    Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).unwrap()
}

/// Layers `a`, `b` and `c` that read those inputs.
fn three(config: DoraConfigBuilder) -> Adapter {
    let mut adapter = adapter(config);
    for (name, columns) in [("a", 4), ("b", 5), ("c", 3)] {
        adapter.linear(name, &linear(10, columns, 1)).unwrap();
    }
    adapter
}

fn observed(settings: EvaSettings) -> ExplainedVariance {
    let mut variance = ExplainedVariance::new(settings).unwrap();
    for (name, x) in [("a", first()), ("b", second()), ("c", third())] {
        variance.observe(name, &x).unwrap();
    }
    variance
}

fn a_of(adapter: &Adapter, name: &str) -> Vec<f64> {
    values(adapter.factors(name).unwrap().a().unwrap())
}

#[track_caller]
fn close(got: &[f64], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= bound, "{got} for {want}");
    }
}

#[test]
fn directions_shares_and_singular_values_are_numpys() {
    // `numpy.linalg.svd` of the inputs without their mean; the largest element of each direction is above zero.
    let mut variance = observed(EvaSettings::default());
    let a = variance.directions("a", 4).unwrap();
    let singular = [
        13.018715891156651,
        9.59121459691979,
        8.170811435674636,
        5.694396039132955,
    ];
    let shares = [
        0.4699268857337931,
        0.25505932747920684,
        0.18510765115716657,
        0.08990613562983296,
    ];
    close(&a.singular_values, &singular, 1e-12);
    close(&a.shares, &shares, 1e-14);
    let vectors = [
        [
            0.7228161324910365,
            -0.5898388346638126,
            -0.35978795415418224,
            -0.013402081132562053,
        ],
        [
            -0.22615383597440372,
            0.11503495020997415,
            -0.6689582726265063,
            0.6986531558569042,
        ],
        [
            0.6186265210453967,
            0.7839253174287085,
            -0.04344970369249514,
            0.029571056839444266,
        ],
        [
            0.20902753058875254,
            -0.15594295767017616,
            0.6489680891840084,
            0.7147235162144187,
        ],
    ];
    close(&a.vectors, vectors.as_flattened(), 1e-13);

    let b = variance.directions("b", 2).unwrap();
    close(&b.shares, &[0.44343183983680745, 0.2969042845215176], 1e-14);
    close(
        b.vector(1),
        &[
            0.8704102708637473,
            0.1082808435747274,
            0.41455417726312555,
            -0.14325900650636805,
            -0.19566019129640388,
        ],
        1e-13,
    );
    // Two elements are bound to each other: there is no third direction.
    let c = variance.directions("c", 3).unwrap();
    assert_eq!(c.count(), 2);
    close(
        &c.shares,
        &[0.9528168424668118, 0.047183157533188934],
        1e-14,
    );
}

#[test]
fn a_begins_as_the_directions_and_the_layer_as_its_base() {
    for config in [
        DoraConfig::builder(2),
        DoraConfig::builder(2).lora(),
        DoraConfig::builder(2).init(Init::Gaussian),
    ] {
        let base = linear(10, 5, 1);
        let mut plain = adapter(config.clone());
        let without = plain.linear("b", &base).unwrap();
        let mut adapter = adapter(config);
        let layer = adapter.linear("b", &base).unwrap();
        let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
        variance.observe("b", &second()).unwrap();
        let before = a_of(&adapter, "b");
        let begun = variance.begin(&mut adapter).unwrap();
        assert_eq!(begun.layers.len(), 1);
        assert_eq!((begun.layers[0].rank, begun.layers[0].directions), (2, 2));
        assert_eq!(begun.layers[0].inputs, 12);
        assert!((begun.layers[0].explained - 0.7403361243583251).abs() < 1e-12);
        let want = variance.directions("b", 2).unwrap();
        assert_ne!(before, a_of(&adapter, "b"));
        close(&a_of(&adapter, "b"), &want.vectors, 1e-7);
        let x = random(&[7, 5], 3);
        let bits = |y: Tensor| -> Vec<u32> {
            let y: Vec<f32> = y.flatten_all().unwrap().to_vec1().unwrap();
            y.into_iter().map(f32::to_bits).collect()
        };
        let got = layer.forward(&x).unwrap();
        close(&values(&got), &values(&base.forward(&x).unwrap()), 1e-6);
        assert_eq!(bits(got), bits(without.forward(&x).unwrap()));
        let [begun, before] = [&adapter, &plain].map(|of| of.factors("b").unwrap());
        assert!(values(begun.b().unwrap()).iter().all(|b| *b == 0.0));
        let magnitude = |of: &Factors| of.magnitude().map(values);
        assert_eq!(magnitude(begun), magnitude(before));
    }
}

#[test]
fn whitened_directions_are_numpys() {
    let mut adapter = three(DoraConfig::builder(2));
    let mut variance = observed(EvaSettings {
        whiten: true,
        ..EvaSettings::default()
    });
    variance.begin(&mut adapter).unwrap();
    let want = [
        0.20032897192760715,
        -0.16347422538005504,
        -0.0997154708200127,
        -0.003714395700776409,
        -0.07302425828353953,
        0.037144370687207884,
        -0.21600421443533396,
        0.22559258517144454,
    ];
    close(&a_of(&adapter, "a"), &want, 1e-7);
}

#[test]
fn ranks_go_where_they_explain_more_and_stay_as_many() {
    // By hand of the shares above, as `_get_rank_distribution` takes them.
    for (rank, rho, want) in [
        (2, 2.0, [3, 2, 1]),
        (2, 1.5, [3, 2, 1]),
        (2, 1.0, [2, 2, 2]),
        (1, 3.0, [1, 1, 1]),
    ] {
        let adapter = three(DoraConfig::builder(rank));
        let mut variance = observed(EvaSettings {
            rho,
            ..EvaSettings::default()
        });
        let config = variance.ranks(&adapter).unwrap();
        for (name, want) in ["a", "b", "c"].iter().zip(want) {
            let layer = config.layer(name).unwrap().unwrap();
            assert_eq!(layer.rank, want, "{name} at {rank} and {rho}");
            // Alpha goes with it.
            assert_eq!(layer.alpha, 2.0 * want as f64);
        }
        // What was as the settings say it is not named.
        let changed = want.iter().filter(|&&w| w != rank).count();
        assert_eq!(config.rank_pattern.iter().count(), changed);
        assert_eq!(config.alpha_pattern.iter().count(), changed);
    }
    let fixed = EvaSettings {
        adjust_alpha: false,
        ..EvaSettings::default()
    };
    let config = observed(fixed).ranks(&three(DoraConfig::builder(2)));
    let config = config.unwrap();
    assert_eq!(config.layer("a").unwrap().unwrap().alpha, 4.0);
    assert!(config.alpha_pattern.is_empty());
}

#[test]
fn layers_of_other_ranks_keep_the_budget_and_names_are_exact() {
    // `x.a` and `a` are told apart, and the convolution keeps what it had.
    let mut adapter = adapter(DoraConfig::builder(2).rank("^x\\.a", 1).rank("conv", 3));
    let conv = Conv1d::new(random(&[4, 5, 1], 1), None, Default::default());
    adapter.linear("a", &linear(10, 4, 1)).unwrap();
    adapter.linear("x.a", &linear(10, 5, 1)).unwrap();
    adapter.linear("c", &linear(10, 3, 1)).unwrap();
    adapter.conv1d("conv", &conv).unwrap();
    let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
    for (name, x) in [("a", first()), ("x.a", second()), ("c", third())] {
        variance.observe(name, &x).unwrap();
    }
    let config = variance.ranks(&adapter).unwrap();
    let rank = |name: &str| config.layer(name).unwrap().unwrap().rank;
    // 5 of .95 .47 .44 .30 .26; at most 2 of `x.a`.
    assert_eq!((rank("a"), rank("x.a"), rank("c")), (2, 2, 1));
    assert_eq!(rank("conv"), 3);
    let again = Adapter::new(config, DType::F32, &Device::Cpu);
    let mut again = again.unwrap();
    again.linear("a", &linear(10, 4, 1)).unwrap();
    again.linear("x.a", &linear(10, 5, 1)).unwrap();
    again.linear("c", &linear(10, 3, 1)).unwrap();
    again.conv1d("conv", &conv).unwrap();
    let begun = variance.begin(&mut again).unwrap();
    assert_eq!(begun.others, ["conv"]);
    let ranks: Vec<_> = begun.layers.iter().map(|l| l.rank).collect();
    assert_eq!(ranks, [2, 1, 2]);
}

#[test]
fn a_layer_that_explains_little_is_left_out() {
    for excluded in [
        DoraConfig::builder(1),
        DoraConfig::builder(1).exclude(["q"]),
    ] {
        let excludes = excluded.clone().build().unwrap().exclude_modules.is_some();
        let offer = |adapter: &mut Adapter| {
            for (name, columns) in [("a", 4), ("b", 5), ("c", 3), ("d", 8), ("d.q", 4)] {
                adapter.linear(name, &linear(10, columns, 1)).unwrap();
            }
        };
        let mut adapter = adapter(excluded);
        offer(&mut adapter);
        let mut variance = observed(EvaSettings::default());
        // As much in every direction.
        let all: Vec<f64> = (0..64)
            .map(|i| f64::from(u8::from(i / 8 == i % 8)))
            .collect();
        let ones = Tensor::from_vec(all, (8, 8), &Device::Cpu).unwrap();
        variance.observe("d", &ones).unwrap();
        variance.observe("d", &ones.neg().unwrap()).unwrap();
        if !excludes {
            variance.observe("d.q", &first()).unwrap();
        }
        let config = variance.ranks(&adapter).unwrap();
        assert!(config.layer("d").unwrap().is_none());
        assert!(config.layer("x.d").unwrap().is_some(), "only that one");
        assert_eq!(config.layer("d.q").unwrap().is_none(), excludes);
        assert_eq!(config.layer("x.q").unwrap().is_none(), excludes);
        let mut again = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
        offer(&mut again);
        again.finish().unwrap();
        let begun = variance.begin(&mut again).unwrap();
        assert_eq!(begun.without_a, ["d"]);
        let all: usize = begun.layers.iter().map(|l| l.rank).sum();
        assert_eq!(all, if excludes { 4 } else { 5 });
    }
}

#[test]
fn layers_that_read_the_same_share_what_is_known() {
    let mut adapter = adapter(DoraConfig::builder(1).rank("v", 2));
    for name in ["k", "q", "v"] {
        adapter.linear(name, &linear(10, 4, 1)).unwrap();
    }
    let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
    variance.observe("k", &first()).unwrap();
    variance.reads_as("q", "k").unwrap();
    variance.reads_as("v", "k").unwrap();
    let config = variance.ranks(&adapter).unwrap();
    let rank = |name: &str| config.layer(name).unwrap().unwrap().rank;
    // Four ranks: three first directions, one second, of the first name.
    assert_eq!((rank("k"), rank("q"), rank("v")), (2, 1, 1));
    variance.begin(&mut adapter).unwrap();
    assert_eq!(a_of(&adapter, "k"), a_of(&adapter, "q"));
    assert_eq!(a_of(&adapter, "k"), a_of(&adapter, "v")[..4]);
    for error in [
        variance.observe("q", &first()),
        variance.reads_as("k", "q"),
        variance.reads_as("z", "y"),
    ] {
        let error = error.unwrap_err();
        assert!(
            matches!(
                error,
                DoraError::Duplicate { .. } | DoraError::NotObserved { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn bits_depend_neither_on_batches_nor_on_threads() {
    let x = random(&[6, 50, 33], 7);
    let bits = |variance: &mut ExplainedVariance| -> Vec<u64> {
        let directions = variance.directions("fc", 9).unwrap();
        directions.vectors.iter().map(|v| v.to_bits()).collect()
    };
    let mut whole = ExplainedVariance::new(EvaSettings::default()).unwrap();
    whole.observe("fc", &x).unwrap();
    let want = bits(&mut whole);
    let flat = x.reshape((300, 33)).unwrap();
    let mut parts = ExplainedVariance::new(EvaSettings::default()).unwrap();
    for (start, len) in [(0, 1), (1, 70), (71, 128), (199, 101), (300, 0)] {
        let part = flat.narrow(0, start, len).unwrap();
        parts.observe("fc", &part).unwrap();
    }
    assert_eq!(bits(&mut parts), want);
    // Enough to be shared out.
    let wide = random(&[64, 300], 8);
    let run = || {
        let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
        variance.observe("fc", &wide).unwrap();
        bits(&mut variance)
    };
    let one = run();
    for threads in [2, 5] {
        set_threads(threads);
        assert_eq!(run(), one);
    }
    set_threads(1);
    // Means far from zero cost no digits.
    let far = (flat.to_dtype(DType::F64).unwrap() + 1e6).unwrap();
    let mut moved = ExplainedVariance::new(EvaSettings::default()).unwrap();
    moved.observe("fc", &far).unwrap();
    let (near, far) = (
        whole.directions("fc", 3).unwrap(),
        moved.directions("fc", 3).unwrap(),
    );
    close(&far.vectors, &near.vectors, 1e-7);
}

#[test]
fn inputs_that_do_not_vary_leave_rows_as_they_began() {
    let mut adapter = adapter(DoraConfig::builder(3));
    adapter.linear("c", &linear(10, 3, 1)).unwrap();
    adapter.linear("same", &linear(10, 4, 1)).unwrap();
    let before = [a_of(&adapter, "c"), a_of(&adapter, "same")];
    let mut variance = ExplainedVariance::new(EvaSettings {
        whiten: true,
        ..EvaSettings::default()
    })
    .unwrap();
    variance.observe("c", &third()).unwrap();
    let same = matrix(&[[1., 2., 3., 0.1].as_slice(); 7]);
    variance.observe("same", &same).unwrap();
    let begun = variance.begin(&mut adapter).unwrap();
    assert_eq!((begun.layers[0].directions, begun.layers[0].rank), (2, 3));
    assert_eq!((begun.layers[1].directions, begun.layers[1].rank), (0, 3));
    assert_eq!(a_of(&adapter, "same"), before[1]);
    let after = a_of(&adapter, "c");
    assert_eq!(after[6..], before[0][6..]);
    assert!(after.iter().zip(&before[0]).take(6).all(|(x, y)| x != y));
    assert!(after.iter().all(|v| v.is_finite()));
    // Ranks that explain nothing go last, and are still given.
    let config = variance.ranks(&adapter).unwrap();
    let rank = |name: &str| config.layer(name).unwrap().unwrap().rank;
    assert_eq!(rank("c") + rank("same"), 6);
}

#[test]
fn files_say_it_as_peft_does_and_are_read_again() {
    let mut adapter = three(DoraConfig::builder(2));
    let mut variance = observed(EvaSettings::default());
    variance.begin(&mut adapter).unwrap();
    let folder = Folder::new("eva");
    adapter.save(&folder.0).unwrap();
    let json = std::fs::read_to_string(folder.0.join(CONFIG_FILE)).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["init_lora_weights"], "eva");
    assert_eq!(
        json["eva_config"],
        json!({"rho": 2.0, "whiten": false, "adjust_scaling_factors": true})
    );
    let mut again = open(&folder.0).unwrap();
    for (name, columns) in [("a", 4), ("b", 5), ("c", 3)] {
        again.linear(name, &linear(10, columns, 1)).unwrap();
    }
    again.finish().unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(a_of(&adapter, name), a_of(&again, name));
        assert_eq!(
            adapter.factors(name).unwrap().scaling(),
            again.factors(name).unwrap().scaling()
        );
    }
    let other = Folder::new("eva-again");
    again.save(&other.0).unwrap();
    let read = |folder: &Folder| std::fs::read(folder.0.join(CONFIG_FILE)).unwrap();
    assert_eq!(read(&folder), read(&other));
}

#[test]
fn what_cannot_begin_is_refused_and_left_as_it_is() {
    let mut variance = observed(EvaSettings::default());
    #[track_caller]
    fn refused(
        variance: &mut ExplainedVariance,
        mut adapter: Adapter,
        is_it: fn(&DoraError) -> bool,
    ) {
        let all = |adapter: &Adapter| -> Vec<Vec<f64>> {
            let variables = adapter.variables();
            variables.all().map(|var| values(var)).collect()
        };
        let before = (all(&adapter), adapter.config().clone());
        let error = variance.begin(&mut adapter).unwrap_err();
        assert!(is_it(&error), "{error}");
        assert!(is_it(&variance.ranks(&adapter).unwrap_err()));
        assert_eq!((all(&adapter), adapter.config().clone()), before);
    }
    // Trained.
    let trained = three(DoraConfig::builder(2));
    let b = trained.factors("b").unwrap().b().unwrap();
    let var = candle_core::Var::from_tensor(b).unwrap();
    var.set(&random(&[10, 2], 4)).unwrap();
    refused(
        &mut variance,
        trained,
        |e| matches!(e, DoraError::AlreadyTrained { layer } if layer == "b"),
    );
    let random_b = three(DoraConfig::builder(2).init(Init::Random));
    refused(&mut variance, random_b, |e| {
        matches!(e, DoraError::AlreadyTrained { .. })
    });
    // Taken from the weight.
    let pissa = three(DoraConfig::builder(2).init(Init::Pissa));
    refused(&mut variance, pissa, |e| {
        matches!(e, DoraError::Unsupported { .. })
    });
    // Adapted and not observed; observed and not there.
    let mut more = three(DoraConfig::builder(2));
    more.linear("d", &linear(10, 4, 1)).unwrap();
    refused(
        &mut variance,
        more,
        |e| matches!(e, DoraError::NotObserved { layers } if layers == &["d"]),
    );
    let mut fewer = adapter(DoraConfig::builder(2));
    fewer.linear("a", &linear(10, 4, 1)).unwrap();
    refused(
        &mut variance,
        fewer,
        |e| matches!(e, DoraError::UnknownLayer { name } if name == "b"),
    );
    // Of another length.
    let mut other = adapter(DoraConfig::builder(2));
    for (name, columns) in [("a", 4), ("b", 6), ("c", 3)] {
        other.linear(name, &linear(10, columns, 1)).unwrap();
    }
    refused(
        &mut variance,
        other,
        |e| matches!(e, DoraError::Shape { name, .. } if name == "b.input"),
    );
    // No linear layers.
    let mut conv = adapter(DoraConfig::builder(2));
    conv.linear("a", &linear(10, 4, 1)).unwrap();
    conv.linear("b", &linear(10, 5, 1)).unwrap();
    let layer = Conv1d::new(random(&[4, 3, 1], 1), None, Default::default());
    conv.conv1d("c", &layer).unwrap();
    refused(&mut variance, conv, |e| {
        matches!(e, DoraError::Unsupported { .. })
    });
    let mut embedding = adapter(DoraConfig::builder(2));
    embedding.linear("a", &linear(10, 4, 1)).unwrap();
    embedding.linear("b", &linear(10, 5, 1)).unwrap();
    let table = Embedding::new(random(&[9, 3], 1), 3);
    embedding.embedding("c", &table).unwrap();
    refused(&mut variance, embedding, |e| {
        matches!(e, DoraError::Unsupported { .. })
    });
    // A layer whose magnitude alone is trained has no A, and is none that would have to be observed.
    let magnitudes = DoraConfig::builder(2)
        .targets(["a", "b"])
        .magnitude_only(["c"]);
    let begun = variance.begin(&mut three(magnitudes)).unwrap();
    assert_eq!(begun.without_a, ["c"]);
    let plain = DoraConfig::builder(2).targets(["a"]);
    assert_eq!(
        variance.begin(&mut three(plain)).unwrap().without_a,
        ["b", "c"]
    );
    let mut packed = adapter(DoraConfig::builder(2));
    let weight = crate::packed::packed(spark_quant::Recipe::NVFP4, &[6, 32], 1);
    packed.packed_linear("x", &weight, None).unwrap();
    let mut of_packed = ExplainedVariance::new(EvaSettings::default()).unwrap();
    of_packed.observe("x", &random(&[40, 32], 5)).unwrap();
    assert_eq!(
        of_packed.begin(&mut packed).unwrap().layers[0].directions,
        2
    );
}

#[test]
fn inputs_that_are_no_numbers_are_refused_and_not_taken() {
    let mut variance = observed(EvaSettings::default());
    let want = variance.directions("a", 4).unwrap();
    for bad in [f64::NAN, f64::INFINITY, 1e101] {
        let x = matrix(&[&[1., 2., 3., 4.], &[1., bad, 3., 4.]]);
        let error = variance.observe("a", &x).unwrap_err();
        let (DoraError::NotFinite { name, index } | DoraError::BeyondType { name, index, .. }) =
            &error
        else {
            panic!("{error}");
        };
        assert_eq!((name.as_str(), *index), ("a.input", 5));
        // A name that was not known stays unknown.
        assert!(variance.observe("new", &x).is_err());
        assert!(variance.directions("new", 1).is_err());
    }
    let integers = Tensor::new(&[[1u32, 2, 3, 4]], &Device::Cpu).unwrap();
    let wide = Tensor::zeros((1, 8193), DType::F32, &Device::Cpu).unwrap();
    for (name, x) in [
        ("a", integers),
        ("a", random(&[2, 5], 1)),
        ("a", Tensor::new(1f32, &Device::Cpu).unwrap()),
        (
            "a",
            Tensor::zeros((3, 0), DType::F32, &Device::Cpu).unwrap(),
        ),
    ] {
        variance.observe(name, &x).unwrap_err();
    }
    let none = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
    variance.observe("none", &none).unwrap();
    assert!(variance.directions("none", 1).is_err());
    let error = variance.observe("wide", &wide).unwrap_err();
    assert!(
        matches!(
            &error,
            DoraError::TooManyColumns {
                columns: 8193,
                limit: 8192,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(variance.directions("a", 4).unwrap(), want);
    for rho in [0.5, f64::NAN, f64::INFINITY] {
        let settings = EvaSettings {
            rho,
            ..EvaSettings::default()
        };
        assert!(matches!(
            ExplainedVariance::new(settings),
            Err(DoraError::Setting { .. })
        ));
    }
    // One input varies in nothing.
    let mut one = ExplainedVariance::new(EvaSettings::default()).unwrap();
    one.observe("x", &random(&[1, 4], 1)).unwrap();
    assert_eq!(one.directions("x", 4).unwrap().count(), 0);
    let layer = Linear::new(random(&[3, 4], 2), None);
    let mut adapter = adapter(DoraConfig::builder(2));
    adapter.linear("x", &layer).unwrap();
    let begun = one.begin(&mut adapter).unwrap().layers.remove(0);
    assert_eq!((begun.directions, begun.explained.to_bits()), (0, 0));
}

/// Whitening divides by the root of a size, which f64 holds and A may not.
#[test]
fn whitened_directions_that_a_cannot_hold_are_refused() {
    let sizes = [(1e-80, false), (1.0, true), (1e90, false), (1e99, false)];
    for (size, is_held) in sizes {
        let x = matrix(&[&[size, 0.], &[0., -size], &[size / 2., size / 4.]]);
        let settings = EvaSettings {
            whiten: true,
            ..EvaSettings::default()
        };
        let mut variance = ExplainedVariance::new(settings).unwrap();
        variance.observe("x", &x).unwrap();
        let mut adapter = adapter(DoraConfig::builder(2));
        adapter
            .linear("x", &Linear::new(random(&[3, 2], 2), None))
            .unwrap();
        let before = a_of(&adapter, "x");
        match variance.begin(&mut adapter) {
            Ok(_) => assert!(is_held, "{size}"),
            Err(error) => {
                let names_it =
                    matches!(&error, DoraError::BeyondType { name, .. } if name == "x.lora_A");
                assert!(!is_held && names_it, "{size}: {error}");
                assert_eq!(a_of(&adapter, "x"), before);
            }
        }
    }
}

/// Fewer inputs than columns, many of which are zero in all of them, as behind rectifiers: what is left behind the rank is
/// rounding of rounding, and once became NaN.
#[test]
fn few_inputs_with_dead_columns_give_finite_directions() {
    for columns in [4, 16, 64, 200, 512] {
        for rows in [1, 2, 3, 8] {
            let values = (0..rows * columns).map(|i| {
                let value = ((i * 7919 + 13) % 1009) as f32 / 1009.0 - 0.6;
                if i % columns % 3 == 0 {
                    0.0
                } else {
                    value.max(0.0) * 1e-3
                }
            });
            let x = Tensor::from_vec(values.collect::<Vec<f32>>(), (rows, columns), &Device::Cpu);
            let base = Linear::new(
                Tensor::ones((6, columns), DType::F32, &Device::Cpu).expect("ones"),
                None,
            );
            let config = DoraConfig::builder(4).build().expect("settings");
            let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).expect("empty");
            let layer = adapter.linear("fc", &base).expect("fits");
            let mut variance = ExplainedVariance::new(EvaSettings::default()).expect("settings");
            variance
                .observe("fc", &x.expect("fits"))
                .expect("takes them");
            variance.begin(&mut adapter).expect("begins");
            let a = adapter
                .factors("fc")
                .and_then(|f| f.a().cloned())
                .expect("an A");
            let a: Vec<f32> = a.flatten_all().and_then(|a| a.to_vec1()).expect("reads");
            assert!(
                a.iter().all(|v| v.is_finite()),
                "{columns} columns, {rows} rows"
            );
            layer.adapted().expect("adapted").merge().expect("merges");
        }
    }
}

/// A first input at zero and all others far from it, as a frame before a camera has started: what the others vary among
/// themselves is a ten-millionth of that, and is found.
#[test]
fn a_first_input_far_from_the_others_costs_no_digits() {
    let (u, v) = ([1.0, -1.0, 0.0], [1.0, 1.0, -2.0]);
    let draws = values(&random(&[2, 200], 11));
    let mut rows = vec![[0.0; 3]];
    for i in 0..200 {
        let (a, b) = (8.0 * draws[i], 2.0 * draws[200 + i]);
        rows.push(std::array::from_fn(|j| 1e8 + a * u[j] + b * v[j]));
    }
    let of = |rows: &[[f64; 3]]| {
        let rows: Vec<&[f64]> = rows.iter().map(|row| row.as_slice()).collect();
        let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
        variance.observe("fc", &matrix(&rows)).unwrap();
        variance.directions("fc", 3).unwrap()
    };
    let (all, others) = (of(&rows), of(&rows[1..]));
    assert_eq!((all.count(), others.count()), (3, 2));
    // The first is the way from zero to the others; the others' own are behind it.
    close(all.vector(0), &[3f64.sqrt().recip(); 3], 1e-6);
    // Eigenvalues of a scatter of 3e16 are known to about 7, and the least is 1600.
    close(&all.vectors[3..], &others.vectors, 1e-2);
    close(
        &all.singular_values[1..],
        &others.singular_values,
        1e-2 * others.singular_values[1],
    );
}

/// Sums of twenty thousand terms round by more than those of a few: what that leaves is no direction, and would be whitened into a large one.
#[test]
fn rounding_of_many_terms_is_no_direction() {
    for seed in 0..8 {
        let draws = values(&random(&[20_000], 20 + seed));
        let rows: Vec<[f64; 2]> = draws.iter().map(|a| [*a, 3.0 * a]).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| row.as_slice()).collect();
        let mut variance = ExplainedVariance::new(EvaSettings::default()).unwrap();
        variance.observe("fc", &matrix(&rows)).unwrap();
        assert_eq!(variance.directions("fc", 2).unwrap().count(), 1, "{seed}");
    }
}
