//! `sparkpilot doctor --verify`: whether the device that the settings choose computes right at all.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use spark_program::output;
use sparkpilot::load::verify;
use sparkpilot::mem::Device;

use crate::exit_code;

/// Tries the device and writes what came of it.
pub(super) fn run(is_json: bool, place: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open() {
        Ok(device) => device,
        Err(why) => {
            spark_program::tell(format_args!("the device cannot be had: {why}"));
            return Ok(ExitCode::from(exit_code::REFUSED));
        }
    };
    let verification = verify(&device);
    let text = match is_json {
        true => verification.to_json() + "\n",
        false => verification.to_text(),
    };
    output::write(place, text)?;
    Ok(ExitCode::from(u8::from(!verification.is_ok())))
}
