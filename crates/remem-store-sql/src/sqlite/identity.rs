//! The actor of a statement or a batch, and the functions of the host that the schema calls: the
//! counterpart of row-level security and pg_trgm on PostgreSQL. A connection without these
//! functions can write nothing.
//!
//! A connection is used by one thread at a time and only inside `as_actor`, so the name of the
//! actor is thread-local: it is set while the work runs and gone afterwards, even if the work
//! panics.

use remem_core::Actor;
use remem_core::sabotage;
use remem_core::trgm::{Trigrams, is_guarded};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result};
use std::cell::RefCell;

thread_local! {
    static USER: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// SQL condition: the rows of a table with owners that the actor may see.
pub(super) fn visible_to_actor(table: &str) -> String {
    format!("({table}.owner IS NULL OR app_user_id() IN ({table}.owner, '*'))")
}

/// Runs `work` as this actor.
pub(super) fn as_actor<T>(actor: &Actor, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<String>);
    impl Drop for Restore {
        fn drop(&mut self) {
            USER.set(self.0.take());
            LAST_TRIGRAMS.take(); // what a caller wrote does not outlive its statements
        }
    }
    let name = Some(actor.as_str())
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    let _restore = Restore(USER.replace(name));
    work()
}

/// Gives a connection the functions that the schema calls. INNOCUOUS, because the schema is not
/// trusted to call anything else; the actor changes between statements, so `app_user_id` is not
/// deterministic.
pub(super) fn register(db: &Connection) -> Result<()> {
    let plain = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let pure = plain | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("app_user_id", 0, plain, |_| {
        Ok(USER.with_borrow(Clone::clone))
    })?;
    // A function of the host, since SQLite's own `length` ends at U+0000.
    db.create_scalar_function("trgm_guarded", 1, pure, |args| {
        Ok(is_guarded(
            args.get_raw(0).as_str().map_err(|_| unreadable())?,
        ))
    })?;
    db.create_scalar_function("trgm_least", 1, pure, |args| {
        trigrams(args, 0, |computed| {
            *computed.restating_sizes().start() as u64
        })
    })?;
    db.create_scalar_function("trgm_most", 1, pure, |args| {
        trigrams(args, 0, |computed| *computed.restating_sizes().end() as u64)
    })?;
    db.create_scalar_function("trgm_shadows", 2, pure, |args| {
        let rule = args.get_raw(0).as_blob().map_err(|_| unreadable())?;
        trigrams(args, 1, |computed| computed.restates_stored(rule))?.ok_or_else(unreadable)
    })
}

fn unreadable() -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(0, String::new(), rusqlite::types::Type::Blob)
}

thread_local! {
    /// The last text whose trigrams were computed on this thread, and the trigrams.
    static LAST_TRIGRAMS: RefCell<(String, Trigrams)> = RefCell::default();
}

/// Calls `ask` with the trigrams of the text in an argument. A statement needs those of the same
/// text for every rule of a world, so they are computed once and not a thousand times.
fn trigrams<T>(args: &Context<'_>, argument: usize, ask: impl FnOnce(&Trigrams) -> T) -> Result<T> {
    let text = args.get_raw(argument).as_str().map_err(|_| unreadable())?;
    LAST_TRIGRAMS.with_borrow_mut(|(cached_text, computed)| {
        if sabotage!(
            "a-text-is-taken-apart-for-every-rule",
            cached_text != text,
            true
        ) {
            #[cfg(test)]
            tests::TAKEN_APART.set(tests::TAKEN_APART.get() + 1);
            *computed = Trigrams::of(text);
            text.clone_into(cached_text);
        }
        Ok(ask(computed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::PrincipalId;
    use std::cell::Cell;

    thread_local! {
        /// How often the trigrams of a text were computed on this thread.
        pub(super) static TAKEN_APART: Cell<u64> = const { Cell::new(0) };
    }

    fn user() -> Option<String> {
        USER.with_borrow(Clone::clone)
    }

    #[test]
    fn as_actor_restores_the_previous_actor_even_on_panic() {
        let ada = Actor::User(PrincipalId::parse("ada").unwrap());
        as_actor(&ada, || {
            assert_eq!(user().as_deref(), Some("ada"));
            as_actor(&Actor::Host, || assert_eq!(user().as_deref(), Some("*")));
            assert_eq!(user().as_deref(), Some("ada"));
            as_actor(&Actor::NoUser, || assert_eq!(user(), None));
        });
        assert_eq!(user(), None);
        let panicked = std::panic::catch_unwind(|| as_actor(&Actor::Host, || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(user(), None);
    }

    #[test]
    fn trigrams_of_a_text_are_computed_once_per_statement() {
        let db = Connection::open_in_memory().unwrap();
        register(&db).unwrap();
        db.execute_batch("CREATE TABLE rule (trigrams BLOB)")
            .unwrap();
        for n in 0..1_000 {
            let rule = Trigrams::of(&format!("Every payment above {n} needs two signatures."));
            db.execute("INSERT INTO rule VALUES (?1)", [rule.to_bytes()])
                .unwrap();
        }
        let text = "Every payment above 17 needs two signatures.";
        as_actor(&Actor::Host, || {
            let sql = "SELECT count(*) FROM rule WHERE trgm_shadows(trigrams, ?1) AND trgm_least(?1) <= trgm_most(?1)";
            let before = TAKEN_APART.get();
            let shadowing: u32 = db.query_row(sql, [text], |row| row.get(0)).unwrap();
            assert!(shadowing > 0);
            assert_eq!(TAKEN_APART.get() - before, 1);
        });
    }
}
