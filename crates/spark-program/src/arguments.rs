//! Values of options: numbers within bounds, words out of a list, files by the ending of their name.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, RangedU64ValueParser, TypedValueParser};

/// A whole number from `least` to `most`, both allowed.
pub fn count(least: u64, most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(least..=most)
}

/// A file to be written whose name ends in one of `endings`, in any case of letters, or in none; `-` is stdout. Another ending
/// would say that something else is in it.
pub fn file_ending_in(endings: &'static [&'static str]) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| ending_in(endings, path))
}

fn ending_in(endings: &[&str], path: PathBuf) -> Result<PathBuf, String> {
    let is_known = path.extension().is_none_or(|ending| {
        let mut known = endings.iter();
        known.any(|known| ending.eq_ignore_ascii_case(known))
    });
    match is_known {
        true => Ok(path),
        false => Err(format!(
            "what is written there is .{}, and the name ends otherwise",
            endings.join(" or .")
        )),
    }
}

/// A number from `least` to `most`, both allowed; NaN is none.
pub fn number(
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_promises_another_kind_of_file_is_refused() {
        let picture = |name: &str| ending_in(&["svg"], PathBuf::from(name));
        for good in ["a.svg", "A.SVG", "-", "folder.png/a", "/dev/stdout", "a"] {
            assert_eq!(picture(good), Ok(PathBuf::from(good)));
        }
        for bad in ["a.png", "a.svg.txt", "a."] {
            let told = picture(bad).unwrap_err();
            assert!(told.contains(".svg"), "{told}");
        }
        let told = ending_in(&["npy", "npz"], PathBuf::from("a.txt")).unwrap_err();
        assert!(told.contains(".npy or .npz"), "{told}");
    }
}
