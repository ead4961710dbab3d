//! What the command line calls a value, and what its help says of it.

use clap::ValueEnum;

/// Its name on the command line.
pub(super) fn name_of(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |it| it.get_name().to_owned())
}

/// The sentence of its help.
pub(super) fn sentence_of(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    let help = possible.and_then(|it| it.get_help().map(ToString::to_string));
    help.unwrap_or_default()
}
