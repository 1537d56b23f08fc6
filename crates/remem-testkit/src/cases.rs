//! The number of cases that property, differential and simulation tests try.

/// The number of cases for this run: `gate` of them unless `REMEM_TEST_CASES` says otherwise.
///
/// `REMEM_TEST_CASES=full` asks for `full` cases and `release` for four times as many; a whole
/// number asks for that many times as many as `gate`.
#[must_use]
pub fn cases(gate: u32, full: u32) -> u32 {
    cases_by_tier(gate, full, full.saturating_mul(4))
}

/// Like [`cases`], with a separate number for `release`.
#[must_use]
pub fn cases_by_tier(gate: u32, full: u32, release: u32) -> u32 {
    match std::env::var("REMEM_TEST_CASES").as_deref() {
        Err(_) | Ok("") => gate,
        Ok("full") => full,
        Ok("release") => release,
        Ok(times) => {
            let times: u32 = times
                .parse()
                .expect("REMEM_TEST_CASES is `full`, `release` or a whole number");
            gate.saturating_mul(times)
        }
    }
}
