//! What several modules of these tests share, beside the test kit.

pub mod scripted;

use remem_testkit::TestHost;

/// A text is only compared with others that are much alike: a long common ending makes it so.
pub const ENDING: &str = " as the minutes of the weekly planning meeting say which the whole platform team attended in the big room \
    upstairs last spring before everybody left for the workshop by the lake with its boats and long wooden tables under old trees";

/// Two hosts on one store: one whose calls fail now and then, and one to see what really happened.
pub async fn failing(seed: u64) -> (TestHost, TestHost) {
    let env = remem_testkit::TestEnv::sqlite();
    let host = env.failing(seed, 40).host().await;
    (host, env.host().await)
}
