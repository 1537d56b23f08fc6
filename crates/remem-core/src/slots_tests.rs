//! The table of procedures: which of them fill a slot, which share one, and which must not.

use super::*;

#[rustfmt::skip]
const FILLED: &[(&str, &str)] = &[
    ("Use Linear for tickets", "ticket|use"),
    ("Please use Jira for the tickets.", "ticket|use"),
    ("We use Linear for our tickets", "ticket|use"),
    ("From now on, use Linear for tickets", "ticket|use"),
    ("For tickets, use Linear", "ticket|use"),
    ("I prefer Linear for tickets", "ticket|use"),
    ("Always use spaces for indentation", "indentation|use"),
    ("Use the short template for release notes", "release_note|use_template"),
    ("For release notes, use British spelling", "release_note|use_spelling"),
    ("When writing release notes, use British spelling", "writing_release_note|use_spelling"),
    ("Use Czech for release notes", "release_note|language"),
    ("Format dates as ISO 8601", "date|format"),
    ("Always format dates as day-month-year", "date|format"),
    ("Send the weekly report as PDF", "weekly_report|format"),
    ("Send weekly reports in Markdown", "weekly_report|format"),
    ("Write release notes in Czech", "release_note|language"),
    ("Post alerts in #ops", "alert|channel"),
    ("Send alerts via email", "alert|channel"),
    ("Never deploy on Fridays", "deploy_on_friday|do"),
    ("We always deploy on Fridays", "deploy_on_friday|do"),
    ("Don't quote rule text", "quote_rule_text|do"),
    ("When reviewing rules, always check the sources", "reviewing_rule|do_check_source"),
    ("Never check sources when reviewing rules", "reviewing_rule|do_check_source"),
    ("Prefer tabs over spaces", "space_or_tab|prefer"),
    ("I prefer spaces over tabs", "space_or_tab|prefer"),
    ("When writing Python, prefer spaces over tabs", "writing_python|prefer_space_or_tab"),
];

#[rustfmt::skip]
const EMPTY: &[(&str, &str)] = &[
    ("no rule", "Linear is for tickets"),
    ("no rule", "Use Linear"),
    ("no rule", "Run the gate"),
    ("no rule", "Never mind"),
    ("no rule", "Always a pleasure to help"),
    ("no rule", ""),
    ("two tools", "Use Linear and Jira for tickets"),
    ("two purposes", "Use Linear for tickets and bugs"),
    ("a choice", "Use Linear or Jira for tickets"),
    ("additive", "Also use Jira for tickets, too"),
    ("conditional", "Use Linear for tickets if Otto agrees"),
    ("conditional", "If the gate is red, never promote"),
    ("temporary", "Use Linear for tickets until Monday"),
    ("temporary", "Use Linear for tickets for now"),
    ("temporary", "Never deploy today"),
    ("this one", "Use Linear for this ticket"),
    ("this one", "Send it as PDF"),
    ("whose?", "Use first names for us"),
    ("whose?", "Use dollars for US"),
    ("what letters do not tell", "Use rustfmt for C++"),
    ("what letters do not tell", "Use prettier for *.ts"),
    ("two statements", "Use Linear for tickets. Send reports as PDF"),
    ("two statements", "Use Linear for tickets, it is faster"),
    ("two statements", "Always sign commits, never force-push"),
    ("question", "Always use Linear for tickets?"),
    ("styles stand together", "Use bullets for reports"),
    ("styles stand together", "Use short sentences for reports"),
    ("whom it goes to", "Send reports to Nadia"),
    ("as whom", "Send invoices as Nadia"),
    ("where exactly", "Send alerts in Slack to Otto"),
    ("where exactly", "Save reports in the archive"),
    ("somebody else's", "Nadia prefers tea for breakfast"),
    ("an unnamed kind", "Use the one that Otto made for reports"),
    ("long", "Never ever deploy anything at all to the production cluster of the northern region on Fridays"),
    ("quoted", "\"Use Linear for tickets\""),
];

/// Rules that are valid side by side: no two of a row may share a slot.
#[rustfmt::skip]
const TRAPS: &[&[&str]] = &[
    &["Use British spelling for release notes", "Use the short template for release notes", "Use Slack for release notes"],
    &["Use Linear for tickets", "Use Linear for bugs", "Use Linear for tickets of Atlas", "Use Jira for old tickets"],
    &["When reviewing rules, always check sources", "When reviewing rules, always check dates", "When reviewing rules, always run the gate"],
    &["When reviewing rules, always check sources", "When drafting rules, always check sources", "Always check sources"],
    &["Never deploy on Fridays", "Never deploy on Mondays", "Never deploy", "Never deploy before Fridays", "Never deploy after Fridays"],
    &["Send reports as PDF", "Send reports in Slack", "Write reports in Czech", "Send weekly reports as PDF"],
    &["Never use tabs for indentation", "Never use spaces for indentation", "Use spaces for indentation"],
    &["Format dates as ISO", "Format times as ISO", "Format due dates as ISO"],
    &["Prefer tabs over spaces", "Prefer tabs over commas"],
    &["Always sign commits", "Always sign letters"],
    &["Use Linear for tickets in 2025", "Use Jira for tickets in 2026"],
];

#[test]
fn procedures_parse_to_a_slot() {
    for (text, slot) in FILLED {
        assert_eq!(procedural_slot(text).as_deref(), Some(*slot), "{text}");
    }
}

#[test]
fn ambiguous_procedures_have_no_slot() {
    for (reason, text) in EMPTY {
        assert_eq!(procedural_slot(text), None, "{reason}: {text}");
    }
}

#[test]
fn compatible_rules_never_share_a_slot() {
    for row in TRAPS {
        let mut slots: Vec<String> = row
            .iter()
            .filter_map(|text| procedural_slot(text))
            .collect();
        let all = slots.len();
        slots.sort();
        slots.dedup();
        assert_eq!(slots.len(), all, "{row:?}: {slots:?}");
    }
}

#[test]
fn semantic_slots_match_those_of_consolidation() {
    assert_eq!(
        semantic_slot("Nadia's role is now surgeon."),
        Some(("nadia|role".to_owned(), "surgeon".to_owned()))
    );
    assert_eq!(semantic_slot("Nadia likes tea"), None);
}

proptest::proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn a_slot_is_subject_and_class_and_ignores_politeness(text in "(always |never |use |for |when |prefer |send )?([a-zA-Z'#]{1,8}[ ,]? ?){0,12}(as|for|in|over)? ?[a-z ]{0,20}") {
        if let Some(slot) = procedural_slot(&text) {
            let (subject, class) = slot.split_once('|').unwrap();
            proptest::prop_assert!(!subject.is_empty() && !class.is_empty() && !slot.contains(' '), "{}", slot);
            proptest::prop_assert_eq!(procedural_slot(&format!("Please {}", text.trim())), Some(slot));
        }
    }
}
