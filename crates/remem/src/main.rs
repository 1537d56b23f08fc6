//! The program `remem`. All of its code is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    remem::main()
}
