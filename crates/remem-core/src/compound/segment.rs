//! segment: stretches of work. A thread is cut where nothing happened for a while, so that the acts
//! of one segment were done together. It does not read the texts.

use super::Episode;
use std::collections::BTreeMap;

/// The longest pause inside a stretch, in milliseconds.
const PAUSE_MS_MAX: i64 = 45 * 60_000;

/// Episodes of one thread without a long pause, in order.
pub(super) type Segment<'e, 'a, I> = Vec<&'e Episode<'a, I>>;

/// The segments of ordered episodes, thread by thread.
pub(super) fn segments<'e, 'a, I>(ordered: &[&'e Episode<'a, I>]) -> Vec<Segment<'e, 'a, I>> {
    let mut threads: BTreeMap<&str, Vec<Segment<'e, 'a, I>>> = BTreeMap::new();
    for episode in ordered {
        let segments = threads.entry(episode.thread).or_default();
        let near = |last: &&Episode<'a, I>| episode.at.0.saturating_sub(last.at.0) <= PAUSE_MS_MAX;
        match segments
            .last_mut()
            .filter(|segment| segment.last().is_some_and(near))
        {
            Some(segment) => segment.push(episode),
            None => segments.push(vec![episode]),
        }
    }
    threads.into_values().flatten().collect()
}
