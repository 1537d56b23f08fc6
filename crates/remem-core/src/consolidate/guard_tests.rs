//! The table of pairs: texts that merge, texts that must not, and why. Each pair has a long common
//! ending, so that the trigram measure lets all of them through and the guard alone decides.

use super::*;

const ENDING: &str = " as the minutes of the weekly planning meeting say which the whole platform team attended in the big room upstairs \
    last spring before everybody left for the workshop by the lake with its boats and long wooden tables under old trees";

/// Differences that do not change the statement.
#[rustfmt::skip]
const SAME: &[(&str, &str, &str)] = &[
    ("identical", "Vera keeps the spare key", "Vera keeps the spare key"),
    ("case of the first letter", "Vera keeps the spare key", "vera keeps the spare key"),
    ("case of a name", "the spare key is with Vera", "the spare key is with vera"),
    ("comma", "Vera keeps the spare key, always", "Vera keeps the spare key always"),
    ("full stop", "Vera keeps the spare key.", "Vera keeps the spare key"),
    ("exclamation", "Vera keeps the spare key!", "Vera keeps the spare key"),
    ("quotes", "Vera keeps the \"spare\" key", "Vera keeps the spare key"),
    ("curly quotes", "Vera keeps the “spare” key", "Vera keeps the spare key"),
    ("brackets", "Vera (the cook) keeps the key", "Vera the cook keeps the key"),
    ("spaces", "Vera  keeps\tthe spare   key", "Vera keeps the spare key"),
    ("line break", "Vera keeps\nthe spare key", "Vera keeps the spare key"),
    ("bullet", "- Vera keeps the spare key", "Vera keeps the spare key"),
    ("emphasis", "Vera keeps the **spare** key", "Vera keeps the spare key"),
    ("dash between clauses", "Vera keeps the key — the spare one", "Vera keeps the key the spare one"),
    ("hyphen", "Vera keeps the left-hand key", "Vera keeps the left hand key"),
    ("article left out", "Vera keeps the spare key", "Vera keeps spare key"),
    ("another article", "Vera keeps the spare key", "Vera keeps a spare key"),
    ("filler", "Vera actually keeps the spare key", "Vera keeps the spare key"),
    ("politeness", "Please give Vera the spare key", "Give Vera the spare key"),
    ("opener", "Note: Vera keeps the spare key", "Vera keeps the spare key"),
    ("opener with that", "Note that Vera keeps the spare key", "Vera keeps the spare key"),
    ("degree", "Vera keeps a very old key", "Vera keeps an old key"),
    ("contraction", "Vera doesn't keep the spare key", "Vera does not keep the spare key"),
    ("curly apostrophe", "Vera doesn’t keep the key", "Vera doesn't keep the key"),
    ("can't and cannot", "Vera can't keep the key", "Vera cannot keep the key"),
    ("cannot in two words", "Vera cannot keep the key", "Vera can not keep the key"),
    ("won't", "Vera won't keep the key", "Vera will not keep the key"),
    ("and for a comma", "keys, maps and boats", "keys and maps and boats"),
    ("punctuation after a number", "Vera keeps 3 keys (of 5)", "Vera keeps 3 keys of 5,"),
    ("code marks", "run `make` first", "run make first"),
];

/// Differences that change the statement.
#[rustfmt::skip]
const OTHER: &[(&str, &str, &str)] = &[
    ("number", "Vera keeps 3 keys", "Vera keeps 4 keys"),
    ("number of digits", "the fee is 100 euros", "the fee is 1000 euros"),
    ("decimal", "the dose is 1.5 grams", "the dose is 15 grams"),
    ("sign", "it was -5 degrees", "it was 5 degrees"),
    ("typographic sign", "it was –5 degrees", "it was 5 degrees"),
    ("fraction", "add ½ cup", "add ¼ cup"),
    ("exponent", "the plot has 20 m²", "the plot has 20 m³"),
    ("number word", "Vera keeps two keys", "Vera keeps three keys"),
    ("ordinal word", "take the first exit", "take the second exit"),
    ("date", "due on 2026-03-01", "due on 2026-03-10"),
    ("month", "due in March", "due in May"),
    ("weekday", "due on Monday", "due on Sunday"),
    ("time of day", "meet at 10:30", "meet at 10:50"),
    ("am and pm", "meet at 9 am", "meet at 9 pm"),
    ("unit", "walk 5 km", "walk 5 mi"),
    ("unit prefix", "wait 5 ms", "wait 5 s"),
    ("currency", "it costs $5", "it costs €5"),
    ("percent", "a share of 5%", "a share of 5"),
    ("comparison", "if load > 5 then stop", "if load < 5 then stop"),
    ("negation", "Vera does keep the key", "Vera does not keep the key"),
    ("negated contraction", "Vera did keep the key", "Vera didn't keep the key"),
    ("can and cannot", "Vera can keep the key", "Vera cannot keep the key"),
    ("never", "Vera keeps the key", "Vera never keeps the key"),
    ("without", "tea with milk", "tea without milk"),
    ("except", "all rooms and the attic", "all rooms except the attic"),
    ("unless", "stop if it rains", "stop unless it rains"),
    ("no", "there is milk", "there is no milk"),
    ("enabled", "the alarm is enabled", "the alarm is disabled"),
    ("on and off", "the alarm is on", "the alarm is off"),
    ("before and after", "eat before the talk", "eat after the talk"),
    ("allow and deny", "allow guests", "deny guests"),
    ("increase and decrease", "increase the load", "decrease the load"),
    ("true and false", "strict mode is true", "strict mode is false"),
    ("yes and no", "the answer is yes", "the answer is no"),
    ("up and down", "the price went up", "the price went down"),
    ("all and some", "all guests eat fish", "some guests eat fish"),
    ("only", "Vera has a key", "only Vera has a key"),
    ("just, which may mean only", "Vera has a key", "just Vera has a key"),
    ("and and or", "tea and coffee", "tea or coffee"),
    ("must and may", "guests must pay", "guests may pay"),
    ("tense", "Vera is the cook", "Vera was the cook"),
    ("past", "Vera lives here", "Vera lived here"),
    ("is and has", "the node has root", "the node is root"),
    ("hedge", "Vera keeps the key", "Vera probably keeps the key"),
    ("time", "Vera keeps the key", "Vera now keeps the key"),
    ("name", "Vera keeps the key", "Vela keeps the key"),
    ("swapped names", "Vera lent Otto money", "Otto lent Vera money"),
    ("swapped names in lower case", "vera lent otto money", "otto lent vera money"),
    ("swapped nouns", "the cat chased the dog", "the dog chased the cat"),
    ("direction", "trains from Rome to Bonn", "trains from Bonn to Rome"),
    ("colour", "the blue door", "the green door"),
    ("added word", "guests get soup", "senior guests get soup"),
    ("question", "Vera keeps the key.", "Vera keeps the key?"),
    ("version", "use v1.2", "use v1.3"),
    ("identifier with a digit", "host db7 is slow", "host db8 is slow"),
    ("case of an identifier", "call getUser first", "call getuser first"),
    ("underscore", "set max_size here", "set max_rate here"),
    ("underscore or words", "set max_size here", "set max size here"),
    ("path", "look into /var/log/a", "look into /var/lib/a"),
    ("file ending", "open notes.txt", "open notes.csv"),
    ("e-mail", "write to vera@a.example", "write to vera@b.example"),
    ("link", "see https://a.example/x", "see https://a.example/y"),
    ("flag", "pass --force", "pass force"),
    ("language names of symbols", "written in C++ here", "written in C# here"),
    ("acronym", "send it to the US office", "send it to us office"),
    ("acronym that spells a filler", "ask the OK team", "ask the ok team"),
    ("single capital", "take vitamin A daily", "take vitamin daily"),
    ("emoji", "the vote was 👍", "the vote was 👎"),
    ("accent", "the résumé is there", "the resume is there"),
    ("non-prefix", "a non-smoking room", "a smoking room"),
];

fn pair(a: &str, b: &str) -> (MergeItem, MergeItem) {
    (
        MergeItem::plain(format!("{a}{ENDING}")),
        MergeItem::plain(format!("{b}{ENDING}")),
    )
}

#[test]
fn equivalent_texts_merge() {
    for (reason, a, b) in SAME {
        let (a, b) = pair(a, b);
        assert!(
            may_merge(&a, &b).is_some() && may_merge(&b, &a).is_some(),
            "{reason}: {:?}",
            normal_form(&b.text)
        );
    }
}

#[test]
fn similar_texts_with_different_meaning_never_merge() {
    for (reason, a, b) in OTHER {
        let (a, b) = pair(a, b);
        assert!(
            is_near(intersection_and_union(
                &trigrams(&a.text),
                &trigrams(&b.text)
            )),
            "{reason}: the measure decides already, so this shows nothing"
        );
        assert!(
            may_merge(&a, &b).is_none() && may_merge(&b, &a).is_none(),
            "{reason}"
        );
    }
}

#[test]
fn an_upper_case_copy_merges() {
    let (a, _) = pair("Vera keeps the spare key", "");
    assert!(may_merge(&a, &MergeItem::plain(a.text.to_uppercase())).is_some());
}

#[test]
fn the_similarity_threshold_is_inclusive_and_exact() {
    assert!(is_near((17, 20)) && is_near((18, 20)) && is_near((34, 40)));
    assert!(!is_near((16, 20)) && !is_near((169_999, 200_000)) && !is_near((0, 0)));
    let short = (
        MergeItem::plain("ok so the a an really very tea"),
        MergeItem::plain("so tea"),
    );
    assert_eq!(normal_form(&short.0.text), normal_form(&short.1.text));
    assert!(
        may_merge(&short.0, &short.1).is_none(),
        "too little is left in common"
    );
}

#[test]
fn a_merge_never_loses_tags_or_metadata() {
    let item = |tags: &[&str], metadata: Option<&str>| MergeItem {
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        metadata: metadata.map(str::to_owned),
        ..MergeItem::plain("Vera keeps the spare key")
    };
    let merges = |member: &MergeItem, leader: &MergeItem| may_merge(member, leader).is_some();
    let bare = item(&[], None);
    let home = item(&["home", "source:chat"], None);
    assert!(merges(&bare, &home) && !merges(&home, &bare));
    assert!(merges(&home, &item(&["work", "home"], None)));
    assert!(merges(
        &item(&["source:a", "compacted-from:b"], None),
        &bare
    ));
    assert!(merges(&bare, &item(&[], Some("{}"))) && !merges(&item(&[], Some("{}")), &bare));
    assert!(!merges(
        &item(&[], Some("{\"a\":1}")),
        &item(&[], Some("{\"a\":2}"))
    ));
}

#[test]
fn the_filler_table_is_sorted() {
    assert!(FILLERS.is_sorted());
}

#[test]
fn untrusted_and_trusted_entries_never_merge() {
    let tagged = |text: &str| MergeItem {
        tags: vec!["source:untrusted".into()],
        ..MergeItem::plain(text)
    };
    let text = "The build of the release branch takes about twenty minutes.";
    assert!(may_merge(&MergeItem::plain(text), &MergeItem::plain(text)).is_some());
    assert!(may_merge(&tagged(text), &tagged(text)).is_some());
    assert!(
        may_merge(&MergeItem::plain(text), &tagged(text)).is_none(),
        "it would stand for what is trusted"
    );
    assert!(
        may_merge(&tagged(text), &MergeItem::plain(text)).is_none(),
        "it would be trusted"
    );
    let role = "Nadia's role is tester";
    assert_ne!(
        crate::consolidate::slot::slot_digests(&MergeItem::plain(role)).0,
        0
    );
    assert_eq!(
        crate::consolidate::slot::slot_digests(&tagged(role)),
        (0, 0),
        "it supersedes nothing"
    );
}
