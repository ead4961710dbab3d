//! Adapters over a network that is built once.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Embedding, LayerNorm, Linear, Module};
use spark_dora::{
    Adapter, AdapterSet, DoraConfig, DoraConfigBuilder, DoraError, Init, TrainModule,
};

use crate::adapter::{Folder, linear, open};
use crate::data::{noise, values};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

/// A network of any kind of layers: words, filter, picture, linear.
struct Net<E, F, C, L>(E, F, C, L);

impl<E: TrainModule, F: TrainModule, C: TrainModule, L: TrainModule> Net<E, F, C, L> {
    fn run(&self, step: u64) -> Result<Vec<f64>> {
        let ids = Tensor::new(&[3u32, 0, 8, 1], &Device::Cpu)?;
        let x = self.0.forward_train(&ids, step)?.reshape((1, 4, 4))?;
        let x = self.1.forward_train(&x, step)?.reshape((1, 1, 4, 4))?;
        let x = self.2.forward_train(&x, step)?.flatten_from(1)?;
        Ok(values(&self.3.forward_train(&x, step)?))
    }
}

fn plain() -> Net<Embedding, Conv1d, Conv2d, Linear> {
    let filter = Conv1dConfig {
        padding: 1,
        ..Default::default()
    };
    Net(
        Embedding::new(tensor(&[9, 4], 1), 4),
        Conv1d::new(tensor(&[4, 4, 3], 2), None, filter),
        Conv2d::new(tensor(&[2, 1, 3, 3], 3), None, Conv2dConfig::default()),
        Linear::new(tensor(&[5, 8], 4), Some(tensor(&[5], 5))),
    )
}

fn adapter(config: DoraConfigBuilder) -> Adapter {
    Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).unwrap()
}

/// Two adapters that differ in layers and values; the second trains the linear layer whole.
fn configs() -> [DoraConfigBuilder; 2] {
    let random = |seed| DoraConfig::builder(1).init(Init::Random).seed(seed);
    [
        random(1).targets(["words", "filter", "fc"]).dropout(0.3),
        random(2).targets(["picture"]).modules_to_save(["fc"]),
    ]
}

/// The network rebuilt of what one adapter gives.
fn rebuilt(adapter: &mut Adapter, step: u64) -> Vec<f64> {
    let Net(words, filter, picture, fc) = plain();
    let net = Net(
        adapter.embedding("words", &words).unwrap(),
        adapter.conv1d("filter", &filter).unwrap(),
        adapter.conv2d("picture", &picture).unwrap(),
        adapter.linear("fc", &fc).unwrap(),
    );
    adapter.finish().unwrap();
    net.run(step).unwrap()
}

#[test]
fn adapters_are_added_exchanged_switched_off_and_removed_in_a_network_built_once() {
    let base = plain();
    let before = base.run(0).unwrap();
    let mut set = AdapterSet::new();
    let net = Net(
        set.embedding("words", &base.0).unwrap(),
        set.conv1d("filter", &base.1).unwrap(),
        set.conv2d("picture", &base.2).unwrap(),
        set.linear("fc", &base.3).unwrap(),
    );
    assert_eq!(net.run(0).unwrap(), before, "no adapter yet");
    let [first, second] = configs();
    let want = [
        rebuilt(&mut adapter(first.clone()), 7),
        rebuilt(&mut adapter(second.clone()), 7),
    ];
    set.add("first", adapter(first)).unwrap();
    assert_eq!(net.run(7).unwrap(), before, "added, not active");
    set.activate("first").unwrap();
    assert_eq!(net.run(7).unwrap(), want[0]);
    assert_ne!(want[0], before);
    set.add("second", adapter(second)).unwrap();
    for var in &set.adapter("second").unwrap().variables().whole {
        // As trained: the whole layer would begin as its base.
        let changed = (var.as_tensor().detach() * 2.0).unwrap();
        var.set(&changed).unwrap();
    }
    assert_eq!(net.run(7).unwrap(), want[0], "the other one stays active");
    set.activate("second").unwrap();
    let second = net.run(7).unwrap();
    let twice: Vec<f64> = want[1].iter().map(|y| 2.0 * y).collect();
    assert_eq!(second, twice, "the last layer was doubled, bias and all");
    assert_eq!(set.active().as_deref(), Some("second"));
    set.activate("first").unwrap();
    assert_eq!(net.run(7).unwrap(), want[0], "exchanged back");
    assert_ne!(net.run(8).unwrap(), want[0], "dropout of another step");
    set.disable();
    assert_eq!(net.run(7).unwrap(), before, "the base's bits");
    assert_eq!(set.active(), None);

    // Removed while active, it is off; as a file it can be added under another name.
    let folder = Folder::new("set");
    set.activate("second").unwrap();
    let removed = set.remove("second").unwrap();
    removed.save(&folder.0).unwrap();
    assert_eq!(net.run(7).unwrap(), before);
    assert_eq!(set.names().collect::<Vec<_>>(), ["first"]);
    set.add("again", open(&folder.0).unwrap()).unwrap();
    set.activate("again").unwrap();
    assert_eq!(net.run(7).unwrap(), second);
}

#[test]
fn the_active_adapter_is_trained_and_no_other() {
    let mut set = AdapterSet::new();
    let fc = set.linear("fc", &linear(6, 5, 1)).unwrap();
    for (seed, name) in (1..).zip(["a", "b"]) {
        let config = DoraConfig::builder(2).init(Init::Random).seed(seed);
        set.add(name, adapter(config)).unwrap();
    }
    let x = tensor(&[3, 5], 9);
    for (active, other) in [("a", "b"), ("b", "a")] {
        set.activate(active).unwrap();
        let loss = fc.forward(&x).unwrap().sqr().unwrap().sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        let has = |name: &str| {
            let variables = set.adapter(name).unwrap().variables();
            let all: Vec<_> = variables
                .all()
                .map(|v| gradients.get(v).is_some())
                .collect();
            assert_eq!(all.len(), 3);
            all
        };
        assert!(has(active).into_iter().all(|has| has));
        assert!(!has(other).into_iter().any(|has| has));
    }
    // A copy of the layer follows the same set.
    let copy = fc.clone();
    set.disable();
    let want = values(&linear(6, 5, 1).forward(&x).unwrap());
    assert_eq!(values(&copy.forward(&x).unwrap()), want);
    assert!(copy.current().is_none());
    assert_eq!(
        values(copy.plain().weight()),
        values(linear(6, 5, 1).weight())
    );
}

#[test]
fn modules_given_by_their_tensors_are_exchanged_too() {
    let weight = tensor(&[5], 1);
    let mut set = AdapterSet::new();
    let norm = set.module("norm", &[("weight", &weight)]).unwrap();
    set.linear("fc", &linear(6, 5, 1)).unwrap();
    let of = |end| {
        DoraConfig::builder(2)
            .targets(["fc"])
            .modules_to_save([end])
    };
    let whole = set.add("whole", adapter(of("norm"))).unwrap();
    whole.variables().whole[0].set(&tensor(&[5], 2)).unwrap();
    let plain = DoraConfig::builder(2).targets(["fc"]);
    set.add("plain", adapter(plain)).unwrap();
    let x = tensor(&[2, 5], 3);
    let run = || {
        let norm = LayerNorm::rms_norm(norm.get("weight").unwrap(), 1e-5);
        values(&norm.forward(&x).unwrap())
    };
    let before = run();
    set.activate("plain").unwrap();
    assert_eq!(run(), before);
    set.activate("whole").unwrap();
    assert_ne!(run(), before);
    let error = norm.get("bias").unwrap_err();
    assert!(matches!(error, DoraError::UnknownLayer { name } if name == "bias"));
    set.disable();
    assert_eq!(run(), before);
    assert!(matches!(
        norm.get("bias"),
        Err(DoraError::UnknownLayer { .. })
    ));
}

#[test]
fn adapters_that_do_not_fit_leave_the_set_as_it_was() {
    let folder = Folder::new("set-refused");
    let mut other = adapter(DoraConfig::builder(2).init(Init::Random));
    other.linear("fc", &linear(6, 5, 2)).unwrap();
    other.save(&folder.0).unwrap();

    let mut set = AdapterSet::new();
    let fc = set.linear("fc", &linear(6, 5, 1)).unwrap();
    set.linear("out", &linear(5, 6, 1)).unwrap();
    let error = set.linear("fc", &linear(6, 5, 1)).unwrap_err();
    assert!(matches!(error, DoraError::Duplicate { name } if name == "fc"));
    let norm = tensor(&[5], 1);
    let error = set.module("norm", &[("weight", &norm), ("weight", &norm)]);
    assert!(matches!(error, Err(DoraError::Duplicate { name }) if name == "norm.weight"));
    match set.add("x", open(&folder.0).unwrap()).err() {
        Some(DoraError::Base { layers }) => assert_eq!(layers, ["fc"]),
        other => panic!("{other:?}"),
    }
    let gone = adapter(DoraConfig::builder(2).targets(["gone"]));
    assert!(matches!(set.add("x", gone), Err(DoraError::Tensors { .. })));
    let large = adapter(DoraConfig::builder(9));
    assert!(matches!(
        set.add("x", large),
        Err(DoraError::RankTooLarge { .. })
    ));
    for error in [set.activate("x").err(), set.remove("x").err()] {
        assert!(matches!(error, Some(DoraError::UnknownAdapter { name }) if name == "x"));
    }
    assert_eq!(set.names().count(), 0);

    let good = || adapter(DoraConfig::builder(2).init(Init::Random));
    set.add("x", good()).unwrap();
    assert!(matches!(
        set.add("x", good()),
        Err(DoraError::DuplicateAdapter { name }) if name == "x"
    ));
    let error = set.linear("late", &linear(6, 5, 1)).unwrap_err();
    assert!(matches!(error, DoraError::LateLayer { name } if name == "late"));
    set.activate("x").unwrap();
    assert!(set.activate("y").is_err());
    assert!(fc.current().is_some(), "x stays active");
}

#[test]
fn sets_and_their_layers_may_be_used_from_other_threads() {
    let mut set = AdapterSet::new();
    let fc = set.linear("fc", &linear(6, 5, 1)).unwrap();
    let config = DoraConfig::builder(2).init(Init::Random);
    set.add("x", adapter(config)).unwrap();
    let x = tensor(&[3, 5], 9);
    let off = values(&fc.forward(&x).unwrap());
    set.activate("x").unwrap();
    let on = values(&fc.forward(&x).unwrap());
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for _ in 0..200 {
                let y = values(&fc.forward(&x).unwrap());
                assert!(y == on || y == off, "one or the other, whole");
            }
        });
        while !worker.is_finished() {
            set.disable();
            set.activate("x").unwrap();
        }
    });
}
