//! The bodies of records that more than one part of the engine reads or writes, as structs; those
//! of one part are beside it. Here is only what a body looks like: what a record means is decided
//! where it is used. `golden` reads a record of each kind as release 0.1.0 wrote it.

pub(crate) mod file;
pub(crate) mod firing;
#[cfg(test)]
mod golden;
pub(crate) mod progress;
pub(crate) mod run;
