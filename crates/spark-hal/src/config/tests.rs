//! Variables read, refused and documented.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use spark_testing::settings;

use super::*;
use crate::precision::Precision;

fn read(pairs: &[(&str, &str)]) -> (Config, Vec<InvalidValue>) {
    Config::read(|name| {
        pairs
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| OsString::from(value))
    })
}

#[test]
fn an_empty_environment_gives_the_documented_defaults() {
    let (config, invalid) = read(&[]);
    assert_eq!(invalid, []);
    assert_eq!(
        config,
        Config {
            dgx_enabled: true,
            dgx_disabled: false,
            precision: PrecisionChoice::Auto,
            cuda: CudaUse::Auto,
            device: DeviceChoice::Auto,
            memory_kind: MemoryKindChoice::Auto,
            debug: 0,
            cache_dir: None,
        }
    );
}

#[test]
fn valid_words_are_taken() {
    let (config, invalid) = read(&[
        ("OPENPILOT_DGX_ENABLED", "0"),
        ("OPENPILOT_DGX_PRECISION", "nvfp4"),
        ("CUDA", "1"),
        ("SPARK_DEVICE", "CUDA:3"),
        ("SPARK_MEMORY_KIND", "Pinned"),
        ("DEBUG", " 2 "),
        ("SPARK_CACHE_DIR", "/fast/cache"),
    ]);
    assert_eq!(invalid, []);
    assert!(!config.dgx_features_allowed());
    assert_eq!(config.precision, PrecisionChoice::Fixed(Precision::Fp4));
    assert_eq!(config.cuda, CudaUse::Require);
    assert_eq!(config.device, DeviceChoice::Cuda(Some(3)));
    assert_eq!(config.memory_kind, MemoryKindChoice::Pinned);
    assert_eq!(config.log_level(), tracing::Level::DEBUG);
    assert_eq!(config.cache_dir.as_deref(), Some(Path::new("/fast/cache")));
}

#[test]
fn invalid_words_fall_back_and_are_named() {
    let wrong = [
        ("OPENPILOT_DGX_ENABLED", "yes"),
        ("OPENPILOT_DISABLE_DGX", "2"),
        ("OPENPILOT_DGX_PRECISION", "int4"),
        ("CUDA", "-1"),
        ("SPARK_DEVICE", "cuda:+1"),
        ("SPARK_MEMORY_KIND", "device"),
        ("DEBUG", "4"),
        ("SPARK_CACHE_DIR", "relative/path"),
    ];
    let (config, invalid) = read(&wrong);
    assert_eq!(config, read(&[]).0);
    let named: Vec<&str> = invalid.iter().map(|value| value.name).collect();
    assert_eq!(named, wrong.map(|(name, _)| name));
    assert!(invalid[2].to_string().contains("`int4`"), "{}", invalid[2]);
    for value in &invalid {
        let text = value.to_string();
        assert!(
            !text.contains("``") && !text.ends_with(": "),
            "says nothing about the default: {text}"
        );
    }
}

#[test]
fn bytes_that_are_not_text_are_invalid() {
    use std::os::unix::ffi::OsStringExt as _;
    let (config, invalid) = Config::read(|name| {
        (name == CACHE_DIR.name).then(|| OsString::from_vec(b"/tmp/\xff".to_vec()))
    });
    assert_eq!(config.cache_dir, None);
    assert_eq!(invalid.len(), 1);
}

#[test]
fn the_rollback_switch_wins() {
    let (config, _) = read(&[
        ("OPENPILOT_DGX_ENABLED", "1"),
        ("OPENPILOT_DISABLE_DGX", "1"),
    ]);
    assert!(!config.dgx_features_allowed());
}

#[test]
fn set_to_nothing_counts_as_not_set() {
    let blank: Vec<(&str, &str)> = DECLARATIONS
        .iter()
        .map(|declaration| (declaration.name, "  "))
        .collect();
    assert_eq!(read(&blank), read(&[]));
}

#[test]
fn the_cache_follows_the_user_directories() {
    let cache = |pairs| read(pairs).0.cache_dir;
    assert_eq!(
        cache(&[("HOME", "/h")]),
        Some(PathBuf::from("/h/.cache/spark"))
    );
    let both = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
    assert_eq!(cache(&both), Some(PathBuf::from("/x/spark")));
    let relative = [("HOME", "/h"), ("XDG_CACHE_HOME", "x")];
    assert_eq!(cache(&relative), Some(PathBuf::from("/h/.cache/spark")));
}

#[test]
fn each_variable_is_declared_once() {
    let names: HashSet<&str> = DECLARATIONS
        .iter()
        .map(|declaration| declaration.name)
        .collect();
    assert_eq!(names.len(), DECLARATIONS.len());
    for declaration in DECLARATIONS {
        let has_default = !declaration.default.is_empty();
        assert!(
            has_default || !declaration.default_meaning.is_empty(),
            "{}",
            declaration.name
        );
        assert!(declaration.doc.ends_with('.'), "{}", declaration.name);
        assert!(
            !declaration.doc.contains('|'),
            "breaks the table: {}",
            declaration.name
        );
    }
}

#[test]
fn options_of_programs_and_settings_take_the_same_words() {
    assert_eq!(" Auto ".parse(), Ok(PrecisionChoice::Auto));
    assert_eq!("FP16".parse(), Ok(PrecisionChoice::Fixed(Precision::Fp16)));
    assert_eq!("int8".parse(), Ok(PrecisionChoice::Fixed(Precision::Int8)));
    assert_eq!(" cuda:2 ".parse(), Ok(DeviceChoice::Cuda(Some(2))));
    assert_eq!(" System ".parse(), Ok(MemoryKindChoice::System));
    assert_eq!("unified".parse(), Ok(MemoryKindChoice::Unified));
    assert!("managed".parse::<MemoryKindChoice>().is_err());
    for wrong in ["", "cuda:", "cuda:-1", "cuda:+1", "cuda:4294967296", "gpu"] {
        let why = UnknownDevice {
            got: wrong.to_owned(),
        };
        assert_eq!(wrong.parse::<DeviceChoice>(), Err(why));
    }
}

/// The page has the settings of users from here and those of tests from where tests read them.
#[test]
fn environment_page_is_up_to_date() {
    const NOTE: &str = "\
<!-- Generated from `spark_hal::config` and `spark_testing::settings`; do not edit.
     Rewrite with `cargo xtask tidy --write`. -->
";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environment.md");
    let want = format!(
        "{NOTE}\n{}\n{}",
        environment_markdown(),
        settings::markdown()
    );
    if settings::bless() {
        std::fs::write(&page, &want).expect("docs/environment.md is writable");
    }
    let got = std::fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(got, want, "run `cargo xtask tidy --write`");
}
