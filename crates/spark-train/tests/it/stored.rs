//! Samples on the disk: every type of element comes back as it was; others than the first are refused.

use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{Sample, SampleRange, SampleWriter, Samples, TrainError, digest};

fn sample(seed: u64) -> Sample {
    let inputs = DType::ALL.iter().enumerate().map(|(i, &dtype)| {
        let values = numbers(6, seed * 31 + i as u64).into_iter();
        let values = values.map(|v| f64::from(v) * 100.0);
        let values = values.map(|v| if dtype.is_float() { v } else { v.abs().floor() });
        let values = values.map(|v| if dtype == DType::Bool { v % 2.0 } else { v });
        let tensor = Tensor::from_f64(dtype, vec![1, 2, 3], values.collect());
        (format!("x{i}"), tensor.expect("fits"))
    });
    let target = Tensor::from_f32([1, 4], numbers(4, seed)).expect("fits");
    Sample {
        inputs: inputs.collect(),
        targets: vec![("y".to_owned(), target)],
    }
}

#[test]
fn samples_come_back_as_they_were() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let own = folder.path().join("of/this/run");
    let mut writer = SampleWriter::new(&own).expect("a writable folder");
    let all: Vec<Sample> = (0..7).map(sample).collect();
    for sample in &all {
        writer.push(sample).expect("writes");
    }
    let stored = writer.finish().expect("writes");
    assert_eq!((stored.len(), stored.is_empty()), (7, false));
    // 6 elements of 13 types, 4 of f32.
    assert_eq!(stored.size_bytes(), 7 * (6 * 47 + 4 * 4));
    for index in [6, 0, 3, 3] {
        assert_eq!(stored.sample(index).expect("reads"), all[index]);
    }
    assert!(stored.sample(7).is_err());
    assert_eq!(
        digest(&stored).expect("reads"),
        digest(&all).expect("reads")
    );
    // It has no name that anybody could open, and goes with the process.
    assert_eq!(std::fs::read_dir(&own).expect("is there").count(), 0);

    let part = SampleRange::new(&stored, 5..100);
    assert_eq!(part.len(), 2);
    assert_eq!(part.sample(1).expect("reads"), all[6]);
    assert!(part.sample(2).is_err());
    let none = SampleRange::new(&stored, 9..12);
    assert!(none.is_empty() && none.sample(0).is_err());
}

#[test]
fn samples_unlike_the_first_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let mut writer = SampleWriter::new(folder.path()).expect("a writable folder");
    writer.push(&sample(0)).expect("writes");
    let mut other = sample(1);
    other.inputs[3].1 = Tensor::from_f32([1, 5], vec![0.0; 5]).expect("fits");
    let refused = writer.push(&other);
    assert!(
        matches!(&refused, Err(TrainError::UnlikeSamples { other: 1, name, want, got: Some(got), .. })
            if name == "x3" && *want == [1, 2, 3] && *got == [1, 5]),
        "{refused:?}"
    );
    let mut other = sample(1);
    other.targets.clear();
    let refused = writer.push(&other);
    assert!(
        matches!(&refused, Err(TrainError::UnlikeSamples { name, got: None, .. }) if name == "y"),
        "{refused:?}"
    );
    let mut other = sample(1);
    other
        .targets
        .push(("z".to_owned(), other.targets[0].1.clone()));
    let refused = writer.push(&other);
    assert!(
        matches!(&refused, Err(TrainError::UnlikeSamples { name, want, got: Some(_), .. })
            if name == "z" && want.is_empty()),
        "{refused:?}"
    );
    writer.push(&sample(2)).expect("writes");
    let stored = writer.finish().expect("writes");
    assert_eq!(stored.sample(1).expect("reads"), sample(2));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a writable folder");
    let refused = SampleWriter::new(&file.join("below"));
    let Err(TrainError::Io { path, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(path, file.join("below"));
}
