//! A dataset that is split into its sessions.

use remem_core::Timestamp;
use remem_eval::dataset::{Dataset, DatasetMemory, DatasetTurn, EvalQuestion};
use remem_eval::judged_answers::{SplitDataset, directed_at_other_memory};

fn item(id: &str, session: &str) -> DatasetTurn {
    let said = id.to_owned();
    let session = session.to_owned();
    DatasetTurn {
        id: id.to_owned(),
        at: Timestamp(0),
        session,
        text: said,
        speaker: None,
        caption: None,
        day: None,
    }
}

fn question(memory: usize, evidence: &str) -> EvalQuestion {
    let evidence = vec![evidence.to_owned()];
    let sessions = Vec::new();
    EvalQuestion {
        memory,
        text: String::new(),
        evidence,
        sessions,
        category: String::new(),
        answerable: true,
        at: None,
    }
}

#[test]
fn sessions_become_memories_and_questions_follow_their_evidence() {
    let memories = vec![
        DatasetMemory {
            entries: vec![item("a", "s1"), item("b", "s1"), item("c", "s2")],
        },
        DatasetMemory {
            entries: vec![item("a", "s1"), item("d", "s2"), item("e", "s3")],
        },
    ];
    let questions = vec![
        question(0, "c"),
        question(1, "a"),
        question(1, "e"),
        question(1, "nowhere"),
    ];
    let whole = Dataset {
        memories,
        questions,
        skipped: 0,
    };
    let apart = SplitDataset::new(&whole);
    let sizes: Vec<usize> = apart
        .dataset
        .memories
        .iter()
        .map(|memory| memory.entries.len())
        .collect();
    assert_eq!(sizes, [2, 1, 1, 1, 1]);
    assert_eq!(
        apart
            .dataset
            .questions
            .iter()
            .map(|one| one.memory)
            .collect::<Vec<_>>(),
        [1, 2, 4]
    );
    assert_eq!(
        (0..5)
            .map(|session| apart.original_memory(session))
            .collect::<Vec<_>>(),
        [0, 0, 1, 1, 1]
    );
    assert_eq!(
        (0..5)
            .map(|session| apart.session_of_next_memory(session))
            .collect::<Vec<_>>(),
        [2, 3, 0, 1, 0],
        "always of the other memory"
    );
    let away = directed_at_other_memory(&whole.questions, |memory| 1 - memory);
    assert!(
        away.iter()
            .zip(&whole.questions)
            .all(|(away, own)| away.memory != own.memory
                && away.evidence.is_empty()
                && !away.answerable)
    );
}
