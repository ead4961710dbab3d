//! The interpreter on small programs: what instructions mean, what each check finds, what
//! hostile text does.

mod barriers;
mod checks;
mod hangs;
mod hardware;
mod hostile;
mod instructions;
mod kernels;
mod launches;
mod layouts;
#[path = "../probes/mod.rs"]
mod probes;
mod races;
mod support;
mod targets;
mod written;
