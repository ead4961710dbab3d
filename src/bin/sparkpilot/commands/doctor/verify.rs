//! `sparkpilot doctor --verify`: whether the device that the settings choose computes right at all.

use std::error::Error;
use std::process::ExitCode;

use sparkpilot::load::verify;
use sparkpilot::mem::Device;

use crate::exit_code;

/// Tries the device and prints what came of it.
pub(super) fn run(is_json: bool) -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open() {
        Ok(device) => device,
        Err(why) => {
            spark_program::tell(format_args!("the device cannot be had: {why}"));
            return Ok(ExitCode::from(exit_code::REFUSED));
        }
    };
    let verification = verify(&device);
    if is_json {
        println!("{}", verification.to_json());
    } else {
        print!("{}", verification.to_text());
    }
    Ok(ExitCode::from(u8::from(!verification.is_ok())))
}
