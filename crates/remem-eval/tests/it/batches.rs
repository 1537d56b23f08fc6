//! Every entry is in one batch, and no batch is too large.

use remem_core::Timestamp;
use remem_eval::batches::{BATCH_BYTES, batches};
use remem_eval::dataset::EntryText;

#[test]
fn every_entry_is_in_exactly_one_batch() {
    let text = |bytes: usize| EntryText {
        id: String::new(),
        at: Timestamp(0),
        text: "x".repeat(bytes),
    };
    let many: Vec<EntryText> = (0..1_001).map(|_| text(1)).collect();
    assert_eq!(batches(&many), [0..500, 500..1_000, 1_000..1_001]);
    let long = [text(BATCH_BYTES), text(1), text(BATCH_BYTES + 1), text(1)];
    assert_eq!(batches(&long), [0..1, 1..2, 2..3, 3..4]);
    assert!(batches(&[]).is_empty());
}
