//! Makes the tables of an evaluation from the results of the questions. May not ask or print.

use crate::ask::QuestionResult;
use crate::calibration::{Prediction, auc, brier, calibration_bins};
use crate::dataset::EvalQuestion;
use crate::eval_host::Costs;
use crate::fit::{FitSample, cross_validate, fit};
use crate::judged_answers::JudgedAnswer;
use crate::metrics::{mean, percentile};
use crate::report::{Cell, Section};
use remem_core::recall::PPM;
use remem_core::recall::confidence::{RELEVANCE_THRESHOLD_PPM, SignalWeights};

/// The results of one way to ask, with its name.
pub type NamedResults<'a> = (String, &'a [QuestionResult]);

const RELEVANCE: [&str; 3] = [
    "evidence is in the top 10",
    "the question is answerable",
    "both",
];

/// The mean scores of each way over all questions.
pub fn overall(title: &str, note: &str, ways: &[NamedResults<'_>], k: u32) -> Section {
    let at = |name: &str| format!("{name}@{k}");
    let heading = [
        "way",
        "questions",
        "recall@5",
        &at("recall"),
        &at("all"),
        &at("any"),
        &at("nDCG"),
        "MRR",
    ];
    let mut section = Section::new(title, note, &heading);
    for (name, asked) in ways {
        section.rows.push(figures(name, asked.iter()));
    }
    section
}

fn figures<'a>(name: &str, asked: impl Iterator<Item = &'a QuestionResult>) -> Vec<Cell> {
    let Some((means, count)) = mean(asked.filter_map(|one| one.scores.as_ref())) else {
        return [vec![Cell::text(name), Cell::Count(0)], vec![Cell::None; 6]].concat();
    };
    let shares = [
        means.recall_few,
        means.recall,
        means.all,
        means.any,
        means.ndcg,
        means.mrr,
    ]
    .map(Cell::Share);
    [
        vec![Cell::text(name), Cell::Count(count as u64)],
        shares.to_vec(),
    ]
    .concat()
}

/// The recall of each way, by category.
pub fn categories(ways: &[NamedResults<'_>], questions: &[EvalQuestion], k: u32) -> Section {
    let mut names: Vec<&str> = questions
        .iter()
        .map(|question| question.category.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut section = Section::new(
        &format!("Recall@{k} by category"),
        "In parentheses: all evidence among the hits.",
        &["category", "questions"],
    );
    for (name, _) in ways {
        section.heading.extend([name.clone(), format!("({name})")]);
    }
    for category in names {
        let mut row = Vec::new();
        for (_, asked) in ways {
            let of = asked
                .iter()
                .filter(|one| questions[one.question].category == category);
            let means = mean(of.filter_map(|one| one.scores.as_ref()));
            if row.is_empty() {
                row.extend([
                    Cell::text(category),
                    Cell::Count(means.map_or(0, |(_, count)| count as u64)),
                ]);
            }
            row.extend([
                Cell::share(means.map(|(means, _)| means.recall)),
                Cell::share(means.map(|(means, _)| means.all)),
            ]);
        }
        section.rows.push(row);
    }
    section
}

/// The cost of storing the dataset.
pub fn costs(costs: &Costs) -> Section {
    let heading = ["entries", "vectors", "bytes on disk", "load ms", "embed ms"];
    let mut section = Section::new(
        "Cost",
        "Bytes are those of the tenant's file: texts, events, the index of words, vectors.",
        &heading,
    );
    let counts = [
        costs.entries,
        costs.vectors,
        costs.bytes,
        costs.load_ms,
        costs.embed_ms,
    ];
    section.rows.push(counts.map(Cell::Count).to_vec());
    section
}

/// The latencies of the searches.
pub fn latency(ways: &[NamedResults<'_>]) -> Section {
    let note = "One search after the other, in milliseconds; making the vector of the question is part of it.";
    let mut section = Section::new("Latency", note, &["way", "p50", "p95", "p99"]);
    for (name, asked) in ways {
        let micros: Vec<u64> = asked.iter().map(|one| one.micros).collect();
        let of =
            [50, 95, 99].map(|hundredths| Cell::Ms(percentile(&micros, hundredths) as f64 / 1e3));
        section
            .rows
            .push([vec![Cell::text(name)], of.to_vec()].concat());
    }
    section
}

/// The scores by use of times: all questions, and those in which a time was recognised.
pub fn times(ways: &[NamedResults<'_>], k: u32) -> Section {
    let note = "Of the rows with \"timed\" only questions count in which a time was read.";
    let mut section = overall("Times in questions", note, &[], k);
    let timed: Vec<usize> = ways
        .iter()
        .flat_map(|(_, asked)| asked.iter().filter(|one| one.timed).map(|one| one.question))
        .collect();
    for (name, asked) in ways {
        section.rows.push(figures(name, asked.iter()));
        section.rows.push(figures(
            &format!("{name}, timed"),
            asked.iter().filter(|one| timed.contains(&one.question)),
        ));
    }
    section
}

/// The outcomes that the probability could be taken to predict, one for each meaning of relevant.
fn relevance(one: &QuestionResult, questions: &[EvalQuestion]) -> [bool; 3] {
    let answerable = questions[one.question].answerable;
    [one.is_relevant, answerable, one.is_relevant && answerable]
}

/// How well the probability separates relevant answers from others.
pub fn abstention(ways: &[NamedResults<'_>], questions: &[EvalQuestion]) -> Section {
    let note = "What \"relevant\" means is said in each row. AUC: 1 parts them, 0.5 is chance. Brier: 0 is best. Base: how many are \
                relevant; telling it always gives the Brier score in the last column.";
    let mut section = Section::new(
        "The probability",
        note,
        &[
            "way",
            "relevant if",
            "questions",
            "base",
            "AUC",
            "Brier",
            "Brier of base",
        ],
    );
    for (name, asked) in ways {
        for (place, meaning) in RELEVANCE.iter().enumerate() {
            let predictions: Vec<Prediction> = asked
                .iter()
                .map(|one| (one.probability, relevance(one, questions)[place]))
                .collect();
            let base = predictions.iter().filter(|one| one.1).count() as f64
                / predictions.len().max(1) as f64;
            let shares = [
                Some(base),
                auc(&predictions),
                brier(&predictions),
                Some(base * (1.0 - base)),
            ]
            .map(Cell::share);
            section.rows.push(
                [
                    vec![
                        Cell::text(name),
                        Cell::text(*meaning),
                        Cell::Count(predictions.len() as u64),
                    ],
                    shares.to_vec(),
                ]
                .concat(),
            );
        }
    }
    section
}

/// The answers of one way to questions of the right memory and of a wrong one.
pub struct JudgedGroup<'a> {
    /// The name of the way to ask.
    pub way: &'a str,
    /// The kind of memories that were asked: whole ones or sessions.
    pub memories: &'a str,
    pub judged: Vec<JudgedAnswer>,
}

/// How well the probability recognises a question that its memory has no answer to.
pub fn wrong_memory(situations: &[JudgedGroup<'_>]) -> Section {
    let note = "Every question is asked of its own memory and of another, which holds nothing that answers it. Relevant: evidence is in the \
                top 10. Kept: how many of the relevant answers are taken for relevant. Refused: how many of the others are not.";
    let heading = [
        "way",
        "memories",
        "searches",
        "base",
        "AUC",
        "Brier",
        "Brier of base",
        "kept",
        "refused",
    ];
    let mut section = Section::new("Asked of the wrong memory", note, &heading);
    for JudgedGroup {
        way,
        memories,
        judged,
    } in situations
    {
        let predictions: Vec<Prediction> = judged.iter().map(JudgedAnswer::prediction).collect();
        let (yes, no): (Vec<Prediction>, Vec<Prediction>) =
            predictions.iter().partition(|one| one.1);
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        let taken = |predictions: &[Prediction]| {
            predictions
                .iter()
                .filter(|one| one.0 >= RELEVANCE_THRESHOLD_PPM as f64 / PPM as f64)
                .count()
        };
        let kept = share(taken(&yes), yes.len());
        let refused = share(no.len() - taken(&no), no.len());
        let base = yes.len() as f64 / predictions.len().max(1) as f64;
        let shares = [
            Some(base),
            auc(&predictions),
            brier(&predictions),
            Some(base * (1.0 - base)),
            kept,
            refused,
        ]
        .map(Cell::share);
        section.rows.push(
            [
                vec![
                    Cell::text(*way),
                    Cell::text(*memories),
                    Cell::Count(predictions.len() as u64),
                ],
                shares.to_vec(),
            ]
            .concat(),
        );
    }
    section
}

/// The statistics of each tenth of the probabilities.
pub fn calibration(name: &str, judged: &[JudgedAnswer]) -> Section {
    let predictions: Vec<Prediction> = judged.iter().map(JudgedAnswer::prediction).collect();
    let title = format!("Calibration, {name}");
    let note = "Relevant: evidence is in the top 10. Of questions asked of their own memory and of another.";
    let mut section = Section::new(
        &title,
        note,
        &["probability", "searches", "told", "came true"],
    );
    for tenth in calibration_bins(&predictions) {
        let range = format!(
            "{}.{} to {}.{}",
            tenth.place / 10,
            tenth.place % 10,
            (tenth.place + 1) / 10,
            (tenth.place + 1) % 10
        );
        section.rows.push(vec![
            Cell::Text(range),
            Cell::Count(tenth.count as u64),
            Cell::Share(tenth.predicted),
            Cell::Share(tenth.observed),
        ]);
    }
    section
}

/// The constants fitted to this dataset, and their quality on memories that they were not fitted
/// to.
pub fn fitted(ways: &[(&str, Vec<JudgedAnswer>)]) -> Section {
    let note = "Relevant: evidence is in the top 10. \"Now\" is with the constants of this version, \"crossed\" with a fit to all other \
                memories. The rows are in thousandths, as the core keeps them.";
    let heading = [
        "way",
        "Row",
        "AUC now",
        "AUC fitted",
        "AUC crossed",
        "Brier now",
        "Brier fitted",
        "Brier crossed",
    ];
    let mut section = Section::new("Fit", note, &heading);
    for (name, judged) in ways {
        let samples: Vec<FitSample> = judged.iter().map(JudgedAnswer::sample).collect();
        let found = fit(&samples);
        let now: Vec<Prediction> = judged.iter().map(JudgedAnswer::prediction).collect();
        let best: Vec<Prediction> = samples
            .iter()
            .map(|one| (found.probability(&one.signals), one.relevant))
            .collect();
        let other = cross_validate(&samples);
        let SignalWeights {
            bias,
            lexical,
            cosine,
            margin,
            size,
        } = found.row();
        let constants = format!(
            "bias: {bias}, lexical: {lexical}, cosine: {cosine}, margin: {margin}, size: {size}"
        );
        let shares = [
            auc(&now),
            auc(&best),
            auc(&other),
            brier(&now),
            brier(&best),
            brier(&other),
        ]
        .map(Cell::share);
        section.rows.push(
            [
                vec![Cell::text(*name), Cell::Text(constants)],
                shares.to_vec(),
            ]
            .concat(),
        );
    }
    section
}
