//! How many cases property tests try. `remem_testkit::cases` says the same for the crates above:
//! that one is built on this crate, whose own tests would have to wait for all of it.

use proptest::test_runner::Config;

/// A configuration with `gate` cases, or with `full` when `REMEM_TEST_CASES=full`; a whole number
/// there asks for that many times as many as `gate`.
pub fn config(gate: u32, full: u32) -> Config {
    let cases = match std::env::var("REMEM_TEST_CASES").as_deref() {
        Err(_) | Ok("") => gate,
        Ok("full") => full,
        Ok(times) => {
            let times: u32 = times
                .parse()
                .expect("REMEM_TEST_CASES is `full` or a whole number");
            gate.saturating_mul(times)
        }
    };
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}
