//! Helpers that several modules of these tests share, in addition to the test kit.

pub mod scripted;

use remem_testkit::TestHost;

/// A long common ending: rules are only compared with texts that are similar.
pub const ENDING: &str = " as the minutes of the weekly planning meeting say which the whole platform team attended in the big room \
    upstairs last spring before everybody left for the workshop by the lake with its boats and long wooden tables under old trees";

/// Two hosts on one store: one whose calls fail now and then, and one that shows what really
/// happened.
pub async fn failing(seed: u64) -> (TestHost, TestHost) {
    let env = remem_testkit::TestEnv::sqlite();
    let host = env.failing(seed, 40).host().await;
    (host, env.host().await)
}
