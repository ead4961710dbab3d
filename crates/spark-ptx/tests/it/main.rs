//! The interpreter on small programs: what instructions mean, what each check finds, what
//! hostile text does.

mod checks;
mod hostile;
mod instructions;
mod kernels;
mod launches;
mod support;
