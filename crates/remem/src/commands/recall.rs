//! `remem search` and `remem recall`.

use super::api;
use super::entries::row;
use crate::cli::{GlobalArgs, RecallArgs, SearchArgs};
use crate::output::{self, escape_controls};
use remem_wire::MemoryEntry;
use remem_wire::memory::{SearchAnswer, SearchHit, SearchRequest};
use remem_wire::recall::{RecallRequest, ScoreParts};

const HEADING: [&str; 7] = ["SCORE", "ID", "CREATED", "KIND", "VALID", "TAGS", "CONTENT"];
const PARTS: [&str; 8] = [
    "WORDS", "MEANING", "MEANT", "CONTEXT", "RECENCY", "TIER", "SUPPORT", "USAGE",
];

pub async fn search(global: &GlobalArgs, search: &SearchArgs) -> anyhow::Result<()> {
    let by = &search.by;
    let which = &search.which;
    let request = SearchRequest {
        query: search.query.join(" "),
        limit: Some(search.limit),
        tags: by.tags.clone(),
        created_from: by.from,
        created_to: by.to,
        at_least: by.at_least.clone(),
        mode: by.mode.clone(),
        include: Some("facets".to_owned()).filter(|_| !global.json || which.facets),
        as_of: which.as_of,
        tier: which.tier,
        typology: which.typology,
        interaction: which.interaction.clone(),
        session: which.session.clone(),
        time: by.time.clone(),
        explain: search.explain,
        neighbours: search.neighbours,
        per_source: by.per_source,
        abstain: search.abstain,
    };
    let answer = api(global)
        .await?
        .search(&search.memory_ref, request)
        .await?;
    if global.json {
        return output::json(&answer);
    }
    let no_rows = if search.abstain {
        format!("nothing relevant (probability {:.2})", answer.probability)
    } else {
        "nothing found".to_owned()
    };
    let heading: Vec<&str> = if search.explain {
        [&HEADING[..1], &PARTS, &HEADING[1..]].concat()
    } else {
        HEADING.to_vec()
    };
    let rows = answer
        .hits
        .iter()
        .flat_map(|hit| hit_rows(hit, search.explain));
    output::table(&heading, rows.collect(), &no_rows);
    print_summary(&answer);
    Ok(())
}

/// Renders a hit as rows: its neighbours before it, the hit, those after it, in the order in which
/// they were written.
fn hit_rows(hit: &SearchHit, explain: bool) -> Vec<Vec<String>> {
    let blank = |mark: &str| {
        [
            vec![mark.to_owned()],
            vec![String::new(); if explain { PARTS.len() } else { 0 }],
        ]
        .concat()
    };
    let neighbour = |mark: &str, entry: &MemoryEntry| [blank(mark), row(entry, None)].concat();
    let mut scores = vec![format!("{:.3}", hit.score)];
    scores.extend(hit.parts.iter().flat_map(numbers));
    let mut rows: Vec<Vec<String>> = hit
        .before
        .iter()
        .rev()
        .map(|entry| neighbour("before", entry))
        .collect();
    rows.push([scores, row(&hit.entry, hit.facets.as_ref())].concat());
    rows.extend(hit.after.iter().map(|entry| neighbour("after", entry)));
    rows
}

fn numbers(parts: &ScoreParts) -> [String; 8] {
    let ScoreParts {
        lexical,
        meaning,
        typo,
        context,
        recency,
        tier,
        corroboration,
        usage,
    } = parts;
    [
        lexical,
        meaning,
        typo,
        context,
        recency,
        tier,
        corroboration,
        usage,
    ]
    .map(|part| format!("{part:.3}"))
}

/// Prints how probable a relevant hit is, and the time that was read in the query. It goes to
/// standard error, so that programs read the table alone.
fn print_summary(answer: &SearchAnswer) {
    if let Some(when) = &answer.when {
        let only = if answer.hits.is_empty() || !when.applied {
            ""
        } else {
            "; only entries of that time are shown"
        };
        eprintln!("dates in the query: {} to {}{only}", when.from, when.until);
    }
    if !answer.hits.is_empty() {
        let sure = if answer.relevant {
            ""
        } else {
            ": probably not relevant"
        };
        eprintln!(
            "{}, probability {:.2}{sure}",
            answer.mode, answer.probability
        );
    }
}

pub async fn recall(global: &GlobalArgs, recall: &RecallArgs) -> anyhow::Result<()> {
    let by = &recall.by;
    let which = &recall.which;
    let request = RecallRequest {
        query: recall.query.join(" "),
        token_budget: Some(recall.budget),
        standing: Some(!recall.no_standing),
        limit: Some(recall.limit),
        abstain: Some(!recall.no_abstain),
        mode: by.mode.clone(),
        time: by.time.clone(),
        per_source: by.per_source,
        tags: by.tags.clone(),
        created_from: by.from,
        created_to: by.to,
        at_least: by.at_least.clone(),
        as_of: which.as_of,
        tier: which.tier,
        typology: which.typology,
        interaction: which.interaction.clone(),
        session: which.session.clone(),
    };
    let answer = api(global)
        .await?
        .recall(&recall.memory_ref, request)
        .await?;
    if global.json {
        return output::json(&answer);
    }
    print!("{}", escape_controls(&answer.text));
    let entries = answer.ids.len();
    let probability = answer.probability;
    let entries = output::count(entries as u64, "entry", "entries");
    let sure = match (answer.relevant, recall.no_abstain) {
        (true, _) => "",
        (false, true) => ": probably not relevant",
        (false, false) => ": nothing relevant (--no-abstain shows the nearest)",
    };
    eprintln!(
        "{} of {} tokens, {entries}, probability {probability:.2}{sure}",
        answer.tokens, answer.token_budget
    );
    Ok(())
}
