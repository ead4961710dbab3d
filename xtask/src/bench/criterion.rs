//! Reading what criterion leaves behind.
//!
//! ```text
//! $CRITERION_HOME/<group>/<function>/<value>/new/benchmark.json   full_id
//!                                                sample.json      iters[], times[] in ns
//! one sample's time per run = times[i] / iters[i]
//! ```
//!
//! The layout is that of criterion 0.8.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::record::Case;
use crate::error::Error;

/// All cases below a criterion folder, sorted by name; none when it does not exist.
pub(super) fn collect(home: &Path) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    let mut folders: Vec<PathBuf> = home.is_dir().then(|| home.to_owned()).into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
            let entry = entry.map_err(Error::io("list", &folder))?;
            if entry
                .file_type()
                .map_err(Error::io("look at", entry.path()))?
                .is_dir()
            {
                folders.push(entry.path());
            }
        }
        if folder.ends_with("new") && folder.join("sample.json").is_file() {
            let benchmark = read_json(&folder.join("benchmark.json"))?;
            let sample = read_json(&folder.join("sample.json"))?;
            cases.push(case(&benchmark, &sample)?);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    serde_json::from_str(&text).map_err(|source| Error::Json {
        what: path.display().to_string(),
        source,
    })
}

fn case(benchmark: &Value, sample: &Value) -> Result<Case, Error> {
    let broken = |field: &str| Error::Shape {
        what: "a criterion result".to_owned(),
        field: field.to_owned(),
    };
    let numbers = |field: &'static str| -> Result<Vec<f64>, Error> {
        let values = sample[field].as_array().ok_or_else(|| broken(field))?;
        values
            .iter()
            .map(|value| value.as_f64().ok_or_else(|| broken(field)))
            .collect()
    };
    let name = benchmark["full_id"]
        .as_str()
        .ok_or_else(|| broken("full_id"))?;
    let (iters, times) = (numbers("iters")?, numbers("times")?);
    if iters.is_empty() || iters.len() != times.len() || iters.iter().any(|n| *n < 1.0) {
        return Err(broken("iters"));
    }
    let mut runs_ms: Vec<f64> = times
        .iter()
        .zip(&iters)
        .map(|(ns, n_iters)| ns / n_iters / 1e6)
        .collect();
    runs_ms.sort_by(f64::total_cmp);
    Ok(Case {
        name: name.to_owned(),
        n_runs: runs_ms.len() as u64,
        unit: "ms".to_owned(),
        min: runs_ms[0],
        median: quantile(&runs_ms, 0.5),
        p95: Some(quantile(&runs_ms, 0.95)),
        max: runs_ms[runs_ms.len() - 1],
        ..Case::default()
    })
}

/// Quantile of sorted values, linear between neighbours; `sorted` is not empty.
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let part = position - below as f64;
    sorted[below] * (1.0 - part) + sorted[above] * part
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert!((quantile(&[1.0, 2.0, 4.0], 0.5) - 2.0).abs() < 1e-12);
        assert!((quantile(&[1.0, 2.0], 0.5) - 1.5).abs() < 1e-12);
        assert!((quantile(&[3.0], 0.95) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_sample_is_time_over_iterations() {
        let sample = json!({"iters": [1.0, 2.0, 4.0], "times": [3e6, 4e6, 4e6]});
        let case = case(&json!({"full_id": "conv/3x3"}), &sample).unwrap();
        assert_eq!((case.name.as_str(), case.n_runs), ("conv/3x3", 3));
        assert!((case.min - 1.0).abs() < 1e-12);
        assert!((case.median - 2.0).abs() < 1e-12);
        assert!((case.max - 3.0).abs() < 1e-12);
    }

    #[test]
    fn broken_results_are_errors() {
        let id = json!({"full_id": "a"});
        for sample in [
            json!({"iters": [], "times": []}),
            json!({"iters": [1.0], "times": [1.0, 2.0]}),
            json!({"iters": [0.0], "times": [1.0]}),
            json!({"times": [1.0]}),
        ] {
            assert!(case(&id, &sample).is_err(), "{sample}");
        }
    }

    #[test]
    fn results_are_found_wherever_they_lie() {
        let home = std::env::temp_dir().join(format!("spark-criterion-{}", std::process::id()));
        let new = home.join("group/function/8/new");
        std::fs::create_dir_all(&new).unwrap();
        std::fs::write(
            new.join("benchmark.json"),
            r#"{"full_id": "group/function/8"}"#,
        )
        .unwrap();
        std::fs::write(
            new.join("sample.json"),
            r#"{"iters": [1.0], "times": [2e6]}"#,
        )
        .unwrap();
        let cases = collect(&home).unwrap();
        std::fs::remove_dir_all(&home).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].name, "group/function/8");
        assert_eq!(collect(&home).unwrap(), []);
    }
}
