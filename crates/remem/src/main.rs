//! The program `remem`. All of it is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    remem::main()
}
