//! The number of cases in property tests. `remem_testkit::cases` does the same for the crates
//! above: it is built on this crate, whose own tests would have to wait for all of it.

use proptest::test_runner::Config;

/// A configuration with `gate` cases. `REMEM_TEST_CASES=full` asks for `full` cases and `release`
/// for four times as many; a whole number asks for that many times as many as `gate`.
pub fn config(gate: u32, full: u32) -> Config {
    let cases = match std::env::var("REMEM_TEST_CASES").as_deref() {
        Err(_) | Ok("") => gate,
        Ok("full") => full,
        Ok("release") => full.saturating_mul(4),
        Ok(times) => {
            let times: u32 = times
                .parse()
                .expect("REMEM_TEST_CASES is `full`, `release` or a whole number");
            gate.saturating_mul(times)
        }
    };
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}
