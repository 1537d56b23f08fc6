//! The table of sentences: with the classification of each.

use super::phrase::Sentence;
use super::*;

#[rustfmt::skip]
const STATED: &[&str] = &[
    "Always use tabs",
    "please always sign commits",
    "Never deploy on Fridays",
    "Ok, so never merge without a review",
    "I always start with the failing test",
    "We never page people at night",
    "Don't send drafts to customers",
    "Do not quote rule text in notes",
    "Prefer short sentences",
    "I prefer tables over lists",
    "I'd rather get one mail than five",
    "The operator prefers dark mode",
    "Nadia prefers tea",
    "From now on the weekly note goes to the whole team",
    "Going forward, send it in Slack",
    "Send the note in Slack from now on",
    "When reviewing rules, I check the sources first",
    "When reviewing rules I check the sources first",
    "Whenever a scan fails, open a ticket",
    "Before every release, run the gate",
    "When reviewing rules, check the sources",
    "If coverage drops, never promote the rule",
    "When a scan fails I open a ticket",
    "For release notes, use British spelling",
    "When we deploy we watch the graphs",
    "Use Linear for tickets",
    "We use Linear for tickets",
    "Use Linear instead of Jira",
    "Format dates as ISO 8601",
    "Send reports in Markdown",
    "write release notes in Czech",
];

#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "I usually start with the diff",
    "Make sure the tests pass",
    "Avoid long meetings",
    "Run the gate",
    "Review the queue",
    "Use Linear for tickets this week",
    "Never deploy today",
    "Don't do that",
    "don't forget to sign it",
    "Send the report to Otto",
    "Keep answers short",
    "When you are done, send me the link",
    "Before the release, run the gate",
    "If coverage drops, don't promote the rule",
    "Don't merge the branch",
    "Send the report in Slack",
    "For the demo, use staging",
];

#[rustfmt::skip]
const NEITHER: &[&str] = &[
    "Never mind",
    "never again",
    "Always a pleasure",
    "Always happy to help",
    "I never said that",
    "We always wanted a dog",
    "I never got an answer",
    "The server always crashes at noon",
    "Should we always use tabs?",
    "\"Always use tabs\" is what the guide says",
    "Otto says to always use tabs",
    "You don't always need a review",
    "don't worry about it",
    "I don't know yet",
    "don't think so",
    "When the build broke, we went home",
    "When the build failed we rolled it back",
    "When it lands, I'll tell you",
    "When was the last release",
    "Use of tabs is discouraged",
    "Use case for reports",
    "Format: PDF",
    "Format errors are shown in red",
    "Build fails on main",
    "Review done",
    "Release notes are due on Friday",
    "Test coverage is 80 percent",
    "Deploy is blocked",
    "The gate covers world X",
    "Nadia's role is surgeon",
    "For breakfast, Nadia had tea",
    "Run was green",
    "The preferred language is Czech",
    "We met at noon",
    "For context, I work on Atlas",
    "On Monday, I fly to Vienna",
    "If I remember correctly, we met before",
    "When I look at it, I think it works",
    "You always forget the tests",
    "Otto said Nadia prefers tea",
];

/// The sentences whose classification is wrong.
fn wrong<'a>(table: &[&'a str], expected: Option<Habit>) -> Vec<&'a str> {
    table
        .iter()
        .filter(|text| classify_habit(&Sentence::parse(text).unwrap()) != expected)
        .copied()
        .collect()
}

#[test]
fn explicit_rules_are_lasting_habits() {
    assert_eq!(wrong(STATED, Some(Habit::Lasting)), [""; 0]);
}

#[test]
fn plain_requests_and_customs_are_casual_habits() {
    assert_eq!(wrong(PLAIN, Some(Habit::Casual)), [""; 0]);
}

#[test]
fn other_sentences_are_not_habits() {
    assert_eq!(wrong(NEITHER, None), [""; 0]);
}
