//! The part of the memory API for workshop memory: slots, sessions, action links, retention, rules
//! of worlds, and profiles.

use super::forget::relative_doc;
use super::{LocalApi, WriteAnswer, engine_failure};
use async_trait::async_trait;
use remem_core::{Rejection, SessionId, Timestamp, sabotage};
use remem_engine::sessions::SessionInfo;
use remem_engine::worlds::NewRule;
use remem_store::{ActionLink, WorldRule};
use remem_wire::time::Instant;
use remem_wire::workshop::{
    EntryAudit, EntryFacets, InteractionClosed, LinkDoc, LinkPut, Linked, ProfileDoc, ProfileList,
    RetentionQuery, RetentionRow, RetentionStatus, RuleCheck, RuleChecked, RuleDoc, RuleList,
    RulePut, RulesPut, RulesQuery, RulesWritten, SessionDoc, SessionList, SlotAnswer, SlotHistory,
    SlotQuery,
};
use remem_wire::{Failure, MemoryEntry, Problem};

/// Workshop memory, on behalf of one caller.
#[async_trait]
pub trait WorkshopApi: Send + Sync {
    /// Returns every entry that has answered the question of a slot, oldest first.
    async fn history(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<SlotHistory, Failure>;
    /// Ends the validity of a slot's current answer, with no other in its place.
    async fn retract(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<WriteAnswer<()>, Failure>;
    /// Returns the sessions of a memory, the open one first, then the newest.
    async fn sessions(&self, memory_ref: &str) -> Result<SessionList, Failure>;
    /// Closes the open session of a memory: promotes what outlasts it and ends the rest.
    async fn close_session(&self, memory_ref: &str) -> Result<SessionDoc, Failure>;
    /// Closes an interaction (a chat thread) of a memory.
    async fn close_interaction(
        &self,
        memory_ref: &str,
        interaction: &str,
    ) -> Result<InteractionClosed, Failure>;
    /// Records that an action rests on an entry, so that the entry's text is held for audits.
    async fn link_action(
        &self,
        memory_ref: &str,
        id: &str,
        link: LinkPut,
    ) -> Result<WriteAnswer<Linked>, Failure>;
    /// Returns the state, lineage and action links of an entry, without its text.
    async fn audit(&self, memory_ref: &str, id: &str) -> Result<EntryAudit, Failure>;
    /// Counts entries by tier, kind and retention state.
    async fn retention(&self, query: RetentionQuery) -> Result<RetentionStatus, Failure>;
    /// Creates or replaces one rule of a world.
    async fn put_rule(
        &self,
        world: &str,
        id: &str,
        rule: RulePut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure>;
    /// Creates or replaces several rules of a world in one transaction: all or none.
    async fn put_rules(
        &self,
        world: &str,
        rules: RulesPut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure>;
    /// Deletes one rule of a world.
    async fn delete_rule(&self, world: &str, id: &str) -> Result<WriteAnswer<()>, Failure>;
    /// Returns a page of the rules of a world by name.
    async fn rules(&self, world: &str, query: RulesQuery) -> Result<RuleList, Failure>;
    /// Returns the rule that a text restates, if there is one.
    async fn check_rule(&self, world: &str, check: RuleCheck) -> Result<RuleChecked, Failure>;
    /// Returns the profiles of the host with the patterns of memory names that each applies to.
    async fn profiles(&self) -> Result<ProfileList, Failure>;
}

#[async_trait]
impl WorkshopApi for LocalApi {
    async fn history(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<SlotHistory, Failure> {
        let slot = slot_name(slot, query)?;
        let answers = self
            .engine
            .slot_history(&self.caller, memory_ref, &slot)
            .await
            .map_err(engine_failure)?;
        Ok(SlotHistory {
            answers: answers.into_iter().map(slot_answer).collect(),
        })
    }

    async fn retract(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<WriteAnswer<()>, Failure> {
        let slot = slot_name(slot, query)?;
        let revision = self
            .engine
            .retract_answer(&self.caller, memory_ref, &slot)
            .await
            .map_err(engine_failure)?;
        Ok(WriteAnswer {
            value: (),
            revision: revision.0.to_string(),
            replayed: false,
        })
    }

    async fn sessions(&self, memory_ref: &str) -> Result<SessionList, Failure> {
        let sessions = self
            .engine
            .list_sessions(&self.caller, memory_ref)
            .await
            .map_err(engine_failure)?;
        Ok(SessionList {
            sessions: sessions.into_iter().map(session_doc).collect(),
        })
    }

    async fn close_session(&self, memory_ref: &str) -> Result<SessionDoc, Failure> {
        self.engine
            .close_session(&self.caller, memory_ref)
            .await
            .map(session_doc)
            .map_err(engine_failure)
    }

    async fn close_interaction(
        &self,
        memory_ref: &str,
        interaction: &str,
    ) -> Result<InteractionClosed, Failure> {
        let closed = self
            .engine
            .close_interaction(&self.caller, memory_ref, interaction)
            .await
            .map_err(engine_failure)?;
        Ok(InteractionClosed {
            promoted: closed.promoted,
            ended: closed.ended,
            kept: closed.retained,
        })
    }

    async fn link_action(
        &self,
        memory_ref: &str,
        id: &str,
        link: LinkPut,
    ) -> Result<WriteAnswer<Linked>, Failure> {
        let done = self
            .engine
            .link_action(&self.caller, memory_ref, id, &link.action, &link.reference)
            .await;
        let (linked, revision) = done.map_err(engine_failure)?;
        let revision = revision.0.to_string();
        Ok(WriteAnswer {
            value: Linked {
                linked,
                revision: revision.clone(),
            },
            revision,
            replayed: false,
        })
    }

    async fn audit(&self, memory_ref: &str, id: &str) -> Result<EntryAudit, Failure> {
        let found = self
            .engine
            .audit_entry(&self.caller, memory_ref, id)
            .await
            .map_err(engine_failure)?;
        Ok(EntryAudit {
            id: id.to_owned(),
            memory_ref: self.full_name(memory_ref),
            state: found.lineage.state.as_str().to_owned(),
            replaced_by: found.lineage.replaced_by.map(|by| by.as_str().to_owned()),
            sources: found
                .lineage
                .sources
                .into_iter()
                .map(relative_doc)
                .collect(),
            derivatives: found
                .lineage
                .derivatives
                .into_iter()
                .map(relative_doc)
                .collect(),
            links: found.links.into_iter().map(link_doc).collect(),
        })
    }

    async fn retention(&self, query: RetentionQuery) -> Result<RetentionStatus, Failure> {
        let counts = self
            .engine
            .count_retention(&self.caller, query.memory_ref.as_deref())
            .await
            .map_err(engine_failure)?;
        let row = |count: remem_store::RetentionCount| RetentionRow {
            tier: count.tier.into(),
            typology: count.typology.into(),
            state: count.state.as_str().to_owned(),
            entries: count.entries,
        };
        Ok(RetentionStatus {
            counts: counts.into_iter().map(row).collect(),
        })
    }

    async fn put_rule(
        &self,
        world: &str,
        id: &str,
        rule: RulePut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure> {
        self.write_rules(
            world,
            vec![NewRule {
                id: id.to_owned(),
                body: rule.body,
            }],
        )
        .await
    }

    async fn put_rules(
        &self,
        world: &str,
        rules: RulesPut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure> {
        self.write_rules(
            world,
            rules
                .rules
                .into_iter()
                .map(|rule| NewRule {
                    id: rule.id,
                    body: rule.body,
                })
                .collect(),
        )
        .await
    }

    async fn delete_rule(&self, world: &str, id: &str) -> Result<WriteAnswer<()>, Failure> {
        let revision = self
            .engine
            .delete_rule(&self.caller, world, id)
            .await
            .map_err(engine_failure)?;
        Ok(WriteAnswer {
            value: (),
            revision: revision.0.to_string(),
            replayed: false,
        })
    }

    async fn rules(&self, world: &str, query: RulesQuery) -> Result<RuleList, Failure> {
        let (found, more) = self
            .engine
            .list_rules(&self.caller, world, query.after.as_deref(), query.limit)
            .await
            .map_err(engine_failure)?;
        let next_after = found
            .last()
            .filter(|_| more)
            .map(|last| last.id.as_str().to_owned());
        let doc = |rule: WorldRule| RuleDoc {
            id: rule.id.as_str().to_owned(),
            body: rule.body,
            at: Instant(rule.at),
        };
        Ok(RuleList {
            rules: found.into_iter().map(doc).collect(),
            next_after,
        })
    }

    async fn check_rule(&self, world: &str, check: RuleCheck) -> Result<RuleChecked, Failure> {
        let found = self
            .engine
            .find_restated_rule(&self.caller, world, &check.text)
            .await
            .map_err(engine_failure)?;
        Ok(RuleChecked {
            shadowed: found.map(|rule| rule.as_str().to_owned()),
        })
    }

    async fn profiles(&self) -> Result<ProfileList, Failure> {
        let mut profiles: Vec<ProfileDoc> = Vec::new();
        for (pattern, profile) in self
            .engine
            .profiles(&self.caller)
            .map_err(engine_failure)?
            .all()
        {
            // Two profiles always exist and have no pattern: the first applies to every shared
            // memory that no pattern matches, the second to every such memory of one user.
            let default_pattern = if profiles.is_empty() { "*" } else { "~/*" };
            let name = pattern.unwrap_or(default_pattern).to_owned();
            match profiles
                .iter_mut()
                .find(|doc| pattern.is_some() && doc.name == profile.name)
            {
                Some(doc) => doc.patterns.push(name),
                None => profiles.push(ProfileDoc::new(profile, vec![name])),
            }
        }
        Ok(ProfileList { profiles })
    }
}

impl LocalApi {
    async fn write_rules(
        &self,
        world: &str,
        rules: Vec<NewRule>,
    ) -> Result<WriteAnswer<RulesWritten>, Failure> {
        let written = rules.len() as u64;
        let revision = self
            .engine
            .put_rules(&self.caller, world, rules)
            .await
            .map_err(engine_failure)?
            .0
            .to_string();
        Ok(WriteAnswer {
            value: RulesWritten {
                written,
                revision: revision.clone(),
            },
            revision,
            replayed: false,
        })
    }
}

/// Returns the stored name of a slot: a slot of one session has the session's name before its own.
fn slot_name(slot: &str, query: SlotQuery) -> Result<String, Failure> {
    let Some(session) = query.session else {
        return Ok(slot.to_owned());
    };
    let malformed = || {
        Failure::from(Problem::Rejected(Rejection::MalformedName {
            field: "session",
        }))
    };
    let session = SessionId::parse(&session).ok_or_else(malformed)?;
    Ok(format!("{session}|{slot}"))
}

fn slot_answer(answer: remem_store::WholeEntry) -> SlotAnswer {
    SlotAnswer {
        entry: MemoryEntry::from(&answer.entry),
        facets: EntryFacets::from(&answer.entry),
        state: answer.state.as_str().to_owned(),
        ended_at: answer.ended_at.map(Instant),
        replaced_by: answer.replaced_by.map(|by| by.as_str().to_owned()),
    }
}

fn link_doc(link: ActionLink) -> LinkDoc {
    let by = link.by.map(|by| by.as_str().to_owned());
    LinkDoc {
        action: link.action,
        reference: link.reference,
        at: Instant(link.at),
        by,
    }
}

fn session_doc(session: SessionInfo) -> SessionDoc {
    let at = |ms: i64| Instant(Timestamp(ms));
    SessionDoc {
        memory_ref: session.memory_ref,
        session_id: session.session_id,
        state: session.state.as_str().to_owned(),
        opened_at: at(session.opened_at),
        activity_at: at(session.activity_at),
        closed_at: session.closed_at.map(at),
        promoted: session.promoted,
        ended: session.ended,
        kept: session.kept,
    }
}

impl LocalApi {
    /// Returns the name of a memory as answers give it: a caller may write `~/name` for
    /// `~user/name`.
    pub(super) fn full_name(&self, memory_ref: &str) -> String {
        let known = sabotage!(
            "own-memory-short-name",
            self.caller.memory_ref(memory_ref),
            None
        );
        known.map_or_else(|| memory_ref.to_owned(), |name| name.as_str().to_owned())
    }
}
